//! End-to-end credits: a requester starts no more messages than the responder has receive requests
//! for.
//!
//! Each ACK carries the messages that the responder has completed (its MSN) and the receive
//! requests that it has left: the requester may start messages up to the number that both sum up
//! to.  Messages that take no receive request move that limit by one as they start.

use crate::units::{Duration, Instant, Msn};
use crate::wire::{Aeth, AethKind, Syndrome, credit_code, credits};

/// What a requester knows of the responder's receive requests.
#[derive(Debug)]
pub(super) struct Credits {
    /// The last message for which there is one; `None` when nothing limits.
    limit: Option<Msn>,
    /// The responder has said something.
    heard: bool,
    /// Since when a message waits while nothing is outstanding that could bring credits.
    stuck: Option<Instant>,
    /// The last message that was counted as waiting.
    waited: Option<Msn>,
}

/// Whether a message may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// When the responder says that it has room.
    Shut,
    /// Then, or at this instant.
    ShutUntil(Instant),
}

impl Credits {
    /// A requester that has heard nothing yet: one message goes ahead to ask.
    pub(super) fn new(in_force: bool) -> Credits {
        let limit = in_force.then_some(Msn::new(0));
        Credits { limit, heard: false, stuck: None, waited: None }
    }

    /// Takes what an AETH says; whether more may start now.  A responder that once gave up on
    /// credits is not limited any more.
    #[inline]
    pub(super) fn hear(&mut self, aeth: Option<Aeth>) -> bool {
        let (Some(limit), Some(aeth)) = (self.limit, aeth) else { return false };
        let AethKind::Ack { credits: code } = aeth.syndrome.kind() else { return false };
        self.heard = true;
        let told = credits(code).map(|n| aeth.msn.plus(u32::from(n)));
        let moves = told.is_none_or(|told| told.is_after(limit));
        if moves {
            self.limit = told;
            self.stuck = None;
        }
        moves
    }

    /// Whether message `number`, which takes a receive request, may start.  `idle` says that
    /// nothing is outstanding.
    ///
    /// One message beyond the limit may go when nothing else brings credits: a word of the
    /// responder's may be lost.  It waits for as long as an answer may take, since a responder
    /// that is not ready costs an RNR NAK.
    #[inline]
    pub(super) fn gate(&mut self, now: Instant, number: Msn, idle: bool, patience: Option<Duration>) -> Gate {
        let Some(limit) = self.limit else { return Gate::Open };
        let beyond = limit.distance_to(number);
        if beyond <= 0 || (beyond == 1 && !self.heard) {
            return Gate::Open;
        }
        if beyond > 1 || !idle {
            return Gate::Shut;
        }
        let until = *self.stuck.get_or_insert(now) + patience.unwrap_or(Duration::ZERO);
        if now >= until { Gate::Open } else { Gate::ShutUntil(until) }
    }

    /// Message `number` waits; whether this is the first time.
    pub(super) fn note_wait(&mut self, number: Msn) -> bool {
        self.waited.replace(number) != Some(number)
    }

    /// A message has started.
    #[inline]
    pub(super) fn started(&mut self, takes_recv: bool) {
        self.stuck = None;
        if let Some(limit) = &mut self.limit
            && !takes_recv
        {
            *limit = limit.plus(1);
        }
    }
}

/// What a responder has told of its receive requests.
#[derive(Debug)]
pub(super) struct Advertised {
    on: bool,
    /// Receive requests that wait.
    pub(super) receives: u32,
    /// The last message that the requester may start, as far as it was told.
    limit: Option<Msn>,
}

impl Advertised {
    /// A responder that tells nothing unless `on`.
    pub(super) fn new(on: bool) -> Advertised {
        Advertised { on, receives: 0, limit: None }
    }

    /// The syndrome of an ACK with `msn`.
    #[inline]
    pub(super) fn syndrome(&mut self, msn: Msn) -> Syndrome {
        if !self.on {
            return Syndrome::ACK_UNLIMITED;
        }
        let code = credit_code(self.receives);
        let told = msn.plus(credits(code).map_or(0, u32::from));
        if self.limit.is_none_or(|limit| told.is_after(limit)) {
            self.limit = Some(told);
        }
        Syndrome::ack(code)
    }

    /// Whether the requester may wait for a receive request, of which there are some now.
    #[inline]
    pub(super) fn is_news(&self, msn: Msn) -> bool {
        self.receives != 0 && self.limit.is_some_and(|limit| !limit.is_after(msn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aeth(syndrome: u8, msn: u32) -> Option<Aeth> {
        Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(msn) })
    }

    const NOW: Instant = Instant::ZERO;

    fn may_start(c: &mut Credits, number: u32) -> bool {
        c.gate(NOW, Msn::new(number), false, None) == Gate::Open
    }

    #[test]
    fn the_limit_only_moves_forward() {
        let mut c = Credits::new(true);
        assert!(may_start(&mut c, 1) && !may_start(&mut c, 2), "one asks");
        assert!(c.hear(aeth(3, 1)));
        assert!(may_start(&mut c, 4) && !may_start(&mut c, 5));
        assert!(!c.hear(aeth(1, 1)), "an older word");
        assert!(!c.hear(aeth(0x2C, 9)) && !c.hear(aeth(0x60, 9)) && !c.hear(None), "no ACK");
        assert!(may_start(&mut c, 4));
        // 5 credits are code 5, 6 of them: code by code as in the table.
        assert!(c.hear(aeth(5, 1)));
        assert!(may_start(&mut c, 7) && !may_start(&mut c, 8));
        c.started(true);
        assert!(!may_start(&mut c, 8));
        c.started(false);
        assert!(may_start(&mut c, 8) && !may_start(&mut c, 9));
        assert!(c.hear(aeth(0x1F, 0)));
        assert!(may_start(&mut c, 0x7F_0000));
        assert!(!c.hear(aeth(0, 1)), "unlimited for ever");
        assert!(may_start(&mut c, 0x7F_0000));
    }

    #[test]
    fn message_numbers_wrap() {
        let mut c = Credits::new(true);
        c.limit = Some(Msn::new(0xFF_FFF0));
        assert!(c.hear(aeth(8, 0xFF_FFFE)));
        assert!(may_start(&mut c, 0xFF_FFFF) && may_start(&mut c, 14) && !may_start(&mut c, 15));
    }

    #[test]
    fn a_message_goes_ahead_when_no_word_comes() {
        let mut c = Credits::new(true);
        c.hear(aeth(0, 1));
        let wait = Some(Duration::from_micros(10));
        let at = |us: u64| NOW + Duration::from_micros(us);
        let number = Msn::new(2);
        assert_eq!(c.gate(at(1), number, false, wait), Gate::Shut, "an answer is due");
        assert_eq!(c.gate(at(5), number, true, wait), Gate::ShutUntil(at(15)));
        assert_eq!(c.gate(at(14), number, true, wait), Gate::ShutUntil(at(15)));
        assert_eq!(c.gate(at(14), Msn::new(3), true, wait), Gate::Shut, "one, not two");
        assert_eq!(c.gate(at(15), number, true, wait), Gate::Open);
        c.started(true);
        assert_eq!(c.gate(at(16), number, true, wait), Gate::ShutUntil(at(26)), "each waits anew");
        assert_eq!(c.gate(at(16), number, true, None), Gate::Open, "no timer, no wait");
        assert!(c.note_wait(number) && !c.note_wait(number) && c.note_wait(Msn::new(3)));
    }

    #[test]
    fn receives_are_told_when_somebody_may_wait() {
        let mut a = Advertised::new(true);
        a.receives = 3;
        assert!(!a.is_news(Msn::new(0)), "nobody has asked");
        assert_eq!(a.syndrome(Msn::new(1)), Syndrome::ack(3));
        a.receives = 1;
        assert!(!a.is_news(Msn::new(3)), "message 4 was allowed");
        assert!(a.is_news(Msn::new(4)));
        a.receives = 0;
        assert!(!a.is_news(Msn::new(4)));
        assert_eq!(a.syndrome(Msn::new(4)), Syndrome::ack(0));
        a.receives = 7;
        assert!(a.is_news(Msn::new(4)));
        assert_eq!(a.syndrome(Msn::new(4)), Syndrome::ack(5), "6, the most that is not more than 7");
        let mut off = Advertised::new(false);
        off.receives = 7;
        assert_eq!(off.syndrome(Msn::new(1)), Syndrome::ACK_UNLIMITED);
        assert!(!off.is_news(Msn::new(1)));
    }
}
