//! What goes wrong on a cable.

use super::port::SimFrame;
use crate::fabric::{Held, Impairment, Label, flip, mark_ce};
use crate::io::Frame;
use crate::units::Instant;

/// Frames of a cable that are judged, by their fate: judged = passed + dropped - duplicated + held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrossingCounters {
    /// Frames that came to its end.
    pub judged: u64,
    /// Frames that the impairment dropped.
    pub dropped: u64,
    /// Copies that it made.
    pub duplicated: u64,
    /// Frames that went on.
    pub passed: u64,
}

/// The end of a cable on which things go wrong.
#[derive(Debug)]
pub(super) struct Crossing {
    pub(super) impairment: Impairment,
    held: Held<(Label, SimFrame)>,
    /// When the next release is asked for, in picoseconds.
    pub(super) release_at: u64,
    pub(super) counters: CrossingCounters,
}

impl Crossing {
    pub(super) fn new(impairment: Impairment) -> Crossing {
        Crossing {
            impairment,
            held: Held::new(0),
            release_at: u64::MAX,
            counters: CrossingCounters::default(),
        }
    }

    /// Frames held back.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Judges a frame; what goes on at once is put into `out`, what is lost into `pool`.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        label: Label,
        mut frame: SimFrame,
        out: &mut Vec<(Label, SimFrame)>,
        pool: &mut Vec<SimFrame>,
    ) {
        self.counters.judged += 1;
        let fate = self.impairment.judge(now, Frame::bytes(&frame));
        if fate.drop {
            self.counters.dropped += 1;
            pool.push(frame);
            return;
        }
        if fate.duplicate {
            self.counters.duplicated += 1;
            let mut copy = pool.pop().unwrap_or_else(|| frame.like());
            copy.copy_from(&frame);
            out.push((label, copy));
        }
        if let Some(bit) = fate.flip {
            flip(frame.bytes_mut(), bit);
        }
        if fate.mark_ce {
            mark_ce(frame.bytes_mut());
        }
        self.held.passed(fate.stream);
        match fate.hold {
            Some(release) => self.held.hold((label, frame), fate.stream, release),
            None => out.push((label, frame)),
        }
        self.release(now, out);
        self.counters.passed += out.len() as u64;
    }

    /// Puts into `out` what need not be held back any longer.
    pub(super) fn let_go(&mut self, now: Instant, out: &mut Vec<(Label, SimFrame)>) {
        self.release(now, out);
        self.counters.passed += out.len() as u64;
    }

    /// When somebody has to look again, if nothing else comes.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.held.next_at()
    }

    fn release(&mut self, now: Instant, out: &mut Vec<(Label, SimFrame)>) {
        while let Some(frame) = self.held.pop(now) {
            out.push(frame);
        }
    }
}
