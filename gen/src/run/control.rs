//! The phases of a run: warm-up, measurement, drain; and what is sampled in between.

use super::connect::{FlowInfo, Meeting, Outcome};
use super::environment::{Environment, port_specs};
use super::hands::Hands;
use super::judges::{judges, longest_hold};
use super::links;
use super::live::{self, Key, Live, Phase};
use super::measures::{flow_measures, note_windows, port_measures};
use super::metrics::Metrics;
use super::progress::Progress;
use super::setup::{OpenedPort, Setup};
use super::signal::Signals;
use super::talk;
use super::view::{Gathered, View, add_latency};
use super::worker::{Handle, Io, Plan};
use super::{EnvironmentError, start_dpdk};
use crate::cli::{Direction, RunArgs};
use crate::config::Scenario;
use crate::measure::{Collector, FlowStats, Latency, Sample, Tick};
use crate::report::{Finished, Interval, Intervals, Judged, WorkerMeasure, payload};
use crate::workload::Command;
use anyhow::Result;
use roce_engine::io::dpdk::{self, OpenError, OpenPort, TscClock};
use roce_engine::io::impaired::Impaired;
use roce_engine::io::pcap::{self, CaptureLimits, Recorded};
use roce_engine::units::{Duration, Instant, Rate};
use roce_engine::wire::MacAddr;
use roce_engine::worker::Endpoint;
use rtrb::{Consumer, RingBuffer};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often the control thread looks around.
const NAP: std::time::Duration = std::time::Duration::from_millis(5);
/// Readings are no finer than that, and by default ten times as coarse.
pub(super) const FINEST: Duration = Duration::from_millis(1);
const USUAL: Duration = Duration::from_millis(10);
/// What a worker has to say while the control thread sleeps: so many moments, in so many ticks at most.
const MOMENTS: usize = 256;
const TICKS: usize = 8192;
/// After Ctrl-C a run ends within two seconds: so long may its drain take.
const INTERRUPTED_DRAIN: Duration = Duration::from_millis(500);

/// Everything that a run's phases need.
struct Control<'a> {
    scenario: &'a Scenario,
    clock: TscClock,
    workers: Vec<Handle>,
    /// An empty sample for each worker, to send out.
    spare: Vec<Option<Box<Sample>>>,
    finished: Arc<AtomicUsize>,
    signals: &'a Signals,
    progress: Progress,
    /// The view on a terminal, and what is done there.
    live: Option<Live>,
    hands: Hands,
    phase: Phase,
    /// Latencies of the intervals, by flow.
    intervals: Vec<Interval>,
    /// What workers tell by themselves, and what is made of it.
    ticks: Vec<Consumer<Tick>>,
    collector: Collector,
    /// Where that is written to.
    table: Option<Intervals>,
    /// Where others ask how the run goes.
    metrics: Option<Metrics>,
    gathered: Gathered,
}

/// What a run holds from its start to its end.  The ports are closed before the line is cut.
struct Stage<'a> {
    open: Vec<(usize, OpenPort)>,
    meeting: Option<Meeting<'a>>,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // The driver of net_memif can crash when both ends of it are closed at the same time.
        if let Some(meeting) = &mut self.meeting {
            meeting.let_the_caller_go_first();
        }
    }
}

/// What the phases of a run came to.
struct Phases {
    /// When measuring began, when it ended, and after the drain.
    base: View,
    end: View,
    last: View,
    /// What the other process counted.
    theirs: Option<Outcome>,
    /// Why the other process is gone before its time.
    peer_lost: Option<String>,
}

/// Runs a scenario from opening the ports to closing them.
pub(super) fn run(
    scenario: &Scenario,
    cores: &[Vec<usize>],
    args: &RunArgs,
    signals: &Signals,
    quiet: bool,
) -> Result<Judged> {
    let metrics = args
        .metrics
        .map(|at| Metrics::bind(at).map_err(|e| EnvironmentError(format!("--metrics {at}: {e}"))));
    let metrics = metrics.transpose()?;
    let specs = port_specs(scenario, cores);
    let plain: Vec<_> = specs.iter().map(|(_, spec)| spec.clone()).collect();
    let verbose = log::log_enabled!(log::Level::Debug);
    let eal = start_dpdk(scenario.run.hugepages, &plain, scenario.run.memory, verbose)?;
    let clock = TscClock::calibrate().map_err(|e| EnvironmentError(e.to_string()))?;
    let mut environment = Environment::of(&eal, &clock);
    log::info!("DPDK {}, memory: {}", environment.dpdk, environment.memory);
    let give_up = || signals.interrupted();
    let opened =
        dpdk::open(&eal, &plain, &give_up).map_err(|e: OpenError| EnvironmentError(e.to_string()))?;
    let open = specs.iter().map(|(i, _)| *i).zip(opened).collect();
    let Stage { open, meeting } = &mut Stage { open, meeting: None };
    // One that a scenario can name.
    let drawn = || std::hash::RandomState::new().build_hasher().finish() >> 1;
    let seed = scenario.run.seed.unwrap_or_else(drawn);
    let finished = Arc::new(AtomicUsize::new(0));
    let limits = args.pcap.file.as_ref().map(|_| CaptureLimits {
        snap_len: args.pcap.snap as usize,
        count: usize::try_from(args.pcap.count).unwrap_or(usize::MAX),
        direction: match args.pcap.direction {
            Direction::Both => pcap::Direction::Both,
            Direction::Tx => pcap::Direction::Tx,
            Direction::Rx => pcap::Direction::Rx,
        },
    });
    let ports = open.iter_mut().map(|(index, port)| OpenedPort {
        index: *index,
        ios: port.ios.drain(..).map(|io| Impaired::new(Recorded::new(io, limits, clock))).collect(),
        mac: Some(MacAddr(port.mac())),
        speed: port.speed_bps.map(Rate::from_bps),
    });
    let mut setup = Setup::new(scenario, cores, ports.collect(), &finished, seed, &Latency::sized());
    setup.create()?;
    let mut told: Vec<FlowInfo> = Vec::new();
    if let Some(connect) = &scenario.connect {
        told = setup.meet(meeting.insert(Meeting::open(connect, &give_up)?))?;
    }
    setup.find_hops(clock, signals)?;
    let talks = setup.talk(clock, signals)?;
    setup.connect(&told)?;
    let facts = setup.facts().to_vec();
    say_bounds(scenario);
    let (mut plans, seed, streams) = setup.finish();
    for (at, judge) in judges(scenario, seed, streams) {
        plans[at.0].endpoints[at.1].io_mut().set_impairment(judge);
    }
    links::lead(scenario, seed, &mut plans)?;
    let live = !quiet && !args.no_live && live::is_possible();
    let (ticks, per_span) = watch(scenario, &mut plans, live);
    let table = args.out.as_deref().map(Intervals::create).transpose();
    let table = table.map_err(|e| EnvironmentError(format!("--out: {e}")))?;
    let spare = plans.iter().map(|p| Some(Box::new(p.app.blank(&Latency::sized())))).collect();
    let workers =
        plans.into_iter().map(|plan| Handle::start(plan, &eal, clock)).collect::<Result<Vec<_>, _>>()?;
    let sends = scenario.flows.iter().any(|f| scenario.ports[f.from].is_local());
    let now = clock.read();
    let mut control = Control {
        scenario,
        clock,
        workers,
        spare,
        finished,
        signals,
        progress: Progress { silent: quiet },
        live: None,
        hands: Hands::new(sends, now),
        phase: Phase { name: "", since: now, total: None },
        intervals: Vec::new(),
        collector: Collector::new(ticks.len(), scenario.flows.len(), scenario.run.window),
        ticks,
        table,
        metrics,
        gathered: Gathered::default(),
    };
    control.collector.set_span(per_span);
    let measured = control.phases(meeting.as_mut(), sends, live);
    // The terminal is given back.
    control.live = None;
    let Phases { base, end, last, theirs, mut peer_lost } = match measured {
        Ok(phases) => phases,
        Err(e) => {
            let left = control.abandon();
            talk::part_all(scenario, talks, left, (clock, signals), None);
            return Err(e);
        }
    };
    let (mut captures, mut injected, mut links) = (Vec::new(), Vec::new(), Vec::new());
    let load = last.workers.clone();
    let ports_of: Vec<_> = control.workers.iter().map(|w| w.ports.clone()).collect();
    let mut endpoints = Vec::new();
    for worker in std::mem::take(&mut control.workers) {
        let legacy = worker.join()?;
        endpoints.extend(legacy.endpoints);
        for left in legacy.remains {
            captures.extend(left.capture.map(|c| (scenario.ports[left.port].name.clone(), c)));
            injected.extend(left.injected);
            links.extend(left.link.map(|link| (left.port, link)));
        }
    }
    environment.close(&clock);
    let intervals = std::mem::take(&mut control.intervals);
    let interrupted = signals.interrupted();
    if let Some(table) = control.table.take() {
        table.close().map_err(|e| EnvironmentError(format!("cannot write intervals.csv: {e}")))?;
    }
    let views = (&base, &end, &last);
    let mut flows = flow_measures(scenario, &facts, views, &intervals, &control.gathered, theirs.as_ref());
    note_windows(&mut flows, &control.collector);
    let apart = talk::part_all(scenario, talks, endpoints, (clock, signals), Some(&flows));
    peer_lost = peer_lost.or(apart);
    let ports = port_measures(scenario, open, &last, &links);
    let workers = load
        .into_iter()
        .zip(&base.workers)
        .zip(ports_of)
        .map(|(((core, load), (_, before)), ports)| WorkerMeasure::between(core, ports, before, &load))
        .collect();
    Ok(Finished {
        seed,
        interrupted,
        environment,
        origin_ns: wall_clock_of(&clock),
        flows,
        collectives: control.gathered.collectives.clone(),
        ports,
        workers,
        intervals,
        timeline: control.collector.timeline().clone(),
        captures,
        injected,
        fabric: None,
        series: None,
        cq_overflow: last.cq_overflow,
        peer_lost,
        by_hand: std::mem::take(&mut control.hands.done),
    }
    .judged(scenario))
}

impl Control<'_> {
    /// Warm-up, measurement, drain.
    fn phases(&mut self, mut meeting: Option<&mut Meeting<'_>>, sends: bool, live: bool) -> Result<Phases> {
        if let Some(m) = meeting.as_deref_mut() {
            m.barrier("ready")?;
        }
        // Without a warm-up, measuring begins before the first message.
        let warmup = warmup(self.scenario);
        let mut base = self.view()?;
        base.at = self.clock.read();
        for flow in &mut base.flows {
            flow.sampled = base.at;
        }
        if warmup == Duration::ZERO {
            self.begin(base.at);
        }
        for worker in &mut self.workers {
            worker.tell(Command::Start)?;
        }
        if live {
            self.live = Live::begin(self.scenario, self.workers.iter().map(|w| w.core));
            self.progress.silent |= self.live.is_some();
        }
        if warmup != Duration::ZERO {
            self.enter("warm-up", Some(warmup));
            self.wait(warmup, meeting.as_deref_mut(), sends)?;
            base = self.view()?;
            self.begin(base.at);
        }
        let mut view = base.clone();
        // A side that only receives goes on until the other one has ended.
        let end_at = self.scenario.run.duration.filter(|_| sends).map(|d| base.at + d);
        self.phase = Phase { name: "measuring", since: base.at, total: end_at.map(|end| end.since(base.at)) };
        loop {
            let next = view.at + self.scenario.run.interval;
            let until = end_at.map_or(next, |end| next.min(end));
            self.wait(until.since(self.clock.read()), meeting.as_deref_mut(), sends)?;
            let now = self.view()?;
            self.note_interval(&base, &view, &now);
            view = now;
            if end_at.is_some_and(|end| view.earliest >= end) || self.is_over(meeting.as_deref_mut(), sends) {
                break;
            }
        }
        let end = view;
        self.collector.end(end.at);
        for worker in &mut self.workers {
            worker.tell(Command::StopPosting)?;
        }
        self.enter("drain", None);
        let mut latency = self.drain()?;
        // The other side may still send to us.
        self.enter("waiting for the other side", None);
        let parted = meeting.as_deref_mut().map(|m| self.part(m)).transpose()?.flatten();
        // Packets that need no answer may still be on their way.
        let mut hold = longest_hold(self.scenario);
        if self.signals.interrupted() {
            hold = hold.min(INTERRUPTED_DRAIN);
        }
        std::thread::sleep(NAP + hold.into());
        let last = self.sample(Command::Finish)?;
        self.listen();
        add_latency(&mut latency, &last);
        self.gathered.add(&last, false);
        self.intervals.push(Interval { from: end.at, to: last.at, latency });
        let mut phases = Phases { base, end, last, theirs: None, peer_lost: parted };
        if let Some(m) = meeting.filter(|_| phases.peer_lost.is_none() && !self.signals.interrupted()) {
            match m.close(&phases.last.outcome(self.scenario)) {
                Ok(theirs) => phases.theirs = Some(theirs),
                Err(e) => phases.peer_lost = Some(e.to_string()),
            }
        }
        Ok(phases)
    }

    /// Measuring begins.
    fn begin(&mut self, at: Instant) {
        self.collector.begin(at);
        if let Some(table) = &mut self.table {
            table.begin(at);
        }
    }

    /// Takes what workers have told.
    fn listen(&mut self) {
        for (worker, ticks) in self.ticks.iter_mut().enumerate() {
            while let Ok(tick) = ticks.pop() {
                self.collector.take(worker, tick);
            }
        }
        let s = self.scenario;
        let table = &mut self.table;
        self.collector.advance(
            |flow, spell| payload(s, flow, spell),
            |row| {
                if let Some(table) = table {
                    table.note(s, row);
                }
            },
        );
    }

    fn enter(&mut self, name: &'static str, total: Option<Duration>) {
        self.phase = Phase { name, since: self.clock.read(), total };
    }

    /// Does what somebody at the keyboard wants, and shows how the run goes.
    fn look(&mut self) -> Result<(), EnvironmentError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let (s, now) = (self.scenario, self.clock.read());
        for key in live.typed() {
            match key {
                Key::Quit => self.signals.interrupt(),
                key => self.hands.press(key, now, || live.rates(s)),
            }
        }
        self.hands.tell(s, now, &mut self.workers)?;
        live.show(s, &self.collector, &self.hands, self.phase, now);
        Ok(())
    }

    /// Whether there is nothing more to measure.
    fn is_over(&self, meeting: Option<&mut Meeting<'_>>, sends: bool) -> bool {
        let through = self.finished.load(Ordering::Acquire) >= self.workers.len();
        let told = |m: &mut Meeting<'_>| if sends { m.is_closed() } else { m.has_word() };
        self.signals.interrupted() || sends && through || meeting.is_some_and(told)
    }

    /// Waits until the other side is through as well; why it is gone, if it is.
    fn part(&mut self, meeting: &mut Meeting<'_>) -> Result<Option<String>> {
        if self.signals.interrupted() {
            return Ok(None);
        }
        if let Err(e) = meeting.say("drained") {
            return Ok(Some(e.to_string()));
        }
        while !meeting.has_word() {
            if self.signals.interrupted() {
                return Ok(None);
            }
            self.check_workers()?;
            self.look()?;
            std::thread::sleep(NAP);
        }
        Ok(meeting.hear("drained").err().map(|e| e.to_string()))
    }

    /// Waits, but not when the run is over.
    fn wait(&mut self, span: Duration, mut meeting: Option<&mut Meeting<'_>>, sends: bool) -> Result<()> {
        let end = self.clock.read() + span;
        loop {
            let now = self.clock.read();
            if now >= end || self.is_over(meeting.as_deref_mut(), sends) {
                return Ok(());
            }
            self.check_workers()?;
            self.listen();
            if let Some(metrics) = &self.metrics {
                metrics.serve();
            }
            self.look()?;
            std::thread::sleep(NAP.min(end.since(now).into()));
        }
    }

    fn check_workers(&self) -> Result<(), EnvironmentError> {
        match self.workers.iter().find(|w| w.is_dead()) {
            Some(dead) => Err(EnvironmentError(format!("the worker on core {} has ended", dead.core))),
            None => Ok(()),
        }
    }

    /// Lets what is outstanding end; the latencies of what did.
    fn drain(&mut self) -> Result<Vec<Latency>> {
        let began = self.clock.read();
        let mut latency = vec![Latency::default(); self.scenario.flows.len()];
        let mut idle = false;
        while !idle {
            let drain = self.scenario.run.drain;
            let limit = if self.signals.interrupted() { drain.min(INTERRUPTED_DRAIN) } else { drain };
            if self.clock.read() >= began + limit {
                break;
            }
            self.check_workers()?;
            self.look()?;
            std::thread::sleep(NAP);
            let view = self.view()?;
            add_latency(&mut latency, &view);
            self.gathered.add(&view, false);
            idle = view.idle;
        }
        Ok(latency)
    }

    /// Ends the workers of a run that has failed: their ports go away, but for what is to be used again.
    fn abandon(&mut self) -> Vec<(usize, Endpoint<Io>)> {
        let mut left = Vec::new();
        for mut worker in std::mem::take(&mut self.workers) {
            let sample = Sample::new(0, worker.ports.len(), &Latency::default());
            if worker.tell(Command::Finish(Box::new(sample))).is_ok() {
                left.extend(worker.join().map(|legacy| legacy.endpoints).unwrap_or_default());
            }
        }
        left
    }

    /// Asks all workers at once, and puts together what they say.
    fn view(&mut self) -> Result<View> {
        self.sample(Command::Sample)
    }

    fn sample(&mut self, ask: impl Fn(Box<Sample>) -> Command) -> Result<View> {
        for (worker, spare) in self.workers.iter_mut().zip(&mut self.spare) {
            if let Some(sample) = spare.take() {
                worker.tell(ask(sample))?;
            }
        }
        let mut view = View::empty(self.scenario);
        for (worker, spare) in self.workers.iter_mut().zip(&mut self.spare) {
            let sample = worker.answer()?;
            view.add(worker.core, &sample);
            *spare = Some(sample);
        }
        Ok(view)
    }

    fn note_interval(&mut self, base: &View, before: &View, now: &View) {
        if let Some(metrics) = &mut self.metrics {
            metrics.set(self.scenario, before, now);
        }
        if let Some(live) = &mut self.live {
            live.note_interval(before, now);
        }
        let span = now.at.since(before.at);
        let flows: Vec<(FlowStats, FlowStats, Latency)> = (0..self.scenario.flows.len())
            .map(|f| (before.flows[f], now.flows[f], now.latency[f].clone()))
            .collect();
        self.progress.interval(self.scenario, now.at.since(base.at), span, &flows);
        self.gathered.add(now, true);
        self.intervals.push(Interval { from: before.at, to: now.at, latency: now.latency.clone() });
    }
}

/// Has the workers that have flows tell of them: where they do, and how many moments are a span of the
/// result.  For a view there are more moments than spans, in long runs.
fn watch(s: &Scenario, plans: &mut [Plan<Io>], live: bool) -> (Vec<Consumer<Tick>>, u64) {
    let mut ticks = Vec::new();
    let lanes: u64 = s.flows.iter().map(|f| u64::from(f.qps)).sum();
    // To look at very many queue pairs takes a while.
    let least = USUAL.max(Duration::from_micros(5 * lanes));
    let span = s.run.sample(least).max(FINEST);
    let per_span = if live { span.as_nanos().div_ceil(live::FRAME.max(least).as_nanos()) } else { 1 };
    let every = Duration::from_nanos(span.as_nanos() / per_span);
    for plan in plans.iter_mut() {
        if s.run.per_qp {
            plan.app.tell_queue_pairs_apart();
        }
        let each = plan.app.ticks();
        if each != 0 {
            let (out, from) = RingBuffer::new((each * MOMENTS).min(TICKS).max(2 * each));
            plan.app.watch(every, out);
            ticks.push(from);
        }
    }
    (ticks, per_span)
}

/// The time before measuring begins: none where messages are counted and not time.
pub(crate) fn warmup(s: &Scenario) -> Duration {
    if s.run.duration.is_some() { s.run.warmup } else { Duration::ZERO }
}

/// How long a dead peer can go unnoticed.
fn say_bounds(s: &Scenario) {
    for flow in &s.flows {
        if flow.transport.is_reliable() {
            match flow.ack_timeout {
                0 => log::warn!("flow \"{}\": ack_timeout = 0: a dead peer is never noticed", flow.name),
                n => {
                    let t = Duration::from_nanos(4096u64 << n);
                    let all = Duration::from_nanos((4096u64 << n) * (u64::from(flow.retry_cnt) + 1));
                    log::info!("flow \"{}\": ack timeout {t}, a dead peer is noticed after {all}", flow.name);
                }
            }
        }
    }
}

/// The wall-clock time of the run's origin, in nanoseconds since 1970.
fn wall_clock_of(clock: &TscClock) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0).saturating_sub(clock.read().as_nanos())
}
