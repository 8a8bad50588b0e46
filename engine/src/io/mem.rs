//! A pair of ports joined in memory: two threads, no DPDK, no allocation once it runs.

use super::{BURST, Caps, Frame, FrameMut, PacketIo};
use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};

/// A frame of a memory port.
#[derive(Debug)]
pub struct MemFrame {
    bytes: Box<[u8]>,
    len: usize,
}

impl Frame for MemFrame {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl FrameMut for MemFrame {
    fn buf(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn set_len(&mut self, len: usize) {
        assert!(len <= self.bytes.len(), "a frame of {len} bytes in a buffer of {}", self.bytes.len());
        self.len = len;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// One end of a pair of memory ports.
#[derive(Debug)]
pub struct MemPort {
    outward: Producer<MemFrame>,
    inward: Consumer<MemFrame>,
    /// Frames of ours that the peer has read come back here, and its frames go home.
    home: Consumer<MemFrame>,
    away: Producer<MemFrame>,
    free: Vec<MemFrame>,
    max_frame: usize,
}

/// A frame of `max_frame` bytes of no port.
#[cfg(test)]
pub(super) fn frame(max_frame: usize) -> MemFrame {
    MemFrame { bytes: vec![0; max_frame].into_boxed_slice(), len: 0 }
}

/// Two joined ports; `depth` frames of `max_frame` bytes may be under way in each direction.
pub fn pair(depth: usize, max_frame: usize) -> (MemPort, MemPort) {
    let (a_out, b_in) = RingBuffer::new(depth);
    let (b_out, a_in) = RingBuffer::new(depth);
    let frames = depth + 2 * BURST;
    let (b_away, a_home) = RingBuffer::new(frames);
    let (a_away, b_home) = RingBuffer::new(frames);
    let pool =
        || (0..frames).map(|_| MemFrame { bytes: vec![0; max_frame].into_boxed_slice(), len: 0 }).collect();
    let a = MemPort { outward: a_out, inward: a_in, home: a_home, away: a_away, free: pool(), max_frame };
    let b = MemPort { outward: b_out, inward: b_in, home: b_home, away: b_away, free: pool(), max_frame };
    (a, b)
}

impl PacketIo for MemPort {
    type Rx = MemFrame;
    type Tx = MemFrame;

    fn recv(&mut self, out: &mut ArrayVec<MemFrame, BURST>) -> usize {
        let before = out.len();
        while !out.is_full() {
            match self.inward.pop() {
                Ok(frame) => out.push(frame),
                Err(_) => break,
            }
        }
        out.len() - before
    }

    fn alloc(&mut self, _reach: usize) -> Option<MemFrame> {
        while let Ok(frame) = self.home.pop() {
            self.free.push(frame);
        }
        self.free.pop()
    }

    fn send(&mut self, batch: &mut ArrayVec<MemFrame, BURST>) -> usize {
        let n = batch.len().min(self.outward.slots());
        for frame in batch.drain(..n) {
            // There are `n` slots, and only this end fills them.
            let _ = self.outward.push(frame);
        }
        n
    }

    fn release(&mut self, frames: &mut ArrayVec<MemFrame, BURST>) {
        for frame in frames.drain(..) {
            // The ring home holds every frame that the peer owns.
            let _ = self.away.push(frame);
        }
    }

    fn caps(&self) -> Caps {
        Caps { max_frame: self.max_frame, speed_bps: None, headers_only: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_in_order_and_come_home() {
        let (mut a, mut b) = pair(4, 64);
        for round in 0..100u8 {
            let mut batch: ArrayVec<_, BURST> = (0..6).filter_map(|_| a.alloc(0)).collect();
            assert_eq!(batch.len(), 6);
            for (i, frame) in batch.iter_mut().enumerate() {
                frame.buf()[0] = round.wrapping_add(i as u8);
                frame.set_len(60);
            }
            assert_eq!(a.send(&mut batch), 4);
            assert_eq!(batch.len(), 2, "the unsent tail stays");
            assert_eq!(FrameMut::bytes(&batch[0])[0], round.wrapping_add(4));
            let mut got = ArrayVec::<_, BURST>::new();
            assert_eq!(b.recv(&mut got), 4);
            let first: Vec<u8> = got.iter().map(|f| Frame::bytes(f)[0].wrapping_sub(round)).collect();
            assert_eq!(first, [0, 1, 2, 3]);
            assert!(got.iter().all(|f| Frame::bytes(f).len() == 60));
            b.release(&mut got);
            assert_eq!(a.send(&mut batch), 2);
            assert_eq!(b.recv(&mut got), 2);
            b.release(&mut got);
        }
        let all = core::iter::from_fn(|| a.alloc(0));
        assert_eq!(all.count(), 4 + 2 * BURST, "no frame was lost");
    }
}
