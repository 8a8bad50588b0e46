//! The port as the poll loop sees it.

use crate::units::{Duration, Instant};
use crate::wire::{Piece, Tail, Vlan};
use arrayvec::ArrayVec;

/// Frames that move at once.
pub const BURST: usize = 32;

/// A received frame.
pub trait Frame: core::fmt::Debug {
    /// The frame, in one piece, without FCS; the first piece of it where [`Frame::rest`] has more, or
    /// where the port carries headers only.
    fn bytes(&self) -> &[u8];

    /// Bytes of the whole frame where the port carries headers only.
    #[inline]
    fn hollow_len(&self) -> Option<usize> {
        None
    }

    /// The other two pieces of a frame that came in three: its payload, then pad and iCRC.
    #[inline]
    fn rest(&self) -> Option<[&[u8]; 2]> {
        None
    }

    /// The tag that the port has taken out of the frame.
    fn stripped_vlan(&self) -> Option<Vlan> {
        None
    }
}

/// A frame to be written and sent.
pub trait FrameMut: core::fmt::Debug {
    /// All the room there is.
    fn buf(&mut self) -> &mut [u8];
    /// How many bytes of it are the frame.
    fn set_len(&mut self, len: usize);
    /// The frame as set; the first piece of it when it was [attached](PacketIo::attach) to payload.
    fn bytes(&self) -> &[u8];

    /// Bytes of the whole frame, whether they are there or not.
    #[inline]
    fn wire_len(&self) -> usize {
        self.bytes().len()
    }
}

/// What a port can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The largest frame it carries, without FCS.
    pub max_frame: usize,
    /// The speed that it reports, when it means something.
    pub speed_bps: Option<u64>,
    /// It carries the headers of frames and how long they are, but no payload: nothing copies or
    /// sums any.  An endpoint on it has a hollow [`Memory`](crate::verbs::Memory).
    pub headers_only: bool,
}

/// One queue pair of a port: frames in, frames out.
pub trait PacketIo {
    /// A received frame.
    type Rx: Frame;
    /// A frame to send.
    type Tx: FrameMut;

    /// Appends received frames to `out` up to its capacity; how many.
    fn recv(&mut self, out: &mut ArrayVec<Self::Rx, BURST>) -> usize;

    /// An empty frame; `None` when there is no memory for one.  The next ones are likely to be filled by
    /// copying with `reach` bytes each, if that is not 0: the moment to bring their room near.
    fn alloc(&mut self, reach: usize) -> Option<Self::Tx>;

    /// Makes `frame` of `head`, of a piece of constant payload that stays where it is, and of
    /// `tail`.  `false`: `frame` is as it was, and the payload is to be copied into it.
    #[inline]
    fn attach(&mut self, _frame: &mut Self::Tx, _head: &[u8], _piece: &Piece<'_>, _tail: Tail) -> bool {
        false
    }

    /// Sends from the front of `batch`; how many.  The unsent tail stays in `batch`, in order.
    fn send(&mut self, batch: &mut ArrayVec<Self::Tx, BURST>) -> usize;

    /// Gives received frames back.
    fn release(&mut self, frames: &mut ArrayVec<Self::Rx, BURST>) {
        frames.clear();
    }

    /// What the port can do.
    fn caps(&self) -> Caps;

    /// How long it may take nothing until its link counts as lost, and frames that wait for it
    /// are dropped as a network card drops them.  `None` is for ever.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Asks for `what` to be brought near: it will be wanted soon.  Nothing depends on it.
    #[inline]
    fn fetch<T>(_what: &T) {}

    /// Asks for the bytes of `frame` to be brought near: it is taken soon.
    #[inline]
    fn fetch_frame(_frame: &Self::Rx) {}

    /// The time of the turn, for ports that care.
    #[inline]
    fn set_now(&mut self, _now: Instant) {}
}
