//! Selective repeat, the sending side: what is known of each packet, and what is sent again.
//!
//! In the manner of IRN: the peer keeps what comes out of order and says so, only what is missing
//! is sent again, and the window bounds what is under way.  A packet counts as lost when one that
//! was sent after it has come; one that was sent again counts as lost again when a packet that
//! first left after that has come.  So only the last packets of all need the timer.
//!
//! For READs and atomics this side is the receiver of the answers: what is missing of an answer is
//! asked for again by a READ request for just that part.

use super::completer::refusal;
use super::psn_set::PsnSet;
use super::qp::{Conn, Transmit, Verdict};
use super::requester::{Load, Requester, Wqe};
use super::segment::Segment;
use super::stages::Stage;
use crate::units::{Duration, Instant, Psn};
use crate::verbs::{CompletionStatus, Completions, Memory, SendOp};
use crate::wire::{AethKind, DropReason, Kind, NakCode, Packet, SackBlock, Slot};
use std::collections::VecDeque;

/// What is known of the packets between the oldest that is unacknowledged and the newest.
#[derive(Debug)]
pub(super) struct Selective {
    /// Requests that the peer keeps until those before them have come.
    kept: PsnSet,
    /// Responses that have come.
    answered: PsnSet,
    /// Lost packets by PSN; never more than the window.
    lost: VecDeque<Lost>,
    /// Those of them that have not been sent again.
    waiting: usize,
    /// Requests before it were executed.
    executed: Psn,
    /// Requests before it have come or are among the lost.
    told: Psn,
    /// Responses before it have come or are among the lost.
    judged: Psn,
    pub(super) low_timeout: Option<Duration>,
}

/// A lost packet: a request, or part of the answer of an executed one.
#[derive(Clone, Copy, Debug)]
struct Lost {
    psn: Psn,
    answer: bool,
    noticed: Instant,
    /// The timer found it: its stages are not those of a NAK.
    by_timer: bool,
    /// It was sent again, at least once.
    repeated: bool,
    /// The next PSN to leave for the first time, when it was sent again; `None` while it waits.
    resent: Option<Psn>,
}

impl Selective {
    pub(super) fn new(window: u32, low_timeout: Option<Duration>) -> Selective {
        let kept = PsnSet::new(window);
        let first = Psn::new(0);
        Selective {
            lost: VecDeque::with_capacity(kept.size() as usize),
            answered: PsnSet::new(window),
            kept,
            waiting: 0,
            executed: first,
            told: first,
            judged: first,
            low_timeout,
        }
    }

    /// Nothing is outstanding, `next` is sent next.
    pub(super) fn start(&mut self, next: Psn) {
        self.kept.clear();
        self.answered.clear();
        self.lost.clear();
        self.waiting = 0;
        self.executed = next;
        self.told = next;
        self.judged = next;
    }

    /// Whether something waits to be sent again.
    #[inline]
    pub(super) fn has_lost(&self) -> bool {
        self.waiting != 0
    }

    /// Remembers a lost packet, unless it is known.
    fn lose(&mut self, now: Instant, psn: Psn, answer: bool, by_timer: bool) {
        let at = self.lost.partition_point(|l| l.psn.is_before(psn));
        let full = self.lost.len() == self.lost.capacity();
        match self.lost.get_mut(at) {
            Some(known) if known.psn == psn => {
                if by_timer {
                    known.by_timer = true;
                    self.waiting += usize::from(known.resent.take().is_some());
                }
            }
            _ if full => {}
            _ => {
                let lost = Lost { psn, answer, noticed: now, by_timer, repeated: false, resent: None };
                self.lost.insert(at, lost);
                self.waiting += 1;
            }
        }
    }

    /// Strikes what has come off the list; what was sent again and is lost again waits again.
    fn review(&mut self, now: Instant, una: Psn, conn: &mut Conn) {
        let Selective { kept, answered, lost, waiting, executed, told, .. } = self;
        lost.retain_mut(|l| {
            let come = l.psn.is_before(una)
                || if l.answer {
                    answered.contains(l.psn)
                } else {
                    l.psn.is_before(*executed) || kept.contains(l.psn)
                };
            if come {
                *waiting -= usize::from(l.resent.is_none());
                if l.repeated && !l.by_timer {
                    conn.stages.record(Stage::NakToRecovered, now.since(l.noticed));
                }
                return false;
            }
            if l.resent.is_some_and(|high| high.is_before(*told)) {
                l.resent = None;
                *waiting += 1;
            }
            true
        });
    }
}

impl Requester {
    /// Takes a response of class RC to something that is outstanding.
    pub(super) fn on_response_selective(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        match p.info.kind {
            Kind::Acknowledge => self.on_acknowledge_selective(now, p, conn, done),
            Kind::ReadResponse | Kind::AtomicAcknowledge => self.on_answer(now, p, conn, mem, done),
            _ => Verdict::Dropped(DropReason::Unsupported),
        }
    }

    fn on_acknowledge_selective(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        let Some(aeth) = p.aeth() else { return Verdict::Dropped(DropReason::Malformed) };
        let kind = aeth.syndrome.kind();
        let blocks = SackBlock::all(p.payload());
        let expects_blocks = kind == AethKind::Nak(NakCode::PsnSequence);
        if !p.payload().is_empty() && (blocks.is_none() || !expects_blocks) {
            return Verdict::Dropped(DropReason::Malformed);
        }
        match kind {
            AethKind::Ack { .. } => {
                if !self.hear(now, psn.plus(1), conn, done) {
                    return Verdict::Dropped(DropReason::StaleResponse);
                }
                conn.counters.acks_received += 1;
                Verdict::Delivered
            }
            // Late: it was ready since, and only an answer before it is missing.
            AethKind::RnrNak { .. } if self.selective.as_ref().is_some_and(|s| psn.is_before(s.executed)) => {
                Verdict::Dropped(DropReason::StaleResponse)
            }
            AethKind::RnrNak { timer } => {
                conn.counters.rnr_nak_retry_err += 1;
                self.hear(now, psn, conn, done);
                if self.start_wait(now, timer) {
                    self.stop_timer();
                    // Whether it was kept or not, it is to be sent again.
                    if let Some(s) = &mut self.selective {
                        s.kept.remove(psn);
                    }
                    self.lose(now, psn, psn.plus(1), true);
                }
                Verdict::Delivered
            }
            AethKind::Nak(NakCode::PsnSequence) => {
                conn.counters.packet_seq_err += 1;
                let moved = self.hear(now, psn, conn, done);
                let waiting = self.selective.as_ref().map_or(0, |s| s.waiting);
                let news = match blocks {
                    Some(blocks) => self.on_blocks(now, blocks, conn),
                    None => false,
                };
                self.lose(now, psn, psn.plus(1), false);
                if news {
                    self.progress(now, conn);
                }
                let lost = self.selective.as_ref().is_some_and(|s| s.waiting > waiting);
                if lost {
                    self.cc.on_loss(now);
                }
                if moved || news || lost {
                    Verdict::Delivered
                } else {
                    Verdict::Dropped(DropReason::DuplicateDropped)
                }
            }
            AethKind::Nak(code) => {
                let Some(status) = refusal(code, conn) else {
                    return Verdict::Dropped(DropReason::Unsupported);
                };
                // A READ that lies before the refused request unanswered ends in its place: the
                // peer is in error and will not answer it.
                self.hear(now, psn, conn, done);
                self.break_head(status);
                Verdict::Delivered
            }
            AethKind::Reserved => Verdict::Dropped(DropReason::Unsupported),
        }
    }

    /// The peer keeps what the blocks name: what was sent before it and is not kept is lost.
    /// Whether something in them is new.
    fn on_blocks(&mut self, now: Instant, blocks: impl Iterator<Item = SackBlock>, conn: &mut Conn) -> bool {
        let (una, high) = (self.una, self.high);
        let Some(s) = &mut self.selective else { return false };
        let mut news = 0;
        let (told, mut newest, mut end) = (s.told, s.told, s.told);
        for block in blocks {
            let from = if block.from.is_before(s.executed) { s.executed } else { block.from };
            // Nothing beyond what was sent, whatever the peer says.
            let to = if block.to.is_after(high) { high } else { block.to };
            let count = from.distance_to(to);
            if count <= 0 || una.distance_to(to) as u32 > s.kept.size() {
                continue;
            }
            news += s.kept.insert_run(from, count as u32);
            if from.is_after(newest) {
                newest = from;
            }
            if to.is_after(end) {
                end = to;
            }
        }
        s.told = end;
        self.lose(now, told, newest, false);
        if let Some(s) = &mut self.selective {
            s.review(now, una, conn);
        }
        news != 0
    }

    /// The peer has executed what lies before `through` and has sent the answers.  Whether that is
    /// news.
    fn hear(&mut self, now: Instant, through: Psn, conn: &mut Conn, done: &mut impl Completions) -> bool {
        let una = self.una;
        let Some(s) = &mut self.selective else { return false };
        let news = through.is_after(s.executed);
        if news {
            s.executed = through;
            if through.is_after(s.told) {
                s.told = through;
            }
            s.review(now, una, conn);
        }
        if through.is_after(s.judged) {
            let judged = core::mem::replace(&mut s.judged, through);
            self.lose(now, judged, through, false);
        }
        if news {
            self.advance(now, conn, done);
        }
        news
    }

    /// Takes an answer: READ data or an atomic's original value, wherever in the window it belongs.
    fn on_answer(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        let stale = Verdict::Dropped(DropReason::StaleResponse);
        let Some(position) = self.find(psn) else { return stale };
        let (Some(wqe), Some(s)) = (self.sq.get(position), &self.selective) else { return stale };
        if s.answered.contains(psn) {
            conn.counters.duplicate_response += 1;
            return stale;
        }
        if self.una.distance_to(psn) as u32 >= s.answered.size() {
            return Verdict::Dropped(DropReason::OutOfSequenceDropped);
        }
        let sge = wqe.wr.sge;
        let last = wqe.last();
        let k = wqe.first.distance_to(psn) as u32;
        let refused = p.aeth().is_some_and(|a| !matches!(a.syndrome.kind(), AethKind::Ack { .. }));
        let original;
        let (bytes, at) = match (wqe.wr.op, p.info.kind, p.atomic_ack()) {
            _ if refused => {
                self.break_head(CompletionStatus::BadRespErr);
                return Verdict::Dropped(DropReason::Unsupported);
            }
            (SendOp::Read { .. }, Kind::ReadResponse, _) => {
                let offset = k << conn.mtu.shift();
                let want = (sge.len - offset).min(conn.mtu.bytes() as u32);
                if p.payload().len() != want as usize {
                    self.break_head(CompletionStatus::LocLenErr);
                    return Verdict::Dropped(DropReason::LengthError);
                }
                (p.payload(), sge.addr.wrapping_add(u64::from(offset)))
            }
            (SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }, Kind::AtomicAcknowledge, Some(ack))
                if p.payload().is_empty() =>
            {
                original = ack.original.to_ne_bytes();
                (&original[..], sge.addr)
            }
            _ => {
                self.break_head(CompletionStatus::BadRespErr);
                return Verdict::Dropped(DropReason::Unsupported);
            }
        };
        if !bytes.is_empty() {
            match mem.local_mut(sge.lkey, at, bytes.len() as u32) {
                Ok(sink) => sink.copy_from_slice(bytes),
                Err(_) => {
                    self.break_head(CompletionStatus::LocProtErr);
                    return Verdict::Dropped(DropReason::AccessError);
                }
            }
        }
        conn.counters.rx_response_packets += 1;
        conn.counters.rx_payload_bytes += bytes.len() as u64;
        if let Some(s) = &mut self.selective {
            s.answered.insert(psn);
        }
        // It also says that all before it was executed and answered, and all of its own request
        // executed.
        self.hear(now, psn, conn, done);
        if let Some(s) = &mut self.selective {
            let next = last.plus(1);
            if next.is_after(s.executed) {
                s.executed = next;
            }
            if next.is_after(s.told) {
                s.told = next;
            }
            if psn.plus(1).is_after(s.judged) {
                s.judged = psn.plus(1);
            }
            s.review(now, self.una, conn);
        }
        if !self.advance(now, conn, done) {
            self.progress(now, conn);
        }
        Verdict::Delivered
    }

    /// Completes what is executed and answered, in order.  Whether something moved.
    fn advance(&mut self, now: Instant, conn: &mut Conn, done: &mut impl Completions) -> bool {
        let before = self.una;
        while let (Some(wqe), Some(s)) = (self.sq.front_mut(), &mut self.selective) {
            if self.una == self.high {
                break;
            }
            let end = wqe.last().plus(1);
            let done_to = if wqe.wr.op.is_read_or_atomic() {
                let come = s.answered.run_from(self.una, wqe.packets - wqe.got);
                wqe.got += come;
                self.una.plus(come)
            } else if s.executed.is_before(end) {
                s.executed
            } else {
                end
            };
            let by = self.una.distance_to(done_to).max(0) as u32;
            s.kept.remove_run(self.una, by);
            s.answered.remove_run(self.una, by);
            if by != 0 {
                self.move_una(done_to, conn);
            }
            if done_to != end {
                break;
            }
            self.finish_head(conn, done);
        }
        let una = self.una;
        if una == before {
            return false;
        }
        if let Some(s) = &mut self.selective {
            for frontier in [&mut s.told, &mut s.judged, &mut s.executed] {
                if frontier.is_before(una) {
                    *frontier = una;
                }
            }
            s.review(now, una, conn);
        }
        self.progress(now, conn);
        true
    }

    /// The timer ran out: all that is outstanding and has not come is sent again.
    pub(super) fn resend_all(&mut self, now: Instant) {
        if self.take_retry() {
            self.stop_timer();
            if let Some(s) = &mut self.selective {
                // What was kept may have been executed since, and the answer lost.
                s.kept.remove(self.una);
            }
            self.lose(now, self.una, self.high, true);
        }
    }

    /// Takes the packets between two PSNs that have not come as lost.
    fn lose(&mut self, now: Instant, from: Psn, to: Psn, by_timer: bool) {
        let mut psn = if from.is_before(self.una) { self.una } else { from };
        while psn.is_before(to) {
            let Some(position) = self.find(psn) else { break };
            let (Some(wqe), Some(s)) = (self.sq.get(position), &mut self.selective) else { break };
            if self.una.distance_to(psn) as u32 >= s.kept.size() {
                break;
            }
            let executed = psn.is_before(s.executed);
            match (wqe.wr.op.is_read_or_atomic(), executed) {
                // Executed, and only waits for an answer that lies before it.
                (false, true) => {}
                (true, true) => {
                    if !s.answered.contains(psn) {
                        s.lose(now, psn, true, by_timer);
                    }
                }
                (_, false) => {
                    if !s.kept.contains(psn) {
                        s.lose(now, psn, false, by_timer);
                    }
                }
            }
            // A request that was not executed is one packet, whatever its answer takes.
            let whole = wqe.wr.op.is_read_or_atomic() && !executed;
            psn = if whole { wqe.last().plus(1) } else { psn.plus(1) };
        }
    }

    /// Sends the oldest lost packet again, or asks again for the oldest part of an answer.
    #[inline(never)]
    pub(super) fn transmit_lost(
        &mut self,
        now: Instant,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
    ) -> Transmit {
        if let Some(pacer) = &self.pacer
            && !pacer.may_send(now)
        {
            return Transmit::Wait(pacer.next_at());
        }
        if let Some(until) = self.cc.hold(now) {
            return Transmit::Wait(until);
        }
        let oldest = self.selective.as_ref().and_then(|s| {
            let index = s.lost.iter().position(|l| l.resent.is_none())?;
            Some((index, s.lost[index].psn))
        });
        let Some((index, psn)) = oldest else { return Transmit::Idle };
        let Some(position) = self.find(psn) else { return Transmit::Idle };
        let (Some(wqe), Some(s)) = (self.sq.get(position), &mut self.selective) else {
            return Transmit::Idle;
        };
        let k = wqe.first.distance_to(psn) as u32;
        let (asks_for, entries) = match wqe.wr.op {
            // Not executed: all of it.
            SendOp::Read { .. } if !psn.is_before(s.executed) => (wqe.packets - k, 1),
            SendOp::Read { .. } => {
                let run = run_of(&s.lost, index, psn, wqe, s.executed);
                (run, run as usize)
            }
            _ => (1, 1),
        };
        let segment = Segment { index: k, last: k + 1 == wqe.packets, asks_for, ask: true, psn };
        let sent = match segment.write(&wqe.wr, conn, mem, slot) {
            Ok(sent) => sent,
            Err(status) => {
                if position == self.sq.head() {
                    self.break_head(status);
                }
                return Transmit::Idle;
            }
        };
        let load = Load::of(wqe, k, asks_for, &sent, conn);
        for lost in s.lost.range_mut(index..index + entries) {
            lost.resent = Some(self.high);
            if !core::mem::replace(&mut lost.repeated, true) && !lost.by_timer {
                conn.stages.record(Stage::NakToResend, now.since(lost.noticed));
            }
        }
        s.waiting -= entries;
        self.account_again(now, conn, sent, load);
        Transmit::Sent(sent)
    }

    /// The position of the sent request that `psn` belongs to.
    fn find(&self, psn: Psn) -> Option<u32> {
        let mut from = self.sq.head();
        let mut count = self.started.wrapping_sub(from).min(self.sq.len());
        while count != 0 {
            let half = count / 2;
            let middle = from.wrapping_add(half);
            if self.sq.get(middle)?.last().is_before(psn) {
                from = middle.wrapping_add(1);
                count -= half + 1;
            } else {
                count = half;
            }
        }
        (from != self.started && self.sq.get(from).is_some()).then_some(from)
    }
}

/// How many lost parts of the answer, from `lost[index]` on, one READ request can ask for.
fn run_of(lost: &VecDeque<Lost>, index: usize, psn: Psn, wqe: &Wqe, executed: Psn) -> u32 {
    let fits = |n: u32| {
        let next = psn.plus(n);
        !next.is_after(wqe.last())
            && next.is_before(executed)
            && lost.get(index + n as usize).is_some_and(|l| l.psn == next && l.resent.is_none())
    };
    (0..).take_while(|n| fits(*n)).count() as u32
}
