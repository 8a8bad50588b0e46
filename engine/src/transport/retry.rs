//! What the requester does when answers stay away: timers, retries, going back.

use super::qp::{Conn, Recovery};
use super::requester::Requester;
use super::stages::Stage;
use crate::units::{Duration, Instant, Psn};
use crate::verbs::CompletionStatus;

/// A packet that the peer said is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) psn: Psn,
    pub(super) noticed: Instant,
    pub(super) resent: bool,
}

impl Requester {
    /// The peer moved the window: counters are reloaded, the timer starts again.
    #[inline]
    pub(super) fn progress(&mut self, now: Instant, conn: &mut Conn) {
        if let Some(since) = self.stalled.take() {
            conn.stages.record(Stage::Stall, now.since(since));
        }
        if let Some(loss) = self.loss
            && loss.psn.is_before(self.una)
        {
            self.loss = None;
            conn.stages.record(Stage::NakToRecovered, now.since(loss.noticed));
        }
        self.retry_left = self.retry_cnt;
        self.rnr_left = self.rnr_retry;
        self.held = None;
        self.last_nak = None;
        self.restart_timer(now);
        self.skip_acknowledged();
    }

    /// The timer guards the oldest unacknowledged packet, when a response to it was asked for:
    /// a peer that was not asked may be silent for ever.
    #[inline]
    pub(super) fn restart_timer(&mut self, now: Instant) {
        self.waiting_since = now;
        self.deadline = match self.timer() {
            Some(t) if !self.asked.is_before(self.una) => Some(now + t),
            _ => None,
        };
    }

    /// The timer that suits what is outstanding.
    #[inline]
    fn timer(&self) -> Option<Duration> {
        match &self.selective {
            Some(s) if self.unacknowledged() <= Recovery::FEW => s.low_timeout.or(self.timeout),
            _ => self.timeout,
        }
    }

    /// What was acknowledged while going back is not sent again.
    #[inline]
    fn skip_acknowledged(&mut self) {
        let head = self.sq.head();
        if (self.cursor.wrapping_sub(head) as i32) < 0 {
            self.cursor = head;
            self.cursor_packet = 0;
        }
        if self.cursor == head
            && let Some(wqe) = self.sq.front()
        {
            let done = wqe.first.distance_to(self.una);
            if done > self.cursor_packet as i32 && (done as u32) < wqe.packets {
                self.cursor_packet = done as u32;
            }
        }
    }

    pub(super) fn on_deadline(&mut self, now: Instant, conn: &mut Conn) {
        if self.rnr_until.is_some_and(|t| now >= t) {
            self.rnr_until = None;
        }
        if self.deadline.is_none_or(|t| now < t) {
            return;
        }
        if let Some(timer) = self.timer()
            && self.waiting_since + timer > now
        {
            // It was started for fewer packets.
            self.deadline = Some(self.waiting_since + timer);
            return;
        }
        conn.counters.local_ack_timeout_err += 1;
        self.cc.on_loss(now);
        self.stalled = self.stalled.or(Some(self.waiting_since));
        self.held = None;
        self.loss = None;
        if self.selective.is_some() {
            self.resend_all(now);
        } else {
            self.go_back(self.una);
        }
    }

    /// Resends from `psn` at the cost of a retry.
    pub(super) fn go_back(&mut self, psn: Psn) {
        if self.take_retry() {
            self.rewind(psn);
        }
    }

    /// Whether there is a retry left; without, the request at the head fails.
    pub(super) fn take_retry(&mut self) -> bool {
        if self.retry_left == 0 {
            self.break_head(CompletionStatus::RetryExcErr);
            return false;
        }
        self.retry_left -= 1;
        true
    }

    /// No timer runs until the next packet leaves.
    pub(super) fn stop_timer(&mut self) {
        self.deadline = None;
    }

    /// `psn` was said to be lost.
    pub(super) fn note_loss(&mut self, now: Instant, psn: Psn) {
        if self.loss.is_none_or(|l| l.psn != psn) {
            self.loss = Some(Loss { psn, noticed: now, resent: false });
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match (self.deadline, self.rnr_until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Goes back to the packet with `psn`, the oldest that is unacknowledged.  The timer starts
    /// when it leaves again, which may be much later.
    pub(super) fn rewind(&mut self, psn: Psn) {
        self.asked = psn.minus(1);
        self.deadline = None;
        let mut position = self.sq.head();
        while let Some(wqe) = self.sq.get(position) {
            if !wqe.last().is_before(psn) {
                break;
            }
            position = position.wrapping_add(1);
        }
        let Some(wqe) = self.sq.get(position) else { return };
        self.cursor = position;
        self.cursor_packet = wqe.first.distance_to(psn).max(0) as u32;
        let mut at = position;
        while at != self.started {
            if let Some(wqe) = self.sq.get_mut(at)
                && wqe.counted
            {
                wqe.counted = false;
                self.reads_out -= 1;
            }
            at = at.wrapping_add(1);
        }
    }
}

/// The span that a timer code stands for; 0 is no timer.
pub(super) fn timer(code: u8) -> Option<Duration> {
    (code != 0).then(|| Duration::from_nanos(4096 << code))
}
