//! The port of a simulated host.

use crate::io::{BURST, Caps, Frame, FrameMut, PacketIo};
use arrayvec::ArrayVec;
use std::collections::VecDeque;

/// A frame in virtual time.
#[derive(Debug)]
pub struct SimFrame {
    bytes: Box<[u8]>,
    len: u32,
}

impl SimFrame {
    pub(super) fn new(room: usize) -> SimFrame {
        SimFrame { bytes: vec![0; room].into_boxed_slice(), len: 0 }
    }

    /// Bytes of the frame.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        u64::from(self.len)
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len as usize]
    }

    pub(super) fn copy_from(&mut self, other: &SimFrame) {
        let len = other.len as usize;
        self.bytes[..len].copy_from_slice(&other.bytes[..len]);
        self.len = other.len;
    }
}

impl Frame for SimFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl FrameMut for SimFrame {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn set_len(&mut self, len: usize) {
        assert!(len <= self.bytes.len(), "a frame of {len} bytes in a buffer of {}", self.bytes.len());
        self.len = len as u32;
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// A port in virtual time; its [`World`](super::World) moves the frames.
///
/// It hands out frames to fill only for as many as its line has room for, so that an endpoint
/// builds a packet when it is about to leave, as hardware does, and not long before.
#[derive(Debug)]
pub struct SimPort {
    pub(super) inbox: VecDeque<SimFrame>,
    pub(super) outbox: VecDeque<SimFrame>,
    pub(super) free: Vec<SimFrame>,
    /// Frames that its line has room for.
    pub(super) room: usize,
    /// Frames handed out and not sent yet.
    pub(super) lent: usize,
    /// Somebody wanted a frame and got none.
    pub(super) starved: bool,
    caps: Caps,
}

impl SimPort {
    /// A port for frames of up to `max_frame` bytes, joined to nothing.
    pub fn new(max_frame: usize, speed_bps: Option<u64>) -> SimPort {
        SimPort {
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            free: Vec::new(),
            room: 0,
            lent: 0,
            starved: false,
            caps: Caps { max_frame, speed_bps },
        }
    }
}

impl PacketIo for SimPort {
    type Rx = SimFrame;
    type Tx = SimFrame;

    #[inline]
    fn recv(&mut self, out: &mut ArrayVec<SimFrame, BURST>) -> usize {
        let n = self.inbox.len().min(out.remaining_capacity());
        out.extend(self.inbox.drain(..n));
        n
    }

    #[inline]
    fn alloc(&mut self, out: &mut ArrayVec<SimFrame, BURST>, n: usize) -> usize {
        let n = n.min(out.remaining_capacity()).min(self.room.saturating_sub(self.lent));
        self.starved |= n == 0;
        for _ in 0..n {
            out.push(self.free.pop().unwrap_or_else(|| SimFrame::new(self.caps.max_frame)));
        }
        self.lent += n;
        n
    }

    #[inline]
    fn send(&mut self, batch: &mut ArrayVec<SimFrame, BURST>) -> usize {
        let n = batch.len();
        self.lent -= n;
        self.room -= n.min(self.room);
        self.outbox.extend(batch.drain(..));
        n
    }

    #[inline]
    fn release(&mut self, frames: &mut ArrayVec<SimFrame, BURST>) {
        self.free.extend(frames.drain(..));
    }

    fn caps(&self) -> Caps {
        self.caps
    }
}
