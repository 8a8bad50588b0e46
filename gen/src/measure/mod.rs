//! What is measured: samples that workers fill and the control thread takes apart.

mod detail;
mod latency;
mod queues;
mod series;
mod tick;
mod timeline;

pub use detail::{Bin, Detail, KindCount, QpDetail, SizeDetail, bin_bounds, bin_of};
pub use latency::Latency;
pub use queues::{QueueSpan, QueueTimeline};
pub use series::{ControlState, QueueSeries, QueueState, RateSeries, Series};
pub use tick::{Collector, Row, Spread, Subject, Tick};
pub use timeline::{Reading, Spell, Timeline};

use roce_engine::cc::{DcqcnState, Gaps, PauseCounters};
use roce_engine::transport::{QpCounters, Stages};
use roce_engine::units::{Instant, Qpn, Rate};
use roce_engine::verbs::CompletionStatus;
use roce_engine::worker::{EndpointCounters, Load};

/// How a queue pair of a flow ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpFailure {
    /// Index of the queue pair in the flow.
    pub qp: u32,
    /// Its number.
    pub qpn: Qpn,
    /// The peer's.
    pub dest_qpn: Qpn,
    /// The first error.
    pub status: CompletionStatus,
    /// When.
    pub at: Instant,
}

/// The first wrong payload of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPayload {
    /// Index of the queue pair in the flow.
    pub qp: u32,
    /// The message's number on its queue pair.
    pub message: u64,
    /// Offset of the first wrong byte.
    pub offset: u64,
}

/// What the reaction points of a flow have come to, those of the queue pairs that send its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reactions {
    /// Queue pairs.
    pub qps: u32,
    /// Those that are limited.
    pub limited: u32,
    /// The lowest and the highest rate.
    pub rates: (Rate, Rate),
    /// Sums over the queue pairs: rate and target rate in bit/s, alpha.
    pub sums: (f64, f64, f64),
    /// Cuts since the start.
    pub cuts: u64,
}

impl Reactions {
    /// Those of one queue pair.
    pub fn of(state: &DcqcnState) -> Reactions {
        Reactions {
            qps: 1,
            limited: u32::from(state.active),
            rates: (state.rate, state.rate),
            sums: (state.rate.bps() as f64, state.target.bps() as f64, state.alpha),
            cuts: state.cuts,
        }
    }

    /// Adds `other` to `self`.
    pub fn add(&mut self, other: &Reactions) {
        self.qps += other.qps;
        self.limited += other.limited;
        self.rates = (self.rates.0.min(other.rates.0), self.rates.1.max(other.rates.1));
        self.sums.0 += other.sums.0;
        self.sums.1 += other.sums.1;
        self.sums.2 += other.sums.2;
        self.cuts += other.cuts;
    }
}

/// Adds up what may be there.
fn add_reactions(sum: &mut Option<Reactions>, other: Option<Reactions>) {
    match (sum.as_mut(), other) {
        (Some(sum), Some(other)) => sum.add(&other),
        (None, other) => *sum = other,
        (Some(_), None) => {}
    }
}

/// What one worker knows of a flow, counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowStats {
    /// Messages posted.
    pub posted: u64,
    /// Messages completed without error.
    pub completed: u64,
    /// Their payload.
    pub bytes: u64,
    /// Their packets with payload.
    pub packets: u64,
    /// Bytes of those frames without FCS.
    pub l2_bytes: u64,
    /// Bytes of line time of those frames.
    pub l1_bytes: u64,
    /// Messages that ended in error, flushed ones included.
    pub failed: u64,
    /// Messages posted and not yet ended.
    pub outstanding: u64,
    /// Messages that the receiving side took.
    pub received: u64,
    /// Messages whose payload was checked.
    pub verified: u64,
    /// Messages that were wrong: lost, doubled, torn or misplaced bytes.
    pub verify_errors: u64,
    /// Messages that went missing on an unreliable service.
    pub lost: u64,
    /// Messages that were due, in flows paced by messages, and never posted for want of room.
    pub overdue: u64,
    /// Messages that were due by the clock while their queue pair had no room for them.
    pub waited: u64,
    /// When the last message ended.
    pub last: Instant,
    /// When the workers that send counted.
    pub sampled: Instant,
    /// Counters of the queue pairs of the `from` side and of the `to` side.
    pub counters: [QpCounters; 2],
    /// What congestion control has come to, where there is one.
    pub reactions: Option<Reactions>,
    /// The first failure.
    pub failure: Option<QpFailure>,
    /// Queue pairs that failed.
    pub failed_qps: u64,
    /// The first wrong payload.
    pub wrong: Option<WrongPayload>,
}

impl FlowStats {
    /// Adds what congestion control of a queue pair has come to.
    pub fn note_reaction(&mut self, state: &DcqcnState) {
        add_reactions(&mut self.reactions, Some(Reactions::of(state)));
    }

    /// Adds what another worker knows of the same flow.
    pub fn add(&mut self, other: &FlowStats) {
        self.posted += other.posted;
        self.completed += other.completed;
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.l2_bytes += other.l2_bytes;
        self.l1_bytes += other.l1_bytes;
        self.failed += other.failed;
        self.outstanding += other.outstanding;
        self.received += other.received;
        self.verified += other.verified;
        self.verify_errors += other.verify_errors;
        self.lost += other.lost;
        self.overdue += other.overdue;
        self.waited += other.waited;
        self.last = self.last.max(other.last);
        self.sampled = self.sampled.max(other.sampled);
        for (sum, more) in self.counters.iter_mut().zip(&other.counters) {
            sum.add(more);
        }
        add_reactions(&mut self.reactions, other.reactions);
        self.failed_qps += other.failed_qps;
        self.failure = match (self.failure, other.failure) {
            (Some(a), Some(b)) => Some(if a.at <= b.at { a } else { b }),
            (a, b) => a.or(b),
        };
        self.wrong = self.wrong.or(other.wrong);
    }

    /// Whether each message that was posted has ended or is outstanding, and each PSN likewise.
    pub fn is_balanced(&self) -> bool {
        let psns = self.counters.iter().all(|c| {
            let ended = c.psns_acked + c.psns_failed;
            if self.outstanding == 0 { c.psns_sent == ended } else { c.psns_sent >= ended }
        });
        psns && self.posted == self.completed + self.failed + self.outstanding
    }
}

/// A flow's part of a sample.
#[derive(Clone, Debug)]
pub struct FlowSample {
    /// Index of the flow in the scenario; past the end where the sample has room for more flows than
    /// the worker has.
    pub flow: usize,
    /// Counts since the start.
    pub stats: FlowStats,
    /// Latencies since the last sample.
    pub latency: Latency,
    /// What is told apart further, since the last sample.
    pub detail: Detail,
    /// Gaps between packets with data, since the start.
    pub gaps: Gaps,
    /// Recoveries of both sides since the start.
    pub stages: Stages,
}

impl FlowSample {
    /// An empty one for a flow; `latency` is empty too.
    pub fn new(flow: usize, latency: Latency) -> FlowSample {
        let (stats, gaps, stages) = (FlowStats::default(), Gaps::default(), Stages::default());
        FlowSample { flow, stats, latency, detail: Detail::default(), gaps, stages }
    }
}

/// A collective's part of a sample.
#[derive(Clone, Debug)]
pub struct CollectiveSample {
    /// Index of the collective in the scenario.
    pub collective: usize,
    /// How long an iteration took a rank, since the last sample.
    pub time: Latency,
}

impl CollectiveSample {
    /// An empty one; `time` is empty too.
    pub fn new(collective: usize, time: Latency) -> CollectiveSample {
        CollectiveSample { collective, time }
    }

    /// An empty one with the same room.
    pub fn blank(&self) -> CollectiveSample {
        CollectiveSample { collective: self.collective, time: self.time.blank() }
    }
}

/// What one worker knows of a port.
#[derive(Clone, Debug, Default)]
pub struct PortSample {
    /// Index of the port in the scenario.
    pub port: usize,
    /// Frames by their fate.
    pub counters: EndpointCounters,
    /// Completions that found no room.
    pub cq_overflow: u64,
    /// Pauses, where this program does flow control.
    pub pauses: Option<PauseCounters>,
}

/// A sample of a worker: travels to the worker empty and comes back full.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// When it was filled.
    pub at: Instant,
    /// The flows of the worker.
    pub flows: Vec<FlowSample>,
    /// The collectives that ports of the worker are ranks of.
    pub collectives: Vec<CollectiveSample>,
    /// The ports of the worker.
    pub ports: Vec<PortSample>,
    /// How the worker spent its time.
    pub load: Load,
    /// Whether it has nothing outstanding.
    pub idle: bool,
}

impl Sample {
    /// An empty sample for `flows` flows and `ports` ports of a worker, with a copy of `latency`,
    /// which is empty, for each flow.
    pub fn new(flows: usize, ports: usize, latency: &Latency) -> Sample {
        Sample {
            flows: (0..flows).map(|_| FlowSample::new(usize::MAX, latency.clone())).collect(),
            ports: vec![PortSample::default(); ports],
            ..Sample::default()
        }
    }
}
