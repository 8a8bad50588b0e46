//! The queue pair: state, the five calls, and what every packet must satisfy.

use super::credits::Advertised;
use super::requester::{Requester, Wqe};
use super::responder::Responder;
use super::uc::UcReceiver;
use super::ud::{self, Datagrams};
use super::{QpCounters, StageLog};
use crate::cc::{Gaps, Mark, NotificationConfig, Pacer, RateControl};
use crate::units::{Instant, Mtu, Psn, Qpn};
use crate::verbs::{
    Access, Ah, Completion, CompletionStatus, Completions, InitAttrs, Memory, ModifyError, Pd, PostError,
    QpEvent, QpState, QpType, RecvWr, Ring, RtrAttrs, RtsAttrs, SendOp, SendWr, Srqn, Transition, UdAttrs,
    WcOpcode,
};
use crate::wire::{Class, DropReason, Ecn, Gid, Kind, L1_OVERHEAD, MacAddr, Packet, Route, Slot, Template};
use core::slice::from_ref;
use prefetch_index::prefetch_index;

/// What a queue pair is made with; it does not change in its life.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// Its number.
    pub qpn: Qpn,
    /// Its transport service.
    pub ty: QpType,
    /// Its protection domain.
    pub pd: Pd,
    /// Send requests that may be outstanding.
    pub max_send_wr: u32,
    /// Receive requests that may be posted; none with a shared receive queue.
    pub max_recv_wr: u32,
    /// The shared receive queue that it takes receive requests from.
    pub srq: Option<Srqn>,
    /// End-to-end credits: ACKs tell the peer how many receive requests wait, and no more messages
    /// start than the peer has told to have receive requests for.  RC only; with a shared receive
    /// queue nothing is told.
    pub credits: bool,
    /// Packets that may be unacknowledged, 1 ..= 2^22; 1 ..= [`Recovery::MAX_WINDOW`] where packets
    /// are kept out of order.
    pub window: u32,
    /// The responder acknowledges after at most this many packets, 1 ..= 2^22;
    /// a packet that asks is answered at once.
    pub ack_interval: u32,
    /// How what is lost is sent again.
    pub recovery: Recovery,
}

/// How what is lost is sent again.  Both ends of a connection must have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Everything from the lost packet on: what every RoCE peer understands.
    #[default]
    GoBackN,
    /// Only what is missing, in the manner of IRN: understood by queue pairs of this crate.
    SelectiveRepeat {
        /// The timer where at most [`Recovery::FEW`] packets are unacknowledged, as a code like
        /// [`RtsAttrs::timeout`](crate::verbs::RtsAttrs::timeout); 0 takes that one.
        low_timeout: u8,
    },
}

impl Recovery {
    /// The largest window of selective repeat: the receiving side has room for so many packets.
    pub const MAX_WINDOW: u32 = 1 << 16;
    /// The most unacknowledged packets that the short timer of selective repeat guards.
    pub const FEW: u32 = 3;

    pub(super) fn is_selective(self) -> bool {
        self != Recovery::GoBackN
    }
}

/// What became of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It moved the connection: a new request executed, a response taken.
    Delivered,
    /// It moved nothing and is answered: a NAK, an ACK or data for a duplicate.
    Answered,
    /// It moved nothing and is not answered.
    Dropped(DropReason),
}

/// What [`QueuePair::poll_transmit`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// It wrote a frame.
    Sent(Sent),
    /// It has something that may not leave before this instant.
    Wait(Instant),
    /// It has nothing to send.
    Idle,
}

/// Why a queue pair that was asked for a packet had none to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Hold {
    /// Nothing is posted that has not left.
    Nothing,
    /// As many packets are unacknowledged as may be.
    Window,
    /// As many READs and atomics are outstanding as may be.
    Reads,
    /// A fenced request waits for READs and atomics.
    Fence,
    /// The peer said that it was not ready.
    Rnr,
    /// The peer has told of no receive request for the next message.
    Credits,
    /// The pacer.
    Pacing,
    /// Congestion control.
    RateControl,
}

impl Hold {
    /// All of them.
    pub const ALL: [Hold; 8] = [
        Hold::Nothing,
        Hold::Window,
        Hold::Reads,
        Hold::Fence,
        Hold::Rnr,
        Hold::Credits,
        Hold::Pacing,
        Hold::RateControl,
    ];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Hold::Nothing => "nothing_posted",
            Hold::Window => "window_full",
            Hold::Reads => "max_rd_atomic",
            Hold::Fence => "fence",
            Hold::Rnr => "rnr_timer",
            Hold::Credits => "no_credits",
            Hold::Pacing => "pacing",
            Hold::RateControl => "rate_control",
        }
    }
}

/// A frame that [`QueuePair::poll_transmit`] wrote.
///
/// In one word, which goes through registers: several fields would go through memory, and whoever reads
/// them together there waits until each has been stored, behind all that was stored into the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent(u64);

#[allow(clippy::len_without_is_empty, reason = "no frame is empty")]
impl Sent {
    #[inline(always)]
    pub(super) fn new(len: usize, payload: u32, psn: Psn) -> Sent {
        debug_assert!(len < 1 << 16 && payload < 1 << 16);
        Sent(u64::from(psn.get()) << 32 | u64::from(payload) << 16 | len as u64)
    }

    /// Bytes of the frame.
    #[inline(always)]
    pub fn len(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    /// Bytes of payload in it.
    #[inline(always)]
    pub fn payload(self) -> u32 {
        (self.0 >> 16) as u32 & 0xFFFF
    }

    /// Its PSN.
    #[inline(always)]
    pub fn psn(self) -> Psn {
        Psn::new((self.0 >> 32) as u32)
    }
}

/// The facts of the connection that both halves use.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) qpn: Qpn,
    pub(super) pd: Pd,
    pub(super) mtu: Mtu,
    pub(super) access: Access,
    pub(super) unreliable: bool,
    /// Of a datagram queue pair.
    pub(super) datagrams: Option<Box<Datagrams>>,
    pub(super) advertised: Advertised,
    /// The headers to the peer; a datagram queue pair has none and takes those of address handles.
    pub(super) template: Template,
    pub(super) counters: QpCounters,
    pub(super) stages: StageLog,
}

/// A queue pair.  It shares no cache line with another one, and takes no more of them than it must.
#[derive(Debug)]
#[repr(align(64))]
pub struct QueuePair {
    state: QpState,
    ty: QpType,
    pkey: u16,
    own: Gid,
    peer: Gid,
    dest_qpn: Qpn,
    established: bool,
    rocev1: bool,
    /// Requests and responses take turns when both wait.
    respond_next: bool,
    /// A reason for a CNP that nobody has asked for yet.
    mark: Option<Mark>,
    /// CNPs to send, with this TOS and this priority.
    cnps: u32,
    cnp_tos: u8,
    cnp_pcp: u8,
    conn: Option<Conn>,
    requester: Requester,
    responder: Responder,
    /// Of an unreliable connection.
    uc: Option<Box<UcReceiver>>,
    pub(super) rq: Ring<RecvWr>,
    /// What was counted before the last RESET.
    counters_before: Option<Box<QpCounters>>,
    stages: StageLog,
    config: QpConfig,
    init: InitAttrs,
}

/// A queue pair is in one piece and in few cache lines; its queues and what only some have lie
/// elsewhere.
const _: () = {
    assert!(size_of::<QueuePair>() <= 1216, "a queue pair without its queues");
    assert!(size_of::<Option<Wqe>>() <= 88, "a send request");
    assert!(size_of::<RecvWr>() <= 24, "a receive request");
    assert!(size_of::<Template>() <= 2 * 64, "the headers of a packet, in two cache lines");
};

impl QueuePair {
    /// A queue pair in RESET.
    pub fn new(config: QpConfig) -> QueuePair {
        QueuePair {
            state: QpState::Reset,
            ty: config.ty,
            pkey: 0,
            own: Gid::default(),
            peer: Gid::default(),
            dest_qpn: Qpn::new(0),
            established: false,
            rocev1: false,
            respond_next: false,
            mark: None,
            cnps: 0,
            cnp_tos: 0,
            cnp_pcp: 0,
            conn: None,
            requester: Requester::new(
                config.max_send_wr,
                config.window,
                config.recovery,
                config.credits && config.ty == QpType::Rc,
            ),
            responder: Responder::new(config.ack_interval),
            uc: (config.ty == QpType::Uc).then(Box::default),
            rq: Ring::new(if config.srq.is_some() { 0 } else { config.max_recv_wr }),
            counters_before: None,
            stages: StageLog::default(),
            config,
            init: InitAttrs { access: Access::NONE, pkey: 0xFFFF },
        }
    }

    /// What lies outside of it and is wanted with the next packet: the oldest send request.
    #[inline]
    pub(crate) fn queued(&self) -> Option<&impl Sized> {
        self.requester.sq.front()
    }

    /// The send request of which a packet is sent next.
    #[inline]
    pub(crate) fn next_to_send(&self) -> Option<&SendWr> {
        Some(&self.requester.sq.get(self.requester.cursor)?.wr)
    }

    /// Its number.
    #[inline]
    pub fn qpn(&self) -> Qpn {
        self.config.qpn
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> QpState {
        self.state
    }

    /// The shared receive queue that it takes from.
    #[inline]
    pub fn srq(&self) -> Option<Srqn> {
        self.config.srq
    }

    /// The peer's queue pair; 0 before RTR.
    pub fn dest_qpn(&self) -> Qpn {
        self.dest_qpn
    }

    /// The peer's address; zero before RTR.
    pub fn peer(&self) -> Gid {
        self.peer
    }

    /// What it counted since it was made.
    pub fn counters(&self) -> QpCounters {
        let mut sum = self.counters_before.as_deref().copied().unwrap_or_default();
        if let Some(conn) = &self.conn {
            sum.add(&conn.counters);
        }
        sum
    }

    /// Why it had no request to send when it was last asked.
    #[inline]
    pub fn hold(&self) -> Hold {
        self.requester.hold
    }

    /// Whether a response waits to be sent.
    #[inline]
    pub fn has_response(&self) -> bool {
        self.responder.has_output()
    }

    /// How long its recoveries take is recorded in `log` from now on.
    pub fn set_stages(&mut self, log: StageLog) {
        if let Some(conn) = &mut self.conn {
            conn.stages = log.clone();
        }
        self.stages = log;
    }

    /// Packets sent and not acknowledged.
    pub fn unacknowledged(&self) -> u32 {
        self.requester.unacknowledged()
    }

    /// Send requests posted and not completed.
    pub fn outstanding(&self) -> u32 {
        self.requester.outstanding()
    }

    /// Room for send requests.
    #[inline]
    pub fn send_room(&self) -> u32 {
        self.requester.room()
    }

    /// Paces what it sends from now on; `None` sends as fast as the port takes.
    pub fn set_pacer(&mut self, pacer: Option<Pacer>) {
        self.requester.pacer = pacer;
        self.watch_gaps();
    }

    /// The pacer.
    pub fn pacer(&self) -> Option<&Pacer> {
        self.requester.pacer.as_ref()
    }

    /// Another pace on the way: what has left counts, and gaps are watched as before.
    pub fn change_pace(&mut self, pacer: Option<Pacer>) {
        let own = &mut self.requester.pacer;
        *own = match (pacer, &own) {
            (Some(pacer), Some(before)) => Some(pacer.after(before)),
            (pacer, _) => pacer,
        };
    }

    /// Puts what it sends from now on under congestion control: requests, and responses with data.
    pub fn set_rate_control(&mut self, control: RateControl) {
        self.requester.cc = control;
        self.watch_gaps();
    }

    /// The gaps between its requests with data, where they are paced or under congestion control.
    pub fn gaps(&self) -> Option<&Gaps> {
        self.requester.gaps.as_deref()
    }

    /// Its congestion control.
    pub fn rate_control(&self) -> &RateControl {
        &self.requester.cc
    }

    /// Whether the last packet was a reason to notify the peer of congestion; told once.
    #[inline]
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.mark.take()
    }

    /// Sends a CNP before anything else.
    pub fn notify(&mut self, config: &NotificationConfig) {
        self.cnps += 1;
        self.cnp_tos = config.cnp_tos();
        self.cnp_pcp = config.cnp_802p_prio;
    }

    /// Its own address; zero before RTR.
    pub fn own(&self) -> Gid {
        self.own
    }

    /// Sends RoCEv1 packets rather than RoCEv2 ones from the next RTR on.
    pub fn set_rocev1(&mut self, on: bool) {
        self.rocev1 = on;
    }

    /// For a port that carries headers only: once the queue pair has a peer it writes no payload.
    pub fn set_headers_only(&mut self) {
        if let Some(conn) = &mut self.conn {
            conn.template.set_hollow();
        }
    }

    /// Changes the state.  Work that the change flushes completes into `done`.
    pub fn modify(&mut self, transition: Transition, done: &mut impl Completions) -> Result<(), ModifyError> {
        transition.check(self.state, self.ty)?;
        match transition {
            Transition::Reset => self.reset(),
            Transition::Init(attrs) => {
                self.init = attrs;
                self.pkey = attrs.pkey;
                self.state = QpState::Init;
            }
            Transition::Rtr(attrs) => self.connect(&attrs),
            Transition::Rts(attrs) => {
                self.requester.start(&attrs);
                self.state = QpState::Rts;
            }
            Transition::InitUd(attrs) => self.open(&attrs),
            Transition::RtrUd => self.state = QpState::Rtr,
            Transition::RtsUd(sq_psn) => {
                let never = RtsAttrs { sq_psn, timeout: 0, retry_cnt: 0, rnr_retry: 0, max_rd_atomic: 0 };
                self.requester.start(&never);
                self.state = QpState::Rts;
            }
            Transition::Sqd => {
                self.state = QpState::Sqd;
                self.requester.drained_told = false;
                self.note_drained(done);
            }
            Transition::Resume => self.state = QpState::Rts,
            Transition::Err => self.flush(done),
        }
        Ok(())
    }

    /// Makes an address handle of a datagram queue pair that has left RESET: for packets along
    /// `route`.  It lives until the queue pair goes back there.  `None` for other queue pairs.
    pub fn create_ah(&mut self, route: &Route) -> Option<Ah> {
        let template = self.template_to(route)?;
        Some(self.conn.as_mut()?.datagrams.as_mut()?.add(template))
    }

    /// Makes an address handle lead elsewhere; whether there is such a one.
    pub fn modify_ah(&mut self, ah: Ah, route: &Route) -> bool {
        let Some(template) = self.template_to(route) else { return false };
        let datagrams = self.conn.as_mut().and_then(|conn| conn.datagrams.as_mut());
        datagrams.is_some_and(|datagrams| datagrams.set(ah, template))
    }

    /// The headers of datagrams to a host; `None` on a connection.
    fn template_to(&self, route: &Route) -> Option<Template> {
        let conn = self.conn.as_ref().filter(|_| self.ty == QpType::Ud)?;
        let template = if self.rocev1 { Template::rocev1 } else { Template::new };
        let mut template = template(route, self.pkey, Qpn::new(0));
        if conn.template.is_hollow() {
            template.set_hollow();
        }
        Some(template)
    }

    /// Queues a send request.
    #[inline(always)]
    pub fn post_send(&mut self, wr: SendWr) -> Result<(), PostError> {
        match self.state {
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => {}
            state => return Err(PostError::State(state)),
        }
        if let SendOp::Datagram(to) = &wr.op
            && self.conn.as_ref().and_then(|c| c.datagrams.as_ref()).is_none_or(|d| !d.has(to.ah))
        {
            return Err(PostError::AddressHandle);
        }
        let mtu = self.conn.as_ref().map_or(Mtu::B256, |c| c.mtu);
        self.requester.post(wr, mtu, self.ty)
    }

    /// Queues a receive request.
    #[inline]
    pub fn post_recv(&mut self, wr: RecvWr) -> Result<(), PostError> {
        if self.state == QpState::Reset {
            return Err(PostError::State(self.state));
        }
        if self.config.srq.is_some() {
            return Err(PostError::Unsupported);
        }
        self.rq.push(wr).map_err(|_| PostError::QueueFull)?;
        if let Some(conn) = self.conn.as_mut()
            && self.config.credits
        {
            conn.advertised.receives = self.rq.len();
            self.responder.tell_receives(conn);
        }
        Ok(())
    }

    /// Takes a packet that is addressed to this queue pair and whose iCRC is right.
    #[inline]
    pub fn on_packet(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        if let Err(reason) = self.admit(p) {
            return Verdict::Dropped(reason);
        }
        let Some(conn) = self.conn.as_mut() else { return Verdict::Dropped(DropReason::QpState) };
        if p.ecn() == Ecn::Ce {
            conn.counters.np_ecn_marked_roce_packets += 1;
            // A CNP breeds no CNP, nor does a datagram: there is no path back to its sender.
            let answerable = p.info.kind != Kind::Cnp && self.ty != QpType::Ud;
            self.mark = answerable.then_some(Mark::Congestion);
        }
        if p.info.kind == Kind::Cnp {
            if self.requester.cc.on_cnp(now) {
                conn.counters.rp_cnp_handled += 1;
            } else {
                conn.counters.rp_cnp_ignored += 1;
            }
            return Verdict::Delivered;
        }
        if p.info.is_response() {
            if !matches!(self.state, QpState::Rts | QpState::Sqd) {
                return Verdict::Dropped(DropReason::QpState);
            }
            let verdict = self.requester.on_response(now, p, conn, mem, done);
            self.after_requester(done);
            return verdict;
        }
        if !self.established && self.state == QpState::Rtr && self.ty != QpType::Ud {
            self.established = true;
            done.event(self.config.qpn, QpEvent::CommEst);
        }
        let (verdict, failure) = match self.ty {
            QpType::Rc => {
                let ahead = conn.counters.out_of_sequence;
                let verdict = self.responder.on_request(now, p, conn, &mut self.rq, mem, done);
                if verdict == Verdict::Answered && conn.counters.out_of_sequence != ahead {
                    self.mark.get_or_insert(Mark::SequenceNak);
                }
                self.after_responder(done);
                return verdict;
            }
            QpType::Uc => {
                let Some(uc) = &mut self.uc else { return Verdict::Dropped(DropReason::WrongTransport) };
                let verdict = uc.on_request(p, conn, &mut self.rq, mem, done);
                (verdict, uc.take_failure())
            }
            QpType::Ud => {
                let verdict = ud::on_request(p, conn, &mut self.rq, mem, done);
                (verdict, conn.datagrams.as_mut().and_then(|d| d.take_failure()))
            }
        };
        if let Some(wr) = failure {
            let status = CompletionStatus::LocProtErr;
            conn.counters.resp_cqe_error += 1;
            done.event(self.config.qpn, QpEvent::Fatal(status));
            done.complete(failed(self.config.qpn, wr.wr_id, WcOpcode::Recv, status));
            self.flush(done);
        }
        verdict
    }

    /// Writes the next frame into `slot`, which must hold the largest frame of this queue pair.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        done: &mut impl Completions,
    ) -> Transmit {
        match self.poll_cnp(slot) {
            Some(sent) => Transmit::Sent(sent),
            None => self.poll_request(now, mem, slot, done),
        }
    }

    /// Whether CNPs wait to be sent.
    #[inline]
    pub(crate) fn owes_cnps(&self) -> bool {
        self.cnps != 0
    }

    /// Writes a CNP, if one is to be sent.
    #[inline]
    pub(crate) fn poll_cnp(&mut self, slot: &mut (impl Slot + ?Sized)) -> Option<Sent> {
        if self.cnps == 0 {
            return None;
        }
        let conn = self.conn.as_mut()?;
        self.cnps -= 1;
        conn.counters.np_cnp_sent += 1;
        let len = conn.template.cnp(slot.buf(), self.cnp_tos, self.cnp_pcp);
        Some(Sent::new(len, 0, Psn::new(0)))
    }

    /// [`QueuePair::poll_transmit`] without CNPs.
    #[inline]
    pub(crate) fn poll_request(
        &mut self,
        now: Instant,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        done: &mut impl Completions,
    ) -> Transmit {
        if self.responder.has_output() {
            return self.poll_both(now, mem, slot, done);
        }
        self.respond_next = true;
        self.poll_requester(now, mem, slot, done)
    }

    /// Requests and responses take turns.
    #[inline(never)]
    fn poll_both(
        &mut self,
        now: Instant,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        done: &mut impl Completions,
    ) -> Transmit {
        // Data in responses is under congestion control too; ACKs and NAKs are not.
        let held = if self.responder.has_answer() { self.requester.cc.hold(now) } else { None };
        if held.is_none() && (self.respond_next || self.responder.has_urgent()) {
            self.respond_next = false;
            if let Some(sent) = self.respond(now, mem, slot, done) {
                return Transmit::Sent(sent);
            }
        }
        self.respond_next = true;
        let outcome = self.poll_requester(now, mem, slot, done);
        match (outcome, held) {
            (Transmit::Sent(_), _) => outcome,
            (Transmit::Wait(a), Some(b)) => Transmit::Wait(a.min(b)),
            (Transmit::Idle, Some(b)) => Transmit::Wait(b),
            (_, None) => self.respond(now, mem, slot, done).map_or(outcome, Transmit::Sent),
        }
    }

    /// Writes the next packet of a request.
    #[inline(always)]
    fn poll_requester(
        &mut self,
        now: Instant,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        done: &mut impl Completions,
    ) -> Transmit {
        let (Some(conn), QpState::Rts | QpState::Sqd) = (self.conn.as_mut(), self.state) else {
            return Transmit::Idle;
        };
        let draining = self.state == QpState::Sqd;
        if self.ty == QpType::Rc {
            let outcome = self.requester.transmit(now, conn, mem, slot, draining);
            if outcome == Transmit::Idle && self.requester.failed() {
                self.after_requester(done);
            }
            return outcome;
        }
        let outcome = self.requester.transmit_unreliable(now, conn, mem, slot, draining, done);
        if self.requester.failed() || draining {
            self.after_requester(done);
        }
        outcome
    }

    /// Does what is due at `now`.
    pub fn on_deadline(&mut self, now: Instant, done: &mut impl Completions) {
        match self.state {
            QpState::Err => return self.flush(done),
            QpState::Sqe => return self.flush_sends(done),
            _ => {}
        }
        if let Some(conn) = self.conn.as_mut() {
            self.requester.on_deadline(now, conn);
            self.after_requester(done);
        }
    }

    /// Whether it has surely nothing to send: it only receives, and owes no answer.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts)
            && self.requester.outstanding() == 0
            && self.cnps == 0
            && !self.responder.has_output()
    }

    /// Fetches what taking or sending a packet will go over: first its own lines, then what they lead to.
    #[inline]
    pub(crate) fn fetch(&self, step: usize) {
        if step == 0 {
            prefetch_index(from_ref(&self.state), 0);
            prefetch_index(from_ref(&self.own), 0);
            prefetch_index(from_ref(&self.conn), 0);
            prefetch_index(from_ref(&self.requester.sq), 0);
            prefetch_index(from_ref(&self.requester.cursor), 0);
            prefetch_index(from_ref(&self.requester.cc), 0);
            return self.responder.fetch();
        }
        self.requester.fetch();
        if let Some(conn) = &self.conn {
            prefetch_index(from_ref(&conn.mtu), 0);
            prefetch_index(from_ref(&conn.template), 0);
            prefetch_index(from_ref(&conn.template), 1);
            prefetch_index(from_ref(&conn.counters), 0);
            prefetch_index(from_ref(&conn.counters.psns_sent), 0);
            prefetch_index(from_ref(&conn.counters.rx_request_packets), 0);
        }
    }

    /// When [`QueuePair::on_deadline`] is wanted next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.state {
            QpState::Err | QpState::Sqe => {
                let receives = self.state == QpState::Err && !self.rq.is_empty();
                (receives || self.requester.outstanding() != 0).then_some(Instant::ZERO)
            }
            _ => self.requester.next_deadline(),
        }
    }

    /// Writes what the responder has to say next.
    #[inline]
    fn respond(
        &mut self,
        now: Instant,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        done: &mut impl Completions,
    ) -> Option<Sent> {
        let conn = self.conn.as_mut()?;
        conn.advertised.receives = self.rq.len();
        let sent = self.responder.transmit(now, conn, mem, slot)?;
        if sent.payload() != 0 {
            self.requester.cc.on_sent(now, (sent.len() + L1_OVERHEAD) as u64, sent.payload());
        }
        self.after_responder(done);
        Some(sent)
    }

    /// The checks that come before the PSN: a packet that fails one moves no state.
    #[inline]
    fn admit(&self, p: &Packet<'_>) -> Result<(), DropReason> {
        if !matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe) {
            return Err(DropReason::QpState);
        }
        let class_fits = match p.info.class {
            Class::Rc => self.ty == QpType::Rc,
            Class::Uc => self.ty == QpType::Uc,
            Class::Ud => self.ty == QpType::Ud,
            Class::Cnp => true,
            _ => false,
        };
        if !class_fits {
            return Err(DropReason::WrongTransport);
        }
        if p.dst() != self.own || (p.src() != self.peer && self.ty != QpType::Ud) {
            return Err(DropReason::WrongAddress);
        }
        let key = p.bth.pkey;
        if (key ^ self.pkey) & 0x7FFF != 0 || (key | self.pkey) & 0x8000 == 0 {
            return Err(DropReason::PkeyMismatch);
        }
        Ok(())
    }

    fn watch_gaps(&mut self) {
        let spaced = self.requester.pacer.is_some() || !matches!(self.requester.cc, RateControl::Fixed);
        self.requester.gaps = spaced.then(Box::default);
    }

    fn connect(&mut self, attrs: &RtrAttrs) {
        self.own = attrs.route.src;
        self.peer = attrs.route.dst;
        self.dest_qpn = attrs.dest_qpn;
        let template = if self.rocev1 { Template::rocev1 } else { Template::new };
        self.conn = Some(Conn {
            qpn: self.config.qpn,
            pd: self.config.pd,
            mtu: attrs.mtu,
            access: self.init.access,
            unreliable: self.ty == QpType::Uc,
            datagrams: None,
            advertised: Advertised::new(self.config.credits && self.config.srq.is_none()),
            template: template(&attrs.route, self.pkey, attrs.dest_qpn),
            counters: QpCounters::default(),
            stages: self.stages.clone(),
        });
        let window = self.config.recovery.is_selective().then_some(self.config.window);
        self.responder.start(attrs, window);
        if let Some(uc) = &mut self.uc {
            uc.start(attrs.rq_psn);
        }
        self.state = QpState::Rtr;
    }

    /// RESET to INIT of a datagram queue pair.
    fn open(&mut self, attrs: &UdAttrs) {
        self.pkey = attrs.pkey;
        self.own = attrs.own;
        let nowhere = Route {
            src_mac: MacAddr::default(),
            dst_mac: MacAddr::default(),
            vlan: None,
            src: attrs.own,
            dst: attrs.own,
            tos: 0,
            hop_limit: 0,
            flow_label: 0,
            sport: 0,
        };
        self.conn = Some(Conn {
            qpn: self.config.qpn,
            pd: self.config.pd,
            mtu: attrs.mtu,
            access: Access::NONE,
            unreliable: true,
            datagrams: Some(Box::new(Datagrams::new(attrs.qkey))),
            advertised: Advertised::new(false),
            template: Template::new(&nowhere, self.pkey, Qpn::new(0)),
            counters: QpCounters::default(),
            stages: self.stages.clone(),
        });
        self.state = QpState::Init;
    }

    fn reset(&mut self) {
        let mut counters = self.counters();
        counters.psns_failed += u64::from(self.unacknowledged());
        let stages = std::mem::take(&mut self.stages);
        *self = QueuePair { rocev1: self.rocev1, stages, ..QueuePair::new(self.config) };
        self.counters_before = Some(Box::new(counters));
    }

    /// After the requester did something: errors, drained.
    #[inline]
    fn after_requester(&mut self, done: &mut impl Completions) {
        if let Some(status) = self.requester.take_failure() {
            self.fail_head(status, done);
        } else if self.state == QpState::Sqd {
            self.note_drained(done);
        }
    }

    /// After the responder did something: the error that ends the queue pair.
    #[inline]
    fn after_responder(&mut self, done: &mut impl Completions) {
        if let Some(status) = self.responder.take_failure() {
            if self.state != QpState::Err {
                done.event(self.config.qpn, QpEvent::Fatal(status));
            }
            self.flush(done);
        }
    }

    fn note_drained(&mut self, done: &mut impl Completions) {
        if self.requester.note_drained() {
            done.event(self.config.qpn, QpEvent::SqDrained);
        }
    }

    /// The request at the head of the send queue ends with `status`, all behind it is flushed.
    fn fail_head(&mut self, status: CompletionStatus, done: &mut impl Completions) {
        if self.ty == QpType::Rc {
            done.event(self.config.qpn, QpEvent::Fatal(status));
        }
        if let Some((wr_id, opcode)) = self.requester.pop_head() {
            if let Some(conn) = self.conn.as_mut() {
                conn.counters.req_cqe_error += 1;
            }
            done.complete(failed(self.config.qpn, wr_id, opcode, status));
        }
        match self.ty {
            QpType::Rc => self.flush(done),
            // What goes wrong here does not concern the peer: the receive half lives on.
            QpType::Uc | QpType::Ud => {
                self.state = QpState::Sqe;
                self.flush_sends(done);
            }
        }
    }

    /// ERR: everything queued completes as flushed, sends first.  What is in a shared receive
    /// queue stays there.
    fn flush(&mut self, done: &mut impl Completions) {
        let first = self.state != QpState::Err;
        self.state = QpState::Err;
        self.cnps = 0;
        self.flush_sends(done);
        let qpn = self.config.qpn;
        let mut receives = 0;
        let bound = self.responder.take_receive().or_else(|| self.uc.as_mut()?.take_receive());
        let shared = self.config.srq.is_some();
        let queued = core::iter::from_fn(|| if shared { None } else { self.rq.pop() });
        for wr in bound.into_iter().chain(queued) {
            done.complete(failed(qpn, wr.wr_id, WcOpcode::Recv, CompletionStatus::WrFlushErr));
            receives += 1;
        }
        self.responder.stop();
        if let Some(conn) = self.conn.as_mut() {
            conn.counters.resp_cqe_flush_error += receives;
        }
        if first && shared {
            done.event(qpn, QpEvent::LastWqeReached);
        }
    }

    fn flush_sends(&mut self, done: &mut impl Completions) {
        let mut sends = 0;
        while let Some((wr_id, opcode)) = self.requester.pop_head() {
            done.complete(failed(self.config.qpn, wr_id, opcode, CompletionStatus::WrFlushErr));
            sends += 1;
        }
        let unanswered = self.requester.stop();
        if let Some(conn) = self.conn.as_mut() {
            conn.counters.psns_failed += u64::from(unanswered);
            conn.counters.req_cqe_flush_error += sends;
        }
    }
}

/// A completion of which only `wr_id`, `status` and `qpn` mean anything.
pub(super) fn failed(qpn: Qpn, wr_id: u64, opcode: WcOpcode, status: CompletionStatus) -> Completion {
    Completion {
        wr_id,
        status,
        opcode,
        byte_len: 0,
        imm: None,
        invalidated: None,
        src_qp: None,
        grh: false,
        solicited: false,
        qpn,
    }
}
