//! Payload whose CRC is known beforehand, so that nothing reads it to send it.

use super::icrc::RunningIcrc;
use crc32fast::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that never change, with the CRC of each piece of `grid` bytes.
#[derive(Clone, Debug)]
pub struct Constant {
    id: u64,
    bytes: Arc<[u8]>,
    start: usize,
    len: usize,
    grid: usize,
    /// Where `grid` is a power of two, which: a division is a long wait.
    log2: Option<u32>,
    /// Of the first piece, which short ones have no other than, at hand.
    first_crc: u32,
    crcs: Arc<[u32]>,
    /// Pieces after which the bytes begin anew, less one, and how many pieces do so.
    fold: usize,
    folded: usize,
    shift: Arc<CrcShift>,
}

/// Bytes that repeat after so many are taken from their first occurrence, which stays in the caches.
pub const PERIOD: usize = 1 << 16;
/// Where the bytes begin: payload is copied by whole cache lines.
const ALIGN: usize = 64;

impl Constant {
    /// A copy of `bytes` that is mostly taken in pieces as long as `shift` is for: the path MTU, or less.
    ///
    /// # Panics
    ///
    /// When that is 0.
    pub fn new(bytes: &[u8], shift: &Arc<CrcShift>) -> Constant {
        let grid = shift.len();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut room: Arc<[u8]> = std::iter::repeat_n(0, bytes.len() + ALIGN).collect();
        let start = room.as_ptr().align_offset(ALIGN).min(ALIGN);
        if let Some(room) = Arc::get_mut(&mut room) {
            room[start..start + bytes.len()].copy_from_slice(bytes);
        }
        // Pieces of a length that is no power of two repeat nowhere.
        let fold = if grid.is_power_of_two() { (PERIOD / grid).max(1) - 1 } else { usize::MAX };
        let pieces = || bytes.chunks_exact(grid);
        let first: Vec<&[u8]> = pieces().take(fold.saturating_add(1)).collect();
        let folded = pieces().enumerate().take_while(|(i, piece)| *piece == first[i & fold]).count();
        Constant {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            bytes: room,
            start,
            len: bytes.len(),
            grid,
            log2: grid.is_power_of_two().then(|| grid.trailing_zeros()),
            first_crc: bytes.chunks_exact(grid).next().map_or(0, crc32fast::hash),
            crcs: bytes.chunks_exact(grid).map(crc32fast::hash).collect(),
            shift: shift.clone(),
            fold,
            folded,
        }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// `len` bytes from `at` on, if they are a piece with a known CRC: those or others that are equal.
    #[inline(always)]
    pub fn piece(&self, at: usize, len: usize) -> Option<Piece<'_>> {
        if len != self.grid {
            return None;
        }
        let index = if at == 0 { 0 } else { self.index_of(at)? };
        (index < self.crcs.len()).then_some(Piece { of: self, index })
    }

    /// Which piece begins at `at`, or an earlier one that is equal.
    #[inline(always)]
    fn index_of(&self, at: usize) -> Option<usize> {
        let index = self.log2.map_or_else(|| at / self.grid, |log2| at >> log2);
        let begins = index * self.grid == at;
        begins.then_some(if index < self.folded { index & self.fold } else { index })
    }
}

/// A piece of a [`Constant`] whose CRC is known.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    of: &'a Constant,
    index: usize,
}

impl<'a> Piece<'a> {
    /// How many bytes it is.
    #[inline]
    pub fn size(&self) -> usize {
        self.of.grid
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        &self.of.bytes[self.of.start + self.index * self.of.grid..][..self.of.grid]
    }

    /// What it lies in, where in it, and a number that no other [`Constant`] has.
    #[inline]
    pub fn place(&self) -> (u64, &'a Arc<[u8]>, core::ops::Range<usize>) {
        let at = self.of.start + self.index * self.of.grid;
        (self.of.id, &self.of.bytes, at..at + self.of.grid)
    }

    /// Goes on with it, without reading it.
    #[inline(always)]
    pub(super) fn after(&self, running: RunningIcrc) -> RunningIcrc {
        let crc = if self.index == 0 { self.of.first_crc } else { self.of.crcs[self.index] };
        running.then_known(crc, &self.of.shift)
    }
}

/// What bytes of a certain number after it do to a CRC, whatever they are: the CRC of two pieces is
/// that of the first, shifted by the length of the second, plus that of the second.
///
/// Tables of 4 KiB: those who sum the same lengths should share one.
#[derive(Clone)]
pub struct CrcShift {
    len: usize,
    tables: Box<[[u32; 256]; 4]>,
}

impl CrcShift {
    /// For `len` bytes.
    pub fn new(len: usize) -> CrcShift {
        // The register is linear over the bits that it starts with.
        let zeros = vec![0; len];
        let after_zeros = |register: u32| {
            let mut hasher = Hasher::new_with_initial(!register);
            hasher.update(&zeros);
            !hasher.finalize()
        };
        let columns: [u32; 32] = core::array::from_fn(|bit| after_zeros(1 << bit));
        let mut tables = Box::new([[0; 256]; 4]);
        for (byte, table) in tables.iter_mut().enumerate() {
            for (value, entry) in table.iter_mut().enumerate() {
                *entry = (0..8).filter(|b| value >> b & 1 != 0).fold(0, |sum, b| sum ^ columns[8 * byte + b]);
            }
        }
        CrcShift { len, tables }
    }

    /// For how many bytes it is.
    #[allow(clippy::len_without_is_empty, reason = "it has no elements")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The CRC so far, shifted.
    #[inline(always)]
    pub fn apply(&self, crc: u32) -> u32 {
        let [a, b, c, d] = crc.to_le_bytes().map(usize::from);
        self.tables[0][a] ^ self.tables[1][b] ^ self.tables[2][c] ^ self.tables[3][d]
    }
}

impl core::fmt::Debug for CrcShift {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CrcShift").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::IcrcPrefix;
    use crate::wire::icrc::Encapsulation;
    use crate::wire::icrc::tests::noise;

    #[test]
    fn two_pieces_sum_like_one() {
        for (head, tail) in
            [(0, 1), (1, 1), (28, 256), (12, 1024), (40, 4096), (5000, 4096), (17, 0), (3, 4095)]
        {
            let bytes = noise(head + tail);
            let shift = CrcShift::new(tail);
            let combined = shift.apply(crc32fast::hash(&bytes[..head])) ^ crc32fast::hash(&bytes[head..]);
            assert_eq!(combined, crc32fast::hash(&bytes), "{head} and {tail}");
        }
    }

    #[test]
    fn pieces_lie_on_the_grid() {
        let bytes = noise(2500);
        let constant = Constant::new(&bytes, &Arc::new(CrcShift::new(1024)));
        assert_eq!(constant.bytes(), bytes);
        assert_eq!(constant.bytes().as_ptr() as usize % ALIGN, 0);
        let piece = constant.piece(1024, 1024).unwrap();
        assert_eq!(piece.bytes(), &bytes[1024..2048]);
        let (_, whole, range) = piece.place();
        assert_eq!(whole[range], bytes[1024..2048]);
        for (at, len) in [(0, 1023), (1, 1024), (2048, 1024), (2048, 452), (4096, 1024)] {
            assert!(constant.piece(at, len).is_none(), "{at}, {len}");
        }
        // What repeats is taken from where it was first.
        let mut long = noise(PERIOD).repeat(3);
        long.extend(noise(1024));
        let shift = Arc::new(CrcShift::new(4096));
        let of_four = Constant::new(&long, &shift);
        let place = |at| of_four.piece(at, 4096).unwrap().place().2.start - of_four.start;
        assert_eq!([0, 4096, PERIOD, 2 * PERIOD + 8192].map(place), [0, 4096, 0, 8192]);
        long[PERIOD + 5000] ^= 1;
        let of_four = Constant::new(&long, &shift);
        let place = |at| of_four.piece(at, 4096).unwrap().place().2.start - of_four.start;
        assert_eq!([0, PERIOD, PERIOD + 4096, 2 * PERIOD].map(place), [0, 0, PERIOD + 4096, 2 * PERIOD]);
        assert_eq!(of_four.piece(PERIOD + 4096, 4096).unwrap().bytes(), &long[PERIOD + 4096..][..4096]);
        let head = noise(28);
        let mut head_bth = [0u8; 40];
        head_bth[..28].copy_from_slice(&head);
        let prefix = IcrcPrefix::new(Encapsulation::Ipv4, &head, 0).unwrap();
        let running = prefix.begin(&head_bth);
        assert_eq!(piece.after(running), running.then(piece.bytes()));
        assert_ne!(constant.piece(0, 1024).unwrap().after(running), running.then(piece.bytes()));
    }
}
