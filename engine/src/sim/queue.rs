//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The frame that a line is sending has left it.
    Departed(u32),
    /// The oldest frame on a line is there.
    Arrived(u32),
    /// A line need hold a frame back no longer.
    Released(u32),
    /// A host wants a turn.
    Wake(u32),
}

/// Events by time, those of one time in the order in which they were made.  Picoseconds.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
}

impl Events {
    #[inline]
    pub(super) fn push(&mut self, at: u64, what: What) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, what)));
    }

    #[inline]
    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_age() {
        let mut events = Events::default();
        events.push(5, What::Wake(1));
        events.push(3, What::Wake(9));
        events.push(5, What::Arrived(0));
        events.push(3, What::Departed(2));
        let all: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(
            all,
            [(3, What::Wake(9)), (3, What::Departed(2)), (5, What::Wake(1)), (5, What::Arrived(0))]
        );
    }
}
