//! Cases that need a long story: errors in the middle of a run, corruption, impatient peers, replays.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::Verdict;
use roce_engine::units::{Duration, Mtu, Qpn};
use roce_engine::verbs::*;
use roce_engine::wire::*;
use roce_engine::worker::{Endpoint, EndpointConfig};
use std::collections::HashSet;

/// A pair with a WRITE of 16 packets from PSN 100 on, and `fate` for the first sending of `psn`.
fn write_with(psn: u32, fate: Fate) -> Pair {
    let mut pair = Pair::new(&Setup::default());
    let data = pattern(psn, 16 * 1024);
    pair.sides[0].fill(0, &data);
    let op = SendOp::Write { raddr: VA, rkey: pair.sides[1].mr.key };
    pair.sides[0].post(1, op, 0, 16 * 1024);
    let mut first = true;
    let mut fates = |from: usize, frame: &[u8]| {
        let hit = from == 0 && first && classify(frame).unwrap().bth.psn.get() == psn;
        first &= !hit;
        if hit { fate } else { Fate::Pass }
    };
    assert!(pair.run(Duration::from_secs(1), &mut fates, &mut |_| {}));
    assert_eq!(pair.sides[0].statuses(), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.sides[1].bytes(0, data.len()), &data[..]);
    pair
}

#[test]
fn l04_a_flipped_payload_bit_is_a_loss() {
    let pair = write_with(103, Fate::Corrupt((BTH + 12 + 100) * 8));
    let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
    assert_eq!((pair.icrc_errors, b.naks_sent, a.local_ack_timeout_err), (1, 1, 0));
    assert_eq!(a.retransmits, 13, "103 to 115");
}

#[test]
fn l04_a_flipped_masked_bit_is_none() {
    // Byte 4 of the BTH: FECN, BECN and reserved bits are not under the iCRC.
    for bit in 0..8 {
        let pair = write_with(107, Fate::Corrupt((BTH + 4) * 8 + bit));
        let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
        assert_eq!((pair.icrc_errors, b.naks_sent, a.retransmits), (0, 0, 0), "bit {bit}");
    }
}

#[test]
fn l04_every_other_header_bit_is_a_loss() {
    // Opcode to P_Key, destination QP, and AckReq to PSN.
    for at in (0..4).chain(5..12) {
        let pair = write_with(105, Fate::Corrupt((BTH + at) * 8 + at % 8));
        let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
        assert_eq!((pair.icrc_errors, b.naks_sent, a.retransmits), (1, 1, 11), "byte {at}");
    }
}

#[test]
fn l11_a_peer_that_retries_much_sooner() {
    let mut s = Script::new(&Setup { psn: [100, 50], ..Setup::default() });
    let data = pattern(1, 600);
    for (n, ms) in [0, 2, 4, 8, 16].into_iter().enumerate() {
        s.now = at_us(ms * 1000);
        assert_eq!(s.write(Opcode::RC_WRITE_ONLY, 50, 0, 600, &data), ["ACKNOWLEDGE 50 0x1f msn 1"]);
        let c = s.counters();
        assert_eq!((c.rx_request_packets, c.duplicate_request), (1, n as u64));
    }
    let executed = QpEvent::WriteExecuted { va: VA, len: 600 };
    assert_eq!(s.side.done.events, [executed], "once");
    assert_eq!(s.state(), QpState::Rts);
}

#[test]
fn q11_an_error_in_the_middle_ends_the_run() {
    let mut s = Script::new(&Setup { depth: 1000, window: 4096, ..Setup::default() });
    (1..=1000).for_each(|i| s.post_write(i, 64));
    assert_eq!(s.out().len(), 1000);
    // The 500th message has PSN 599.
    assert!(s.ack(599, 0x62).is_empty());
    let statuses = s.statuses();
    assert_eq!(statuses.len(), 1000, "all of them, at once");
    for (i, (id, status)) in statuses.into_iter().enumerate() {
        let want = match i + 1 {
            1..500 => CompletionStatus::Success,
            500 => CompletionStatus::RemAccessErr,
            _ => CompletionStatus::WrFlushErr,
        };
        assert_eq!((id, status), (i as u64 + 1, want));
    }
    let c = s.counters();
    assert_eq!((c.req_remote_access_errors, c.req_cqe_error, c.req_cqe_flush_error), (1, 1, 500));
    assert_eq!((c.psns_acked, c.psns_failed), (499, 501));
    assert_eq!((s.state(), s.side.qp.next_deadline()), (QpState::Err, None));
}

#[test]
fn x09_repeated_requests_for_much_do_not_queue_up() {
    let mut s = Script::new(&Setup { psn: [100, 0], ..Setup::default() });
    let whole = (VA, s.key(), 1 << 20);
    let read = s.peer.read(0, whole);
    assert_eq!(s.take(&read), Verdict::Delivered);
    assert_eq!(s.frames().len(), 1024);
    for _ in 0..1000 {
        assert_eq!(s.take(&read), Verdict::Answered);
    }
    assert_eq!(s.frames().len(), 1024, "one repetition, however often it was asked for");
    // Asked for again while the answer is under way, it begins again.
    s.take(&read);
    let mut slot = vec![0; 4400];
    for _ in 0..1000 {
        let side = &mut s.side;
        side.qp.poll_transmit(s.now, &side.mem, &mut slot, &mut side.done);
        s.take(&read);
    }
    assert_eq!(s.frames().len(), 1024);
    assert_eq!(s.counters().rx_read_requests, 1, "executed once");
}

#[test]
fn x09_requests_go_on_beside_a_long_answer() {
    let mut s = Script::new(&Setup { psn: [100, 0], ..Setup::default() });
    let read = s.peer.read(0, (VA, s.key(), 1 << 20));
    s.take(&read);
    s.post_write(1, 64 * 1024);
    let frames = s.out();
    let own = frames.iter().take(128).filter(|f| f.starts_with("WRITE")).count();
    assert_eq!(own, 64, "they take turns");
}

#[test]
fn x02_numbers_do_not_follow_from_each_other() {
    let make = |secret| {
        let io = roce_engine::io::mem::pair(4, 2048).0;
        let mut e = Endpoint::new(io, EndpointConfig { secret, ..EndpointConfig::default() }, None);
        let qpn = e.create_rc(PD, 4, 4).unwrap();
        let key = e.memory_mut().register(PD, 4096, Access::ALL).unwrap().key;
        (qpn.get(), key.0)
    };
    let mut random = Random(1);
    let secrets: Vec<u64> = (0..100).map(|_| random.next()).collect();
    let numbers: HashSet<u32> = secrets.iter().map(|s| make(*s).0).collect();
    let keys: HashSet<u32> = secrets.iter().map(|s| make(*s).1).collect();
    // 100 of 256 generations: 83 different ones are to be expected.
    assert!(numbers.len() > 60, "{} queue pair numbers", numbers.len());
    assert!(keys.len() > 98, "{} keys", keys.len());
    for secret in secrets {
        assert_eq!(make(secret), make(secret), "the same seed, the same numbers");
    }
}

#[test]
fn w20_each_version_knows_the_other() {
    let other = |rocev1: bool| {
        let mut template =
            if rocev1 { Template::rocev1 } else { Template::new }(&route(2, 1), 0xFFFF, Qpn::new(0x11));
        let stamp = Stamp {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: false,
            ack_req: true,
            pad: 0,
            psn: roce_engine::units::Psn::new(0),
            tos: None,
        };
        let mut frame = vec![0; 128];
        template.stamp(&mut frame, &stamp, 8);
        let len = template.seal(&mut frame, 8);
        frame.truncate(len);
        frame
    };
    assert_eq!(classify(&other(true)).err(), Some(DropReason::Rocev1));
    assert_eq!(classify_rocev1(&other(false), None).err(), Some(DropReason::Rocev2));
    let mut arp = other(false);
    arp[12..14].copy_from_slice(&ETHERTYPE_ARP.to_be_bytes());
    assert_eq!(classify_rocev1(&arp, None).err(), Some(DropReason::NonRoce));
    let mut dns = other(false);
    dns[36..38].copy_from_slice(&[0, 53]);
    assert_eq!(classify_rocev1(&dns, None).err(), Some(DropReason::NonRoce));
}

/// A queue pair that speaks RoCEv1 answers in RoCEv1, and stays with it after RESET.
#[test]
fn rocev1_queue_pairs() {
    let mut peer = Template::rocev1(&route(2, 1), 0xFFFF, Qpn::new(0x11));
    let mut side = Side::new(0, &Setup::default());
    side.qp.set_rocev1(true);
    for _ in 0..2 {
        let mut done = Done::default();
        side.qp.modify(Transition::Reset, &mut done).unwrap();
        side.qp.modify(Transition::Init(InitAttrs { access: Access::ALL, pkey: 0xFFFF }), &mut done).unwrap();
        let rtr = RtrAttrs {
            route: route(1, 2),
            mtu: Mtu::B1024,
            dest_qpn: Qpn::new(0x12),
            rq_psn: roce_engine::units::Psn::new(9),
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
        };
        side.qp.modify(Transition::Rtr(Box::new(rtr)), &mut done).unwrap();
        side.recv(1, 0, 64);
        let mut frame = vec![0; 128];
        let stamp = Stamp {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: false,
            ack_req: true,
            pad: 0,
            psn: roce_engine::units::Psn::new(9),
            tos: None,
        };
        let at = peer.stamp(&mut frame, &stamp, 8);
        frame[at..at + 8].copy_from_slice(b"eight by");
        let len = peer.seal(&mut frame, 8);
        let p = classify_rocev1(&frame[..len], None).unwrap();
        assert!(p.verify_icrc());
        assert_eq!(side.qp.on_packet(at_us(1), &p, &mut side.mem, &mut side.done), Verdict::Delivered);
        let answers = side.drain(at_us(1));
        let answer = classify_rocev1(&answers[0], None).unwrap();
        assert!(answer.verify_icrc() && answer.is_rocev1());
        assert_eq!((answer.info.opcode, answer.bth.psn.get()), (Opcode::RC_ACKNOWLEDGE, 9));
        assert_eq!((answer.src(), answer.dst()), (route(1, 2).src, route(1, 2).dst));
        assert_eq!(side.bytes(0, 8), b"eight by");
    }
}

#[test]
fn x01_one_wrong_guess_ends_the_connection() {
    let mut s = Script::new(&Setup { psn: [100, 0], ..Setup::default() });
    let key = s.key();
    let guess = s.peer.write(Opcode::RC_WRITE_ONLY, 0, true, (VA, key ^ 0x100, 8), &[1; 8]);
    assert_eq!(s.say(guess), ["ACKNOWLEDGE 0 0x62 msn 0"]);
    let right = s.peer.write(Opcode::RC_WRITE_ONLY, 0, true, (VA, key, 8), &[1; 8]);
    assert!(s.say(right).is_empty(), "no second guess");
    assert_eq!(s.side.bytes(0, 8), [0; 8]);
}
