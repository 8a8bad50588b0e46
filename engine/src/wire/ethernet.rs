//! Ethernet II and the 802.1Q tag.

use super::MacAddr;
use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U16, Unaligned};

/// The Ethernet header, 14 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// EtherType of what follows: [`super::ETHERTYPE_VLAN`] when a tag does.
    pub ethertype: u16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EthernetLayout {
    dst: [u8; 6],
    src: [u8; 6],
    ethertype: U16<BE>,
}

impl Ethernet {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<EthernetLayout>();

    /// From the first bytes; `None` when there are fewer than [`Ethernet::LEN`].
    pub fn parse(bytes: &[u8]) -> Option<Ethernet> {
        let (raw, _) = EthernetLayout::ref_from_prefix(bytes).ok()?;
        Some(Ethernet { dst: MacAddr(raw.dst), src: MacAddr(raw.src), ethertype: raw.ethertype.get() })
    }

    /// Writes the first [`Ethernet::LEN`] bytes of `out`; panics when it is shorter.
    pub fn emit(&self, out: &mut [u8]) {
        let raw = EthernetLayout { dst: self.dst.0, src: self.src.0, ethertype: U16::new(self.ethertype) };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

/// The tag control information of an 802.1Q tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// Priority, 0..=7.
    pub pcp: u8,
    /// Drop eligible.
    pub dei: bool,
    /// VLAN identifier, 0..=4095; 0 is a priority tag.
    pub vid: u16,
}

impl Vlan {
    /// Bytes that a tag adds to a frame: EtherType and TCI.
    pub const LEN: usize = 4;

    /// From the 16 bits of the TCI.
    #[inline]
    pub const fn from_tci(tci: u16) -> Vlan {
        Vlan { pcp: (tci >> 13) as u8, dei: tci & 0x1000 != 0, vid: tci & 0x0FFF }
    }

    /// The 16 bits of the TCI; bits that do not fit a field are cut off.
    #[inline]
    pub const fn tci(self) -> u16 {
        ((self.pcp & 7) as u16) << 13 | (self.dei as u16) << 12 | self.vid & 0x0FFF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes: [u8; 14] = core::array::from_fn(|i| i as u8);
        let eth = Ethernet::parse(&bytes).unwrap();
        assert_eq!(eth.dst, MacAddr([0, 1, 2, 3, 4, 5]));
        assert_eq!(eth.ethertype, 0x0C0D);
        let mut out = [0xEE; 14];
        eth.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Ethernet::parse(&bytes[..13]), None);
    }

    #[test]
    fn every_tci() {
        for tci in 0..=u16::MAX {
            let vlan = Vlan::from_tci(tci);
            assert_eq!(vlan.tci(), tci);
            assert!(vlan.pcp < 8 && vlan.vid < 4096);
        }
        assert_eq!(Vlan::from_tci(0x602A), Vlan { pcp: 3, dei: false, vid: 42 });
    }
}
