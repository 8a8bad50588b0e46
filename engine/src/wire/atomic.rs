//! The two headers of atomics.

use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U32, U64, Unaligned};

/// AtomicETH, 28 bytes.  Operands are the numeric values of a word in the responder's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Virtual address of the 8 bytes; must be a multiple of 8.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// What compare-and-swap stores, or fetch-and-add adds.
    pub swap_or_add: u64,
    /// What compare-and-swap compares with; 0 in fetch-and-add.
    pub compare: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AtomicEthLayout {
    va: U64<BE>,
    rkey: U32<BE>,
    swap_or_add: U64<BE>,
    compare: U64<BE>,
}

impl AtomicEth {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<AtomicEthLayout>();

    /// From the first bytes; `None` when there are fewer than [`AtomicEth::LEN`].
    pub fn parse(bytes: &[u8]) -> Option<AtomicEth> {
        let (raw, _) = AtomicEthLayout::ref_from_prefix(bytes).ok()?;
        Some(AtomicEth {
            va: raw.va.get(),
            rkey: raw.rkey.get(),
            swap_or_add: raw.swap_or_add.get(),
            compare: raw.compare.get(),
        })
    }

    /// Writes the first [`AtomicEth::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let raw = AtomicEthLayout {
            va: U64::new(self.va),
            rkey: U32::new(self.rkey),
            swap_or_add: U64::new(self.swap_or_add),
            compare: U64::new(self.compare),
        };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

/// AtomicAckETH, 8 bytes: follows the AETH in the answer to an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The word before the operation, whether or not it changed it.
    pub original: u64,
}

impl AtomicAckEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// From the first bytes; `None` when there are fewer than [`AtomicAckEth::LEN`].
    pub fn parse(bytes: &[u8]) -> Option<AtomicAckEth> {
        Some(AtomicAckEth { original: u64::from_be_bytes(*bytes.first_chunk()?) })
    }

    /// Writes the first [`AtomicAckEth::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        out[..Self::LEN].copy_from_slice(&self.original.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes: [u8; 28] = core::array::from_fn(|i| i as u8 + 1);
        let atomic = AtomicEth::parse(&bytes).unwrap();
        assert_eq!(
            atomic,
            AtomicEth {
                va: 0x0102_0304_0506_0708,
                rkey: 0x090A_0B0C,
                swap_or_add: 0x0D0E_0F10_1112_1314,
                compare: 0x1516_1718_191A_1B1C,
            }
        );
        let mut out = [0; 28];
        atomic.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(AtomicEth::parse(&bytes[..27]), None);
    }

    #[test]
    fn ack_round_trip() {
        let bytes = [0xEA, 0xE3, 0xDC, 0xD5, 0xCE, 0xC7, 0xC0, 0xB9];
        let ack = AtomicAckEth::parse(&bytes).unwrap();
        assert_eq!(ack.original.to_le_bytes(), [0xB9, 0xC0, 0xC7, 0xCE, 0xD5, 0xDC, 0xE3, 0xEA]);
        let mut out = [0; 8];
        ack.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(AtomicAckEth::parse(&bytes[..7]), None);
    }
}
