//! Frames that are held back.

use super::impairment::Release;
use crate::units::Instant;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Frames held back until others have passed, or for a time; at most a fixed number of them.
#[derive(Debug)]
pub struct Held<F> {
    /// Those that wait for others: few.
    waiting: Vec<(u32, Release, F)>,
    /// Those that only wait.
    timed: BinaryHeap<Reverse<Timed<F>>>,
    room: usize,
    count: u64,
}

#[derive(Debug)]
struct Timed<F> {
    at: Instant,
    number: u64,
    frame: F,
}

impl<F> PartialEq for Timed<F> {
    fn eq(&self, other: &Timed<F>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<F> Eq for Timed<F> {}

impl<F> PartialOrd for Timed<F> {
    fn partial_cmp(&self, other: &Timed<F>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> Ord for Timed<F> {
    fn cmp(&self, other: &Timed<F>) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<F> Held<F> {
    /// Room for `room` frames.
    pub fn new(room: usize) -> Held<F> {
        Held { waiting: Vec::with_capacity(room), timed: BinaryHeap::with_capacity(room), room, count: 0 }
    }

    /// Frames held.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.timed.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has no room.
    pub fn is_full(&self) -> bool {
        self.len() >= self.room
    }

    /// Holds `frame` of stream `stream` back.
    pub fn hold(&mut self, frame: F, stream: u32, release: Release) {
        self.count += 1;
        match release.after {
            0 => self.timed.push(Reverse(Timed { at: release.at, number: self.count, frame })),
            _ => self.waiting.push((stream, release, frame)),
        }
    }

    /// A frame of `stream` goes that those held back may have waited for.
    #[inline]
    pub fn passed(&mut self, stream: u32) {
        for (of, release, _) in &mut self.waiting {
            if *of == stream {
                release.after = release.after.saturating_sub(1);
            }
        }
    }

    /// A frame that need not wait any longer.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<F> {
        if self.is_empty() {
            return None;
        }
        if let Some(i) = self.waiting.iter().position(|(_, r, _)| r.after == 0 || r.at <= now) {
            return Some(self.waiting.remove(i).2);
        }
        match self.timed.peek() {
            Some(Reverse(first)) if first.at <= now => self.timed.pop().map(|Reverse(t)| t.frame),
            _ => None,
        }
    }

    /// When the next frame need not wait any longer, if no others pass.
    pub fn next_at(&self) -> Option<Instant> {
        let waiting =
            self.waiting.iter().map(|(_, r, _)| if r.after == 0 { Instant::ZERO } else { r.at }).min();
        let timed = self.timed.peek().map(|Reverse(t)| t.at);
        match (waiting, timed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn by_count_and_by_time() {
        let mut h = Held::new(8);
        h.hold('r', 1, Release { after: 2, at: at(100) });
        h.hold('l', 1, Release { after: 0, at: at(50) });
        h.hold('e', 1, Release { after: 0, at: at(20) });
        h.hold('s', 1, Release { after: 0, at: at(20) });
        assert_eq!(h.next_at(), Some(at(20)));
        assert_eq!(h.pop(at(10)), None);
        h.passed(2);
        h.passed(1);
        assert_eq!(h.pop(at(10)), None);
        h.passed(1);
        assert_eq!(h.pop(at(10)), Some('r'));
        assert_eq!(
            [h.pop(at(60)), h.pop(at(60)), h.pop(at(60)), h.pop(at(60))],
            [Some('e'), Some('s'), Some('l'), None]
        );
        h.hold('t', 1, Release { after: 9, at: at(100) });
        assert_eq!((h.pop(at(99)), h.pop(at(100)), h.next_at()), (None, Some('t'), None));
    }
}
