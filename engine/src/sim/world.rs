//! Hosts, a network, and the order in which things happen.

use super::crossing::{Crossing, CrossingCounters};
use super::label::{FrameSizes, Labeller};
use super::port::{SimFrame, SimPort};
use crate::fabric::{Impairment, Label, Network, Occurrence, PortId, Station, mark_ce};
use crate::units::Instant;
use crate::wire::Gid;
use crate::worker::{Application, Flow, Worker};
use core::slice::from_ref;
use prefetch_index::prefetch_index;

/// Frames that a host puts into its port at a time.
const AHEAD: usize = 4;
/// Free frames that a port keeps; the others go to whoever needs them.
const KEPT: usize = 64;
/// What is set in the token of a wake that is for a crossing, not for a host.
const CROSSING: u32 = 1 << 31;

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
    /// By endpoint.
    stations: Vec<Option<Station>>,
    /// The pending wake, in picoseconds; others are out of date.
    wake_at: u64,
}

/// Everything that there is, at one moment.
#[derive(Debug)]
pub struct World<A> {
    net: Network<SimFrame>,
    hosts: Vec<Host<A>>,
    /// By station: host and endpoint.
    owners: Vec<Option<(u32, u32)>>,
    labeller: Labeller,
    /// By port of the network: what goes wrong on its cable.
    crossings: Vec<Option<Box<Crossing>>>,
    passed: Vec<(Label, SimFrame)>,
    pool: Vec<SimFrame>,
    /// Frames that a host puts into its port at a time.
    ahead: usize,
}

impl<A: Application<SimPort>> World<A> {
    /// A world without hosts around a network, at time zero.
    pub fn new(net: Network<SimFrame>) -> World<A> {
        World {
            owners: vec![None; net.stations()],
            net,
            hosts: Vec::new(),
            labeller: Labeller::new(),
            crossings: Vec::new(),
            passed: Vec::new(),
            pool: Vec::new(),
            ahead: AHEAD,
        }
    }

    /// Has hosts hand each frame to their port when it begins to leave, and not some at a time.
    pub fn send_one_by_one(&mut self) {
        self.ahead = 1;
    }

    /// Has frames be so long in the network, whatever they are.
    pub fn set_frame_sizes(&mut self, sizes: FrameSizes) {
        self.labeller.sizes = Some(sizes);
    }

    /// Has switches tell flows apart by the destination queue pair as well.
    pub fn hash_queue_pairs(&mut self) {
        self.labeller.by_qp = true;
    }

    /// Adds a host.
    pub fn add_host(&mut self, worker: Worker<SimPort, A>) -> HostId {
        let id = self.hosts.len() as u32;
        let stations = vec![None; worker.endpoints().len()];
        self.hosts.push(Host { worker, stations, wake_at: u64::MAX });
        HostId(id)
    }

    /// Joins a port to a station of the network; switches find it by `address`.
    pub fn attach(&mut self, port: PortRef, station: Station, address: Gid) {
        self.owners[station.0 as usize] = Some((port.host.0, port.endpoint));
        self.labeller.add(address, station);
        let host = &mut self.hosts[port.host.0 as usize];
        host.stations[port.endpoint as usize] = Some(station);
        host.worker.endpoints_mut()[port.endpoint as usize].io_mut().room = self.ahead;
    }

    /// Has the frames that leave the network's `port` judged at the end of its cable.
    pub fn impair(&mut self, port: PortId, impairment: Impairment) {
        self.net.watch_crossings(port);
        let index = port.index();
        if self.crossings.len() <= index {
            self.crossings.resize_with(index + 1, || None);
        }
        self.crossings[index] = Some(Box::new(Crossing::new(impairment)));
    }

    /// The judge of what leaves a port.
    pub fn impairment(&self, port: PortId) -> Option<&Impairment> {
        Some(&self.crossing(port)?.impairment)
    }

    /// What became of the frames that were judged; the second number is of those that are held back.
    pub fn judged(&self, port: PortId) -> (CrossingCounters, usize) {
        self.crossing(port).map_or_else(Default::default, |c| (c.counters, c.held()))
    }

    /// The network.
    pub fn net(&self) -> &Network<SimFrame> {
        &self.net
    }

    /// The network, to change its state from outside.
    pub fn net_mut(&mut self) -> &mut Network<SimFrame> {
        &mut self.net
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
        self.net.now()
    }

    /// Packets that have left a port of the network so far.
    pub fn packets(&self) -> u64 {
        self.net.totals().events
    }

    /// Whether nothing will ever happen any more unless somebody is given a command.
    pub fn is_asleep(&self) -> bool {
        self.net.is_asleep()
    }

    /// Lets everything happen that is due before or at `until`; it is `until` then.
    pub fn run_until(&mut self, until: Instant) {
        let end = until.as_nanos().saturating_mul(1000);
        while let Some(what) = self.next(end) {
            self.take(what);
        }
    }

    /// Lets the next thing happen; `false` when there is none: nobody will ever do anything more.
    pub fn step(&mut self) -> bool {
        match self.next(u64::MAX) {
            Some(what) => {
                self.take(what);
                true
            }
            None => false,
        }
    }

    /// What the network has to say next; hosts that will hear of something soon are looked at before.
    #[inline]
    fn next(&mut self, end_ps: u64) -> Option<Occurrence<SimFrame>> {
        let World { net, hosts, owners, .. } = self;
        net.next_foreseen(end_ps, |step, station, frame| {
            let Some((host, endpoint)) = owners[station.0 as usize] else { return };
            if step == 0 {
                prefetch_index(&*hosts, host as usize);
                prefetch_index(from_ref(&hosts[host as usize].wake_at), 0);
                if let Some(frame) = frame {
                    frame.fetch();
                }
            } else if let Some(endpoint) = hosts[host as usize].worker.endpoints().get(endpoint as usize) {
                endpoint.fetch(step - 1, frame.map(crate::io::Frame::bytes));
            }
        })
    }

    fn crossing(&self, port: PortId) -> Option<&Crossing> {
        self.crossings.get(port.index())?.as_deref()
    }

    #[inline]
    fn take(&mut self, what: Occurrence<SimFrame>) {
        match what {
            Occurrence::Arrived { station, label, freight } => self.arrived(station, label, freight),
            Occurrence::Sent { station } => self.sent(station),
            Occurrence::Crossing { port, label, freight } => self.judge(port, label, freight),
            Occurrence::Woken(token) if token & CROSSING != 0 => self.let_go(token & !CROSSING),
            Occurrence::Woken(host) => {
                let at = self.net.now_ps();
                if self.hosts[host as usize].wake_at == at {
                    self.hosts[host as usize].wake_at = u64::MAX;
                    self.turn(host);
                }
            }
        }
    }

    #[inline]
    fn arrived(&mut self, station: Station, label: Label, mut frame: SimFrame) {
        let Some((host, endpoint)) = self.owners[station.0 as usize] else { return self.pool.push(frame) };
        if label.ce {
            // Marked already, it stays as it is.
            mark_ce(frame.bytes_mut());
        }
        let endpoints = self.hosts[host as usize].worker.endpoints_mut();
        endpoints[endpoint as usize].io_mut().inbox.push_back(frame);
        self.turn(host);
    }

    #[inline]
    fn sent(&mut self, station: Station) {
        let Some((host, endpoint)) = self.owners[station.0 as usize] else { return };
        let room = self.room(station);
        let port = self.hosts[host as usize].worker.endpoints_mut()[endpoint as usize].io_mut();
        port.room = room;
        if core::mem::take(&mut port.starved) {
            self.turn(host);
        }
    }

    #[inline]
    fn room(&self, station: Station) -> usize {
        self.net.room(self.net.port_of(station), self.ahead)
    }

    /// One turn of a host's poll loop, or as many as it takes to read what has come.
    #[inline]
    fn turn(&mut self, id: u32) {
        let now = self.now();
        loop {
            self.hosts[id as usize].worker.turn(now);
            let mut more = false;
            for endpoint in 0..self.hosts[id as usize].stations.len() {
                more |= self.collect(id, endpoint);
            }
            if !more {
                break;
            }
        }
        let host = &mut self.hosts[id as usize];
        if let Some(wake) = host.worker.next_wake() {
            let at = wake.as_nanos().saturating_mul(1000).max(self.net.now_ps());
            if at < host.wake_at {
                host.wake_at = at;
                self.net.wake(at, id);
            }
        }
    }

    /// Takes what an endpoint sent to its port of the network; whether there is more for it to read.
    #[inline]
    fn collect(&mut self, id: u32, endpoint: usize) -> bool {
        let host = &mut self.hosts[id as usize];
        let station = host.stations[endpoint];
        let port = host.worker.endpoints_mut()[endpoint].io_mut();
        for frame in port.outbox.drain(..) {
            match station {
                Some(station) => {
                    let bytes = crate::io::Frame::bytes(&frame);
                    let label = self.labeller.label_from(station, bytes, frame.len());
                    self.net.send(station, label, frame);
                }
                None => self.pool.push(frame),
            }
        }
        port.room = station.map_or(0, |s| self.net.room(self.net.port_of(s), self.ahead));
        while port.free.len() > KEPT {
            self.pool.extend(port.free.pop());
        }
        while port.free.len() < AHEAD {
            let Some(frame) = self.pool.pop().or_else(|| self.net.reclaim()) else { break };
            port.free.push(frame);
        }
        !port.inbox.is_empty()
    }

    fn judge(&mut self, port: PortId, label: Label, frame: SimFrame) {
        let now = self.now();
        let Some(crossing) = self.crossings[port.index()].as_deref_mut() else { return };
        crossing.judge(now, label, frame, &mut self.passed, &mut self.pool);
        self.pass_on(port);
    }

    fn let_go(&mut self, index: u32) {
        let now = self.now();
        let at = self.net.now_ps();
        let Some(crossing) = self.crossings[index as usize].as_deref_mut() else { return };
        if crossing.release_at == at {
            crossing.release_at = u64::MAX;
            crossing.let_go(now, &mut self.passed);
            self.pass_on(PortId::of_index(index));
        }
    }

    /// Sends on what was judged, and sees to what is held back.
    fn pass_on(&mut self, port: PortId) {
        if let Some(crossing) = self.crossings[port.index()].as_deref_mut()
            && let Some(next) = crossing.next_at()
        {
            let at = next.as_nanos().saturating_mul(1000);
            if at < crossing.release_at {
                crossing.release_at = at.max(self.net.now_ps());
                self.net.wake(at, CROSSING | port.index() as u32);
            }
        }
        // Taken out, since what arrives may lead to anything.
        let mut passed = core::mem::take(&mut self.passed);
        for (label, frame) in passed.drain(..) {
            if let Some(Occurrence::Arrived { station, label, freight }) = self.net.go_on(port, label, frame)
            {
                self.arrived(station, label, freight);
            }
        }
        self.passed = passed;
    }
}
