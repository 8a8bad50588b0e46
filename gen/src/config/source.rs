//! The text of a scenario, and where each of its values was written.

use super::error::{Place, ScenarioError};
use super::limits;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seg {
    /// A key of a table.
    Key(String),
    /// An element of an array.
    Index(usize),
}

/// The way from the root of a document to a value.
pub(crate) type KeyPath = Vec<Seg>;

/// The file as it is on disk, and what the command line changed in it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// As the user named it.
    pub(super) file: String,
    /// As read.
    pub(super) text: String,
    /// What was changed, and the option that did.
    pub(super) changes: Vec<(KeyPath, String)>,
}

impl Source {
    pub(super) fn new(file: &Path, text: &str) -> Source {
        Source { file: file.display().to_string(), text: text.to_owned(), changes: Vec::new() }
    }

    /// A file that the scenario names, relative to where the scenario lies.
    pub(super) fn beside(&self, file: &str) -> PathBuf {
        Path::new(&self.file).parent().unwrap_or(Path::new("")).join(file)
    }

    /// Where the value at `path` was written; its nearest ancestor when it was not.
    pub(crate) fn place(&self, path: &[Seg]) -> Place {
        if let Some((_, option)) = self.changes.iter().rfind(|(changed, _)| path.starts_with(changed)) {
            return Place::Option(option.clone());
        }
        // Of a list the command line may have changed one element.
        let within = |changed: &KeyPath| path.len() > 2 && changed.starts_with(path);
        if let Some((_, option)) = self.changes.iter().rfind(|(changed, _)| within(changed)) {
            return Place::Option(option.clone());
        }
        if let Some(offset) = self.offset(path) {
            return Place::Line { file: self.file.clone(), line: line_column(&self.text, offset).0 };
        }
        if let Some((_, option)) = self.changes.iter().find(|(changed, _)| changed.starts_with(path)) {
            return Place::Option(option.clone());
        }
        match path.split_last() {
            Some((_, parent)) if !parent.is_empty() => self.place(parent),
            _ => Place::File(self.file.clone()),
        }
    }

    /// Where the file has the value at `path`.
    fn offset(&self, path: &[Seg]) -> Option<usize> {
        let root = DeTable::parse(&self.text).ok()?;
        let (first, rest) = path.split_first()?;
        let Seg::Key(key) = first else { return None };
        let (key, mut value) = root.get_ref().get_key_value(key.as_str())?;
        let mut offset = key.span().start;
        for seg in rest {
            (offset, value) = step(value, seg)?;
        }
        Some(offset)
    }

    /// The one-line form of a TOML error in `text`, the file's own.
    pub(super) fn syntax_error(&self, error: &toml::de::Error) -> ScenarioError {
        let offset = error.span().map_or(0, |s| s.start).min(self.text.len());
        let (line, column) = line_column(&self.text, offset);
        let place = Place::Column { file: self.file.clone(), line, column };
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join(", ");
        let written = self.text.lines().nth(line - 1).unwrap_or_default();
        let text = unquoted(written).unwrap_or_else(|| {
            let written: String = written.trim().chars().take(60).collect();
            format!("not TOML: {message}: {written}")
        });
        ScenarioError { place, text }
    }
}

/// The element of `value` that `seg` names, and where it begins.
fn step<'a, 'i>(value: &'a Spanned<DeValue<'i>>, seg: &Seg) -> Option<(usize, &'a Spanned<DeValue<'i>>)> {
    match (value.get_ref(), seg) {
        (DeValue::Table(table), Seg::Key(key)) => {
            let (key, value) = table.get_key_value(key.as_str())?;
            Some((key.span().start, value))
        }
        (DeValue::Array(array), Seg::Index(i)) => {
            let value = array.get(*i)?;
            Some((value.span().start, value))
        }
        _ => None,
    }
}

/// Line and column, both from 1, of a byte offset.
pub(super) fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// What to say of a `key = value` line whose value is no TOML because its quotes are missing, or
/// that is no number where one is due.
fn unquoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    let value = value.split('#').next().unwrap_or(value).trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if key.is_empty() || !key.chars().all(plain) || value.starts_with(['"', '\'', '[', '{']) {
        return None;
    }
    if DeValue::parse(value).is_ok() {
        return None;
    }
    Some(match (value, limits::of(key)) {
        ("", _) => format!("key \"{key}\": no value"),
        (_, Some(range)) => format!("key \"{key}\": {value}: must be {range}"),
        _ => format!("key \"{key}\": {value}: text needs quotes: {key} = \"{value}\""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
[run]
duration = \"1s\"

[[port]]
name = \"a\"
cores = [
  0,
  1,
]

[[port]]
name = \"b\"
";

    fn path(text: &str) -> KeyPath {
        let seg = |s: &str| s.parse().map_or_else(|_| Seg::Key(s.to_owned()), Seg::Index);
        text.split('.').map(seg).collect()
    }

    fn line(source: &Source, p: &str) -> String {
        source.place(&path(p)).to_string()
    }

    #[test]
    fn every_value_has_a_line() {
        let source = Source::new(Path::new("x.toml"), TEXT);
        assert_eq!(line(&source, "run"), "x.toml:2");
        assert_eq!(line(&source, "run.duration"), "x.toml:3");
        assert_eq!(line(&source, "port.0"), "x.toml:5");
        assert_eq!(line(&source, "port.0.cores"), "x.toml:7");
        assert_eq!(line(&source, "port.0.cores.1"), "x.toml:9");
        assert_eq!(line(&source, "port.1.name"), "x.toml:13");
    }

    #[test]
    fn what_is_missing_is_where_it_should_be() {
        let source = Source::new(Path::new("x.toml"), TEXT);
        assert_eq!(line(&source, "port.1.ip"), "x.toml:12");
        assert_eq!(line(&source, "flow"), "x.toml");
        assert_eq!(line(&source, "flow.0.name"), "x.toml");
    }

    #[test]
    fn what_was_set_is_the_option() {
        let mut source = Source::new(Path::new("x.toml"), TEXT);
        source.changes.push((path("port.1.name"), "--set port.b.name=c".to_owned()));
        source.changes.push((path("connect.peer"), "--set connect.peer=h:1".to_owned()));
        assert_eq!(line(&source, "port.1.name"), "--set port.b.name=c");
        assert_eq!(line(&source, "port.1"), "x.toml:12");
        assert_eq!(line(&source, "connect"), "--set connect.peer=h:1");
        source.changes.push((path("port.0.cores.1"), "--set port.a.cores.1=7".to_owned()));
        assert_eq!(line(&source, "port.0.cores"), "--set port.a.cores.1=7");
        assert_eq!(line(&source, "port.0"), "x.toml:5");
    }

    #[test]
    fn lines_and_columns() {
        assert_eq!(line_column("ab\n\u{e9}cd", 0), (1, 1));
        assert_eq!(line_column("ab\n\u{e9}cd", 6), (2, 3));
        assert_eq!(line_column("ab", 99), (1, 3));
    }
}
