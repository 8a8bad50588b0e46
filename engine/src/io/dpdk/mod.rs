//! Ports over DPDK: rings in memory, DPDK's virtual devices, and network cards.

mod clock;
mod open;

pub use clock::{ClockError, TscClock};
pub use dpdk_ffi::{
    Eal, EalConfig, EalError, FlowControl, HugepagePool, Hugepages, LcoreToken, LogLevel, MemoryKind,
    Mempool, PciAccess, PortError, PortInfo, PortStats, free_hugepages,
};
pub use open::{DeviceSpec, OpenError, OpenPort, PortSpec, memory_mib, open};

use super::{BURST, Caps, Frame, FrameMut, PacketIo};
use crate::units::Duration;
use crate::wire::{Piece, Tail, Vlan};
use arrayvec::ArrayVec;
use dpdk_ffi::{Mbuf, RxQueue, SharedBytes, Supply, TxQueue, free_bulk};
use std::sync::Arc;

/// A port that leads out of the process and takes nothing for so long has lost its link.
const STALLED: Duration = Duration::from_millis(500);

impl Frame for Mbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.data()
    }

    #[inline]
    fn rest(&self) -> Option<[&[u8]; 2]> {
        self.middle_and_tail()
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

    #[inline]
    fn wire_len(&self) -> usize {
        self.pkt_len()
    }
}

/// Payload that is shorter is copied: a frame in three pieces costs more than that.
const ATTACH_FROM: usize = 2048;

/// Buffers for the second and third piece of frames.
#[derive(Debug)]
struct Pieces {
    buffers: Supply,
    /// What frames may carry, by the number of the constant.
    shared: Vec<Option<SharedBytes>>,
}

impl Pieces {
    fn new(pool: Mempool) -> Pieces {
        Pieces { buffers: Supply::new(pool), shared: Vec::new() }
    }

    /// Adds `piece` and `tail` to `frame`, which is the head; whether there were buffers.
    #[inline]
    fn add(&mut self, frame: &mut Mbuf, piece: &Piece<'_>, tail: Tail) -> bool {
        let (Some(middle), Some(mut end)) = (self.buffers.take(0), self.buffers.take(0)) else {
            return false;
        };
        let (id, bytes, range) = piece.place();
        let index = id as usize;
        if !matches!(self.shared.get(index), Some(Some(_))) {
            self.learn(index, bytes);
        }
        let Some(Some(shared)) = self.shared.get(index) else { return false };
        let len = tail.emit(end.room_mut());
        end.set_len(len);
        frame.chain(middle, shared, range, end);
        true
    }

    #[cold]
    fn learn(&mut self, index: usize, bytes: &Arc<[u8]>) {
        if self.shared.len() <= index {
            self.shared.resize(index + 1, None);
        }
        self.shared[index] = Some(self.buffers.pool().share(bytes));
    }
}

/// What one worker has of a port: transmit and receive queues, a pool of frames.
#[derive(Debug)]
pub struct DpdkIo {
    rx: Vec<RxQueue>,
    /// One, or one for each of `peers`.
    tx: Vec<TxQueue>,
    /// The addresses that transmit queues lead to, where there are several.
    peers: Vec<[u8; 6]>,
    frames: Supply,
    /// Where the port takes frames in pieces that lie anywhere in memory.
    pieces: Option<Pieces>,
    caps: Caps,
    patience: Option<Duration>,
    next: usize,
}

impl DpdkIo {
    #[inline]
    fn attach_long(&mut self, frame: &mut Mbuf, head: &[u8], piece: &Piece<'_>, tail: Tail) -> bool {
        let Some(pieces) = &mut self.pieces else { return false };
        // Whole cache lines are a few moves, a length that varies is a call.
        let room = frame.room_mut();
        match (head.first_chunk::<64>(), head.len()) {
            (Some(line), 65..) => {
                room[..64].copy_from_slice(line);
                room[64..head.len()].copy_from_slice(&head[64..]);
            }
            _ => room[..head.len()].copy_from_slice(head),
        }
        frame.set_len(head.len());
        pieces.add(frame, piece, tail)
    }
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
            // Other than those of our own, frames in pieces come only from ports whose buffers are
            // smaller than a frame.
            if !frame.is_contiguous() && frame.middle_and_tail().is_none() {
                let _ = frame.linearize();
            }
        }
        out.len() - before
    }

    #[inline]
    fn alloc(&mut self, reach: usize) -> Option<Mbuf> {
        self.frames.take(reach)
    }

    #[inline(always)]
    fn attach(&mut self, frame: &mut Mbuf, head: &[u8], piece: &Piece<'_>, tail: Tail) -> bool {
        piece.size() >= ATTACH_FROM && self.attach_long(frame, head, piece, tail)
    }

    #[inline]
    fn send(&mut self, batch: &mut ArrayVec<Mbuf, BURST>) -> usize {
        if self.peers.is_empty() { self.tx[0].send(batch) } else { self.send_by_address(batch) }
    }

    #[inline]
    fn release(&mut self, frames: &mut ArrayVec<Mbuf, BURST>) {
        free_bulk(frames);
    }

    #[inline]
    fn fetch<T>(what: &T) {
        dpdk_ffi::fetch(what);
    }

    #[inline]
    fn fetch_frame(frame: &Mbuf) {
        frame.fetch_data();
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }
}

impl DpdkIo {
    /// Sends each frame to the queue that leads to its destination; what has an address that nobody
    /// has is gone, as behind a switch.
    fn send_by_address(&mut self, batch: &mut ArrayVec<Mbuf, BURST>) -> usize {
        let mut sent = 0;
        while let Some(first) = batch.first() {
            let to = first.data().first_chunk::<6>().copied();
            let run = batch.iter().take_while(|f| f.data().first_chunk::<6>().copied() == to).count();
            let mut part: ArrayVec<Mbuf, BURST> = batch.drain(..run).collect();
            match self.peers.iter().position(|p| Some(*p) == to) {
                Some(queue) => sent += self.tx[queue].send(&mut part),
                None => {
                    sent += part.len();
                    free_bulk(&mut part);
                }
            }
            if !part.is_empty() {
                // In order: what is behind has to wait as well.
                part.extend(batch.drain(..));
                *batch = part;
                break;
            }
        }
        sent
    }
}
