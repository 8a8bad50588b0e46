//! A checked packet: what [`classify`](super::classify) hands out.

use super::icrc::{self, Encapsulation};
use super::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Ecn, Ethernet, Feth, Gid, ICRC_LEN, Ieth, ImmDt, Ipv4, Ipv6,
    MacAddr, OpcodeInfo, PayloadRule, Rdeth, Reth, Udp, Vlan, Xrceth,
};
use core::fmt;

/// A frame whose every length is proven and whose opcode is known.  The iCRC is not verified yet.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// Facts about the opcode.
    pub info: &'static OpcodeInfo,
    /// The tag, in the frame or stripped by the NIC.
    pub vlan: Option<Vlan>,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// UDP source port; 0 in RoCEv1.
    pub sport: u16,
    /// Whether the network header is IPv6, or a GRH.
    pub is_ipv6: bool,
    pub(super) encapsulation: Encapsulation,
    /// Offset of the IP header or GRH.
    pub(super) l3: u8,
    /// Offset of the BTH.
    pub(super) bth_at: u8,
    /// Offset of the byte after the iCRC; at most the length of `frame`, unless that is cut off.
    pub(super) end: u32,
    /// Only the headers are in `frame`.
    pub(super) hollow: bool,
    pub(super) frame: &'a [u8],
    /// What comes after the headers, where it is not in `frame`.
    pub(super) rest: Option<Rest<'a>>,
}

/// What comes after the headers.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a> {
    pub(super) payload: &'a [u8],
    pub(super) pad: &'a [u8],
    pub(super) icrc: &'a [u8; ICRC_LEN],
}

impl<'a> Packet<'a> {
    /// The frame as received, trailer included.
    #[inline]
    pub fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// Bytes from the Ethernet header to the iCRC, without trailer.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.end as usize
    }

    /// Copies it into the first [`Packet::wire_len`] bytes of `out`, in one piece.
    ///
    /// # Panics
    ///
    /// When `out` is shorter.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) {
        let pieces = match &self.rest {
            None => [&self.frame[..self.wire_len()], &[], &[], &[]],
            Some(rest) => [&self.frame[..self.headers_end()], rest.payload, rest.pad, rest.icrc],
        };
        let mut at = 0;
        for piece in pieces {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }

    /// Whether it came in a GRH rather than in UDP.
    pub fn is_rocev1(&self) -> bool {
        self.encapsulation == Encapsulation::Grh
    }

    /// What precedes the BTH.
    pub fn encapsulation(&self) -> Encapsulation {
        self.encapsulation
    }

    /// Destination MAC address.
    pub fn dst_mac(&self) -> MacAddr {
        MacAddr(self.array_at(0))
    }

    /// Source MAC address.
    pub fn src_mac(&self) -> MacAddr {
        MacAddr(self.array_at(6))
    }

    /// Source GID.
    #[inline]
    pub fn src(&self) -> Gid {
        if self.is_ipv6 { Gid::new(self.array_at(self.l3() + 8)) } else { self.mapped(self.l3() + 12) }
    }

    /// Destination GID.
    #[inline]
    pub fn dst(&self) -> Gid {
        if self.is_ipv6 { Gid::new(self.array_at(self.l3() + 24)) } else { self.mapped(self.l3() + 16) }
    }

    /// Congestion bits of the network header.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::of_tos(self.tos)
    }

    /// Differentiated services code point, 0..=63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// The Ethernet header.
    pub fn ethernet(&self) -> Ethernet {
        Ethernet {
            dst: self.dst_mac(),
            src: self.src_mac(),
            ethertype: u16::from_be_bytes(self.array_at(Ethernet::LEN - 2)),
        }
    }

    /// The bytes of the network header: 20 of IPv4, 40 of IPv6 or a GRH.
    pub fn network(&self) -> &'a [u8] {
        let len = if self.is_ipv6 { Ipv6::LEN } else { Ipv4::LEN };
        self.frame.get(self.l3()..self.l3() + len).unwrap_or_default()
    }

    /// The IPv4 header.
    pub fn ipv4(&self) -> Option<Ipv4> {
        if self.is_ipv6 { None } else { Ipv4::parse(self.from(self.l3())) }
    }

    /// The IPv6 header or GRH.
    pub fn ipv6(&self) -> Option<Ipv6> {
        if self.is_ipv6 { Ipv6::parse(self.from(self.l3())) } else { None }
    }

    /// The UDP header; none in RoCEv1.
    pub fn udp(&self) -> Option<Udp> {
        if self.is_rocev1() { None } else { Udp::parse(self.from(self.bth_at() - Udp::LEN)) }
    }

    /// RETH, if the opcode has one.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        if self.info.reth { Reth::parse(self.from(self.bth_at() + self.info.main_at())) } else { None }
    }

    /// AETH, if the opcode has one.
    #[inline]
    pub fn aeth(&self) -> Option<Aeth> {
        if self.info.aeth { Aeth::parse(self.from(self.bth_at() + self.info.main_at())) } else { None }
    }

    /// AtomicETH, if the opcode has one.
    #[inline]
    pub fn atomic(&self) -> Option<AtomicEth> {
        if self.info.atomic { AtomicEth::parse(self.from(self.bth_at() + self.info.main_at())) } else { None }
    }

    /// AtomicAckETH, if the opcode has one.
    #[inline]
    pub fn atomic_ack(&self) -> Option<AtomicAckEth> {
        if self.info.atomic_ack {
            AtomicAckEth::parse(self.from(self.payload_at() - AtomicAckEth::LEN))
        } else {
            None
        }
    }

    /// DETH, if the opcode has one.
    #[inline]
    pub fn deth(&self) -> Option<Deth> {
        if self.info.deth { Deth::parse(self.from(self.bth_at() + self.info.deth_at())) } else { None }
    }

    /// Immediate data, if the opcode has some.
    #[inline]
    pub fn imm(&self) -> Option<ImmDt> {
        if self.info.imm { ImmDt::parse(self.from(self.payload_at() - ImmDt::LEN)) } else { None }
    }

    /// IETH, if the opcode has one.
    #[inline]
    pub fn ieth(&self) -> Option<Ieth> {
        if self.info.ieth { Ieth::parse(self.from(self.payload_at() - Ieth::LEN)) } else { None }
    }

    /// XRCETH, if the opcode has one.
    pub fn xrceth(&self) -> Option<Xrceth> {
        if self.info.xrceth { Xrceth::parse(self.from(self.bth_at() + Bth::LEN)) } else { None }
    }

    /// RDETH, if the opcode has one.  No packet has: see [`classify`](super::classify).
    pub fn rdeth(&self) -> Option<Rdeth> {
        if self.info.rdeth { Rdeth::parse(self.from(self.bth_at() + Bth::LEN)) } else { None }
    }

    /// FETH, if the opcode has one.
    pub fn feth(&self) -> Option<Feth> {
        if self.info.feth { Feth::parse(self.from(self.bth_at() + self.info.feth_at())) } else { None }
    }

    /// The payload, without pad.  May be there although the opcode allows none; empty where only
    /// the headers are here.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        if self.hollow {
            return &[];
        }
        if let Some(rest) = &self.rest {
            return rest.payload;
        }
        self.frame.get(self.payload_at()..self.icrc_at() - usize::from(self.bth.pad)).unwrap_or_default()
    }

    /// Bytes of the payload, whether they are here or not.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.icrc_at() - usize::from(self.bth.pad) - self.payload_at()
    }

    /// Whether only the headers are here.
    #[inline]
    pub fn is_hollow(&self) -> bool {
        self.hollow
    }

    /// Copies the payload into `sink`, which has its length.  Where only the headers are here, there
    /// is nothing to copy.
    #[inline]
    pub fn copy_payload(&self, sink: &mut [u8]) {
        if !self.hollow {
            sink.copy_from_slice(self.payload());
        }
    }

    /// The pad bytes.
    pub fn pad(&self) -> &'a [u8] {
        if let Some(rest) = &self.rest {
            return rest.pad;
        }
        self.frame.get(self.icrc_at() - usize::from(self.bth.pad)..self.icrc_at()).unwrap_or_default()
    }

    /// Everything from the BTH to the last pad byte; empty for a frame in pieces.
    pub fn body(&self) -> &'a [u8] {
        self.frame.get(self.bth_at()..self.icrc_at()).unwrap_or_default()
    }

    /// Bytes of the frame after the iCRC: Ethernet padding, or an FCS that was left on.
    pub fn trailer(&self) -> &'a [u8] {
        self.from(self.wire_len())
    }

    /// Whether PadCnt is zero where the opcode's payload can only be a multiple of four.
    ///
    /// That payload and pad together are a multiple of four is always so.
    #[inline]
    pub fn pad_is_consistent(&self) -> bool {
        self.bth.pad == 0 || matches!(self.info.payload, PayloadRule::OneToMtu | PayloadRule::ZeroToMtu)
    }

    /// The iCRC bytes in the frame.
    #[inline]
    pub fn icrc_found(&self) -> [u8; ICRC_LEN] {
        match &self.rest {
            Some(rest) => *rest.icrc,
            None => self.array_at(self.icrc_at()),
        }
    }

    /// The iCRC bytes that the frame ought to have.
    #[inline]
    pub fn icrc_computed(&self) -> [u8; ICRC_LEN] {
        if let Some(rest) = &self.rest {
            let running = icrc::begin(self.encapsulation, self.from(self.l3()));
            return running.map(|r| r.then(rest.payload).then(rest.pad).finish()).unwrap_or_default();
        }
        let covered = self.frame.get(self.l3()..self.icrc_at()).unwrap_or_default();
        icrc::compute(self.encapsulation, covered).unwrap_or_default()
    }

    /// Whether the iCRC is right; drop the packet as [`DropReason::Icrc`](super::DropReason::Icrc) when it is not.
    #[inline]
    pub fn verify_icrc(&self) -> bool {
        self.icrc_found() == self.icrc_computed()
    }

    /// Offset of the byte after the last header.
    #[inline]
    pub(super) fn headers_end(&self) -> usize {
        self.payload_at()
    }

    /// Whether the UDP checksum is 0, none.
    #[inline]
    pub(super) fn has_no_udp_checksum(&self) -> bool {
        self.is_rocev1() || self.array_at(self.bth_at() - 2) == [0, 0]
    }

    #[inline]
    fn l3(&self) -> usize {
        usize::from(self.l3)
    }

    #[inline]
    fn bth_at(&self) -> usize {
        usize::from(self.bth_at)
    }

    #[inline]
    fn payload_at(&self) -> usize {
        self.bth_at() + usize::from(self.info.header_len)
    }

    #[inline]
    fn icrc_at(&self) -> usize {
        self.end as usize - ICRC_LEN
    }

    /// The frame from `at` on; all callers' offsets lie within.
    #[inline]
    fn from(&self, at: usize) -> &'a [u8] {
        self.frame.get(at..).unwrap_or_default()
    }

    #[inline]
    fn array_at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.from(at).first_chunk().copied().unwrap_or([0; N])
    }

    #[inline]
    fn mapped(&self, at: usize) -> Gid {
        Gid::from(self.array_at::<4>(at))
    }
}

/// Without the frame's bytes.
impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("src", &self.src())
            .field("dst", &self.dst())
            .field("vlan", &self.vlan)
            .field("tos", &self.tos)
            .field("sport", &self.sport)
            .field("bth", &self.bth)
            .field("payload_len", &self.payload().len())
            .finish_non_exhaustive()
    }
}
