//! The path MTU.

use core::fmt;

/// A path MTU: the payload bytes of every packet of a message but the last.
///
/// Only these five values exist in verbs, in the connection manager and on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes, code 1.
    B256 = 1,
    /// 512 bytes, code 2.
    B512 = 2,
    /// 1024 bytes, code 3.
    B1024 = 3,
    /// 2048 bytes, code 4.
    B2048 = 4,
    /// 4096 bytes, code 5.
    B4096 = 5,
}

impl Mtu {
    /// All of them, ascending.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// Payload bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        128 << self as u8
    }

    /// The shift that divides by [`Mtu::bytes`].
    #[inline]
    pub const fn shift(self) -> u32 {
        7 + self as u32
    }

    /// The code that verbs and the connection manager use, 1..=5.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// From a byte count; `None` for any value that is not a path MTU.
    pub fn from_bytes(bytes: u32) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|m| m.bytes() == bytes as usize)
    }

    /// The number of packets of a message of `len` bytes; a message of no bytes is one packet.
    #[inline]
    pub const fn packets(self, len: u32) -> u32 {
        let n = (len as u64 + self.bytes() as u64 - 1) >> self.shift();
        if n == 0 { 1 } else { n as u32 }
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_message() {
        assert_eq!(Mtu::B1024.packets(0), 1);
        assert_eq!(Mtu::B1024.packets(1), 1);
        assert_eq!(Mtu::B1024.packets(1024), 1);
        assert_eq!(Mtu::B1024.packets(1025), 2);
        assert_eq!(Mtu::B256.packets(1 << 31), 1 << 23);
        assert_eq!(Mtu::B4096.packets(u32::MAX), 1 << 20);
    }

    #[test]
    fn codes_and_bytes() {
        let all: Vec<_> = Mtu::ALL.iter().map(|m| (m.code(), m.bytes(), 1usize << m.shift())).collect();
        assert_eq!(all, [(1, 256, 256), (2, 512, 512), (3, 1024, 1024), (4, 2048, 2048), (5, 4096, 4096)]);
        assert_eq!(Mtu::from_bytes(4096), Some(Mtu::B4096));
        assert_eq!(Mtu::from_bytes(1500), None);
    }
}
