//! Receiving into a queue that several queue pairs share.

use super::qp::{QueuePair, Verdict};
use crate::units::Instant;
use crate::verbs::{Completions, Memory, QpEvent, SharedReceiveQueue};
use crate::wire::Packet;

impl QueuePair {
    /// As [`QueuePair::on_packet`] for a queue pair that was made with a shared receive queue, which
    /// is lent to it for this packet.
    #[inline]
    pub fn on_packet_shared(
        &mut self,
        now: Instant,
        p: &Packet<'_>,
        mem: &mut Memory,
        srq: &mut SharedReceiveQueue,
        done: &mut impl Completions,
    ) -> Verdict {
        let Some(srqn) = self.srq() else { return self.on_packet(now, p, mem, done) };
        srq.swap(&mut self.rq);
        let verdict = self.on_packet(now, p, mem, done);
        srq.swap(&mut self.rq);
        if srq.take_limit() {
            done.event(self.qpn(), QpEvent::SrqLimit(srqn));
        }
        verdict
    }
}
