//! What went wrong on purpose, and whether it was seen at the other end.

use super::Finished;
use crate::config::{Device, IcrcCheck, Scenario};
use roce_engine::fabric::{Action, ActionKind, Event, Impairment, Rule};
use roce_engine::wire::DropReason;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::{self, Write};

/// What was done to the packets that one worker sent from one port.
#[derive(Clone, Debug)]
pub struct Injected {
    /// Index of the port.
    pub port: usize,
    /// By rule: packets.
    pub by_rule: Vec<u64>,
    /// Packets judged.
    pub judged: u64,
    /// Which packets.
    pub events: Vec<Event>,
    /// Events that found no room.
    pub events_missed: u64,
    /// Frames that were still held back at the end.
    pub inside: usize,
}

impl Injected {
    /// What `judge` has done on the sending side of `port`.
    pub fn of(port: usize, judge: &Impairment, inside: usize) -> Injected {
        Injected {
            port,
            by_rule: judge.injected().to_vec(),
            judged: judge.judged(),
            events: judge.log().events().to_vec(),
            events_missed: judge.log().missed(),
            inside,
        }
    }
}

/// The faults of a run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ImpairResult {
    /// Packets judged.
    pub judged: u64,
    /// By rule.
    pub rules: Vec<RuleResult>,
    /// Faults against what was counted elsewhere, as far as that can be told exactly.
    pub agreement: Vec<Agreement>,
    /// Events in the log.
    pub events: u64,
    /// Events that found no room in it.
    pub events_missed: u64,
}

/// A rule and how often it acted.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RuleResult {
    /// The `[[impair]]` table, from 0.
    pub table: usize,
    /// What it does.
    pub action: &'static str,
    /// The flow, where it names one.
    pub flow: Option<String>,
    /// Packets.
    pub injected: u64,
}

/// Something that was done, and what was counted of it independently.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Agreement {
    /// What, in words.
    pub what: String,
    /// What must be counted, by what was done.
    pub injected: u64,
    /// What was counted.
    pub counted: u64,
    /// Whether they are equal.
    pub agree: bool,
}

impl ImpairResult {
    /// `None` where nothing was to go wrong.
    pub(super) fn of(s: &Scenario, run: &Finished) -> Option<ImpairResult> {
        let rules: Vec<&Rule> = s.rules().collect();
        if rules.is_empty() {
            return None;
        }
        let tables = s.impairs.iter().enumerate().flat_map(|(t, i)| i.rules.iter().map(move |r| (t, r)));
        let total = |i: usize| run.injected.iter().map(|p| p.by_rule[i]).sum();
        let by_rule = tables.enumerate().map(|(i, (table, rule))| RuleResult {
            table,
            action: rule.action.kind().as_str(),
            flow: rule.flow.map(|f| s.flows[f as usize].name.clone()),
            injected: total(i),
        });
        Some(ImpairResult {
            judged: run.injected.iter().map(|i| i.judged).sum(),
            rules: by_rule.collect(),
            agreement: agreements(s, run, &rules),
            events: run.injected.iter().map(|i| i.events.len() as u64).sum(),
            events_missed: run.injected.iter().map(|i| i.events_missed).sum(),
        })
    }

    /// Where the counts do not agree.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> + '_ {
        self.agreement.iter().filter(|a| !a.agree).map(|a| {
            format!("injected faults: {}: {} by what was injected, {} counted", a.what, a.injected, a.counted)
        })
    }
}

impl fmt::Display for ImpairResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "impair {} packets judged ", self.judged)?;
        for r in &self.rules {
            let of = r.flow.as_ref().map_or(String::new(), |flow| format!(" of \"{flow}\""));
            write!(f, "  {}{of} {}", r.action, r.injected)?;
        }
        writeln!(f)?;
        for a in &self.agreement {
            let mark = if a.agree { "ok  " } else { "FAIL" };
            writeln!(f, "  {mark} {}: {} injected, {} counted", a.what, a.injected, a.counted)?;
        }
        Ok(())
    }
}

/// Faults whose effect can be counted exactly: where all ports of the run are ours.
fn agreements(s: &Scenario, run: &Finished, rules: &[&Rule]) -> Vec<Agreement> {
    let port = |index: usize| run.ports.iter().find(|p| p.name == s.ports[index].name);
    let injected = |index: Option<usize>, wanted: &dyn Fn(&Action) -> bool| -> u64 {
        let of_port = run.injected.iter().filter(|i| index.is_none_or(|index| i.port == index));
        let counts = of_port.flat_map(|i| rules.iter().zip(&i.by_rule));
        counts.filter(|(r, _)| wanted(&r.action)).map(|(_, n)| n).sum()
    };
    let kind = |kind: ActionKind| move |action: &Action| action.kind() == kind;
    let agreement = |what: String, injected: u64, counted: u64| Agreement {
        what,
        injected,
        counted,
        agree: injected == counted,
    };
    let mut all = Vec::new();
    for (i, from) in s.ports.iter().enumerate() {
        let twin = s.ports.iter().position(|p| p.name != from.name && p.device == from.device);
        let Some((a, b)) =
            port(i).zip(twin.filter(|_| matches!(from.device, Device::Ring(_))).and_then(port))
        else {
            continue;
        };
        let (lost, copies) =
            (injected(Some(i), &kind(ActionKind::Drop)), injected(Some(i), &kind(ActionKind::Duplicate)));
        let inside: usize = run.injected.iter().filter(|f| f.port == i).map(|f| f.inside).sum();
        let arrive = (a.counters.tx_packets + copies).saturating_sub(lost + inside as u64 + a.tail_dropped);
        let what = format!(
            "frames {} -> {}: sent {} - dropped {lost} + duplicated {copies}",
            a.name, b.name, a.counters.tx_packets
        );
        all.push(agreement(what, arrive, b.counters.rx_packets));
    }
    if !s.ports.iter().all(|p| matches!(p.device, Device::Ring(_))) {
        return all;
    }
    // A bit that somebody chose may be one that the iCRC leaves out.
    let free_choice = rules.iter().all(|r| !matches!(r.action, Action::Corrupt(Some(_))));
    if s.run.icrc == IcrcCheck::Always && free_choice {
        let counted = run.ports.iter().map(|p| p.counters.dropped[DropReason::Icrc as usize]).sum();
        all.push(agreement(
            "corrupted = rx_icrc_errors".into(),
            injected(None, &kind(ActionKind::Corrupt)),
            counted,
        ));
    }
    let marked =
        |m: &super::FlowMeasure| m.last.counters.iter().map(|c| c.np_ecn_marked_roce_packets).sum::<u64>();
    let counted = run.flows.iter().map(marked).sum();
    all.push(agreement(
        "marked = np_ecn_marked_roce_packets".into(),
        injected(None, &kind(ActionKind::MarkCe)),
        counted,
    ));
    all
}

/// The log of all workers, in the order of time.
pub(super) fn log(s: &Scenario, injected: &[Injected]) -> String {
    let mut events: Vec<&Event> = injected.iter().flat_map(|i| &i.events).collect();
    events.sort_by_key(|e| (e.at, e.key()));
    let mut text = String::new();
    for e in events {
        let flow = s.flows.get(e.flow as usize).map_or("-", |f| f.name.as_str());
        let _ = writeln!(text, "{:.9} {flow} {e}", e.at.as_nanos() as f64 / 1e9);
    }
    text
}
