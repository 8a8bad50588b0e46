//! FLUSH extended transport header.

/// FETH, 4 bytes: what a FLUSH makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Feth {
    /// Reserved, 26 bits: sent 0, ignored.
    pub resv26: u32,
    /// Selectivity, 2 bits: 0 the range of the RETH, 1 the whole memory region.
    pub selectivity: u8,
    /// Placement, 4 bits: bit 0 global visibility, bit 1 persistence.
    pub placement: u8,
}

impl Feth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// From the first four bytes; `None` when there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<Feth> {
        let word = u32::from_be_bytes(*bytes.first_chunk()?);
        Some(Feth { resv26: word >> 6, selectivity: (word >> 4) as u8 & 3, placement: word as u8 & 0xF })
    }

    /// Writes the first four bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let word = self.resv26 << 6 | u32::from(self.selectivity & 3) << 4 | u32::from(self.placement & 0xF);
        out[..Self::LEN].copy_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [0x12, 0x34, 0x56, 0x92];
        let feth = Feth::parse(&bytes).unwrap();
        assert_eq!(feth, Feth { resv26: 0x1234_5692 >> 6, selectivity: 1, placement: 2 });
        let mut out = [0; 4];
        feth.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Feth::parse(&bytes[..3]), None);
    }
}
