//! The IPv6 header, and the GRH of RoCEv1, which has the same layout.

use core::net::Ipv6Addr;
use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U16, U32, Unaligned};

/// An IPv6 header or GRH of 40 bytes, every field as transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6 {
    /// Version, 4 bits: 6.
    pub version: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header.
    pub payload_len: u16,
    /// 17 for UDP, 0x1B in a GRH.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Ipv6Layout {
    /// Version 4 bits, traffic class 8, flow label 20.
    first: U32<BE>,
    payload_len: U16<BE>,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

impl Ipv6 {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<Ipv6Layout>();

    /// From the first bytes; `None` when there are fewer than [`Ipv6::LEN`].  Checks no field.
    pub fn parse(bytes: &[u8]) -> Option<Ipv6> {
        let (raw, _) = Ipv6Layout::ref_from_prefix(bytes).ok()?;
        let first = raw.first.get();
        Some(Ipv6 {
            version: (first >> 28) as u8,
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xF_FFFF,
            payload_len: raw.payload_len.get(),
            next_header: raw.next_header,
            hop_limit: raw.hop_limit,
            src: raw.src.into(),
            dst: raw.dst.into(),
        })
    }

    /// Writes the first [`Ipv6::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let first = u32::from(self.version & 0xF) << 28
            | u32::from(self.traffic_class) << 20
            | self.flow_label & 0xF_FFFF;
        let raw = Ipv6Layout {
            first: U32::new(first),
            payload_len: U16::new(self.payload_len),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let mut bytes: [u8; 40] = core::array::from_fn(|i| i as u8);
        bytes[..8].copy_from_slice(&[0x66, 0xBA, 0xBC, 0xDE, 0x00, 0x20, 0x11, 0x11]);
        let ip = Ipv6::parse(&bytes).unwrap();
        assert_eq!((ip.version, ip.traffic_class, ip.flow_label), (6, 0x6B, 0xABCDE));
        assert_eq!((ip.payload_len, ip.next_header, ip.hop_limit), (32, 17, 17));
        let mut out = [0xEE; 40];
        ip.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Ipv6::parse(&bytes[..39]), None);
    }
}
