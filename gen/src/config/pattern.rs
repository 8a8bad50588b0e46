//! Who sends to whom: names with ranges, and patterns of flows.

use super::error::{ScenarioError, suggest};
use super::model::{Device, Port};
use super::read::Table;
use crate::random::Random;
use std::net::IpAddr;

/// A flow that a table stands for.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Its part in a collective.
    pub(super) part: Option<Part>,
}

/// What a flow does in each iteration of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// How many shares of the buffer a step has, of as many as there are ranks.
    pub(super) shares: u64,
    /// By step: pairs of the table, and how many steps of theirs must have come.
    pub(super) waits: Vec<Vec<(usize, u64)>>,
}

/// The flows of a table.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub(super) list: Vec<Pair>,
    /// It stands for one flow and is named as it.
    pub(super) single: bool,
    /// What they do together, and for how many ports.
    pub(super) collective: Option<(Pattern, usize)>,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Each,
    Incast,
    Pairs,
    Permutation,
    Ring,
    AllReduce,
    HalvingDoubling,
    AllGather,
    ReduceScatter,
    AllToAll,
}

const PATTERNS: [(&str, Pattern); 10] = [
    ("each", Pattern::Each),
    ("incast", Pattern::Incast),
    ("pairs", Pattern::Pairs),
    ("permutation", Pattern::Permutation),
    ("ring", Pattern::Ring),
    ("all-reduce", Pattern::AllReduce),
    ("halving-doubling", Pattern::HalvingDoubling),
    ("all-gather", Pattern::AllGather),
    ("reduce-scatter", Pattern::ReduceScatter),
    ("all-to-all", Pattern::AllToAll),
];

impl Pattern {
    /// As scenario files spell it.
    pub(super) fn as_str(self) -> &'static str {
        PATTERNS.iter().find(|(_, p)| *p == self).map_or("", |(word, _)| word)
    }

    /// Whether its messages wait for one another.
    fn is_collective(self) -> bool {
        use Pattern::*;
        matches!(self, AllReduce | HalvingDoubling | AllGather | ReduceScatter | AllToAll)
    }

    /// Whether it is about the ports of one list.
    fn is_among(self) -> bool {
        self.is_collective() || matches!(self, Pattern::Ring | Pattern::Permutation)
    }

    /// Bus bandwidth by algorithm bandwidth for `n` ranks, as nccl-tests has it.
    pub(super) fn factor(self, n: u64) -> (u64, u64) {
        match self {
            Pattern::AllReduce | Pattern::HalvingDoubling => (2 * (n - 1), n),
            _ => (n - 1, n),
        }
    }

    /// Steps of an iteration.
    pub(super) fn steps(self, n: usize) -> usize {
        match self {
            Pattern::AllReduce => 2 * (n - 1),
            Pattern::HalvingDoubling => 2 * n.ilog2() as usize,
            Pattern::AllToAll => 1,
            _ => n - 1,
        }
    }
}

/// More flows than that are a slip of the pen.
const MOST: usize = 1 << 16;

/// Reads who sends to whom in a `[[flow]]`; `seed` draws permutations.
pub(super) fn read_pairs(t: &Table<'_>, ports: &[Port], seed: u64) -> Result<Pairs, ScenarioError> {
    let pattern = t.word("pattern", &PATTERNS)?;
    if t.has("connect") {
        if let Some(key) = ["pattern", "among"].into_iter().find(|key| t.has(key)) {
            return Err(t.clash("connect", key, "another machine is the end of one flow, not of a pattern"));
        }
        let (from, to) = (read_end(t, "from", ports)?, read_peer(t, ports)?);
        return Ok(Pairs { list: vec![Pair { from, to, part: None }], single: true, collective: None });
    }
    for key in ["pieces", "bytes", "chunk", "iterations"] {
        if t.has(key) && !pattern.is_some_and(Pattern::is_collective) {
            let text = "belongs to a pattern with steps, as pattern = \"all-reduce\"";
            return Err(t.error(key, text));
        }
    }
    let shuffle = t.flag("shuffle")?.unwrap_or(false);
    if t.has("shuffle") && !pattern.is_some_and(|p| p.is_among() && p != Pattern::Permutation) {
        return Err(t.error("shuffle", "belongs to pattern = \"ring\" or \"all-reduce\""));
    }
    let among = t.text("among")?;
    let names_one = |key: &str| t.text(key).ok().flatten().is_some_and(|text| !text.contains('['));
    if pattern.is_none() && among.is_none() && names_one("from") && names_one("to") {
        let (from, to) = (read_end(t, "from", ports)?, read_end(t, "to", ports)?);
        if from == to {
            return Err(t.error("to", "is the port that \"from\" names; a flow joins two ports"));
        }
        return Ok(Pairs { list: vec![Pair { from, to, part: None }], single: true, collective: None });
    }
    let pattern = pattern.unwrap_or(Pattern::Each);
    for key in ["from", "to"] {
        if pattern.is_among() && t.has(key) {
            return Err(t.clash(
                "pattern",
                key,
                "this pattern is about the ports of one list: among = \"h[0-7]\"",
            ));
        }
    }
    if !pattern.is_among() && among.is_some() {
        return Err(t.error("among", "belongs to pattern = \"ring\", \"permutation\" or \"all-reduce\""));
    }
    if pattern.is_among() {
        let mut all = read_names(t, "among", ports)?;
        if all.len() < 2 {
            return Err(t.error("among", "names one port; a flow joins two"));
        }
        let n = all.len();
        if pattern == Pattern::HalvingDoubling && !n.is_power_of_two() {
            let text = format!("{n} ports: halving and doubling needs a power of two of them");
            return Err(t.clash("among", "pattern", text));
        }
        if pattern == Pattern::AllToAll && n * (n - 1) > MOST {
            return Err(t.clash("among", "pattern", format_args!("more than {MOST} flows")));
        }
        let wide = |p: &&usize| ports[**p].cores.as_ref().is_some_and(|c| c.len() > 1);
        if let Some(port) = all.iter().find(wide).filter(|_| pattern.is_collective()) {
            let text = format!(
                "port \"{}\" has several cores: the steps of a port are those of one worker",
                ports[*port].name
            );
            return Err(t.clash("among", "pattern", text));
        }
        let given = all.clone();
        if shuffle || pattern == Pattern::Permutation {
            let mut random = Random::new(seed);
            for i in (1..n).rev() {
                all.swap(i, (random.next() % (i as u64 + 1)) as usize);
            }
        }
        let mut list = around(pattern, &all);
        if pattern == Pattern::Permutation {
            list.sort_by_key(|p| given.iter().position(|port| *port == p.from));
        }
        let collective = pattern.is_collective().then_some((pattern, n));
        return Ok(Pairs { list, single: false, collective });
    }
    let (from, to) = (read_names(t, "from", ports)?, read_names(t, "to", ports)?);
    let pair = |(from, to): (usize, usize)| Pair { from, to, part: None };
    if pattern == Pattern::Incast && to.len() != 1 {
        return Err(t.error("to", "an incast is to one port"));
    }
    let list: Vec<Pair> = if pattern == Pattern::Pairs {
        if from.len() != to.len() {
            let text = format!("pairs need two lists of the same length: {} and {}", from.len(), to.len());
            return Err(t.clash("from", "to", text));
        }
        from.into_iter().zip(to).filter(|(from, to)| from != to).map(pair).collect()
    } else {
        if from.len().saturating_mul(to.len()) > MOST {
            return Err(t.clash("from", "to", format_args!("more than {MOST} flows")));
        }
        let each = from.iter().flat_map(|f| to.iter().map(move |to| (*f, *to)));
        each.filter(|(from, to)| from != to).map(pair).collect()
    };
    if list.is_empty() {
        return Err(t.fail("\"from\" and \"to\" name the same port; a flow joins two ports"));
    }
    Ok(Pairs { list, single: false, collective: None })
}

/// The flows among the ports of one list, in its order.
fn around(pattern: Pattern, order: &[usize]) -> Vec<Pair> {
    let n = order.len();
    let pair = |from: usize, to: usize, part| Pair { from: order[from], to: order[to], part };
    match pattern {
        Pattern::AllToAll => {
            let all = (0..n).flat_map(|i| (1..n).map(move |d| (i, (i + d) % n)));
            // Nobody begins before all has come to it, and that is all.
            let part = || Some(Part { shares: 1, waits: vec![Vec::new()] });
            all.map(|(from, to)| pair(from, to, part())).collect()
        }
        Pattern::HalvingDoubling => {
            let levels = n.ilog2();
            // Pairs are numbered by distance, the largest first, and then by who sends.
            let number = |distance: usize, from: usize| (levels - 1 - distance.ilog2()) as usize * n + from;
            let halves = (0..levels).rev().flat_map(|bit| (0..n).map(move |i| (1usize << bit, i)));
            halves
                .map(|(distance, i)| {
                    // First halves go out, ever smaller ones; then what was reduced comes back.
                    let reduce = match 2 * distance {
                        whole if whole == n => Vec::new(),
                        before => vec![(number(before, i ^ before), 1)],
                    };
                    let gather = match distance {
                        1 => vec![(number(1, i ^ 1), 1)],
                        _ => vec![(number(distance / 2, i ^ (distance / 2)), 2)],
                    };
                    let part = Part { shares: distance as u64, waits: vec![reduce, gather] };
                    pair(i, i ^ distance, Some(part))
                })
                .collect()
        }
        _ => {
            let steps = if pattern.is_collective() { pattern.steps(n) } else { 0 };
            // A step is what came in the step before.
            let waits = |i: usize| {
                let before = (i + n - 1) % n;
                let step = |k: usize| if k == 0 { Vec::new() } else { vec![(before, k as u64)] };
                (0..steps).map(step).collect::<Vec<_>>()
            };
            let part = |i: usize| pattern.is_collective().then(|| Part { shares: 1, waits: waits(i) });
            (0..n).map(|i| pair(i, (i + 1) % n, part(i))).collect()
        }
    }
}

/// The port that a key names.
fn read_end(t: &Table<'_>, key: &str, ports: &[Port]) -> Result<usize, ScenarioError> {
    let name = t.need(key, t.text(key)?)?;
    if key == "to" && name.parse::<IpAddr>().is_ok() {
        let text = "an address is another machine's, and how is that met? Add connect = \"perftest\" or \"cm\", or write \
                    the name of a port";
        return Err(t.error(key, text));
    }
    find(ports, name).map_err(|text| t.error(key, text))
}

/// The other machine that "to" names.
fn read_peer(t: &Table<'_>, ports: &[Port]) -> Result<usize, ScenarioError> {
    let name = t.need("to", t.text("to")?)?;
    let ip: Option<IpAddr> = name.parse().ok();
    let peer = ports.iter().position(|p| p.device == Device::Peer && Some(p.ip) == ip);
    peer.ok_or_else(|| t.error("to", "not an IP address"))
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
    let known = |p: &&Port| p.device != Device::Peer;
    ports.iter().position(|p| known(&p) && p.name == name).ok_or_else(|| {
        let names: Vec<_> = ports.iter().filter(known).map(|p| p.name.as_str()).collect();
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
        assert_eq!(
            pairs("from = \"h[0-1].n0\"\nto = \"h2.n0\"\npattern = \"incast\""),
            "x.0 h0.n0-h2.n0, x.1 h1.n0-h2.n0"
        );
        assert_eq!(
            pairs("among = \"h[0-2].n0\"\npattern = \"all-to-all\""),
            "x.0 h0.n0-h1.n0, x.1 h0.n0-h2.n0, x.2 h1.n0-h2.n0, x.3 h1.n0-h0.n0, x.4 h2.n0-h0.n0, x.5 h2.n0-h1.n0"
        );
    }

    /// What each step of a collective waits for has come from the ports that the algorithm says.
    #[test]
    fn steps_wait_for_what_they_need() {
        let s = parse("among = \"h[0-3].n0\"\npattern = \"all-reduce\"\npieces = 2\niterations = 3").unwrap();
        let steps: Vec<_> = s.flows.iter().map(|f| f.steps.clone().unwrap()).collect();
        assert!(steps.iter().all(|s| s.pieces == 2 && s.waits.len() == 6 && s.waits[0].is_empty()));
        assert_eq!(steps.iter().map(|s| s.waits[5][0]).collect::<Vec<_>>(), [(3, 5), (0, 5), (1, 5), (2, 5)]);
        assert!(s.flows.iter().all(|f| f.messages == Some(3 * 6 * 2)));
        let c = &s.collectives[0];
        assert_eq!((c.ranks, c.bytes, c.steps, c.factor, c.iterations), (4, 4 * 2 * 8, 6, (6, 4), Some(3)));

        let text = "among = \"h[0-3].n[0-1]\"\npattern = \"halving-doubling\"";
        let s = parse(text).unwrap();
        assert_eq!((s.flows.len(), s.collectives[0].steps, s.collectives[0].bytes), (24, 6, 64));
        for flow in &s.flows {
            let steps = flow.steps.as_ref().unwrap();
            let distance = flow.from.abs_diff(flow.to) as u64;
            assert_eq!((steps.pieces, steps.waits.len()), (distance, 2), "as many shares as ports apart");
            for (step, waits) in steps.waits.iter().enumerate() {
                for (other, need) in waits {
                    let other = &s.flows[*other];
                    assert_eq!(other.to, flow.from, "only what comes here is waited for");
                    let apart = other.from.abs_diff(other.to) as u64;
                    let want = match (step, distance) {
                        (0, d) => (2 * d, 1),
                        (_, 1) => (1, 1),
                        (_, d) => (d / 2, 2),
                    };
                    assert_eq!((apart, *need), want);
                }
            }
        }
    }

    /// A buffer is cut into messages of one size, none larger than the chunk.
    #[test]
    fn buffers_are_cut_into_messages() {
        let cut = |keys: &str| {
            let text = format!("among = \"h[0-3].n0\"\npattern = \"all-gather\"\n{keys}");
            let text = format!(
                "run = {{ duration = \"1ms\" }}\n[fabric]\ntopology = \"leaf-spine\"\nleaves = 4\nspines = 2\n\
                 hosts_per_leaf = 2\nnics = 2\n[[flow]]\nname = \"x\"\nverb = \"write\"\n{text}\n"
            );
            let s = Scenario::parse(Path::new("x.toml"), &text, &[]).map_err(|e| e.to_string())?;
            let pieces = s.flows[0].steps.as_ref().unwrap().pieces;
            assert_eq!(
                u64::from(s.flows[0].size) * pieces * u64::from(s.flows[0].qps) * 4,
                s.collectives[0].bytes
            );
            Ok::<_, String>((s.flows[0].size, pieces))
        };
        assert_eq!(cut("bytes = \"64MiB\"\nchunk = \"1MiB\""), Ok((1 << 20, 16)));
        assert_eq!(cut("bytes = \"64MiB\"\nchunk = \"1MiB\"\nqps = 3").unwrap_err().lines().count(), 1);
        assert_eq!(cut("bytes = 4000000\nchunk = 65536"), Ok((62_500, 16)));
        assert_eq!(cut("bytes = 4000\nqps = 2"), Ok((500, 1)));
        insta::assert_snapshot!(cut("bytes = 4001").unwrap_err(), @r#"x.toml:13: flow "x": key "bytes": 4001: 4 ports with 1 queue pairs each cannot share it evenly: make it a multiple of 4"#);
        insta::assert_snapshot!(cut("bytes = 4000\nsize = 8").unwrap_err(), @r#"x.toml:14: flow "x": keys "bytes" (line 13) and "size": the size of messages follows from the buffer and "chunk""#);
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
        insta::assert_snapshot!(error("from = \"h0.n0\"\nto = \"h1.n0\"\npieces = 4"), @r#"x.toml:14: flow "x": key "pieces": 4: belongs to a pattern with steps, as pattern = "all-reduce""#);
        insta::assert_snapshot!(error("among = \"h[0-3].n0\"\npattern = \"all-reduce\"\nrate = \"1kmsg/s\""), @r#"x.toml:14: flow "x": keys "pattern" (line 13) and "rate": messages wait for those before them, not for the clock"#);
    }
}
