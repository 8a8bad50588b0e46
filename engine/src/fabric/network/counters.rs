//! What ports count.

use crate::fabric::packet::Priority;

/// What a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that it sent, pause frames not included.
    pub tx_packets: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Line time of all that it sent, in picoseconds.
    pub tx_ps: u64,
    /// Packets for a station that it knew no way to.
    pub no_route: u64,
    /// By priority.
    pub priorities: [PriorityCounters; Priority::COUNT],
}

/// What a port counted of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityCounters {
    /// Frames that it sent.
    pub tx_packets: u64,
    /// Frames of those that it marked with congestion experienced.
    pub marked: u64,
    /// Frames for its queue that found it full.
    pub tail_dropped: u64,
    /// Frames that came in by it and found its headroom full.
    pub headroom_dropped: u64,
    /// Frames of its queue that the watchdog dropped.
    pub watchdog_dropped: u64,
    /// Most bytes that waited.
    pub peak: u64,
    /// Pauses that it asked its peer for, repetitions not counted.
    pub pauses_sent: u64,
    /// Pause frames for this priority that it sent, with those that end a pause.
    pub pause_frames_sent: u64,
    /// Pauses that its peer asked for.
    pub pauses_received: u64,
}

impl PriorityCounters {
    /// Frames that were dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.tail_dropped + self.headroom_dropped + self.watchdog_dropped
    }
}

/// Packets of a whole network by their fate: sent = delivered + taken out + dropped + inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that were sent into it, at a host's port or after a crossing.
    pub sent: u64,
    /// Packets that came to a host.
    pub delivered: u64,
    /// Packets that were handed out at a crossing.
    pub crossed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that are in it.
    pub inside: u64,
    /// Packets that left a port.
    pub events: u64,
}
