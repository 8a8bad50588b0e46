//! The workload: what a worker's queue pairs send, and the check of what they receive.

mod arrivals;
mod buffers;
mod collective;
mod lane;
pub mod pattern;
mod script;
mod spec;
mod tempo;
mod traffic;
mod watch;

pub use arrivals::{Arrivals, Pace};
pub use buffers::{Buffers, Layout, Places, SharedReceives, Side, front, receive_depth, side_depth};
use collective::Ranks;
use lane::ReceiveId;
pub use lane::{Ended, Lane, Received};
pub use script::{Entry, Script};
pub use spec::{Ideal, LaneSpec};
pub use tempo::Drive;
use tempo::Tempo;
pub use traffic::{Kind, Message, Sizes, Traffic};
use watch::Watch;

use crate::measure::{
    CollectiveSample, Detail, FlowSample, FlowStats, Latency, QpFailure, Sample, Spread, WrongPayload,
};
use roce_engine::cc::Pacer;
use roce_engine::io::PacketIo;
use roce_engine::transport::{QpCounters, StageLog};
use roce_engine::units::{Duration, Instant, Qpn};
use roce_engine::verbs::{Completion, CompletionStatus, QpEvent, WcOpcode};
use roce_engine::worker::{Application, Endpoint, Flow, Load};
use rtrb::Producer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the control thread asks of a worker.
#[derive(Debug)]
pub enum Command {
    /// Begin to post.
    Start,
    /// Fill this and send it back.
    Sample(Box<Sample>),
    /// Pause, go on, or go at another rate.
    Drive(Drive),
    /// Post nothing more; what is outstanding goes on.
    StopPosting,
    /// Check what lies around the buffers, fill this, send it back and end.
    Finish(Box<Sample>),
}

/// Drives the lanes of one worker.
#[derive(Debug)]
pub struct Generator {
    lanes: Vec<Lane>,
    /// What waits for what.
    ranks: Ranks,
    /// The flows that the lanes belong to.
    flows: Vec<FlowSample>,
    /// Where the recoveries of each are recorded.
    stages: Vec<StageLog>,
    /// What each flow's latencies begin with.
    empty: Latency,
    /// By endpoint: index of the port in the scenario.
    ports: Vec<usize>,
    /// By endpoint, by slot of the queue pair number: lane.
    by_slot: Vec<Vec<u32>>,
    /// The time of the schedules.
    tempo: Tempo,
    /// By lane: what the scenario has it paced by; empty until somebody changes that.
    paces: Vec<Option<Pacer>>,
    /// Lanes paced by messages, by when the next one is due in the time of the schedules.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Lanes that have not begun, by when they do by the clock; in a pause, when it is over.
    later: BinaryHeap<Reverse<(Instant, u32)>>,
    posting: bool,
    /// Lanes that have messages still to end.
    unfinished: usize,
    /// Workers that are through with all their messages count up here.
    finished: Arc<AtomicUsize>,
    answers: Producer<Box<Sample>>,
    /// By flow of its own: latencies since the start, for readings in between.
    spreads: Vec<Spread>,
    /// What it tells of its flows without being asked.
    watch: Watch,
}

const NO_LANE: u32 = u32::MAX;
/// The part of a queue pair number that names its slot.
const SLOT: u32 = 0xFFFF;

impl Generator {
    /// A generator over endpoints that belong to `ports`; samples go to `answers`, and `finished`
    /// counts workers that are through with their messages.  Latencies are recorded in copies of
    /// `empty`.
    pub fn new(
        ports: Vec<usize>,
        answers: Producer<Box<Sample>>,
        finished: Arc<AtomicUsize>,
        empty: Latency,
    ) -> Generator {
        Generator {
            lanes: Vec::new(),
            ranks: Ranks::default(),
            flows: Vec::new(),
            stages: Vec::new(),
            empty,
            by_slot: vec![Vec::new(); ports.len()],
            ports,
            tempo: Tempo::default(),
            paces: Vec::new(),
            due: BinaryHeap::new(),
            later: BinaryHeap::new(),
            posting: false,
            unfinished: 0,
            finished,
            answers,
            spreads: Vec::new(),
            watch: Watch::default(),
        }
    }

    /// An empty sample with room for what it counts; its latencies are copies of `latency`, which is
    /// empty too.
    pub fn blank(&self, latency: &Latency) -> Sample {
        let mut sample = Sample::new(self.flows.len(), self.ports.len(), latency);
        for (blank, own) in sample.flows.iter_mut().zip(&self.flows) {
            blank.detail = own.detail.blank();
        }
        sample.collectives = self.ranks.samples.iter().map(CollectiveSample::blank).collect();
        sample
    }

    /// Adds one side of a queue pair.  The queue pair itself is connected apart.
    pub fn add(&mut self, mut lane: Lane) {
        let flow = lane.flow_of_scenario();
        let known = self.flows.iter().position(|f| f.flow == flow);
        lane.set_flow(known.unwrap_or_else(|| {
            let detail = Detail::of(lane.spec(), self.empty.is_sized());
            self.flows.push(FlowSample { detail, ..FlowSample::new(flow, self.empty.clone()) });
            self.spreads.push(Spread::default());
            self.stages.push(StageLog::new());
            self.flows.len() - 1
        }));
        let slots = &mut self.by_slot[lane.endpoint()];
        let slot = (lane.qpn().get() & SLOT) as usize;
        if slots.len() <= slot {
            slots.resize(slot + 1, NO_LANE);
        }
        slots[slot] = self.lanes.len() as u32;
        self.lanes.push(lane);
        self.due.reserve(self.lanes.len());
        self.later.reserve(self.lanes.len());
    }

    /// Prepares the buffers of all lanes and posts their receive requests.
    pub fn prepare<I: PacketIo>(&mut self, endpoints: &mut [Endpoint<I>]) {
        self.ranks = Ranks::new(&self.lanes, &self.empty);
        for (number, lane) in self.lanes.iter().enumerate() {
            let endpoint = &mut endpoints[lane.endpoint()];
            if let Some(qp) = endpoint.qp_mut(lane.qpn()) {
                qp.set_stages(self.stages[lane.flow()].clone());
            }
            lane.prepare(number as u32, endpoint);
        }
    }

    fn start<I: PacketIo>(&mut self, now: Instant, endpoints: &mut [Endpoint<I>]) {
        self.posting = true;
        self.ranks.begin(now, &mut self.lanes);
        self.unfinished = self.lanes.iter().filter(|l| l.is_sender() && !l.is_finished()).count();
        for index in 0..self.lanes.len() as u32 {
            match self.lanes[index as usize].start() {
                Duration::ZERO if !self.tempo.is_paused() => self.begin(now, index, endpoints),
                later => self.later.push(Reverse((now + later, index))),
            }
        }
        self.note_finished();
    }

    /// A lane begins.
    fn begin<I: PacketIo>(&mut self, now: Instant, index: u32, endpoints: &mut [Endpoint<I>]) {
        let lane = &mut self.lanes[index as usize];
        match lane.begin(self.tempo.at(now)) {
            Some(at) => self.due.push(Reverse((at, index))),
            None => {
                let posted = lane.fill_pipe(now, &mut endpoints[lane.endpoint()]);
                self.flows[lane.flow()].stats.posted += posted;
            }
        }
    }

    /// Begins with lanes whose time has come; whether there were any.
    #[cold]
    fn begin_later<I: PacketIo>(&mut self, now: Instant, endpoints: &mut [Endpoint<I>]) -> bool {
        let mut any = false;
        while let Some(Reverse((at, index))) = self.later.peek().copied() {
            if at > now {
                break;
            }
            self.later.pop();
            self.begin(now, index, endpoints);
            any = true;
        }
        any
    }

    /// Posts what is due of the lanes that are paced by messages.
    fn post_due<I: PacketIo>(&mut self, now: Instant, endpoints: &mut [Endpoint<I>]) -> bool {
        let mut posted = false;
        let here = self.tempo.at(now);
        while let Some(Reverse((at, index))) = self.due.peek().copied() {
            if at > here {
                break;
            }
            self.due.pop();
            let lane = &mut self.lanes[index as usize];
            let due = self.tempo.wall(at);
            if lane.post(due, &mut endpoints[lane.endpoint()]) {
                posted = true;
                let FlowSample { stats, detail, .. } = &mut self.flows[lane.flow()];
                stats.posted += 1;
                if let Some(delay) = &mut detail.delay {
                    delay.record_at(now.since(due), now);
                    stats.waited += u64::from(lane.was_full(at));
                }
                if let Some(next) = lane.next_due() {
                    self.due.push(Reverse((next, index)));
                }
            } else if !lane.is_over() {
                // Its pipe is full: it comes back when a message ends.
                lane.set_blocked();
            }
        }
        posted
    }

    /// A message of ours has ended.
    #[inline]
    fn on_sent<I: PacketIo>(
        &mut self,
        now: Instant,
        index: u32,
        endpoint: &mut Endpoint<I>,
        done: &Completion,
    ) {
        let lane = &mut self.lanes[index as usize];
        let FlowSample { stats, latency, detail, .. } = &mut self.flows[lane.flow()];
        let Some(ended) = lane.end_message() else { return };
        stats.last = now;
        if done.status == CompletionStatus::Success {
            let took = now.since(ended.due);
            stats.completed += 1;
            latency.record_at(took, now);
            self.spreads[lane.flow()].note(took);
            self.watch.note(index, took);
            let message = ended.message;
            let totals = lane.frames(message.kind).totals(message.size);
            stats.bytes += u64::from(message.size);
            stats.packets += u64::from(totals.packets);
            stats.l2_bytes += totals.l2;
            stats.l1_bytes += totals.l1;
            if detail.is_wanted() {
                let ideal = lane.spec().ideal.map(|i| i.ns(totals.l1));
                detail.note(lane.index(), message, took, now, ideal);
            }
            if let Some(received) = lane.check_read(&ended, endpoint) {
                note_received(stats, lane.index(), &received);
            }
        } else {
            stats.failed += 1;
            if !lane.is_dead() {
                lane.set_dead();
                note_failure(stats, lane.index(), now, endpoint, done);
            }
        }
        if self.posting && !lane.is_over() {
            if !lane.is_timed() {
                if !self.tempo.is_paused() {
                    stats.posted += u64::from(lane.post(now, endpoint));
                }
            } else if let Some(at) = lane.think(self.tempo.at(now)) {
                self.due.push(Reverse((at, index)));
            } else if lane.take_blocked(self.tempo.at(now)) {
                if let Some(at) = lane.next_due() {
                    self.due.push(Reverse((at, index)));
                }
            }
        }
        if lane.is_finished() && lane.note_finished() {
            self.unfinished -= 1;
            self.note_finished();
        }
    }

    /// A receive request of ours completed.
    fn on_received<I: PacketIo>(
        &mut self,
        now: Instant,
        index: u32,
        endpoint: &mut Endpoint<I>,
        done: &Completion,
    ) {
        let id = ReceiveId::unpack(done.wr_id);
        if done.status != CompletionStatus::Success {
            // Others go on with what this queue pair had taken.
            let owner = &self.lanes[id.lane as usize];
            if owner.shares_receives() {
                owner.repost(id, endpoint);
            }
            return;
        }
        let message = self.lanes[id.lane as usize].message_in(id.slot, done.byte_len);
        let lane = &mut self.lanes[index as usize];
        let stats = &mut self.flows[lane.flow()].stats;
        if done.opcode == WcOpcode::Recv {
            let received = lane.receive(message, endpoint);
            note_received(stats, lane.index(), &received);
        }
        if !lane.check_imm(done.imm) {
            let number = lane.last_received();
            note_received(stats, lane.index(), &Received { number, wrong: Some(0), ..Received::default() });
            stats.received -= 1;
        }
        self.lanes[id.lane as usize].repost(id, endpoint);
        self.follow(now, index, endpoint);
    }

    /// Something was received: posts what waited for it.
    #[inline]
    fn follow<I: PacketIo>(&mut self, now: Instant, index: u32, endpoint: &mut Endpoint<I>) {
        let (flows, posting) = (&mut self.flows, self.posting && !self.tempo.is_paused());
        self.ranks.received(now, index, &mut self.lanes, |lane| {
            if posting {
                let posted = lane.fill_pipe(now, endpoint);
                flows[lane.flow()].stats.posted += posted;
            }
        });
    }

    /// Pauses, goes on, or changes the rate.
    #[cold]
    fn drive<I: PacketIo>(&mut self, now: Instant, endpoints: &mut [Endpoint<I>], to: &Drive) {
        if self.paces.is_empty() {
            let pace = |l: &Lane| endpoints[l.endpoint()].qp(l.qpn()).and_then(|qp| qp.pacer().cloned());
            self.paces = self.lanes.iter().map(pace).collect();
        }
        for (lane, pace) in self.lanes.iter().zip(&self.paces).filter(|(l, _)| l.is_sender()) {
            let Some(qp) = endpoints[lane.endpoint()].qp_mut(lane.qpn()) else { continue };
            let limit = || to.limits.get(lane.flow_of_scenario()).cloned().flatten();
            qp.change_pace(pace.as_ref().map(|p| p.scaled(to.percent)).or_else(limit));
        }
        if self.tempo.drive(now, to.paused, to.percent) && self.posting {
            for lane in self.lanes.iter_mut().filter(|l| l.is_eager()) {
                let posted = lane.fill_pipe(now, &mut endpoints[lane.endpoint()]);
                self.flows[lane.flow()].stats.posted += posted;
            }
        }
    }

    fn lane_of(&self, endpoint: usize, qpn: Qpn) -> Option<u32> {
        let lane = *self.by_slot.get(endpoint)?.get((qpn.get() & SLOT) as usize)?;
        (lane != NO_LANE).then_some(lane)
    }

    fn note_finished(&self) {
        if self.posting && self.unfinished == 0 {
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    fn check_guards<I: PacketIo>(&mut self, endpoints: &[Endpoint<I>]) {
        for lane in &self.lanes {
            if let Some(offset) = lane.check_guards(&endpoints[lane.endpoint()]) {
                let stats = &mut self.flows[lane.flow()].stats;
                stats.verify_errors += 1;
                let wrong = WrongPayload { qp: lane.index(), message: lane.received(), offset };
                stats.wrong.get_or_insert(wrong);
            }
        }
    }

    fn fill_sample<I: PacketIo>(
        &mut self,
        now: Instant,
        endpoints: &[Endpoint<I>],
        load: &Load,
        sample: &mut Sample,
    ) {
        sample.at = now;
        sample.load = *load;
        for flow in &mut self.flows {
            flow.stats.outstanding = 0;
            flow.stats.counters = [QpCounters::default(); 2];
            flow.stats.reactions = None;
            flow.gaps.reset();
        }
        for (flow, log) in sample.flows.iter_mut().zip(&self.stages) {
            flow.stages.clear();
            log.add_to(&mut flow.stages);
        }
        for lane in &self.lanes {
            let flow = &mut self.flows[lane.flow()];
            let stats = &mut flow.stats;
            stats.outstanding += u64::from(lane.in_flight());
            if lane.is_sender() {
                stats.sampled = now;
            }
            if let Some(qp) = endpoints[lane.endpoint()].qp(lane.qpn()) {
                stats.counters[usize::from(!lane.is_sender())].add(&qp.counters());
                if let Some(gaps) = qp.gaps() {
                    flow.gaps.add(gaps);
                }
                if let Some(state) = qp.rate_control().state(now).filter(|_| lane.sends_data()) {
                    stats.note_reaction(&state);
                }
            }
        }
        sample.idle = self.flows.iter().all(|f| f.stats.outstanding == 0);
        for (to, from) in sample.flows.iter_mut().zip(&mut self.flows) {
            to.flow = from.flow;
            to.stats = from.stats;
            to.gaps.clone_from(&from.gaps);
            // The filled histograms go, the empty ones that came stay.
            to.latency.reset();
            std::mem::swap(&mut to.latency, &mut from.latency);
            to.detail.reset();
            std::mem::swap(&mut to.detail, &mut from.detail);
        }
        for (to, from) in sample.collectives.iter_mut().zip(&mut self.ranks.samples) {
            to.collective = from.collective;
            to.time.reset();
            std::mem::swap(&mut to.time, &mut from.time);
        }
        for (to, (endpoint, port)) in sample.ports.iter_mut().zip(endpoints.iter().zip(&self.ports)) {
            to.port = *port;
            to.counters = endpoint.counters().clone();
            to.cq_overflow = endpoint.cq_overflow();
            to.pauses = endpoint.pause_counters();
        }
    }
}

fn note_received(stats: &mut FlowStats, qp: u32, received: &Received) {
    stats.received += 1;
    stats.lost = (stats.lost + received.lost).saturating_sub(u64::from(received.found));
    stats.verified += u64::from(received.checked);
    if let Some(offset) = received.wrong {
        stats.verify_errors += 1;
        stats.wrong.get_or_insert(WrongPayload { qp, message: received.number, offset });
    }
}

fn note_failure<I: PacketIo>(
    stats: &mut FlowStats,
    qp: u32,
    at: Instant,
    endpoint: &Endpoint<I>,
    done: &Completion,
) {
    let dest_qpn = endpoint.qp(done.qpn).map_or(Qpn::new(0), |qp| qp.dest_qpn());
    stats.failed_qps += 1;
    stats.failure.get_or_insert(QpFailure { qp, qpn: done.qpn, dest_qpn, status: done.status, at });
}

impl<I: PacketIo> Application<I> for Generator {
    type Command = Command;

    fn on_command(
        &mut self,
        now: Instant,
        endpoints: &mut [Endpoint<I>],
        load: &Load,
        command: Command,
    ) -> Flow {
        let (mut sample, flow) = match command {
            Command::Start => {
                self.start(now, endpoints);
                return Flow::Continue;
            }
            Command::Drive(to) => {
                self.drive(now, endpoints, &to);
                return Flow::Continue;
            }
            Command::StopPosting => {
                self.posting = false;
                self.due.clear();
                for lane in &self.lanes {
                    self.flows[lane.flow()].stats.overdue += lane.overdue(self.tempo.at(now));
                }
                return Flow::Continue;
            }
            Command::Sample(sample) => (sample, Flow::Continue),
            Command::Finish(sample) => {
                self.check_guards(endpoints);
                (sample, Flow::Stop)
            }
        };
        self.fill_sample(now, endpoints, load, &mut sample);
        // The ring has room for every sample that is under way.
        let _ = self.answers.push(sample);
        flow
    }

    #[inline]
    fn fetch_ahead(&self, endpoint: &Endpoint<I>, index: usize, qpn: Qpn, again: bool) {
        let Some(lane) = self.lane_of(index, qpn) else { return };
        let lane = &self.lanes[lane as usize];
        if again {
            lane.fetch_more(endpoint);
            if let Some(detail) = self.flows[lane.flow()].detail.qps.get(lane.index() as usize) {
                I::fetch(&detail.messages);
            }
        } else {
            I::fetch(lane);
        }
    }

    #[inline]
    fn on_completion(&mut self, now: Instant, index: usize, endpoint: &mut Endpoint<I>, done: &Completion) {
        let Some(lane) = self.lane_of(index, done.qpn) else { return };
        match done.opcode {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => self.on_received(now, lane, endpoint, done),
            _ => self.on_sent(now, lane, endpoint, done),
        }
    }

    #[inline]
    fn on_event(&mut self, now: Instant, index: usize, endpoint: &mut Endpoint<I>, qpn: Qpn, event: QpEvent) {
        let QpEvent::WriteExecuted { va, len } = event else { return };
        let Some(number) = self.lane_of(index, qpn) else { return };
        let lane = &mut self.lanes[number as usize];
        let received = lane.receive(lane.written_at(va, len), endpoint);
        note_received(&mut self.flows[lane.flow()].stats, lane.index(), &received);
        self.follow(now, number, endpoint);
    }

    #[inline]
    fn on_turn(&mut self, now: Instant, endpoints: &mut [Endpoint<I>]) -> bool {
        if self.watch.is_due(now) {
            self.tell(now, endpoints);
        }
        if !self.posting || self.tempo.is_paused() {
            return false;
        }
        let began = !self.later.is_empty() && self.begin_later(now, endpoints);
        !self.due.is_empty() && self.post_due(now, endpoints) || began
    }

    fn next_wake(&self) -> Option<Instant> {
        let [due, later] = [&self.due, &self.later].map(|heap| heap.peek().map(|Reverse((at, _))| *at));
        let due = due.map(|at| self.tempo.wall(at));
        [due, later].into_iter().flatten().min().filter(|_| self.posting && !self.tempo.is_paused())
    }
}
