//! A slow cable with a queue before it, in real time.

use super::FrameMut;
use crate::fabric::{Cable, Dice, Red, is_ect, mark_ce};
use crate::units::Instant;
use std::collections::VecDeque;

/// Frames that a link holds at most, in its queue and on its cable, whatever its queue may hold in
/// bytes.
pub const INSIDE: usize = 1024;

/// What a [`Link`] is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// Its rate, its delay and what a frame takes on it.
    pub cable: Cable,
    /// Bytes of frames that wait at most; what finds no room is lost.
    pub queue_bytes: u64,
    /// Whether and when frames are marked as they leave the queue, by the bytes behind them.
    pub red: Option<Red>,
    /// Seed of the dice.
    pub seed: u64,
}

/// What a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that it marked with congestion experienced.
    pub marked: u64,
    /// Frames that found its queue full.
    pub tail_dropped: u64,
    /// Most bytes that waited.
    pub queue_peak: u64,
}

/// A queue, a server and a cable: what the bottleneck of a network is to the frames of one port.
///
/// A frame begins to leave when the one before it has left, however late it is looked at: a poll
/// loop that looks now and then keeps the rate.
#[derive(Debug)]
pub struct Link<F> {
    spec: LinkSpec,
    dice: Dice,
    /// Frames that wait, and when they came, in picoseconds.
    queue: VecDeque<(u64, F)>,
    bytes: u64,
    busy_until: u64,
    /// Frames on the cable, and when they are at its end.
    flying: VecDeque<(u64, F)>,
    counters: LinkCounters,
}

impl<F: FrameMut> Link<F> {
    /// An empty one.
    pub fn new(spec: LinkSpec) -> Link<F> {
        Link {
            spec,
            dice: Dice::new(spec.seed),
            queue: VecDeque::with_capacity(INSIDE),
            bytes: 0,
            busy_until: 0,
            flying: VecDeque::with_capacity(INSIDE),
            counters: LinkCounters::default(),
        }
    }

    /// What it did.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Frames in it.
    pub fn frames(&self) -> usize {
        self.queue.len() + self.flying.len()
    }

    /// Takes a frame; gives it back when there is no room for it.
    pub fn push(&mut self, now: Instant, frame: F) -> Option<F> {
        self.serve(now);
        let bytes = self.bytes + frame.wire_len() as u64;
        if bytes > self.spec.queue_bytes || self.frames() >= INSIDE {
            self.counters.tail_dropped += 1;
            return Some(frame);
        }
        self.bytes = bytes;
        self.counters.queue_peak = self.counters.queue_peak.max(bytes);
        self.queue.push_back((picos(now), frame));
        self.serve(now);
        None
    }

    /// The next frame that has come to the end of the cable.
    pub fn pop(&mut self, now: Instant) -> Option<F> {
        self.serve(now);
        let (at, _) = self.flying.front()?;
        if *at > picos(now) {
            return None;
        }
        self.flying.pop_front().map(|(_, frame)| frame)
    }

    /// Sends what has begun to leave by now.
    fn serve(&mut self, now: Instant) {
        let now = picos(now);
        while let Some((came, _)) = self.queue.front() {
            let begins = self.busy_until.max(*came);
            if begins > now {
                break;
            }
            let Some((_, mut frame)) = self.queue.pop_front() else { break };
            let len = frame.wire_len();
            self.bytes -= len as u64;
            if let Some(red) = &self.spec.red
                && is_ect(frame.bytes())
                && self.dice.takes(red.probability(self.bytes))
            {
                let kept = frame.bytes().len();
                self.counters.marked += u64::from(mark_ce(&mut frame.buf()[..kept]));
            }
            self.busy_until = begins + self.spec.cable.time_of(len as u32);
            let at = self.busy_until + self.spec.cable.delay.as_nanos().saturating_mul(1000);
            self.flying.push_back((at, frame));
        }
    }
}

fn picos(t: Instant) -> u64 {
    t.as_nanos().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Framing;
    use crate::io::mem::{self, MemFrame};
    use crate::units::{Duration, Rate};

    fn link(red: Option<Red>) -> Link<MemFrame> {
        let framing = Framing::ETHERNET;
        let cable = Cable { rate: Rate::from_gbps(10), delay: Duration::from_micros(2), framing };
        Link::new(LinkSpec { cable, queue_bytes: 100_000, red, seed: 7 })
    }

    /// A frame of 1000 bytes, ECN-capable, of IPv4.
    fn frame() -> MemFrame {
        let mut frame = mem::frame(1000);
        frame.set_len(1000);
        frame.buf()[12..16].copy_from_slice(&[8, 0, 0x45, 2]);
        frame
    }

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn frames_leave_at_the_rate_however_late_somebody_looks() {
        let mut link = link(None);
        for _ in 0..100 {
            assert!(link.push(at(0), frame()).is_none());
        }
        // 1024 bytes of line time each at 10 Gb/s.
        let end = |n: u64| n * 1024 * 8 / 10 + 2000;
        assert!(link.pop(at(end(1) - 1)).is_none());
        assert!(link.pop(at(end(1) + 1)).is_some());
        let mut seen = 1;
        for (now, want) in [(end(40) + 1, 40), (end(41) - 1, 40), (end(100) + 1, 100)] {
            seen += core::iter::from_fn(|| link.pop(at(now))).count();
            assert_eq!(seen, want);
        }
        assert_eq!((link.frames(), link.counters().tail_dropped), (0, 0));
    }

    #[test]
    fn what_finds_no_room_is_lost_and_what_waits_is_marked() {
        let mut link = link(Some(Red::new(20_000, 20_000, 1.0)));
        let lost = (0..150).filter(|_| link.push(at(0), frame()).is_some()).count();
        // One is being sent, a hundred wait.
        assert_eq!((lost, link.counters().tail_dropped, link.counters().queue_peak), (49, 49, 100_000));
        let mut marked = 0;
        let all = core::iter::from_fn(|| link.pop(at(1_000_000)));
        all.for_each(|mut f| marked += u64::from(f.buf()[15] & 3 == 3));
        // Those that had more than 20 frames behind them.
        assert_eq!((marked, link.counters().marked), (79, 79));
    }

    #[test]
    fn an_idle_link_saves_nothing_up() {
        let mut link = link(None);
        link.push(at(1_000_000), frame());
        link.push(at(1_000_000), frame());
        assert!(link.pop(at(1_002_818)).is_none());
        assert!(link.pop(at(1_002_820)).is_some());
        assert!(link.pop(at(1_003_638)).is_none());
        assert!(link.pop(at(1_003_640)).is_some());
    }
}
