//! Link-level flow control of an endpoint: frames that pause it, frames with which it pauses its
//! peer, queue pairs that wait.

use super::Endpoint;
use crate::cc::PauseCounters;
use crate::io::{FrameMut, PacketIo};
use crate::transport::{QueuePair, Transmit};
use crate::units::Instant;
use crate::verbs::{CompletionQueue, Memory};
use crate::wire::{DropReason, Packet, Pause, Slot};

impl<I: PacketIo> Endpoint<I> {
    /// What flow control counted up to now; `None` where there is none in software.
    pub fn pause_counters(&self) -> Option<PauseCounters> {
        let mut point = self.pause.clone()?;
        point.settle(self.now);
        Some(*point.counters())
    }

    /// A frame that is not RoCE; the reason to drop it, when it is not a pause frame either.
    #[cold]
    pub(super) fn take_other(&mut self, now: Instant, bytes: &[u8]) -> Option<DropReason> {
        let Some(pause) = Pause::parse(bytes) else { return Some(DropReason::NonRoce) };
        self.counters.pause_frames += 1;
        if let Some(point) = &mut self.pause
            && point.on_frame(now, &pause)
        {
            // Who waits for the end of the pause need not wait any longer.
            for local in 0..self.table.len() as u32 {
                self.touch(local);
            }
        }
        None
    }

    /// A packet came: it counts for a receiver that falls behind on purpose.
    #[inline]
    pub(super) fn note_received(&mut self, now: Instant, p: &Packet<'_>) {
        if let Some(point) = &mut self.pause {
            let priority = self.config.priorities.of(p.tos, p.vlan);
            point.on_received(now, priority, p.wire_len());
        }
    }

    /// Sends the pause frame that is due, if one is.
    pub(super) fn transmit_pause(&mut self, now: Instant) {
        let Some(point) = &mut self.pause else { return };
        if self.spare.is_none() {
            self.spare = self.io.alloc(self.reach);
        }
        if self.batch.is_full() || self.spare.is_none() {
            return;
        }
        let Some(pause) = point.next_frame(now) else { return };
        let mac = point.config().mac;
        if let Some(mut frame) = self.spare.take() {
            let len = pause.emit(mac, frame.buf());
            frame.set_len(len);
            self.batch.push(frame);
        }
    }

    /// Until when a queue pair's packets, and its CNPs, may not leave.
    #[inline]
    pub(super) fn held(&mut self, now: Instant, priority: u8) -> (Option<Instant>, Option<Instant>) {
        let Some(point) = &mut self.pause else { return (None, None) };
        (point.paused(now, priority), point.paused(now, self.cnp_priority))
    }
}

/// The next frame of a queue pair whose priority is paused, or that of its CNPs.
#[inline]
pub(super) fn poll(
    qp: &mut QueuePair,
    now: Instant,
    (data, cnps): (Option<Instant>, Option<Instant>),
    mem: &Memory,
    slot: &mut (impl Slot + ?Sized),
    cq: &mut CompletionQueue,
) -> Transmit {
    if cnps.is_none()
        && let Some(sent) = qp.poll_cnp(slot)
    {
        return Transmit::Sent(sent);
    }
    let outcome = match data {
        Some(until) => Transmit::Wait(until),
        None => qp.poll_request(now, mem, slot, cq),
    };
    match (outcome, cnps.filter(|_| qp.owes_cnps())) {
        (Transmit::Wait(a), Some(b)) => Transmit::Wait(a.min(b)),
        (Transmit::Idle, Some(b)) => Transmit::Wait(b),
        (outcome, _) => outcome,
    }
}
