//! A whole frame in pieces, to look at, to alter and to put together again: for tests and tools.

use super::icrc::{self, Encapsulation};
use super::udp;
use super::{
    Aeth, AtomicAckEth, AtomicEth, Bth, CNP_RESERVED, Deth, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ROCEV1,
    Ethernet, Feth, ICRC_LEN, Ieth, ImmDt, Ipv4, Ipv6, Packet, Reth, Udp, Vlan, Xrceth,
};

/// The network header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// IPv4, before UDP.
    V4(Ipv4),
    /// IPv6, before UDP.
    V6(Ipv6),
    /// GRH: RoCEv1.
    Grh(Ipv6),
}

/// Every field of a frame, as it is or shall be on the wire: nothing is derived from anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Ethernet header.
    pub ethernet: Ethernet,
    /// Tag: emitted after the Ethernet header, with the EtherType that [`Parts::net`] has.
    pub vlan: Option<Vlan>,
    /// Network header.
    pub net: Net,
    /// UDP header; not in RoCEv1.
    pub udp: Option<Udp>,
    /// Base transport header.
    pub bth: Bth,
    /// XRCETH.
    pub xrceth: Option<Xrceth>,
    /// DETH.
    pub deth: Option<Deth>,
    /// FETH.
    pub feth: Option<Feth>,
    /// RETH.
    pub reth: Option<Reth>,
    /// AtomicETH.
    pub atomic: Option<AtomicEth>,
    /// AETH.
    pub aeth: Option<Aeth>,
    /// AtomicAckETH.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm: Option<ImmDt>,
    /// IETH.
    pub ieth: Option<Ieth>,
    /// The reserved bytes of a CNP.
    pub cnp_reserved: Option<[u8; CNP_RESERVED]>,
    /// Payload.
    pub payload: Vec<u8>,
    /// Pad: its bytes are here, its length in [`Bth::pad`] too.
    pub pad: Vec<u8>,
    /// Invariant CRC.
    pub icrc: [u8; ICRC_LEN],
    /// Bytes after it.
    pub trailer: Vec<u8>,
}

impl Parts {
    /// The parts of a packet.
    ///
    /// `None` when the tag was stripped by the NIC, so that the frame does not say all.
    pub fn of(packet: &Packet<'_>) -> Option<Parts> {
        let ethernet = packet.ethernet();
        if packet.vlan.is_some() != (ethernet.ethertype == super::ETHERTYPE_VLAN) {
            return None;
        }
        let net = match packet.encapsulation() {
            Encapsulation::Ipv4 => Net::V4(packet.ipv4()?),
            Encapsulation::Ipv6 => Net::V6(packet.ipv6()?),
            Encapsulation::Grh => Net::Grh(packet.ipv6()?),
        };
        let is_cnp = packet.bth.opcode == super::Opcode::CNP;
        let after_bth = &packet.body()[Bth::LEN..];
        Some(Parts {
            ethernet,
            vlan: packet.vlan,
            net,
            udp: packet.udp(),
            bth: packet.bth,
            xrceth: packet.xrceth(),
            deth: packet.deth(),
            feth: packet.feth(),
            reth: packet.reth(),
            atomic: packet.atomic(),
            aeth: packet.aeth(),
            atomic_ack: packet.atomic_ack(),
            imm: packet.imm(),
            ieth: packet.ieth(),
            cnp_reserved: if is_cnp { after_bth.first_chunk().copied() } else { None },
            payload: packet.payload().to_vec(),
            pad: packet.pad().to_vec(),
            icrc: packet.icrc_found(),
            trailer: packet.trailer().to_vec(),
        })
    }

    /// The frame, every field verbatim.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(super::MAX_HEADERS + self.payload.len() + 64);
        put(&mut out, Ethernet::LEN, |o| self.ethernet.emit(o));
        if let Some(vlan) = self.vlan {
            out.extend(vlan.tci().to_be_bytes());
            out.extend(self.network_ethertype().to_be_bytes());
        }
        match self.net {
            Net::V4(ip) => put(&mut out, Ipv4::LEN, |o| ip.emit(o)),
            Net::V6(ip) | Net::Grh(ip) => put(&mut out, Ipv6::LEN, |o| ip.emit(o)),
        }
        if let Some(udp) = self.udp {
            put(&mut out, Udp::LEN, |o| udp.emit(o));
        }
        out.extend(self.transport());
        out.extend(self.icrc);
        out.extend(&self.trailer);
        out
    }

    /// Sets the lengths, the IPv4 header checksum, a UDP checksum that is not 0, and the iCRC to what
    /// the other parts demand.  PadCnt stays as it is.
    #[must_use]
    pub fn sealed(mut self) -> Parts {
        let ib = self.transport().len() + ICRC_LEN;
        let udp_len = (Udp::LEN + ib) as u16;
        match &mut self.net {
            Net::V4(ip) => {
                ip.total_len = Ipv4::LEN as u16 + udp_len;
                ip.checksum = ip.computed_checksum();
            }
            Net::V6(ip) => ip.payload_len = udp_len,
            Net::Grh(ip) => ip.payload_len = ib as u16,
        }
        let mut wants_checksum = false;
        if let Some(udp) = &mut self.udp {
            wants_checksum = udp.checksum != 0;
            (udp.len, udp.checksum) = (udp_len, 0);
        }
        let l3 = Ethernet::LEN + self.vlan.map_or(0, |_| Vlan::LEN);
        let (encapsulation, addresses, udp_at) = match self.net {
            Net::V4(_) => (Encapsulation::Ipv4, l3 + 12, l3 + Ipv4::LEN),
            Net::V6(_) => (Encapsulation::Ipv6, l3 + 8, l3 + Ipv6::LEN),
            Net::Grh(_) => (Encapsulation::Grh, l3 + 8, l3 + Ipv6::LEN),
        };
        let frame = self.emit();
        let icrc_at = frame.len() - self.trailer.len() - ICRC_LEN;
        self.icrc = icrc::compute(encapsulation, &frame[l3..icrc_at]).expect("all headers are there");
        if let (true, Some(udp)) = (wants_checksum, &mut self.udp) {
            let datagram = [&frame[udp_at..icrc_at], &self.icrc].concat();
            udp.checksum = udp::computed_checksum(&frame[addresses..udp_at], &datagram);
        }
        self
    }

    /// The EtherType that belongs to the network header.
    pub fn network_ethertype(&self) -> u16 {
        match self.net {
            Net::V4(_) => ETHERTYPE_IPV4,
            Net::V6(_) => ETHERTYPE_IPV6,
            Net::Grh(_) => ETHERTYPE_ROCEV1,
        }
    }

    /// BTH to the last pad byte.
    fn transport(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.payload.len());
        put(&mut out, Bth::LEN, |o| self.bth.emit(o));
        if let Some(h) = self.xrceth {
            put(&mut out, Xrceth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.deth {
            put(&mut out, Deth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.feth {
            put(&mut out, Feth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.reth {
            put(&mut out, Reth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.atomic {
            put(&mut out, AtomicEth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.aeth {
            put(&mut out, Aeth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.atomic_ack {
            put(&mut out, AtomicAckEth::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.imm {
            put(&mut out, ImmDt::LEN, |o| h.emit(o));
        }
        if let Some(h) = self.ieth {
            put(&mut out, Ieth::LEN, |o| h.emit(o));
        }
        out.extend(self.cnp_reserved.iter().flatten());
        out.extend(&self.payload);
        out.extend(&self.pad);
        out
    }
}

/// Appends `len` bytes that `emit` fills.
fn put(out: &mut Vec<u8>, len: usize, emit: impl FnOnce(&mut [u8])) {
    let at = out.len();
    out.resize(at + len, 0);
    emit(&mut out[at..]);
}
