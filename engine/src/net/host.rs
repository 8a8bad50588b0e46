//! The host: its addresses, what it answers, whom it asks.

use super::arp::{Arp, Operation};
use super::gsi::{Datagram, Gsi};
use super::icmp::{self, ALL_NODES, Icmp, PROTO_ICMP, PROTO_ICMPV6};
use super::neighbours::{Neighbours, Resolution};
use crate::transport::Verdict;
use crate::units::Instant;
use crate::wire::{
    DropReason, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, Ethernet, Gid, Ipv4, Ipv6,
    MIN_FRAME, MacAddr, Packet, Vlan,
};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use std::collections::VecDeque;

/// Frames that wait to be sent; what would be more is not answered.
const OUTBOX: usize = 64;
/// Room of a frame that waits; a longer one takes memory.
const FRAME: usize = 512;
/// Only this hop limit proves that neighbour discovery comes from the link.
const FROM_THE_LINK: u8 = 255;
const HOP_LIMIT: u8 = 64;

/// An address and the subnet that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    ip: IpAddr,
    prefix: u8,
}

/// Why a text is no address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an address with a prefix length, as in 198.18.0.1/24 or 2001:2::1/64")]
pub struct SubnetError(String);

/// What a host is made with.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The port's MAC address.
    pub mac: MacAddr,
    /// The VLAN that its frames are tagged with.
    pub vlan: Option<u16>,
    /// Its addresses.
    pub addresses: Vec<Subnet>,
    /// Routers, at most one for each version of IP.
    pub gateways: Vec<IpAddr>,
    /// Neighbours that are not asked.
    pub neighbours: Vec<(IpAddr, MacAddr)>,
    /// Whether somebody reads the management datagrams.
    pub management: bool,
}

/// What a port is beside RoCE.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    table: Neighbours,
    gsi: Option<Gsi>,
    outbox: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Subnet {
    /// `None` when the prefix is longer than the address, or the address nobody's own.
    pub fn new(ip: IpAddr, prefix: u8) -> Option<Subnet> {
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        (prefix <= longest && icmp::is_unicast(ip)).then_some(Subnet { ip, prefix })
    }

    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Whether `other` is in the subnet.
    pub fn contains(&self, other: IpAddr) -> bool {
        let (own, other, width) = match (self.ip, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        (own ^ other).checked_shr(width - u32::from(self.prefix)).unwrap_or(0) == 0
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Subnet, SubnetError> {
        let parsed =
            text.split_once('/').and_then(|(ip, prefix)| Subnet::new(ip.parse().ok()?, prefix.parse().ok()?));
        parsed.ok_or_else(|| SubnetError(text.to_owned()))
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl Host {
    /// A host that knows nobody yet.
    pub fn new(config: HostConfig) -> Host {
        let table = Neighbours::new(&config.neighbours);
        let gsi = config.management.then(Gsi::new);
        let spare = (0..OUTBOX).map(|_| Vec::with_capacity(FRAME)).collect();
        Host { config, table, gsi, outbox: VecDeque::with_capacity(OUTBOX), spare }
    }

    /// Its addresses.
    pub fn addresses(&self) -> &[Subnet] {
        &self.config.addresses
    }

    /// Its MAC address.
    pub fn mac(&self) -> MacAddr {
        self.config.mac
    }

    /// The tag of its frames.
    pub fn tag(&self) -> Option<Vlan> {
        self.config.vlan.map(|vid| Vlan { pcp: 0, dei: false, vid })
    }

    /// The address that it uses towards `peer`: the one in its subnet, else the first of its version.
    pub fn source_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let mut all = self.config.addresses.iter();
        let near = all.clone().find(|a| a.contains(peer));
        near.or_else(|| all.find(|a| a.ip.is_ipv4() == peer.is_ipv4())).map(Subnet::ip)
    }

    /// Who takes frames to `ip`: itself where it is on the link, else a router.
    pub fn next_hop(&self, ip: IpAddr) -> Option<IpAddr> {
        let on_link = self.config.addresses.iter().any(|a| a.contains(ip));
        if on_link || self.config.neighbours.iter().any(|(n, _)| *n == ip) {
            return Some(ip);
        }
        self.config.gateways.iter().find(|g| g.is_ipv4() == ip.is_ipv4()).copied()
    }

    /// The MAC address that leads to `ip`: its own, or the router's.  Asks where it is not known.
    pub fn resolve(&mut self, now: Instant, ip: IpAddr) -> Resolution {
        let Some(hop) = self.next_hop(ip) else { return Resolution::Absent };
        let (resolution, ask) = self.table.resolve(now, hop);
        if ask {
            self.ask(hop);
        }
        resolution
    }

    /// Tells everybody its addresses: a gratuitous ARP request, an unsolicited advertisement.
    pub fn announce(&mut self) {
        for i in 0..self.config.addresses.len() {
            match self.config.addresses[i].ip {
                IpAddr::V4(ip) => self.send_arp(Operation::Request, MacAddr::BROADCAST, ip, ip),
                IpAddr::V6(ip) => self.send_advertisement(ip, ALL_NODES, icmp::group_mac(ALL_NODES), false),
            }
        }
    }

    /// Takes a frame that is not RoCE.
    pub fn on_frame(&mut self, now: Instant, frame: &[u8], stripped: Option<Vlan>) -> Verdict {
        self.frame(now, frame, stripped).unwrap_or(Verdict::Dropped(DropReason::NonRoce))
    }

    /// Takes a packet to QP 1 whose iCRC is right.
    pub fn on_management(&mut self, p: &Packet<'_>) -> Verdict {
        let ours = self.config.addresses.iter().any(|a| Gid::from(a.ip) == p.dst());
        let outcome = match &mut self.gsi {
            None => Err(DropReason::NoQp),
            Some(_) if !ours => Err(DropReason::WrongAddress),
            Some(gsi) => gsi.on_packet(p),
        };
        outcome.map_or_else(Verdict::Dropped, |()| Verdict::Delivered)
    }

    /// The oldest management datagram.
    pub fn pop_management(&mut self) -> Option<Datagram> {
        self.gsi.as_mut()?.pop()
    }

    /// Sends a management datagram; whether there was room.
    pub fn send_management(&mut self, what: &Datagram) -> bool {
        let (mac, tag) = (self.config.mac, self.tag());
        let Some(gsi) = &mut self.gsi else { return false };
        let Some(mut frame) = self.spare.pop() else { return false };
        frame.clear();
        gsi.emit(what, mac, tag, &mut frame);
        self.outbox.push_back(frame);
        true
    }

    /// Writes the next frame that waits into `out`; its length.  Those that do not fit are left out.
    pub fn poll_transmit(&mut self, out: &mut [u8]) -> Option<usize> {
        loop {
            let frame = self.outbox.pop_front()?;
            let fits = out.get_mut(..frame.len()).map(|room| room.copy_from_slice(&frame));
            let len = frame.len();
            self.spare.push(frame);
            if fits.is_some() {
                return Some(len);
            }
        }
    }

    /// Whether a frame waits.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// When [`Host::on_deadline`] is wanted next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.table.next_deadline()
    }

    /// Repeats the questions that nobody has answered.
    pub fn on_deadline(&mut self, now: Instant) {
        let mut again = Vec::new();
        self.table.on_deadline(now, |ip| again.push(ip));
        for ip in again {
            self.ask(ip);
        }
    }

    /// `None` for what is no business of this host.
    fn frame(&mut self, now: Instant, frame: &[u8], stripped: Option<Vlan>) -> Option<Verdict> {
        let eth = Ethernet::parse(frame)?;
        if eth.dst != self.config.mac && !eth.dst.is_multicast() {
            return None;
        }
        let mut rest = &frame[Ethernet::LEN..];
        let (mut ethertype, mut tag) = (eth.ethertype, stripped);
        if ethertype == ETHERTYPE_VLAN {
            let (head, after) = rest.split_first_chunk::<{ Vlan::LEN }>()?;
            tag = Some(Vlan::from_tci(u16::from_be_bytes([head[0], head[1]])));
            ethertype = u16::from_be_bytes([head[2], head[3]]);
            rest = after;
        }
        let vid = tag.map(|t| t.vid).filter(|vid| *vid != 0);
        if vid != self.config.vlan {
            return None;
        }
        match ethertype {
            ETHERTYPE_ARP => self.on_arp(now, &Arp::parse(rest)?),
            ETHERTYPE_IPV4 => self.on_ipv4(eth.src, rest),
            ETHERTYPE_IPV6 => self.on_ipv6(now, eth.src, rest),
            _ => None,
        }
    }

    fn on_arp(&mut self, now: Instant, arp: &Arp) -> Option<Verdict> {
        let sender = IpAddr::V4(arp.sender);
        if arp.sender_mac.is_multicast() || arp.sender_mac.is_zero() || self.owns(sender) {
            return None;
        }
        let for_us = self.owns(arp.target.into());
        let known = icmp::is_unicast(sender) && self.table.learn(now, sender, arp.sender_mac, for_us);
        if arp.operation == Operation::Request && for_us {
            self.send_arp(Operation::Reply, arp.sender_mac, arp.target, arp.sender);
            return Some(Verdict::Answered);
        }
        known.then_some(Verdict::Delivered)
    }

    fn on_ipv4(&mut self, from: MacAddr, bytes: &[u8]) -> Option<Verdict> {
        let ip = Ipv4::parse(bytes)?;
        let whole = ip.version_ihl == 0x45 && ip.flags_frag & !Ipv4::DF == 0 && ip.protocol == PROTO_ICMP;
        if !whole || !icmp::ipv4_is_right(&bytes[..Ipv4::LEN]) || !self.owns(ip.dst.into()) {
            return None;
        }
        let message = bytes.get(Ipv4::LEN..usize::from(ip.total_len))?;
        match icmp::parse(ip.src.into(), ip.dst.into(), message)? {
            Icmp::Echo(data) => self.send(from, ip.dst.into(), ip.src.into(), HOP_LIMIT, |out| {
                icmp::echo_reply(ip.dst.into(), ip.src.into(), data, out);
            }),
            _ => None,
        }
    }

    fn on_ipv6(&mut self, now: Instant, from: MacAddr, bytes: &[u8]) -> Option<Verdict> {
        let ip = Ipv6::parse(bytes)?;
        if ip.version != 6 || ip.next_header != PROTO_ICMPV6 {
            return None;
        }
        let message = bytes.get(Ipv6::LEN..)?.get(..usize::from(ip.payload_len))?;
        let icmp = icmp::parse(ip.src.into(), ip.dst.into(), message)?;
        match icmp {
            Icmp::Echo(data) if self.owns(ip.dst.into()) => {
                self.send(from, ip.dst.into(), ip.src.into(), HOP_LIMIT, |out| {
                    icmp::echo_reply(ip.dst.into(), ip.src.into(), data, out);
                })
            }
            Icmp::Solicitation { target, from: told }
                if ip.hop_limit == FROM_THE_LINK && self.owns(target.into()) =>
            {
                if ip.src.is_unspecified() {
                    // Somebody wants our address for its own.
                    self.send_advertisement(target, ALL_NODES, icmp::group_mac(ALL_NODES), false);
                    return Some(Verdict::Answered);
                }
                let mac = told.unwrap_or(from);
                self.table.learn(now, ip.src.into(), mac, true);
                self.send_advertisement(target, ip.src, mac, true);
                Some(Verdict::Answered)
            }
            Icmp::Advertisement { target, mac }
                if ip.hop_limit == FROM_THE_LINK && !self.owns(target.into()) && !mac.is_multicast() =>
            {
                self.table.learn(now, target.into(), mac, false).then_some(Verdict::Delivered)
            }
            _ => None,
        }
    }

    fn ask(&mut self, ip: IpAddr) {
        match (ip, self.source_for(ip)) {
            (IpAddr::V4(ip), Some(IpAddr::V4(own))) => {
                self.send_arp(Operation::Request, MacAddr::BROADCAST, own, ip);
            }
            (IpAddr::V6(ip), Some(IpAddr::V6(own))) => {
                let (mac, group) = (self.config.mac, icmp::solicited_node(ip));
                self.send(icmp::group_mac(group), own.into(), group.into(), FROM_THE_LINK, |out| {
                    icmp::solicitation(own, ip, mac, out);
                });
            }
            // Without an address of that version nobody could answer.
            _ => {}
        }
    }

    fn send_arp(&mut self, operation: Operation, to: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) {
        let sender_mac = self.config.mac;
        let Some(mut frame) = self.begin(to, ETHERTYPE_ARP) else { return };
        let target_mac = if operation == Operation::Reply { to } else { MacAddr::ZERO };
        Arp { operation, sender_mac, sender, target_mac, target }.emit(&mut frame);
        self.finish(frame);
    }

    fn send_advertisement(&mut self, target: Ipv6Addr, to: Ipv6Addr, to_mac: MacAddr, solicited: bool) {
        let mac = self.config.mac;
        self.send(to_mac, target.into(), to.into(), FROM_THE_LINK, |out| {
            icmp::advertisement(target, to, mac, solicited, out);
        });
    }

    /// Sends an ICMP message.
    fn send(
        &mut self,
        to: MacAddr,
        src: IpAddr,
        dst: IpAddr,
        hop_limit: u8,
        message: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Verdict> {
        let ethertype = if src.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let mut frame = self.begin(to, ethertype)?;
        let at = frame.len();
        let header = if src.is_ipv4() { Ipv4::LEN } else { Ipv6::LEN };
        frame.resize(at + header, 0);
        message(&mut frame);
        let len = (frame.len() - at - header) as u16;
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ip = Ipv4 {
                    version_ihl: 0x45,
                    tos: 0,
                    total_len: len + Ipv4::LEN as u16,
                    id: 0,
                    flags_frag: Ipv4::DF,
                    ttl: hop_limit,
                    protocol: PROTO_ICMP,
                    checksum: 0,
                    src,
                    dst,
                };
                Ipv4 { checksum: ip.computed_checksum(), ..ip }.emit(&mut frame[at..]);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6 {
                version: 6,
                traffic_class: 0,
                flow_label: 0,
                payload_len: len,
                next_header: PROTO_ICMPV6,
                hop_limit,
                src,
                dst,
            }
            .emit(&mut frame[at..]),
            // Both come from one packet or one table.
            _ => {}
        }
        self.finish(frame);
        Some(Verdict::Answered)
    }

    /// A frame to `to` up to its EtherType; none when too many wait.
    fn begin(&mut self, to: MacAddr, ethertype: u16) -> Option<Vec<u8>> {
        let mut frame = self.spare.pop()?;
        frame.clear();
        frame.resize(Ethernet::LEN, 0);
        let outer = if self.config.vlan.is_some() { ETHERTYPE_VLAN } else { ethertype };
        Ethernet { dst: to, src: self.config.mac, ethertype: outer }.emit(&mut frame);
        if let Some(tag) = self.tag() {
            frame.extend_from_slice(&tag.tci().to_be_bytes());
            frame.extend_from_slice(&ethertype.to_be_bytes());
        }
        Some(frame)
    }

    fn finish(&mut self, mut frame: Vec<u8>) {
        if frame.len() < MIN_FRAME {
            frame.resize(MIN_FRAME, 0);
        }
        self.outbox.push_back(frame);
    }

    fn owns(&self, ip: IpAddr) -> bool {
        self.config.addresses.iter().any(|a| a.ip == ip)
    }
}
