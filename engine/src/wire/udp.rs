//! The UDP header and its checksum.

use super::checksum::{fold, sum};
use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U16, Unaligned};

/// A UDP header, 8 bytes, every field as transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Udp {
    /// Source port: flow entropy, constant for a QP; receivers do not filter on it.
    pub sport: u16,
    /// Destination port: [`super::UDP_PORT`].
    pub dport: u16,
    /// Bytes of the datagram, this header included.
    pub len: u16,
    /// Checksum; 0 is none, over IPv6 too.
    pub checksum: u16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct UdpLayout {
    sport: U16<BE>,
    dport: U16<BE>,
    len: U16<BE>,
    checksum: U16<BE>,
}

impl Udp {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<UdpLayout>();

    /// From the first bytes; `None` when there are fewer than [`Udp::LEN`].
    pub fn parse(bytes: &[u8]) -> Option<Udp> {
        let (raw, _) = UdpLayout::ref_from_prefix(bytes).ok()?;
        Some(Udp {
            sport: raw.sport.get(),
            dport: raw.dport.get(),
            len: raw.len.get(),
            checksum: raw.checksum.get(),
        })
    }

    /// Writes the first [`Udp::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let raw = UdpLayout {
            sport: U16::new(self.sport),
            dport: U16::new(self.dport),
            len: U16::new(self.len),
            checksum: U16::new(self.checksum),
        };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

/// Whether the nonzero checksum of a UDP `datagram` is right; `addresses` are the bytes of source
/// and destination together, 8 or 32.
pub(super) fn checksum_is_right(addresses: &[u8], datagram: &[u8]) -> bool {
    pseudo_sum(addresses, datagram) == 0xFFFF
}

/// The checksum that a UDP `datagram` whose checksum field is zero ought to carry.
pub(super) fn computed_checksum(addresses: &[u8], datagram: &[u8]) -> u16 {
    match !pseudo_sum(addresses, datagram) {
        0 => 0xFFFF,
        checksum => checksum,
    }
}

fn pseudo_sum(addresses: &[u8], datagram: &[u8]) -> u16 {
    let protocol_and_len = u64::from(super::IP_PROTO_UDP) + datagram.len() as u64;
    fold(sum(addresses) + protocol_and_len + sum(datagram))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [0xC0, 0x01, 0x12, 0xB7, 0x00, 0x2C, 0xAC, 0xA2];
        let udp = Udp::parse(&bytes).unwrap();
        assert_eq!(udp, Udp { sport: 0xC001, dport: 4791, len: 44, checksum: 0xACA2 });
        let mut out = [0xEE; 8];
        udp.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Udp::parse(&bytes[..7]), None);
    }

    #[test]
    fn checksum_of_a_datagram() {
        let addresses = [10, 1, 2, 3, 10, 1, 2, 4];
        let mut datagram = [0xC0, 0x01, 0x12, 0xB7, 0x00, 0x0B, 0, 0, 1, 2, 3];
        let checksum = computed_checksum(&addresses, &datagram);
        datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
        assert!(checksum_is_right(&addresses, &datagram));
        for bit in 0..datagram.len() * 8 {
            let mut wrong = datagram;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!checksum_is_right(&addresses, &wrong), "bit {bit}");
        }
    }
}
