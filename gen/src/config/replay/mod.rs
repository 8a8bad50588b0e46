//! `[replay]`: flows whose messages and times come from a recording.

mod capture;
mod records;

use super::error::ScenarioError;
use super::flow::{Around, read_flow};
use super::model::{Arrival, Flow, FlowRate, Port, Verb};
use super::quantity::parse_number;
use super::read::Table;
use super::sections::check_name;
use crate::workload::{Entry, Kind, Message, Script, Sizes, Traffic};
use records::Record;
use roce_engine::units::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The forms of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Hpcc,
    Csv,
    Pcap,
}

/// More queue pairs between two ports than that are a slip of the pen.
const MOST_QPS: u32 = 16_384;

/// Where the flows come from, as flows know it instead of the number of their table.
pub(crate) const TABLE: usize = usize::MAX;

/// Reads the section and adds its flows: one for each two ports, direction and priority.
pub(super) fn read_replay(
    t: &Table<'_>,
    around: Around<'_>,
    flows: &mut Vec<Flow>,
) -> Result<(), ScenarioError> {
    let name = t.text("name")?.unwrap_or("replay");
    check_name(name).map_err(|e| t.error("name", e))?;
    let file = t.need("file", t.text("file")?)?;
    let words = [("hpcc", Format::Hpcc), ("csv", Format::Csv), ("pcap", Format::Pcap)];
    let by_name = match file.rsplit_once('.') {
        Some((_, "csv")) => Format::Csv,
        Some((_, "pcap" | "pcapng" | "cap")) => Format::Pcap,
        _ => Format::Hpcc,
    };
    let mut records = match t.word("format", &words)?.unwrap_or(by_name) {
        Format::Hpcc => records::hpcc(&t.read_beside("file", file)?),
        Format::Csv => records::csv(&t.read_beside("file", file)?),
        Format::Pcap => capture::messages(&t.bytes_beside("file", file)?),
    }
    .map_err(|e| t.error("file", e))?;
    if records.is_empty() {
        return Err(t.error("file", "there is no message in it"));
    }
    // The time of the replay begins with the first message.
    records.sort_by_key(|r| r.at);
    let scale = t.parse("time_scale", parse_number)?.unwrap_or(1.0);
    if scale <= 0.0 {
        return Err(t.error("time_scale", "must be more than zero"));
    }
    let first = records[0].at;
    let scaled = |at: u64| ((at - first) as f64 * scale).round() as u64;
    let pause = t.duration("pause")?.unwrap_or(Duration::ZERO);
    let period = records.last().map_or(0, |r| scaled(r.at)).saturating_add(pause.as_nanos());
    let loops = t.integer("loops")?.unwrap_or(1);
    let ends = Ends::read(t, around.ports)?;
    let spread: u32 = t.integer("qps")?.unwrap_or(1);

    // By the two ports and the priority: lists of messages, one for each queue pair.
    let mut groups: BTreeMap<(usize, usize, Option<u8>), Group> = BTreeMap::new();
    for record in &records {
        let (from, to) = (ends.find(t, &record.from)?, ends.find(t, &record.to)?);
        if from == to {
            return Err(t.error("file", format_args!("\"{}\" sends to itself", record.from)));
        }
        let size = u32::try_from(record.size).ok().filter(|s| *s <= 1 << 31).ok_or_else(|| {
            t.error("file", format_args!("a message of {} bytes: more than 2GiB", record.size))
        })?;
        let group = groups.entry((from, to, record.priority)).or_default();
        group.add(record, size, scaled(record.at), spread);
    }
    for ((from, to, priority), group) in groups {
        let qps = group.lists.len() as u32;
        if qps > MOST_QPS {
            return Err(t.error(
                "file",
                format_args!("{qps} connections between two ports; {MOST_QPS} are the most"),
            ));
        }
        let traffic = group.traffic();
        let script = |list: &Vec<(u64, Verb, u32)>| {
            let entry = |&(at, verb, size): &(u64, Verb, u32)| {
                let kind = traffic.kinds().iter().position(|k| k.verb == verb).unwrap_or(0) as u32;
                Entry { at, message: Message { kind, verb, size } }
            };
            Arc::new(Script { entries: list.iter().map(entry).collect(), period, loops })
        };
        let scripts: Vec<_> = group.lists.iter().map(script).collect();
        let mut flow = read_flow(t, from, to, around, traffic)?;
        if flow.rate != FlowRate::Unlimited || flow.arrival != (Arrival::Closed { think: Duration::ZERO }) {
            return Err(t.error("rate", "the recording says when messages are due"));
        }
        let ports = |p: usize| around.ports[p].name.as_str();
        let class = priority.map_or(String::new(), |p| format!(".p{p}"));
        flow.name = format!("{name}.{}-{}{class}", ports(from), ports(to));
        flow.group = Some(name.to_owned());
        flow.table = TABLE;
        flow.qps = qps;
        if !t.has("depth") {
            flow.depth = 128;
        }
        if let Some(priority) = priority.filter(|_| !t.has("dscp") && !t.has("traffic_class")) {
            // A switch takes the upper three bits for the priority.
            flow.tos = flow.tos & 0b11 | priority << 5;
        }
        flow.messages = scripts.iter().map(|s| s.messages()).max();
        flow.scripts = Some(Arc::new(scripts));
        flows.push(flow);
    }
    Ok(())
}

/// The messages from one port to another.
#[derive(Debug, Default)]
struct Group {
    /// By queue pair: when, what, how large.
    lists: Vec<Vec<(u64, Verb, u32)>>,
    count: usize,
}

impl Group {
    fn add(&mut self, record: &Record, size: u32, at: u64, spread: u32) {
        // Without connections messages go over the queue pairs in turn.
        let qp = record.connection.map_or(self.count % spread as usize, |c| c as usize);
        self.count += 1;
        if self.lists.len() <= qp {
            self.lists.resize(qp + 1, Vec::new());
        }
        self.lists[qp].push((at, record.verb, size));
    }

    /// Verbs and sizes as they occur.
    fn traffic(&self) -> Traffic {
        let all = || self.lists.iter().flatten();
        let kind = |verb: Verb| {
            let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
            all().filter(|m| m.1 == verb).for_each(|m| *counts.entry(m.2).or_default() += 1);
            let total = f64::from(counts.values().sum::<u32>());
            let mut sum = 0.0;
            let mut share = |(size, count): (&u32, &u32)| {
                sum += f64::from(*count);
                (*size, sum / total)
            };
            let sizes = match counts.len() {
                0 => return None,
                1 => Sizes::Fixed(*counts.keys().next()?),
                _ => Sizes::List(counts.iter().map(&mut share).collect()),
            };
            Some(Kind { verb, sizes, share: total })
        };
        Traffic::new(Verb::ALL.into_iter().filter_map(kind).collect())
    }
}

/// What the recording calls ports.
struct Ends<'a> {
    ports: &'a [Port],
    /// From a file, if there is one.
    names: Option<Vec<(String, usize)>>,
}

impl<'a> Ends<'a> {
    /// Reads `ports`: a file with lines "what-the-recording-says port".
    fn read(t: &Table<'_>, ports: &'a [Port]) -> Result<Ends<'a>, ScenarioError> {
        let Some(file) = t.text("ports")? else { return Ok(Ends { ports, names: None }) };
        let text = t.read_beside("ports", file)?;
        let mut names = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let words: Vec<&str> = line.split([' ', '\t', ',']).filter(|w| !w.is_empty()).collect();
            let port = match words[..] {
                [_, port] => ports.iter().position(|p| p.name == port),
                _ => None,
            };
            let Some(port) = port else {
                let text = format!("line {}: not what the recording says and the name of a port", i + 1);
                return Err(t.error("ports", text));
            };
            names.push((words[0].to_owned(), port));
        }
        Ok(Ends { ports, names: Some(names) })
    }

    /// The port that the recording means by `id`: as the file says, else by name, by address, or `h`
    /// with a number.
    fn find(&self, t: &Table<'_>, id: &str) -> Result<usize, ScenarioError> {
        let found = match &self.names {
            Some(names) => names.iter().find(|(name, _)| name == id).map(|(_, port)| *port),
            None => {
                let is = |p: &Port| p.name == id || p.ip.to_string() == id || p.name == format!("h{id}");
                self.ports.iter().position(is)
            }
        };
        found.ok_or_else(|| match self.names {
            Some(_) => t.error("ports", format_args!("does not say which port \"{id}\" is")),
            None => t.error(
                "file",
                format_args!(
                    "no port is called \"{id}\" or has that address: name a file with lines \"{id} PORT\", as in \
                     ports = \"ports.txt\""
                ),
            ),
        })
    }
}
