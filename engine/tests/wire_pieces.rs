//! Frames in three pieces are the same frames.

use roce_engine::units::{Psn, Qpn};
use roce_engine::wire::{
    Constant, CrcShift, DropReason, Head, Opcode, Payload, Piece, Reth, Route, Slot, Stamp, Tail, Template,
    Vlan, classify, classify_pieces,
};
use std::net::IpAddr;
use std::sync::Arc;

/// Takes payload in pieces.
#[derive(Default)]
struct Pieces {
    room: Vec<u8>,
    got: Option<[Vec<u8>; 3]>,
}

impl Slot for Pieces {
    fn buf(&mut self) -> &mut [u8] {
        &mut self.room
    }

    fn attach(&mut self, head: &[u8], piece: &Piece<'_>, tail: Tail) -> bool {
        let mut end = vec![0xEE; Tail::MAX_LEN];
        let len = tail.emit(&mut end);
        end.truncate(len);
        self.got = Some([head.to_vec(), piece.bytes().to_vec(), end]);
        true
    }
}

fn template(v6: bool, vlan: Option<Vlan>) -> Template {
    let gid = |v4: &str, v6_: &str| if v6 { v6_ } else { v4 }.parse::<IpAddr>().expect("an address").into();
    let route = Route {
        src_mac: [2, 0, 0, 0, 0, 1].into(),
        dst_mac: [2, 0, 0, 0, 0, 2].into(),
        vlan,
        src: gid("198.18.0.1", "2001:2::1"),
        dst: gid("198.18.0.2", "2001:2::2"),
        tos: 0x6A,
        hop_limit: 64,
        flow_label: 5,
        sport: 0xC123,
    };
    Template::new(&route, 0xFFFF, Qpn::new(0x11))
}

fn stamp(opcode: Opcode) -> Stamp {
    Stamp { opcode, solicited: false, ack_req: true, pad: 0, psn: Psn::new(0xAB_CDEF), tos: None }
}

/// A frame in one piece, and the same in three.
fn both(v6: bool, vlan: Option<Vlan>, opcode: Opcode, len: usize) -> (Vec<u8>, [Vec<u8>; 3]) {
    let bytes: Vec<u8> = (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    let constant = Constant::new(&bytes, &Arc::new(CrcShift::new(len)));
    let payload = Payload { bytes: constant.bytes(), len, piece: constant.piece(0, len) };
    assert!(payload.piece.is_some());
    let mut template = template(v6, vlan);
    let mut head = Head::new();
    let mut ext = 0;
    if opcode.info().expect("known").reth {
        Reth { va: 0x1234_5678_9ABC, rkey: 7, len: len as u32 }.emit(head.from(template.headers_len()));
        ext = Reth::LEN;
    }
    let mut whole = vec![0xEE; 9000];
    let n = template.write(&mut whole, &mut head.clone(), stamp(opcode), ext, Payload::from(&bytes[..]));
    whole.truncate(n);
    let mut slot = Pieces::default();
    assert_eq!(template.write(&mut slot, &mut head, stamp(opcode), ext, payload), n);
    (whole, slot.got.expect("long enough to be attached"))
}

fn cases() -> impl Iterator<Item = (bool, Option<Vlan>, Opcode, usize)> {
    let tag = Some(Vlan { pcp: 3, dei: false, vid: 100 });
    let heads = [(false, None), (false, tag), (true, None), (true, tag)];
    let opcodes =
        [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE, Opcode::RC_SEND_ONLY, Opcode::RC_WRITE_ONLY];
    let lengths = [193, 255, 1024, 4095, 4094, 4093, 4096];
    heads.into_iter().flat_map(move |(v6, vlan)| {
        opcodes.into_iter().flat_map(move |o| lengths.into_iter().map(move |l| (v6, vlan, o, l)))
    })
}

#[test]
fn three_pieces_are_the_frame() {
    for (v6, vlan, opcode, len) in cases() {
        let (whole, pieces) = both(v6, vlan, opcode, len);
        assert_eq!(pieces.concat(), whole, "{v6} {vlan:?} {opcode:?} {len}");
        let expected = classify(&whole).unwrap();
        assert!(expected.verify_icrc());
        let [head, payload, tail] = &pieces;
        let found = classify_pieces(head, [payload, tail], None).unwrap();
        assert!(found.verify_icrc());
        assert_eq!(found.payload(), expected.payload());
        assert_eq!(found.pad(), expected.pad());
        assert_eq!((found.bth, found.reth(), found.vlan), (expected.bth, expected.reth(), expected.vlan));
        assert_eq!(found.wire_len(), whole.len());
        let mut copy = vec![0; whole.len()];
        found.copy_to(&mut copy);
        assert_eq!(copy, whole);
    }
}

/// A bit that flips is found, whichever piece it is in, but for what the iCRC leaves out.
#[test]
fn a_flipped_bit_is_found_in_each_piece() {
    let (_, mut pieces) = both(false, None, Opcode::RC_WRITE_FIRST, 1022);
    for piece in 0..3 {
        for at in 0..pieces[piece].len() {
            // Ethernet, TOS, TTL and checksum, UDP checksum, byte 4 of the BTH.
            let left_out = at < 14 || [15, 22, 24, 25, 40, 41, 46].contains(&at);
            if piece == 0 && left_out {
                continue;
            }
            pieces[piece][at] ^= 0x10;
            let [head, payload, tail] = &pieces;
            let right = classify_pieces(head, [payload, tail], None).is_ok_and(|p| p.verify_icrc());
            assert!(!right, "piece {piece}, byte {at}");
            pieces[piece][at] ^= 0x10;
        }
    }
}

#[test]
fn pieces_must_end_where_the_parts_do() {
    let (whole, [head, payload, tail]) = both(false, None, Opcode::RC_WRITE_FIRST, 1022);
    let at = head.len();
    let cut = |a: usize, b: usize| classify_pieces(&whole[..a], [&whole[a..b], &whole[b..]], None).err();
    let end = at + payload.len();
    assert_eq!(cut(at, end), None);
    for (a, b) in
        [(at - 1, end), (at + 1, end), (at, end - 1), (at, end + 1), (at - 4, end), (at, whole.len())]
    {
        assert_eq!(cut(a, b), Some(DropReason::LengthMismatch), "{a} {b}");
    }
    assert_eq!(cut(20, end), Some(DropReason::Runt));
    assert_eq!(classify_pieces(&head, [&payload, &[]], None).err(), Some(DropReason::LengthMismatch));
    assert_eq!(classify_pieces(&head, [&payload[1..], &tail], None).err(), Some(DropReason::LengthMismatch));
    let mut summed = head.clone();
    summed[41] = 1;
    assert!(classify_pieces(&summed, [&payload, &tail], None).is_err(), "a checksum that nobody verifies");
}
