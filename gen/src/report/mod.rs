//! What a run has to say: the result as JSON, as a table, as histograms, and the verdict.

mod again;
mod by_hand;
mod collective;
pub mod compare;
mod detail;
mod details;
mod expect;
mod fabric;
mod faults;
mod hdr;
pub mod html;
mod injected;
mod intervals;
mod limits;
mod output;
mod pauses;
mod recovery;
mod result;
mod table;
mod timeline;

pub use again::report;
pub use by_hand::{Act, ByHandResult, Intervention};
pub use collective::CollectiveResult;
pub use detail::{AskedResult, DetailResult, KindResult, QpResult, SizeBin, SizesResult};
pub use fabric::{
    FabricMeasure, FabricPortMeasure, FabricResult, QueueLineResult, QueuesResult, SwitchMeasure,
};
pub use injected::{Agreement, ImpairResult, Injected, RuleResult};
pub(crate) use intervals::Intervals;
pub use limits::LimitResult;
pub(crate) use output::print_progress;
pub use output::{Outputs, print};
pub use recovery::{RecoveryResult, StageResult};
pub use result::{FlowResult, RunResult};
pub(crate) use timeline::payload;

use crate::config::Scenario;
use crate::measure::{Detail, FlowStats, Latency, Series, Timeline};
use crate::run::Environment;
use roce_engine::cc::{Gaps, PauseCounters};
use roce_engine::io::dpdk::PortStats;
use roce_engine::io::pcap::Capture;
use roce_engine::transport::Stages;
use roce_engine::units::{Duration, Instant, Rate};
use roce_engine::worker::{EndpointCounters, Load};
use std::process::ExitCode;

/// What was measured of a flow.
#[derive(Clone, Debug)]
pub struct FlowMeasure {
    /// Counts when measuring began, ended, and after the drain.
    pub base: FlowStats,
    /// When it ended.
    pub end: FlowStats,
    /// After the drain.
    pub last: FlowStats,
    /// The span of the measurement.
    pub elapsed: Duration,
    /// Latencies of all messages that ended after the warm-up.
    pub latency: Latency,
    /// What is told apart further, of the same messages.
    pub detail: Detail,
    /// When measuring began.
    pub origin: Instant,
    /// Gaps between packets with data, in the span of the measurement.
    pub gaps: Gaps,
    /// How long recoveries took, at our ends, since the start.
    pub stages: Stages,
    /// The line rate that shares are of.
    pub line_rate: Option<Rate>,
    /// The smallest goodput over a window, in Gb/s, where one was asked for.
    pub min_window_gbps: Option<f64>,
    /// What the other process said: messages received, verified, wrong.
    pub peer: Option<(u64, u64, u64)>,
}

/// What was measured of a port.
#[derive(Clone, Debug, Default)]
pub struct PortMeasure {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// The driver of DPDK's.
    pub driver: String,
    /// Offloads in use.
    pub offloads: Vec<&'static str>,
    /// Frames by their fate.
    pub counters: EndpointCounters,
    /// What the driver counted.
    pub driver_stats: PortStats,
    /// Frames of it that found a queue on the way full, in virtual time.
    pub tail_dropped: u64,
    /// Pauses, where this program does flow control.
    pub pauses: Option<PauseCounters>,
}

/// How a worker spent the time after the warm-up.
#[derive(Clone, Debug)]
pub struct WorkerMeasure {
    /// Its core.
    pub core: usize,
    /// Indices of its ports in the scenario; none in virtual time, where no core limits anything.
    pub ports: Vec<usize>,
    /// Share of the time in which it had something to do, 0..=1.
    pub busy: f64,
    /// Turns of the poll loop in which there was nothing.
    pub idle_turns: u64,
    /// Turns.
    pub turns: u64,
    /// The longest turn since the start.
    pub longest: Duration,
    /// Share of the time in which something else had the core, 0..=1.
    pub away: f64,
}

impl WorkerMeasure {
    /// What happened between two moments.
    pub fn between(core: usize, ports: Vec<usize>, before: &Load, after: &Load) -> WorkerMeasure {
        let total = after.total.as_nanos() - before.total.as_nanos();
        WorkerMeasure {
            core,
            ports,
            busy: after.busy_since(before),
            idle_turns: after.idle_turns - before.idle_turns,
            turns: after.turns - before.turns,
            longest: after.longest,
            away: (after.away.as_nanos() - before.away.as_nanos()) as f64 / total.max(1) as f64,
        }
    }
}

/// The latencies of an interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// From when.
    pub from: Instant,
    /// To when.
    pub to: Instant,
    /// By flow.
    pub latency: Vec<Latency>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether the user ended it.
    pub interrupted: bool,
    /// Where it ran.
    pub environment: Environment,
    /// Wall-clock time of its origin, in nanoseconds since 1970.
    pub origin_ns: u64,
    /// By flow of the scenario.
    pub flows: Vec<FlowMeasure>,
    /// By collective of the scenario: how long an iteration took a rank.
    pub collectives: Vec<Latency>,
    /// The local ports.
    pub ports: Vec<PortMeasure>,
    /// The workers.
    pub workers: Vec<WorkerMeasure>,
    /// The intervals of the measurement.
    pub intervals: Vec<Interval>,
    /// What each flow did, in short spans.
    pub timeline: Timeline,
    /// The recordings, by port name.
    pub captures: Vec<(String, Capture)>,
    /// What went wrong on purpose, by whatever sent the packets.
    pub injected: Vec<Injected>,
    /// What switches and cables did.
    pub fabric: Option<FabricMeasure>,
    /// How rates and queues went, where that was asked for.
    pub series: Option<Series>,
    /// Completions that found no room.
    pub cq_overflow: u64,
    /// Why the other process was gone before the end.
    pub peer_lost: Option<String>,
    /// What somebody did while it went.
    pub by_hand: Vec<Intervention>,
}

/// A run and its verdict.
#[derive(Debug)]
pub struct Judged {
    /// The run.
    pub run: Finished,
    /// The result.
    pub result: RunResult,
}

impl Finished {
    /// Works the result out, and judges it.
    pub fn judged(self, scenario: &Scenario) -> Judged {
        let result = RunResult::of(scenario, &self);
        Judged { run: self, result }
    }
}

impl Judged {
    /// 0 for pass, 1 for fail, 130 when the user ended the run.
    pub fn exit_code(&self) -> ExitCode {
        match (self.run.interrupted, self.result.passed()) {
            (true, _) => ExitCode::from(130),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::from(1),
        }
    }
}
