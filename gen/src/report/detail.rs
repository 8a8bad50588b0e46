//! What a result tells of a flow beyond rates and latencies: sizes, kinds, queue pairs, and whether it
//! got what it asked for.

use super::result::LatencyResult;
use super::{Finished, FlowMeasure};
use crate::config::{Arrival, Flow, FlowRate, Layer, Scenario};
use crate::measure::{Bin, SizeDetail, bin_bounds};
use crate::plan::{Mean, Rates};
use roce_engine::units::Duration;
use schemars::JsonSchema;
use serde::Serialize;

/// What is told of a flow further; parts that it has nothing of are left out.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct DetailResult {
    /// Whether it got the rate it asked for; left out where it asked for none.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedResult>,
    /// The sizes of its messages, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizesResult>,
    /// By kind of message, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<KindResult>,
    /// From when a message was due to when it was posted, in nanoseconds, where messages are due by
    /// the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_delay_ns: Option<LatencyResult>,
    /// Messages that were due while their queue pair had no room for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_waited: Option<u64>,
    /// How long messages took, by size, where sizes differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_size: Vec<SizeBin>,
    /// Jain's index of the bytes of its queue pairs, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qp_jain: Option<f64>,
    /// The bytes of the queue pair that had most, to those of the one that had least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qp_max_min_ratio: Option<f64>,
    /// By queue pair, where that is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_pairs: Vec<QpResult>,
}

/// What a flow asked for, and what it got.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AskedResult {
    /// What the two rates are of: `l1_gbps`, `l2_gbps`, `goodput_gbps`, `packet_rate` or `message_rate`.
    pub rate_unit: &'static str,
    /// The rate that was asked for.
    pub rate_asked: f64,
    /// The rate that it came to.
    pub rate_got: f64,
    /// Whether that is what was asked for, to a hundredth.
    pub rate_kept: bool,
    /// Why not, as far as counters tell; `null` where it is.
    pub why: Option<String>,
}

/// The sizes that were asked for, and those that messages had.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SizesResult {
    /// The distribution, in words.
    pub asked: String,
    /// Its mean in bytes.
    pub mean_asked: f64,
    /// Messages looked at.
    pub count: u64,
    /// The mean of their sizes.
    pub mean: f64,
    /// The smallest, to three digits.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// The largest, to three digits.
    pub max: u64,
    /// The largest difference between the share of messages up to a size and the share asked for
    /// (Kolmogorov, Smirnov).
    pub ks_distance: f64,
}

/// Messages of one kind.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct KindResult {
    /// What was posted.
    pub verb: &'static str,
    /// How large, in words.
    pub sizes: String,
    /// The share of messages asked for, in per cent.
    pub share_pct: f64,
    /// Messages.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
}

/// Messages of like size; percentiles are right to a hundredth.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct SizeBin {
    /// The smallest size.
    pub from_bytes: u64,
    /// The largest size.
    pub to_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// The median of the time to completion, in nanoseconds.
    pub time_p50_ns: u64,
    /// 95 %.
    pub time_p95_ns: u64,
    /// 99 %.
    pub time_p99_ns: u64,
    /// The longest.
    pub time_max_ns: u64,
    /// The time as a multiple of the ideal; left out where there is no line rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
}

/// Times as multiples of the ideal: line time at L1 plus the base round trip.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Slowdown {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// What a queue pair did in the measured span.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct QpResult {
    /// Its index in the flow.
    pub qp: u32,
    /// Messages that ended well.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
    /// Payload.
    pub goodput_gbps: f64,
    /// Latencies, right to a hundredth; those of the drain included.
    pub latency_ns: Option<LatencyResult>,
}

/// What the latencies of a flow are.
pub(super) fn latency_kind(flow: &Flow) -> &'static str {
    if flow.transport.is_reliable() { "round-trip" } else { "local" }
}

impl DetailResult {
    /// All but `asked`.
    pub(super) fn of(flow: &Flow, m: &FlowMeasure) -> DetailResult {
        let detail = &m.detail;
        let open = flow.open_rate().is_some() || detail.delay.is_some();
        let bytes: Vec<f64> = detail.qps.iter().map(|qp| qp.bytes as f64).collect();
        let seconds = m.elapsed.as_secs_f64();
        let qp = |(i, qp): (usize, &crate::measure::QpDetail)| QpResult {
            qp: i as u32,
            messages: qp.messages,
            bytes: qp.bytes,
            goodput_gbps: if seconds > 0.0 { qp.bytes as f64 * 8e-9 / seconds } else { 0.0 },
            latency_ns: qp.latency.as_ref().and_then(|l| LatencyResult::of(l, m.origin)),
        };
        let kinds = flow.traffic.kinds().iter().zip(&detail.kinds);
        let kind = |(kind, count): (&crate::workload::Kind, &crate::measure::KindCount)| KindResult {
            verb: kind.verb.as_str(),
            sizes: kind.sizes.describe(),
            share_pct: kind.share * 100.0,
            messages: count.messages,
            bytes: count.bytes,
        };
        DetailResult {
            asked: None,
            sizes: detail.sizes.as_ref().and_then(|sizes| SizesResult::of(flow, sizes)),
            mix: kinds.map(kind).collect(),
            post_delay_ns: detail.delay.as_ref().and_then(|l| LatencyResult::of(l, m.origin)),
            messages_waited: open.then(|| m.last.waited - m.base.waited),
            by_size: detail.sizes.as_ref().map(bins).unwrap_or_default(),
            qp_jain: jain(&bytes),
            qp_max_min_ratio: max_min_ratio(&bytes),
            queue_pairs: detail.qps.iter().enumerate().filter(|_| flow.per_qp).map(qp).collect(),
        }
    }
}

impl SizesResult {
    fn of(flow: &Flow, detail: &SizeDetail) -> Option<SizesResult> {
        let sizes = &detail.sizes;
        Some(SizesResult {
            asked: flow.traffic.describe(),
            mean_asked: flow.traffic.mean_size(),
            count: sizes.len(),
            mean: sizes.mean(),
            min: sizes.min(),
            p50: sizes.value_at_quantile(0.5),
            p99: sizes.value_at_quantile(0.99),
            max: sizes.max(),
            ks_distance: detail.distance(|size| flow.traffic.share_up_to(size))?,
        })
    }
}

/// The classes of size that have messages.
fn bins(detail: &SizeDetail) -> Vec<SizeBin> {
    let of = |(i, bin): (usize, &Bin)| {
        let (from_bytes, to_bytes) = bin_bounds(detail.first + i);
        let time = |percent| bin.time.percentile_ns(percent);
        let slow = |percent| bin.slowdown.percentile_ns(percent).map(|n| n as f64 / 1e3);
        let slowdown = || {
            Some(Slowdown {
                mean: bin.slowdown.mean_ns()? / 1e3,
                p50: slow(50.0)?,
                p95: slow(95.0)?,
                p99: slow(99.0)?,
                max: slow(100.0)?,
            })
        };
        Some(SizeBin {
            from_bytes,
            to_bytes,
            messages: bin.time.count(),
            time_p50_ns: time(50.0)?,
            time_p95_ns: time(95.0)?,
            time_p99_ns: time(99.0)?,
            time_max_ns: time(100.0)?,
            slowdown: slowdown(),
        })
    };
    detail.bins.iter().enumerate().filter_map(of).collect()
}

/// Jain's index: 1 where all have the same, 1/n where one has all.
pub(super) fn jain(all: &[f64]) -> Option<f64> {
    let sum: f64 = all.iter().sum();
    let squares: f64 = all.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (all.len() as f64 * squares))
}

/// The most to the least; `None` where that is nothing.
pub(super) fn max_min_ratio(all: &[f64]) -> Option<f64> {
    let (low, high) =
        (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    (low > 0.0 && low.is_finite()).then(|| high / low)
}

impl AskedResult {
    /// `None` where flow number `f` asked for no rate.
    pub(super) fn of(s: &Scenario, f: usize, run: &Finished) -> Option<AskedResult> {
        let (flow, m) = (&s.flows[f], &run.flows[f]);
        let asked = Mean::of(s, flow).asked(flow.asked_rate(), m.line_rate)?;
        let got = Rates::between(&m.base, &m.end, m.elapsed);
        let open = flow.open_rate().is_some();
        let (rate_unit, of): (_, fn(&Rates) -> f64) = match flow.asked_rate() {
            _ if open => ("message_rate", |r| r.messages),
            FlowRate::Packets(_) => ("packet_rate", |r| r.packets),
            FlowRate::Bits { layer: Layer::L2, .. } => ("l2_gbps", |r| r.l2_bps / 1e9),
            FlowRate::Bits { layer: Layer::Goodput, .. } => ("goodput_gbps", |r| r.goodput_bps / 1e9),
            _ => ("l1_gbps", |r| r.l1_bps / 1e9),
        };
        let on = match flow.arrival {
            Arrival::OnOff { on, off } => on.as_secs_f64() / (on + off).as_secs_f64(),
            _ => 1.0,
        };
        let (rate_asked, rate_got) = (of(&asked) * on, of(&got));
        // What is due at random need not come to its mean: what counts is whether it was posted.
        let rate_kept = match open {
            true => m.last.overdue <= u64::from(flow.qps).max((m.last.posted + m.last.overdue) / 100),
            false => rate_got >= rate_asked * 0.99,
        };
        let why = (!rate_kept).then(|| why(s, flow, m, run, &got));
        Some(AskedResult { rate_unit, rate_asked, rate_got, rate_kept, why })
    }
}

/// What counters tell of why a flow did not get what it asked for.
fn why(s: &Scenario, flow: &Flow, m: &FlowMeasure, run: &Finished, got: &Rates) -> String {
    let mut all = Vec::new();
    if m.last.overdue != 0 {
        all.push(format!("{} messages that were due had not been posted at the end", m.last.overdue));
    }
    let waited = m.last.waited - m.base.waited;
    if waited != 0 {
        all.push(format!("depth {} was full when {waited} messages were due", flow.depth));
    }
    let sum =
        |of: fn(&roce_engine::transport::QpCounters) -> u64| m.last.counters.iter().map(of).sum::<u64>();
    for (count, what) in [
        (sum(|c| c.rp_cnp_handled), "CNPs slowed it down"),
        (sum(|c| c.retransmits), "packets were sent again"),
        (sum(|c| c.rnr_nak_retry_err), "times the receiver was not ready"),
    ] {
        if count != 0 {
            all.push(format!("{count} {what}"));
        }
    }
    let port = &s.ports[flow.data_from()].name;
    if let Some(p) = run.ports.iter().find(|p| p.name == *port).filter(|p| p.counters.tx_full_turns != 0) {
        all.push(format!("port \"{port}\" was full in {} turns", p.counters.tx_full_turns));
    }
    // In a closed loop no more can be under way than there is room for.
    let room = f64::from(flow.depth) * f64::from(flow.qps);
    if let Some(mean) = m.latency.mean_ns().filter(|_| flow.open_rate().is_none()) {
        if got.messages * mean / 1e9 > 0.9 * room {
            let mean = Duration::from_nanos(mean as u64);
            all.push(format!("all {room} messages of its depth were under way, for {mean} each"));
        }
    }
    if all.is_empty() {
        all.push("no counter of this flow and its port tells".to_owned());
    }
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(
            (jain(&[]), jain(&[0.0]), max_min_ratio(&[]), max_min_ratio(&[1.0, 0.0])),
            (None, None, None, None)
        );
        assert_eq!((jain(&[2.0, 2.0]), max_min_ratio(&[2.0, 2.0])), (Some(1.0), Some(1.0)));
        assert_eq!((jain(&[1.0, 0.0, 0.0, 0.0]), max_min_ratio(&[1.0, 4.0])), (Some(0.25), Some(4.0)));
    }
}
