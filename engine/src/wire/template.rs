//! The transmit side: prebuilt headers that are patched packet by packet.

use super::checksum::{fold, sum};
use super::icrc::{Encapsulation, IcrcPrefix};
use super::slot::{HEAD_ROOM, Head, Payload, Slot, Tail, copy_head, copy_payload};
use super::{
    Aeth, Bth, CNP_RESERVED, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ROCEV1, ETHERTYPE_VLAN, Ethernet,
    GRH_NEXT_HEADER, Gid, ICRC_LEN, IP_PROTO_UDP, Ipv4, Ipv6, MIN_FRAME, MacAddr, Opcode, OpcodeInfo,
    UDP_PORT, Udp, Vlan,
};
use crate::units::{Psn, Qpn};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Where packets go: everything of a frame that the path decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address: the peer or the next hop.
    pub dst_mac: MacAddr,
    /// 802.1Q tag to send.
    pub vlan: Option<Vlan>,
    /// Source GID.
    pub src: Gid,
    /// Destination GID.  Two IPv4 GIDs travel over IPv4, all else over IPv6.
    pub dst: Gid,
    /// TOS or traffic class, ECN bits included.
    pub tos: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// UDP source port: see [`source_port`].
    pub sport: u16,
}

impl Route {
    /// Whether packets travel over IPv6.
    pub fn is_ipv6(&self) -> bool {
        !(self.src.is_ipv4() && self.dst.is_ipv4())
    }
}

/// What differs from packet to packet of a [`Template`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event.
    pub solicited: bool,
    /// Ask for an acknowledgement.
    pub ack_req: bool,
    /// Pad bytes after the payload, 0..=3.
    pub pad: u8,
    /// Packet sequence number.
    pub psn: Psn,
    /// Another TOS or traffic class than the route's.
    pub tos: Option<u8>,
}

/// The headers of the packets to one destination: Ethernet to BTH.
///
/// IPv4 packets have DF set and identification 0: a datagram that is never fragmented needs none
/// (RFC 6864, section 4).  The UDP checksum is 0, none, over IPv6 too.  MigReq is 1, since
/// ConnectX takes a slow path for 0.  RoCEv1 packets have a GRH in place of IP and UDP: see
/// [`Template::rocev1`].
#[derive(Clone, Debug)]
pub struct Template {
    /// With the lengths of the last packet.
    headers: [u8; MAX_LEN],
    /// The UDP length that they are for.
    udp_len: u16,
    /// Offset of the IP header: 14 or 18.
    l3: u8,
    /// Offset after the BTH: 54, 58, 74 or 78; 66 or 70 in RoCEv1.
    len: u8,
    encapsulation: Encapsulation,
    /// Sum of the IPv4 header without TOS, total length and checksum.
    ipv4_sum: u32,
    /// The last two iCRC prefixes, by UDP length and lead: full packets and acknowledgements, mostly.
    prefixes: [(u32, IcrcPrefix); 2],
    /// Which of them is replaced next.
    oldest: u8,
    /// Frames have no payload and no iCRC.
    hollow: bool,
}

const MAX_LEN: usize = Ethernet::LEN + Vlan::LEN + Ipv6::LEN + Udp::LEN + Bth::LEN;

impl Template {
    /// For packets along `route` to QP `dest_qp` with P_Key `pkey`.
    pub fn new(route: &Route, pkey: u16, dest_qp: Qpn) -> Template {
        let encapsulation = if route.is_ipv6() { Encapsulation::Ipv6 } else { Encapsulation::Ipv4 };
        Template::over(encapsulation, route, pkey, dest_qp)
    }

    /// As [`Template::new`], for packets of RoCEv1: the GIDs of the route travel in a GRH, its UDP
    /// port not at all.
    pub fn rocev1(route: &Route, pkey: u16, dest_qp: Qpn) -> Template {
        Template::over(Encapsulation::Grh, route, pkey, dest_qp)
    }

    fn over(encapsulation: Encapsulation, route: &Route, pkey: u16, dest_qp: Qpn) -> Template {
        let l3 = Ethernet::LEN + route.vlan.map_or(0, |_| Vlan::LEN);
        let bth_at = l3 + encapsulation.headers_len();
        let mut headers = [0; MAX_LEN];

        let network = match encapsulation {
            Encapsulation::Ipv4 => ETHERTYPE_IPV4,
            Encapsulation::Ipv6 => ETHERTYPE_IPV6,
            Encapsulation::Grh => ETHERTYPE_ROCEV1,
        };
        let ethertype = if route.vlan.is_some() { ETHERTYPE_VLAN } else { network };
        Ethernet { dst: route.dst_mac, src: route.src_mac, ethertype }.emit(&mut headers);
        if let Some(vlan) = route.vlan {
            headers[Ethernet::LEN..][..2].copy_from_slice(&vlan.tci().to_be_bytes());
            headers[Ethernet::LEN + 2..][..2].copy_from_slice(&network.to_be_bytes());
        }
        match encapsulation {
            Encapsulation::Ipv4 => ipv4_of(route).emit(&mut headers[l3..]),
            Encapsulation::Ipv6 => ipv6_of(route, IP_PROTO_UDP).emit(&mut headers[l3..]),
            Encapsulation::Grh => ipv6_of(route, GRH_NEXT_HEADER).emit(&mut headers[l3..]),
        }
        let ipv4_sum = u32::from(fold(sum(&headers[l3..l3 + Ipv4::LEN]) - u64::from(route.tos)));
        if encapsulation != Encapsulation::Grh {
            let udp = Udp { sport: route.sport, dport: UDP_PORT, len: 0, checksum: 0 };
            udp.emit(&mut headers[bth_at - Udp::LEN..]);
        }
        Bth {
            opcode: Opcode(0),
            solicited: false,
            migreq: true,
            pad: 0,
            tver: 0,
            pkey,
            fecn: false,
            becn: false,
            resv6: 0,
            dest_qp,
            ack_req: false,
            resv7: 0,
            psn: Psn::new(0),
        }
        .emit(&mut headers[bth_at..]);

        let (ack, lead) = (udp_len_of(Aeth::LEN), IcrcPrefix::lead_of(Aeth::LEN));
        let prefix = IcrcPrefix::new(encapsulation, &headers[l3..bth_at], lead);
        let mut template = Template {
            headers,
            udp_len: 0,
            l3: l3 as u8,
            len: (bth_at + Bth::LEN) as u8,
            encapsulation,
            ipv4_sum,
            prefixes: [(0, prefix.expect("all headers before the BTH")); 2],
            oldest: 0,
            hollow: false,
        };
        for _ in 0..2 {
            template.remember_prefix(ack, lead);
        }
        template
    }

    /// For a port that carries headers only: from now on slots need to hold no payload, and
    /// [`Template::seal`] appends nothing.
    pub fn set_hollow(&mut self) {
        self.hollow = true;
    }

    /// Whether the port carries headers only.
    #[inline]
    pub fn is_hollow(&self) -> bool {
        self.hollow
    }

    /// Offset of the first byte after the BTH: 54, 58, 74 or 78; 66 or 70 in RoCEv1.
    #[inline]
    pub fn headers_len(&self) -> usize {
        usize::from(self.len)
    }

    /// What precedes the BTH.
    pub fn encapsulation(&self) -> Encapsulation {
        self.encapsulation
    }

    /// Writes the headers of a packet into the first bytes of `out` and returns the offset after
    /// the BTH, where extension headers, payload and pad go: `body_len` bytes together, a multiple
    /// of four, at most 65,000.
    ///
    /// # Panics
    ///
    /// When `out` is shorter than the headers.
    #[inline(always)]
    pub fn stamp(&mut self, out: &mut [u8], fields: &Stamp, body_len: usize) -> usize {
        debug_assert!(body_len.is_multiple_of(4) && body_len <= 65_000);
        debug_assert!(fields.pad < 4);
        let udp_len = udp_len_of(body_len);
        if self.udp_len != udp_len {
            self.set_lengths(udp_len);
        }
        // Copies of a constant size are a few moves; one of a variable size is a call.
        match self.len {
            54 => self.stamp_at::<54>(out, fields),
            58 => self.stamp_at::<58>(out, fields),
            74 => self.stamp_at::<74>(out, fields),
            78 => self.stamp_at::<78>(out, fields),
            // Nobody needs RoCEv1 fast.
            66 => self.stamp_at::<66>(out, fields),
            _ => self.stamp_at::<70>(out, fields),
        }
        self.headers_len()
    }

    /// Packets go to QP `dest_qp` from now on.
    #[inline]
    pub fn set_dest_qp(&mut self, dest_qp: Qpn) {
        let [_, number @ ..] = dest_qp.get().to_be_bytes();
        let at = self.bth_at() + 5;
        self.headers[at..at + 3].copy_from_slice(&number);
    }

    /// Computes and appends the iCRC to the frame that [`Template::stamp`] started in `out`, fills
    /// it up to [`MIN_FRAME`] with zeros and returns its length.
    ///
    /// # Panics
    ///
    /// When `out` is shorter than the frame.
    #[inline]
    pub fn seal(&mut self, out: &mut [u8], body_len: usize) -> usize {
        let udp_len = udp_len_of(body_len);
        debug_assert!(
            self.encapsulation == Encapsulation::Grh
                || out[self.bth_at() - 4..][..2] == udp_len.to_be_bytes(),
            "sealed with another length than stamped"
        );
        let end = self.headers_len() + body_len + ICRC_LEN;
        if self.hollow {
            return end.max(MIN_FRAME);
        }
        let lead = IcrcPrefix::lead_of(body_len);
        let prefix = self.prefix(udp_len, lead);
        prefix.seal(&mut out[self.bth_at() - lead..end]);
        if end < MIN_FRAME {
            out[end..MIN_FRAME].fill(0);
            return MIN_FRAME;
        }
        end
    }

    /// Writes a whole frame into `slot` and returns its length: the headers, `ext_len` bytes of
    /// extension headers that lie in `head` from [`Template::headers_len`] on, `payload`, pad and
    /// iCRC.  `fields.pad` is not looked at.  Where only headers are carried nothing comes after
    /// them, and the length is that of the whole frame all the same.
    ///
    /// # Panics
    ///
    /// When there is no room for the frame.
    #[inline(always)]
    pub fn write(
        &mut self,
        slot: &mut (impl Slot + ?Sized),
        head: &mut Head,
        fields: Stamp,
        ext_len: usize,
        payload: Payload<'_>,
    ) -> usize {
        let pad = payload.len.wrapping_neg() & 3;
        let body_len = ext_len + payload.len + pad;
        let fields = Stamp { pad: pad as u8, ..fields };
        if self.hollow {
            let out = slot.buf();
            let at = self.stamp(out, &fields, body_len);
            out[at..at + ext_len].copy_from_slice(&head.0[at..at + ext_len]);
            return (at + body_len + ICRC_LEN).max(MIN_FRAME);
        }
        let at = self.stamp(&mut head.0, &fields, body_len);
        let (bth_at, payload_at) = (at - Bth::LEN, at + ext_len);
        let end = at + body_len + ICRC_LEN;
        if end <= HEAD_ROOM && payload.piece.is_none() {
            let lead = IcrcPrefix::lead_of(body_len);
            let prefix = self.prefix(udp_len_of(body_len), lead);
            head.0[payload_at..payload_at + payload.bytes.len()].copy_from_slice(payload.bytes);
            let icrc = prefix.finish(&head.0[bth_at - lead..end - ICRC_LEN]);
            let (len, out) = (end.max(MIN_FRAME), slot.buf());
            copy_head(out, &head.0, len);
            // Last, so that nothing else waits for the CRC.
            out[end - ICRC_LEN..end].copy_from_slice(&icrc);
            return len;
        }
        let lead = IcrcPrefix::lead_of(ext_len);
        let prefix = self.prefix(udp_len_of(body_len), lead);
        let running = prefix.begin(&head.0[bth_at - lead..payload_at]);
        let running = match &payload.piece {
            Some(piece) => piece.after(running),
            None => running.then(payload.bytes),
        };
        let tail = Tail::new(pad, running.then(&[0; 3][..pad]).finish());
        let bytes = match &payload.piece {
            Some(piece) if slot.attach(&head.0[..payload_at], piece, tail) => return end,
            Some(piece) => piece.bytes(),
            None => payload.bytes,
        };
        debug_assert_eq!(bytes.len(), payload.len, "only a hollow memory has fewer");
        // With a piece, or so long, it is no shorter than MIN_FRAME.
        let out = slot.buf();
        copy_head(out, &head.0, payload_at);
        let (body, rest) = out[payload_at..end].split_at_mut(bytes.len());
        copy_payload(body, bytes);
        tail.emit(rest);
        end
    }

    /// Writes a whole congestion notification packet and returns its length, 74..=98.  It has a TOS
    /// or traffic class of its own, and a priority in the tag, if there is one, of its own.
    ///
    /// # Panics
    ///
    /// When `out` is shorter.
    pub fn cnp(&mut self, out: &mut [u8], tos: u8, pcp: u8) -> usize {
        let fields = Stamp {
            opcode: Opcode::CNP,
            solicited: false,
            ack_req: false,
            pad: 0,
            psn: Psn::new(0),
            tos: Some(tos),
        };
        let body = self.stamp(out, &fields, CNP_RESERVED);
        if usize::from(self.l3) != Ethernet::LEN {
            out[Ethernet::LEN] = out[Ethernet::LEN] & 0x1F | pcp << 5;
        }
        let bth = &mut out[body - Bth::LEN..];
        bth[1] = 0; // ConnectX sends M = 0 here
        bth[4] = 0x40; // BECN
        out[body..][..CNP_RESERVED].fill(0);
        self.seal(out, CNP_RESERVED)
    }

    #[inline(always)]
    fn stamp_at<const LEN: usize>(&self, out: &mut [u8], fields: &Stamp) {
        let out: &mut [u8; LEN] = out.first_chunk_mut().expect("a slot holds the headers");
        *out = *self.headers.first_chunk().expect("the longest headers are MAX_LEN");
        if let Some(tos) = fields.tos {
            self.stamp_tos(out, tos);
        }
        stamp_bth(&mut out[LEN - Bth::LEN..], fields);
    }

    /// Another TOS or traffic class than the route's.
    #[cold]
    fn stamp_tos(&self, out: &mut [u8], tos: u8) {
        let ip = &mut out[usize::from(self.l3)..];
        if self.encapsulation == Encapsulation::Ipv4 {
            ip[1] = tos;
            put16(ip, 10, self.ipv4_checksum(tos));
        } else {
            ip[0] = 0x60 | tos >> 4;
            ip[1] = tos << 4 | ip[1] & 0xF;
        }
    }

    /// Of headers with these lengths.
    fn ipv4_checksum(&self, tos: u8) -> u16 {
        let total = self.udp_len + Ipv4::LEN as u16;
        !fold16(self.ipv4_sum + u32::from(tos) + u32::from(total))
    }

    /// Packets are of this length from now on.
    #[inline(never)]
    fn set_lengths(&mut self, udp_len: u16) {
        self.udp_len = udp_len;
        let (l3, udp_at) = (usize::from(self.l3), self.bth_at() - Udp::LEN);
        match self.encapsulation {
            Encapsulation::Ipv4 => {
                put16(&mut self.headers, l3 + 2, udp_len + Ipv4::LEN as u16);
                let checksum = self.ipv4_checksum(self.headers[l3 + 1]);
                put16(&mut self.headers, l3 + 10, checksum);
            }
            Encapsulation::Ipv6 => put16(&mut self.headers, l3 + 4, udp_len),
            Encapsulation::Grh => put16(&mut self.headers, l3 + 4, udp_len - Udp::LEN as u16),
        }
        if self.encapsulation != Encapsulation::Grh {
            put16(&mut self.headers, udp_at + 4, udp_len);
        }
    }

    #[inline(always)]
    fn bth_at(&self) -> usize {
        self.headers_len() - Bth::LEN
    }

    #[inline(always)]
    fn prefix(&mut self, udp_len: u16, lead: usize) -> IcrcPrefix {
        let [a, b] = self.prefixes;
        let key = prefix_key(udp_len, lead);
        if a.0 == key {
            a.1
        } else if b.0 == key {
            b.1
        } else {
            self.remember_prefix(udp_len, lead)
        }
    }

    #[inline(never)]
    fn remember_prefix(&mut self, udp_len: u16, lead: usize) -> IcrcPrefix {
        if self.udp_len != udp_len {
            self.set_lengths(udp_len);
        }
        let headers = &self.headers[usize::from(self.l3)..self.bth_at()];
        let prefix = IcrcPrefix::new(self.encapsulation, headers, lead);
        let prefix = prefix.expect("all headers before the BTH");
        self.prefixes[usize::from(self.oldest)] = (prefix_key(udp_len, lead), prefix);
        self.oldest ^= 1;
        prefix
    }
}

/// Writes a congestion notification packet to QP `dest_qp`, the sender of the marked packet, and
/// returns its length, 74..=98.  TOS and priority are the route's.
///
/// # Panics
///
/// When `out` is shorter.
pub fn cnp(route: &Route, pkey: u16, dest_qp: Qpn, out: &mut [u8]) -> usize {
    let pcp = route.vlan.map_or(0, |tag| tag.pcp);
    Template::new(route, pkey, dest_qp).cnp(out, route.tos, pcp)
}

/// The UDP source port of a QP pair: the convention of Linux, 0xC000..=0xFFFF.
///
/// A `flow_label` of 0 means none: the port is then derived from local and remote QP number.
pub fn source_port(lqpn: Qpn, rqpn: Qpn, flow_label: u32) -> u16 {
    let mut label = flow_label & 0xF_FFFF;
    if label == 0 {
        let mut v = u64::from(lqpn.get()) * u64::from(rqpn.get());
        v ^= v >> 20;
        v ^= v >> 40;
        label = v as u32 & 0xF_FFFF;
    }
    ((label & 0x3FFF ^ label >> 14) | 0xC000) as u16
}

/// Bytes of a frame without FCS, at least [`MIN_FRAME`], of a packet with `payload` bytes.
pub fn frame_len(encapsulation: Encapsulation, vlan: bool, info: &OpcodeInfo, payload: usize) -> usize {
    let tag = if vlan { Vlan::LEN } else { 0 };
    let transport = usize::from(info.header_len) + payload.next_multiple_of(4) + ICRC_LEN;
    (Ethernet::LEN + tag + encapsulation.headers_len() + transport).max(MIN_FRAME)
}

/// UDP length of a packet with `body_len` bytes between BTH and iCRC.
#[inline(always)]
fn udp_len_of(body_len: usize) -> u16 {
    (Udp::LEN + Bth::LEN + body_len + ICRC_LEN) as u16
}

/// What decides a prefix of a template.
#[inline(always)]
fn prefix_key(udp_len: u16, lead: usize) -> u32 {
    u32::from(udp_len) << 4 | lead as u32
}

/// Without total length and checksum.
fn ipv4_of(route: &Route) -> Ipv4 {
    let address = |gid: Gid| Ipv4Addr::from(gid.low32());
    Ipv4 {
        version_ihl: 0x45,
        tos: route.tos,
        total_len: 0,
        id: 0,
        flags_frag: Ipv4::DF,
        ttl: route.hop_limit,
        protocol: IP_PROTO_UDP,
        checksum: 0,
        src: address(route.src),
        dst: address(route.dst),
    }
}

/// An IPv6 header or GRH without payload length.
fn ipv6_of(route: &Route, next_header: u8) -> Ipv6 {
    Ipv6 {
        version: 6,
        traffic_class: route.tos,
        flow_label: route.flow_label,
        payload_len: 0,
        next_header,
        hop_limit: route.hop_limit,
        src: Ipv6Addr::from(route.src.bytes()),
        dst: Ipv6Addr::from(route.dst.bytes()),
    }
}

/// Patches a BTH, which `bth` holds and nothing else.
#[inline(always)]
fn stamp_bth(bth: &mut [u8], fields: &Stamp) {
    bth[0] = fields.opcode.0;
    bth[1] |= u8::from(fields.solicited) << 7 | fields.pad << 4;
    let psn = u32::from(fields.ack_req) << 31 | fields.psn.get();
    bth[8..].copy_from_slice(&psn.to_be_bytes());
}

/// Folds a sum of three 16-bit quantities.
#[inline(always)]
fn fold16(sum: u32) -> u16 {
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

#[inline(always)]
fn put16(out: &mut [u8], at: usize, value: u16) {
    out[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::classify;
    use core::net::IpAddr;

    fn route(ip: [&str; 2], vlan: Option<Vlan>) -> Route {
        let [src, dst] = ip.map(|ip| ip.parse::<IpAddr>().unwrap().into());
        Route {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan,
            src,
            dst,
            tos: 0x6A,
            hop_limit: 64,
            flow_label: 0x12345,
            sport: 0xC123,
        }
    }

    const V4: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
    const V6: [&str; 2] = ["2001:2::1", "2001:2::2"];
    const TAG: Option<Vlan> = Some(Vlan { pcp: 3, dei: false, vid: 100 });

    #[test]
    fn source_ports_of_linux() {
        let port = |l, r, label| source_port(Qpn::new(l), Qpn::new(r), label);
        assert_eq!(port(0x11, 0x11, 0), 0xC121);
        assert_eq!(port(0x13, 0x13, 0), 0xC169);
        assert_eq!(port(0x1F, 0x1F, 0), 0xC3C1);
        assert_eq!(port(0x00ABCD, 0x123456, 0), 0xD980);
        assert_eq!(port(0xFFFFFF, 0xFFFFFF, 0), 0xFF21);
        assert_eq!(port(1, 2, 0xABCDE), 0xFCF4);
    }

    #[test]
    fn frame_lengths() {
        let len = |v6, vlan, opcode: Opcode, payload| {
            let encapsulation = if v6 { Encapsulation::Ipv6 } else { Encapsulation::Ipv4 };
            frame_len(encapsulation, vlan, opcode.info().unwrap(), payload)
        };
        assert_eq!(len(false, false, Opcode::RC_SEND_ONLY, 0), 60);
        assert_eq!(len(false, true, Opcode::RC_SEND_ONLY, 0), 62);
        assert_eq!(len(false, false, Opcode::RC_ACKNOWLEDGE, 0), 62);
        assert_eq!(len(true, false, Opcode::RC_ACKNOWLEDGE, 0), 82);
        assert_eq!(len(false, false, Opcode::CNP, 0), 74);
        assert_eq!(len(true, false, Opcode::CNP, 0), 94);
        assert_eq!(len(false, false, Opcode::RC_SEND_MIDDLE, 4096) + crate::wire::L1_OVERHEAD, 4096 + 82);
        assert_eq!(len(false, false, Opcode::RC_WRITE_ONLY, 13), 14 + 20 + 8 + 28 + 16 + 4);
        let info = Opcode::RC_SEND_ONLY.info().unwrap();
        assert_eq!(frame_len(Encapsulation::Grh, true, info, 0), 18 + 40 + 12 + 4);
    }

    #[test]
    fn short_frames_are_filled_up() {
        let mut out = [0xEE; 80];
        let mut template = Template::new(&route(V4, None), 0xFFFF, Qpn::new(0x11));
        let stamp = Stamp {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: true,
            ack_req: true,
            pad: 0,
            psn: Psn::new(5),
            tos: None,
        };
        assert_eq!(template.stamp(&mut out, &stamp, 0), 54);
        assert_eq!(template.seal(&mut out, 0), MIN_FRAME);
        assert_eq!(out[58..62], [0, 0, 0xEE, 0xEE]);
        let packet = classify(&out[..60]).unwrap();
        assert!(packet.verify_icrc() && packet.bth.migreq && packet.bth.solicited);
        assert_eq!(packet.ipv4().unwrap().id, 0);
        assert_eq!(packet.ipv4().unwrap().flags_frag, Ipv4::DF);
    }

    /// More lengths in turn than the cache holds.
    #[test]
    fn prefixes_follow_the_length() {
        for ip in [V4, V6] {
            for vlan in [None, TAG] {
                let mut template = Template::new(&route(ip, vlan), 0xFFFF, Qpn::new(0x11));
                let mut out = vec![0; 4300];
                for body in [4096, 4, 4096, 4, 1024, 4096, 4, 4, 0, 1024, 1024, 4096] {
                    let stamp = Stamp {
                        opcode: Opcode::RC_SEND_ONLY,
                        solicited: false,
                        ack_req: false,
                        pad: 0,
                        psn: Psn::new(body as u32),
                        tos: (body == 4).then_some(0xFF),
                    };
                    assert_eq!(template.stamp(&mut out, &stamp, body), template.headers_len());
                    let len = template.seal(&mut out, body);
                    let packet = classify(&out[..len]).unwrap();
                    assert!(packet.verify_icrc(), "{body}");
                    assert_eq!(packet.payload().len(), body);
                    assert_eq!(packet.tos, if body == 4 { 0xFF } else { 0x6A });
                    let label = packet.ipv6().map(|ip| ip.flow_label);
                    assert_eq!(label, (ip == V6).then_some(0x12345));
                }
            }
        }
    }

    #[test]
    fn the_last_two_lengths_are_cached() {
        let mut template = Template::new(&route(V4, None), 0xFFFF, Qpn::new(0x11));
        for (body, lead) in [(8, 0), (12, 0), (4096, 4), (4096, 0), (4096, 4)] {
            template.prefix(udp_len_of(body), lead);
        }
        let mut cached = template.prefixes.map(|(key, _)| key);
        cached.sort();
        assert_eq!(cached, [0, 4].map(|lead| prefix_key(udp_len_of(4096), lead)));
    }

    #[test]
    fn folds_twice_where_it_must() {
        for total in [0, 1, 0xFFFF, 0x1_0000, 0x1_FFFE, 0x1_FFFF, 0x2_FFFD, 0x2_FFFE, 0x2_FFFF] {
            assert_eq!(fold16(total), fold(total.into()), "{total:#x}");
        }
    }

    #[test]
    fn notification() {
        for (ip, vlan, want) in [(V4, None, 74), (V6, None, 94), (V4, TAG, 78), (V6, TAG, 98)] {
            let mut out = [0xEE; 100];
            let len = cnp(&Route { tos: 0xC2, ..route(ip, vlan) }, 0xFFFF, Qpn::new(0x118), &mut out);
            assert_eq!(len, want);
            let packet = classify(&out[..len]).unwrap();
            assert!(packet.verify_icrc());
            let want = Bth {
                opcode: Opcode::CNP,
                solicited: false,
                migreq: false,
                pad: 0,
                tver: 0,
                pkey: 0xFFFF,
                fecn: false,
                becn: true,
                resv6: 0,
                dest_qp: Qpn::new(0x118),
                ack_req: false,
                resv7: 0,
                psn: Psn::new(0),
            };
            assert_eq!(packet.bth, want);
            assert_eq!((packet.tos, packet.dscp(), packet.payload()), (0xC2, 48, &[][..]));
            assert_eq!(packet.body()[12..], [0; 16]);
        }
    }

    #[test]
    fn mixed_families_travel_over_ipv6() {
        let mixed = route([V4[0], V6[1]], None);
        assert!(mixed.is_ipv6());
        assert_eq!(Template::new(&mixed, 0xFFFF, Qpn::new(1)).headers_len(), 74);
    }
}
