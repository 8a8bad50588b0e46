//! The recorded and synthetic frames of `data/icrc-vectors.json`: every field, the iCRC, and what
//! each single bit does to it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use roce_engine::wire::icrc::Encapsulation;
use roce_engine::wire::{Checks, DropReason, Net, Packet, Parts, classify, classify_checks, classify_rocev1};
use serde_json::Value;

#[test]
fn every_field_of_every_vector() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 37);
    let mut compared = 0;
    for v in &vectors {
        let packet = parse(&v.frame).unwrap_or_else(|reason| panic!("{}: {reason}", v.name));
        for (field, want) in v.fields.as_object().unwrap() {
            assert_eq!(decoded(&packet, field), *want, "{}: {field}", v.name);
            compared += 1;
        }
        assert_eq!(hex(&packet.icrc_found()), v.icrc, "{}", v.name);
        assert_eq!(hex(&packet.icrc_computed()), v.icrc, "{}", v.name);
        assert!(packet.verify_icrc());
    }
    assert_eq!(compared, 1128);
}

#[test]
fn every_vector_is_put_together_again() {
    for v in vectors() {
        let parts = Parts::of(&parse(&v.frame).unwrap()).unwrap();
        assert_eq!(hex(&parts.emit()), hex(&v.frame), "{}", v.name);
        // Right in every length and checksum, they are what sealing makes of them.
        assert_eq!(parts.clone().sealed(), parts, "{}", v.name);
    }
}

#[test]
fn rocev1_is_refused_where_rocev2_is_wanted() {
    let mut refused = 0;
    for v in vectors() {
        match classify(&v.frame) {
            Ok(packet) => assert!(!packet.is_rocev1()),
            Err(reason) => {
                assert_eq!(reason, DropReason::Rocev1, "{}", v.name);
                assert!(classify_rocev1(&v.frame, None).unwrap().is_rocev1());
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 2);
}

/// Each bit of each vector: either it is covered, and flipping it is noticed, or it is masked, and
/// flipping it is not.
#[test]
fn every_bit_of_every_vector() {
    let (mut covered, mut masked) = (0, 0);
    for v in vectors() {
        let packet = parse(&v.frame).unwrap();
        let wire_len = packet.wire_len();
        let l3 = if packet.vlan.is_some() { 18 } else { 14 };
        for bit in 0..v.frame.len() * 8 {
            let (byte, mask) = (bit / 8, 0x80 >> (bit % 8));
            // Without its EtherTypes it is another frame.
            if (12..14).contains(&byte) || (16..l3).contains(&byte) {
                continue;
            }
            let mut frame = v.frame.clone();
            frame[byte] ^= mask;
            let is_masked = byte < l3 || byte >= wire_len || masks(packet.encapsulation(), byte - l3, mask);
            let accepted = parse(&frame).is_ok_and(|packet| packet.verify_icrc());
            assert_eq!(accepted, is_masked, "{}: byte {byte} bit {mask:#04x}", v.name);
            if is_masked { masked += 1 } else { covered += 1 }
        }
    }
    assert_eq!((covered, masked), (43856, 5696));
}

/// Flipping one bit of the iCRC itself, as the reference asks for.
#[test]
fn first_icrc_byte_off_by_one() {
    for v in vectors() {
        let mut frame = v.frame.clone();
        let at = parse(&frame).unwrap().wire_len() - 4;
        frame[at] ^= 1;
        assert!(!parse(&frame).unwrap().verify_icrc(), "{}", v.name);
    }
}

#[test]
fn the_crc_itself() {
    let text = include_str!("data/icrc-core-vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    assert_eq!(vectors.len(), 3);
    for v in vectors {
        let crc = crc32fast::hash(&unhex(v["data_hex"].as_str().unwrap()));
        assert_eq!(hex(&crc.to_le_bytes()), v["wire_hex"], "{}", v["name"]);
    }
}

/// The table of fields that count as ones, written down a second time.
fn masks(encapsulation: Encapsulation, at: usize, bit: u8) -> bool {
    match encapsulation {
        Encapsulation::Ipv4 => matches!(at, 1 | 8 | 10 | 11 | 26 | 27 | 32),
        Encapsulation::Ipv6 => (at == 0 && bit < 0x10) || matches!(at, 1..=3 | 7 | 46 | 47 | 52),
        Encapsulation::Grh => (at == 0 && bit < 0x10) || matches!(at, 1..=3 | 7 | 44),
    }
}

/// What the parser makes of a field of the vectors.  A field it does not know fails the test.
fn decoded(packet: &Packet<'_>, field: &str) -> Value {
    let parts = Parts::of(packet).unwrap();
    let flag = |set: bool| Value::from(u8::from(set));
    let bth = &packet.bth;
    match (field, parts.net) {
        ("l3", Net::V4(_)) => "ipv4".into(),
        ("l3", Net::V6(_)) => "ipv6".into(),
        ("l3", Net::Grh(_)) => "grh(rocev1)".into(),
        ("src", _) => ip(packet.src().to_ip()),
        ("dst", _) => ip(packet.dst().to_ip()),
        ("tos", Net::V4(_)) | ("tclass", Net::V6(_) | Net::Grh(_)) => packet.tos.into(),
        ("ip_id", Net::V4(ip)) => ip.id.into(),
        ("flags_frag", Net::V4(ip)) => ip.flags_frag.into(),
        ("ttl", Net::V4(ip)) => ip.ttl.into(),
        ("ip_total_len", Net::V4(ip)) => ip.total_len.into(),
        ("flow_label", Net::V6(ip) | Net::Grh(ip)) => ip.flow_label.into(),
        ("hop_limit", Net::V6(ip) | Net::Grh(ip)) => ip.hop_limit.into(),
        ("ip_payload_len", Net::V6(ip) | Net::Grh(ip)) => ip.payload_len.into(),
        ("next_header", Net::V6(ip) | Net::Grh(ip)) => ip.next_header.into(),
        ("udp_sport", _) => packet.sport.into(),
        ("udp_dport", _) => packet.udp().unwrap().dport.into(),
        ("udp_len", _) => packet.udp().unwrap().len.into(),
        ("udp_csum", _) => packet.udp().unwrap().checksum.into(),
        ("bth_offset", _) => (packet.wire_len() - 4 - packet.body().len()).into(),
        ("opcode", _) => bth.opcode.0.into(),
        ("opcode_name", _) => bth.opcode.to_string().into(),
        ("se", _) => flag(bth.solicited),
        ("m", _) => flag(bth.migreq),
        ("padcnt", _) => bth.pad.into(),
        ("tver", _) => bth.tver.into(),
        ("pkey", _) => bth.pkey.into(),
        ("fecn", _) => flag(bth.fecn),
        ("becn", _) => flag(bth.becn),
        ("dest_qp", _) => bth.dest_qp.get().into(),
        ("ackreq", _) => flag(bth.ack_req),
        ("psn", _) => bth.psn.get().into(),
        ("aeth", _) => {
            let aeth = packet.aeth().unwrap();
            serde_json::json!({ "syndrome": aeth.syndrome.0, "msn": aeth.msn.get() })
        }
        ("reth", _) => {
            let reth = packet.reth().unwrap();
            serde_json::json!({ "va": reth.va, "rkey": reth.rkey, "len": reth.len })
        }
        ("atomiceth", _) => {
            let a = packet.atomic().unwrap();
            serde_json::json!({ "va": a.va, "rkey": a.rkey, "swap_or_add": a.swap_or_add, "compare": a.compare })
        }
        ("atomic_ack_orig", _) => packet.atomic_ack().unwrap().original.into(),
        ("deth", _) => {
            let deth = packet.deth().unwrap();
            serde_json::json!({ "qkey": deth.qkey, "src_qp": deth.src_qp.get() })
        }
        ("immdt", _) => packet.imm().unwrap().0.into(),
        ("ieth_rkey", _) => packet.ieth().unwrap().0.into(),
        ("vlan", _) => {
            let vlan = packet.vlan.unwrap();
            serde_json::json!({ "pcp": vlan.pcp, "dei": u8::from(vlan.dei), "vid": vlan.vid })
        }
        ("payload_offset", _) => (packet.wire_len() - 4 - packet.pad().len() - packet.payload().len()).into(),
        ("payload_len", _) => packet.payload().len().into(),
        ("icrc_offset", _) => (packet.wire_len() - 4).into(),
        ("frame_len", _) => packet.frame().len().into(),
        ("eth_padding", _) => packet.trailer().len().into(),
        _ => panic!("unknown field {field}"),
    }
}

fn ip(ip: std::net::IpAddr) -> Value {
    ip.to_string().into()
}

/// Either version of RoCE; the IP and UDP checksums change with the bits that the tests flip.
fn parse(frame: &[u8]) -> Result<Packet<'_>, DropReason> {
    match classify_checks(frame, None, Checks::OFFLOADED) {
        Err(DropReason::Rocev1) => classify_rocev1(frame, None),
        other => other,
    }
}

struct Vector {
    name: String,
    frame: Vec<u8>,
    icrc: String,
    fields: Value,
}

fn vectors() -> Vec<Vector> {
    let all: Vec<Value> = serde_json::from_str(include_str!("data/icrc-vectors.json")).unwrap();
    let text = |v: &Value, key: &str| v[key].as_str().unwrap().to_string();
    all.iter()
        .map(|v| Vector {
            name: text(v, "name"),
            frame: unhex(&text(v, "frame_hex")),
            icrc: text(v, "icrc_hex"),
            fields: v["fields"].clone(),
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pair = |i| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(pair).collect()
}
