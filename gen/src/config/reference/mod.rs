//! Every key of a scenario, once: what the reader knows it by, what `docs/scenario.md` says of it, and what its
//! JSON Schema is made of.
//!
//! The reader takes names, bounds of whole numbers and words from here, and refuses in tests to read a key as
//! something else than is said.  The tables of the reference between two comments `keys` are written by
//! `ROCEGEN_WRITE=1 cargo test -p roce-gen --test reference`, which without the variable says what differs.

mod congestion;
mod flow;
mod network;
mod run;
mod schema;

pub(super) use congestion::{DCQCN, NOTIFICATION};
pub(super) use flow::{EXPECT, FLOW, REPLAY};
pub(super) use network::{CLIFF, FABRIC, IMPAIR, LINK, STORM};
pub(super) use run::{CONNECT, PFC, PORT, RUN};
pub use schema::scenario_schema;

use std::fmt::Write;

/// TOML has 64-bit signed integers.
pub(super) const MAX: u64 = i64::MAX as u64;

/// A key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What holds where it is left out, as the reference has it.
    pub default: &'static str,
    /// What it means, and its limits.
    pub text: &'static str,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A time with its unit.
    Time,
    /// A share, as a number or in per cent.
    Share,
    /// Bytes.
    Size,
    /// Bits a second.
    BitRate,
    /// What a flow may be paced by.
    FlowRate,
    /// A whole number within bounds, both included.
    Whole(u64, u64),
    /// True or false.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name of one's own.
    Name,
    /// Something else: what the reference calls it, and how it is written.
    Odd(&'static str, Shape),
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    Text,
    /// Text or a list of it.
    Texts,
    /// A list of text.
    List,
    /// A list of whole numbers.
    Wholes,
    /// A list of shares.
    Shares,
    /// A number or text.
    Any,
    /// True, false or a whole number.
    FlagOrWhole,
    /// A path MTU.
    PathMtu,
    /// A table.
    Table,
    /// A list of text, or a table of it.
    ListOrTable,
    /// A list of tables.
    Tables,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, text: &'static str) -> Key {
    Key { name, kind, default, text }
}

/// The names of keys, for whoever only asks whether a key is known.
pub(super) const fn names<const N: usize>(keys: &[Key; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = keys[i].name;
        i += 1;
    }
    names
}

/// All sections, by the name that they have in `docs/scenario.md`, and their keys.  Where the reference has two
/// tables of a section, each is here.
pub fn sections() -> [(&'static str, &'static [Key]); 15] {
    [
        ("run", &RUN),
        ("port", &PORT),
        ("port.pfc", &PFC),
        ("flow", &FLOW),
        ("replay", &REPLAY),
        ("expect", &EXPECT),
        ("connect", &CONNECT),
        ("impair which", &IMPAIR[..WHICH]),
        ("impair what", &IMPAIR[WHICH..]),
        ("link", &LINK),
        ("fabric", &FABRIC),
        ("storm", &STORM),
        ("cliff", &CLIFF),
        ("dcqcn", &DCQCN),
        ("notification", &NOTIFICATION),
    ]
}

/// Keys of `impair` that say which packets; the others say what happens to them.
const WHICH: usize = 7;

impl Kind {
    /// What the reference calls it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Share => "share",
            Kind::Size => "size",
            Kind::BitRate => "bit rate",
            Kind::FlowRate => "flow rate",
            Kind::Whole(..) => "whole number",
            Kind::Flag => "flag",
            Kind::Word(_) => "word",
            Kind::Name => "name",
            Kind::Odd(word, _) => word,
        }
    }
}

/// The table of a section in the reference.
pub fn table(keys: &[Key]) -> String {
    let mut out = String::from("| key | type | default | limits and meaning |\n|---|---|---|---|\n");
    for k in keys {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", k.name, k.kind.word(), k.default, k.text);
    }
    out
}

/// The bounds of a whole number, those of the first section that has the key.
pub(super) fn bounds(name: &str) -> Option<(u64, u64)> {
    all(name).find_map(|k| match k.kind {
        Kind::Whole(min, max) => Some((min, max)),
        // A count of receive requests, where it is one.
        Kind::Odd(_, Shape::FlagOrWhole) => Some((1, 1 << 29)),
        _ => None,
    })
}

/// Whether a key is true or false wherever it occurs.
pub(super) fn is_flag(name: &str) -> bool {
    let mut keys = all(name).peekable();
    keys.peek().is_some() && keys.all(|k| k.kind == Kind::Flag)
}

/// Whether a key of this name, if there is one, may be read so.
pub(super) fn may_be(name: &str, is: impl Fn(Kind) -> bool) -> bool {
    let mut keys = all(name).peekable();
    keys.peek().is_none() || keys.any(|k| is(k.kind))
}

fn all(name: &str) -> impl Iterator<Item = &'static Key> {
    sections().into_iter().flat_map(|(_, keys)| keys).filter(move |k| k.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_what_the_text_says() {
        for (section, keys) in sections() {
            for k in keys {
                let Kind::Whole(min, max) = k.kind else { continue };
                let text = k.text.replace('`', "");
                let said = match (min, max) {
                    (0, MAX) => continue,
                    (_, MAX) => format!("At least {min}"),
                    _ => format!("{min} to {max}"),
                };
                assert!(text.starts_with(&said), "{section}.{}: {said}: {text}", k.name);
            }
        }
    }

    #[test]
    fn words_are_in_the_text() {
        for (section, keys) in sections() {
            for k in keys {
                let Kind::Word(words) = k.kind else { continue };
                // The patterns have a table of their own.
                if k.name == "pattern" {
                    continue;
                }
                for word in words {
                    let there = [k.text, k.default].iter().any(|t| t.contains(&format!("\"{word}\"")));
                    assert!(there, "{section}.{}: nothing on \"{word}\"", k.name);
                }
            }
        }
    }

    #[test]
    fn a_key_is_once_in_its_section() {
        for (section, keys) in sections() {
            for (i, k) in keys.iter().enumerate() {
                assert!(keys[..i].iter().all(|other| other.name != k.name), "{section}.{}", k.name);
            }
        }
    }

    #[test]
    fn whole_numbers_of_one_name_have_one_range() {
        for (section, keys) in sections() {
            for k in keys {
                if let Kind::Whole(min, max) = k.kind {
                    // Those of a port's own are read with bounds of their own.
                    if !matches!(k.name, "mtu" | "hosts") {
                        assert_eq!(bounds(k.name), Some((min, max)), "{section}.{}", k.name);
                    }
                }
            }
        }
    }
}
