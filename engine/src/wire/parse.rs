//! Step one of the receive path: is it a RoCE packet, and where are its parts?

use super::checksum::{fold, sum};
use super::icrc::Encapsulation;
use super::udp;
use super::{
    Bth, Class, DropReason, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_ROCEV1, ETHERTYPE_VLAN,
    Ethernet, GRH_NEXT_HEADER, ICRC_LEN, IP_PROTO_UDP, Ipv4, Ipv6, Packet, UDP_PORT, Udp, Vlan,
};
use crate::units::Qpn;

/// Which checksums [`classify_checks`] verifies; the NIC may have done it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// The IPv4 header checksum.
    pub ipv4_checksum: bool,
    /// The UDP checksum, where it is not zero.
    pub udp_checksum: bool,
}

impl Checks {
    /// Verify everything.
    pub const ALL: Checks = Checks { ipv4_checksum: true, udp_checksum: true };
    /// The NIC has verified everything.
    pub const OFFLOADED: Checks = Checks { ipv4_checksum: false, udp_checksum: false };
}

/// Finds the RoCEv2 packet in `frame`, an Ethernet frame without FCS.
///
/// Bytes after the datagram, such as Ethernet padding, are accepted and ignored: all lengths come
/// from the IP and UDP headers.  Every checksum is verified but the iCRC: see
/// [`Packet::verify_icrc`].
///
/// # Errors
///
/// The reason to drop the frame.  A RoCEv1 frame is [`DropReason::Rocev1`]; an opcode of the
/// reliable datagram transport, which RoCE does not use, [`DropReason::Unsupported`]; other
/// opcodes without facts [`DropReason::UnknownOpcode`].  Reserved bits, TTL and DF are not looked
/// at, nor whether payload and pad suit the opcode: that is the QP's business.
#[inline]
pub fn classify(frame: &[u8]) -> Result<Packet<'_>, DropReason> {
    classify_checks(frame, None, Checks::ALL)
}

/// The queue pair that a frame is for, if it is a RoCE frame in its usual shape: a guess, to fetch
/// ahead what the frame will need.
#[inline]
pub fn dest_qp_of(frame: &[u8]) -> Option<Qpn> {
    let ethertype_at = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let (ethertype, l3) = match ethertype_at(12)? {
        ETHERTYPE_VLAN => (ethertype_at(16)?, Ethernet::LEN + Vlan::LEN),
        other => (other, Ethernet::LEN),
    };
    let encapsulation = match ethertype {
        ETHERTYPE_IPV4 => Encapsulation::Ipv4,
        ETHERTYPE_IPV6 => Encapsulation::Ipv6,
        ETHERTYPE_ROCEV1 => Encapsulation::Grh,
        _ => return None,
    };
    let [a, b, c] = *frame.get(l3 + encapsulation.headers_len() + 5..)?.first_chunk()?;
    Some(Qpn::new(u32::from_be_bytes([0, a, b, c])))
}

/// [`classify`] for a NIC that took the tag off the frame and handed it over as `stripped_vlan`.
///
/// # Errors
///
/// As [`classify`]; a second tag in the frame is [`DropReason::VlanMismatch`].
#[inline]
pub fn classify_with(frame: &[u8], stripped_vlan: Option<Vlan>) -> Result<Packet<'_>, DropReason> {
    classify_checks(frame, stripped_vlan, Checks::ALL)
}

/// [`classify_with`] that leaves out the checks that the NIC has made.
///
/// # Errors
///
/// As [`classify_with`].
#[inline]
pub fn classify_checks(
    frame: &[u8],
    stripped_vlan: Option<Vlan>,
    checks: Checks,
) -> Result<Packet<'_>, DropReason> {
    find(frame, frame.len(), stripped_vlan, checks)
}

/// [`classify_with`] for a frame of `len` bytes of which only the first ones are here, all headers
/// among them.  The payload of the packet is empty, and its iCRC cannot be verified.
///
/// # Errors
///
/// As [`classify_with`]; no checksum is verified.
#[inline]
pub fn classify_headers(
    frame: &[u8],
    len: usize,
    stripped_vlan: Option<Vlan>,
) -> Result<Packet<'_>, DropReason> {
    let mut packet = find(frame, len, stripped_vlan, Checks::OFFLOADED)?;
    packet.hollow = true;
    Ok(packet)
}

#[inline(always)]
fn find(
    frame: &[u8],
    len: usize,
    stripped_vlan: Option<Vlan>,
    checks: Checks,
) -> Result<Packet<'_>, DropReason> {
    let start = ethernet(frame, stripped_vlan)?;
    match start.ethertype {
        ETHERTYPE_IPV4 => ipv4(frame, len, start, checks),
        ETHERTYPE_IPV6 => ipv6(frame, len, start, checks),
        ETHERTYPE_ROCEV1 => Err(DropReason::Rocev1),
        _ => Err(DropReason::NonRoce),
    }
}

/// [`classify_with`] for a frame in three pieces: the headers, the payload, and pad and iCRC.
///
/// # Errors
///
/// As [`classify_with`], and [`DropReason::LengthMismatch`] when the pieces end elsewhere than the
/// parts of the packet do.
#[inline]
pub fn classify_pieces<'a>(
    head: &'a [u8],
    [payload, tail]: [&'a [u8]; 2],
    stripped_vlan: Option<Vlan>,
) -> Result<Packet<'a>, DropReason> {
    let len = head.len() + payload.len() + tail.len();
    let packet = find(head, len, stripped_vlan, Checks { udp_checksum: false, ..Checks::ALL })?;
    join(packet, len, payload, tail)
}

/// As [`classify_pieces`], for RoCEv1.
///
/// # Errors
///
/// As [`classify_rocev1`] and [`classify_pieces`].
pub fn classify_rocev1_pieces<'a>(
    head: &'a [u8],
    [payload, tail]: [&'a [u8]; 2],
    stripped_vlan: Option<Vlan>,
) -> Result<Packet<'a>, DropReason> {
    let len = head.len() + payload.len() + tail.len();
    join(find_rocev1(head, len, stripped_vlan)?, len, payload, tail)
}

/// The packet whose headers are found, with its other pieces.
#[inline(always)]
fn join<'a>(
    mut packet: Packet<'a>,
    len: usize,
    payload: &'a [u8],
    tail: &'a [u8],
) -> Result<Packet<'a>, DropReason> {
    let Some((pad, icrc)) = tail.split_last_chunk() else { return Err(DropReason::LengthMismatch) };
    let fits = packet.wire_len() == len
        && packet.headers_end() == packet.frame.len()
        && usize::from(packet.bth.pad) == pad.len()
        && packet.has_no_udp_checksum();
    if !fits {
        return Err(DropReason::LengthMismatch);
    }
    packet.rest = Some(super::packet::Rest { payload, pad, icrc });
    Ok(packet)
}

/// Finds the RoCEv1 packet in `frame`, an Ethernet frame without FCS; the NIC took `stripped_vlan` off
/// it, if anything.
///
/// # Errors
///
/// The reason to drop the frame.  A RoCEv2 frame is [`DropReason::Rocev2`], everything else that is not
/// RoCEv1 [`DropReason::NonRoce`].
pub fn classify_rocev1(frame: &[u8], stripped_vlan: Option<Vlan>) -> Result<Packet<'_>, DropReason> {
    find_rocev1(frame, frame.len(), stripped_vlan)
}

fn find_rocev1(frame: &[u8], len: usize, stripped_vlan: Option<Vlan>) -> Result<Packet<'_>, DropReason> {
    let start = ethernet(frame, stripped_vlan)?;
    match start.ethertype {
        ETHERTYPE_ROCEV1 => {}
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => {
            let is_rocev2 = find(frame, len, stripped_vlan, Checks::OFFLOADED).is_ok();
            return Err(if is_rocev2 { DropReason::Rocev2 } else { DropReason::NonRoce });
        }
        _ => return Err(DropReason::NonRoce),
    }
    let long_enough = len >= start.l3 + Ipv6::LEN + MIN_IB;
    let Some(h) = chunk::<{ Ipv6::LEN + Bth::LEN }>(frame, start.l3).filter(|_| long_enough) else {
        return Err(DropReason::Runt);
    };
    if h[0] >> 4 != 6 {
        return Err(DropReason::BadIpHeader);
    }
    if h[6] != GRH_NEXT_HEADER {
        return Err(DropReason::NonRoce);
    }
    let bth_at = start.l3 + Ipv6::LEN;
    let end = bth_at + be16(h, 4);
    if end > len {
        return Err(DropReason::LengthMismatch);
    }
    let found = Found { encapsulation: Encapsulation::Grh, tos: traffic_class(h), sport: 0, bth_at, end };
    transport(frame, start, found, bth_in::<{ Ipv6::LEN }, _>(h))
}

/// Least bytes after the UDP header or GRH: BTH and iCRC.
const MIN_IB: usize = Bth::LEN + ICRC_LEN;

/// Where the network header starts, and what it is.
#[derive(Clone, Copy)]
struct Start {
    ethertype: u16,
    l3: usize,
    vlan: Option<Vlan>,
}

/// What the network headers said.
struct Found {
    encapsulation: Encapsulation,
    tos: u8,
    sport: u16,
    bth_at: usize,
    end: usize,
}

#[inline(always)]
fn ethernet(frame: &[u8], stripped: Option<Vlan>) -> Result<Start, DropReason> {
    let Some(h) = chunk::<{ Ethernet::LEN }>(frame, 0) else { return Err(DropReason::Runt) };
    let ethertype = u16::from_be_bytes([h[12], h[13]]);
    if ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
        return tagged(frame, ethertype, stripped);
    }
    Ok(Start { ethertype, l3: Ethernet::LEN, vlan: stripped })
}

#[inline(never)]
fn tagged(frame: &[u8], outer: u16, stripped: Option<Vlan>) -> Result<Start, DropReason> {
    let Some(h) = chunk::<{ Vlan::LEN }>(frame, Ethernet::LEN) else { return Err(DropReason::Runt) };
    let tci = u16::from_be_bytes([h[0], h[1]]);
    let ethertype = u16::from_be_bytes([h[2], h[3]]);
    if outer == ETHERTYPE_QINQ
        || ethertype == ETHERTYPE_VLAN
        || ethertype == ETHERTYPE_QINQ
        || stripped.is_some()
    {
        return Err(DropReason::VlanMismatch);
    }
    Ok(Start { ethertype, l3: Ethernet::LEN + Vlan::LEN, vlan: Some(Vlan::from_tci(tci)) })
}

/// Headers that every packet over IPv4 and IPv6 has.
const IPV4_HEAD: usize = Ipv4::LEN + Udp::LEN + Bth::LEN;
const IPV6_HEAD: usize = Ipv6::LEN + Udp::LEN + Bth::LEN;

#[inline(always)]
fn ipv4(frame: &[u8], len: usize, start: Start, checks: Checks) -> Result<Packet<'_>, DropReason> {
    let long_enough = len >= start.l3 + IPV4_HEAD + ICRC_LEN;
    let Some(h) = chunk::<IPV4_HEAD>(frame, start.l3).filter(|_| long_enough) else {
        return Err(refuse_ipv4(frame.get(start.l3..).unwrap_or_default()));
    };
    let is_roce = h[0] == 0x45
        && h[9] == IP_PROTO_UDP
        && be16(h, 6) & MF_AND_OFFSET == 0
        && be16(h, 22) == usize::from(UDP_PORT);
    if !is_roce {
        return Err(refuse_ipv4(h));
    }
    if checks.ipv4_checksum && fold(sum(&h[..Ipv4::LEN])) != 0xFFFF {
        return Err(DropReason::IpChecksum);
    }
    let (total, udp_len) = (be16(h, 2), be16(h, Ipv4::LEN + 4));
    let end = start.l3 + total;
    if total != Ipv4::LEN + udp_len || end > len {
        return Err(DropReason::LengthMismatch);
    }
    if be16(h, Ipv4::LEN + 6) != 0
        && checks.udp_checksum
        && !udp_checksum_is_right(frame, start.l3 + 12, start.l3 + Ipv4::LEN, end)
    {
        return Err(DropReason::UdpChecksum);
    }
    let found = Found {
        encapsulation: Encapsulation::Ipv4,
        tos: h[1],
        sport: be16(h, Ipv4::LEN) as u16,
        bth_at: start.l3 + Ipv4::LEN + Udp::LEN,
        end,
    };
    transport(frame, start, found, bth_in::<{ Ipv4::LEN + Udp::LEN }, _>(h))
}

#[inline(always)]
fn ipv6(frame: &[u8], len: usize, start: Start, checks: Checks) -> Result<Packet<'_>, DropReason> {
    let long_enough = len >= start.l3 + IPV6_HEAD + ICRC_LEN;
    let Some(h) = chunk::<IPV6_HEAD>(frame, start.l3).filter(|_| long_enough) else {
        return Err(refuse_ipv6(frame.get(start.l3..).unwrap_or_default()));
    };
    let is_roce = h[0] >> 4 == 6 && h[6] == IP_PROTO_UDP && be16(h, Ipv6::LEN + 2) == usize::from(UDP_PORT);
    if !is_roce {
        return Err(refuse_ipv6(h));
    }
    let (payload, udp_len) = (be16(h, 4), be16(h, Ipv6::LEN + 4));
    let end = start.l3 + Ipv6::LEN + payload;
    if payload != udp_len || end > len {
        return Err(DropReason::LengthMismatch);
    }
    if be16(h, Ipv6::LEN + 6) != 0
        && checks.udp_checksum
        && !udp_checksum_is_right(frame, start.l3 + 8, start.l3 + Ipv6::LEN, end)
    {
        return Err(DropReason::UdpChecksum);
    }
    let found = Found {
        encapsulation: Encapsulation::Ipv6,
        tos: traffic_class(h),
        sport: be16(h, Ipv6::LEN) as u16,
        bth_at: start.l3 + Ipv6::LEN + Udp::LEN,
        end,
    };
    transport(frame, start, found, bth_in::<{ Ipv6::LEN + Udp::LEN }, _>(h))
}

/// The opcode must be known before any length is computed from it.
#[inline(always)]
fn transport<'a>(
    frame: &'a [u8],
    start: Start,
    found: Found,
    bth: &[u8; Bth::LEN],
) -> Result<Packet<'a>, DropReason> {
    if found.end < found.bth_at + MIN_IB {
        return Err(DropReason::Runt);
    }
    let bth = Bth::decode(bth);
    let Some(info) = bth.opcode.info() else { return Err(DropReason::UnknownOpcode) };
    let room = found.end - found.bth_at - ICRC_LEN;
    let headers = usize::from(info.header_len);
    if room < headers + usize::from(bth.pad) || !room.is_multiple_of(4) {
        return Err(if room < headers { DropReason::Runt } else { DropReason::Malformed });
    }
    if bth.tver != 0 {
        return Err(DropReason::BadTver);
    }
    if info.class == Class::Rd {
        return Err(DropReason::Unsupported);
    }
    Ok(Packet {
        bth,
        info,
        vlan: start.vlan,
        tos: found.tos,
        sport: found.sport,
        is_ipv6: found.encapsulation != Encapsulation::Ipv4,
        encapsulation: found.encapsulation,
        l3: start.l3 as u8,
        bth_at: found.bth_at as u8,
        end: found.end as u32,
        hollow: false,
        frame,
        rest: None,
    })
}

/// More-fragments flag and fragment offset.
const MF_AND_OFFSET: usize = 0x3FFF;

/// Why an IPv4 datagram, maybe cut short, is none of ours.  Other protocols and ports first: they
/// are noise, not damage.
#[cold]
fn refuse_ipv4(h: &[u8]) -> DropReason {
    let Some(ip) = Ipv4::parse(h) else { return DropReason::Runt };
    if ip.protocol != IP_PROTO_UDP {
        return DropReason::NonRoce;
    }
    if ip.version_ihl != 0x45 {
        return DropReason::BadIpHeader;
    }
    let has_ports = ip.flags_frag & 0x1FFF == 0;
    match Udp::parse(&h[Ipv4::LEN..]) {
        Some(udp) if has_ports && udp.dport != UDP_PORT => DropReason::NonRoce,
        _ if usize::from(ip.flags_frag) & MF_AND_OFFSET != 0 => DropReason::Fragment,
        _ => DropReason::Runt,
    }
}

/// Why an IPv6 datagram, maybe cut short, is none of ours.
#[cold]
fn refuse_ipv6(h: &[u8]) -> DropReason {
    let Some(ip) = Ipv6::parse(h) else { return DropReason::Runt };
    if ip.next_header != IP_PROTO_UDP {
        return DropReason::NonRoce;
    }
    if ip.version != 6 {
        return DropReason::BadIpHeader;
    }
    match Udp::parse(&h[Ipv6::LEN..]) {
        Some(udp) if udp.dport != UDP_PORT => DropReason::NonRoce,
        _ => DropReason::Runt,
    }
}

/// Senders of RoCE leave the checksum out, so this is the slow path.
#[inline(never)]
fn udp_checksum_is_right(frame: &[u8], addresses_at: usize, udp_at: usize, end: usize) -> bool {
    match (frame.get(addresses_at..udp_at), frame.get(udp_at..end)) {
        (Some(addresses), Some(datagram)) => udp::checksum_is_right(addresses, datagram),
        _ => false,
    }
}

#[inline(always)]
fn chunk<const N: usize>(frame: &[u8], at: usize) -> Option<&[u8; N]> {
    frame.get(at..)?.first_chunk()
}

#[inline(always)]
fn be16<const N: usize>(h: &[u8; N], at: usize) -> usize {
    usize::from(u16::from_be_bytes([h[at], h[at + 1]]))
}

#[inline(always)]
fn traffic_class<const N: usize>(h: &[u8; N]) -> u8 {
    h[0] << 4 | h[1] >> 4
}

/// The BTH at offset `AT` of the headers.
#[inline(always)]
fn bth_in<const AT: usize, const N: usize>(h: &[u8; N]) -> &[u8; Bth::LEN] {
    const { assert!(AT + Bth::LEN <= N) };
    h[AT..].first_chunk().expect("asserted above")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Qpn;
    use crate::wire::{Opcode, Parts, Route, Stamp, Template};
    use std::net::IpAddr;

    /// A SEND of `payload` bytes.
    fn send(ip: [&str; 2], vlan: Option<Vlan>, payload: usize) -> Vec<u8> {
        let [src, dst] = ip.map(|ip| ip.parse::<IpAddr>().unwrap().into());
        let route = Route {
            src_mac: [2, 0, 0, 0, 0, 1].into(),
            dst_mac: [2, 0, 0, 0, 0, 2].into(),
            vlan,
            src,
            dst,
            tos: 0x6A,
            hop_limit: 64,
            flow_label: 0xABCDE,
            sport: 0xC123,
        };
        let mut template = Template::new(&route, 0xFFFF, Qpn::new(0x11));
        let pad = payload.next_multiple_of(4) - payload;
        let stamp = Stamp {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: false,
            ack_req: true,
            pad: pad as u8,
            psn: crate::units::Psn::new(7),
            tos: None,
        };
        let mut frame = vec![0; payload + 128];
        let at = template.stamp(&mut frame, &stamp, payload + pad);
        frame[at..at + payload].fill(0xA5);
        let len = template.seal(&mut frame, payload + pad);
        frame.truncate(len);
        frame
    }

    fn v4() -> Vec<u8> {
        send(["198.18.0.1", "198.18.0.2"], None, 64)
    }

    fn v6() -> Vec<u8> {
        send(["2001:2::1", "2001:2::2"], None, 64)
    }

    /// `frame` with `bytes` at `at`, and the IPv4 header checksum made right again.
    fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        if frame[12..14] == [8, 0] {
            frame[24..26].fill(0);
            let checksum = !fold(sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        frame
    }

    fn reason(frame: &[u8]) -> Option<&'static str> {
        classify(frame).err().map(DropReason::name)
    }

    #[test]
    fn every_reason_over_ipv4() {
        assert_eq!(reason(&v4()), None);
        let cases: [(&str, Vec<u8>); 18] = [
            ("non_roce", with(v4(), 12, &[0x08, 0x06])),
            ("non_roce", with(v4(), 23, &[6])),
            ("non_roce", with(v4(), 36, &[0, 53])),
            ("bad_ip_header", with(v4(), 14, &[0x46])),
            ("bad_ip_header", with(v4(), 14, &[0x55])),
            ("fragment", with(v4(), 20, &[0x20, 0x00])),
            ("fragment", with(v4(), 20, &[0x00, 0x01])),
            ("length_mismatch", with(v4(), 17, &[v4()[17] + 4])),
            ("length_mismatch", with(v4(), 39, &[v4()[39] - 4])),
            ("length_mismatch", v4()[..v4().len() - 1].to_vec()),
            ("udp_checksum", with(v4(), 40, &[0x12, 0x34])),
            ("unknown_opcode", with(v4(), 42, &[0x15])),
            ("unknown_opcode", with(v4(), 42, &[0xE0])),
            ("unsupported", with(v4(), 42, &[0x44])),
            ("bad_tver", with(v4(), 43, &[0x41])),
            ("rocev1_seen", with(v4(), 12, &[0x89, 0x15])),
            ("runt", v4()[..13].to_vec()),
            ("runt", v4()[..57].to_vec()),
        ];
        for (i, (want, frame)) in cases.into_iter().enumerate() {
            assert_eq!(reason(&frame), Some(want), "case {i}");
        }
        let mut frame = v4();
        frame[24] ^= 1;
        assert_eq!(reason(&frame), Some("ip_checksum"));
        let unchecked = Checks { ipv4_checksum: false, ..Checks::ALL };
        assert!(classify_checks(&frame, None, unchecked).is_ok());
    }

    #[test]
    fn every_reason_over_ipv6() {
        assert_eq!(reason(&v6()), None);
        let cases: [(&str, Vec<u8>); 10] = [
            ("non_roce", with(v6(), 20, &[58])),
            ("non_roce", with(v6(), 56, &[0, 53])),
            ("bad_ip_header", with(v6(), 14, &[0x56])),
            ("length_mismatch", with(v6(), 19, &[v6()[19] + 4])),
            ("length_mismatch", with(v6(), 59, &[v6()[59] - 4])),
            ("length_mismatch", v6()[..v6().len() - 1].to_vec()),
            ("udp_checksum", with(v6(), 60, &[0x12, 0x34])),
            ("unknown_opcode", with(v6(), 62, &[0x15])),
            ("bad_tver", with(v6(), 63, &[0x4F])),
            ("runt", v6()[..77].to_vec()),
        ];
        for (i, (want, frame)) in cases.into_iter().enumerate() {
            assert_eq!(reason(&frame), Some(want), "case {i}");
        }
    }

    /// Neighbour discovery, IGMP with a router alert, short DNS and the like are not damage.
    #[test]
    fn noise_is_not_damage() {
        let igmp = with(with(v4(), 14, &[0x46]), 23, &[2]);
        assert_eq!(reason(&igmp), Some("non_roce"));
        let dns = with(v4(), 36, &[0, 53]);
        assert_eq!(reason(&dns[..50]), Some("non_roce"));
        let first_fragment = with(with(v4(), 36, &[0, 53]), 20, &[0x20, 0]);
        assert_eq!(reason(&first_fragment), Some("non_roce"));
        let hop_by_hop = with(v6(), 20, &[0]);
        assert_eq!(reason(&hop_by_hop[..70]), Some("non_roce"));
        assert_eq!(reason(&with(v6(), 56, &[0, 53])[..70]), Some("non_roce"));
    }

    #[test]
    fn lengths_that_claim_less_than_the_headers() {
        for udp_len in 0..24u8 {
            let frame = with(with(v4(), 39, &[udp_len]), 17, &[udp_len + 20]);
            assert_eq!(reason(&frame), Some("runt"), "{udp_len}");
            let frame = with(with(v6(), 59, &[udp_len]), 19, &[udp_len]);
            assert_eq!(reason(&frame), Some("runt"), "{udp_len}");
        }
    }

    #[test]
    fn one_tag_in_the_frame_or_stripped() {
        let vlan = Vlan { pcp: 3, dei: false, vid: 42 };
        let tagged = send(["198.18.0.1", "198.18.0.2"], Some(vlan), 64);
        assert_eq!(classify(&tagged).unwrap().vlan, Some(vlan));
        assert_eq!(classify(&v4()).unwrap().vlan, None);
        assert_eq!(classify_with(&v4(), Some(vlan)).unwrap().vlan, Some(vlan));
        assert_eq!(classify_with(&tagged, Some(vlan)).unwrap_err(), DropReason::VlanMismatch);
        assert_eq!(classify(&with(v4(), 12, &[0x88, 0xA8])).unwrap_err(), DropReason::VlanMismatch);
        assert_eq!(reason(&tagged[..17]), Some("runt"));
    }

    #[test]
    fn a_frame_of_which_only_the_headers_are_here() {
        for frame in [v4(), v6()] {
            let whole = classify(&frame).unwrap();
            let p = classify_headers(&frame[..80], frame.len(), None).unwrap();
            assert_eq!(
                (p.bth, p.src(), p.dst(), p.wire_len()),
                (whole.bth, whole.src(), whole.dst(), frame.len())
            );
            assert_eq!((p.payload_len(), p.payload()), (64, &[][..]));
            assert_eq!(whole.payload_len(), whole.payload().len());
            let short = classify_headers(&frame[..80], frame.len() - 1, None);
            assert_eq!(short.unwrap_err(), DropReason::LengthMismatch);
        }
    }

    #[test]
    fn right_udp_checksum_is_accepted() {
        for frame in [v4(), v6()] {
            let mut parts = Parts::of(&classify(&frame).unwrap()).unwrap();
            parts.udp.as_mut().unwrap().checksum = 1;
            let mut frame = parts.sealed().emit();
            let packet = classify(&frame).unwrap();
            assert!(packet.udp().unwrap().checksum > 1 && packet.verify_icrc());
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(reason(&frame), Some("udp_checksum"));
            let unchecked = Checks { udp_checksum: false, ..Checks::ALL };
            assert!(!classify_checks(&frame, None, unchecked).unwrap().verify_icrc());
        }
    }
}
