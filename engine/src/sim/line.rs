//! One direction of a cable: a queue, a rate, a delay, and what goes wrong on the way.

use super::port::SimFrame;
use crate::fabric::{Held, Impairment};
use crate::units::{Duration, Rate};
use crate::wire::{L1_OVERHEAD, MIN_FRAME};
use std::collections::VecDeque;

/// A line of a [`World`](super::World).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineId(pub(super) u32);

/// The two directions between two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplex {
    /// From the first port to the second.
    pub forth: LineId,
    /// From the second to the first.
    pub back: LineId,
}

/// What a line is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpec {
    /// Bits a second, preamble, FCS and gap included.
    pub rate: Rate,
    /// From the last bit in to the last bit out.
    pub delay: Duration,
    /// Bytes of frames that may wait for the line, the one that is being sent not included; what
    /// finds no room is lost.  A host does not send into a full line: its first line loses nothing.
    pub queue_bytes: u64,
}

/// Frames of a line by their fate: received = delivered + tail-dropped + dropped - duplicated + inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Frames that were to be sent.
    pub offered: u64,
    /// Frames that found the queue full.
    pub tail_dropped: u64,
    /// Frames that left the line at the other end.
    pub delivered: u64,
    /// Frames that the impairment dropped.
    pub dropped: u64,
    /// Copies that the impairment made.
    pub duplicated: u64,
    /// Most bytes that waited.
    pub queue_peak: u64,
}

/// Where frames go that leave a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// To an endpoint of a host.
    Host(u32, u32),
    /// Into another line.
    Line(u32),
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) spec: LineSpec,
    pub(super) target: Target,
    /// The endpoint of a host that feeds it.
    pub(super) source: Option<(u32, u32)>,
    /// The frame that is being sent, and those that wait.
    pub(super) sending: Option<SimFrame>,
    pub(super) queue: VecDeque<SimFrame>,
    pub(super) queued_bytes: u64,
    /// Frames on the way, and when each is there, in picoseconds.
    pub(super) flying: VecDeque<(u64, SimFrame)>,
    pub(super) impairment: Option<Box<Impairment>>,
    pub(super) held: Held<SimFrame>,
    /// The pending [`What::Released`](super::queue::What::Released).
    pub(super) release_at: u64,
    pub(super) counters: LineCounters,
}

impl Line {
    pub(super) fn new(spec: LineSpec, target: Target) -> Line {
        Line {
            spec,
            target,
            source: None,
            sending: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            flying: VecDeque::new(),
            impairment: None,
            held: Held::new(0),
            release_at: u64::MAX,
            counters: LineCounters::default(),
        }
    }

    /// Picoseconds that `frame` takes on the wire.
    #[inline]
    pub(super) fn time_of(&self, frame: &SimFrame) -> u64 {
        let bits = (frame.len().max(MIN_FRAME as u64) + L1_OVERHEAD as u64) * 8;
        // Frames have less than 2^17 bytes, so the product fits.
        (bits * 1_000_000_000_000).checked_div(self.spec.rate.bps()).unwrap_or(u64::MAX / 4)
    }

    pub(super) fn delay_ps(&self) -> u64 {
        self.spec.delay.as_nanos().saturating_mul(1000)
    }

    /// Frames that it has in its queue or is sending.
    #[inline]
    pub(super) fn backlog(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some())
    }

    /// Frames anywhere on it.
    pub(super) fn frames_inside(&self) -> usize {
        self.backlog() + self.flying.len() + self.held.len()
    }
}
