//! The IPv4 header without options.

use super::checksum::{fold, sum};
use core::net::Ipv4Addr;
use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U16, Unaligned};

/// An IPv4 header of 20 bytes, every field as transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4 {
    /// Version and header length in words: 0x45.
    pub version_ihl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Bytes of the datagram, this header included.
    pub total_len: u16,
    /// Identification; covered by the iCRC.
    pub id: u16,
    /// Flags (DF 0x4000, MF 0x2000) and fragment offset; covered by the iCRC.
    pub flags_frag: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol: 17.
    pub protocol: u8,
    /// Header checksum as transmitted; see [`Ipv4::computed_checksum`].
    pub checksum: u16,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Ipv4Layout {
    version_ihl: u8,
    tos: u8,
    total_len: U16<BE>,
    id: U16<BE>,
    flags_frag: U16<BE>,
    ttl: u8,
    protocol: u8,
    checksum: U16<BE>,
    src: [u8; 4],
    dst: [u8; 4],
}

impl Ipv4 {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<Ipv4Layout>();
    /// The don't-fragment bit of [`Ipv4::flags_frag`].
    pub const DF: u16 = 0x4000;

    /// From the first bytes; `None` when there are fewer than [`Ipv4::LEN`].  Checks no field.
    pub fn parse(bytes: &[u8]) -> Option<Ipv4> {
        let (raw, _) = Ipv4Layout::ref_from_prefix(bytes).ok()?;
        Some(Ipv4 {
            version_ihl: raw.version_ihl,
            tos: raw.tos,
            total_len: raw.total_len.get(),
            id: raw.id.get(),
            flags_frag: raw.flags_frag.get(),
            ttl: raw.ttl,
            protocol: raw.protocol,
            checksum: raw.checksum.get(),
            src: raw.src.into(),
            dst: raw.dst.into(),
        })
    }

    /// Writes the first [`Ipv4::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let raw = Ipv4Layout {
            version_ihl: self.version_ihl,
            tos: self.tos,
            total_len: U16::new(self.total_len),
            id: U16::new(self.id),
            flags_frag: U16::new(self.flags_frag),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::new(self.checksum),
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }

    /// The checksum that this header ought to carry.
    pub fn computed_checksum(&self) -> u16 {
        let mut bytes = [0; Self::LEN];
        Ipv4 { checksum: 0, ..*self }.emit(&mut bytes);
        !fold(sum(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of the ConnectX-4 Lx notification packet.
    const HEADER: [u8; 20] =
        [0x45, 0xC2, 0x00, 0x3C, 0x71, 0x8C, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 10, 0, 17, 1, 10, 0, 18, 1];

    #[test]
    fn round_trip() {
        let ip = Ipv4::parse(&HEADER).unwrap();
        assert_eq!(ip.tos, 0xC2);
        assert_eq!(ip.total_len, 60);
        assert_eq!(ip.flags_frag, Ipv4::DF);
        assert_eq!(ip.src, Ipv4Addr::new(10, 0, 17, 1));
        assert_eq!(ip.checksum, ip.computed_checksum());
        assert_ne!(ip.checksum, Ipv4 { id: 0, ..ip }.computed_checksum());
        let mut out = [0xEE; 20];
        ip.emit(&mut out);
        assert_eq!(out, HEADER);
        assert_eq!(Ipv4::parse(&HEADER[..19]), None);
    }
}
