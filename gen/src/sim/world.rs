//! The phases of a scenario in virtual time.

use super::build::{Built, Host, build};
use crate::config::Scenario;
use crate::measure::{FlowStats, Latency, Sample};
use crate::report::{Finished, Injected, Interval, Judged, PortMeasure, WorkerMeasure};
use crate::run::control::{View, add_latency, flow_measures, warmup};
use crate::run::progress::Progress;
use crate::run::{Environment, EnvironmentError, longest_hold};
use crate::workload::Command;
use anyhow::Result;
use roce_engine::io::dpdk::PortStats;
use roce_engine::units::{Duration, Instant};
use std::sync::atomic::Ordering;

/// The steps in which a drain, or a run that ends with its messages, looks whether it is over.
const STEP: Duration = Duration::from_micros(100);

/// A scenario in virtual time.
struct Simulation<'a> {
    scenario: &'a Scenario,
    built: Built,
    intervals: Vec<Interval>,
    progress: Progress,
}

/// Runs a scenario in virtual time.  Nothing but the scenario decides what happens.
///
/// # Errors
/// A [`crate::config::ScenarioError`] or an [`EnvironmentError`]: ports that no cable can join.
pub fn simulate(scenario: &Scenario, quiet: bool) -> Result<Judged> {
    let built = build(scenario)?;
    let progress = Progress::new(quiet, scenario.run.duration.map(|d| d + warmup(scenario)));
    let mut sim = Simulation { scenario, built, intervals: Vec::new(), progress };
    let (base, end, last) = sim.phases()?;
    sim.progress.end();
    let flows = flow_measures(scenario, &sim.built.facts, (&base, &end, &last), &sim.intervals, None);
    let ports: Vec<_> = (0..scenario.ports.len()).map(|port| sim.port_measure(port, &last)).collect();
    let workers = last.workers.iter().zip(&base.workers);
    let workers =
        workers.map(|((core, load), (_, before))| WorkerMeasure::between(*core, before, load)).collect();
    let injected = ports.iter().enumerate().filter_map(|(port, measure)| sim.injected(port, measure));
    Ok(Finished {
        seed: sim.built.seed,
        interrupted: false,
        environment: Environment::virtual_time(),
        origin_ns: 0,
        flows,
        injected: injected.collect(),
        ports,
        workers,
        intervals: sim.intervals,
        captures: Vec::new(),
        cq_overflow: last.cq_overflow,
        peer_lost: None,
    }
    .judged(scenario))
}

impl Simulation<'_> {
    /// Warm-up, measurement, drain: the views at their borders.
    fn phases(&mut self) -> Result<(View, View, View)> {
        let s = self.scenario;
        let mut base = self.sample(Command::Sample)?;
        for host in 0..self.built.hosts.len() {
            self.built.world.command(self.built.hosts[host].id, Command::Start);
        }
        if warmup(s) != Duration::ZERO {
            self.advance(self.built.world.now() + warmup(s));
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
        for host in 0..self.built.hosts.len() {
            self.built.world.command(self.built.hosts[host].id, Command::StopPosting);
        }
        let mut latency = vec![Latency::default(); s.flows.len()];
        let until = self.built.world.now() + s.run.drain;
        let mut idle = end.idle;
        while !idle && self.built.world.now() < until && !self.built.world.is_asleep() {
            self.built.world.run_until(self.built.world.now() + STEP);
            let view = self.sample(Command::Sample)?;
            add_latency(&mut latency, &view);
            idle = view.idle;
        }
        // Packets that need no answer may still be on their way.
        let until = self.built.world.now() + s.link.delay + s.link.delay + longest_hold(s) + STEP;
        self.built.world.run_until(until);
        let last = self.sample(Command::Finish)?;
        add_latency(&mut latency, &last);
        self.intervals.push(Interval { from: end.at, to: last.at, latency });
        Ok((base, end, last))
    }

    /// Lets time pass, but not when the run is over.
    fn advance(&mut self, until: Instant) {
        if self.scenario.flows.iter().all(|f| f.messages.is_none()) {
            return self.built.world.run_until(until);
        }
        while self.built.world.now() < until && !self.is_over() {
            self.built.world.run_until(until.min(self.built.world.now() + STEP));
        }
    }

    /// Whether all messages have ended, or nothing will ever happen again.
    fn is_over(&self) -> bool {
        self.built.finished.load(Ordering::Relaxed) >= self.built.hosts.len() || self.built.world.is_asleep()
    }

    fn sample(&mut self, ask: impl Fn(Box<Sample>) -> Command) -> Result<View> {
        let mut view = View::empty(self.scenario);
        let Built { world, hosts, .. } = &mut self.built;
        for (core, Host { id, answers }) in hosts.iter_mut().enumerate() {
            let flows = world.host(*id).app().flows();
            world.command(*id, ask(Box::new(Sample::new(flows, 1, &Latency::default()))));
            let sample = answers.pop();
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
            tail_dropped: self.tail_dropped(port),
        }
    }

    /// Frames of a port that found the queue of a slow link full.
    fn tail_dropped(&self, port: usize) -> u64 {
        let last = self.built.world.net().counters(self.built.wires[port].last);
        last.priorities.iter().map(|p| p.tail_dropped).sum()
    }

    /// What was done to the frames of a port.
    fn injected(&self, port: usize, measure: &PortMeasure) -> Option<Injected> {
        let last = self.built.wires[port].last;
        let (judged, held) = self.built.world.judged(last);
        // Those that never came to where they would have been judged, and those held back there.
        let before = measure.counters.tx_packets - measure.tail_dropped - judged.judged;
        Some(Injected::of(port, self.built.world.impairment(last)?, before as usize + held))
    }
}
