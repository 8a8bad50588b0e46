//! Goodput against loss: one flow at every point of a sweep, in virtual time.

use super::world::simulate;
use crate::config::{self, Impair, Recovery, Scenario, ScenarioError, no_machines};
use crate::plan::{FlowPlan, ack_timer};
use crate::report::{FlowResult, print_progress};
use anyhow::Result;
use roce_engine::fabric::{Action, Chance, PacketClass, Rule, Way};
use roce_engine::units::{Duration, Mtu};
use serde::Serialize;
use std::fmt::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A sweep and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Cliff {
    /// `rocegen-cliff-1`.
    pub schema: &'static str,
    /// `pass` or `fail`.
    pub verdict: &'static str,
    /// Why it failed, one sentence each.
    pub reasons: Vec<String>,
    /// The scenario file.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// The rate of the link at L1.
    pub link_gbps: f64,
    /// By recovery, path MTU, round trip and loss.
    pub points: Vec<Point>,
    /// By recovery, path MTU and round trip.
    pub tails: Vec<Tail>,
}

/// A point of the sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// How what is lost is sent again.
    pub recovery: &'static str,
    /// Path MTU in bytes.
    pub mtu: usize,
    /// Round trip of the link in nanoseconds, without the time that packets take on the wire.
    pub round_trip_ns: u64,
    /// Probability that a data packet is lost.
    pub loss: f64,
    /// Payload.
    pub goodput_gbps: f64,
    /// With headers, preamble, FCS and gap, of the link's rate.
    pub line_rate_pct: f64,
    /// Goodput of that without loss, in per cent.
    pub relative_pct: f64,
    /// (1-p) / (1-p+pW), in per cent: what go-back-N comes to when each loss costs a round trip.
    pub closed_form_pct: f64,
    /// W: packets that leave in a round trip when nothing is lost.
    pub packets_per_round_trip: f64,
    /// Whether the window is less than W.
    pub window_limits: bool,
    /// Packets lost.
    pub lost: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Packets that came twice: sent again in vain.
    pub in_vain: u64,
    /// Losses that only the timer found.
    pub timeouts: u64,
    /// The timer.
    pub ack_timeout_ns: u64,
}

/// How long one message takes when a certain packet of it is lost, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Tail {
    /// How what is lost is sent again.
    pub recovery: &'static str,
    /// Path MTU in bytes.
    pub mtu: usize,
    /// Round trip of the link in nanoseconds.
    pub round_trip_ns: u64,
    /// Packets of the message.
    pub packets: u32,
    /// Nothing is lost.
    pub clean_ns: u64,
    /// The middle packet is lost.
    pub middle_lost_ns: u64,
    /// The last packet is lost: the timer of the sweep must find out.
    pub last_lost_ns: u64,
    /// That timer.
    pub ack_timeout_ns: u64,
    /// The last packet is lost: the timer of the scenario must find out.
    pub last_lost_slow_ns: u64,
    /// That timer.
    pub slow_ack_timeout_ns: u64,
}

/// Where in the sweep.
#[derive(Clone, Copy, Debug)]
struct Place {
    recovery: Recovery,
    mtu: Mtu,
    round_trip: Duration,
}

/// One simulation of a sweep.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// With this probability of loss.
    Flow(Place, f64),
    /// One message, of which this packet is lost; with the scenario's own timer, or the sweep's.
    Message(Place, Option<u32>, bool),
}

/// What a simulation came to.
#[derive(Debug)]
struct Outcome {
    flow: FlowResult,
    lost: u64,
    reasons: Vec<String>,
}

impl Cliff {
    /// Runs the sweep.
    ///
    /// # Errors
    /// A [`ScenarioError`]: the scenario has not one flow.
    pub fn of(s: &Scenario, sweep: &config::Cliff, quiet: bool) -> Result<Cliff> {
        no_machines(s)?;
        if s.flows.len() != 1 || s.flows[0].messages.is_some() {
            let text = "[cliff]: a sweep is about one [[flow]], without \"messages\"".to_owned();
            return Err(ScenarioError { place: s.place("cliff", None, None), text }.into());
        }
        let mut places = Vec::new();
        for &recovery in &sweep.recovery {
            for &mtu in &sweep.mtu {
                places.extend(sweep.round_trip.iter().map(|&round_trip| Place { recovery, mtu, round_trip }));
            }
        }
        let mut jobs = Vec::new();
        for &place in &places {
            let packets = place.mtu.packets(s.flows[0].size);
            // Without loss first: all else is relative to that.
            jobs.push(Job::Flow(place, 0.0));
            jobs.extend(sweep.loss.iter().filter(|p| **p != 0.0).map(|p| Job::Flow(place, *p)));
            jobs.push(Job::Message(place, None, false));
            jobs.push(Job::Message(place, Some(packets / 2), false));
            jobs.extend([false, true].map(|slow| Job::Message(place, Some(packets - 1), slow)));
        }
        let mut outcomes = run_all(s, &jobs, quiet)?.into_iter();
        let mut cliff = Cliff {
            schema: "rocegen-cliff-1",
            verdict: "pass",
            reasons: Vec::new(),
            scenario: s.file.display().to_string(),
            seed: s.run.seed.unwrap_or(crate::config::SEED),
            link_gbps: 0.0,
            points: Vec::new(),
            tails: Vec::new(),
        };
        for &place in &places {
            let mut next = || outcomes.next().map(|o| (cliff.reasons.extend(o.reasons), o.flow, o.lost));
            let Some((_, clean, _)) = next() else { break };
            let base = clean.goodput_gbps;
            let mut flows = vec![(0.0, clean, 0)];
            for &loss in sweep.loss.iter().filter(|p| **p != 0.0) {
                flows.extend(next().map(|(_, flow, lost)| (loss, flow, lost)));
            }
            let mut latency = || next().and_then(|(_, flow, _)| flow.latency_ns).map_or(0, |l| l.max);
            let times = [latency(), latency(), latency(), latency()];
            let timer = ack_timer(timer_for(place.round_trip)).as_nanos();
            let w = flows[0].1.packet_rate * round_trip(s, place).as_secs_f64();
            cliff.link_gbps = flows[0].1.line_rate_gbps.unwrap_or(0.0);
            for (loss, flow, lost) in flows {
                if loss == 0.0 && !sweep.loss.contains(&0.0) {
                    continue;
                }
                cliff.points.push(Point {
                    recovery: place.recovery.as_str(),
                    mtu: place.mtu.bytes(),
                    round_trip_ns: place.round_trip.as_nanos(),
                    loss,
                    goodput_gbps: flow.goodput_gbps,
                    line_rate_pct: flow.line_rate_pct.unwrap_or(0.0),
                    relative_pct: flow.goodput_gbps / base * 100.0,
                    closed_form_pct: closed_form(loss, w) * 100.0,
                    packets_per_round_trip: w,
                    window_limits: f64::from(s.flows[0].window) < w,
                    lost,
                    resent: flow.retransmits,
                    in_vain: flow.recovery.as_ref().map_or(0, |r| r.in_vain),
                    timeouts: flow.counters.get("local_ack_timeout_err").copied().unwrap_or(0),
                    ack_timeout_ns: timer,
                });
            }
            cliff.tails.push(Tail {
                recovery: place.recovery.as_str(),
                mtu: place.mtu.bytes(),
                round_trip_ns: place.round_trip.as_nanos(),
                packets: place.mtu.packets(s.flows[0].size),
                clean_ns: times[0],
                middle_lost_ns: times[1],
                last_lost_ns: times[2],
                ack_timeout_ns: timer,
                last_lost_slow_ns: times[3],
                slow_ack_timeout_ns: ack_timer(s.flows[0].ack_timeout).as_nanos(),
            });
        }
        if !cliff.reasons.is_empty() {
            cliff.verdict = "fail";
        }
        Ok(cliff)
    }

    /// Whether every simulation of the sweep passed.
    pub fn passed(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The points as a table for programs.
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "recovery,mtu,round_trip_us,loss,goodput_gbps,line_rate_pct,relative_pct,closed_form_pct,\
             packets_per_round_trip,lost,resent,in_vain,timeouts\n",
        );
        for p in &self.points {
            let _ = writeln!(
                out,
                "{},{},{},{:e},{:.4},{:.3},{:.3},{:.3},{:.1},{},{},{},{}",
                p.recovery,
                p.mtu,
                p.round_trip_ns as f64 / 1e3,
                p.loss,
                p.goodput_gbps,
                p.line_rate_pct,
                p.relative_pct,
                p.closed_form_pct,
                p.packets_per_round_trip,
                p.lost,
                p.resent,
                p.in_vain,
                p.timeouts
            );
        }
        out
    }

    /// The values that something has in the points, in their order, each once.
    pub(super) fn distinct<T: PartialEq>(&self, value: impl Fn(&Point) -> T) -> Vec<T> {
        let mut all = Vec::new();
        for v in self.points.iter().map(value) {
            if !all.contains(&v) {
                all.push(v);
            }
        }
        all
    }
}

/// The efficiency of go-back-N where each loss costs the `w` packets of a round trip.
fn closed_form(loss: f64, w: f64) -> f64 {
    (1.0 - loss) / (1.0 - loss + loss * w)
}

/// From when a packet begins to leave to when its answer is there.
fn round_trip(s: &Scenario, place: Place) -> Duration {
    let flow = config::Flow { mtu: place.mtu, ..s.flows[0].clone() };
    let rate = s.link.rate.or(s.run.line_rate).unwrap_or(super::build::RATE);
    let plan = FlowPlan::of(s, &flow);
    let packet = rate.time_of(u64::from(plan.middle.unwrap_or(plan.first).l1));
    // An ACK: 62 bytes of frame and 24 of line time.
    place.round_trip + packet + rate.time_of(86)
}

/// The shortest timer that is not shorter than two round trips.
fn timer_for(round_trip: Duration) -> u8 {
    (1..31).find(|code| ack_timer(*code).as_nanos() >= 2 * round_trip.as_nanos()).unwrap_or(31)
}

/// Runs all jobs on all cores; their outcomes in the order of the jobs.
fn run_all(s: &Scenario, jobs: &[Job], quiet: bool) -> Result<Vec<Outcome>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<Outcome>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(index) else { break };
        let outcome = job.run(s);
        if let Ok(mut place) = results[index].lock() {
            *place = Some(outcome);
        }
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        if !quiet && (n.is_multiple_of(10) || n == jobs.len()) {
            print_progress(&format!("{n} of {} simulations", jobs.len()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..crate::machine::available_cores().len().clamp(1, 16) {
            scope.spawn(work);
        }
        work();
    });
    let taken = results.into_iter().filter_map(|r| r.into_inner().ok().flatten());
    taken.collect()
}

impl Job {
    fn run(&self, s: &Scenario) -> Result<Outcome> {
        let mut s = s.clone();
        let (Job::Flow(place, _) | Job::Message(place, ..)) = *self;
        s.link.delay = Duration::from_nanos(place.round_trip.as_nanos() / 2);
        let flow = &mut s.flows[0];
        flow.mtu = place.mtu;
        flow.recovery = place.recovery;
        if place.recovery == Recovery::SelectiveRepeat {
            let rate = s.link.rate.or(s.run.line_rate).unwrap_or(super::build::RATE);
            flow.window =
                flow.window.min(config::KnownLink { rate, round_trip: place.round_trip }.window(place.mtu));
        }
        let lost =
            Rule { flow: Some(0), way: Way::Forward, class: PacketClass::Data, ..Rule::always(Action::Drop) };
        match *self {
            Job::Flow(_, loss) => {
                flow.ack_timeout = timer_for(place.round_trip);
                if loss != 0.0 {
                    s.impairs.push(Impair { rules: vec![Rule { chance: Chance::new(loss), ..lost }] });
                }
            }
            Job::Message(_, packet, slow) => {
                flow.messages = Some(1);
                flow.qps = 1;
                if !slow {
                    flow.ack_timeout = timer_for(place.round_trip);
                }
                s.run.duration = None;
                s.expects.clear();
                s.impairs = Vec::from_iter(packet.map(|packet| Impair {
                    rules: vec![Rule { psn: Some(i64::from(packet)), pass: Some(1), ..lost }],
                }));
            }
        }
        let judged = simulate(&s, true)?;
        let result = judged.result;
        let lost = result.ports.iter().map(|p| p.tx_packets).sum::<u64>();
        let arrived = result.ports.iter().map(|p| p.rx_packets).sum::<u64>();
        let name = format!("{self:?}");
        let reasons = result.reasons.iter().map(|r| format!("{name}: {r}")).collect();
        let Some(flow) = result.flows.into_iter().next() else {
            anyhow::bail!("a simulation without a flow")
        };
        Ok(Outcome { flow, lost: lost.saturating_sub(arrived), reasons })
    }
}

impl fmt::Display for Cliff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "goodput of that without loss, in per cent (in brackets: (1-p)/(1-p+pW))")?;
        let trips = self.distinct(|p| p.round_trip_ns);
        for recovery in self.distinct(|p| p.recovery) {
            for mtu in self.distinct(|p| p.mtu) {
                let of = |trip: u64, loss: f64| {
                    self.points.iter().find(|p| {
                        p.recovery == recovery && p.mtu == mtu && p.round_trip_ns == trip && p.loss == loss
                    })
                };
                writeln!(f, "\n{recovery}, path MTU {mtu}, {} Gb/s", self.link_gbps)?;
                write!(f, "{:>10}", "loss")?;
                for trip in &trips {
                    let head = format!("round trip {}", Duration::from_nanos(*trip));
                    write!(f, "{head:>24}")?;
                }
                writeln!(f)?;
                for loss in self.distinct(|p| p.loss) {
                    write!(f, "{loss:>10e}")?;
                    for trip in &trips {
                        let Some(p) = of(*trip, loss) else { continue };
                        let mut cell = format!("{:.1}", p.relative_pct);
                        // The form is that of go-back-N.
                        if recovery == Recovery::GoBackN.as_str() {
                            let _ = write!(cell, " ({:.1})", p.closed_form_pct);
                        }
                        write!(f, "{cell:>24}")?;
                    }
                    writeln!(f)?;
                }
                if let Some(p) = trips.first().and_then(|trip| of(*trip, 0.0)) {
                    writeln!(
                        f,
                        "without loss: {:.2} Gb/s of payload, {:.2} % of the line at L1",
                        p.goodput_gbps, p.line_rate_pct
                    )?;
                }
            }
        }
        writeln!(f, "\none message, from post to completion, when one packet of it is lost")?;
        writeln!(
            f,
            "{:<16} {:>5} {:>11} {:>8} {:>10} {:>12} {:>22} {:>24}",
            "recovery",
            "mtu",
            "round trip",
            "packets",
            "none",
            "the middle",
            "the last (timer)",
            "the last (timer)"
        )?;
        for t in &self.tails {
            let time = |ns: u64| Duration::from_nanos(ns).to_string();
            let by = |ns: u64, timer: u64| format!("{} ({})", time(ns), time(timer));
            writeln!(
                f,
                "{:<16} {:>5} {:>11} {:>8} {:>10} {:>12} {:>22} {:>24}",
                t.recovery,
                t.mtu,
                time(t.round_trip_ns),
                t.packets,
                time(t.clean_ns),
                time(t.middle_lost_ns),
                by(t.last_lost_ns, t.ack_timeout_ns),
                by(t.last_lost_slow_ns, t.slow_ack_timeout_ns),
            )?;
        }
        for reason in &self.reasons {
            writeln!(f, "  {reason}")?;
        }
        writeln!(f, "verdict: {}", self.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_form_of_the_operators() {
        assert_eq!(closed_form(0.0, 565.0), 1.0);
        assert!((closed_form(0.01, 565.0) - 0.149).abs() < 0.001);
        assert!((closed_form(0.001, 30.0) - 0.971).abs() < 0.001);
    }

    #[test]
    fn timers() {
        let timer = |us| ack_timer(timer_for(Duration::from_micros(us))).as_nanos() / 1000;
        assert_eq!([timer(10), timer(50), timer(100)], [32, 131, 262]);
    }
}
