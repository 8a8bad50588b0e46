//! XRCETH and RDETH: a reserved byte and a 24-bit number each.

/// XRCETH, 4 bytes: the shared receive queue of an XRC packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xrceth {
    /// Reserved: sent 0, ignored.
    pub resv8: u8,
    /// XRC shared receive queue number, 24 bits.
    pub srqn: u32,
}

/// RDETH, 4 bytes: the end-to-end context of a reliable datagram.  Not used on RoCE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rdeth {
    /// Reserved: sent 0, ignored.
    pub resv8: u8,
    /// End-to-end context, 24 bits.
    pub eec: u32,
}

macro_rules! number_header {
    ($name:ident, $field:ident) => {
        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = 4;

            /// From the first four bytes; `None` when there are fewer.
            pub fn parse(bytes: &[u8]) -> Option<$name> {
                let word = u32::from_be_bytes(*bytes.first_chunk()?);
                Some($name { resv8: (word >> 24) as u8, $field: word & 0xFF_FFFF })
            }

            /// Writes the first four bytes of `out`; panics when it is shorter.
            pub fn emit(&self, out: &mut [u8]) {
                let word = u32::from(self.resv8) << 24 | self.$field & 0xFF_FFFF;
                out[..Self::LEN].copy_from_slice(&word.to_be_bytes());
            }
        }
    };
}
number_header!(Xrceth, srqn);
number_header!(Rdeth, eec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [0xA5, 0x12, 0x34, 0x56];
        let xrceth = Xrceth::parse(&bytes).unwrap();
        assert_eq!(xrceth, Xrceth { resv8: 0xA5, srqn: 0x123456 });
        assert_eq!(Rdeth::parse(&bytes), Some(Rdeth { resv8: 0xA5, eec: 0x123456 }));
        let mut out = [0; 4];
        xrceth.emit(&mut out);
        assert_eq!(out, bytes);
        Rdeth { resv8: 0, eec: 0xFFFF_FFFF }.emit(&mut out);
        assert_eq!(out, [0, 0xFF, 0xFF, 0xFF]);
        assert_eq!(Xrceth::parse(&bytes[..3]), None);
    }
}
