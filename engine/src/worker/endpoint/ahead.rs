//! Fetching ahead: with many queue pairs, what a frame needs is far away in memory, and what the
//! frames of a burst need can be on its way at once.

use super::Endpoint;
use crate::io::{BURST, Frame, PacketIo};
use crate::wire::dest_qp_of;
use arrayvec::ArrayVec;

/// So many queue pairs stay in the second-level cache by themselves.
const NEAR: usize = 64;
/// A queue pair is asked for so many frames before its turn, and what it points to half as many.
const AHEAD: usize = 8;

impl<I: PacketIo> Endpoint<I> {
    /// Whether its queue pairs are too many to be near.
    #[inline]
    pub(in crate::worker) fn is_wide(&self) -> bool {
        self.table.len() > NEAR
    }

    /// Frame `i` of the burst is about to be taken.
    #[inline]
    pub(super) fn look_ahead(&self, rx: &ArrayVec<I::Rx, BURST>, i: usize) {
        if i == 0 {
            rx.iter().take(AHEAD).for_each(|frame| self.fetch_qp(frame));
            rx.iter().take(AHEAD / 2).for_each(|frame| self.fetch_queue(frame));
        }
        if let Some(frame) = rx.get(i + AHEAD) {
            self.fetch_qp(frame);
        }
        if let Some(frame) = rx.get(i + AHEAD / 2) {
            self.fetch_queue(frame);
        }
    }

    /// The queue pair at the front of the ready ring is about to send: what those behind it need, in
    /// steps, each of which follows what the one before has fetched.
    #[inline]
    pub(super) fn look_ahead_to_send(&self) {
        let request = |after: usize| {
            let slot = self.table.get(*self.ready.get(after)?)?;
            slot.qp.as_ref()?.next_to_send()
        };
        if let Some(slot) = self.ready.get(AHEAD).and_then(|local| self.table.get(*local)) {
            I::fetch(slot);
        }
        if let Some(wr) = request(AHEAD / 2) {
            I::fetch(wr);
        }
        if let Some(region) = request(AHEAD / 4).and_then(|wr| self.mem.region(wr.sge.lkey)) {
            I::fetch(region);
        }
    }

    #[inline]
    fn fetch_qp(&self, frame: &I::Rx) {
        if let Some(slot) = dest_qp_of(frame.bytes()).and_then(|qpn| self.table.expected(qpn)) {
            I::fetch(slot);
        }
    }

    #[inline]
    fn fetch_queue(&self, frame: &I::Rx) {
        if let Some(slot) = dest_qp_of(frame.bytes()).and_then(|qpn| self.table.expected(qpn))
            && let Some(qp) = &slot.qp
            && let Some(request) = qp.queued()
        {
            I::fetch(request);
        }
    }
}
