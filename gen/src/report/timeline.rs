//! How the run went over time, and how latencies are spread, as the result has them.

use super::{Finished, FlowMeasure};
use crate::config::Scenario;
use crate::measure::{Latency, Spell, Timeline};
use crate::plan::Mean;
use roce_engine::units::Instant;
use schemars::JsonSchema;
use serde::Serialize;

/// With more flows than that, those of a table of the scenario are one line.
const MANY: usize = 32;

/// The measured span, cut into spans of about equal length: columns, one figure for each.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimelineResult {
    /// When each span ended, in seconds since measuring began.
    pub ends_s: Vec<f64>,
    /// Samples that were taken for each span.
    pub samples_joined: usize,
    /// By flow, or by table of the scenario where there are many flows.
    pub lines: Vec<LineResult>,
}

/// A flow over time.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LineResult {
    /// The flow, or the table of flows.
    pub name: String,
    /// Payload that arrived, or was acknowledged where the other end is not ours.
    pub goodput_gbps: Vec<f64>,
    /// Median latency of the messages that ended, in nanoseconds; of several flows the highest.
    pub p50_ns: Vec<Option<u64>>,
    /// 99 % of them took no longer; of several flows the highest.
    pub p99_ns: Vec<Option<u64>>,
    /// CNPs that came back.
    pub cnps: Vec<u64>,
    /// NAKs that came back.
    pub naks: Vec<u64>,
    /// Packets sent again.
    pub retransmits: Vec<u64>,
    /// What congestion control allowed at the end of each span, at L1, all queue pairs together; left
    /// out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_gbps: Option<Vec<f64>>,
}

impl TimelineResult {
    pub(super) fn of(s: &Scenario, run: &Finished, base: Instant) -> Option<TimelineResult> {
        let t = &run.timeline;
        if t.spans.is_empty() {
            return None;
        }
        let table = |f: usize| s.flows[f].group.as_deref().unwrap_or(&s.flows[f].name).to_owned();
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (f, flow) in s.flows.iter().enumerate() {
            match groups.last_mut() {
                Some((name, members)) if s.flows.len() > MANY && *name == table(f) => members.push(f),
                _ if s.flows.len() > MANY => groups.push((table(f), vec![f])),
                _ => groups.push((flow.name.clone(), vec![f])),
            }
        }
        Some(TimelineResult {
            ends_s: t.spans.iter().map(|(_, to)| micro(to.since(base).as_secs_f64())).collect(),
            samples_joined: t.joined,
            lines: groups.iter().map(|(name, flows)| line(s, t, name, flows)).collect(),
        })
    }
}

fn line(s: &Scenario, t: &Timeline, name: &str, flows: &[usize]) -> LineResult {
    let sum = |of: fn(&Spell) -> u64| {
        t.spells.iter().map(|spells| flows.iter().map(|f| of(&spells[*f])).sum()).collect::<Vec<u64>>()
    };
    let most = |of: fn(&Spell) -> Option<u64>| {
        t.spells.iter().map(|spells| flows.iter().filter_map(|f| of(&spells[*f])).max()).collect()
    };
    let goodput = |(span, spells): (&(Instant, Instant), &Vec<Spell>)| {
        let bytes: f64 = flows.iter().map(|f| payload(s, *f, &spells[*f])).sum();
        milli(bytes * 8.0 / span.1.since(span.0).as_nanos() as f64)
    };
    let rate = |spells: &Vec<Spell>| {
        let all = flows.iter().filter_map(|f| spells[*f].counts.rate_bps);
        milli(all.sum::<f64>() / 1e9)
    };
    let limited = t.spells.iter().any(|sp| flows.iter().any(|f| sp[*f].counts.rate_bps.is_some()));
    LineResult {
        name: name.to_owned(),
        goodput_gbps: t.spans.iter().zip(&t.spells).map(goodput).collect(),
        p50_ns: most(|s| s.p50),
        p99_ns: most(|s| s.p99),
        cnps: sum(|s| s.counts.cnps),
        naks: sum(|s| s.counts.naks),
        retransmits: sum(|s| s.counts.retransmits),
        rate_gbps: limited.then(|| t.spells.iter().map(rate).collect()),
    }
}

/// Payload bytes of a spell: what arrived, where that is seen here; else what was acknowledged.
pub(crate) fn payload(s: &Scenario, flow: usize, spell: &Spell) -> f64 {
    let f = &s.flows[flow];
    let sink = if f.data_from() == f.to { f.from } else { f.to };
    if s.ports[sink].is_local() {
        spell.counts.bytes as f64
    } else {
        spell.counts.acked as f64 * Mean::of(s, f).payload_per_packet()
    }
}

/// How the latencies of a flow are spread: pairs of a percentile and the nanoseconds that so many
/// messages did not exceed, up to the last message but one.
pub(super) fn spread(latency: &Latency) -> Vec<(f64, u64)> {
    let count = latency.count();
    let at = |percent: f64| latency.percentile_ns(percent).map(|ns| (percent, ns));
    let mut points: Vec<f64> = (0..18).map(|i| f64::from(i) * 5.0).collect();
    // From 90 % on, ten steps for each nine more.
    for nines in 1..7 {
        let tail = 10f64.powi(2 - nines);
        if count as f64 * tail / 100.0 < 1.0 {
            break;
        }
        points.extend((0..10).map(|i| 100.0 - tail * (1.0 - f64::from(i) * 0.09)));
    }
    let resolved = |p: &f64| count as f64 * (100.0 - p) / 100.0 >= 1.0;
    let mut pairs: Vec<_> = points.into_iter().filter(resolved).filter_map(at).collect();
    for pair in &mut pairs {
        pair.0 = (pair.0 * 1e7).round() / 1e7;
    }
    pairs
}

/// When measuring began: what times of the result count from.
pub(super) fn began(flows: &[FlowMeasure], run: &Finished) -> Instant {
    // The first span of the timeline may begin a little later.
    let first = run.intervals.first().map(|interval| interval.from);
    first.or_else(|| flows.first().map(|f| f.base.sampled)).unwrap_or(Instant::ZERO)
}

fn micro(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

fn milli(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_engine::units::Duration;

    #[test]
    fn the_spread_ends_where_messages_do() {
        let mut latency = Latency::default();
        assert!(spread(&latency).is_empty());
        for ns in 1..=1000 {
            latency.record(Duration::from_nanos(ns * 1000));
        }
        let pairs = spread(&latency);
        assert_eq!(pairs[0], (0.0, 1000));
        let last = pairs[pairs.len() - 1];
        assert!((99.8..=99.9).contains(&last.0), "one message in a thousand is above: {last:?}");
        assert!(pairs.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{pairs:?}");
        let p90 = pairs.iter().find(|p| p.0 == 90.0).unwrap().1;
        assert!(p90.abs_diff(900_000) < 1000, "{p90}");
    }
}
