//! The phases of a scenario in virtual time.

use super::build::{Built, Host, build};
use super::fabric::{self, Named, Watch};
use super::sampler::Sampler;
use crate::config::{Scenario, no_machines};
use crate::measure::{Collector, FlowStats, Latency, Sample};
use crate::report::{Finished, Injected, Interval, Intervals, Judged, PortMeasure, WorkerMeasure, payload};
use crate::run::control::warmup;
use crate::run::measures::{flow_measures, note_windows};
use crate::run::progress::Progress;
use crate::run::view::{Gathered, View, add_latency};
use crate::run::{Environment, EnvironmentError, longest_hold};
use crate::workload::Command;
use anyhow::Result;
use roce_engine::fabric::{Priority, Station};
use roce_engine::io::dpdk::PortStats;
use roce_engine::io::{Clock, MonotonicClock};
use roce_engine::units::{Duration, Instant};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The steps in which a drain, or a run that ends with its messages, looks whether it is over.
const STEP: Duration = Duration::from_micros(100);

/// How often it is said how far a run is, by the clock on the wall.
const TELL: Duration = Duration::from_secs(2);

/// A scenario in virtual time.
struct Simulation<'a> {
    scenario: &'a Scenario,
    built: Built,
    /// The ports of the fabric, and the line time that each had used when measuring began, and ended.
    named: Vec<Named>,
    line_times: [Vec<u64>; 2],
    sampler: Option<Sampler>,
    queues: Watch,
    /// Pauses that begin and end, the next one last.
    storms: Vec<(Instant, Station, Priority, bool)>,
    clock: MonotonicClock,
    /// When it was last said how far the run is, and how many packets there had been.
    told: (Instant, u64),
    intervals: Vec<Interval>,
    /// The span between two readings of all flows, and when the next one is due.
    ticks: (Duration, Instant),
    collector: Collector,
    table: Option<Intervals>,
    gathered: Gathered,
    progress: Progress,
}

/// Runs a scenario in virtual time.  Nothing but the scenario decides what happens.
///
/// # Errors
/// A [`crate::config::ScenarioError`] or an [`EnvironmentError`]: ports that no cable can join.
pub fn simulate(scenario: &Scenario, quiet: bool) -> Result<Judged> {
    simulate_into(scenario, quiet, None)
}

/// The same; the table of intervals goes to a directory.
pub(super) fn simulate_into(scenario: &Scenario, quiet: bool, out: Option<&Path>) -> Result<Judged> {
    no_machines(scenario)?;
    let built = build(scenario)?;
    let hosts = built.hosts.len();
    let named = fabric::named(scenario, &built);
    let sampler = Sampler::new(scenario, &built, &named);
    let queues = Watch::new(&built);
    let mut sim = Simulation {
        scenario,
        built,
        named,
        line_times: Default::default(),
        sampler,
        queues,
        storms: storms(scenario),
        clock: MonotonicClock::new(),
        told: (Instant::ZERO, 0),
        intervals: Vec::new(),
        ticks: (tick_span(scenario), Instant::FAR),
        collector: Collector::new(hosts, scenario.flows.len(), scenario.run.window),
        table: None,
        gathered: Gathered::default(),
        progress: Progress { silent: quiet },
    };
    if let Some(dir) = out {
        let table = Intervals::create(dir).map_err(|e| EnvironmentError(format!("--out: {e}")))?;
        sim.table = Some(table);
    }
    let (base, end, last) = sim.phases()?;
    if let Some(table) = sim.table.take() {
        table.close().map_err(|e| EnvironmentError(format!("cannot write intervals.csv: {e}")))?;
    }
    let views = (&base, &end, &last);
    let mut flows = flow_measures(scenario, &sim.built.facts, views, &sim.intervals, &sim.gathered, None);
    note_windows(&mut flows, &sim.collector);
    let ports: Vec<_> = (0..scenario.ports.len()).map(|port| sim.port_measure(port, &last)).collect();
    let workers = last.workers.iter().zip(&base.workers);
    let workers = workers
        .map(|((core, load), (_, before))| WorkerMeasure::between(*core, Vec::new(), before, load))
        .collect();
    let busy: Vec<u64> = sim.line_times[1].iter().zip(&sim.line_times[0]).map(|(b, a)| b - a).collect();
    let looked = std::mem::take(&mut sim.queues.timeline);
    let fabric = fabric::measure(scenario, &sim.built, &sim.named, &busy, end.at.since(base.at), looked);
    let injected = ports.iter().enumerate().filter_map(|(port, measure)| sim.injected(port, measure));
    Ok(Finished {
        seed: sim.built.seed,
        interrupted: false,
        environment: Environment::virtual_time(),
        origin_ns: 0,
        flows,
        injected: injected.collect(),
        collectives: sim.gathered.collectives,
        ports,
        workers,
        intervals: sim.intervals,
        timeline: sim.collector.timeline().clone(),
        captures: Vec::new(),
        fabric,
        series: sim.sampler.map(Sampler::end),
        cq_overflow: last.cq_overflow,
        peer_lost: None,
        by_hand: Vec::new(),
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
        self.line_times[0] = fabric::line_times(&self.built, &self.named);
        self.collector.begin(base.at);
        if let Some(table) = &mut self.table {
            table.begin(base.at);
        }
        self.tick();
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
        self.tick();
        self.ticks.1 = Instant::FAR;
        self.line_times[1] = fabric::line_times(&self.built, &self.named);
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
            self.gathered.add(&view, false);
            idle = view.idle;
        }
        // Packets that need no answer may still be on their way.
        let until = self.built.world.now() + s.link.delay + s.link.delay + longest_hold(s) + STEP;
        self.built.world.run_until(until);
        let last = self.sample(Command::Finish)?;
        add_latency(&mut latency, &last);
        self.gathered.add(&last, false);
        self.intervals.push(Interval { from: end.at, to: last.at, latency });
        Ok((base, end, last))
    }

    /// Lets time pass, but not when the run is over.
    fn advance(&mut self, until: Instant) {
        let endless = self.scenario.flows.iter().all(|f| f.messages.is_none());
        while self.built.world.now() < until && (endless || !self.is_over()) {
            let storm = self.storms.last().map_or(Instant::FAR, |s| s.0);
            let sample = self.sampler.as_ref().map_or(Instant::FAR, Sampler::next);
            let step = until.min(self.built.world.now() + STEP);
            self.built.world.run_until(step.min(sample).min(storm).min(self.ticks.1));
            let now = self.built.world.now();
            while let Some((_, station, priority, on)) = self.storms.pop_if(|s| s.0 <= now) {
                self.built.world.net_mut().assert_pause(station, priority, on);
            }
            if let Some(sampler) = &mut self.sampler {
                sampler.sample(&self.built, &self.named);
            }
            if now >= self.ticks.1 {
                self.tick();
            }
            self.tell();
        }
    }

    /// Reads all flows.
    fn tick(&mut self) {
        let now = self.built.world.now();
        let every = self.ticks.0.as_nanos();
        self.ticks.1 = Instant::from_nanos((now.as_nanos() / every + 1) * every);
        self.queues.look(&self.built, &self.named, now);
        let Simulation { built, collector, table, scenario: s, .. } = self;
        for (number, host) in built.hosts.iter().enumerate() {
            let worker = built.world.host(host.id);
            worker.app().read(now, now.as_nanos(), worker.endpoints(), |t| collector.take(number, t));
            // One without flows has nothing to say.
            collector.reach(number, now.as_nanos());
        }
        collector.advance(
            |flow, spell| payload(s, flow, spell),
            |row| {
                if let Some(table) = table {
                    table.note(s, row);
                }
            },
        );
    }

    /// Says now and then how far the run is.
    fn tell(&mut self) {
        let (now, packets) = (self.clock.now(), self.built.world.packets());
        let span = now.since(self.told.0);
        if span >= TELL {
            let rate = (packets - self.told.1) as f64 / span.as_secs_f64();
            self.told = (now, packets);
            let at = self.built.world.now();
            let line = format!("simulated {}  {:.2} M packet events/s", at.since(Instant::ZERO), rate / 1e6);
            self.progress.say(&line);
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
            let blank = world.host(*id).app().blank(&Latency::default());
            world.command(*id, ask(Box::new(blank)));
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
        self.gathered.add(now, true);
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
            pauses: last.pauses[port],
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

/// The span between two readings.
fn tick_span(s: &Scenario) -> Duration {
    match (s.run.duration, s.run.sample) {
        (None, None) => STEP,
        _ => s.run.sample(Duration::from_micros(1)),
    }
}

/// When pauses begin and end, the first one last.
fn storms(s: &Scenario) -> Vec<(Instant, Station, Priority, bool)> {
    let mut all: Vec<_> = s
        .storms
        .iter()
        .flat_map(|storm| {
            let begin = Instant::ZERO + storm.at;
            let station = Station(storm.port as u32);
            [(begin, station, storm.priority, true), (begin + storm.span, station, storm.priority, false)]
        })
        .collect();
    all.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    all
}
