//! Selective acknowledgement: what a sequence NAK of this project's own says besides its AETH.

use crate::units::Psn;

/// A run of packets that have arrived although one before them is missing, 8 bytes.
///
/// Up to [`SackBlock::MOST`] of them follow the AETH of a sequence NAK between two queue pairs that
/// have agreed on selective repeat.  No other peer ever sees one.
///
/// | bytes | |
/// |---|---|
/// | 0 | reserved, 0 |
/// | 1..4 | the first PSN of the run |
/// | 4 | reserved, 0 |
/// | 5..8 | the PSN after its last |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SackBlock {
    /// The first PSN of the run.
    pub from: Psn,
    /// The PSN after its last.
    pub to: Psn,
}

impl SackBlock {
    /// Bytes on the wire.
    pub const LEN: usize = 8;
    /// The most in one packet.
    pub const MOST: usize = 4;

    /// From the first eight bytes; `None` when there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<SackBlock> {
        let word = u64::from_be_bytes(*bytes.first_chunk()?);
        Some(SackBlock { from: Psn::new((word >> 32) as u32), to: Psn::new(word as u32) })
    }

    /// Writes the first eight bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let word = u64::from(self.from.get()) << 32 | u64::from(self.to.get());
        out[..Self::LEN].copy_from_slice(&word.to_be_bytes());
    }

    /// The blocks of an extension; `None` when its length is not that of 1 to 4 blocks.
    pub fn all(extension: &[u8]) -> Option<impl Iterator<Item = SackBlock> + Clone + '_> {
        let fits = extension.len().is_multiple_of(Self::LEN)
            && (1..=Self::MOST).contains(&(extension.len() / Self::LEN));
        fits.then(|| extension.chunks_exact(Self::LEN).filter_map(SackBlock::parse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let block = SackBlock { from: Psn::new(0xFF_FFFE), to: Psn::new(3) };
        let mut bytes = [0xAA; 9];
        block.emit(&mut bytes);
        assert_eq!(bytes, [0, 0xFF, 0xFF, 0xFE, 0, 0, 0, 3, 0xAA]);
        assert_eq!(SackBlock::parse(&bytes), Some(block));
        assert_eq!(SackBlock::parse(&bytes[..7]), None);
    }

    #[test]
    fn one_to_four_blocks() {
        let bytes = [1; 40];
        let count = |len| SackBlock::all(&bytes[..len]).map(Iterator::count);
        assert_eq!([0, 7, 8, 12, 32, 40].map(count), [None, None, Some(1), None, Some(4), None]);
    }
}
