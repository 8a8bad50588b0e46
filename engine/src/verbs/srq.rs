//! The shared receive queue: several queue pairs take their receive requests from it.

use crate::verbs::{PostError, RecvWr, Ring};

/// The number of a shared receive queue on its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Srqn(pub(crate) u32);

impl Srqn {
    /// From a number that whoever keeps the queue gave it.
    pub const fn new(number: u32) -> Srqn {
        Srqn(number)
    }
}

/// Receive requests for whichever of its queue pairs needs one first, in the order of posting.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    ring: Ring<RecvWr>,
    /// Fewer requests than this are told of, once; 0 is never.
    limit: u32,
}

impl SharedReceiveQueue {
    /// An empty queue for `capacity` requests, without a limit.
    pub fn new(capacity: u32) -> SharedReceiveQueue {
        SharedReceiveQueue { ring: Ring::new(capacity), limit: 0 }
    }

    /// Queues a receive request.
    #[inline]
    pub fn post(&mut self, wr: RecvWr) -> Result<(), PostError> {
        self.ring.push(wr).map_err(|_| PostError::QueueFull)
    }

    /// Requests that wait.
    pub fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Asks to be told, once, when a packet has left fewer than `limit` requests; 0 asks for
    /// nothing.
    pub fn arm(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Puts its requests into `rq`, the queue of a queue pair that has none of its own, and back.
    #[inline]
    pub(crate) fn swap(&mut self, rq: &mut Ring<RecvWr>) {
        core::mem::swap(&mut self.ring, rq);
    }

    /// Whether it has just fallen below its limit; disarms it.
    #[inline]
    pub(crate) fn take_limit(&mut self) -> bool {
        let reached = self.ring.len() < self.limit;
        if reached {
            self.limit = 0;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::Sge;

    #[test]
    fn the_limit_is_told_once() {
        let mut srq = SharedReceiveQueue::new(3);
        (0..3).for_each(|wr_id| srq.post(RecvWr { wr_id, sge: Sge::default() }).unwrap());
        assert_eq!(srq.post(RecvWr { wr_id: 3, sge: Sge::default() }), Err(PostError::QueueFull));
        let mut rq = Ring::new(0);
        let mut take = |srq: &mut SharedReceiveQueue| {
            srq.swap(&mut rq);
            let wr = rq.pop();
            srq.swap(&mut rq);
            (wr.map(|wr| wr.wr_id), srq.take_limit())
        };
        assert_eq!(take(&mut srq), (Some(0), false), "not armed");
        srq.arm(2);
        assert_eq!(take(&mut srq), (Some(1), true));
        assert_eq!(take(&mut srq), (Some(2), false), "once");
        assert!(srq.is_empty());
        assert_eq!(take(&mut srq), (None, false));
    }
}
