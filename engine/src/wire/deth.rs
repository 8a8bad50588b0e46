//! Datagram extended transport header.

use crate::units::Qpn;
use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U32, Unaligned};

/// DETH, 8 bytes: Q_Key and sender of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deth {
    /// Must equal the receiving QP's Q_Key.
    pub qkey: u32,
    /// The reserved byte before `src_qp`: sent 0, ignored.
    pub resv8: u8,
    /// The sending QP.
    pub src_qp: Qpn,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DethLayout {
    qkey: U32<BE>,
    /// Reserved 8 bits, source QP 24.
    src_qp: U32<BE>,
}

impl Deth {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<DethLayout>();

    /// From the first bytes; `None` when there are fewer than [`Deth::LEN`].
    pub fn parse(bytes: &[u8]) -> Option<Deth> {
        let (raw, _) = DethLayout::ref_from_prefix(bytes).ok()?;
        let word = raw.src_qp.get();
        Some(Deth { qkey: raw.qkey.get(), resv8: (word >> 24) as u8, src_qp: Qpn::new(word) })
    }

    /// Writes the first [`Deth::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let word = u32::from(self.resv8) << 24 | self.src_qp.get();
        let raw = DethLayout { qkey: U32::new(self.qkey), src_qp: U32::new(word) };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [0x80, 0x01, 0x00, 0x00, 0xA5, 0x12, 0x34, 0x56];
        let deth = Deth::parse(&bytes).unwrap();
        assert_eq!(deth, Deth { qkey: 0x8001_0000, resv8: 0xA5, src_qp: Qpn::new(0x123456) });
        let mut out = [0; 8];
        deth.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Deth::parse(&bytes[..7]), None);
    }
}
