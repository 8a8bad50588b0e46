//! The result: one JSON object, the same for every way to look at it.

use super::by_hand::ByHandResult;
use super::collective::CollectiveResult;
use super::detail::{AskedResult, DetailResult, jain, latency_kind, max_min_ratio};
use super::expect::{self, ExpectationResult};
use super::fabric::FabricResult;
use super::faults::{balance, failures, other_version};
use super::injected::ImpairResult;
use super::limits::{self, LimitResult};
use super::pauses::FlowControlResult;
use super::recovery::RecoveryResult;
use super::timeline::{self, TimelineResult};
use super::{Finished, FlowMeasure, PortMeasure, WorkerMeasure};
use crate::config::{Flow, Scenario};
use crate::measure::{Latency, Reactions};
use crate::plan::Rates;
use crate::run::Environment;
use roce_engine::cc::Gaps;
use roce_engine::transport::{Hold, QpCounters};
use roce_engine::units::{Duration, Instant};
use roce_engine::wire::DropReason;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RunResult {
    /// `rocegen-result-1`.
    pub schema: &'static str,
    /// `pass`, `fail` or `interrupted`.
    pub verdict: &'static str,
    /// Why it failed, one sentence each.
    pub reasons: Vec<String>,
    /// What kept each flow from more, as far as it can be told; see docs/measuring.md.
    pub limits: Vec<LimitResult>,
    /// The scenario file.
    pub scenario: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Where it was measured.
    pub environment: Environment,
    /// What somebody did at the keyboard while it went; left out where nobody did anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHandResult>,
    /// Whether every frame and every message has exactly one fate.
    pub balanced: bool,
    /// Jain's index of the goodput of the flows, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// The goodput of the fastest flow to that of the slowest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_min_ratio: Option<f64>,
    /// Latencies of all flows together, where there are several with latencies of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencyResult>,
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// By collective: patterns whose messages wait for one another; left out where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<CollectiveResult>,
    /// By local port.
    pub ports: Vec<PortResult>,
    /// What went wrong on purpose, and whether it was seen; left out where nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impairment: Option<ImpairResult>,
    /// What switches and cables did; left out where there is no fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricResult>,
    /// By worker.
    pub workers: Vec<WorkerResult>,
    /// By expectation.
    pub expectations: Vec<ExpectationResult>,
    /// How the flows went over time; left out where no span was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineResult>,
}

/// The result of a flow.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// The table of the scenario that it belongs to; left out where it is the only flow of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What it posted.
    pub verb: &'static str,
    /// `rc` or `uc`.
    pub transport: &'static str,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Messages outstanding on each.
    pub depth: u32,
    /// Path MTU in bytes.
    pub mtu: usize,
    /// The measured span: warm-up and drain are outside of it.
    pub elapsed_s: f64,
    /// Messages that ended well after the warm-up, those of the drain included.
    pub messages: u64,
    /// Those of the warm-up.
    pub messages_warmup: u64,
    /// Messages that ended in error, at any time.
    pub messages_failed: u64,
    /// Messages that had not ended when the drain was over.
    pub messages_outstanding: u64,
    /// Messages that the other side took, at any time; `null` when nobody told.
    pub messages_received: Option<u64>,
    /// Messages that were due, in a flow paced by messages, and had not been posted at the end.
    pub messages_overdue: u64,
    /// Messages that went missing on an unreliable connection.
    pub messages_lost: u64,
    /// Messages whose every byte was checked.
    pub messages_verified: u64,
    /// Messages that were wrong.
    pub verify_errors: u64,
    /// Payload bytes of `messages`.
    pub bytes: u64,
    /// Payload, in the measured span.
    pub goodput_gbps: f64,
    /// Frames without FCS.
    pub l2_gbps: f64,
    /// Frames, FCS, preamble and gap.
    pub l1_gbps: f64,
    /// What shares are of; `null` when the port has no speed and the scenario gives none.
    pub line_rate_gbps: Option<f64>,
    /// `l1_gbps` of it.
    pub line_rate_pct: Option<f64>,
    /// The smallest goodput over any `window` of the measured span; left out where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window_gbps: Option<f64>,
    /// Messages a second.
    pub message_rate: f64,
    /// Packets with payload a second.
    pub packet_rate: f64,
    /// Packets sent again.
    pub retransmits: u64,
    /// What its queue pairs do about congestion: `none` or `dcqcn`.
    pub cc: &'static str,
    /// What DCQCN came to, where it was at work and this process sends the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcqcn: Option<DcqcnResult>,
    /// The time between packets with data of a queue pair, in the measured span, where its flow is
    /// paced or under congestion control and sends them with its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_gap_ns: Option<GapResult>,
    /// What latencies are: `round-trip`, until the acknowledgement or what was read has come, or
    /// `local`, until the last packet has left.
    pub latency_kind: &'static str,
    /// From when a message was due or posted to its completion; `null` without messages.
    pub latency_ns: Option<LatencyResult>,
    /// How latencies are spread: pairs of a percentile and the nanoseconds that so many messages did not
    /// exceed.
    pub latency_spread: Vec<(f64, u64)>,
    /// What is told of it further.
    #[serde(flatten)]
    pub detail: DetailResult,
    /// How what was lost was recovered; left out where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryResult>,
    /// Counters of both sides' queue pairs, since the start.
    pub counters: BTreeMap<&'static str, u64>,
}

/// Gaps in nanoseconds, by the clock of the poll loop: packets of one turn leave at one time.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct GapResult {
    /// Gaps.
    pub count: u64,
    /// The mean.
    pub mean: u64,
    /// The median; percentiles are right to 1/16.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// What DCQCN came to, at the end of the measured span.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct DcqcnResult {
    /// Queue pairs that it limited then, of all of the flow.
    pub limited_qps: u32,
    /// Rates of all queue pairs, added up.  Rates are at L1.
    pub rate_gbps: f64,
    /// The lowest rate of a queue pair.
    pub rate_min_gbps: f64,
    /// The highest.
    pub rate_max_gbps: f64,
    /// Target rates, added up.
    pub target_gbps: f64,
    /// The mean of alpha.
    pub alpha: f64,
    /// Cuts since the start.
    pub cuts: u64,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct LatencyResult {
    /// Messages.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 95 %.
    pub p95: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p99_9: u64,
    /// 99.99 %.
    pub p99_99: u64,
    /// 99.999 %.
    pub p99_999: u64,
    /// The longest.
    pub max: u64,
    /// When the longest ended, in seconds since measuring began.
    pub max_at_s: f64,
    /// Messages that took longer than the histogram tells apart, 60 s.
    pub beyond_60s: u64,
}

/// The result of a port.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PortResult {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// DPDK's driver.
    pub driver: String,
    /// Offloads in use.
    pub offloads: Vec<&'static str>,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Their bytes without FCS.
    pub rx_bytes: u64,
    /// Their bytes without FCS.
    pub tx_bytes: u64,
    /// Received frames that moved a connection.
    pub delivered: u64,
    /// Received frames that moved nothing and were answered.
    pub answered: u64,
    /// Received frames that were dropped, by reason; reasons that did not occur are left out.
    pub rx_dropped: BTreeMap<&'static str, u64>,
    /// Pause frames received.
    pub rx_pause_frames: u64,
    /// Link-level flow control; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControlResult>,
    /// Frames that the device lost for want of room.
    pub rx_missed: u64,
    /// Frames dropped because the port took nothing for half a second, as when its link is lost.
    pub tx_dropped: u64,
    /// Frames of it that found the queue of the link full, in virtual time; left out where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_dropped: Option<u64>,
    /// Turns in which the port did not take all that was there to send.
    pub tx_full_turns: u64,
    /// Turns in which there was no memory for frames.
    pub tx_no_memory_turns: u64,
    /// How often a queue pair was asked for a packet and had none to send, by reason; reasons that did
    /// not occur are left out.
    pub tx_held: BTreeMap<&'static str, u64>,
}

/// How a worker spent its time.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct WorkerResult {
    /// Its core.
    pub core: usize,
    /// Share of the time in which it had something to do, in per cent.
    pub busy_pct: f64,
    /// Turns of the poll loop.
    pub turns: u64,
    /// Turns in which there was nothing to do.
    pub idle_turns: u64,
    /// The longest turn in nanoseconds: the poll loop was away for so long.
    pub longest_turn_ns: u64,
    /// Share of the time, in per cent, in turns of 200 us and more: something else had the core.
    pub away_pct: f64,
}

impl RunResult {
    /// Works everything out.
    pub fn of(s: &Scenario, run: &Finished) -> RunResult {
        let mut flows: Vec<_> =
            s.flows.iter().zip(&run.flows).map(|(f, m)| FlowResult::of(s, f, m)).collect();
        for (f, flow) in flows.iter_mut().enumerate() {
            flow.detail.asked = AskedResult::of(s, f, run);
        }
        let goodputs: Vec<_> = flows.iter().map(|f| f.goodput_gbps).filter(|_| flows.len() > 1).collect();
        let of = |m| PortResult { flow_control: FlowControlResult::of(s, m), ..PortResult::of(m) };
        let ports: Vec<_> = run.ports.iter().map(of).collect();
        let begin = timeline::began(&run.flows, run);
        let fabric = run.fabric.as_ref().map(|m| FabricResult::of(m, begin));
        let expectations = expect::judge(s, &flows, &ports, fabric.as_ref());
        let (balanced, mut reasons) = balance(s, run);
        let impairment = ImpairResult::of(s, run);
        reasons.extend(impairment.iter().flat_map(ImpairResult::failures));
        for (flow, measure) in flows.iter().zip(&run.flows) {
            reasons.extend(failures(s, flow, measure));
        }
        reasons.extend(run.peer_lost.clone());
        for e in expectations.iter().filter(|e| !e.pass) {
            let of = e.flow.as_ref().map_or(String::new(), |f| format!("flow \"{f}\": "));
            let got = e.got.map_or("nothing".to_string(), |g| format!("{g}"));
            reasons.push(format!("{of}{} is {got}, expected {}", e.metric, e.want));
        }
        if !reasons.is_empty() {
            reasons.extend(ports.iter().filter_map(other_version));
        }
        let by_hand = ByHandResult::of(run, begin);
        RunResult {
            schema: "rocegen-result-1",
            verdict: match (run.interrupted, reasons.is_empty()) {
                (true, _) => "interrupted",
                (false, true) => "pass",
                (false, false) => "fail",
            },
            limits: limits::of(s, run, &flows, by_hand.as_ref()),
            reasons,
            scenario: s.file.display().to_string(),
            seed: run.seed,
            environment: run.environment.clone(),
            by_hand,
            balanced,
            jain: jain(&goodputs),
            max_min_ratio: max_min_ratio(&goodputs),
            latency_ns: merged(s, run),
            flows,
            collectives: CollectiveResult::all(s, run),
            ports,
            impairment,
            fabric,
            workers: run.workers.iter().map(WorkerResult::of).collect(),
            expectations,
            timeline: TimelineResult::of(s, run, begin),
        }
    }

    /// Whether the verdict is pass.
    pub fn passed(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// The latencies of all flows, unless they mean different things.
fn merged(s: &Scenario, run: &Finished) -> Option<LatencyResult> {
    let kind = latency_kind(s.flows.first()?);
    if s.flows.len() < 2 || s.flows.iter().any(|f| latency_kind(f) != kind) {
        return None;
    }
    let mut all = Latency::default();
    run.flows.iter().for_each(|m| all.add(&m.latency));
    LatencyResult::of(&all, run.flows.first()?.origin)
}

impl FlowResult {
    fn of(s: &Scenario, flow: &Flow, m: &FlowMeasure) -> FlowResult {
        let seconds = m.elapsed.as_secs_f64();
        let rates = Rates::between(&m.base, &m.end, m.elapsed);
        let messages = m.last.completed - m.base.completed;
        let mut counters = m.last.counters[0];
        counters.add(&m.last.counters[1]);
        let (received, verified, wrong) = match m.peer {
            // What is read is checked here, all else there.
            Some((received, verified, wrong)) => {
                let l = &m.last;
                (Some(received + l.received), verified + l.verified, wrong + l.verify_errors)
            }
            None => {
                let known = s.ports[flow.to].is_local() || flow.reads_only();
                (known.then_some(m.last.received), m.last.verified, m.last.verify_errors)
            }
        };
        let line = m.line_rate.map(|r| r.as_gbps());
        FlowResult {
            name: flow.name.clone(),
            table: flow.group.clone(),
            verb: flow.verb_name(),
            transport: flow.transport.as_str(),
            size_bytes: flow.size,
            qps: flow.qps,
            depth: flow.depth,
            mtu: flow.mtu.bytes(),
            elapsed_s: seconds,
            messages,
            messages_warmup: m.base.completed,
            messages_failed: m.last.failed,
            messages_outstanding: m.last.outstanding,
            messages_received: received,
            messages_overdue: m.last.overdue,
            messages_lost: m.last.lost,
            messages_verified: verified,
            verify_errors: wrong,
            bytes: m.last.bytes - m.base.bytes,
            goodput_gbps: rates.goodput_bps / 1e9,
            l2_gbps: rates.l2_bps / 1e9,
            l1_gbps: rates.l1_bps / 1e9,
            line_rate_gbps: line,
            line_rate_pct: line.map(|line| rates.l1_bps / 1e9 / line * 100.0),
            min_window_gbps: m.min_window_gbps,
            message_rate: rates.messages,
            packet_rate: rates.packets,
            retransmits: counters.retransmits,
            cc: flow.cc.as_str(),
            dcqcn: m.end.reactions.as_ref().map(DcqcnResult::of),
            packet_gap_ns: GapResult::of(&m.gaps),
            latency_kind: latency_kind(flow),
            latency_ns: LatencyResult::of(&m.latency, m.origin),
            detail: DetailResult::of(flow, m),
            latency_spread: timeline::spread(&m.latency),
            recovery: RecoveryResult::of(flow, &m.last, &m.stages),
            counters: counters.values().collect(),
        }
    }
}

impl GapResult {
    fn of(gaps: &Gaps) -> Option<GapResult> {
        let p = |percent| gaps.percentile(percent).map(Duration::as_nanos);
        Some(GapResult {
            count: gaps.count(),
            mean: gaps.mean()?.as_nanos(),
            p50: p(50.0)?,
            p99: p(99.0)?,
            max: p(100.0)?,
        })
    }
}

impl DcqcnResult {
    fn of(r: &Reactions) -> DcqcnResult {
        DcqcnResult {
            limited_qps: r.limited,
            rate_gbps: r.sums.0 / 1e9,
            rate_min_gbps: r.rates.0.as_gbps(),
            rate_max_gbps: r.rates.1.as_gbps(),
            target_gbps: r.sums.1 / 1e9,
            alpha: r.sums.2 / f64::from(r.qps),
            cuts: r.cuts,
        }
    }
}

impl FlowResult {
    /// The table of the scenario that it belongs to.
    pub fn table(&self) -> &str {
        self.table.as_deref().unwrap_or(&self.name)
    }
}

impl LatencyResult {
    /// Of what was recorded since `origin`.
    pub(super) fn of(l: &Latency, origin: Instant) -> Option<LatencyResult> {
        let p = |percent| l.percentile_ns(percent);
        Some(LatencyResult {
            count: l.count(),
            min: l.min_ns()?,
            mean: l.mean_ns()?,
            p50: p(50.0)?,
            p90: p(90.0)?,
            p95: p(95.0)?,
            p99: p(99.0)?,
            p99_9: p(99.9)?,
            p99_99: p(99.99)?,
            p99_999: p(99.999)?,
            max: l.max_ns()?,
            max_at_s: l.max_at()?.since(origin).as_secs_f64(),
            beyond_60s: l.beyond(),
        })
    }
}

impl PortResult {
    pub(super) fn of(m: &PortMeasure) -> PortResult {
        let c = &m.counters;
        let dropped = DropReason::ALL.iter().map(|r| (r.name(), c.dropped[*r as usize]));
        let held = Hold::ALL.iter().map(|h| (h.name(), c.held[*h as usize]));
        PortResult {
            name: m.name.clone(),
            device: m.device.clone(),
            driver: m.driver.clone(),
            offloads: m.offloads.clone(),
            rx_packets: c.rx_packets,
            tx_packets: c.tx_packets,
            rx_bytes: c.rx_bytes,
            tx_bytes: c.tx_bytes,
            delivered: c.delivered,
            answered: c.answered,
            rx_dropped: dropped.filter(|(_, n)| *n != 0).collect(),
            rx_pause_frames: c.pause_frames,
            flow_control: None,
            rx_missed: m.driver_stats.rx_missed + m.driver_stats.rx_nombuf,
            tx_dropped: c.tx_dropped,
            tail_dropped: (m.tail_dropped != 0).then_some(m.tail_dropped),
            tx_full_turns: c.tx_full_turns,
            tx_no_memory_turns: c.tx_no_memory_turns,
            tx_held: held.filter(|(_, n)| *n != 0).collect(),
        }
    }
}

impl WorkerResult {
    fn of(m: &WorkerMeasure) -> WorkerResult {
        WorkerResult {
            core: m.core,
            busy_pct: m.busy * 100.0,
            turns: m.turns,
            idle_turns: m.idle_turns,
            longest_turn_ns: m.longest.as_nanos(),
            away_pct: m.away * 100.0,
        }
    }
}

/// The names of all counters of a flow.
pub(super) fn counter_names() -> &'static [&'static str] {
    QpCounters::NAMES
}
