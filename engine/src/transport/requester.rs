//! The requester: the send queue, the window, and going back.

use super::credits::{Credits, Gate};
use super::qp::{Conn, Hold, Recovery, Sent, Transmit};
use super::retry::{Loss, timer};
use super::segment::Segment;
use super::selective::Selective;
use super::stages::Stage;
use crate::cc::{Gaps, Pacer, RateControl};
use crate::units::{Duration, Instant, Msn, Mtu, Psn};
use crate::verbs::{
    Completion, CompletionStatus, Completions, Memory, PostError, QpType, Ring, RtsAttrs, SendOp, SendWr,
    WcOpcode,
};
use crate::wire::{Aeth, ICRC_LEN, L1_OVERHEAD, Slot};
use core::slice::from_ref;
use prefetch_index::prefetch_index;

/// The longest message.
const MAX_MESSAGE: u32 = 1 << 31;
/// An acknowledgement is asked for at least this often inside a message.
const ACK_REQUEST_INTERVAL: u32 = 64;

/// The send half of a queue pair.
#[derive(Debug)]
pub(super) struct Requester {
    pub(super) sq: Ring<Wqe>,
    /// Position of the request whose packet is sent next, and the packet in it.
    pub(super) cursor: u32,
    pub(super) cursor_packet: u32,
    /// One past the last request of which a packet was sent.
    pub(super) started: u32,
    /// The oldest unacknowledged PSN; the next PSN never sent; the next PSN to hand out.
    pub(super) una: Psn,
    pub(super) high: Psn,
    next: Psn,
    window: u32,
    ack_request_interval: u32,
    since_ack_request: u32,
    /// The newest PSN for which a response was asked since the last go-back.
    pub(super) asked: Psn,
    pub(super) timeout: Option<Duration>,
    pub(super) retry_cnt: u8,
    pub(super) retry_left: u8,
    pub(super) rnr_retry: u8,
    pub(super) rnr_left: u8,
    /// When the oldest unacknowledged packet is given up, and since when it is waited for.
    pub(super) deadline: Option<Instant>,
    pub(super) waiting_since: Instant,
    /// The timer ran out, and what it guarded had been waited for since then.
    pub(super) stalled: Option<Instant>,
    /// No packet leaves before this: the peer said that it is not ready.
    pub(super) rnr_until: Option<Instant>,
    /// READs and atomics sent and not answered; the most there may be.
    pub(super) reads_out: u32,
    max_reads: u32,
    /// A go-back to this PSN was made and nothing has moved since.
    pub(super) held: Option<Psn>,
    /// The PSN of the last sequence NAK.
    pub(super) last_nak: Option<Psn>,
    /// Go-back-N: the packet that the peer said is lost.
    pub(super) loss: Option<Loss>,
    /// Selective repeat: what is known of each packet.
    pub(super) selective: Option<Box<Selective>>,
    pub(super) drained_told: bool,
    pub(super) credits: Credits,
    /// Why the last call of [`Requester::transmit`] sent nothing.
    pub(super) hold: Hold,
    failure: Option<CompletionStatus>,
    pub(super) pacer: Option<Pacer>,
    /// Congestion control of all that the queue pair sends but ACKs, NAKs and CNPs.
    pub(super) cc: RateControl,
    /// The gaps between packets with data, where something spaces them.
    pub(super) gaps: Option<Box<Gaps>>,
}

/// A posted send request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wqe {
    pub(super) wr: SendWr,
    pub(super) first: Psn,
    pub(super) packets: u32,
    /// READ: response packets taken.
    pub(super) got: u32,
    /// READ or atomic: counted in `reads_out`.
    pub(super) counted: bool,
    /// READ: asked for from this packet on, the last time.
    pub(super) resumed: u32,
}

impl Wqe {
    #[inline]
    pub(super) fn last(&self) -> Psn {
        self.first.plus(self.packets - 1)
    }
}

impl Requester {
    pub(super) fn new(capacity: u32, window: u32, recovery: Recovery, credits: bool) -> Requester {
        let (window, selective) = match recovery {
            Recovery::GoBackN => (window.clamp(1, 1 << 22), None),
            Recovery::SelectiveRepeat { low_timeout } => {
                let window = window.clamp(1, Recovery::MAX_WINDOW);
                (window, Some(Box::new(Selective::new(window, timer(low_timeout)))))
            }
        };
        Requester {
            sq: Ring::new(capacity),
            cursor: 0,
            cursor_packet: 0,
            started: 0,
            una: Psn::new(0),
            high: Psn::new(0),
            next: Psn::new(0),
            window,
            ack_request_interval: (window / 4).clamp(1, ACK_REQUEST_INTERVAL),
            since_ack_request: 0,
            asked: Psn::new(0),
            timeout: None,
            retry_cnt: 0,
            retry_left: 0,
            rnr_retry: 0,
            rnr_left: 0,
            deadline: None,
            waiting_since: Instant::ZERO,
            stalled: None,
            rnr_until: None,
            reads_out: 0,
            max_reads: 0,
            held: None,
            last_nak: None,
            loss: None,
            selective,
            drained_told: false,
            credits: Credits::new(credits),
            hold: Hold::Nothing,
            failure: None,
            pacer: None,
            cc: RateControl::Fixed,
            gaps: None,
        }
    }

    pub(super) fn start(&mut self, attrs: &RtsAttrs) {
        self.una = attrs.sq_psn;
        self.high = attrs.sq_psn;
        self.next = attrs.sq_psn;
        self.asked = attrs.sq_psn.minus(1);
        self.timeout = timer(attrs.timeout);
        if let Some(selective) = &mut self.selective {
            selective.start(attrs.sq_psn);
        }
        self.retry_cnt = attrs.retry_cnt;
        self.retry_left = attrs.retry_cnt;
        self.rnr_retry = attrs.rnr_retry;
        self.rnr_left = attrs.rnr_retry;
        self.max_reads = u32::from(attrs.max_rd_atomic);
    }

    /// Fetches what sending a packet will go over.
    #[inline]
    pub(super) fn fetch(&self) {
        if let Some(wqe) = self.sq.get(self.cursor) {
            prefetch_index(from_ref(wqe), 0);
        }
        if let RateControl::Dcqcn(point) = &self.cc {
            prefetch_index(from_ref(&**point), 0);
        }
    }

    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.sq.capacity() - self.sq.len()
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.sq.len()
    }

    pub(super) fn unacknowledged(&self) -> u32 {
        self.una.distance_to(self.high).max(0) as u32
    }

    #[inline(always)]
    pub(super) fn post(&mut self, wr: SendWr, mtu: Mtu, ty: QpType) -> Result<(), PostError> {
        let len = wr.sge.len;
        if matches!(wr.op, SendOp::Datagram(_)) != (ty == QpType::Ud) {
            return Err(PostError::Unsupported);
        }
        match wr.op {
            SendOp::Datagram(_) if len > mtu.bytes() as u32 => return Err(PostError::Length(len)),
            _ if len > MAX_MESSAGE => return Err(PostError::Length(len)),
            SendOp::Read { .. } if mtu.packets(len) >= 1 << 23 => return Err(PostError::Length(len)),
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if len != 8 => {
                return Err(PostError::Length(len));
            }
            _ => {}
        }
        if wr.op.is_read_or_atomic() && (ty != QpType::Rc || self.max_reads == 0) {
            return Err(PostError::Unsupported);
        }
        if ty == QpType::Uc && matches!(wr.op, SendOp::SendInv(_)) {
            return Err(PostError::Unsupported);
        }
        let packets = match wr.op {
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => 1,
            _ => mtu.packets(len),
        };
        let wqe = Wqe { wr, first: self.next, packets, got: 0, counted: false, resumed: 0 };
        self.sq.push(wqe).map_err(|_| PostError::QueueFull)?;
        self.next = self.next.plus(packets);
        Ok(())
    }

    /// Sends the next packet, new or again.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        draining: bool,
    ) -> Transmit {
        if let Some(until) = self.rnr_until {
            if now < until {
                return self.held(Hold::Rnr, Transmit::Wait(until));
            }
            self.rnr_until = None;
        }
        if self.selective.as_ref().is_some_and(|s| s.has_lost()) {
            return self.transmit_lost(now, conn, mem, slot);
        }
        let Some(wqe) = self.sq.get(self.cursor) else { return self.held(Hold::Nothing, Transmit::Idle) };
        let psn = wqe.first.plus(self.cursor_packet);
        let in_flight = self.una.distance_to(psn);
        if in_flight >= self.window as i32 {
            return self.held(Hold::Window, Transmit::Idle);
        }
        if !self.is_started(self.cursor) && draining {
            return self.held(Hold::Nothing, Transmit::Idle);
        }
        let kind = OpKind::of(&wqe.wr.op);
        if kind.is_read_or_atomic {
            if !wqe.counted && self.reads_out >= self.max_reads {
                return self.held(Hold::Reads, Transmit::Idle);
            }
            // A long READ takes many PSNs at once; half the circle or more must not be outstanding.
            if in_flight as u32 + (wqe.packets - self.cursor_packet) >= 1 << 23 {
                return self.held(Hold::Window, Transmit::Idle);
            }
        }
        // All READs and atomics before the cursor were sent, and none behind it is counted.
        if self.reads_out != 0 && self.cursor_packet == 0 && wqe.wr.flags.fence {
            return self.held(Hold::Fence, Transmit::Idle);
        }
        if kind.takes_recv && !self.is_started(self.cursor) {
            // Requests and their positions are counted from 0 on, messages from 1.
            let number = Msn::new(self.cursor.wrapping_add(1));
            let gate = self.credits.gate(now, number, in_flight == 0, self.timeout);
            if gate != Gate::Open {
                conn.counters.credit_waits += u64::from(self.credits.note_wait(number));
                let outcome =
                    if let Gate::ShutUntil(at) = gate { Transmit::Wait(at) } else { Transmit::Idle };
                return self.held(Hold::Credits, outcome);
            }
        }
        if let Some(pacer) = &self.pacer
            && !pacer.may_send(now)
        {
            let at = pacer.next_at();
            return self.held(Hold::Pacing, Transmit::Wait(at));
        }
        if let Some(until) = self.cc.hold(now) {
            return self.held(Hold::RateControl, Transmit::Wait(until));
        }
        let stalls = in_flight + 1 >= self.window as i32;
        let again = psn.is_before(self.high);
        let segment = self.segment(wqe, psn, kind.is_read_or_atomic || stalls || (again && in_flight == 0));
        let sent = match segment.write(&wqe.wr, conn, mem, slot) {
            Ok(sent) => sent,
            Err(status) => {
                self.break_at_cursor(status);
                return Transmit::Idle;
            }
        };
        self.account(now, conn, sent, &segment, kind, again);
        Transmit::Sent(sent)
    }

    /// As [`Requester::transmit`] for a service without acknowledgements: a request
    /// completes when its last packet is handed over.
    #[inline(never)]
    pub(super) fn transmit_unreliable(
        &mut self,
        now: Instant,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
        draining: bool,
        done: &mut impl Completions,
    ) -> Transmit {
        let Some(wqe) = self.sq.get(self.cursor) else { return self.held(Hold::Nothing, Transmit::Idle) };
        if !self.is_started(self.cursor) && draining {
            return self.held(Hold::Nothing, Transmit::Idle);
        }
        if let Some(pacer) = &self.pacer
            && !pacer.may_send(now)
        {
            let at = pacer.next_at();
            return self.held(Hold::Pacing, Transmit::Wait(at));
        }
        if let Some(until) = self.cc.hold(now) {
            return self.held(Hold::RateControl, Transmit::Wait(until));
        }
        let kind = OpKind::of(&wqe.wr.op);
        let segment = self.segment(wqe, wqe.first.plus(self.cursor_packet), false);
        let sent = match segment.write(&wqe.wr, conn, mem, slot) {
            Ok(sent) => sent,
            Err(status) => {
                self.break_at_cursor(status);
                return Transmit::Idle;
            }
        };
        self.account(now, conn, sent, &segment, kind, false);
        self.deadline = None;
        self.move_una(self.high, conn);
        if self.cursor_packet == 0 {
            // The cursor went on to the next request: this one is done.
            if let Some(wqe) = self.sq.front() {
                complete(conn, wqe, done);
                self.sq.skip();
            }
        }
        Transmit::Sent(sent)
    }

    /// Takes everything up to `through` as acknowledged.  `Err` is the PSN of a READ or
    /// atomic that lies in the way unanswered.
    #[inline]
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        through: Psn,
        conn: &mut Conn,
        done: &mut impl Completions,
    ) -> Result<bool, Psn> {
        let mut moved = false;
        let mut hole = None;
        while let Some(wqe) = self.sq.front() {
            if through.is_before(self.una) {
                break;
            }
            if wqe.wr.op.is_read_or_atomic() {
                let expected = wqe.first.plus(wqe.got);
                hole = (!through.is_before(expected)).then_some(expected);
                break;
            }
            let last = wqe.last();
            if last.is_after(through) {
                moved |= self.move_una(through.plus(1), conn);
                break;
            }
            moved |= self.move_una(last.plus(1), conn);
            self.finish_head(conn, done);
        }
        if moved {
            self.progress(now, conn);
        }
        match hole {
            Some(psn) => Err(psn),
            None => Ok(moved),
        }
    }

    /// Everything before `una` is acknowledged.
    #[inline]
    pub(super) fn move_una(&mut self, una: Psn, conn: &mut Conn) -> bool {
        let by = self.una.distance_to(una).max(0) as u32;
        self.una = una;
        conn.counters.psns_acked += u64::from(by);
        by != 0
    }

    /// The request at the head of the queue is done.
    #[inline]
    pub(super) fn finish_head(&mut self, conn: &mut Conn, done: &mut impl Completions) {
        if let Some(wqe) = self.sq.front() {
            self.reads_out -= u32::from(wqe.counted);
            complete(conn, wqe, done);
            self.sq.skip();
        }
    }

    /// The request at the head of the queue ends with `status`, and with it the queue pair.
    pub(super) fn break_head(&mut self, status: CompletionStatus) {
        self.failure = Some(status);
    }

    /// The request at the cursor cannot be sent.  It ends when those ahead of it have.
    fn break_at_cursor(&mut self, status: CompletionStatus) {
        if self.cursor == self.sq.head() {
            self.break_head(status);
        }
    }

    #[inline]
    pub(super) fn failed(&self) -> bool {
        self.failure.is_some()
    }

    #[inline]
    pub(super) fn take_failure(&mut self) -> Option<CompletionStatus> {
        self.failure.take()
    }

    pub(super) fn pop_head(&mut self) -> Option<(u64, WcOpcode)> {
        self.sq.pop().map(|wqe| (wqe.wr.wr_id, wc_opcode(&wqe.wr.op)))
    }

    /// The queue pair is in error: nothing more is expected for what was sent.
    pub(super) fn stop(&mut self) -> u32 {
        let failed = self.unacknowledged();
        self.deadline = None;
        self.loss = None;
        self.stalled = None;
        self.rnr_until = None;
        self.reads_out = 0;
        self.una = self.high;
        self.next = self.high;
        self.cursor = self.sq.head();
        self.cursor_packet = 0;
        self.started = self.cursor;
        if let Some(selective) = &mut self.selective {
            selective.start(self.high);
        }
        failed
    }

    /// In SQD: whether all started requests have completed, told once.
    pub(super) fn note_drained(&mut self) -> bool {
        let drained = !self.is_started(self.sq.head());
        drained && !core::mem::replace(&mut self.drained_told, true)
    }

    /// Notes why nothing leaves.
    #[inline]
    fn held(&mut self, by: Hold, outcome: Transmit) -> Transmit {
        self.hold = by;
        outcome
    }

    #[inline]
    fn is_started(&self, position: u32) -> bool {
        (position.wrapping_sub(self.started) as i32) < 0
    }

    /// The packet at the cursor, which is of `wqe`.
    #[inline(always)]
    fn segment(&self, wqe: &Wqe, psn: Psn, ask: bool) -> Segment {
        let asks_for = wqe.packets - self.cursor_packet;
        let last = asks_for == 1;
        let ask = last || ask || self.since_ack_request + 1 >= self.ack_request_interval;
        Segment { index: self.cursor_packet, last, asks_for, ask, psn }
    }

    /// The packet at the cursor has left: moves the cursor, the window and the timer.
    #[inline(always)]
    fn account(
        &mut self,
        now: Instant,
        conn: &mut Conn,
        sent: Sent,
        segment: &Segment,
        kind: OpKind,
        again: bool,
    ) {
        let counters = &mut conn.counters;
        counters.tx_data_packets += 1;
        counters.tx_payload_bytes += u64::from(sent.payload());
        counters.retransmits += u64::from(again);
        if again {
            self.note_again(now, conn, segment.psn);
        }
        let mut load = Load { packets: 1, frames: sent.len() as u64, payload: u64::from(sent.payload()) };
        let mut advance = 1;
        if kind.is_read_or_atomic
            && let Some(wqe) = self.sq.get_mut(self.cursor)
        {
            // All of it at once.
            advance = segment.asks_for;
            wqe.resumed = segment.index;
            self.reads_out += u32::from(!core::mem::replace(&mut wqe.counted, true));
            load = Load::of(wqe, segment.index, advance, &sent, conn);
        }
        let next = segment.psn.plus(advance);
        if segment.ask {
            self.since_ack_request = 0;
            self.asked = next.minus(1);
        } else {
            self.since_ack_request += 1;
        }
        if next.is_after(self.high) {
            conn.counters.psns_sent += self.high.distance_to(next) as u64;
            self.high = next;
        }
        if !self.is_started(self.cursor) {
            self.started = self.cursor.wrapping_add(1);
            self.credits.started(kind.takes_recv);
        }
        if advance == segment.asks_for {
            self.cursor = self.cursor.wrapping_add(1);
            self.cursor_packet = 0;
        } else {
            self.cursor_packet += advance;
        }
        if self.deadline.is_none() {
            self.restart_timer(now);
        }
        self.note_sent(now, sent, load);
    }

    /// A packet that left before has left again: how long after it was said to be lost.
    #[cold]
    fn note_again(&mut self, now: Instant, conn: &mut Conn, psn: Psn) {
        if let Some(loss) = &mut self.loss
            && loss.psn == psn
            && !core::mem::replace(&mut loss.resent, true)
        {
            conn.stages.record(Stage::NakToResend, now.since(loss.noticed));
        }
    }

    /// A packet has left: what spaces them learns of it.
    #[inline(always)]
    fn note_sent(&mut self, now: Instant, sent: Sent, load: Load) {
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(now, load.packets, load.frames, load.payload);
        }
        self.cc.on_sent(now, (sent.len() + L1_OVERHEAD) as u64, sent.payload());
        if let Some(gaps) = &mut self.gaps
            && sent.payload() != 0
        {
            gaps.note(now);
        }
    }

    /// A lost packet has left again: counters, timer and pacer.
    pub(super) fn account_again(&mut self, now: Instant, conn: &mut Conn, sent: Sent, load: Load) {
        conn.counters.tx_data_packets += 1;
        conn.counters.tx_payload_bytes += u64::from(sent.payload());
        conn.counters.retransmits += 1;
        if sent.psn().is_after(self.asked) {
            self.asked = sent.psn();
        }
        if self.deadline.is_none() {
            self.restart_timer(now);
        }
        self.note_sent(now, sent, load);
    }
}

/// What kind of operation a request is.
#[derive(Clone, Copy, Debug)]
struct OpKind {
    is_read_or_atomic: bool,
    takes_recv: bool,
}

impl OpKind {
    #[inline(always)]
    fn of(op: &SendOp) -> OpKind {
        OpKind { is_read_or_atomic: op.is_read_or_atomic(), takes_recv: op.takes_recv() }
    }
}

/// What a packet loads the link with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    packets: u32,
    frames: u64,
    payload: u64,
}

impl Load {
    /// Of a request that asks for `asks_for` packets from packet `k` on.  What a READ loads the
    /// link with is its answer: first and last packet have an AETH, the last one a pad.
    pub(super) fn of(wqe: &Wqe, k: u32, asks_for: u32, sent: &Sent, conn: &Conn) -> Load {
        let SendOp::Read { .. } = wqe.wr.op else {
            return Load { packets: 1, frames: sent.len() as u64, payload: u64::from(sent.payload()) };
        };
        let shift = conn.mtu.shift();
        let payload = u64::from((wqe.wr.sge.len - (k << shift)).min(asks_for << shift));
        let aeths = if asks_for == 1 { 1 } else { 2 };
        let headers = u64::from(asks_for) * (conn.template.headers_len() + ICRC_LEN) as u64;
        let frames = payload + headers + aeths * Aeth::LEN as u64 + (payload.wrapping_neg() & 3);
        Load { packets: asks_for, frames, payload }
    }
}

#[inline(always)]
fn complete(conn: &Conn, wqe: &Wqe, done: &mut impl Completions) {
    if wqe.wr.flags.signaled {
        done.complete(Completion {
            wr_id: wqe.wr.wr_id,
            status: CompletionStatus::Success,
            opcode: wc_opcode(&wqe.wr.op),
            byte_len: wqe.wr.sge.len,
            imm: None,
            invalidated: None,
            src_qp: None,
            grh: false,
            solicited: false,
            qpn: conn.qpn,
        });
    }
}

const fn wc_opcode(op: &SendOp) -> WcOpcode {
    match op {
        SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::Datagram(_) => WcOpcode::Send,
        SendOp::Write { .. } | SendOp::WriteImm { .. } => WcOpcode::RdmaWrite,
        SendOp::Read { .. } => WcOpcode::RdmaRead,
        SendOp::CompareSwap { .. } => WcOpcode::CompareSwap,
        SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::credits::Advertised;
    use crate::transport::{QpCounters, StageLog};
    use crate::units::Qpn;
    use crate::verbs::{Access, CompletionQueue, Pd, SendFlags, Sge};
    use crate::wire::{Gid, MacAddr, Route, Template};

    /// The longest message at the smallest MTU takes half the circle of PSNs: its first PSN soon
    /// lies too far behind for comparisons, the window does not.
    #[test]
    fn two_gib_at_mtu_256_is_acknowledged_to_its_end() {
        let route = Route {
            src_mac: MacAddr([0; 6]),
            dst_mac: MacAddr([0; 6]),
            vlan: None,
            src: Gid::default(),
            dst: Gid::default(),
            tos: 0,
            hop_limit: 1,
            flow_label: 0,
            sport: 0,
        };
        let mut conn = Conn {
            qpn: Qpn::new(2),
            pd: Pd(0),
            mtu: Mtu::B256,
            access: Access::NONE,
            unreliable: false,
            datagrams: None,
            advertised: Advertised::new(false),
            template: Template::new(&route, 0xFFFF, Qpn::new(3)),
            counters: QpCounters::default(),
            stages: StageLog::default(),
        };
        let mut requester = Requester::new(2, 1 << 22, Recovery::GoBackN, false);
        let first = Psn::new(0xFF_0000);
        let attrs = RtsAttrs { sq_psn: first, timeout: 0, retry_cnt: 0, rnr_retry: 0, max_rd_atomic: 0 };
        requester.start(&attrs);
        let wr = SendWr {
            wr_id: 1,
            op: SendOp::Send,
            sge: Sge { len: MAX_MESSAGE, ..Sge::default() },
            flags: SendFlags { signaled: true, ..SendFlags::default() },
        };
        requester.post(wr, Mtu::B256, QpType::Rc).unwrap();
        let small = SendWr { sge: Sge { len: 2560, ..Sge::default() }, ..wr };
        requester.post(small, Mtu::B256, QpType::Rc).unwrap();
        let mut done = CompletionQueue::new(4);
        let step = 1 << 21;
        // The last step acknowledges the end of the one and all of the other.
        for sent in [step, 2 * step, 3 * step, 4 * step + 10] {
            requester.high = first.plus(sent);
            let through = requester.high.minus(1);
            assert_eq!(requester.acknowledge(Instant::ZERO, through, &mut conn, &mut done), Ok(true));
            assert_eq!(requester.una, requester.high, "after {sent} packets");
        }
        assert_eq!((requester.outstanding(), done.len()), (0, 2));
        assert_eq!(conn.counters.psns_acked, (1 << 23) + 10);
    }
}
