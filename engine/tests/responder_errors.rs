//! The responder refuses: which NAK, which PSN, and what is left untouched.

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::Verdict;
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

/// A queue pair that expects PSN 50, and its memory filled with 0xEE.
fn ready(receives: u64) -> Script {
    with(Setup { psn: [100, 50], ..Setup::default() }, receives)
}

fn with(setup: Setup, receives: u64) -> Script {
    let mut s = Script::new(&setup);
    s.side.fill(0, &vec![0xEE; 1 << 20]);
    (0..receives).for_each(|i| s.side.recv(i, (1 << 19) + i as usize * 4096, 4096));
    s
}

/// The queue pair sent `nak` and nothing after it, and no byte of memory has changed.
fn refused(s: &mut Script, out: &[String], nak: &str, what: &str) {
    assert_eq!(out, [nak], "{what}");
    assert_eq!(s.state(), QpState::Err, "{what}");
    let again = s.peer.frame(Opcode::RC_SEND_ONLY, 50, true, &[], &[1]);
    assert_eq!(s.take(&again), Verdict::Dropped(DropReason::QpState), "{what}");
    assert!(s.out().is_empty(), "{what}: silence");
    assert!(s.side.bytes(0, 1 << 20).iter().all(|b| *b == 0xEE), "{what}: memory");
}

#[test]
fn s08_errors_are_answered() {
    let mut s = ready(2);
    let write = s.peer.write(Opcode::RC_WRITE_ONLY, 50, false, (VA, 0xDEAD, 4), b"data");
    let out = s.say(write);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x62 msn 0", "WRITE");
    assert_eq!(s.statuses(), [(0, WrFlushErr), (1, WrFlushErr)]);
    assert_eq!(s.side.done.events, [QpEvent::Fatal(RemAccessErr)]);
    assert_eq!(s.counters().resp_remote_access_errors, 1);

    let mut s = ready(0);
    let read = s.peer.read(50, (VA, 0xDEAD, 4));
    let out = s.say(read);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x62 msn 0", "READ");
    let mut s = ready(0);
    let atomic = s.peer.fetch_add(50, (VA, 0xDEAD), 1);
    let out = s.say(atomic);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x62 msn 0", "FETCH_ADD");
}

#[test]
fn s09_opcode_order() {
    use Opcode as O;
    let full = [7; 1024];
    let alone = [
        O::RC_WRITE_MIDDLE,
        O::RC_WRITE_LAST,
        O::RC_WRITE_LAST_IMM,
        O::RC_SEND_MIDDLE,
        O::RC_SEND_LAST,
        O::RC_SEND_LAST_IMM,
        O::RC_SEND_LAST_INV,
    ];
    for opcode in alone {
        let mut s = ready(2);
        let ext = [0; 4];
        let len = if opcode.info().unwrap().header_len > 12 { 4 } else { 0 };
        let frame = s.peer.frame(opcode, 50, true, &ext[..len], &full);
        let out = s.say(frame);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "without a first");
        assert_eq!(s.statuses(), [(0, WrFlushErr), (1, WrFlushErr)], "no receive was taken");
    }
    // (opcode, bytes of headers) that may not follow a SEND FIRST, or a WRITE FIRST.
    let reth = 16;
    let after_send = [
        (O::RC_WRITE_LAST, 0),
        (O::RC_WRITE_MIDDLE, 0),
        (O::RC_SEND_FIRST, 0),
        (O::RC_SEND_ONLY, 0),
        (O::RC_WRITE_ONLY, reth),
        (O::RC_WRITE_FIRST, reth),
        (O::RC_READ_REQUEST, reth),
        (O::RC_FETCH_ADD, 28),
    ];
    let after_write = [
        (O::RC_SEND_LAST, 0),
        (O::RC_SEND_MIDDLE, 0),
        (O::RC_SEND_FIRST, 0),
        (O::RC_SEND_ONLY, 0),
        (O::RC_WRITE_ONLY, reth),
        (O::RC_WRITE_FIRST, reth),
        (O::RC_READ_REQUEST, reth),
        (O::RC_COMPARE_SWAP, 28),
    ];
    for (opcode, ext) in after_send {
        let mut s = ready(2);
        assert!(s.request(O::RC_SEND_FIRST, 50, false, &full).is_empty());
        let payload = if ext == 16 || ext == 28 { &[][..] } else { &full[..] };
        let frame = s.peer.frame(opcode, 51, true, &[0; 28][..ext], payload);
        assert_eq!(s.say(frame), ["ACKNOWLEDGE 51 0x61 msn 0"], "{opcode} in a SEND");
        assert_eq!(s.state(), QpState::Err);
        assert_eq!(s.statuses(), [(0, RemInvReqErr), (1, WrFlushErr)], "{opcode}");
    }
    for (opcode, ext) in after_write {
        let mut s = ready(1);
        let key = s.key();
        let first = s.peer.write(O::RC_WRITE_FIRST, 50, false, (VA, key, 4096), &full);
        assert!(s.say(first).is_empty());
        let payload = if ext == 0 { &full[..] } else { &[][..] };
        let frame = s.peer.frame(opcode, 51, true, &[0; 28][..ext], payload);
        assert_eq!(s.say(frame), ["ACKNOWLEDGE 51 0x61 msn 0"], "{opcode} in a WRITE");
        assert_eq!(s.statuses(), [(0, WrFlushErr)], "{opcode}");
    }
}

#[test]
fn s14_range_sums_that_wrap() {
    // The region is VA .. VA + 1 MiB.
    let end = VA + (1 << 20);
    let cases = [
        (0xFFFF_FFFF_FFFF_FF00, 0x200, 0x62),
        (end - 1, 2, 0x62),
        (VA - 1, 1, 0x62),
        (end, 1, 0x62),
        (VA, (1 << 20) + 1, 0x62),
        (0, 1, 0x62),
        (VA, (1 << 31) + 1, 0x61),
        (VA, u32::MAX, 0x61),
    ];
    for (va, len, syndrome) in cases {
        let nak = format!("ACKNOWLEDGE 50 {syndrome:#04x} msn 0");
        let mut s = ready(0);
        let key = s.key();
        let payload = vec![1; len.min(1024) as usize];
        let opcode = if len > 1024 { Opcode::RC_WRITE_FIRST } else { Opcode::RC_WRITE_ONLY };
        let write = s.peer.write(opcode, 50, true, (va, key, len), &payload);
        let out = s.say(write);
        refused(&mut s, &out, &nak, &format!("WRITE {va:#x} {len}"));
        let mut s = ready(0);
        let read = s.peer.read(50, (va, key, len));
        let out = s.say(read);
        refused(&mut s, &out, &nak, &format!("READ {va:#x} {len}"));
    }
    for (va, syndrome) in [(VA - 8, 0x62), (end, 0x62), (u64::MAX - 7, 0x62), (VA + 4, 0x61), (end - 7, 0x61)]
    {
        let mut s = ready(0);
        let key = s.key();
        let atomic = s.peer.fetch_add(50, (va, key), 1);
        let out = s.say(atomic);
        refused(&mut s, &out, &format!("ACKNOWLEDGE 50 {syndrome:#04x} msn 0"), &format!("atomic {va:#x}"));
    }
    // The edges themselves are inside.
    let mut s = ready(0);
    assert_eq!(s.write(Opcode::RC_WRITE_ONLY, 50, (1 << 20) - 1, 1, &[9]), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    assert_eq!(s.side.bytes((1 << 20) - 1, 1), [9]);
    assert_eq!(s.read(51, 0, 1 << 20).len(), 1024);
}

#[test]
fn s16_send_longer_than_the_buffer() {
    for (opcode, len) in [(Opcode::RC_SEND_ONLY, 1001), (Opcode::RC_SEND_FIRST, 1024)] {
        let mut s = ready(0);
        s.side.recv(5, 1000, 1000);
        s.side.recv(6, 4096, 4096);
        let out = s.request(opcode, 50, true, &vec![1; len]);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "too long");
        assert_eq!(s.statuses(), [(5, LocLenErr), (6, WrFlushErr)]);
        assert_eq!((s.counters().resp_cqe_error, s.counters().resp_cqe_flush_error), (1, 1));
    }
    // It shows in the second packet: what fitted stays, what does not is not written.
    let mut s = ready(0);
    s.side.recv(5, 0, 1500);
    s.request(Opcode::RC_SEND_FIRST, 50, true, &[1; 1024]);
    assert_eq!(s.request(Opcode::RC_SEND_LAST, 51, true, &[1; 477]), ["ACKNOWLEDGE 51 0x61 msn 0"]);
    assert_eq!(s.statuses(), [(5, LocLenErr)]);
    assert!(s.side.bytes(1024, 1024).iter().all(|b| *b == 0xEE));
}

#[test]
fn s21_opcodes_not_supported() {
    use Opcode as O;
    let cases: [(O, usize, usize); 4] = [
        (O::RC_FLUSH, 20, 0),
        (O::RC_ATOMIC_WRITE, 16, 8),
        (O::RC_ATOMIC_WRITE, 16, 0),
        (O::RC_FLUSH, 20, 8),
    ];
    for (opcode, ext, payload) in cases {
        let mut s = ready(1);
        let mut headers = vec![0; ext];
        Reth { va: VA, rkey: s.key(), len: 8 }.emit(&mut headers[ext - 16..]);
        let frame = s.peer.frame(opcode, 50, true, &headers, &vec![1; payload]);
        let out = s.say(frame);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "not supported");
        assert_eq!(s.statuses(), [(0, WrFlushErr)]);
    }
}

#[test]
fn w01_pad_count_larger_than_the_payload() {
    let mut s = ready(1);
    let before = format!("{:?}", s.side.qp);
    let mut tried = 0;
    for value in 0..0x20 {
        let Some(info) = Opcode(value).info() else { continue };
        let ext = vec![0; usize::from(info.header_len) - 12];
        for pad in 1..=3 {
            let frame = s.peer.frame_padded(Opcode(value), 50, true, &ext, &[], 0, pad);
            assert_eq!(s.take(&frame), Verdict::Dropped(DropReason::Malformed), "{} pad {pad}", info.name);
            tried += 1;
        }
    }
    assert_eq!(tried, 25 * 3);
    assert_eq!(format!("{:?}", s.side.qp), before);
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, &[]), ["ACKNOWLEDGE 50 0x1f msn 1"]);
}

#[test]
fn w15_first_and_middle_not_equal_to_the_path_mtu() {
    use Opcode as O;
    let data = vec![7; 2048];
    let reth = |s: &Script, len: u32| {
        let mut ext = [0; 16];
        Reth { va: VA, rkey: s.key(), len }.emit(&mut ext);
        ext
    };
    // (opcode, RETH length, payload, pad bytes)
    let starts: [(O, u32, usize, u8); 7] = [
        (O::RC_WRITE_FIRST, 4096, 1020, 0),
        (O::RC_WRITE_FIRST, 4096, 1028, 0),
        (O::RC_WRITE_FIRST, 1024, 1024, 0),
        (O::RC_WRITE_ONLY, 1028, 1028, 0),
        (O::RC_WRITE_ONLY, 1024, 1020, 0),
        (O::RC_WRITE_ONLY, 8, 4, 0),
        (O::RC_WRITE_ONLY, 5, 5, 0),
    ];
    for (opcode, len, payload, _) in starts {
        let mut s = ready(1);
        let ext = reth(&s, len);
        let pad = payload.wrapping_neg() & 3;
        // The last one has its pad on the wire and says that it has none.
        let field = if payload == 5 { 0 } else { pad as u8 };
        let frame = s.peer.frame_padded(opcode, 50, true, &ext, &data[..payload], pad, field);
        let out = s.say(frame);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", &format!("{opcode} {len} {payload}"));
    }
    // FIRST with 1024 bytes and a PadCnt of 1: 1023 bytes of payload.
    let mut s = ready(1);
    let ext = reth(&s, 4096);
    let frame = s.peer.frame_padded(O::RC_WRITE_FIRST, 50, true, &ext, &data[..1024], 0, 1);
    let out = s.say(frame);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "FIRST with pad");
    for len in [1020, 1028] {
        let mut s = ready(1);
        let out = s.request(O::RC_SEND_FIRST, 50, true, &data[..len]);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "SEND FIRST");
        assert_eq!(s.statuses(), [(0, RemInvReqErr)]);
        let mut s = ready(1);
        let out = s.request(O::RC_SEND_ONLY, 50, true, &data[..1028]);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "SEND ONLY");
    }
    let sends: [(O, usize); 4] =
        [(O::RC_SEND_MIDDLE, 1028), (O::RC_SEND_MIDDLE, 1020), (O::RC_SEND_LAST, 0), (O::RC_SEND_LAST, 1028)];
    for (opcode, payload) in sends {
        let mut s = ready(1);
        s.request(O::RC_SEND_FIRST, 50, false, &data[..1024]);
        assert_eq!(s.request(opcode, 51, true, &data[..payload]), ["ACKNOWLEDGE 51 0x61 msn 0"]);
        assert_eq!(s.statuses(), [(0, RemInvReqErr)]);
    }
    // A WRITE of 2050 bytes: 1024, 1024, 2.
    let writes: [(&[(O, usize)], u32); 6] = [
        (&[(O::RC_WRITE_LAST, 0)], 51),
        (&[(O::RC_WRITE_MIDDLE, 1020)], 51),
        (&[(O::RC_WRITE_LAST, 1024)], 51),
        (&[(O::RC_WRITE_MIDDLE, 1024), (O::RC_WRITE_MIDDLE, 1024)], 52),
        (&[(O::RC_WRITE_MIDDLE, 1024), (O::RC_WRITE_LAST, 1)], 52),
        (&[(O::RC_WRITE_MIDDLE, 1024), (O::RC_WRITE_LAST, 3)], 52),
    ];
    for (packets, at) in writes {
        let mut s = ready(1);
        let ext = reth(&s, 2050);
        let first = s.peer.frame(O::RC_WRITE_FIRST, 50, false, &ext, &data[..1024]);
        assert!(s.say(first).is_empty());
        let mut out = Vec::new();
        for (k, (opcode, len)) in packets.iter().enumerate() {
            out = s.request(*opcode, 51 + k as u32, false, &data[..*len]);
        }
        assert_eq!(out, [format!("ACKNOWLEDGE {at} 0x61 msn 0")], "{packets:?}");
        let written = 1024 * (at as usize - 50);
        assert!(s.side.bytes(written, 4096).iter().all(|b| *b == 0xEE), "{packets:?}");
    }
}

#[test]
fn w21_packets_of_other_transports_are_dropped() {
    let mut s = ready(1);
    for (opcode, ext) in [(0x64u8, 8usize), (0x24, 0), (0x2A, 16), (0xA4, 4), (0xB1, 8)] {
        let frame = s.peer.frame(Opcode(opcode), 50, true, &vec![0; ext], &[]);
        assert_eq!(s.take(&frame), Verdict::Dropped(DropReason::WrongTransport), "{opcode:#x}");
    }
    assert!(s.out().is_empty(), "no NAK ever");
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, &[]), ["ACKNOWLEDGE 50 0x1f msn 1"]);
}

#[test]
fn x04_requests_of_a_stranger() {
    let mut s = ready(1);
    for route in [route(9, 1), route(2, 9)] {
        let mut stranger = Peer::with(&route, 0xFFFF, 0x11);
        for frame in [stranger.frame(Opcode::RC_SEND_ONLY, 50, true, &[], &[1]), stranger.cnp()] {
            assert_eq!(s.take(&frame), Verdict::Dropped(DropReason::WrongAddress));
        }
    }
    assert!(s.out().is_empty());
    assert_eq!(s.counters().rp_cnp_ignored, 0);
    let cnp = s.peer.cnp();
    assert_eq!((s.take(&cnp), s.counters().rp_cnp_ignored), (Verdict::Delivered, 1));
    assert!(s.out().is_empty());
}

#[test]
fn x12_partition_keys() {
    let setup = Setup { psn: [100, 50], ..Setup::default() };
    // (ours, theirs, taken)
    let cases = [
        (0xFFFF, 0xFFFF, true),
        (0xFFFF, 0x7FFF, true),
        (0xFFFF, 0x8001, false),
        (0xFFFF, 0x0000, false),
        (0xFFFF, 0x8000, false),
        (0x7FFF, 0xFFFF, true),
        (0x7FFF, 0x7FFF, false),
        (0x8001, 0x0001, true),
        (0x8001, 0x8002, false),
    ];
    for (ours, theirs, taken) in cases {
        let mut s = Script::new(&setup);
        let route = route(1, 2);
        s.side.qp.modify(Transition::Reset, &mut s.side.done).unwrap();
        let init = InitAttrs { access: Access::ALL, pkey: ours };
        s.side.qp.modify(Transition::Init(init), &mut s.side.done).unwrap();
        let rtr = RtrAttrs {
            route,
            mtu: setup.mtu,
            dest_qpn: roce_engine::units::Qpn::new(0x12),
            rq_psn: roce_engine::units::Psn::new(50),
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
        };
        s.side.qp.modify(Transition::Rtr(Box::new(rtr)), &mut s.side.done).unwrap();
        s.side.recv(1, 0, 64);
        let mut peer = Peer::with(&common::route(2, 1), theirs, 0x11);
        let frame = peer.frame(Opcode::RC_SEND_ONLY, 50, true, &[], &[1]);
        let want = if taken { Verdict::Delivered } else { Verdict::Dropped(DropReason::PkeyMismatch) };
        assert_eq!(s.take(&frame), want, "{ours:#x} {theirs:#x}");
        let frames = s.frames();
        assert_eq!(frames.len(), usize::from(taken), "{ours:#x} {theirs:#x}: no NAK");
        assert!(frames.iter().all(|f| classify(f).unwrap().bth.pkey == ours), "answers carry our key");
    }
}

/// The right of the queue pair is checked before key and range: 0x61 as by the reference.
#[test]
fn operations_that_the_queue_pair_does_not_grant() {
    let without = |access| with(Setup { psn: [100, 50], access, ..Setup::default() }, 0);
    let mut s = without(Access::REMOTE_READ | Access::REMOTE_ATOMIC);
    let frame = s.peer.write(Opcode::RC_WRITE_ONLY, 50, true, (VA, 0xDEAD, 4), b"data");
    let out = s.say(frame);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "WRITE");
    let mut s = without(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    let out = s.read(50, 0, 64);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "READ");
    let mut s = without(Access::REMOTE_WRITE | Access::REMOTE_READ);
    let key = s.key();
    let frame = s.peer.fetch_add(50, (VA, key), 1);
    let out = s.say(frame);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "atomic");
    let mut s = with(Setup { psn: [100, 50], rd_atomic: 0, ..Setup::default() }, 0);
    let out = s.read(50, 0, 64);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x61 msn 0", "READ without depth");
}

/// The region's own rights and domain give 0x62.
#[test]
fn regions_that_grant_too_little() {
    for (pd, access) in [(PD, Access::LOCAL_WRITE | Access::REMOTE_READ), (Pd(4), Access::ALL)] {
        let mut s = ready(0);
        let mr = s.side.mem.register_at(pd, 0x1000, 64, access).unwrap();
        let frame = s.peer.write(Opcode::RC_WRITE_ONLY, 50, true, (0x1000, mr.key.0, 4), b"data");
        let out = s.say(frame);
        refused(&mut s, &out, "ACKNOWLEDGE 50 0x62 msn 0", "WRITE");
        assert_eq!(s.side.mem.local(mr.key, 0x1000, 4).unwrap(), [0; 4]);
    }
}

#[test]
fn a_receive_whose_memory_is_gone() {
    let mut s = ready(0);
    let sge = Sge { addr: VA, len: 64, lkey: MrKey(0xDEAD) };
    s.side.qp.post_recv(RecvWr { wr_id: 5, sge }).unwrap();
    let out = s.request(Opcode::RC_SEND_ONLY, 50, true, &[1]);
    refused(&mut s, &out, "ACKNOWLEDGE 50 0x63 msn 0", "bad lkey");
    assert_eq!(s.statuses(), [(5, LocProtErr)]);
    assert_eq!(s.counters().resp_local_op_errors, 1);
}

#[test]
fn the_closing_nak_follows_the_answers_before_it() {
    let mut s = ready(0);
    let key = s.key();
    let read = s.peer.read(50, (VA, key, 2048));
    let bad = s.peer.write(Opcode::RC_WRITE_ONLY, 52, true, (VA, 0xDEAD, 4), b"data");
    s.take(&read);
    s.take(&bad);
    assert_eq!(s.state(), QpState::Err);
    let want = ["READ_RESP_FIRST 50 0x1f msn 1", "READ_RESP_LAST 51 0x1f msn 1", "ACKNOWLEDGE 52 0x62 msn 1"];
    assert_eq!(s.out(), want);
    assert!(s.out().is_empty());
}

/// The region of a READ goes away while it is answered: NAK in the PSN of the answer that is
/// missing, nothing of a later request before or after it, and the queue pair is done.
#[test]
fn a_read_whose_memory_goes_away() {
    let mut s = ready(1);
    let mr = s.side.mem.register_at(PD, 0x1000, 4096, Access::ALL).unwrap();
    let key = s.key();
    for frame in [
        s.peer.read(50, (0x1000, mr.key.0, 3072)),
        s.peer.read(53, (VA, key, 64)),
        s.peer.write(Opcode::RC_WRITE_ONLY, 54, true, (VA, key, 1), &[0xEE]),
    ] {
        assert_eq!(s.take(&frame), Verdict::Delivered);
    }
    let mut slot = vec![0; 4400];
    let side = &mut s.side;
    let sent = side.qp.poll_transmit(s.now, &side.mem, &mut slot, &mut side.done);
    assert!(matches!(sent, roce_engine::transport::Transmit::Sent(_)));
    side.mem.deregister(mr.key).unwrap();
    assert_eq!(s.out(), ["ACKNOWLEDGE 51 0x62 msn 1"]);
    assert_eq!((s.state(), s.statuses()), (QpState::Err, vec![(0, WrFlushErr)]));
    assert!(s.side.done.events.contains(&QpEvent::Fatal(RemAccessErr)));
}

#[test]
fn send_with_invalidate() {
    let invalidate = |s: &mut Script, psn, key: u32| {
        let frame = s.peer.frame(Opcode::RC_SEND_ONLY_INV, psn, true, &key.to_be_bytes(), b"bye");
        s.say(frame)
    };
    let mut s = ready(2);
    let mr = s.side.mem.register_at(PD, 0x1000, 64, Access::ALL).unwrap();
    assert_eq!(invalidate(&mut s, 50, mr.key.0), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    assert_eq!(s.side.done.completions[0].invalidated, Some(mr.key.0));
    let read = s.peer.read(51, (0x1000, mr.key.0, 4));
    assert_eq!(s.say(read), ["ACKNOWLEDGE 51 0x62 msn 1"], "the key is dead");
    // A key of another domain is none of the peer's business.  The bytes are delivered already, so
    // there is nothing to refuse: the queue pair ends without a word.
    let mut s = ready(2);
    let foreign = s.side.mem.register_at(Pd(9), 0x1000, 64, Access::ALL).unwrap();
    assert!(invalidate(&mut s, 50, foreign.key.0).is_empty());
    assert_eq!(s.statuses(), [(0, RemInvReqErr), (1, WrFlushErr)]);
    assert_eq!(s.state(), QpState::Err);
    assert!(s.side.done.events.contains(&QpEvent::Fatal(RemInvReqErr)));
    assert!(s.side.mem.local(foreign.key, 0x1000, 64).is_ok());
}

/// Local keys belong to a protection domain as remote ones do.
#[test]
fn a_receive_into_memory_of_another_domain() {
    let mut s = ready(0);
    let foreign = s.side.mem.register_at(Pd(9), 0x1000, 64, Access::ALL).unwrap();
    let sge = Sge { addr: 0x1000, len: 64, lkey: foreign.key };
    s.side.qp.post_recv(RecvWr { wr_id: 7, sge }).unwrap();
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, b"data"), ["ACKNOWLEDGE 50 0x63 msn 0"]);
    assert_eq!(s.statuses(), [(7, LocProtErr)]);
    assert_eq!(s.side.mem.local(foreign.key, 0x1000, 64).unwrap(), [0; 64]);
}
