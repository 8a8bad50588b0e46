//! The responder: executes the peer's requests in PSN order.

use super::qp::{Conn, Recovery, Sent, Verdict, failed};
use super::reorder::{Kept, Reorder};
use super::response::{Answer, Output, acknowledge_blocks};
use super::stages::Stage;
use crate::units::{Instant, Msn, Psn};
use crate::verbs::{
    Access, Completion, CompletionStatus, Completions, Memory, MrKey, QpEvent, RecvWr, Ring, RtrAttrs,
    WcOpcode,
};
use crate::wire::{DropReason, Kind, Packet, Position, Slot, Syndrome};
use core::slice::from_ref;
use prefetch_index::prefetch_index;

/// The longest message, as RETH may state it.
const MAX_MESSAGE: u32 = 1 << 31;

/// The receive half of a reliable connection.
#[derive(Debug)]
pub(super) struct Responder {
    epsn: Psn,
    msn: Msn,
    message: Message,
    /// A NAK was sent and the expected packet has not come since.
    nak_pending: bool,
    /// Go-back-N: since when the expected packet has been missing.
    missing: Option<Instant>,
    /// The first gap of which no NAK has left yet.
    untold: Option<Instant>,
    /// Selective repeat: what came ahead of the expected packet.
    reorder: Option<Box<Reorder>>,
    /// The PSN of the newest executed SEND or WRITE packet: what an ACK names.
    newest: Option<Psn>,
    unacknowledged: u32,
    ack_interval: u32,
    min_rnr_timer: u8,
    out: Output,
    failure: Option<CompletionStatus>,
}

/// The message that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    None,
    Send { wr: RecvWr, received: u32 },
    Write { va: u64, rkey: MrKey, len: u32, done: u32 },
}

/// Why a request is refused.
enum Refusal {
    Nak(Syndrome, Option<CompletionStatus>),
    NotReady,
    /// The key that a SEND is to invalidate is none of ours: it ends the queue pair without a NAK.
    Invalidate,
}

const INVALID: Refusal = Refusal::Nak(Syndrome::NAK_INVALID_REQUEST, None);
const ACCESS: Refusal = Refusal::Nak(Syndrome::NAK_REMOTE_ACCESS, None);

impl Responder {
    pub(super) fn new(ack_interval: u32) -> Responder {
        Responder {
            epsn: Psn::new(0),
            msn: Msn::new(0),
            message: Message::None,
            nak_pending: false,
            missing: None,
            untold: None,
            reorder: None,
            newest: None,
            unacknowledged: 0,
            ack_interval: ack_interval.clamp(1, 1 << 22),
            min_rnr_timer: 0,
            out: Output::new(),
            failure: None,
        }
    }

    /// `window` packets are kept out of order, under selective repeat.
    pub(super) fn start(&mut self, attrs: &RtrAttrs, window: Option<u32>) {
        self.epsn = attrs.rq_psn;
        self.min_rnr_timer = attrs.min_rnr_timer;
        self.out.start(usize::from(attrs.max_dest_rd_atomic), window.is_some());
        self.reorder =
            window.map(|n| Box::new(Reorder::new(n.clamp(1, Recovery::MAX_WINDOW), attrs.mtu, attrs.rq_psn)));
    }

    /// Fetches what taking a packet will go over.
    #[inline]
    pub(super) fn fetch(&self) {
        prefetch_index(from_ref(&self.epsn), 0);
        prefetch_index(from_ref(&self.message), 0);
        prefetch_index(from_ref(&self.out), 0);
    }

    #[inline]
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.owes_blocks()
    }

    /// Whether what goes next is, or goes before, a response with data.
    #[inline]
    pub(super) fn has_answer(&self) -> bool {
        self.out.has_answer()
    }

    #[inline]
    pub(super) fn has_urgent(&self) -> bool {
        self.out.has_urgent() || (self.owes_blocks() && !self.out.has_answer())
    }

    /// Whether the peer is to be told what came ahead.
    #[inline]
    fn owes_blocks(&self) -> bool {
        self.reorder.as_ref().is_some_and(|r| r.is_due())
    }

    /// Receive requests were posted: tells a requester that may wait for them.
    #[inline]
    pub(super) fn tell_receives(&mut self, conn: &mut Conn) {
        if conn.advertised.is_news(self.msn) && self.out.is_empty() {
            conn.counters.credit_updates_sent += 1;
            self.out.ack(self.newest.unwrap_or(self.epsn.minus(1)), self.msn);
        }
    }

    /// The error that ends the queue pair, once.
    #[inline]
    pub(super) fn take_failure(&mut self) -> Option<CompletionStatus> {
        self.failure.take()
    }

    /// The queue pair is in error: only the NAK that says why still leaves.
    pub(super) fn stop(&mut self) {
        self.out.stop();
        self.missing = None;
        self.untold = None;
        self.reorder = None;
    }

    /// The receive request of the SEND that is under way.
    pub(super) fn take_receive(&mut self) -> Option<RecvWr> {
        match core::mem::replace(&mut self.message, Message::None) {
            Message::Send { wr, .. } => Some(wr),
            _ => None,
        }
    }

    /// Writes the next response.  May leave a failure: see [`Responder::take_failure`].
    #[inline]
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
    ) -> Option<Sent> {
        if self.owes_blocks() && !self.out.has_answer() && !self.out.has_nak() {
            return self.transmit_blocks(now, conn, slot);
        }
        if let Some(since) = self.untold
            && self.out.has_sequence_nak()
            && !self.out.has_answer()
        {
            self.untold = None;
            conn.stages.record(Stage::GapToNak, now.since(since));
        }
        let (psn, msn) = match self.out.transmit(conn, mem, slot) {
            Ok(sent) => return sent,
            Err(unreadable) => unreadable,
        };
        conn.counters.resp_remote_access_errors += 1;
        self.failure = Some(CompletionStatus::RemAccessErr);
        self.out.nak(psn, msn, Syndrome::NAK_REMOTE_ACCESS, true);
        self.out.transmit(conn, mem, slot).ok().flatten()
    }

    /// A NAK for the expected packet that says what came after it; it acknowledges what lies before.
    fn transmit_blocks(
        &mut self,
        now: Instant,
        conn: &mut Conn,
        slot: &mut (impl Slot + ?Sized),
    ) -> Option<Sent> {
        let blocks = self.reorder.as_mut()?.take_blocks();
        if let Some(since) = self.untold.take() {
            conn.stages.record(Stage::GapToNak, now.since(since));
        }
        self.out.drop_ack();
        conn.counters.naks_sent += 1;
        Some(acknowledge_blocks(conn, slot, self.epsn, self.msn, &blocks))
    }

    /// Takes a request of class RC.
    #[inline]
    pub(super) fn on_request(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        let ahead = self.epsn.distance_to(psn);
        if ahead > 0 {
            conn.counters.out_of_sequence += 1;
            if self.reorder.is_some() {
                return self.keep(now, p, conn);
            }
            self.missing = self.missing.or(Some(now));
            if self.nak_pending {
                return Verdict::Dropped(DropReason::OutOfSequenceDropped);
            }
            self.nak_pending = true;
            self.untold = Some(now);
            self.out.nak(self.epsn, self.msn, Syndrome::NAK_PSN_SEQUENCE, false);
            return Verdict::Answered;
        }
        if ahead < 0 {
            conn.counters.duplicate_request += 1;
            return self.on_duplicate(p, conn);
        }
        self.nak_pending = false;
        if let Some(since) = self.missing.take() {
            self.untold = None;
            conn.stages.record(Stage::GapToClosed, now.since(since));
        }
        if self.reorder.is_none() {
            return self.take(p, conn, rq, mem, done);
        }
        self.take_all(now, p, conn, rq, mem, done)
    }

    /// Selective repeat: a packet ahead of the expected one waits for it.
    fn keep(&mut self, now: Instant, p: &Packet<'_>, conn: &mut Conn) -> Verdict {
        let Some(reorder) = &mut self.reorder else {
            return Verdict::Dropped(DropReason::OutOfSequenceDropped);
        };
        match reorder.keep(now, p, self.epsn, self.ack_interval) {
            Kept::New { gap, closed } => {
                if gap != 0 {
                    self.untold = self.untold.or(Some(now));
                }
                if let Some(span) = closed {
                    conn.stages.record(Stage::GapToClosed, span);
                }
                Verdict::Delivered
            }
            Kept::Again => {
                conn.counters.duplicate_request += 1;
                Verdict::Answered
            }
            Kept::Beyond => Verdict::Dropped(DropReason::OutOfSequenceDropped),
        }
    }

    /// Selective repeat: the expected packet, and what was kept behind it.
    fn take_all(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let before = self.epsn;
        let verdict = self.take(p, conn, rq, mem, done);
        // Out of its place while packets in it are executed.
        let Some(mut reorder) = self.reorder.take() else { return verdict };
        if let Some(span) = reorder.arrived(now, before) {
            conn.stages.record(Stage::GapToClosed, span);
        }
        reorder.advance(before, self.epsn);
        while self.failure.is_none()
            && let Some(next) = reorder.get(self.epsn)
        {
            let psn = self.epsn;
            if self.take(&next, conn, rq, mem, done) == Verdict::Delivered {
                reorder.advance(psn, self.epsn);
            } else {
                reorder.forget(psn);
            }
        }
        if self.untold.is_some() && !reorder.is_due() {
            self.untold = None;
        }
        if let Some(newest) = self.newest
            && self.unacknowledged != 0
            && self.epsn.distance_to(before) < -1
        {
            // What waited is acknowledged with what it waited for.
            self.unacknowledged = 0;
            self.out.ack(newest, self.msn);
        }
        self.reorder = Some(reorder);
        verdict
    }

    /// The packet at the expected PSN: executes it or refuses it.
    #[inline]
    fn take(
        &mut self,
        p: &Packet<'_>,
        conn: &mut Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        match self.execute(p, conn, rq, mem, done) {
            Ok(()) => Verdict::Delivered,
            Err(Refusal::NotReady) => {
                conn.counters.out_of_buffer += 1;
                self.nak_pending = true;
                self.out.nak(psn, self.msn, Syndrome::rnr(self.min_rnr_timer), false);
                Verdict::Answered
            }
            Err(Refusal::Invalidate) => {
                let status = CompletionStatus::RemInvReqErr;
                self.fail_receive(status, conn, done);
                self.failure = Some(status);
                Verdict::Dropped(DropReason::AccessError)
            }
            Err(Refusal::Nak(syndrome, status)) => {
                match syndrome {
                    Syndrome::NAK_INVALID_REQUEST => conn.counters.resp_invalid_request += 1,
                    Syndrome::NAK_REMOTE_ACCESS => conn.counters.resp_remote_access_errors += 1,
                    _ => conn.counters.resp_local_op_errors += 1,
                }
                let status = status.unwrap_or(match syndrome {
                    Syndrome::NAK_REMOTE_ACCESS => CompletionStatus::RemAccessErr,
                    _ => CompletionStatus::RemInvReqErr,
                });
                self.fail_receive(status, conn, done);
                self.out.nak(psn, self.msn, syndrome, true);
                self.failure = Some(status);
                Verdict::Answered
            }
        }
    }

    /// The receive request of the SEND that is under way ends with `status`.
    fn fail_receive(&mut self, status: CompletionStatus, conn: &mut Conn, done: &mut impl Completions) {
        if let Some(wr) = self.take_receive() {
            conn.counters.resp_cqe_error += 1;
            done.complete(failed(conn.qpn, wr.wr_id, WcOpcode::Recv, status));
        }
    }

    /// Runs the packet at the expected PSN through the checks and executes it.  The first
    /// check that fails decides: opcode order, right, resources, length, key.
    #[inline]
    fn execute(
        &mut self,
        p: &Packet<'_>,
        conn: &mut Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Result<(), Refusal> {
        self.check_order(p)?;
        match p.info.kind {
            Kind::Write => {
                if !conn.access.contains(Access::REMOTE_WRITE) {
                    return Err(INVALID);
                }
                self.write(p, conn, rq, mem, done)?;
            }
            Kind::Send => self.send(p, conn, rq, mem, done)?,
            Kind::ReadRequest => return self.read(p, conn, mem),
            Kind::CompareSwap | Kind::FetchAdd => return self.atomic(p, conn, mem),
            _ => return Err(INVALID),
        }
        self.executed(p, conn);
        Ok(())
    }

    /// A packet of a SEND or WRITE was executed: moves on, and decides whether to acknowledge.
    #[inline]
    fn executed(&mut self, p: &Packet<'_>, conn: &mut Conn) {
        let psn = p.bth.psn;
        conn.counters.rx_request_packets += 1;
        conn.counters.rx_payload_bytes += p.payload_len() as u64;
        self.epsn = psn.plus(1);
        self.newest = Some(psn);
        self.unacknowledged += 1;
        if matches!(p.info.position, Position::Last | Position::Only) {
            self.msn = self.msn.plus(1);
        }
        self.out.cancel_nak();
        if p.bth.ack_req || self.unacknowledged >= self.ack_interval {
            self.unacknowledged = 0;
            self.out.ack(psn, self.msn);
        }
    }

    #[inline]
    fn check_order(&self, p: &Packet<'_>) -> Result<(), Refusal> {
        let begins = matches!(p.info.position, Position::First | Position::Only);
        let fits = match self.message {
            Message::None => begins,
            Message::Send { .. } => !begins && p.info.kind == Kind::Send,
            Message::Write { .. } => !begins && p.info.kind == Kind::Write,
        };
        if fits { Ok(()) } else { Err(INVALID) }
    }

    #[inline]
    fn write(
        &mut self,
        p: &Packet<'_>,
        conn: &Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Result<(), Refusal> {
        if p.info.completes_recv && rq.is_empty() {
            return Err(Refusal::NotReady);
        }
        let payload = check_payload(p, conn.mtu.bytes())?;
        let (va, rkey, len, at) = match (self.message, p.reth()) {
            (_, Some(reth)) => {
                let len = reth.len;
                let fits = match p.info.position {
                    Position::First => len > payload,
                    _ => len == payload,
                };
                if len > MAX_MESSAGE || !fits {
                    return Err(INVALID);
                }
                let key = MrKey(reth.rkey);
                // What comes in one packet is checked when it is put there.
                if len != payload {
                    mem.check_remote(conn.pd, key, reth.va, len, Access::REMOTE_WRITE).map_err(|_| ACCESS)?;
                }
                (reth.va, key, len, 0)
            }
            (Message::Write { va, rkey, len, done }, None) => {
                let left = len - done;
                let fits = match p.info.position {
                    Position::Middle => left > payload,
                    _ => left == payload,
                };
                if !fits {
                    return Err(INVALID);
                }
                (va, rkey, len, done)
            }
            _ => return Err(INVALID),
        };
        if payload != 0 {
            let to = va.wrapping_add(u64::from(at));
            let sink =
                mem.remote_mut(conn.pd, rkey, to, payload, Access::REMOTE_WRITE).map_err(|_| ACCESS)?;
            p.copy_payload(sink);
        }
        if matches!(p.info.position, Position::First | Position::Middle) {
            self.message = Message::Write { va, rkey, len, done: at + payload };
            return Ok(());
        }
        self.message = Message::None;
        done.event(conn.qpn, QpEvent::WriteExecuted { va, len });
        if p.info.completes_recv
            && let Some(wr) = rq.pop()
        {
            done.complete(received(p, conn, wr.wr_id, WcOpcode::RecvRdmaWithImm, len));
        }
        Ok(())
    }

    #[inline]
    fn send(
        &mut self,
        p: &Packet<'_>,
        conn: &mut Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Result<(), Refusal> {
        let (wr, at) = match self.message {
            Message::Send { wr, received } => (wr, received),
            _ => (rq.pop().ok_or(Refusal::NotReady)?, 0),
        };
        // Bound from here on: a refusal completes it in error.
        self.message = Message::Send { wr, received: at };
        let payload = check_payload(p, conn.mtu.bytes())?;
        if payload > wr.sge.len - at {
            let too_long = Some(CompletionStatus::LocLenErr);
            return Err(Refusal::Nak(Syndrome::NAK_INVALID_REQUEST, too_long));
        }
        if payload != 0 {
            let to = wr.sge.addr.wrapping_add(u64::from(at));
            let broken = Refusal::Nak(Syndrome::NAK_REMOTE_OPERATIONAL, Some(CompletionStatus::LocProtErr));
            let sink = mem.sink(conn.pd, wr.sge.lkey, to, payload).map_err(|_| broken)?;
            p.copy_payload(sink);
        }
        if matches!(p.info.position, Position::First | Position::Middle) {
            self.message = Message::Send { wr, received: at + payload };
            return Ok(());
        }
        let mut completion = received(p, conn, wr.wr_id, WcOpcode::Recv, at + payload);
        if let Some(ieth) = p.ieth() {
            if mem.invalidate(conn.pd, MrKey(ieth.0)).is_err() {
                return Err(Refusal::Invalidate);
            }
            completion.invalidated = Some(ieth.0);
        }
        self.message = Message::None;
        done.complete(completion);
        Ok(())
    }

    fn read(&mut self, p: &Packet<'_>, conn: &mut Conn, mem: &Memory) -> Result<(), Refusal> {
        let reth = p.reth().ok_or(INVALID)?;
        if !conn.access.contains(Access::REMOTE_READ) || self.out.is_full() {
            return Err(INVALID);
        }
        if reth.len > MAX_MESSAGE || p.payload_len() != 0 {
            return Err(INVALID);
        }
        let rkey = MrKey(reth.rkey);
        if reth.len != 0 {
            mem.check_remote(conn.pd, rkey, reth.va, reth.len, Access::REMOTE_READ).map_err(|_| ACCESS)?;
        }
        let packets = conn.mtu.packets(reth.len);
        conn.counters.rx_read_requests += 1;
        self.answer(p, conn, packets, Answer::Read { va: reth.va, rkey, len: reth.len });
        Ok(())
    }

    fn atomic(&mut self, p: &Packet<'_>, conn: &mut Conn, mem: &mut Memory) -> Result<(), Refusal> {
        let eth = p.atomic().ok_or(INVALID)?;
        if !conn.access.contains(Access::REMOTE_ATOMIC) || self.out.is_full() {
            return Err(INVALID);
        }
        if p.payload_len() != 0 || eth.va % 8 != 0 {
            return Err(INVALID);
        }
        let word =
            mem.remote_mut(conn.pd, MrKey(eth.rkey), eth.va, 8, Access::REMOTE_ATOMIC).map_err(|_| ACCESS)?;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        let original = u64::from_ne_bytes(bytes);
        let new = match p.info.kind {
            Kind::FetchAdd => original.wrapping_add(eth.swap_or_add),
            _ if original == eth.compare => eth.swap_or_add,
            _ => original,
        };
        word.copy_from_slice(&new.to_ne_bytes());
        conn.counters.rx_atomic_requests += 1;
        self.answer(p, conn, 1, Answer::Atomic { original });
        Ok(())
    }

    /// Queues the answer of a READ or atomic and moves on.
    fn answer(&mut self, p: &Packet<'_>, conn: &mut Conn, packets: u32, what: Answer) {
        conn.counters.rx_request_packets += 1;
        self.epsn = p.bth.psn.plus(packets);
        self.msn = self.msn.plus(1);
        self.unacknowledged = 0;
        self.out.cancel_nak();
        self.out.push(p.bth.psn, packets, self.msn, what);
    }

    /// A packet that was executed before.  What is malformed or was never granted gets no
    /// answer; nothing is executed again.
    fn on_duplicate(&mut self, p: &Packet<'_>, conn: &Conn) -> Verdict {
        const DROPPED: Verdict = Verdict::Dropped(DropReason::DuplicateDropped);
        match p.info.kind {
            Kind::Send | Kind::Write => {
                let Some(newest) = self.newest else { return DROPPED };
                if payload_of(p, conn.mtu.bytes()).is_none() || self.out.answers_after(newest) {
                    return DROPPED;
                }
                self.out.ack(newest, self.msn);
                Verdict::Answered
            }
            Kind::ReadRequest => {
                let (Some(reth), Some((index, resource))) = (p.reth(), self.out.find(p.bth.psn)) else {
                    return DROPPED;
                };
                let Answer::Read { va, rkey, len } = resource.what else { return DROPPED };
                let k = resource.first.distance_to(p.bth.psn) as u32;
                let at = k << conn.mtu.shift();
                // All that follows, or, under selective repeat, the packets that are missing.
                let part = self.reorder.is_some() && reth.len != 0 && reth.len % conn.mtu.bytes() as u32 == 0;
                let same = reth.rkey == rkey.0
                    && at <= len
                    && (reth.len == len - at || (part && reth.len < len - at))
                    && va.checked_add(u64::from(at)) == Some(reth.va);
                if !same {
                    return DROPPED;
                }
                if self.reorder.is_none() {
                    self.out.replay(index, k);
                } else if !self.out.repair(&resource, k, conn.mtu.packets(reth.len)) {
                    return DROPPED;
                }
                Verdict::Answered
            }
            Kind::CompareSwap | Kind::FetchAdd => match self.out.find(p.bth.psn) {
                Some((index, resource)) if matches!(resource.what, Answer::Atomic { .. }) => {
                    self.out.replay(index, 0);
                    Verdict::Answered
                }
                _ => DROPPED,
            },
            _ => DROPPED,
        }
    }
}

/// The payload's length, when it suits the opcode.  Pad needs no check: payload and pad together
/// are a multiple of four, or the frame would not have parsed.
#[inline]
pub(super) fn payload_of(p: &Packet<'_>, mtu: usize) -> Option<u32> {
    let len = p.payload_len();
    p.info.payload.allows(len, mtu).then_some(len as u32)
}

#[inline]
fn check_payload(p: &Packet<'_>, mtu: usize) -> Result<u32, Refusal> {
    payload_of(p, mtu).ok_or(INVALID)
}

/// The completion of a receive request.
#[inline]
pub(super) fn received(p: &Packet<'_>, conn: &Conn, wr_id: u64, opcode: WcOpcode, len: u32) -> Completion {
    Completion {
        wr_id,
        status: CompletionStatus::Success,
        opcode,
        byte_len: len,
        imm: p.imm().map(|imm| imm.0),
        invalidated: None,
        src_qp: None,
        grh: false,
        solicited: p.bth.solicited,
        qpn: conn.qpn,
    }
}
