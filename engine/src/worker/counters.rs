//! What an endpoint counts.

use crate::transport::{Hold, Verdict};
use crate::wire::DropReason;

/// Frames of one endpoint, by what became of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames that moved a connection.
    pub delivered: u64,
    /// Frames that moved nothing and were answered.
    pub answered: u64,
    /// Pause frames.
    pub pause_frames: u64,
    /// Frames handed to the worker that owns their queue pair.
    pub crossed_out: u64,
    /// Frames taken from other workers; not in `rx_packets`.
    pub crossed_in: u64,
    /// Frames dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Frames sent.
    pub tx_packets: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Turns in which the port did not take all that was there to send.
    pub tx_full_turns: u64,
    /// Frames dropped because the port took nothing for longer than its patience.
    pub tx_dropped: u64,
    /// Turns in which there was no memory for frames.
    pub tx_no_memory_turns: u64,
    /// How often a queue pair was asked for a packet and had none, by [`Hold`].
    pub held: [u64; Hold::ALL.len()],
}

impl Default for EndpointCounters {
    fn default() -> EndpointCounters {
        EndpointCounters {
            rx_packets: 0,
            rx_bytes: 0,
            delivered: 0,
            answered: 0,
            pause_frames: 0,
            crossed_out: 0,
            crossed_in: 0,
            dropped: [0; DropReason::ALL.len()],
            tx_packets: 0,
            tx_bytes: 0,
            tx_full_turns: 0,
            tx_dropped: 0,
            tx_no_memory_turns: 0,
            held: [0; Hold::ALL.len()],
        }
    }
}

impl EndpointCounters {
    /// Counts a frame's fate.
    #[inline]
    pub fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Delivered => self.delivered += 1,
            Verdict::Answered => self.answered += 1,
            Verdict::Dropped(reason) => self.dropped[reason as usize] += 1,
        }
    }

    /// Frames dropped for whatever reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether every frame that came in has exactly one fate.
    pub fn is_balanced(&self) -> bool {
        self.rx_packets + self.crossed_in
            == self.delivered + self.answered + self.pause_frames + self.crossed_out + self.dropped_total()
    }

    /// Adds `other` to `self`.
    pub fn add(&mut self, other: &EndpointCounters) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.delivered += other.delivered;
        self.answered += other.answered;
        self.pause_frames += other.pause_frames;
        self.crossed_out += other.crossed_out;
        self.crossed_in += other.crossed_in;
        for (sum, n) in self.dropped.iter_mut().zip(other.dropped) {
            *sum += n;
        }
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.tx_full_turns += other.tx_full_turns;
        self.tx_dropped += other.tx_dropped;
        self.tx_no_memory_turns += other.tx_no_memory_turns;
        for (sum, n) in self.held.iter_mut().zip(other.held) {
            *sum += n;
        }
    }
}
