//! Hosts, lines, and the order in which things happen.

use super::line::{Duplex, Line, LineCounters, LineId, LineSpec, Target};
use super::port::{SimFrame, SimPort};
use super::queue::{Events, What};
use crate::fabric::{Impairment, flip, mark_ce};
use crate::io::Frame;
use crate::units::Instant;
use crate::worker::{Application, Flow, Worker};

/// Frames that a host puts into its line ahead of time: the one that is being sent and the next.
const AHEAD: usize = 2;
/// Free frames that a port keeps; the others go to whoever needs them.
const KEPT: usize = 64;

/// A host of a [`World`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostId(u32);

/// A port: an endpoint of a host, by its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRef {
    /// The host.
    pub host: HostId,
    /// Index of the endpoint.
    pub endpoint: u32,
}

#[derive(Debug)]
struct Host<A> {
    worker: Worker<SimPort, A>,
    /// By endpoint: the line that it sends into.
    lines: Vec<Option<u32>>,
    /// The pending wake, in picoseconds; others are out of date.
    wake_at: u64,
}

/// Everything that there is, at one moment.
#[derive(Debug)]
pub struct World<A> {
    now: u64,
    events: Events,
    hosts: Vec<Host<A>>,
    lines: Vec<Line>,
    pool: Vec<SimFrame>,
    max_frame: usize,
    packets: u64,
}

impl<A: Application<SimPort>> World<A> {
    /// An empty world for frames of up to `max_frame` bytes, at time zero.
    pub fn new(max_frame: usize) -> World<A> {
        World {
            now: 0,
            events: Events::default(),
            hosts: Vec::new(),
            lines: Vec::new(),
            pool: Vec::new(),
            max_frame,
            packets: 0,
        }
    }

    /// Adds a host.
    pub fn add_host(&mut self, worker: Worker<SimPort, A>) -> HostId {
        let id = self.hosts.len() as u32;
        let lines = vec![None; worker.endpoints().len()];
        self.hosts.push(Host { worker, lines, wake_at: u64::MAX });
        HostId(id)
    }

    /// Joins two ports by a cable.
    pub fn connect(&mut self, a: PortRef, b: PortRef, forth: LineSpec, back: LineSpec) -> Duplex {
        let target = |p: PortRef| Target::Host(p.host.0, p.endpoint);
        Duplex { forth: self.add_source(a, forth, target(b)), back: self.add_source(b, back, target(a)) }
    }

    /// Adds a line that ends at a port and that frames reach from other lines only.
    pub fn add_line(&mut self, spec: LineSpec, to: PortRef) -> LineId {
        self.push_line(spec, Target::Host(to.host.0, to.endpoint))
    }

    /// Joins a port to a line: what it sends goes over a line of its own into that one.
    pub fn join(&mut self, from: PortRef, spec: LineSpec, to: LineId) -> LineId {
        self.add_source(from, spec, Target::Line(to.0))
    }

    /// Has a port send into a line of [`World::add_line`] without one of its own.
    pub fn feed(&mut self, from: PortRef, line: LineId) {
        self.lines[line.0 as usize].source = Some((from.host.0, from.endpoint));
        let host = &mut self.hosts[from.host.0 as usize];
        host.lines[from.endpoint as usize] = Some(line.0);
        host.worker.endpoints_mut()[from.endpoint as usize].io_mut().room = AHEAD;
    }

    /// Has the frames of a line judged as they leave it.
    pub fn impair(&mut self, line: LineId, impairment: Impairment) {
        self.lines[line.0 as usize].impairment = Some(Box::new(impairment));
    }

    /// The judge of a line.
    pub fn impairment(&self, line: LineId) -> Option<&Impairment> {
        self.lines[line.0 as usize].impairment.as_deref()
    }

    /// What a line counted.
    pub fn line(&self, line: LineId) -> &LineCounters {
        &self.lines[line.0 as usize].counters
    }

    /// Frames anywhere on a line.
    pub fn frames_inside(&self, line: LineId) -> usize {
        self.lines[line.0 as usize].frames_inside()
    }

    /// A host.
    pub fn host(&self, host: HostId) -> &Worker<SimPort, A> {
        &self.hosts[host.0 as usize].worker
    }

    /// Gives the application of a host a command, and then a turn.
    pub fn command(&mut self, host: HostId, command: A::Command) -> Flow {
        let now = self.now();
        let flow = self.hosts[host.0 as usize].worker.command(now, command);
        self.turn(host.0);
        flow
    }

    /// Changes a host's endpoints or application, and gives it a turn.
    pub fn with<R>(&mut self, host: HostId, change: impl FnOnce(&mut Worker<SimPort, A>) -> R) -> R {
        let result = change(&mut self.hosts[host.0 as usize].worker);
        self.turn(host.0);
        result
    }

    /// The time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now / 1000)
    }

    /// Packets that have left a line so far, lost ones included.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether nothing will ever happen any more unless somebody is given a command.
    pub fn is_asleep(&self) -> bool {
        self.events.next_at().is_none()
    }

    /// Lets everything happen that is due before or at `until`; it is `until` then.
    pub fn run_until(&mut self, until: Instant) {
        let end = until.as_nanos().saturating_mul(1000);
        while self.events.next_at().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// Lets the next event happen; `false` when there is none: nobody will ever do anything more.
    pub fn step(&mut self) -> bool {
        let Some((at, what)) = self.events.pop() else { return false };
        self.now = at;
        match what {
            What::Departed(line) => self.departed(line),
            What::Arrived(line) => self.arrived(line),
            What::Released(line) => self.released(line),
            What::Wake(host) => {
                if self.hosts[host as usize].wake_at == at {
                    self.hosts[host as usize].wake_at = u64::MAX;
                    self.turn(host);
                }
            }
        }
        true
    }

    fn add_source(&mut self, from: PortRef, spec: LineSpec, target: Target) -> LineId {
        let line = self.push_line(spec, target);
        self.feed(from, line);
        line
    }

    fn push_line(&mut self, spec: LineSpec, target: Target) -> LineId {
        self.lines.push(Line::new(spec, target));
        LineId(self.lines.len() as u32 - 1)
    }

    /// One turn of a host's poll loop, or as many as it takes to read what has come.
    fn turn(&mut self, id: u32) {
        let now = self.now();
        loop {
            self.hosts[id as usize].worker.turn(now);
            let mut more = false;
            for endpoint in 0..self.hosts[id as usize].lines.len() {
                more |= self.collect(id, endpoint);
            }
            if !more {
                break;
            }
        }
        let host = &mut self.hosts[id as usize];
        if let Some(wake) = host.worker.next_wake() {
            let at = wake.as_nanos().saturating_mul(1000).max(self.now);
            if at < host.wake_at {
                host.wake_at = at;
                self.events.push(at, What::Wake(id));
            }
        }
    }

    /// Takes what an endpoint sent to its line; whether there is more for it to read.
    fn collect(&mut self, id: u32, endpoint: usize) -> bool {
        let line = self.hosts[id as usize].lines[endpoint];
        loop {
            let port = self.hosts[id as usize].worker.endpoints_mut()[endpoint].io_mut();
            let Some(frame) = port.outbox.pop_front() else { break };
            match line {
                Some(line) => self.offer(line, frame),
                None => self.pool.push(frame),
            }
        }
        let room = line.map_or(0, |l| AHEAD.saturating_sub(self.lines[l as usize].backlog()));
        let port = self.hosts[id as usize].worker.endpoints_mut()[endpoint].io_mut();
        port.room = room;
        while port.free.len() > KEPT {
            self.pool.extend(port.free.pop());
        }
        while port.free.len() < AHEAD {
            let Some(frame) = self.pool.pop() else { break };
            port.free.push(frame);
        }
        !port.inbox.is_empty()
    }

    /// A frame is to go over a line.
    fn offer(&mut self, id: u32, frame: SimFrame) {
        let line = &mut self.lines[id as usize];
        line.counters.offered += 1;
        if line.sending.is_none() {
            let at = self.now + line.time_of(&frame);
            line.sending = Some(frame);
            self.events.push(at, What::Departed(id));
        } else if line.source.is_none() && line.queued_bytes + frame.len() > line.spec.queue_bytes {
            line.counters.tail_dropped += 1;
            self.pool.push(frame);
        } else {
            line.queued_bytes += frame.len();
            line.counters.queue_peak = line.counters.queue_peak.max(line.queued_bytes);
            line.queue.push_back(frame);
        }
    }

    /// The frame that a line was sending has left; the next one's turn.
    fn departed(&mut self, id: u32) {
        self.packets += 1;
        let line = &mut self.lines[id as usize];
        let sent = line.sending.take();
        if let Some(frame) = line.queue.pop_front() {
            line.queued_bytes -= frame.len();
            let at = self.now + line.time_of(&frame);
            line.sending = Some(frame);
            self.events.push(at, What::Departed(id));
        }
        if let Some(frame) = sent {
            if self.lines[id as usize].impairment.is_some() {
                self.judge(id, frame);
            } else {
                self.fly(id, frame);
            }
        }
        if let Some((host, endpoint)) = self.lines[id as usize].source {
            let room = AHEAD - self.lines[id as usize].backlog().min(AHEAD);
            let port = self.hosts[host as usize].worker.endpoints_mut()[endpoint as usize].io_mut();
            port.room = room;
            if core::mem::take(&mut port.starved) {
                self.turn(host);
            }
        }
    }

    fn judge(&mut self, id: u32, mut frame: SimFrame) {
        let now = self.now();
        let line = &mut self.lines[id as usize];
        let Some(impairment) = &mut line.impairment else { return };
        let fate = impairment.judge(now, Frame::bytes(&frame));
        if fate.drop {
            line.counters.dropped += 1;
            self.pool.push(frame);
            return;
        }
        if fate.duplicate {
            line.counters.duplicated += 1;
            let mut copy = self.pool.pop().unwrap_or_else(|| SimFrame::new(self.max_frame));
            copy.copy_from(&frame);
            self.fly(id, copy);
        }
        if let Some(bit) = fate.flip {
            flip(frame.bytes_mut(), bit);
        }
        if fate.mark_ce {
            mark_ce(frame.bytes_mut());
        }
        self.lines[id as usize].held.passed(fate.stream);
        match fate.hold {
            Some(release) => self.lines[id as usize].held.hold(frame, fate.stream, release),
            None => self.fly(id, frame),
        }
        self.let_go(id);
    }

    /// Sends on what need not be held back any longer, and sees to the rest.
    fn let_go(&mut self, id: u32) {
        let now = self.now();
        while let Some(frame) = self.lines[id as usize].held.pop(now) {
            self.fly(id, frame);
        }
        let line = &mut self.lines[id as usize];
        if let Some(next) = line.held.next_at() {
            let at = next.as_nanos().saturating_mul(1000);
            if at < line.release_at {
                line.release_at = at;
                self.events.push(at, What::Released(id));
            }
        }
    }

    fn released(&mut self, id: u32) {
        if self.lines[id as usize].release_at == self.now {
            self.lines[id as usize].release_at = u64::MAX;
            self.let_go(id);
        }
    }

    /// A frame is on its way to the other end.
    fn fly(&mut self, id: u32, frame: SimFrame) {
        let line = &mut self.lines[id as usize];
        let at = self.now + line.delay_ps();
        if line.flying.is_empty() {
            self.events.push(at, What::Arrived(id));
        }
        line.flying.push_back((at, frame));
    }

    /// The oldest frame on a line has come to its end, and all that came with it.
    fn arrived(&mut self, id: u32) {
        let target = self.lines[id as usize].target;
        loop {
            let line = &mut self.lines[id as usize];
            match line.flying.front() {
                None => break,
                Some((at, _)) if *at > self.now => {
                    self.events.push(*at, What::Arrived(id));
                    break;
                }
                Some(_) => {}
            }
            let Some((_, frame)) = line.flying.pop_front() else { break };
            line.counters.delivered += 1;
            match target {
                Target::Line(next) => self.offer(next, frame),
                Target::Host(host, endpoint) => {
                    let endpoints = self.hosts[host as usize].worker.endpoints_mut();
                    endpoints[endpoint as usize].io_mut().inbox.push_back(frame);
                }
            }
        }
        if let Target::Host(host, _) = target {
            self.turn(host);
        }
    }
}
