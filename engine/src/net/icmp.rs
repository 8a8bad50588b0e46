//! ICMP echo, ICMPv6 echo and neighbour discovery.

use crate::wire::MacAddr;
use crate::wire::checksum::{fold, sum};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const PROTO_ICMP: u8 = 1;
pub(super) const PROTO_ICMPV6: u8 = 58;

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
/// The advertisement answers a solicitation; it replaces what was known.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// What an ICMP message asks or tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Icmp<'a> {
    /// An echo request: identifier, number and data, to be sent back.
    Echo(&'a [u8]),
    /// Whose MAC address is `target`?  `from` is the asker's, where it tells.
    Solicitation { target: Ipv6Addr, from: Option<MacAddr> },
    /// That of `target` is `mac`.
    Advertisement { target: Ipv6Addr, mac: MacAddr },
}

/// Reads a message whose checksum is right.
pub(super) fn parse(src: IpAddr, dst: IpAddr, message: &[u8]) -> Option<Icmp<'_>> {
    let pseudo = match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_sum(src, dst, message.len()),
        _ => 0,
    };
    if fold(pseudo + sum(message)) != 0xFFFF {
        return None;
    }
    let (head, rest) = message.split_first_chunk::<4>()?;
    match (src.is_ipv6(), head[0], head[1]) {
        (false, ECHO_REQUEST, 0) | (true, ECHO_REQUEST_V6, 0) if rest.len() >= 4 => Some(Icmp::Echo(rest)),
        (true, SOLICITATION, 0) => {
            let (target, options) = target(rest)?;
            Some(Icmp::Solicitation { target, from: option(options, OPTION_SOURCE) })
        }
        (true, ADVERTISEMENT, 0) => {
            let (target, options) = target(rest)?;
            Some(Icmp::Advertisement { target, mac: option(options, OPTION_TARGET)? })
        }
        _ => None,
    }
}

/// The answer to an echo request with `data`.
pub(super) fn echo_reply(src: IpAddr, dst: IpAddr, data: &[u8], out: &mut Vec<u8>) {
    let kind = if src.is_ipv6() { ECHO_REPLY_V6 } else { ECHO_REPLY };
    let at = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(data);
    seal(src, dst, at, out);
}

/// Asks for `target`'s MAC address.
pub(super) fn solicitation(src: Ipv6Addr, target: Ipv6Addr, mac: MacAddr, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&target.octets());
    out.extend_from_slice(&[OPTION_SOURCE, 1]);
    out.extend_from_slice(&mac.0);
    seal(src.into(), solicited_node(target).into(), at, out);
}

/// Tells `dst` that `target`'s MAC address is `mac`.
pub(super) fn advertisement(
    target: Ipv6Addr,
    dst: Ipv6Addr,
    mac: MacAddr,
    solicited: bool,
    out: &mut Vec<u8>,
) {
    let at = out.len();
    let flags = OVERRIDE | if solicited { SOLICITED } else { 0 };
    out.extend_from_slice(&[ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
    out.extend_from_slice(&target.octets());
    out.extend_from_slice(&[OPTION_TARGET, 1]);
    out.extend_from_slice(&mac.0);
    seal(target.into(), dst.into(), at, out);
}

/// The group of those whose address ends as `ip` does.
pub(super) fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// The MAC address of an IPv6 group.
pub(super) fn group_mac(ip: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = ip.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// The checksum of an IPv4 header without options.
pub(super) fn ipv4_is_right(header: &[u8]) -> bool {
    fold(sum(header)) == 0xFFFF
}

fn target(rest: &[u8]) -> Option<(Ipv6Addr, &[u8])> {
    let target: &[u8; 16] = rest.get(4..)?.first_chunk()?;
    let target = Ipv6Addr::from(*target);
    (!target.is_multicast()).then_some((target, &rest[20..]))
}

/// The link-layer address in the options.
fn option(mut options: &[u8], kind: u8) -> Option<MacAddr> {
    while let [found, len, ..] = *options {
        let len = usize::from(len) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if found == kind {
            return options.get(2..)?.first_chunk().map(|mac| MacAddr(*mac));
        }
        options = &options[len..];
    }
    None
}

/// Sets the checksum of the message from `at` on.
fn seal(src: IpAddr, dst: IpAddr, at: usize, out: &mut [u8]) {
    let message = &mut out[at..];
    let pseudo = match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_sum(src, dst, message.len()),
        _ => 0,
    };
    let checksum = !fold(pseudo + sum(message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

fn pseudo_sum(src: Ipv6Addr, dst: Ipv6Addr, len: usize) -> u64 {
    sum(&src.octets()) + sum(&dst.octets()) + len as u64 + u64::from(PROTO_ICMPV6)
}

/// The destination of an advertisement that answers nobody: all nodes of the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

/// A broadcast, group, loopback or missing address: nobody's own.
pub(super) fn is_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_multicast() && ip != Ipv4Addr::UNSPECIFIED && ip != Ipv4Addr::BROADCAST,
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    }
}
