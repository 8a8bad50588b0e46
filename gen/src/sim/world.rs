//! From a scenario to hosts and lines, and its phases in virtual time.

use crate::config::{Device, Scenario};
use crate::measure::{FlowStats, Latency, Sample};
use crate::report::{Finished, Injected, Interval, Judged, PortMeasure, WorkerMeasure};
use crate::run::control::{View, add_latency, flow_measures, warmup};
use crate::run::progress::Progress;
use crate::run::setup::{OpenedPort, PortFacts, Setup};
use crate::run::{Environment, EnvironmentError, judges, longest_hold};
use crate::workload::{Command, Generator};
use anyhow::Result;
use roce_engine::io::dpdk::PortStats;
use roce_engine::sim::{HostId, LineId, LineSpec, PortRef, SimPort, World};
use roce_engine::units::{Duration, Instant, Rate};
use roce_engine::wire::MAX_HEADERS;
use roce_engine::worker::Worker;
use rtrb::Consumer;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The rate of ports and link where the scenario gives none.
pub(super) const RATE: Rate = Rate::from_gbps(100);
/// The steps in which a drain, or a run that ends with its messages, looks whether it is over.
const STEP: Duration = Duration::from_micros(100);

/// A scenario in virtual time.
struct Simulation<'a> {
    scenario: &'a Scenario,
    world: World<Generator>,
    hosts: Vec<Host>,
    /// By port of the scenario: the line that leads from it to its peer, and the first part of it.
    lines: Vec<(LineId, LineId)>,
    finished: Arc<AtomicUsize>,
    facts: Vec<PortFacts>,
    intervals: Vec<Interval>,
    progress: Progress,
    seed: u64,
}

struct Host {
    id: HostId,
    ports: Vec<usize>,
    answers: Consumer<Box<Sample>>,
}

/// Runs a scenario in virtual time.  Nothing but the scenario decides what happens.
///
/// # Errors
/// A [`crate::config::ScenarioError`] or an [`EnvironmentError`]: ports that no cable can join.
pub fn simulate(scenario: &Scenario, quiet: bool) -> Result<Judged> {
    let mut sim = Simulation::new(scenario, quiet)?;
    let (base, end, last) = sim.phases()?;
    sim.progress.end();
    let flows = flow_measures(scenario, &sim.facts, (&base, &end, &last), &sim.intervals, None);
    let ports = (0..scenario.ports.len()).map(|port| sim.port_measure(port, &last)).collect();
    let workers = last.workers.iter().zip(&base.workers);
    let workers =
        workers.map(|((core, load), (_, before))| WorkerMeasure::between(*core, before, load)).collect();
    let injected = (0..scenario.ports.len()).filter_map(|port| {
        let line = sim.lines[port].1;
        Some(Injected::of(port, sim.world.impairment(line)?, sim.world.frames_inside(line)))
    });
    Ok(Finished {
        seed: sim.seed,
        interrupted: false,
        environment: Environment::virtual_time(),
        origin_ns: 0,
        flows,
        ports,
        workers,
        injected: injected.collect(),
        intervals: sim.intervals,
        captures: Vec::new(),
        cq_overflow: last.cq_overflow,
        peer_lost: None,
    }
    .judged(scenario))
}

impl<'a> Simulation<'a> {
    fn new(s: &'a Scenario, quiet: bool) -> Result<Simulation<'a>> {
        let peers = peers(s)?;
        let seed = s.run.seed.unwrap_or(super::SEED);
        let finished = Arc::new(AtomicUsize::new(0));
        let link_rate = s.link.rate.or(s.run.line_rate).unwrap_or(RATE);
        let port_rate = s.run.line_rate.unwrap_or(link_rate);
        let payload = s.flows.iter().map(|f| f.mtu.bytes()).max().unwrap_or(4096);
        let max_frame = (payload + MAX_HEADERS + 8).next_multiple_of(64);
        // Each port is a host of its own, with one worker.
        let cores: Vec<Vec<usize>> = (0..s.ports.len()).map(|i| vec![i]).collect();
        let open = (0..s.ports.len()).map(|index| OpenedPort {
            index,
            ios: vec![SimPort::new(max_frame, Some(port_rate.bps()))],
            mac: None,
            speed: Some(port_rate),
        });
        let mut setup = Setup::new(s, &cores, open.collect(), &finished, seed);
        setup.create()?;
        setup.connect(&[])?;
        let facts = setup.facts().to_vec();
        let (plans, seed, streams) = setup.finish();
        let mut world = World::new(max_frame);
        let mut hosts = Vec::new();
        for plan in plans {
            let id = world.add_host(Worker::new(plan.endpoints, plan.app));
            hosts.push(Host { id, ports: plan.ports, answers: plan.answers });
        }
        let at = |port: usize| PortRef { host: hosts[port].id, endpoint: 0 };
        let link = LineSpec { rate: link_rate, delay: s.link.delay, queue_bytes: s.link.queue_bytes };
        let mut lines = Vec::new();
        for (port, peer) in peers.iter().enumerate() {
            // A link that is slower than the port has a queue before it.
            let last = world.add_line(link, at(*peer));
            let first = if link_rate < port_rate {
                let nic = LineSpec { rate: port_rate, delay: Duration::ZERO, queue_bytes: u64::MAX };
                world.join(at(port), nic, last)
            } else {
                world.feed(at(port), last);
                last
            };
            lines.push((first, last));
        }
        for ((host, _), judge) in judges(s, seed, streams) {
            world.impair(lines[hosts[host].ports[0]].1, judge);
        }
        let total = s.run.duration.map(|d| d + warmup(s));
        let progress = Progress::new(quiet, total);
        Ok(Simulation {
            scenario: s,
            world,
            hosts,
            lines,
            finished,
            facts,
            intervals: Vec::new(),
            progress,
            seed,
        })
    }

    /// Warm-up, measurement, drain: the views at their borders.
    fn phases(&mut self) -> Result<(View, View, View)> {
        let s = self.scenario;
        let mut base = self.sample(Command::Sample)?;
        for host in 0..self.hosts.len() {
            self.world.command(self.hosts[host].id, Command::Start);
        }
        if warmup(s) != Duration::ZERO {
            self.advance(self.world.now() + warmup(s));
            base = self.sample(Command::Sample)?;
        }
        let end_at = s.run.duration.map(|d| base.at + d);
        let mut view = base.clone();
        while !self.is_over() && end_at.is_none_or(|end| view.at < end) {
            let next = view.at + s.run.interval;
            self.advance(end_at.map_or(next, |end| next.min(end)));
            let now = self.sample(Command::Sample)?;
            self.note_interval(&base, &view, &now);
            view = now;
        }
        let end = view;
        for host in 0..self.hosts.len() {
            self.world.command(self.hosts[host].id, Command::StopPosting);
        }
        let mut latency = vec![Latency::default(); s.flows.len()];
        let until = self.world.now() + s.run.drain;
        let mut idle = end.idle;
        while !idle && self.world.now() < until && !self.world.is_asleep() {
            self.world.run_until(self.world.now() + STEP);
            let view = self.sample(Command::Sample)?;
            add_latency(&mut latency, &view);
            idle = view.idle;
        }
        // Packets that need no answer may still be on their way.
        let until = self.world.now() + s.link.delay + s.link.delay + longest_hold(s) + STEP;
        self.world.run_until(until);
        let last = self.sample(Command::Finish)?;
        add_latency(&mut latency, &last);
        self.intervals.push(Interval { from: end.at, to: last.at, latency });
        Ok((base, end, last))
    }

    /// Lets time pass, but not when the run is over.
    fn advance(&mut self, until: Instant) {
        if self.scenario.flows.iter().all(|f| f.messages.is_none()) {
            return self.world.run_until(until);
        }
        while self.world.now() < until && !self.is_over() {
            self.world.run_until(until.min(self.world.now() + STEP));
        }
    }

    /// Whether all messages have ended, or nothing will ever happen again.
    fn is_over(&self) -> bool {
        self.finished.load(Ordering::Relaxed) >= self.hosts.len() || self.world.is_asleep()
    }

    fn sample(&mut self, ask: impl Fn(Box<Sample>) -> Command) -> Result<View> {
        let mut view = View::empty(self.scenario);
        for (core, host) in self.hosts.iter_mut().enumerate() {
            let empty = Box::new(Sample::new(self.scenario.flows.len(), host.ports.len()));
            self.world.command(host.id, ask(empty));
            let sample = host.answers.pop();
            let sample = sample.map_err(|_| EnvironmentError("a simulated host does not answer".into()))?;
            view.add(core, &sample);
        }
        Ok(view)
    }

    fn note_interval(&mut self, base: &View, before: &View, now: &View) {
        let flows: Vec<(FlowStats, FlowStats, Latency)> = (0..self.scenario.flows.len())
            .map(|f| (before.flows[f], now.flows[f], now.latency[f].clone()))
            .collect();
        self.progress.interval(self.scenario, now.at.since(base.at), now.at.since(before.at), &flows);
        self.intervals.push(Interval { from: before.at, to: now.at, latency: now.latency.clone() });
    }

    fn port_measure(&self, port: usize, last: &View) -> PortMeasure {
        let p = &self.scenario.ports[port];
        let mut counters = last.ports[port].clone();
        // A port in virtual time hands out frames as its line has room: it was full, not poor.
        counters.tx_full_turns += std::mem::take(&mut counters.tx_no_memory_turns);
        PortMeasure {
            name: p.name.clone(),
            device: p.device.to_string(),
            driver: "virtual time".to_owned(),
            offloads: Vec::new(),
            counters,
            driver_stats: PortStats::default(),
            tail_dropped: self.world.line(self.lines[port].1).tail_dropped,
        }
    }
}

/// The other end of each port's cable: that of its ring, or the only other port that there is.
fn peers(s: &Scenario) -> Result<Vec<usize>> {
    let peer = |(i, port): (usize, &crate::config::Port)| {
        let others = || s.ports.iter().enumerate().filter(|(o, _)| *o != i);
        let twin = others().find(|(_, o)| matches!(port.device, Device::Ring(_)) && o.device == port.device);
        let only = others().next().filter(|_| s.ports.len() == 2);
        match twin.or(only) {
            Some((peer, _)) if port.is_local() => Ok(peer),
            _ => {
                let text = "in virtual time a port is one end of a ring, as in \"ring:0\", or there are two ports of \
                            this process in all";
                Err(s.port_error(i, "device", text).into())
            }
        }
    };
    s.ports.iter().enumerate().map(peer).collect()
}
