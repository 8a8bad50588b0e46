//! One port that this thread drives itself, turn by turn: for what talks to programs that are not
//! rocegen, where each step waits for the peer's.
//!
//! The words are those of verbs: make queue pairs, post, take completions.  Between any two of them
//! the caller turns the station, and so answers what the peer sends in the meantime.

mod args;
mod manager;
mod open;

pub use args::{NeighbourArg, StationArgs, parse_mtu};
pub use manager::{Answer, Call, Manager};
pub(crate) use open::on_port;
pub use open::{Opened, open};

use crate::run::EnvironmentError;
use crate::run::signal::Signals;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::net::{Host, Resolution};
use roce_engine::transport::{QpConfig, QueuePair, Recovery};
use roce_engine::units::{Duration, Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::{
    Access, Ah, Completion, CqEntry, InitAttrs, MemoryRegion, Pd, QpEvent, QpType, RtrAttrs, RtsAttrs,
    Transition, UdAttrs,
};
use roce_engine::wire::{DEFAULT_PKEY, Gid, MacAddr, Route, Vlan, source_port};
use roce_engine::worker::{Application, Endpoint, EndpointCounters, Flow, Load, Worker};
use std::collections::VecDeque;
use std::net::IpAddr;

/// A receiver that is not ready is asked to be tried again after 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;
/// After so long without anything to do, the thread sleeps between turns.
const AWAKE: Duration = Duration::from_millis(2);
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

/// A port, its endpoint, and what has completed there.
#[derive(Debug)]
pub struct Station<I: PacketIo, C> {
    worker: Worker<I, Inbox>,
    clock: C,
    now: Instant,
    worked: Instant,
    random: u64,
    signals: Option<Signals>,
}

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct QpShape {
    /// Its protection domain.
    pub pd: Pd,
    /// Send requests that may be outstanding.
    pub sends: u32,
    /// Receive requests that may be posted.
    pub receives: u32,
    /// Packets that may be unacknowledged.
    pub window: u32,
}

/// What a queue pair for datagrams is made with.
#[derive(Clone, Copy, Debug)]
pub struct UdShape {
    /// Its protection domain.
    pub pd: Pd,
    /// GID of this side.
    pub own: Gid,
    /// The longest message.
    pub mtu: Mtu,
    /// What senders must know.
    pub qkey: u32,
    /// Send requests that may be outstanding.
    pub sends: u32,
    /// Receive requests that may be posted.
    pub receives: u32,
}

/// How a queue pair is connected.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// MAC address of the peer, or of the router before it.
    pub mac: MacAddr,
    /// GID of this side.
    pub own: Gid,
    /// GID of the peer.
    pub peer: Gid,
    /// The path MTU.
    pub mtu: Mtu,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The PSN of the peer's first request.
    pub rq_psn: Psn,
    /// The PSN of this side's first request.
    pub sq_psn: Psn,
    /// READs and atomics outstanding: those of the peer's, and those of this side.
    pub rd_atomic: [u8; 2],
    /// Traffic class.
    pub tos: u8,
    /// Ack timeout exponent.
    pub timeout: u8,
    /// Retries, and RNR retries; 7 of the latter are without end.
    pub retries: [u8; 2],
}

/// Keeps completions until they are taken.
#[derive(Debug, Default)]
struct Inbox(VecDeque<CqEntry>);

/// Nobody commands it.
#[derive(Clone, Copy, Debug)]
pub enum NoCommand {}

impl<I: PacketIo, C: Clock> Station<I, C> {
    /// A station on one endpoint, which is a host with addresses.
    pub fn new(mut endpoint: Endpoint<I>, host: Host, clock: C, seed: u64) -> Station<I, C> {
        endpoint.set_host(host);
        Station::on(endpoint, clock, seed)
    }

    /// A station on an endpoint that is a host already.
    pub fn on(endpoint: Endpoint<I>, clock: C, seed: u64) -> Station<I, C> {
        let worker = Worker::new(vec![endpoint], Inbox::default());
        Station { worker, clock, now: Instant::ZERO, worked: Instant::ZERO, random: seed, signals: None }
    }

    /// Waits are given up when the user interrupts.
    pub(crate) fn heed(&mut self, signals: &Signals) {
        self.signals = Some(signals.clone());
    }

    /// Whether the user has had enough.
    pub fn is_interrupted(&self) -> bool {
        self.signals.as_ref().is_some_and(Signals::interrupted)
    }

    /// The endpoint, for somebody else to drive.
    pub fn into_endpoint(self) -> Option<Endpoint<I>> {
        self.worker.into_endpoints().pop()
    }

    /// One turn of the poll loop; the time.
    pub fn turn(&mut self) -> Instant {
        self.now = self.clock.now();
        if self.worker.turn(self.now) {
            self.worked = self.now;
        }
        self.now
    }

    /// One turn; the thread sleeps a little when nothing has happened for a while.
    pub fn idle_turn(&mut self) -> Instant {
        let now = self.turn();
        if now.since(self.worked) > AWAKE {
            std::thread::sleep(NAP);
        }
        now
    }

    /// The time of the last turn.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What has completed or happened, oldest first.
    pub fn pop(&mut self) -> Option<CqEntry> {
        self.worker.parts_mut().0.0.pop_front()
    }

    /// What has completed or happened on one queue pair; what belongs to others stays.
    pub fn pop_of(&mut self, qpn: Qpn) -> Option<CqEntry> {
        let inbox = &mut self.worker.parts_mut().0.0;
        let at = inbox.iter().position(|entry| match entry {
            CqEntry::Completion(done) => done.qpn == qpn,
            CqEntry::Event(of, _) => *of == qpn,
        })?;
        inbox.remove(at)
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut Endpoint<I> {
        &mut self.worker.endpoints_mut()[0]
    }

    /// A queue pair.
    pub fn qp(&self, qpn: Qpn) -> Option<&QueuePair> {
        self.worker.endpoints()[0].qp(qpn)
    }

    /// What it counted.
    pub fn counters(&self) -> &EndpointCounters {
        self.worker.endpoints()[0].counters()
    }

    /// The host.
    pub fn host(&mut self) -> &mut Host {
        self.endpoint().host_mut().expect("a station is made with a host")
    }

    /// 64 random bits.
    pub fn random(&mut self) -> u64 {
        let mut random = crate::random::Random::new(self.random);
        self.random = random.next();
        self.random
    }

    /// A random first PSN.
    pub fn random_psn(&mut self) -> Psn {
        Psn::new(self.random() as u32)
    }

    /// Registers `len` bytes for all uses.
    ///
    /// # Errors
    /// There is no memory.
    pub fn register(&mut self, pd: Pd, len: usize) -> Result<MemoryRegion, EnvironmentError> {
        let region = self.endpoint().memory_mut().register(pd, len, Access::ALL);
        region.map_err(|e| EnvironmentError(e.to_string()))
    }

    /// A reliable queue pair in INIT, to which receive requests may be posted.
    ///
    /// # Errors
    /// There are too many.
    pub fn create_qp(&mut self, shape: &QpShape) -> Result<Qpn, EnvironmentError> {
        let config = QpConfig {
            qpn: Qpn::new(0),
            ty: QpType::Rc,
            pd: shape.pd,
            max_send_wr: shape.sends,
            max_recv_wr: shape.receives,
            window: shape.window,
            ack_interval: 16,
            srq: None,
            // Linux's software device gives none and takes none.
            credits: false,
            recovery: Recovery::GoBackN,
        };
        let qpn = self.endpoint().create_qp(config).map_err(|e| EnvironmentError(e.to_string()))?;
        let init = Transition::Init(InitAttrs { access: Access::ALL, pkey: DEFAULT_PKEY });
        self.modify(qpn, init)?;
        Ok(qpn)
    }

    /// A queue pair for datagrams, in RTS.
    ///
    /// # Errors
    /// There are too many.
    pub fn create_ud(&mut self, shape: &UdShape) -> Result<Qpn, EnvironmentError> {
        let config = QpConfig {
            qpn: Qpn::new(0),
            ty: QpType::Ud,
            pd: shape.pd,
            max_send_wr: shape.sends,
            max_recv_wr: shape.receives,
            window: 1,
            ack_interval: 1,
            srq: None,
            credits: false,
            recovery: Recovery::GoBackN,
        };
        let qpn = self.endpoint().create_qp(config).map_err(|e| EnvironmentError(e.to_string()))?;
        let attrs = UdAttrs { pkey: DEFAULT_PKEY, qkey: shape.qkey, own: shape.own, mtu: shape.mtu };
        let psn = self.random_psn();
        for step in [Transition::InitUd(attrs), Transition::RtrUd, Transition::RtsUd(psn)] {
            self.modify(qpn, step)?;
        }
        Ok(qpn)
    }

    /// How datagrams of a queue pair reach a host: MAC address, own GID, the host's GID.
    ///
    /// # Errors
    /// It is no queue pair for datagrams.
    pub fn handle(&mut self, qpn: Qpn, to: (MacAddr, Gid, Gid)) -> Result<Ah, EnvironmentError> {
        let route = self.route(to, 0, source_port(qpn, qpn, 0));
        let ah = self.endpoint().create_ah(qpn, &route);
        ah.ok_or_else(|| EnvironmentError(format!("queue pair {qpn} sends no datagrams")))
    }

    /// Makes a handle lead elsewhere.
    ///
    /// # Errors
    /// There is no such one.
    pub fn set_handle(&mut self, qpn: Qpn, ah: Ah, to: (MacAddr, Gid, Gid)) -> Result<(), EnvironmentError> {
        let route = self.route(to, 0, source_port(qpn, qpn, 0));
        match self.endpoint().qp_mut(qpn).is_some_and(|qp| qp.modify_ah(ah, &route)) {
            true => Ok(()),
            false => Err(EnvironmentError(format!("queue pair {qpn} has no such handle"))),
        }
    }

    fn route(&mut self, (mac, own, peer): (MacAddr, Gid, Gid), tos: u8, sport: u16) -> Route {
        let (src_mac, vlan) = (self.host().mac(), self.host().tag());
        let vlan = vlan.map(|tag| Vlan { pcp: 0, ..tag });
        Route { src_mac, dst_mac: mac, vlan, src: own, dst: peer, tos, hop_limit: 64, flow_label: 0, sport }
    }

    /// Takes a queue pair from INIT to RTS.
    ///
    /// # Errors
    /// An attribute is out of its range.
    pub fn connect(&mut self, qpn: Qpn, link: &Link) -> Result<(), EnvironmentError> {
        let sport = source_port(qpn, link.dest_qpn, 0);
        let route = self.route((link.mac, link.own, link.peer), link.tos, sport);
        let rtr = RtrAttrs {
            route,
            mtu: link.mtu,
            dest_qpn: link.dest_qpn,
            rq_psn: link.rq_psn,
            max_dest_rd_atomic: link.rd_atomic[0],
            min_rnr_timer: MIN_RNR_TIMER,
        };
        let rts = RtsAttrs {
            sq_psn: link.sq_psn,
            timeout: link.timeout,
            retry_cnt: link.retries[0],
            rnr_retry: link.retries[1],
            max_rd_atomic: link.rd_atomic[1],
        };
        self.modify(qpn, Transition::Rtr(Box::new(rtr)))?;
        self.modify(qpn, Transition::Rts(rts))
    }

    /// The MAC address that leads to `ip`, asked for if need be.
    ///
    /// # Errors
    /// Nobody answers, or no route leads there.
    pub fn resolve(&mut self, ip: IpAddr) -> Result<MacAddr, EnvironmentError> {
        loop {
            let now = self.turn();
            match self.host().resolve(now, ip) {
                Resolution::Known(mac) => return Ok(mac),
                Resolution::Asked if self.is_interrupted() => {
                    return Err(EnvironmentError(format!("interrupted while asking for {ip}")));
                }
                Resolution::Asked => {}
                Resolution::Absent => {
                    let own = self.host().addresses().iter().map(ToString::to_string).collect::<Vec<_>>();
                    let what = match self.host().next_hop(ip).filter(|hop| *hop != ip) {
                        Some(router) => format!("the router {router} to {ip} does not answer"),
                        None => format!("no neighbour answers for {ip}"),
                    };
                    return Err(EnvironmentError(format!(
                        "{what} (own addresses: {}); is it in the subnet, is the cable right, does it need a gateway, or a \
                         neighbour {ip}=MAC that is not asked?",
                        own.join(", ")
                    )));
                }
            }
        }
    }

    fn modify(&mut self, qpn: Qpn, transition: Transition) -> Result<(), EnvironmentError> {
        match self.endpoint().modify_qp(qpn, transition) {
            Some(Ok(())) => Ok(()),
            Some(Err(e)) => Err(EnvironmentError(format!("queue pair {qpn}: {e}"))),
            None => Err(EnvironmentError(format!("there is no queue pair {qpn}"))),
        }
    }
}

impl<I: PacketIo> Application<I> for Inbox {
    type Command = NoCommand;

    fn on_command(&mut self, _: Instant, _: &mut [Endpoint<I>], _: &Load, command: NoCommand) -> Flow {
        match command {}
    }

    fn on_completion(&mut self, _: Instant, _: usize, _: &mut Endpoint<I>, done: &Completion) {
        self.0.push_back(CqEntry::Completion(*done));
    }

    fn on_event(&mut self, _: Instant, _: usize, _: &mut Endpoint<I>, qpn: Qpn, event: QpEvent) {
        self.0.push_back(CqEntry::Event(qpn, event));
    }

    fn on_turn(&mut self, _: Instant, _: &mut [Endpoint<I>]) -> bool {
        false
    }
}
