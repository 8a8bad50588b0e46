//! Faults known from public bug reports, as far as the wire layer sees them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use roce_engine::units::{Psn, Qpn};
use roce_engine::wire::icrc::Encapsulation;
use roce_engine::wire::{
    Bth, Checks, DropReason, Ethernet, Gid, MIN_FRAME, MacAddr, Opcode, PayloadRule, Reth, Route, Stamp,
    Template, Vlan, classify, classify_checks, classify_with, icrc,
};
use std::net::IpAddr;

/// Pad and iCRC were subtracted before any length check, and the payload size underflowed.
#[test]
fn w01_pad_larger_than_the_payload() {
    let mut frames = 0;
    for info in (0..0x20).filter_map(|op| Opcode(op).info()) {
        for pad in 0..4 {
            for ip in [V4, V6] {
                let headers = usize::from(info.header_len) - Bth::LEN;
                let frame =
                    Frame { ip, opcode: info.opcode, pad, ..Frame::default() }.build(&vec![0; headers]);
                if pad == 0 {
                    assert_eq!(classify(&frame).unwrap().payload(), b"", "{info:?}");
                } else {
                    assert_eq!(classify(&frame).unwrap_err().name(), "malformed", "{info:?} pad {pad}");
                }
                frames += 1;
            }
        }
    }
    assert_eq!(frames, 25 * 4 * 2);

    let frame = Frame { opcode: Opcode::RC_WRITE_ONLY, pad: 3, ..Frame::default() }.build(&[0; Reth::LEN]);
    assert_eq!(udp_payload(&frame), 32);
    assert_eq!(classify(&frame).unwrap_err(), DropReason::Malformed);
}

/// The length check counted the UDP header still: runts looked eight bytes longer.
#[test]
fn w03_runts() {
    // Cut to any length, with lengths and iCRC that agree with the cut.
    let cut = |opcode, udp_payload: usize| {
        let mut frame = Frame { opcode, ..Frame::default() }.build(&[0; 40]);
        frame[38..40].copy_from_slice(&(udp_payload as u16 + 8).to_be_bytes());
        frame[16..18].copy_from_slice(&(udp_payload as u16 + 28).to_be_bytes());
        frame.truncate(42 + udp_payload);
        if udp_payload >= 16 {
            reseal(&mut frame);
        }
        // Ethernet padding does not make it longer.
        frame.resize(frame.len().max(MIN_FRAME), 0);
        classify_checks(&frame, None, Checks { ipv4_checksum: false, ..Checks::ALL })
            .map(|packet| packet.verify_icrc())
    };
    for len in [12, 16, 17, 18, 19] {
        assert_eq!(cut(Opcode::RC_ACKNOWLEDGE, len), Err(DropReason::Runt), "{len}");
    }
    assert_eq!(cut(Opcode::RC_ACKNOWLEDGE, 20), Ok(true));
    for len in 24..32 {
        assert_eq!(cut(Opcode::RC_READ_REQUEST, len), Err(DropReason::Runt), "{len}");
    }
    assert_eq!(cut(Opcode::RC_READ_REQUEST, 32), Ok(true));
    // Long enough, but no packet's length is odd.
    for len in [21, 22, 23] {
        assert_eq!(cut(Opcode::RC_ACKNOWLEDGE, len), Err(DropReason::Malformed), "{len}");
    }
}

/// The iCRC was written at the offset without pad.
#[test]
fn w05_icrc_after_the_pad() {
    for ip in [V4, V6] {
        for len in 1..=8usize {
            let payload: Vec<u8> = (1..=len as u8).collect();
            let frame = Frame { ip, ..Frame::default() }.build(&payload);
            let packet = classify(&frame).unwrap();
            let pad = (4 - len % 4) % 4;
            assert_eq!((packet.payload(), usize::from(packet.bth.pad)), (&payload[..], pad));
            assert_eq!(packet.pad(), &[0, 0, 0][..pad]);
            let end = packet.udp().unwrap().len as usize + 34 + if packet.is_ipv6 { 20 } else { 0 };
            assert_eq!(packet.wire_len(), end);
            assert_eq!(frame[end - 4..end], packet.icrc_computed());
            assert!(packet.verify_icrc());
            // A pad byte is covered.
            if pad > 0 {
                let mut frame = frame.clone();
                frame[end - 5] ^= 1;
                assert!(!classify(&frame).unwrap().verify_icrc());
            }
        }
    }
}

/// The MAC pads short frames, and some drivers leave the FCS on.
#[test]
fn w06_ethernet_trailer() {
    let empty = Frame::default().build(b"");
    assert_eq!(empty.len(), MIN_FRAME);
    let (packet, padding) = empty.split_at(58);
    assert_eq!(padding, [0, 0]);
    for trailer in [0, 2, 6, 14] {
        let noise = (0..trailer).map(|i| 0xA5 ^ i);
        let frame: Vec<u8> = packet.iter().copied().chain(noise).collect();
        let parsed = classify(&frame).unwrap();
        assert!(parsed.verify_icrc(), "{trailer} bytes");
        assert_eq!((parsed.payload(), parsed.wire_len()), (&b""[..], 58));
        assert_eq!(parsed.trailer().len(), usize::from(trailer));
    }
    let mut with_fcs = Frame { vlan: Some(Vlan::from_tci(100)), ..Frame::default() }.build(&[0xA5; 64]);
    with_fcs.extend([0xDE, 0xAD, 0xBE, 0xEF]);
    let parsed = classify(&with_fcs).unwrap();
    assert!(parsed.verify_icrc());
    assert_eq!((parsed.payload().len(), parsed.trailer().len()), (64, 4));
}

/// Offsets take a header of 20 bytes for granted; TTL and DF are none of the receiver's business.
#[test]
fn w08_ipv4_header_variants() {
    let good = Frame::default().build(&[0xA5; 64]);
    let reason = |frame: &[u8]| classify(frame).map(|packet| packet.verify_icrc()).map_err(|r| r.name());
    assert_eq!(reason(&good), Ok(true));

    let mut options = good.clone();
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 1]); // four no-operation options
    options[16..18].copy_from_slice(&(good.len() as u16 - 14 + 4).to_be_bytes());
    assert_eq!(reason(&resummed(options, 24)), Err("bad_ip_header"));

    assert_eq!(reason(&with(&good, 20, &[0x60, 0x00])), Err("fragment"), "MF");
    assert_eq!(reason(&with(&good, 20, &[0x40, 0x01])), Err("fragment"), "offset 8");
    assert_eq!(reason(&with(&good, 14, &[0x55])), Err("bad_ip_header"), "version 5");
    assert_eq!(reason(&with(&good, 23, &[6])), Err("non_roce"), "TCP");
    assert_eq!(reason(&with(&good, 22, &[1])), Ok(true), "TTL 1");
    // DF is covered by the iCRC, so the sender must have left it out.
    let mut without_df = with(&good, 20, &[0x00, 0x00]);
    assert_eq!(reason(&without_df), Ok(false));
    reseal(&mut without_df);
    assert_eq!(reason(&without_df), Ok(true), "DF 0 is accepted");
}

/// Tags of every priority, VLAN 0 among them, in the frame or stripped.
#[test]
fn w10_vlan_tags() {
    let untagged = Frame::default().build(&[0xA5; 64]);
    let icrc = classify(&untagged).unwrap().icrc_found();
    for pcp in 0..8 {
        for vid in [0, 100, 200] {
            let vlan = Some(Vlan { pcp, dei: false, vid });
            let tagged = Frame { vlan, ..Frame::default() }.build(&[0xA5; 64]);
            assert_eq!(tagged.len(), untagged.len() + 4);
            let in_frame = classify(&tagged).unwrap();
            let stripped = classify_with(&untagged, vlan).unwrap();
            for packet in [in_frame, stripped] {
                assert_eq!(packet.vlan, vlan);
                assert!(packet.verify_icrc());
                assert_eq!(packet.icrc_found(), icrc);
            }
            // Two tags, whichever the NIC took off.
            assert_eq!(classify_with(&tagged, vlan).unwrap_err().name(), "vlan_mismatch");
            for outer in [[0x81, 0x00], [0x88, 0xA8]] {
                let mut twice = tagged.clone();
                twice.splice(12..12, [outer[0], outer[1], 0x00, 0x64]);
                assert_eq!(classify(&twice).unwrap_err().name(), "vlan_mismatch");
            }
        }
    }
}

/// A wrong mask set reserved bits; a strict zero check threw notifications away.
#[test]
fn w11_reserved_bits_and_tver() {
    let mut template = Template::new(&route(V4, None), 0xFFFF, Qpn::new(0xFF_FFFE));
    let mut out = [0xEE; 128];
    for psn in 0xFF_FE00..0xFF_FE00 + 1000 {
        let stamp = Stamp { ack_req: true, psn: Psn::new(psn), ..stamp(Opcode::RC_SEND_ONLY, 0) };
        let at = template.stamp(&mut out, &stamp, 8);
        let len = template.seal(&mut out, 8);
        assert_eq!(out[at - 8], 0, "byte 4");
        let bth = classify(&out[..len]).unwrap().bth;
        assert_eq!((bth.resv6, bth.resv7, bth.tver), (0, 0, 0));
        assert_eq!((bth.dest_qp.get(), bth.ack_req, bth.psn), (0xFF_FFFE, true, Psn::new(psn)));
    }

    let good = Frame::default().build(&[0xA5; 8]);
    for tver in 1..16 {
        let mut frame = good.clone();
        frame[43] |= tver;
        reseal(&mut frame);
        assert_eq!(classify(&frame).unwrap_err(), DropReason::BadTver);
    }
    for resv7 in 1..128 {
        let mut frame = good.clone();
        frame[50] |= resv7;
        assert!(!classify(&frame).unwrap().verify_icrc(), "reserved, but covered");
        reseal(&mut frame);
        let packet = classify(&frame).unwrap();
        assert!(packet.verify_icrc());
        assert_eq!((packet.bth.resv7, packet.bth.psn), (resv7, Psn::new(7)));
    }
    for byte_4 in 0..=255 {
        let mut frame = good.clone();
        frame[46] = byte_4;
        let packet = classify(&frame).unwrap();
        assert!(packet.verify_icrc(), "masked");
        assert_eq!((packet.bth.fecn, packet.bth.becn), (byte_4 & 0x80 != 0, byte_4 & 0x40 != 0));
        assert_eq!(packet.bth.dest_qp, Qpn::new(0x11));
    }
    let len = roce_engine::wire::cnp(&route(V4, None), 0xFFFF, Qpn::new(0x11), &mut out);
    let packet = classify(&out[..len]).unwrap();
    assert!(packet.verify_icrc() && packet.bth.becn && packet.info.payload == PayloadRule::None);
}

/// A peer with a GID of the other type sends RoCEv1; all that shows otherwise is a time-out.
#[test]
fn w20_rocev1_frame() {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("data/icrc-vectors.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    let v1 = vectors.iter().find(|v| v["name"] == "rocev1_rc_send_only_pad2_synth").unwrap();
    let text = v1["frame_hex"].as_str().unwrap();
    let pair = |i| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    let frame: Vec<u8> = (0..text.len()).step_by(2).map(pair).collect();
    let mut counters = [0u64; DropReason::COUNT];
    for _ in 0..10 {
        counters[classify(&frame).unwrap_err() as usize] += 1;
    }
    let seen: Vec<_> = DropReason::ALL
        .into_iter()
        .map(|reason| (reason.name(), counters[reason as usize]))
        .filter(|(_, n)| *n > 0)
        .collect();
    assert_eq!(seen, [("rocev1_seen", 10)]);
}

const V4: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
const V6: [&str; 2] = ["2001:2::1", "2001:2::2"];

/// A SEND ONLY of PSN 7 to QP 0x11 over IPv4, but for what a case changes.
struct Frame {
    ip: [&'static str; 2],
    vlan: Option<Vlan>,
    opcode: Opcode,
    /// Added to the right PadCnt.
    pad: u8,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame { ip: V4, vlan: None, opcode: Opcode::RC_SEND_ONLY, pad: 0 }
    }
}

impl Frame {
    /// With `body` after the BTH, and pad.
    fn build(&self, body: &[u8]) -> Vec<u8> {
        let mut out = vec![0; body.len() + 128];
        let pad = body.len().next_multiple_of(4) - body.len();
        let mut template = Template::new(&route(self.ip, self.vlan), 0xFFFF, Qpn::new(0x11));
        let at = template.stamp(&mut out, &stamp(self.opcode, pad as u8 + self.pad), body.len() + pad);
        out[at..at + body.len()].copy_from_slice(body);
        let len = template.seal(&mut out, body.len() + pad);
        out.truncate(len);
        out
    }
}

fn stamp(opcode: Opcode, pad: u8) -> Stamp {
    Stamp { opcode, solicited: false, ack_req: false, pad, psn: Psn::new(7), tos: None }
}

fn route(ip: [&str; 2], vlan: Option<Vlan>) -> Route {
    let [src, dst] = ip.map(|ip| Gid::from(ip.parse::<IpAddr>().unwrap()));
    Route {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan,
        src,
        dst,
        tos: 0,
        hop_limit: 64,
        flow_label: 0,
        sport: 0xC000,
    }
}

fn udp_payload(frame: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([frame[38], frame[39]])) - 8
}

/// An untagged IPv4 frame with `bytes` at `at` and its header checksum made right again.
fn with(frame: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    resummed(frame, 20)
}

/// An untagged IPv4 frame with the right checksum over a header of `len` bytes.
fn resummed(mut frame: Vec<u8>, len: usize) -> Vec<u8> {
    frame[24..26].fill(0);
    let words = frame[Ethernet::LEN..Ethernet::LEN + len].chunks(2);
    let sum: u32 = words.map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let checksum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Makes the iCRC of an untagged IPv4 frame right again, where its UDP length says that it is.
fn reseal(frame: &mut [u8]) {
    let end = 42 + udp_payload(frame);
    let icrc = icrc::compute(Encapsulation::Ipv4, &frame[14..end - 4]);
    if let Some(icrc) = icrc {
        frame[end - 4..end].copy_from_slice(&icrc);
    }
}
