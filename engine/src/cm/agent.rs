//! The state of all connections of an endpoint, from the first request to the end of time wait.

use super::mad::Mad;
use super::message::{
    Drep, Dreq, Message, Mra, MraOf, PrimaryPath, Rej, RejReason, Rep, Req, Rtu, Service, SidrRep, SidrReq,
};
use super::service::ServiceId;
use crate::units::{Duration, Instant, Mtu, Psn, Qpn};
use crate::wire::{DEFAULT_PKEY, Gid, MacAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long a peer is asked to be patient when it asks again for what is being thought about.
const SERVICE_TIMEOUT: u8 = 20;
/// What a peer is told that answers may take: 4.096 us x 2^20, 4.3 s.
const RESPONSE_TIMEOUT: u8 = 20;
/// LID of a port on Ethernet.
const ETHERNET_LID: u16 = 0xFFFF;

/// What an agent is made with.
#[derive(Clone, Copy, Debug)]
pub struct AgentConfig {
    /// The port's identifier, not 0: a peer takes two queue pairs of one number under it for one.
    pub guid: u64,
    /// Random bits: the names of connections begin there.
    pub secret: u64,
    /// How long an answer may take until a message is sent again.
    pub timeout: Duration,
    /// Times that a message is sent again, 0..=15.
    pub retries: u8,
    /// How long the name of an ended connection is remembered.
    pub time_wait: Duration,
    /// Connections at once, those in time wait included; more are refused.
    pub max_connections: usize,
}

/// A connection, by the name that this side gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(u32);

/// The other side, and the address at which it knows this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its MAC address, or that of the router before it.
    pub mac: MacAddr,
    /// Its GID.
    pub gid: Gid,
    /// This side's GID.
    pub own: Gid,
}

/// A datagram to send from QP 1 to QP 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// To whom.
    pub to: Peer,
    /// What.
    pub mad: Mad,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub struct Connect {
    /// Who is called.
    pub to: Peer,
    /// Which service.
    pub service: ServiceId,
    /// This side's queue pair.
    pub qpn: Qpn,
    /// The PSN at which the peer is to begin to send.
    pub psn: Psn,
    /// The path MTU.
    pub mtu: Mtu,
    /// READs and atomics of the peer's that this side has resources for.
    pub responder_resources: u8,
    /// READs and atomics that this side wants to have outstanding.
    pub initiator_depth: u8,
    /// Retries that the peer's queue pair is to use, 0..=7.
    pub retry_count: u8,
    /// RNR retries that the peer's queue pair is to use, 0..=7.
    pub rnr_retry: u8,
    /// Ack timeout exponent of both queue pairs, 0..=31.
    pub ack_timeout: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Private data.
    pub private: [u8; 92],
}

/// What an accepted call is answered with.
#[derive(Clone, Copy, Debug)]
pub struct Accept {
    /// This side's queue pair, which takes requests from now on.
    pub qpn: Qpn,
    /// The PSN at which the peer is to begin to send.
    pub psn: Psn,
    /// READs and atomics of the peer's that this side has resources for.
    pub responder_resources: u8,
    /// READs and atomics that this side may have outstanding.
    pub initiator_depth: u8,
    /// RNR retries that the peer's queue pair is to use, 0..=7.
    pub rnr_retry: u8,
    /// Private data.
    pub private: [u8; 196],
}

/// Why a call of the consumer's was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// As many connections exist as the agent is made for.
    #[error("no more than {0} connections at once")]
    TooMany(usize),
    /// There is no such connection, or it is in a state that has no such call.
    #[error("the connection is in no state for this")]
    State,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer calls: [`Agent::accept`] or [`Agent::reject`].
    Requested {
        /// The connection.
        id: CommId,
        /// Who calls.
        from: Peer,
        /// What for.
        req: Box<Req>,
    },
    /// A call is accepted: [`Agent::ready`] once the queue pair is in RTS.
    Replied {
        /// The connection.
        id: CommId,
        /// The answer.
        rep: Box<Rep>,
    },
    /// The caller of an accepted call is ready.
    Established {
        /// The connection.
        id: CommId,
    },
    /// The peer refuses; the connection is gone.
    Refused {
        /// The connection.
        id: CommId,
        /// Why.
        reason: RejReason,
    },
    /// The peer does not answer; the connection is gone.
    TimedOut {
        /// The connection.
        id: CommId,
    },
    /// The connection has ended, at this side's wish or at the peer's.
    Disconnected {
        /// The connection.
        id: CommId,
        /// Whether the peer wanted it.
        by_peer: bool,
    },
    /// A peer asks for the queue pair of a datagram service: [`Agent::reply_sidr`].
    SidrRequested {
        /// Who asks.
        from: Peer,
        /// The transaction.
        tid: u64,
        /// What for.
        req: Box<SidrReq>,
    },
    /// The answer to [`Agent::ask_sidr`].
    SidrReplied {
        /// The request.
        id: CommId,
        /// The answer.
        rep: SidrRep,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ReqSent,
    ReqReceived,
    RepSent,
    RepReceived,
    Established,
    DreqSent,
    TimeWait,
    SidrSent,
}

#[derive(Debug)]
struct Conn {
    state: State,
    peer: Peer,
    remote_id: u32,
    /// The peer's port and queue pair, where known.
    guid: u64,
    remote_qpn: Qpn,
    /// This side's queue pair.
    qpn: Qpn,
    /// Transaction of the request.
    tid: u64,
    /// What is sent again: on time, or when the peer repeats what it answers.
    last: Option<Mad>,
    tries: u8,
    deadline: Instant,
}

/// Connection management of one endpoint.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    conns: BTreeMap<u32, Conn>,
    timers: BTreeSet<(Instant, u32)>,
    next_id: u32,
    out: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

impl Agent {
    /// An agent without connections.
    pub fn new(config: AgentConfig) -> Agent {
        Agent {
            config,
            conns: BTreeMap::new(),
            timers: BTreeSet::new(),
            next_id: config.secret as u32 | 1,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Calls a service.
    ///
    /// # Errors
    /// [`CallError::TooMany`].
    pub fn connect(&mut self, now: Instant, call: &Connect) -> Result<CommId, CallError> {
        let id = self.new_id()?;
        let tid = self.tid(id);
        let req = Req {
            local_id: id,
            service: call.service,
            ca_guid: self.config.guid,
            qpn: call.qpn,
            responder_resources: call.responder_resources,
            initiator_depth: call.initiator_depth,
            remote_response_timeout: RESPONSE_TIMEOUT,
            transport: Service::Rc,
            flow_control: true,
            psn: call.psn,
            local_response_timeout: RESPONSE_TIMEOUT,
            retry_count: call.retry_count,
            pkey: DEFAULT_PKEY,
            mtu: call.mtu,
            rnr_retry: call.rnr_retry,
            max_cm_retries: self.config.retries,
            srq: false,
            path: PrimaryPath {
                lids: [ETHERNET_LID; 2],
                local: call.to.own,
                remote: call.to.gid,
                flow_label: 0,
                rate: 0,
                traffic_class: call.traffic_class,
                hop_limit: call.hop_limit,
                sl: 0,
                subnet_local: false,
                ack_timeout: call.ack_timeout,
            },
            private: call.private,
        };
        self.add(id, State::ReqSent, call.to, (0, 0, Qpn::new(0)), call.qpn, tid);
        self.send_timed(now, id, Message::Req(req).mad(tid));
        Ok(CommId(id))
    }

    /// Accepts a call: its queue pair is ready for requests.
    ///
    /// # Errors
    /// [`CallError::State`]: nobody called, or the caller has given up.
    pub fn accept(&mut self, now: Instant, id: CommId, accept: &Accept) -> Result<(), CallError> {
        let conn = self.conn(id, &[State::ReqReceived])?;
        conn.state = State::RepSent;
        conn.qpn = accept.qpn;
        let (remote_id, tid) = (conn.remote_id, conn.tid);
        let rep = Rep {
            local_id: id.0,
            remote_id,
            qkey: 0,
            qpn: accept.qpn,
            psn: accept.psn,
            responder_resources: accept.responder_resources,
            initiator_depth: accept.initiator_depth,
            ack_delay: 15,
            failover: 0,
            flow_control: true,
            rnr_retry: accept.rnr_retry,
            srq: false,
            ca_guid: self.config.guid,
            private: accept.private,
        };
        self.send_timed(now, id.0, Message::Rep(rep).mad(tid));
        Ok(())
    }

    /// Refuses a call, or an answer to a call of this side's; the connection is gone.
    ///
    /// # Errors
    /// [`CallError::State`].
    pub fn reject(&mut self, id: CommId, reason: RejReason) -> Result<(), CallError> {
        let conn = self.conn(id, &[State::ReqReceived, State::RepReceived])?;
        let of = if conn.state == State::ReqReceived { MraOf::Req } else { MraOf::Rep };
        let (peer, tid, remote_id) = (conn.peer, conn.tid, conn.remote_id);
        self.remove(id.0);
        self.refuse(peer, tid, (id.0, remote_id), of, reason);
        Ok(())
    }

    /// Tells the called side that this one is ready.
    ///
    /// # Errors
    /// [`CallError::State`].
    pub fn ready(&mut self, id: CommId) -> Result<(), CallError> {
        let conn = self.conn(id, &[State::RepReceived])?;
        conn.state = State::Established;
        let rtu = Message::Rtu(Rtu { local_id: id.0, remote_id: conn.remote_id }).mad(conn.tid);
        conn.last = Some(rtu);
        let to = conn.peer;
        self.out.push_back(Outgoing { to, mad: rtu });
        Ok(())
    }

    /// The first packet of the caller came: it is ready, whatever became of its word.
    pub fn traffic_came(&mut self, id: CommId) {
        if let Ok(conn) = self.conn(id, &[State::RepSent]) {
            conn.state = State::Established;
            conn.last = None;
            self.arm(id.0, Instant::FAR);
            self.events.push_back(Event::Established { id });
        }
    }

    /// Ends a connection.
    ///
    /// # Errors
    /// [`CallError::State`]: it is not established, or about to be.
    pub fn disconnect(&mut self, now: Instant, id: CommId) -> Result<(), CallError> {
        let conn = self.conn(id, &[State::Established, State::RepSent, State::RepReceived])?;
        conn.state = State::DreqSent;
        conn.tid = conn.tid.wrapping_add(1 << 32);
        let dreq = Dreq { local_id: id.0, remote_id: conn.remote_id, qpn: conn.remote_qpn };
        let tid = conn.tid;
        self.send_timed(now, id.0, Message::Dreq(dreq).mad(tid));
        Ok(())
    }

    /// Asks for the queue pair of a datagram service.
    ///
    /// # Errors
    /// [`CallError::TooMany`].
    pub fn ask_sidr(
        &mut self,
        now: Instant,
        to: Peer,
        service: ServiceId,
        private: [u8; 92],
    ) -> Result<CommId, CallError> {
        let id = self.new_id()?;
        let tid = self.tid(id);
        self.add(id, State::SidrSent, to, (0, 0, Qpn::new(0)), Qpn::new(0), tid);
        let req = SidrReq { request_id: id, pkey: DEFAULT_PKEY, service, private };
        self.send_timed(now, id, Message::SidrReq(req).mad(tid));
        Ok(CommId(id))
    }

    /// Answers a request for the queue pair of a datagram service.
    pub fn reply_sidr(&mut self, to: Peer, tid: u64, rep: SidrRep) {
        self.out.push_back(Outgoing { to, mad: Message::SidrRep(rep).mad(tid) });
    }

    /// Takes a message that came to QP 1 from `from`.
    pub fn on_message(&mut self, now: Instant, from: Peer, tid: u64, message: &Message) {
        match message {
            Message::Req(m) => self.on_req(now, from, tid, m),
            Message::Rep(m) => self.on_rep(from, tid, m),
            Message::Rtu(m) => {
                if self.matches(m.remote_id, m.local_id, from) {
                    self.traffic_came(CommId(m.remote_id));
                }
            }
            Message::Mra(m) => self.on_mra(now, from, m),
            Message::Rej(m) => self.on_rej(from, m),
            Message::Dreq(m) => self.on_dreq(now, from, tid, m),
            Message::Drep(m) => {
                let ours = self.matches(m.remote_id, m.local_id, from);
                if ours && self.state(m.remote_id) == Some(State::DreqSent) {
                    self.end(now, m.remote_id, false);
                }
            }
            Message::SidrReq(req) => {
                self.events.push_back(Event::SidrRequested { from, tid, req: Box::new(*req) });
            }
            Message::SidrRep(rep) => {
                if self.state(rep.request_id) == Some(State::SidrSent) {
                    self.remove(rep.request_id);
                    self.events.push_back(Event::SidrReplied { id: CommId(rep.request_id), rep: *rep });
                }
            }
        }
    }

    /// Does what is due at `now`.
    pub fn on_deadline(&mut self, now: Instant) {
        while let Some((at, id)) = self.timers.first().copied() {
            if at > now {
                return;
            }
            self.arm(id, Instant::FAR);
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            match (conn.state, conn.last) {
                (State::TimeWait, _) => self.remove(id),
                (_, Some(mad)) if conn.tries < self.config.retries => {
                    conn.tries += 1;
                    let to = conn.peer;
                    self.out.push_back(Outgoing { to, mad });
                    self.arm(id, now + self.config.timeout);
                }
                (State::DreqSent, _) => self.end(now, id, false),
                (state, _) => {
                    let (peer, tid, names) = (conn.peer, conn.tid, (id, conn.remote_id));
                    self.remove(id);
                    if state == State::RepSent {
                        self.refuse(peer, tid, names, MraOf::Other, RejReason::TIMEOUT);
                    }
                    self.events.push_back(Event::TimedOut { id: CommId(id) });
                }
            }
        }
    }

    /// When [`Agent::on_deadline`] is wanted next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next datagram to send.
    #[inline]
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// What happened next.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Connections, those in time wait included.
    pub fn len(&self) -> usize {
        self.conns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    fn on_req(&mut self, now: Instant, from: Peer, tid: u64, req: &Req) {
        let known = self.conns.iter().find(|(_, c)| c.remote_id == req.local_id && c.guid == req.ca_guid);
        if let Some((id, conn)) = known {
            // A duplicate: what answered it, if anything did, may have been lost.
            let answer = match (conn.state, conn.last) {
                (State::RepSent, Some(rep)) => rep,
                (State::ReqReceived, _) => {
                    let mra = Mra {
                        local_id: *id,
                        remote_id: conn.remote_id,
                        of: MraOf::Req,
                        service_timeout: SERVICE_TIMEOUT,
                    };
                    Message::Mra(mra).mad(tid)
                }
                _ => return,
            };
            self.out.push_back(Outgoing { to: from, mad: answer });
            return;
        }
        let refuse =
            |agent: &mut Agent, reason| agent.refuse(from, tid, (0, req.local_id), MraOf::Req, reason);
        if req.path.remote != from.own || req.path.local != from.gid {
            return refuse(self, RejReason::INVALID_GID);
        }
        let twin = self.conns.iter().find(|(_, c)| {
            c.guid == req.ca_guid && c.remote_qpn == req.qpn && !matches!(c.state, State::TimeWait)
        });
        if let Some((&old, _)) = twin {
            // The peer has forgotten a connection of this queue pair.
            self.end(now, old, true);
            return refuse(self, RejReason::STALE);
        }
        match self.new_id() {
            Ok(id) => {
                let theirs = (req.local_id, req.ca_guid, req.qpn);
                self.add(id, State::ReqReceived, from, theirs, Qpn::new(0), tid);
                self.events.push_back(Event::Requested { id: CommId(id), from, req: Box::new(*req) });
            }
            Err(_) => refuse(self, RejReason::NO_RESOURCES),
        }
    }

    fn on_rep(&mut self, from: Peer, tid: u64, rep: &Rep) {
        let Some(conn) = self.conns.get_mut(&rep.remote_id).filter(|c| c.peer.gid == from.gid) else {
            let names = (0, rep.local_id);
            return self.refuse(from, tid, names, MraOf::Rep, RejReason::INVALID_COMM_ID);
        };
        match conn.state {
            State::ReqSent => {
                conn.state = State::RepReceived;
                conn.remote_id = rep.local_id;
                conn.guid = rep.ca_guid;
                conn.remote_qpn = rep.qpn;
                conn.last = None;
                self.arm(rep.remote_id, Instant::FAR);
                self.events.push_back(Event::Replied { id: CommId(rep.remote_id), rep: Box::new(*rep) });
            }
            State::Established if conn.remote_id == rep.local_id => {
                // The RTU was lost.
                let to = conn.peer;
                self.out.extend(conn.last.map(|mad| Outgoing { to, mad }));
            }
            _ => {}
        }
    }

    fn on_mra(&mut self, now: Instant, from: Peer, mra: &Mra) {
        let Some(conn) = self.conns.get_mut(&mra.remote_id).filter(|c| c.peer.gid == from.gid) else {
            return;
        };
        let waits = matches!(
            (conn.state, mra.of),
            (State::ReqSent, MraOf::Req) | (State::RepSent, MraOf::Rep) | (State::DreqSent, MraOf::Other)
        );
        if waits {
            let more = Duration::from_nanos(4096u64 << mra.service_timeout.min(31));
            self.arm(mra.remote_id, now + more + self.config.timeout);
        }
    }

    fn on_rej(&mut self, from: Peer, rej: &Rej) {
        let Some(conn) = self.conns.get(&rej.remote_id).filter(|c| c.peer.gid == from.gid) else { return };
        let expected = match rej.of {
            MraOf::Req => conn.state == State::ReqSent,
            MraOf::Rep => matches!(conn.state, State::RepSent),
            MraOf::Other => matches!(conn.state, State::ReqSent | State::RepSent | State::RepReceived),
        };
        if expected {
            self.remove(rej.remote_id);
            self.events.push_back(Event::Refused { id: CommId(rej.remote_id), reason: rej.reason });
        }
    }

    fn on_dreq(&mut self, now: Instant, from: Peer, tid: u64, dreq: &Dreq) {
        let id = dreq.remote_id;
        if self.matches(id, dreq.local_id, from) {
            if self.conns[&id].qpn != dreq.qpn {
                return;
            }
            let live = [State::Established, State::RepSent, State::RepReceived, State::DreqSent];
            if self.state(id).is_some_and(|s| live.contains(&s)) {
                self.end(now, id, true);
            }
        }
        // One that nobody knows is answered too: its connection has ended long since.
        let drep = Drep { local_id: id, remote_id: dreq.local_id };
        self.out.push_back(Outgoing { to: from, mad: Message::Drep(drep).mad(tid) });
    }

    /// The connection goes to time wait.
    fn end(&mut self, now: Instant, id: u32, by_peer: bool) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.state = State::TimeWait;
        conn.last = None;
        self.arm(id, now + self.config.time_wait);
        self.events.push_back(Event::Disconnected { id: CommId(id), by_peer });
    }

    fn refuse(&mut self, to: Peer, tid: u64, names: (u32, u32), of: MraOf, reason: RejReason) {
        let rej = Rej { local_id: names.0, remote_id: names.1, of, reason, private: [0; 148] };
        self.out.push_back(Outgoing { to, mad: Message::Rej(rej).mad(tid) });
    }

    fn send_timed(&mut self, now: Instant, id: u32, mad: Mad) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.last = Some(mad);
        conn.tries = 0;
        let to = conn.peer;
        self.out.push_back(Outgoing { to, mad });
        self.arm(id, now + self.config.timeout);
    }

    fn arm(&mut self, id: u32, at: Instant) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        self.timers.remove(&(conn.deadline, id));
        conn.deadline = at;
        if at != Instant::FAR {
            self.timers.insert((at, id));
        }
    }

    fn add(
        &mut self,
        id: u32,
        state: State,
        peer: Peer,
        (remote_id, guid, remote_qpn): (u32, u64, Qpn),
        qpn: Qpn,
        tid: u64,
    ) {
        let deadline = Instant::FAR;
        let conn =
            Conn { state, peer, remote_id, guid, remote_qpn, qpn, tid, last: None, tries: 0, deadline };
        self.conns.insert(id, conn);
    }

    fn remove(&mut self, id: u32) {
        self.arm(id, Instant::FAR);
        self.conns.remove(&id);
    }

    fn new_id(&mut self) -> Result<u32, CallError> {
        if self.conns.len() >= self.config.max_connections {
            return Err(CallError::TooMany(self.config.max_connections));
        }
        loop {
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            // 0 is nobody's name.
            if id != 0 && !self.conns.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    fn tid(&self, id: u32) -> u64 {
        self.config.secret & !0xFFFF_FFFF | u64::from(id)
    }

    fn state(&self, id: u32) -> Option<State> {
        self.conns.get(&id).map(|c| c.state)
    }

    fn matches(&self, id: u32, remote_id: u32, from: Peer) -> bool {
        self.conns.get(&id).is_some_and(|c| c.remote_id == remote_id && c.peer.gid == from.gid)
    }

    fn conn(&mut self, id: CommId, states: &[State]) -> Result<&mut Conn, CallError> {
        self.conns.get_mut(&id.0).filter(|c| states.contains(&c.state)).ok_or(CallError::State)
    }
}
