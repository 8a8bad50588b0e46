//! The port of a simulated host.

use crate::io::{BURST, Caps, Frame, FrameMut, PacketIo};
use arrayvec::ArrayVec;
use prefetch_index::prefetch_index;
use std::collections::VecDeque;

/// Bytes that a frame has on a port that carries headers only: more than any headers.
pub const HEADERS: usize = 128;

/// A frame in virtual time.
#[derive(Debug)]
pub struct SimFrame {
    bytes: Box<[u8]>,
    len: u32,
    hollow: bool,
}

impl SimFrame {
    fn new(room: usize, hollow: bool) -> SimFrame {
        SimFrame { bytes: vec![0; room].into_boxed_slice(), len: 0, hollow }
    }

    /// An empty one of the same kind.
    pub(super) fn like(&self) -> SimFrame {
        SimFrame::new(self.bytes.len(), self.hollow)
    }

    /// Bytes of the frame, whether they are there or not.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn kept(&self) -> usize {
        self.bytes.len().min(self.len as usize)
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let kept = self.kept();
        &mut self.bytes[..kept]
    }

    /// Fetches its headers into the cache.
    #[inline]
    pub(super) fn fetch(&self) {
        prefetch_index(&self.bytes, 0);
        prefetch_index(&self.bytes, 64);
    }

    pub(super) fn copy_from(&mut self, other: &SimFrame) {
        let kept = other.kept();
        self.bytes[..kept].copy_from_slice(&other.bytes[..kept]);
        self.len = other.len;
    }
}

impl Frame for SimFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kept()]
    }

    #[inline]
    fn hollow_len(&self) -> Option<usize> {
        self.hollow.then_some(self.len as usize)
    }
}

impl FrameMut for SimFrame {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn set_len(&mut self, len: usize) {
        let room = self.bytes.len();
        assert!(self.hollow || len <= room, "a frame of {len} bytes in a buffer of {room}");
        self.len = len as u32;
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kept()]
    }

    #[inline]
    fn wire_len(&self) -> usize {
        self.len as usize
    }
}

/// A port in virtual time; its [`World`](super::World) moves the frames.
///
/// It hands out frames to fill only for as many as the network has room for, so that an endpoint
/// builds a packet when it is about to leave, as hardware does, and not long before.
#[derive(Debug)]
pub struct SimPort {
    pub(super) inbox: VecDeque<SimFrame>,
    pub(super) outbox: Vec<SimFrame>,
    pub(super) free: Vec<SimFrame>,
    /// Frames that the network has room for.
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
        SimPort::with(Caps { max_frame, speed_bps, headers_only: false })
    }

    /// A port that carries headers only.
    pub fn headers_only(max_frame: usize, speed_bps: Option<u64>) -> SimPort {
        SimPort::with(Caps { max_frame, speed_bps, headers_only: true })
    }

    fn with(caps: Caps) -> SimPort {
        SimPort {
            inbox: VecDeque::new(),
            outbox: Vec::new(),
            free: Vec::new(),
            room: 0,
            lent: 0,
            starved: false,
            caps,
        }
    }

    fn fresh(&self) -> SimFrame {
        match self.caps.headers_only {
            true => SimFrame::new(HEADERS, true),
            false => SimFrame::new(self.caps.max_frame, false),
        }
    }
}

impl PacketIo for SimPort {
    type Rx = SimFrame;
    type Tx = SimFrame;

    #[inline]
    fn recv(&mut self, out: &mut ArrayVec<SimFrame, BURST>) -> usize {
        let mut n = 0;
        while !out.is_full()
            && let Some(frame) = self.inbox.pop_front()
        {
            out.push(frame);
            n += 1;
        }
        n
    }

    #[inline]
    fn alloc(&mut self, _reach: usize) -> Option<SimFrame> {
        if self.lent >= self.room {
            self.starved = true;
            return None;
        }
        self.lent += 1;
        Some(self.free.pop().unwrap_or_else(|| self.fresh()))
    }

    #[inline]
    fn send(&mut self, batch: &mut ArrayVec<SimFrame, BURST>) -> usize {
        let n = batch.len();
        self.lent -= n;
        self.room -= n.min(self.room);
        for frame in batch.drain(..) {
            self.outbox.push(frame);
        }
        n
    }

    #[inline]
    fn release(&mut self, frames: &mut ArrayVec<SimFrame, BURST>) {
        while let Some(frame) = frames.pop() {
            self.free.push(frame);
        }
    }

    fn caps(&self) -> Caps {
        self.caps
    }
}
