//! Where packets are built: headers at hand first, then all of it into the frame.

use super::{ICRC_LEN, MAX_HEADERS, Piece};

/// A frame that a packet is written to.
pub trait Slot {
    /// All the room there is.
    fn buf(&mut self) -> &mut [u8];

    /// Makes the frame of `head`, of a piece of constant payload that stays where it is, and of
    /// `tail`.  `false`: the frame is as it was, and the payload is to be copied.
    #[inline]
    fn attach(&mut self, _head: &[u8], _piece: &Piece<'_>, _tail: Tail) -> bool {
        false
    }
}

impl Slot for [u8] {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        self
    }
}

impl<const N: usize> Slot for [u8; N] {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        self
    }
}

impl Slot for Vec<u8> {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        self
    }
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Payload<'a> {
    /// The bytes, unless they are a piece; fewer than `len` in a hollow memory.
    pub bytes: &'a [u8],
    /// How many there are.
    pub len: usize,
    /// The bytes, where they never change and their CRC is known.
    pub piece: Option<Piece<'a>>,
}

/// What follows the payload: pad and iCRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    pad: u8,
    icrc: [u8; ICRC_LEN],
}

impl Tail {
    /// Bytes of the longest.
    pub const MAX_LEN: usize = 3 + ICRC_LEN;

    /// `pad` zeros, at most 3, and `icrc`.
    #[inline(always)]
    pub(super) fn new(pad: usize, icrc: [u8; ICRC_LEN]) -> Tail {
        debug_assert!(pad <= 3);
        Tail { pad: pad as u8, icrc }
    }

    /// Writes it to the front of `out` and returns its length; panics when that has no room.
    #[inline(always)]
    pub fn emit(self, out: &mut [u8]) -> usize {
        let pad = usize::from(self.pad);
        if pad != 0 {
            out[..pad].fill(0);
        }
        // Four bytes are a move, a length that varies is a call.
        out[pad..][..ICRC_LEN].copy_from_slice(&self.icrc);
        pad + ICRC_LEN
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Payload<'a> {
        Payload { bytes, len: bytes.len(), piece: None }
    }
}

/// Room for the headers of a packet and for a short packet as a whole, in three cache lines.
pub(super) const HEAD_ROOM: usize = 192;
const _: () = assert!(MAX_HEADERS + 3 + ICRC_LEN <= HEAD_ROOM - 64);

/// The headers of a packet that is being built.
///
/// They are put together here and not in the frame: what is read back for the iCRC must not wait
/// for the stores into a frame that another core had in its cache.
#[derive(Clone, Debug)]
pub struct Head(pub(super) [u8; HEAD_ROOM]);

impl Head {
    /// Zeros.
    #[inline]
    pub fn new() -> Head {
        Head([0; HEAD_ROOM])
    }

    /// From offset `at` on.
    #[inline]
    pub fn from(&mut self, at: usize) -> &mut [u8] {
        &mut self.0[at..]
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}

/// Copies the first `len` bytes of `head`: by whole cache lines where there is room, which are a
/// few moves and not a call.  What lies behind `len` is overwritten with zeros or not at all.
#[inline(always)]
pub(super) fn copy_head(out: &mut [u8], head: &[u8; HEAD_ROOM], len: usize) {
    match (len, out.len()) {
        (0..=64, 64..) => out[..64].copy_from_slice(&head[..64]),
        (65..=128, 128..) => out[..128].copy_from_slice(&head[..128]),
        (129..=HEAD_ROOM, HEAD_ROOM..) => {
            // As a whole it would be a call.
            out[..128].copy_from_slice(&head[..128]);
            out[128..HEAD_ROOM].copy_from_slice(&head[128..]);
        }
        _ => out[..len].copy_from_slice(&head[..len]),
    }
}

/// Copies payload: the whole cache lines of a little of it are a few moves and not a call.
#[inline(always)]
pub(super) fn copy_payload(out: &mut [u8], bytes: &[u8]) {
    const LITTLE: usize = 256;
    let out = &mut out[..bytes.len()];
    if bytes.len() > LITTLE || !bytes.len().is_multiple_of(64) {
        return out.copy_from_slice(bytes);
    }
    for (out, line) in out.as_chunks_mut::<64>().0.iter_mut().zip(bytes.as_chunks::<64>().0) {
        *out = *line;
    }
}
