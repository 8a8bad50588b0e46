//! RDMA extended transport header.

use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U32, U64, Unaligned};

/// RETH, 16 bytes: the remote range of a WRITE or READ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Virtual address of the first byte.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the whole message; more than 2^31 is an invalid request.
    pub len: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RethLayout {
    va: U64<BE>,
    rkey: U32<BE>,
    len: U32<BE>,
}

impl Reth {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<RethLayout>();

    /// From the first bytes; `None` when there are fewer than [`Reth::LEN`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Reth> {
        let (raw, _) = RethLayout::ref_from_prefix(bytes).ok()?;
        Some(Reth { va: raw.va.get(), rkey: raw.rkey.get(), len: raw.len.get() })
    }

    /// Writes the first [`Reth::LEN`] bytes of `out`; panics when it is shorter.
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8]) {
        let raw = RethLayout { va: U64::new(self.va), rkey: U32::new(self.rkey), len: U32::new(self.len) };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes: [u8; 16] = core::array::from_fn(|i| 0xF0 ^ i as u8);
        let reth = Reth::parse(&bytes).unwrap();
        assert_eq!(reth, Reth { va: 0xF0F1_F2F3_F4F5_F6F7, rkey: 0xF8F9_FAFB, len: 0xFCFD_FEFF });
        let mut out = [0; 16];
        reth.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Reth::parse(&bytes[..15]), None);
    }
}
