//! Immediate data, and the key that a SEND invalidates.

/// ImmDt, 4 bytes: handed to the receiver's completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImmDt(pub u32);

/// IETH, 4 bytes: the R_Key to invalidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ieth(pub u32);

macro_rules! word_header {
    ($name:ident) => {
        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = 4;

            /// From the first four bytes; `None` when there are fewer.
            #[inline]
            pub fn parse(bytes: &[u8]) -> Option<$name> {
                Some($name(u32::from_be_bytes(*bytes.first_chunk()?)))
            }

            /// Writes the first four bytes of `out`; panics when it is shorter.
            #[inline]
            pub fn emit(&self, out: &mut [u8]) {
                out[..Self::LEN].copy_from_slice(&self.0.to_be_bytes());
            }
        }
    };
}
word_header!(ImmDt);
word_header!(Ieth);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [0xCA, 0xFE, 0x00, 0x01];
        assert_eq!(ImmDt::parse(&bytes), Some(ImmDt(0xCAFE_0001)));
        assert_eq!(Ieth::parse(&bytes), Some(Ieth(0xCAFE_0001)));
        assert_eq!((ImmDt::parse(&bytes[..3]), Ieth::parse(&bytes[..3])), (None, None));
        let mut out = [0; 4];
        ImmDt(0xCAFE_0001).emit(&mut out);
        assert_eq!(out, bytes);
        Ieth(0x0102_0304).emit(&mut out);
        assert_eq!(out, [1, 2, 3, 4]);
    }
}
