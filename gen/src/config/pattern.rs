//! Who sends to whom: names with ranges, and patterns of flows.

use super::error::{ScenarioError, suggest};
use super::model::{After, Port};
use super::read::Table;
use crate::random::Random;

/// A flow that a table stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The pair, by its number in the table, whose messages it waits for.
    pub(super) after: Option<usize>,
}

/// The flows of a table.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub(super) list: Vec<Pair>,
    /// It stands for one flow and is named as it.
    pub(super) single: bool,
    /// Messages of a step, where flows wait for one another.
    pub(super) pieces: u64,
}

impl Pairs {
    /// What flow `index` of the table waits for, when its first flow has number `first`.
    pub(super) fn after(&self, first: usize, index: usize) -> Option<After> {
        Some(After { flow: first + self.list[index].after?, pieces: self.pieces })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Each,
    Pairs,
    Permutation,
    Ring,
    AllReduce,
}

const PATTERNS: [(&str, Pattern); 5] = [
    ("each", Pattern::Each),
    ("pairs", Pattern::Pairs),
    ("permutation", Pattern::Permutation),
    ("ring", Pattern::Ring),
    ("all-reduce", Pattern::AllReduce),
];

/// More flows than that are a slip of the pen.
const MOST: usize = 1 << 16;

/// Reads who sends to whom in a `[[flow]]`; `seed` draws permutations.
pub(super) fn read_pairs(t: &Table<'_>, ports: &[Port], seed: u64) -> Result<Pairs, ScenarioError> {
    let pattern = t.word("pattern", &PATTERNS)?;
    let pieces = t.integer("pieces")?;
    if pieces.is_some() && pattern != Some(Pattern::AllReduce) {
        return Err(t.error("pieces", "belongs to pattern = \"all-reduce\""));
    }
    let shuffle = t.flag("shuffle")?.unwrap_or(false);
    if t.has("shuffle") && !matches!(pattern, Some(Pattern::Ring | Pattern::AllReduce)) {
        return Err(t.error("shuffle", "belongs to pattern = \"ring\" or \"all-reduce\""));
    }
    let among = t.text("among")?;
    let names_one = |key: &str| t.text(key).ok().flatten().is_some_and(|text| !text.contains('['));
    if pattern.is_none() && among.is_none() && names_one("from") && names_one("to") {
        let (from, to) = (read_end(t, "from", ports)?, read_end(t, "to", ports)?);
        if from == to {
            return Err(t.error("to", "is the port that \"from\" names; a flow joins two ports"));
        }
        return Ok(Pairs { list: vec![Pair { from, to, after: None }], single: true, pieces: 1 });
    }
    let pattern = pattern.unwrap_or(Pattern::Each);
    let ring = matches!(pattern, Pattern::Ring | Pattern::AllReduce | Pattern::Permutation);
    for key in ["from", "to"] {
        if ring && t.has(key) {
            return Err(t.clash(
                "pattern",
                key,
                "this pattern is about the ports of one list: among = \"h[0-7]\"",
            ));
        }
    }
    if !ring && among.is_some() {
        return Err(t.error("among", "belongs to pattern = \"ring\", \"permutation\" or \"all-reduce\""));
    }
    let list = if ring {
        let all = read_names(t, "among", ports)?;
        if all.len() < 2 {
            return Err(t.error("among", "names one port; a flow joins two"));
        }
        let shuffle = shuffle || pattern == Pattern::Permutation;
        around(pattern, &all, shuffle.then_some(seed))
    } else {
        let (from, to) = (read_names(t, "from", ports)?, read_names(t, "to", ports)?);
        let pair = |(from, to): (usize, usize)| Pair { from, to, after: None };
        if pattern == Pattern::Pairs {
            if from.len() != to.len() {
                let text =
                    format!("pairs need two lists of the same length: {} and {}", from.len(), to.len());
                return Err(t.clash("from", "to", text));
            }
            from.into_iter().zip(to).filter(|(from, to)| from != to).map(pair).collect()
        } else {
            if from.len().saturating_mul(to.len()) > MOST {
                return Err(t.clash("from", "to", format_args!("more than {MOST} flows")));
            }
            let each = from.iter().flat_map(|f| to.iter().map(move |to| (*f, *to)));
            each.filter(|(from, to)| from != to).map(pair).collect::<Vec<_>>()
        }
    };
    if list.is_empty() {
        return Err(t.fail("\"from\" and \"to\" name the same port; a flow joins two ports"));
    }
    Ok(Pairs { list, single: false, pieces: pieces.unwrap_or(1) })
}

/// The flows around a ring of the ports of one list, in its order or in one that `shuffle` draws.
/// A permutation is such a ring: nobody sends to itself.
fn around(pattern: Pattern, all: &[usize], shuffle: Option<u64>) -> Vec<Pair> {
    let n = all.len();
    let mut order = all.to_vec();
    if let Some(seed) = shuffle {
        let mut random = Random::new(seed);
        for i in (1..n).rev() {
            order.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
    }
    let after = |i: usize| (pattern == Pattern::AllReduce).then_some((i + n - 1) % n);
    let mut list: Vec<_> =
        (0..n).map(|i| Pair { from: order[i], to: order[(i + 1) % n], after: after(i) }).collect();
    if pattern == Pattern::Permutation {
        list.sort_by_key(|p| all.iter().position(|port| *port == p.from));
    }
    list
}

/// The port that a key names.
fn read_end(t: &Table<'_>, key: &str, ports: &[Port]) -> Result<usize, ScenarioError> {
    let name = t.need(key, t.text(key)?)?;
    find(ports, name).map_err(|text| t.error(key, text))
}

/// The ports that a key names, with ranges as in `h[0-3,7].n0`, or several names with commas.
fn read_names(t: &Table<'_>, key: &str, ports: &[Port]) -> Result<Vec<usize>, ScenarioError> {
    let text = t.need(key, t.text(key)?)?;
    let names = expand(text).map_err(|e| t.error(key, e))?;
    let mut found = Vec::new();
    for name in names {
        let port = find(ports, &name).map_err(|e| t.error(key, format_args!("\"{name}\": {e}")))?;
        if found.contains(&port) {
            return Err(t.error(key, format_args!("names port \"{name}\" twice")));
        }
        found.push(port);
    }
    Ok(found)
}

/// The port of this name.
pub(super) fn find(ports: &[Port], name: &str) -> Result<usize, String> {
    ports.iter().position(|p| p.name == name).ok_or_else(|| {
        let names: Vec<_> = ports.iter().map(|p| p.name.as_str()).collect();
        let hint = match (suggest(name, names.iter().copied()), names.len()) {
            (hint, _) if !hint.is_empty() => hint,
            (_, 0) => "; there is no [[port]]".to_owned(),
            (_, 1..=8) => format!("; there are \"{}\"", names.join("\", \"")),
            (_, n) => format!("; there are \"{}\" to \"{}\"", names[0], names[n - 1]),
        };
        format!("no such port{hint}")
    })
}

/// All names that a text stands for: every range in brackets is counted through, the last fastest.
fn expand(text: &str) -> Result<Vec<String>, String> {
    const FORM: &str = "a range is written as in \"h[0-3]\" or \"h[0-3,8]\"";
    let mut all = vec![String::new()];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, after) = after.split_once(']').ok_or(FORM)?;
        let mut numbers: Vec<u32> = Vec::new();
        for part in inside.split(',') {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            let bounds = a.trim().parse::<u32>().ok().zip(b.trim().parse::<u32>().ok());
            let (a, b) = bounds.filter(|(a, b)| a <= b && b - a < MOST as u32).ok_or(FORM)?;
            numbers.extend(a..=b);
        }
        if all.len().saturating_mul(numbers.len()) > MOST {
            return Err(format!("more than {MOST} names"));
        }
        all = all.iter().flat_map(|name| numbers.iter().map(move |n| format!("{name}{before}{n}"))).collect();
        rest = after;
    }
    if rest.contains(']') {
        return Err(FORM.to_owned());
    }
    all.iter_mut().for_each(|name| name.push_str(rest));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Scenario;
    use std::path::Path;

    fn parse(flow: &str) -> Result<Scenario, String> {
        let text = format!(
            "run = {{ duration = \"1ms\" }}\n[fabric]\ntopology = \"leaf-spine\"\nleaves = 4\nspines = 2\n\
             hosts_per_leaf = 2\nnics = 2\n[[flow]]\nname = \"x\"\nverb = \"write\"\nsize = 8\n{flow}\n"
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).map_err(|e| e.to_string())
    }

    fn pairs(flow: &str) -> String {
        let s = parse(flow).unwrap();
        let name = |port: usize| s.ports[port].name.clone();
        let text = |f: &crate::config::Flow| format!("{} {}-{}", f.name, name(f.from), name(f.to));
        s.flows.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn names_with_ranges() {
        assert_eq!(expand("h[0-2]").unwrap(), ["h0", "h1", "h2"]);
        assert_eq!(expand("h[1,3].n[0-1]").unwrap(), ["h1.n0", "h1.n1", "h3.n0", "h3.n1"]);
        assert_eq!(expand("plain").unwrap(), ["plain"]);
        for wrong in ["h[", "h[]", "h[2-1]", "h[a]", "h0]", "h[0-999999]"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_sends_to_whom() {
        assert_eq!(pairs("from = \"h0.n0\"\nto = \"h1.n0\""), "x h0.n0-h1.n0");
        assert_eq!(
            pairs("from = \"h[0-2].n1\"\nto = \"h3.n1\""),
            "x.0 h0.n1-h3.n1, x.1 h1.n1-h3.n1, x.2 h2.n1-h3.n1"
        );
        assert_eq!(
            pairs("from = \"h[0-1].n0\"\nto = \"h[2-3].n0\"\npattern = \"pairs\""),
            "x.0 h0.n0-h2.n0, x.1 h1.n0-h3.n0"
        );
        assert_eq!(
            pairs("among = \"h[0-2].n0\"\npattern = \"ring\""),
            "x.0 h0.n0-h1.n0, x.1 h1.n0-h2.n0, x.2 h2.n0-h0.n0"
        );
        let s = parse("among = \"h[0-3].n0\"\npattern = \"all-reduce\"\npieces = 2").unwrap();
        let after: Vec<_> = s.flows.iter().map(|f| f.after.unwrap()).collect();
        assert_eq!(after.iter().map(|a| a.flow).collect::<Vec<_>>(), [3, 0, 1, 2]);
        assert!(after.iter().all(|a| a.pieces == 2));
    }

    #[test]
    fn a_permutation_sends_and_receives_once_each() {
        let s = parse("among = \"h[0-3].n[0-1]\"\npattern = \"permutation\"").unwrap();
        let mut to: Vec<_> = s.flows.iter().map(|f| f.to).collect();
        assert!(s.flows.iter().all(|f| f.from != f.to));
        assert_eq!(s.flows.iter().map(|f| f.from).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        to.sort_unstable();
        assert_eq!(to, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_wrong() {
        let error = |flow: &str| parse(flow).unwrap_err();
        insta::assert_snapshot!(error("from = \"h[0-4].n0\"\nto = \"h0.n1\""), @r#"x.toml:12: flow "x": key "from": "h[0-4].n0": "h4.n0": no such port; did you mean "h0.n0"?"#);
        insta::assert_snapshot!(error("from = \"h[0-\"\nto = \"h0.n1\""), @r#"x.toml:12: flow "x": key "from": "h[0-": a range is written as in "h[0-3]" or "h[0-3,8]""#);
        insta::assert_snapshot!(error("from = \"h[0,0].n0\"\nto = \"h0.n1\""), @r#"x.toml:12: flow "x": key "from": "h[0,0].n0": names port "h0.n0" twice"#);
        insta::assert_snapshot!(error("among = \"h[0-3].n0\"\nfrom = \"h0.n0\"\npattern = \"ring\""), @r#"x.toml:14: flow "x": keys "from" (line 13) and "pattern": this pattern is about the ports of one list: among = "h[0-7]""#);
        insta::assert_snapshot!(error("among = \"h0.n0\"\npattern = \"ring\""), @r#"x.toml:12: flow "x": key "among": "h0.n0": names one port; a flow joins two"#);
        insta::assert_snapshot!(error("among = \"h[0-3].n0\""), @r#"x.toml:12: flow "x": key "among": "h[0-3].n0": belongs to pattern = "ring", "permutation" or "all-reduce""#);
        insta::assert_snapshot!(error("from = \"h[0-1].n0\"\nto = \"h[0-3].n1\"\npattern = \"pairs\""), @r#"x.toml:13: flow "x": keys "from" (line 12) and "to": pairs need two lists of the same length: 2 and 4"#);
        insta::assert_snapshot!(error("from = \"h0.n0\"\nto = \"h1.n0\"\npieces = 4"), @r#"x.toml:14: flow "x": key "pieces": 4: belongs to pattern = "all-reduce""#);
        insta::assert_snapshot!(error("among = \"h[0-3].n0\"\npattern = \"all-reduce\"\nrate = \"1kmsg/s\""), @r#"x.toml:14: flow "x": keys "pattern" (line 13) and "rate": messages wait for those before them, not for the clock"#);
    }
}
