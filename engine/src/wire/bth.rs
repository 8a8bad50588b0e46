//! Base transport header.

use super::Opcode;
use crate::units::{Psn, Qpn};
use zerocopy::{BE, FromBytes, Immutable, IntoBytes, KnownLayout, U16, U32, Unaligned};

/// BTH, 12 bytes: the first transport header of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event (SE).
    pub solicited: bool,
    /// MigReq: sent as 1, ignored.
    pub migreq: bool,
    /// PadCnt: bytes after the payload, 0..=3.
    pub pad: u8,
    /// Transport header version, 4 bits: 0, anything else is dropped.
    pub tver: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification: sent 0, ignored.
    pub fecn: bool,
    /// Backward congestion notification: 1 in a CNP.
    pub becn: bool,
    /// Reserved 6 bits next to FECN and BECN: sent 0, ignored.
    pub resv6: u8,
    /// Destination QP.
    pub dest_qp: Qpn,
    /// The requester asks for an acknowledgement (A).
    pub ack_req: bool,
    /// Reserved 7 bits next to A: sent 0, ignored.
    pub resv7: u8,
    /// Packet sequence number.
    pub psn: Psn,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BthLayout {
    opcode: u8,
    /// SE 1 bit, M 1, PadCnt 2, TVer 4.
    flags: u8,
    pkey: U16<BE>,
    /// F 1 bit, B 1, reserved 6, destination QP 24.
    dest_qp: U32<BE>,
    /// A 1 bit, reserved 7, PSN 24.
    psn: U32<BE>,
}

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<BthLayout>();

    /// From the first bytes; `None` when there are fewer than [`Bth::LEN`].  Checks no field.
    pub fn parse(bytes: &[u8]) -> Option<Bth> {
        bytes.first_chunk().map(Bth::decode)
    }

    #[inline(always)]
    pub(super) fn decode(bytes: &[u8; Bth::LEN]) -> Bth {
        let raw: &BthLayout = zerocopy::transmute_ref!(bytes);
        let (dest_qp, psn) = (raw.dest_qp.get(), raw.psn.get());
        Bth {
            opcode: Opcode(raw.opcode),
            solicited: raw.flags & 0x80 != 0,
            migreq: raw.flags & 0x40 != 0,
            pad: raw.flags >> 4 & 3,
            tver: raw.flags & 0xF,
            pkey: raw.pkey.get(),
            fecn: dest_qp & 0x8000_0000 != 0,
            becn: dest_qp & 0x4000_0000 != 0,
            resv6: (dest_qp >> 24) as u8 & 0x3F,
            dest_qp: Qpn::new(dest_qp),
            ack_req: psn & 0x8000_0000 != 0,
            resv7: (psn >> 24) as u8 & 0x7F,
            psn: Psn::new(psn),
        }
    }

    /// Writes the first [`Bth::LEN`] bytes of `out`; panics when it is shorter.  Bits that do not
    /// fit a field are cut off.
    pub fn emit(&self, out: &mut [u8]) {
        let flags = u8::from(self.solicited) << 7
            | u8::from(self.migreq) << 6
            | (self.pad & 3) << 4
            | self.tver & 0xF;
        let dest_qp = u32::from(self.fecn) << 31
            | u32::from(self.becn) << 30
            | u32::from(self.resv6 & 0x3F) << 24
            | self.dest_qp.get();
        let psn = u32::from(self.ack_req) << 31 | u32::from(self.resv7 & 0x7F) << 24 | self.psn.get();
        let raw = BthLayout {
            opcode: self.opcode.0,
            flags,
            pkey: U16::new(self.pkey),
            dest_qp: U32::new(dest_qp),
            psn: U32::new(psn),
        };
        out[..Self::LEN].copy_from_slice(raw.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let bytes = [0x04, 0xF0, 0xFF, 0xFF, 0x40, 0x12, 0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF];
        let bth = Bth::parse(&bytes).unwrap();
        let want = Bth {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: true,
            migreq: true,
            pad: 3,
            tver: 0,
            pkey: 0xFFFF,
            fecn: false,
            becn: true,
            resv6: 0,
            dest_qp: Qpn::new(0x123456),
            ack_req: true,
            resv7: 0,
            psn: Psn::new(0xABCDEF),
        };
        assert_eq!(bth, want);
        assert_eq!(Bth::parse(&bytes[..11]), None);
    }

    #[test]
    fn every_bit_survives() {
        for bit in 0..96 {
            let mut bytes = [0; 12];
            bytes[bit / 8] = 0x80 >> (bit % 8);
            let mut out = [0xEE; 12];
            Bth::parse(&bytes).unwrap().emit(&mut out);
            assert_eq!(out, bytes, "bit {bit}");
        }
    }
}
