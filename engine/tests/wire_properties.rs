//! Properties of the wire layer: no byte string reads past its end or panics, and what is sent is
//! what is received.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::collection::vec;
use proptest::prelude::*;
use roce_engine::units::{Msn, Psn, Qpn};
use roce_engine::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Checks, Class, Deth, DropReason, Ethernet, Feth, Gid, Ieth, ImmDt,
    Ipv4, Ipv6, MacAddr, Net, Opcode, OpcodeInfo, Packet, Parts, PayloadRule, Reth, Route, Stamp, Syndrome,
    Template, Udp, Vlan, Xrceth, classify, classify_checks, classify_rocev1, classify_with, frame_len,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200), tci in any::<Option<u16>>()) {
        survives(&bytes, tci);
    }

    /// Bytes that pass the outer checks more often than chance allows.
    #[test]
    fn any_bytes_behind_plausible_headers(
        bytes in vec(any::<u8>(), 60..200),
        ethertype in prop::sample::select(vec![0x0800u16, 0x86DD, 0x8915, 0x8100]),
        lengths in any::<bool>(),
    ) {
        let mut bytes = bytes;
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        let (ip, udp) = if ethertype == 0x86DD { (54, 54) } else { (34, 34) };
        bytes[14] = if ethertype == 0x0800 { 0x45 } else { 0x60 };
        bytes[20] = if ethertype == 0x0800 { 0x40 } else { 17 };
        bytes[21] = 0;
        bytes[23] = 17;
        if bytes.len() >= udp + 8 {
            bytes[udp + 2..udp + 4].copy_from_slice(&4791u16.to_be_bytes());
            if lengths {
                let l4 = (bytes.len() - ip) as u16;
                bytes[udp + 4..udp + 6].copy_from_slice(&l4.to_be_bytes());
                let total = if ethertype == 0x0800 { l4 + 20 } else { l4 };
                let at = if ethertype == 0x0800 { 16 } else { 18 };
                bytes[at..at + 2].copy_from_slice(&total.to_be_bytes());
            }
        }
        survives(&bytes, None);
    }

    /// A good frame, cut, lengthened and with some bytes overwritten.
    #[test]
    fn any_damage(
        parts in parts(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        early in vec((14usize..80, any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        how in 0..3,
    ) {
        let mut frame = parts.sealed().emit();
        for (at, value) in damage {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        for (at, value) in early {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        match how {
            0 => frame.truncate(cut.index(frame.len() + 1)),
            1 => frame.resize(frame.len() + cut.index(64), 0xA5),
            _ => {}
        }
        survives(&frame, None);
    }

    /// Cut anywhere before its end, a frame is never accepted.
    #[test]
    fn any_truncation(parts in parts()) {
        let frame = Parts { trailer: Vec::new(), ..parts }.sealed().emit();
        for len in 0..frame.len() {
            let reason = classify_checks(&frame[..len], None, Checks::ALL).err();
            let allowed = [DropReason::Runt, DropReason::LengthMismatch, DropReason::Rocev1];
            prop_assert!(reason.is_some_and(|r| allowed.contains(&r)), "{} {:?}", len, reason);
        }
    }

    #[test]
    fn emitted_parts_parse_to_the_same_parts(parts in parts()) {
        let parts = parts.sealed();
        let frame = parts.emit();
        let packet = either(&frame).unwrap();
        prop_assert!(packet.verify_icrc());
        prop_assert_eq!(Parts::of(&packet).unwrap(), parts);
    }

    #[test]
    fn template_output_parses_back(
        route in route(),
        pkey in any::<u16>(),
        qpn in any::<u32>(),
        rocev1 in any::<bool>(),
        packets in vec((packet_opcode(), any::<(bool, bool, u32, Option<u8>)>(), vec(any::<u8>(), 0..300)), 1..6),
    ) {
        let make = if rocev1 { Template::rocev1 } else { Template::new };
        let mut template = make(&route, pkey, Qpn::new(qpn));
        for (info, (solicited, ack_req, psn, tos), payload) in packets {
            let payload = suitable(info, payload);
            let pad = payload.len().next_multiple_of(4) - payload.len();
            let headers = usize::from(info.header_len) - Bth::LEN;
            let body = headers + payload.len() + pad;
            let stamp = Stamp {
                opcode: info.opcode, solicited, ack_req, pad: pad as u8, psn: Psn::new(psn), tos,
            };
            let mut out = vec![0xEE; frame_len(template.encapsulation(), route.vlan.is_some(), info, payload.len())];
            let at = template.stamp(&mut out, &stamp, body);
            prop_assert_eq!(at, template.headers_len());
            out[at..at + headers].fill(0x11);
            out[at + headers..][..payload.len()].copy_from_slice(&payload);
            out[at + headers + payload.len()..][..pad].fill(0);
            let len = template.seal(&mut out, body);
            prop_assert_eq!(len, out.len());

            let packet = if rocev1 { classify_rocev1(&out, None) } else { classify(&out) }.unwrap();
            prop_assert!(packet.verify_icrc() && packet.pad_is_consistent());
            prop_assert_eq!(packet.payload(), &payload[..]);
            let want = Bth {
                opcode: info.opcode, solicited, migreq: true, pad: pad as u8, tver: 0, pkey, fecn: false,
                becn: false, resv6: 0, dest_qp: Qpn::new(qpn), ack_req, resv7: 0, psn: Psn::new(psn),
            };
            prop_assert_eq!(packet.bth, want);
            prop_assert_eq!((packet.src_mac(), packet.dst_mac()), (route.src_mac, route.dst_mac));
            prop_assert_eq!((packet.src(), packet.dst()), (route.src, route.dst));
            prop_assert_eq!(packet.vlan, route.vlan);
            let sport = if rocev1 { 0 } else { route.sport };
            prop_assert_eq!((packet.tos, packet.sport), (tos.unwrap_or(route.tos), sport));
            prop_assert_eq!(packet.encapsulation(), template.encapsulation());
            prop_assert_eq!(packet.is_ipv6, rocev1 || route.is_ipv6());
            // The other version's parser knows it for what it is.
            let (other, reason) = if rocev1 {
                (classify(&out), DropReason::Rocev1)
            } else {
                (classify_rocev1(&out, None), DropReason::Rocev2)
            };
            prop_assert_eq!(other.err(), Some(reason));
            match (packet.ipv4(), packet.ipv6()) {
                (Some(ip), None) => prop_assert_eq!((ip.ttl, ip.id), (route.hop_limit, 0)),
                (None, Some(ip)) => {
                    prop_assert_eq!((ip.hop_limit, ip.flow_label), (route.hop_limit, route.flow_label));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

/// Parses `bytes` in every way and reads everything that a packet offers.
fn survives(bytes: &[u8], tci: Option<u16>) {
    let vlan = tci.map(Vlan::from_tci);
    let tries = [
        classify(bytes),
        classify_with(bytes, vlan),
        classify_checks(bytes, vlan, Checks::OFFLOADED),
        classify_rocev1(bytes, vlan),
    ];
    for packet in tries.into_iter().flatten() {
        let info = packet.info;
        assert!(packet.wire_len() <= bytes.len());
        assert_eq!(packet.wire_len() + packet.trailer().len(), bytes.len());
        let body = usize::from(info.header_len) + packet.payload().len() + packet.pad().len();
        assert_eq!(packet.body().len(), body);
        assert_eq!(packet.pad().len(), usize::from(packet.bth.pad));
        assert_eq!(body % 4, 0);
        assert_eq!(packet.reth().is_some(), info.reth);
        assert_eq!(packet.aeth().is_some(), info.aeth);
        assert_eq!(packet.atomic().is_some(), info.atomic);
        assert_eq!(packet.atomic_ack().is_some(), info.atomic_ack);
        assert_eq!(packet.deth().is_some(), info.deth);
        assert_eq!(packet.imm().is_some(), info.imm);
        assert_eq!(packet.ieth().is_some(), info.ieth);
        assert_eq!(packet.xrceth().is_some(), info.xrceth);
        assert_eq!(packet.feth().is_some(), info.feth);
        assert_eq!(packet.rdeth(), None);
        assert_eq!(packet.verify_icrc(), packet.icrc_found() == packet.icrc_computed());
        assert_eq!((packet.dscp() << 2) | packet.ecn() as u8, packet.tos);
        assert!(!format!("{packet:?}").is_empty());
        if let Some(parts) = Parts::of(&packet) {
            assert_eq!(parts.emit(), bytes);
        }
    }
}

/// `payload`, cut or filled up to a length that the opcode may carry.
fn suitable(info: &OpcodeInfo, mut payload: Vec<u8>) -> Vec<u8> {
    let len = match info.payload {
        PayloadRule::None => 0,
        PayloadRule::Exactly8 => 8,
        PayloadRule::ExactMtu => payload.len() / 4 * 4,
        PayloadRule::OneToMtu | PayloadRule::ZeroToMtu => payload.len(),
    };
    payload.resize(len, 0x5A);
    payload
}

fn either(frame: &[u8]) -> Result<Packet<'_>, DropReason> {
    match classify(frame) {
        Err(DropReason::Rocev1) => classify_rocev1(frame, None),
        other => other,
    }
}

/// Any opcode that makes a packet.
fn packet_opcode() -> impl Strategy<Value = &'static OpcodeInfo> {
    let all: Vec<_> =
        (0..=u8::MAX).filter_map(|op| Opcode(op).info()).filter(|info| info.class != Class::Rd).collect();
    assert_eq!(all.len(), 63);
    prop::sample::select(all)
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn vlan() -> impl Strategy<Value = Option<Vlan>> {
    any::<Option<u16>>().prop_map(|tci| tci.map(Vlan::from_tci))
}

fn route() -> impl Strategy<Value = Route> {
    let v4 = any::<[Ipv4Addr; 2]>().prop_map(|ips| ips.map(|ip| Gid::from(IpAddr::V4(ip))));
    let v6 = any::<[Ipv6Addr; 2]>().prop_map(|ips| ips.map(|ip| Gid::from(IpAddr::V6(ip))));
    (mac(), mac(), vlan(), prop_oneof![v4, v6], any::<(u8, u8, u16)>(), 0..1u32 << 20).prop_map(
        |(src_mac, dst_mac, vlan, [src, dst], (tos, hop_limit, sport), flow_label)| Route {
            src_mac,
            dst_mac,
            vlan,
            src,
            dst,
            tos,
            hop_limit,
            flow_label,
            sport,
        },
    )
}

fn bth() -> impl Strategy<Value = Bth> {
    (packet_opcode(), any::<[bool; 5]>(), any::<(u16, u32, u32)>(), 0..64u8, 0..128u8).prop_map(
        |(info, [solicited, migreq, fecn, becn, ack_req], (pkey, qpn, psn), resv6, resv7)| Bth {
            opcode: info.opcode,
            solicited,
            migreq,
            pad: 0,
            tver: 0,
            pkey,
            fecn,
            becn,
            resv6,
            dest_qp: Qpn::new(qpn),
            ack_req,
            resv7,
            psn: Psn::new(psn),
        },
    )
}

/// IPv4, IPv6 or GRH, with whatever may vary.
fn net() -> impl Strategy<Value = Net> {
    let v4 = any::<([Ipv4Addr; 2], u8, u8, u16, bool)>().prop_map(|([src, dst], tos, ttl, id, df)| {
        Net::V4(Ipv4 {
            version_ihl: 0x45,
            tos,
            total_len: 0,
            id,
            flags_frag: if df { Ipv4::DF } else { 0 },
            ttl,
            protocol: 17,
            checksum: 0,
            src,
            dst,
        })
    });
    let v6 = (any::<([Ipv6Addr; 2], u8, u8)>(), 0..1u32 << 20, any::<bool>()).prop_map(
        |(([src, dst], traffic_class, hop_limit), flow_label, grh)| {
            let ip = Ipv6 {
                version: 6,
                traffic_class,
                flow_label,
                payload_len: 0,
                next_header: if grh { 0x1B } else { 17 },
                hop_limit,
                src,
                dst,
            };
            if grh { Net::Grh(ip) } else { Net::V6(ip) }
        },
    );
    prop_oneof![v4, v6]
}

/// A frame without its lengths and checksums: [`Parts::sealed`] fills them in.
fn parts() -> impl Strategy<Value = Parts> {
    let ends = (mac(), mac(), vlan(), any::<(u16, bool)>());
    let words = any::<([u64; 3], [u32; 4], [u8; 3])>();
    let bytes = (vec(any::<u8>(), 0..100), vec(any::<u8>(), 3), vec(any::<u8>(), 0..8));
    (ends, net(), bth(), words, bytes).prop_map(
        |((dst, src, vlan, (sport, checksum)), net, mut bth, (q, w, b), (payload, mut pad, trailer))| {
            let info = bth.opcode.info().unwrap();
            let payload = suitable(info, payload);
            pad.truncate(payload.len().next_multiple_of(4) - payload.len());
            bth.pad = pad.len() as u8;
            let is_rocev1 = matches!(net, Net::Grh(_));
            let mut parts = Parts {
                ethernet: Ethernet { dst, src, ethertype: 0x8100 },
                vlan,
                net,
                udp: (!is_rocev1).then_some(Udp { sport, dport: 4791, len: 0, checksum: checksum.into() }),
                bth,
                xrceth: info.xrceth.then_some(Xrceth { resv8: b[0], srqn: w[0] & 0xFF_FFFF }),
                deth: info.deth.then_some(Deth { qkey: w[0], resv8: b[0], src_qp: Qpn::new(w[1]) }),
                feth: info.feth.then_some(Feth {
                    resv26: w[0] >> 6,
                    selectivity: b[1] & 3,
                    placement: b[2] & 15,
                }),
                reth: info.reth.then_some(Reth { va: q[0], rkey: w[1], len: w[2] }),
                atomic: info.atomic.then_some(AtomicEth {
                    va: q[0],
                    rkey: w[1],
                    swap_or_add: q[1],
                    compare: q[2],
                }),
                aeth: info.aeth.then_some(Aeth { syndrome: Syndrome(b[0]), msn: Msn::new(w[2]) }),
                atomic_ack: info.atomic_ack.then_some(AtomicAckEth { original: q[0] }),
                imm: info.imm.then_some(ImmDt(w[3])),
                ieth: info.ieth.then_some(Ieth(w[3])),
                cnp_reserved: (info.opcode == Opcode::CNP).then_some([b[0]; 16]),
                payload,
                pad,
                icrc: [0; 4],
                trailer,
            };
            if vlan.is_none() {
                parts.ethernet.ethertype = parts.network_ethertype();
            }
            parts
        },
    )
}
