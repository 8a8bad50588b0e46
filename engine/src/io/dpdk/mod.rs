//! Ports over DPDK: rings in memory, DPDK's virtual devices, and network cards.

mod clock;
mod open;

pub use clock::{ClockError, TscClock};
pub use dpdk_ffi::{
    Eal, EalConfig, EalError, HugepagePool, Hugepages, LcoreToken, LogLevel, MemoryKind, Mempool, PciAccess,
    PortError, PortInfo, PortStats, free_hugepages,
};
pub use open::{DeviceSpec, OpenError, OpenPort, PortSpec, memory_mib, open};

use super::{BURST, Caps, Frame, FrameMut, PacketIo};
use crate::units::Duration;
use crate::wire::Vlan;
use arrayvec::ArrayVec;
use dpdk_ffi::{Mbuf, RxQueue, TxQueue, free_bulk};

/// A port that leads out of the process and takes nothing for so long has lost its link.
const STALLED: Duration = Duration::from_millis(500);

impl Frame for Mbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.data()
    }

    #[inline]
    fn stripped_vlan(&self) -> Option<Vlan> {
        self.vlan_stripped().map(Vlan::from_tci)
    }
}

impl FrameMut for Mbuf {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        self.room_mut()
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        Mbuf::set_len(self, len);
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.data()
    }
}

/// What one worker has of a port: a transmit queue, its receive queues, a pool of frames.
#[derive(Debug)]
pub struct DpdkIo {
    rx: Vec<RxQueue>,
    tx: TxQueue,
    pool: Mempool,
    caps: Caps,
    patience: Option<Duration>,
    next: usize,
}

impl PacketIo for DpdkIo {
    type Rx = Mbuf;
    type Tx = Mbuf;

    #[inline]
    fn recv(&mut self, out: &mut ArrayVec<Mbuf, BURST>) -> usize {
        let before = out.len();
        for _ in 0..self.rx.len() {
            self.rx[self.next].recv(out);
            self.next += 1;
            if self.next == self.rx.len() {
                self.next = 0;
            }
            if out.is_full() {
                break;
            }
        }
        for frame in &mut out[before..] {
            // Frames in pieces come only from ports whose buffers are smaller than a frame.
            if !frame.is_contiguous() {
                let _ = frame.linearize();
            }
        }
        out.len() - before
    }

    #[inline]
    fn alloc(&mut self, out: &mut ArrayVec<Mbuf, BURST>, n: usize) -> usize {
        self.pool.alloc_bulk(out, n)
    }

    #[inline]
    fn send(&mut self, batch: &mut ArrayVec<Mbuf, BURST>) -> usize {
        self.tx.send(batch)
    }

    #[inline]
    fn release(&mut self, frames: &mut ArrayVec<Mbuf, BURST>) {
        free_bulk(frames);
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }
}
