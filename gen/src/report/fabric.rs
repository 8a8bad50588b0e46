//! What switches and cables did, in virtual time.

use crate::measure::QueueTimeline;
use roce_engine::fabric::{PortCounters, PriorityCounters, Totals};
use roce_engine::units::{Duration, Instant};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Ports whose queues are shown over time.
const LINES: usize = 8;

/// What was measured of a fabric.
#[derive(Clone, Debug, Default)]
pub struct FabricMeasure {
    /// The shape.
    pub topology: &'static str,
    /// The switches.
    pub switches: Vec<SwitchMeasure>,
    /// The ports of switches and of hosts.
    pub ports: Vec<FabricPortMeasure>,
    /// What became of all packets.
    pub totals: Totals,
    /// The queues of switches over time, by port, in the order of `ports`.
    pub queues: QueueTimeline,
}

/// What was measured of a switch.
#[derive(Clone, Debug)]
pub struct SwitchMeasure {
    /// Its name.
    pub name: String,
    /// Most bytes in its buffer.
    pub buffer_peak: u64,
}

/// What was measured of a port of a fabric.
#[derive(Clone, Debug)]
pub struct FabricPortMeasure {
    /// What it belongs to: a switch or a host's port.
    pub name: String,
    /// What its cable leads to.
    pub to: String,
    /// Between two switches.
    pub trunk: bool,
    /// What it counted since the start.
    pub counters: PortCounters,
    /// Line time that it used while measured, and the time that was measured.
    pub busy: Duration,
    /// The span of the measurement.
    pub elapsed: Duration,
    /// How long its queues were paused, all priorities together, since the start.
    pub paused: Duration,
}

/// The result of a fabric; counts are since the start, shares of the measured span.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FabricResult {
    /// The shape.
    pub topology: &'static str,
    /// Packets that left a port.
    pub packet_events: u64,
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that came to a host.
    pub delivered: u64,
    /// Packets that were dropped: the sum of all ports.
    pub dropped: u64,
    /// Packets that were marked with congestion experienced.
    pub marked: u64,
    /// Pauses that were asked for.
    pub pauses: u64,
    /// Use of the cables between switches, each direction for itself; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunks: Option<TrunkResult>,
    /// The switches.
    pub switches: Vec<SwitchResult>,
    /// The ports of switches, then those of hosts.
    pub ports: Vec<FabricPortResult>,
    /// The longest queues of switches over the measured span; left out where it was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<QueuesResult>,
}

/// Queues over time, looked at as often as flows are: columns, one figure for each span.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QueuesResult {
    /// When each span ended, in seconds since measuring began.
    pub ends_s: Vec<f64>,
    /// Pauses that all ports asked for.
    pub pauses: Vec<u64>,
    /// The ports whose queues were the longest, the longest first.
    pub lines: Vec<QueueLineResult>,
}

/// The queues of a port over time.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QueueLineResult {
    /// What it belongs to.
    pub name: String,
    /// What its cable leads to.
    pub to: String,
    /// The most bytes that waited when it was looked at, all priorities together.
    pub bytes: Vec<u64>,
}

/// How evenly the cables between switches are used, in per cent of their rate.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct TrunkResult {
    /// How many, each direction counted.
    pub count: usize,
    /// The least used.
    pub use_min_pct: f64,
    /// The mean.
    pub use_mean_pct: f64,
    /// The most used.
    pub use_max_pct: f64,
}

/// A switch.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SwitchResult {
    /// Its name.
    pub name: String,
    /// Most bytes in its buffer.
    pub buffer_peak_bytes: u64,
}

/// A port of a fabric.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FabricPortResult {
    /// What it belongs to.
    pub name: String,
    /// What its cable leads to.
    pub to: String,
    /// Frames that it sent.
    pub tx_packets: u64,
    /// Their bytes without FCS.
    pub tx_bytes: u64,
    /// Line time of those, pause frames included, while measured.
    pub use_pct: f64,
    /// Frames that it marked.
    pub marked: u64,
    /// Frames that found its queue full.
    pub tail_dropped: u64,
    /// Frames that came in by it and found no headroom.
    pub headroom_dropped: u64,
    /// Frames that the watchdog dropped.
    pub watchdog_dropped: u64,
    /// Frames that came in by it for a place to which there is no way.
    pub no_route: u64,
    /// Most bytes in one of its queues.
    pub queue_peak_bytes: u64,
    /// Pauses that it asked its peer for.
    pub pauses_sent: u64,
    /// Pause frames that it sent, with repetitions and ends of pauses.
    pub pause_frames_sent: u64,
    /// Pauses that its peer asked for.
    pub pauses_received: u64,
    /// How long its queues were paused.
    pub paused_us: f64,
    /// Its queues, where more than one was used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueResult>,
}

/// What a port counted of one priority.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QueueResult {
    /// The priority.
    pub priority: u8,
    /// Frames that it sent.
    pub tx_packets: u64,
    /// Frames that it marked.
    pub marked: u64,
    /// Frames that were dropped, for whatever reason.
    pub dropped: u64,
    /// Most bytes that waited.
    pub peak_bytes: u64,
    /// Pauses that it asked its peer for.
    pub pauses_sent: u64,
}

impl FabricResult {
    /// Measuring began at `begin`.
    pub(super) fn of(m: &FabricMeasure, begin: Instant) -> FabricResult {
        let ports: Vec<_> = m.ports.iter().map(FabricPortResult::of).collect();
        let sum = |value: fn(&FabricPortResult) -> u64| ports.iter().map(value).sum();
        let trunks: Vec<f64> =
            m.ports.iter().zip(&ports).filter(|(m, _)| m.trunk).map(|(_, p)| p.use_pct).collect();
        FabricResult {
            topology: m.topology,
            packet_events: m.totals.events,
            sent: m.totals.sent,
            delivered: m.totals.delivered,
            dropped: sum(FabricPortResult::dropped),
            marked: sum(|p| p.marked),
            pauses: sum(|p| p.pauses_sent),
            trunks: (!trunks.is_empty()).then(|| TrunkResult {
                count: trunks.len(),
                use_min_pct: trunks.iter().copied().fold(f64::INFINITY, f64::min),
                use_mean_pct: trunks.iter().sum::<f64>() / trunks.len() as f64,
                use_max_pct: trunks.iter().copied().fold(0.0, f64::max),
            }),
            switches: m
                .switches
                .iter()
                .map(|s| SwitchResult { name: s.name.clone(), buffer_peak_bytes: s.buffer_peak })
                .collect(),
            ports,
            queues: QueuesResult::of(m, begin),
        }
    }

    /// A count that an expectation may name.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        match name {
            "fabric_dropped" => Some(self.dropped),
            "fabric_marked" => Some(self.marked),
            "fabric_pauses" => Some(self.pauses),
            _ => None,
        }
    }

    /// What does not balance, in words.
    pub(super) fn failures(m: &FabricMeasure) -> Option<String> {
        let t = &m.totals;
        let dropped: u64 = m.ports.iter().map(|p| FabricPortResult::of(p).dropped()).sum();
        (t.sent != t.delivered + t.dropped + t.inside || t.dropped != dropped).then(|| {
            format!(
                "fabric: totals do not balance: {} sent, {} delivered, {} dropped ({dropped} by ports), {} inside",
                t.sent, t.delivered, t.dropped, t.inside
            )
        })
    }
}

impl QueuesResult {
    fn of(m: &FabricMeasure, begin: Instant) -> Option<QueuesResult> {
        let QueueTimeline { ends, spans, .. } = &m.queues;
        let ports = spans.first()?.bytes.len();
        let line = |port: usize| spans.iter().map(move |s| s.bytes[port]);
        let mut longest: Vec<usize> = (0..ports).filter(|p| line(*p).any(|bytes| bytes != 0)).collect();
        longest.sort_by_key(|p| std::cmp::Reverse(line(*p).max()));
        longest.truncate(LINES);
        let lines = longest.into_iter().map(|p| QueueLineResult {
            name: m.ports[p].name.clone(),
            to: m.ports[p].to.clone(),
            bytes: line(p).collect(),
        });
        Some(QueuesResult {
            ends_s: ends.iter().map(|end| end.since(begin).as_secs_f64()).collect(),
            pauses: spans.iter().map(|s| s.pauses).collect(),
            lines: lines.collect(),
        })
    }
}

impl QueueResult {
    fn of(priorities: &[PriorityCounters]) -> Vec<QueueResult> {
        let used = |p: &PriorityCounters| p.tx_packets + p.dropped() + p.pauses_sent != 0;
        if priorities.iter().filter(|p| used(p)).count() < 2 {
            return Vec::new();
        }
        let queue = |(i, p): (usize, &PriorityCounters)| QueueResult {
            priority: i as u8,
            tx_packets: p.tx_packets,
            marked: p.marked,
            dropped: p.dropped(),
            peak_bytes: p.peak,
            pauses_sent: p.pauses_sent,
        };
        priorities.iter().enumerate().filter(|(_, p)| used(p)).map(queue).collect()
    }
}

impl FabricPortResult {
    fn of(m: &FabricPortMeasure) -> FabricPortResult {
        let p = &m.counters.priorities;
        let ns = m.elapsed.as_nanos().max(1) as f64;
        FabricPortResult {
            name: m.name.clone(),
            to: m.to.clone(),
            tx_packets: m.counters.tx_packets,
            tx_bytes: m.counters.tx_bytes,
            use_pct: m.busy.as_nanos() as f64 / ns * 100.0,
            marked: p.iter().map(|p| p.marked).sum(),
            tail_dropped: p.iter().map(|p| p.tail_dropped).sum(),
            headroom_dropped: p.iter().map(|p| p.headroom_dropped).sum(),
            watchdog_dropped: p.iter().map(|p| p.watchdog_dropped).sum(),
            no_route: m.counters.no_route,
            queue_peak_bytes: p.iter().map(|p| p.peak).max().unwrap_or(0),
            pauses_sent: p.iter().map(|p| p.pauses_sent).sum(),
            pause_frames_sent: p.iter().map(|p| p.pause_frames_sent).sum(),
            pauses_received: p.iter().map(|p| p.pauses_received).sum(),
            paused_us: m.paused.as_nanos() as f64 / 1e3,
            queues: QueueResult::of(p),
        }
    }

    fn dropped(&self) -> u64 {
        self.tail_dropped + self.headroom_dropped + self.watchdog_dropped + self.no_route
    }
}

/// A few lines: the sums, the trunks, the longest queue, the longest pause.
impl fmt::Display for FabricResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "fabric {}  switches {}  packet events {}  marked {}  dropped {}  pauses {}",
            self.topology,
            self.switches.len(),
            self.packet_events,
            self.marked,
            self.dropped,
            self.pauses
        )?;
        if let Some(t) = &self.trunks {
            writeln!(
                f,
                "trunks {}  use least {:.2} %  mean {:.2} %  most {:.2} %",
                t.count, t.use_min_pct, t.use_mean_pct, t.use_max_pct
            )?;
        }
        if let Some(p) = self.ports.iter().max_by_key(|p| p.queue_peak_bytes) {
            writeln!(f, "longest queue {} -> {}  {} B", p.name, p.to, p.queue_peak_bytes)?;
            for q in &p.queues {
                writeln!(
                    f,
                    "  priority {}  sent {}  marked {}  dropped {}  longest {} B  pauses {}",
                    q.priority, q.tx_packets, q.marked, q.dropped, q.peak_bytes, q.pauses_sent
                )?;
            }
        }
        match self.ports.iter().max_by(|a, b| a.paused_us.total_cmp(&b.paused_us)) {
            Some(p) if p.paused_us > 0.0 => {
                writeln!(f, "longest paused {} -> {}  {:.1} us", p.name, p.to, p.paused_us)
            }
            _ => Ok(()),
        }
    }
}
