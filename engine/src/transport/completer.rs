//! The completer: what the peer's responses do to the requester.

use super::qp::{Conn, Verdict};
use super::requester::Requester;
use crate::units::{Instant, Psn};
use crate::verbs::{CompletionStatus, Completions, Memory, SendOp};
use crate::wire::{AethKind, DropReason, Kind, NakCode, Packet, Position, rnr_delay};

impl Requester {
    /// Takes a response of class RC.
    #[inline]
    pub(super) fn on_response(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        if !psn.is_before(self.high) {
            return Verdict::Dropped(DropReason::GhostAck);
        }
        let credits = self.credits.hear(p.aeth());
        if psn.is_before(self.una) {
            conn.counters.duplicate_response += u64::from(p.info.kind != Kind::Acknowledge);
            return if credits { Verdict::Delivered } else { Verdict::Dropped(DropReason::StaleResponse) };
        }
        if self.selective.is_some() {
            return self.on_response_selective(now, p, conn, mem, done);
        }
        if p.info.kind != Kind::ReadResponse && p.payload_len() != 0 {
            return Verdict::Dropped(DropReason::Malformed);
        }
        match p.info.kind {
            Kind::Acknowledge => self.on_acknowledge(now, p, conn, done),
            Kind::ReadResponse => self.on_read_response(now, p, conn, mem, done),
            Kind::AtomicAcknowledge => self.on_atomic_acknowledge(now, p, conn, mem, done),
            _ => Verdict::Dropped(DropReason::Unsupported),
        }
    }

    #[inline]
    fn on_acknowledge(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        let Some(aeth) = p.aeth() else { return Verdict::Dropped(DropReason::Malformed) };
        match aeth.syndrome.kind() {
            AethKind::Ack { .. } => match self.acknowledge(now, psn, conn, done) {
                Ok(true) => {
                    conn.counters.acks_received += 1;
                    Verdict::Delivered
                }
                Ok(false) => Verdict::Dropped(DropReason::StaleResponse),
                Err(hole) => self.response_lost(now, hole, conn),
            },
            AethKind::RnrNak { timer } => {
                conn.counters.rnr_nak_retry_err += 1;
                if let Err(hole) = self.acknowledge(now, psn.minus(1), conn, done) {
                    return self.response_lost(now, hole, conn);
                }
                self.on_receiver_not_ready(now, psn, timer);
                Verdict::Delivered
            }
            AethKind::Nak(NakCode::PsnSequence) => {
                conn.counters.packet_seq_err += 1;
                if let Err(hole) = self.acknowledge(now, psn.minus(1), conn, done) {
                    return self.response_lost(now, hole, conn);
                }
                self.on_sequence_nak(now, psn)
            }
            AethKind::Nak(code) => {
                let Some(status) = refusal(code, conn) else {
                    return Verdict::Dropped(DropReason::Unsupported);
                };
                // A READ that lies before the refused request unanswered ends in its place:
                // the peer is in error and will not answer it.
                let _ = self.acknowledge(now, psn.minus(1), conn, done);
                self.break_head(status);
                Verdict::Delivered
            }
            AethKind::Reserved => Verdict::Dropped(DropReason::Unsupported),
        }
    }

    /// RNR NAK: nothing leaves for the time that the peer asks for, then all again from `psn`.
    fn on_receiver_not_ready(&mut self, now: Instant, psn: Psn, timer: u8) {
        if self.start_wait(now, timer) {
            self.rewind(psn);
            self.held = None;
        }
    }

    /// Nothing leaves for the time that the peer asks for.  Whether that is new: one wait at a time,
    /// what arrives in it neither cuts nor extends it.
    pub(super) fn start_wait(&mut self, now: Instant, timer: u8) -> bool {
        const FOR_EVER: u8 = 7;
        if self.rnr_until.is_some() {
            return false;
        }
        if self.rnr_left == 0 {
            self.break_head(CompletionStatus::RnrRetryExcErr);
            return false;
        }
        if self.rnr_left != FOR_EVER {
            self.rnr_left -= 1;
        }
        self.rnr_until = Some(now + rnr_delay(timer));
        true
    }

    /// Sequence NAK: all again from `psn`, once.
    fn on_sequence_nak(&mut self, now: Instant, psn: Psn) -> Verdict {
        if self.rnr_until.is_some() || self.held == Some(psn) {
            return Verdict::Dropped(DropReason::DuplicateDropped);
        }
        self.held = Some(psn);
        self.cc.on_loss(now);
        self.note_loss(now, psn);
        if self.last_nak.replace(psn) == Some(psn) {
            self.go_back(psn);
        } else {
            self.rewind(psn);
        }
        Verdict::Delivered
    }

    /// The response with PSN `hole` was lost: what came implies a NAK for it.
    fn response_lost(&mut self, now: Instant, hole: Psn, conn: &mut Conn) -> Verdict {
        if self.rnr_until.is_some() || self.held == Some(hole) {
            return Verdict::Dropped(DropReason::OutOfSequenceDropped);
        }
        conn.counters.implied_nak_seq_err += 1;
        self.held = Some(hole);
        self.note_loss(now, hole);
        self.rewind(hole);
        Verdict::Delivered
    }

    #[inline]
    fn on_read_response(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        if p.aeth().is_some_and(|a| !matches!(a.syndrome.kind(), AethKind::Ack { .. })) {
            self.break_head(CompletionStatus::BadRespErr);
            return Verdict::Dropped(DropReason::Unsupported);
        }
        if let Err(hole) = self.acknowledge(now, psn.minus(1), conn, done) {
            return self.response_lost(now, hole, conn);
        }
        let mtu = conn.mtu;
        let Some(wqe) = self.sq.front_mut() else { return Verdict::Dropped(DropReason::StaleResponse) };
        let SendOp::Read { .. } = wqe.wr.op else {
            self.break_head(CompletionStatus::BadRespErr);
            return Verdict::Dropped(DropReason::Unsupported);
        };
        // Every earlier response is in, or `acknowledge` would have found the hole.
        let k = wqe.got;
        let last = k + 1 == wqe.packets;
        let offset = k << mtu.shift();
        let want = (wqe.wr.sge.len - offset).min(mtu.bytes() as u32);
        // A READ that was asked again from its middle begins anew, or goes on as before.
        let begins = k == 0 || k == wqe.resumed;
        let continues = k != 0;
        let fits = match p.info.position {
            Position::First => begins && !last,
            Position::Middle => continues && !last,
            Position::Last => continues && last,
            Position::Only => begins && last,
        };
        if p.payload_len() != want as usize {
            self.break_head(CompletionStatus::LocLenErr);
            return Verdict::Dropped(DropReason::LengthError);
        }
        if !fits {
            // More responses than asked for, or fewer, are a length error too.
            let too_long = last && matches!(p.info.position, Position::First | Position::Middle);
            let too_short = !last && matches!(p.info.position, Position::Last | Position::Only);
            self.break_head(if too_long || too_short {
                CompletionStatus::LocLenErr
            } else {
                CompletionStatus::BadRespErr
            });
            return Verdict::Dropped(DropReason::LengthError);
        }
        let sge = wqe.wr.sge;
        if want != 0 {
            match mem.sink(conn.pd, sge.lkey, sge.addr.wrapping_add(u64::from(offset)), want) {
                Ok(sink) => p.copy_payload(sink),
                Err(_) => {
                    self.break_head(CompletionStatus::LocProtErr);
                    return Verdict::Dropped(DropReason::AccessError);
                }
            }
        }
        wqe.got += 1;
        self.move_una(psn.plus(1), conn);
        if last {
            self.finish_head(conn, done);
        }
        self.progress(now, conn);
        conn.counters.rx_response_packets += 1;
        conn.counters.rx_payload_bytes += u64::from(want);
        Verdict::Delivered
    }

    fn on_atomic_acknowledge(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        conn: &mut Conn,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        let Some(ack) = p.atomic_ack() else { return Verdict::Dropped(DropReason::Malformed) };
        if p.aeth().is_some_and(|a| !matches!(a.syndrome.kind(), AethKind::Ack { .. })) {
            self.break_head(CompletionStatus::BadRespErr);
            return Verdict::Dropped(DropReason::Unsupported);
        }
        if let Err(hole) = self.acknowledge(now, psn.minus(1), conn, done) {
            return self.response_lost(now, hole, conn);
        }
        let Some(wqe) = self.sq.front() else { return Verdict::Dropped(DropReason::StaleResponse) };
        let (SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }) = wqe.wr.op else {
            self.break_head(CompletionStatus::BadRespErr);
            return Verdict::Dropped(DropReason::Unsupported);
        };
        let sge = wqe.wr.sge;
        match mem.sink(conn.pd, sge.lkey, sge.addr, 8) {
            Ok(sink) => sink.copy_from_slice(&ack.original.to_ne_bytes()),
            Err(_) => {
                self.break_head(CompletionStatus::LocProtErr);
                return Verdict::Dropped(DropReason::AccessError);
            }
        }
        self.move_una(psn.plus(1), conn);
        self.finish_head(conn, done);
        self.progress(now, conn);
        conn.counters.rx_response_packets += 1;
        conn.counters.rx_payload_bytes += 8;
        Verdict::Delivered
    }
}

/// How the refused request completes, counted; `None` for codes without meaning here.
pub(super) fn refusal(code: NakCode, conn: &mut Conn) -> Option<CompletionStatus> {
    let counters = &mut conn.counters;
    let (status, counter) = match code {
        NakCode::InvalidRequest => (CompletionStatus::RemInvReqErr, &mut counters.req_remote_invalid_request),
        NakCode::RemoteAccess => (CompletionStatus::RemAccessErr, &mut counters.req_remote_access_errors),
        NakCode::RemoteOperational => (CompletionStatus::RemOpErr, &mut counters.req_remote_op_errors),
        _ => return None,
    };
    *counter += 1;
    Some(status)
}
