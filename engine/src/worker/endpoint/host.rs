//! The endpoint as a host: frames that are not RoCE, and QP 1.

use super::Endpoint;
use crate::io::{Frame, FrameMut, PacketIo};
use crate::net::Host;
use crate::transport::Verdict;
use crate::units::{Instant, Qpn};
use crate::wire::{DropReason, Packet};

impl<I: PacketIo> Endpoint<I> {
    /// Makes it a host with addresses of its own: see [`crate::net`].
    pub fn set_host(&mut self, host: Host) {
        self.host = Some(Box::new(host));
    }

    /// The host.
    pub fn host_mut(&mut self) -> Option<&mut Host> {
        self.host.as_deref_mut()
    }

    /// Sends what the host has to say; how many frames.
    #[cold]
    pub(super) fn transmit_host(&mut self, budget: u32) -> u32 {
        let mut sent = 0;
        while sent < budget && !self.batch.is_full() {
            if !self.has_frame() {
                break;
            }
            let (Some(host), Some(frame)) = (&mut self.host, &mut self.spare) else { break };
            let Some(len) = host.poll_transmit(frame.buf()) else { break };
            frame.set_len(len);
            self.batch.extend(self.spare.take());
            sent += 1;
        }
        sent
    }

    /// A frame for the host, or for nobody here.
    #[cold]
    pub(super) fn non_roce(&mut self, now: Instant, frame: &I::Rx) -> Verdict {
        match &mut self.host {
            Some(host) => host.on_frame(now, frame.bytes(), frame.stripped_vlan()),
            None => Verdict::Dropped(DropReason::NonRoce),
        }
    }

    /// A packet to no queue pair of the table: QP 1 is the host's.
    #[cold]
    pub(super) fn no_qp(&mut self, p: &Packet<'_>) -> Verdict {
        match &mut self.host {
            Some(_) if p.bth.dest_qp == Qpn::GSI && !p.verify_icrc() => Verdict::Dropped(DropReason::Icrc),
            Some(host) if p.bth.dest_qp == Qpn::GSI => host.on_management(p),
            _ => Verdict::Dropped(DropReason::NoQp),
        }
    }

    /// When the host has something to do.
    pub(super) fn host_wake(&self) -> Option<Instant> {
        let host = self.host.as_ref()?;
        if host.has_output() { Some(Instant::ZERO) } else { host.next_deadline() }
    }
}
