//! What kept a flow from more: the first of a list of causes, from what is sure to what is left.

use super::by_hand::ByHandResult;
use super::pauses::FlowControlResult;
use super::result::FlowResult;
use super::{Finished, PortMeasure, WorkerMeasure};
use crate::config::{Device, Flow, FlowRate, Scenario, Verb};
use crate::machine;
use crate::plan::FlowPlan;
use roce_engine::transport::Hold;
use roce_engine::units::Duration;
use roce_engine::worker::EndpointCounters;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// A rate that is reached to so much, per cent, is what limits.
const REACHED: f64 = 98.0;
/// A core that has something to do in so much of the time is busy, per cent.
const BUSY: f64 = 90.0;
/// What takes so much of the time, per cent, counts.
const NOTABLE: f64 = 5.0;

/// What kept a flow from more.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LimitResult {
    /// The flow.
    pub flow: String,
    /// The cause: `by_hand`, `line_rate`, `pacing`, `congestion_control`, `pause`, `loss`, `interruption`,
    /// `sender_core`, `receiver_core`, `frame_memory`, `window_full`, `max_rd_atomic`, `fence`,
    /// `rnr_timer`, `no_credits`, `port_full` or `depth`.
    pub by: &'static str,
    /// The same as a sentence, with figures, and what to do about it.
    pub text: String,
}

impl fmt::Display for LimitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {:<9} {}", self.flow, self.text)
    }
}

/// The limit of each flow that this process drives and that moved anything.
pub(super) fn of(
    s: &Scenario,
    run: &Finished,
    flows: &[FlowResult],
    by_hand: Option<&ByHandResult>,
) -> Vec<LimitResult> {
    let seen = s.flows.iter().zip(flows).zip(&run.flows).filter(|((flow, result), _)| {
        s.ports[flow.from].is_local() && result.messages != 0 && result.elapsed_s > 0.0
    });
    seen.map(|((flow, result), measure)| {
        let facts = Facts {
            s,
            flow,
            result,
            line: measure.line_rate,
            port: run.ports.iter().find(|p| p.name == s.ports[flow.from].name),
            sender: busiest(&run.workers, flow.from),
            receiver: busiest(&run.workers, flow.to),
            by_hand,
        };
        let (by, text) = facts.limit();
        LimitResult { flow: flow.name.clone(), by, text }
    })
    .collect()
}

fn busiest(workers: &[WorkerMeasure], port: usize) -> Option<&WorkerMeasure> {
    let of_port = workers.iter().filter(|w| w.ports.contains(&port));
    of_port.max_by(|a, b| a.busy.total_cmp(&b.busy))
}

/// What is known of a flow.
struct Facts<'a> {
    s: &'a Scenario,
    flow: &'a Flow,
    result: &'a FlowResult,
    line: Option<roce_engine::units::Rate>,
    port: Option<&'a PortMeasure>,
    sender: Option<&'a WorkerMeasure>,
    receiver: Option<&'a WorkerMeasure>,
    by_hand: Option<&'a ByHandResult>,
}

type Limit = (&'static str, String);

impl Facts<'_> {
    fn limit(&self) -> Limit {
        self.by_hand()
            .or_else(|| self.line_rate())
            .or_else(|| self.pacing())
            .or_else(|| self.congestion_control())
            .or_else(|| self.pause())
            .or_else(|| self.loss())
            .or_else(|| self.interruption())
            .or_else(|| self.core())
            .or_else(|| self.frame_memory())
            .or_else(|| self.hold())
            .or_else(|| self.port_full())
            .unwrap_or_else(|| self.depth())
    }

    fn by_hand(&self) -> Option<Limit> {
        Some(("by_hand", self.by_hand?.limit(self.result.elapsed_s, NOTABLE)?))
    }

    /// Rings have no speed: the line rate that is assumed for them holds nobody back, but in virtual
    /// time.
    fn line_rate(&self) -> Option<Limit> {
        let pct = self.result.line_rate_pct?;
        let real = self.sender.is_none()
            || matches!(self.s.ports[self.flow.data_from()].device, Device::Pci(_) | Device::Fabric);
        (real && pct >= REACHED).then(|| ("line_rate", format!("the line: {pct:.1} % of its rate is used")))
    }

    fn pacing(&self) -> Option<Limit> {
        if self.flow.rate == FlowRate::Unlimited {
            return None;
        }
        let asked = FlowPlan::of(self.s, self.flow).asked(self.flow.rate, self.line)?.l1_bps / 1e9;
        let got = self.result.l1_gbps;
        (got >= asked * REACHED / 100.0).then(|| {
            ("pacing", format!("its own rate: {asked:.3} Gb/s at L1 are asked for, {got:.3} were sent"))
        })
    }

    fn congestion_control(&self) -> Option<Limit> {
        let dcqcn = self.result.dcqcn.filter(|d| d.limited_qps != 0)?;
        let cnps = self.result.counters.get("rp_cnp_handled").copied().unwrap_or(0);
        Some((
            "congestion_control",
            format!(
                "congestion control: {cnps} CNPs, {} of {} queue pairs held back, {:.3} Gb/s allowed at the end",
                dcqcn.limited_qps, self.result.qps, dcqcn.rate_gbps
            ),
        ))
    }

    fn pause(&self) -> Option<Limit> {
        let port = &self.s.ports[self.flow.data_from()];
        let flow_control = FlowControlResult::of(self.s, self.port.filter(|p| p.name == port.name)?)?;
        let paused = flow_control.priorities.values().map(|p| p.paused_ns).max()?;
        let pct = paused as f64 / (self.result.elapsed_s * 1e9) * 100.0;
        (pct >= NOTABLE).then(|| {
            (
                "pause",
                format!(
                    "pauses: a priority of port \"{}\" stood still for {pct:.1} % of the time",
                    port.name
                ),
            )
        })
    }

    fn loss(&self) -> Option<Limit> {
        let count = |name| self.result.counters.get(name).copied().unwrap_or(0);
        let (again, timeouts) = (self.result.retransmits, count("local_ack_timeout_err"));
        let sent = count("tx_data_packets").max(1);
        let pct = again as f64 / sent as f64 * 100.0;
        (timeouts != 0 || pct >= 0.1).then(|| {
            ("loss", format!("loss: {pct:.2} % of the packets were sent again, {timeouts} timeouts"))
        })
    }

    /// The machine took a worker's core away.
    fn interruption(&self) -> Option<Limit> {
        let workers = [self.sender, self.receiver].into_iter().flatten();
        let worst = workers.max_by(|a, b| a.away.total_cmp(&b.away))?;
        let pct = worst.away * 100.0;
        (pct >= NOTABLE).then(|| {
            (
                "interruption",
                format!(
                    "the machine: something else had core {} for {pct:.1} % of the time, {} at the longest; \
                     isolate the cores of workers, or stop what runs beside them",
                    worst.core, worst.longest
                ),
            )
        })
    }

    fn core(&self) -> Option<Limit> {
        let pct = |w: Option<&WorkerMeasure>| w.map_or(0.0, |w| w.busy * 100.0);
        let (sends, takes) = (pct(self.sender), pct(self.receiver));
        let shared = self.sender.map(|w| w.core) == self.receiver.map(|w| w.core);
        let (by, who, worker) = if takes >= BUSY && (takes >= sends || self.full_share() >= NOTABLE) {
            ("receiver_core", "receives", self.receiver?)
        } else if sends >= BUSY {
            ("sender_core", "sends", self.sender?)
        } else {
            return None;
        };
        let who = if shared { "sends and receives" } else { who };
        let pct = worker.busy * 100.0;
        let memory = self.memory().unwrap_or_default();
        let hint = self.hint(by);
        Some((
            by,
            format!("core {}, which {who}: busy for {pct:.0} % of the time{memory}{hint}", worker.core),
        ))
    }

    /// What makes a busy core do more.
    fn hint(&self, by: &str) -> &'static str {
        let per_packet = self.result.size_bytes < 2048 || self.result.mtu < 2048;
        match () {
            () if self.result.messages_verified != 0 => {
                "; checking every byte costs much of it (verify = false)"
            }
            () if self.result.size_bytes < 2048 => "; small messages cost as much as large ones",
            () if per_packet => "; a larger MTU takes fewer packets",
            () if by == "receiver_core" && self.flow.qps > 1 => "; more cores for the port share queue pairs",
            () => "",
        }
    }

    /// A message and its copy that do not fit into the caches of a core.
    fn memory(&self) -> Option<String> {
        let cache = machine::second_level_cache()?;
        let slots = if self.result.messages_verified != 0 { u64::from(self.flow.depth) } else { 1 };
        let bytes = 2 * u64::from(self.result.size_bytes) * slots * u64::from(self.flow.qps);
        (bytes >= cache && self.result.mtu >= 2048).then(|| {
            let mib = |n: u64| n as f64 / f64::from(1 << 20);
            format!(
                ", waiting for memory: {:.1} MiB of buffers at both ends, {:.1} MiB of second-level cache",
                mib(bytes),
                mib(cache)
            )
        })
    }

    fn frame_memory(&self) -> Option<Limit> {
        let pct = self.share_of_turns(|c| c.tx_no_memory_turns);
        (pct >= NOTABLE)
            .then(|| ("frame_memory", format!("frames: none were free in {pct:.1} % of the sender's turns")))
    }

    /// What queue pairs waited for when they were asked for packets.
    fn hold(&self) -> Option<Limit> {
        let held = self.port?.counters.held;
        let all: u64 = held.iter().sum();
        let most = Hold::ALL.into_iter().filter(|h| *h != Hold::Nothing).max_by_key(|h| held[*h as usize])?;
        if (held[most as usize] as f64) < all as f64 * NOTABLE / 100.0 || held[most as usize] == 0 {
            return None;
        }
        let f = self.flow;
        let text = match most {
            Hold::Nothing => return None,
            Hold::Window => {
                format!("the window: {} packets unacknowledged; a larger `window` allows more", f.window)
            }
            Hold::Reads => {
                format!("READs outstanding: {}; a larger `max_rd_atomic` allows more", f.max_rd_atomic)
            }
            Hold::Fence => "fences: requests wait for READs and atomics".to_owned(),
            Hold::Rnr => "receivers that were not ready: RNR NAKs hold the sender".to_owned(),
            Hold::Credits => "credits: the receiver has too few receive requests".to_owned(),
            Hold::Pacing => "its own rate".to_owned(),
            Hold::RateControl => "congestion control".to_owned(),
        };
        let by = match most {
            Hold::Pacing => "pacing",
            Hold::RateControl => "congestion_control",
            other => other.name(),
        };
        Some((by, text))
    }

    fn port_full(&self) -> Option<Limit> {
        let pct = self.full_share();
        (pct >= NOTABLE).then(|| {
            let name = &self.s.ports[self.flow.from].name;
            ("port_full", format!("port \"{name}\": it took no more in {pct:.0} % of the sender's turns"))
        })
    }

    /// Nothing else: all messages that may be outstanding are, and each takes its time.
    fn depth(&self) -> Limit {
        let p50 = self
            .result
            .latency_ns
            .map_or(String::new(), |l| format!(", each takes {} (median)", Duration::from_nanos(l.p50)));
        let what = if self.flow.verb == Verb::Read { "READs" } else { "messages" };
        let (depth, qps) = (self.result.depth, self.result.qps);
        (
            "depth",
            format!("depth: {depth} {what} on each of {qps} queue pairs{p50}; a larger `depth` allows more"),
        )
    }

    /// Share of the sender's turns in which the port did not take all, per cent.
    fn full_share(&self) -> f64 {
        self.share_of_turns(|c| c.tx_full_turns)
    }

    /// In virtual time there are no turns to speak of.
    fn share_of_turns(&self, count: impl Fn(&EndpointCounters) -> u64) -> f64 {
        let (Some(port), Some(worker)) = (self.port, self.sender) else { return 0.0 };
        count(&port.counters) as f64 / worker.turns.max(1) as f64 * 100.0
    }
}
