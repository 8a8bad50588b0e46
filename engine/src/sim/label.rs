//! From the bytes of a frame to what switches look at.

use crate::fabric::{FlowHash, Label, Priority, Station};
use crate::wire::classify_headers;
use crate::wire::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, Ecn, Ethernet, Gid, IP_PROTO_UDP, Ipv4, Ipv6, UDP_PORT,
    Vlan,
};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How long frames are in the network, where it is not as long as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSizes {
    /// What a frame has beside its payload.
    pub headers: u32,
    /// A frame without payload.
    pub bare: u32,
}

impl FrameSizes {
    /// Bytes of the frame of `len` bytes that begins with `bytes`.
    fn of(self, bytes: &[u8], len: u32) -> u32 {
        let payload = classify_headers(bytes, len as usize, None).map_or(0, |p| p.payload_len());
        if payload == 0 { self.bare } else { self.headers + payload as u32 }
    }
}

/// How switches tell flows and priorities apart, and where addresses are.
#[derive(Debug)]
pub(super) struct Labeller {
    stations: HashMap<Gid, Station, BuildHasherDefault<Fold>>,
    pub(super) by_qp: bool,
    pub(super) sizes: Option<FrameSizes>,
    /// By station: the labels of flows that it sent lately.
    known: Vec<[Known; KNOWN]>,
}

/// Flows of a station whose labels are kept.
const KNOWN: usize = 4;

/// All that the label of a packet over IPv4 without a tag depends on, but for its length, and the
/// label.
#[derive(Clone, Copy, Debug)]
struct Known {
    key: u128,
    label: Label,
}

impl Known {
    const NONE: Known = Known { key: 0, label: Label::of_nobody(0) };

    /// TOS, addresses, source port and destination queue pair, where `bytes` are such a packet.
    #[inline]
    fn key(bytes: &[u8]) -> Option<u128> {
        let h: &[u8; 50] = bytes.first_chunk()?;
        let be = |at: usize, n: usize| h[at..at + n].iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
        // Version and IHL are in it so that it is never 0; they and the destination port are constant.
        (be(12, 3) == 0x08_0045 && be(36, 2) == u128::from(UDP_PORT))
            .then(|| be(14, 2) << 112 | be(26, 10) << 24 | be(47, 3))
    }
}

impl Labeller {
    pub(super) fn new() -> Labeller {
        Labeller { stations: HashMap::default(), by_qp: false, sizes: None, known: Vec::new() }
    }

    pub(super) fn add(&mut self, address: Gid, station: Station) {
        self.stations.insert(address, station);
        let index = station.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, [Known::NONE; KNOWN]);
        }
        self.known.iter_mut().flatten().for_each(|k| *k = Known::NONE);
    }

    /// [`Labeller::label`] of a frame that a station sends.
    #[inline]
    pub(super) fn label_from(&mut self, from: Station, bytes: &[u8], len: u32) -> Label {
        let len = self.sizes.map_or(len, |sizes| sizes.of(bytes, len));
        let key = Known::key(bytes);
        let (Some(key), Some(known)) = (key, self.known.get_mut(from.0 as usize)) else {
            return self.label(bytes, len);
        };
        // The destination queue pair tells flows apart best.
        let known = &mut known[key as usize % KNOWN];
        if known.key == key {
            return Label { len, ..known.label };
        }
        let label = self.label(bytes, len);
        self.known[from.0 as usize][key as usize % KNOWN] = Known { key, label };
        label
    }

    /// The label of a frame of `len` bytes that begins with `bytes`.  A frame that is not IP, or for
    /// nobody, is for station `u32::MAX`: it gets as far as a cable leads it.
    #[inline]
    pub(super) fn label(&self, bytes: &[u8], len: u32) -> Label {
        let Some(seen) = look(bytes) else {
            return Label::of_nobody(len);
        };
        let to = self.stations.get(&seen.dst).copied().unwrap_or(Station::NOBODY);
        let mut hash = FlowHash::of(seen.src, seen.dst, IP_PROTO_UDP, seen.sport, seen.dport);
        if self.by_qp {
            hash = hash.and_qp(seen.dest_qp);
        }
        let ecn = Ecn::of_tos(seen.tos);
        Label {
            to,
            hash,
            len,
            // A tag goes before the DSCP.
            priority: seen.pcp.and_then(Priority::new).unwrap_or(Priority::of_dscp(seen.tos >> 2)),
            ect: ecn != Ecn::NotEct,
            ce: ecn == Ecn::Ce,
        }
    }
}

struct Seen {
    src: Gid,
    dst: Gid,
    tos: u8,
    pcp: Option<u8>,
    sport: u16,
    dport: u16,
    dest_qp: u32,
}

#[inline]
fn look(bytes: &[u8]) -> Option<Seen> {
    let be16 = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let (mut l3, mut ethertype, mut pcp) = (Ethernet::LEN, be16(Ethernet::LEN - 2)?, None);
    if ethertype == ETHERTYPE_VLAN {
        pcp = Some(Vlan::from_tci(be16(l3)?).pcp);
        ethertype = be16(l3 + 2)?;
        l3 += Vlan::LEN;
    }
    let (tos, src, dst, l4) = match ethertype {
        ETHERTYPE_IPV4 => {
            let h: &[u8; Ipv4::LEN] = bytes.get(l3..)?.first_chunk()?;
            let gid = |at: usize| Gid::from(*h[at..].first_chunk::<4>().expect("inside of the header"));
            (h[1], gid(12), gid(16), l3 + Ipv4::LEN)
        }
        ETHERTYPE_IPV6 => {
            let h: &[u8; Ipv6::LEN] = bytes.get(l3..)?.first_chunk()?;
            let gid = |at: usize| Gid::new(*h[at..].first_chunk::<16>().expect("inside of the header"));
            (h[0] << 4 | h[1] >> 4, gid(8), gid(24), l3 + Ipv6::LEN)
        }
        _ => return None,
    };
    let qp: [u8; 4] = bytes.get(l4 + 12..).and_then(|b| b.first_chunk().copied()).unwrap_or_default();
    let dest_qp = u32::from_be_bytes(qp) & 0x00FF_FFFF;
    Some(Seen { src, dst, tos, pcp, sport: be16(l4)?, dport: be16(l4 + 2)?, dest_qp })
}

/// A hasher for addresses, which nobody chooses to spite us.
#[derive(Clone, Copy, Debug, Default)]
struct Fold(u64);

impl Hasher for Fold {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Psn, Qpn};
    use crate::wire::{Opcode, Route, Stamp, Template};
    use std::net::IpAddr;

    fn frame(ips: [&str; 2], vlan: Option<Vlan>, tos: u8) -> Vec<u8> {
        let [src, dst] = ips.map(|ip| Gid::from(ip.parse::<IpAddr>().unwrap()));
        let mac = [2, 0, 0, 0, 0, 1].into();
        let route = Route {
            src_mac: mac,
            dst_mac: mac,
            vlan,
            src,
            dst,
            tos,
            hop_limit: 64,
            flow_label: 0,
            sport: 0xC123,
        };
        let mut template = Template::new(&route, 0xFFFF, Qpn::new(0x1234));
        let stamp = Stamp {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: false,
            ack_req: true,
            pad: 0,
            psn: Psn::new(7),
            tos: None,
        };
        let mut bytes = vec![0; 200];
        template.stamp(&mut bytes, &stamp, 0);
        let len = template.seal(&mut bytes, 0);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn address_priority_and_mark() {
        let mut labeller = Labeller::new();
        for (n, ip) in ["10.0.0.2", "fd00::2"].into_iter().enumerate() {
            labeller.add(Gid::from(ip.parse::<IpAddr>().unwrap()), Station(n as u32));
        }
        let tag = Some(Vlan { pcp: 5, dei: false, vid: 9 });
        for (n, ips) in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]].into_iter().enumerate() {
            let plain = labeller.label(&frame(ips, None, 0x6A), 4000);
            assert_eq!((plain.to, plain.len, plain.priority.get()), (Station(n as u32), 4000, 3));
            assert!(plain.ect && !plain.ce);
            let tagged = labeller.label(&frame(ips, tag, 0x68), 4000);
            assert_eq!((tagged.priority.get(), tagged.ect, tagged.hash), (5, false, plain.hash));
            let marked = labeller.label(&frame(ips, None, 0x6B), 64);
            assert!(marked.ect && marked.ce);
            labeller.by_qp = true;
            assert_ne!(labeller.label(&frame(ips, None, 0x6A), 64).hash, plain.hash);
            labeller.by_qp = false;
            let back = labeller.label(&frame([ips[1], ips[0]], None, 0), 64);
            assert_eq!((back.to, back.priority.get()), (Station(u32::MAX), 0));
        }
        assert_eq!(labeller.label(&[0; 10], 60).to, Station(u32::MAX));
    }
}
