//! What Linux's rxe was seen to answer, step by step, and where this responder means to differ.

mod common;

use common::script::*;
use common::*;
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

const E: u32 = 0xFF_FFFC;

fn e(n: u32) -> u32 {
    E.wrapping_add(n) & 0xFF_FFFF
}

const READ_VA: u64 = 0x100;
const WORD: u64 = 0x1000;

/// One step: its name, a packet, what comes back.
type Step = (&'static str, Vec<u8>, Vec<String>);

#[test]
fn one_connection_step_by_step() {
    let mut s = Script::new(&Setup { psn: [100, E], ..Setup::default() });
    (0..16).for_each(|i| s.side.recv(i, (1 << 19) + i as usize * 64, 64));
    s.side.fill(WORD as usize, &41u64.to_ne_bytes());
    let (key, p) = (s.key(), &mut s.peer);
    let mut send = |n, ask| p.frame(Opcode::RC_SEND_ONLY, e(n), ask, &[], b"payload");
    let ack = |n: u32, msn: u32| vec![format!("ACKNOWLEDGE {} 0x1f msn {msn}", e(n))];
    let none = Vec::new;
    let mut steps: Vec<Step> = vec![
        ("i1", send(0, false), none()),
        ("i2", send(1, true), ack(1, 2)),
        ("i3", send(0, false), ack(1, 2)),
        ("i4", send(0, true), ack(1, 2)),
        ("i5", send(5, true), vec![format!("ACKNOWLEDGE {} 0x60 msn 2", e(2))]),
        ("i6", send(6, true), none()),
        ("i7", send(1, true), ack(1, 2)),
        ("i8", send(2, true), ack(2, 3)),
    ];
    let good = send(3, true);
    let mut bad_icrc = good.clone();
    bad_icrc[60] ^= 1;
    steps.push(("i9 bad iCRC", bad_icrc, none()));
    steps.push(("i10 TVer 1", altered(&good, BTH + 1, good[BTH + 1] | 1), none()));
    let key_1234 = altered(&altered(&good, BTH + 2, 0x12), BTH + 3, 0x34);
    steps.push(("i11 P_Key 0x1234", key_1234, none()));
    let mut checksum = good.clone();
    checksum[BTH - 2..BTH].copy_from_slice(&[0x12, 0x34]);
    steps.push(("i13 wrong UDP checksum", checksum, none()));
    let mut odd = altered(&altered(&good, BTH + 2, 0x7F), BTH + 4, 0xFF);
    odd[34..36].copy_from_slice(&[0, 0]);
    steps.push(("i12 P_Key 0x7FFF, M 1, byte 4 0xFF, sport 0", resealed(odd), ack(3, 4)));
    let response = |name: &str, n, msn: Option<u32>| match msn {
        Some(msn) => format!("READ_RESP_{name} {} 0x1f msn {msn}", e(n)),
        None => format!("READ_RESP_{name} {}", e(n)),
    };
    let whole =
        vec![response("FIRST", 4, Some(5)), response("MIDDLE", 5, None), response("LAST", 6, Some(5))];
    let read = p.read(e(4), (VA + READ_VA, key, 2500));
    steps.push(("i14", read.clone(), whole.clone()));
    steps.push(("i15 again", read, whole));
    // rxe begins with MIDDLE; the book says FIRST, which every requester takes.
    let tail = p.read(e(5), (VA + READ_VA + 1024, key, 1476));
    steps.push(("i16", tail, vec![response("FIRST", 5, Some(5)), response("LAST", 6, Some(5))]));
    let add = p.fetch_add(e(7), (VA + WORD, key), 5);
    let added = vec![format!("ATOMIC_ACK {} 0x1f msn 6", e(7))];
    steps.push(("i17", add.clone(), added.clone()));
    steps.push(("i18 again", add, added));
    steps.push(("i19 CNP", p.cnp(), none()));
    let first = p.write(Opcode::RC_WRITE_FIRST, e(8), false, (VA, key, 2048), &[1; 1024]);
    steps.push(("i20", first, none()));
    let inside = p.frame(Opcode::RC_SEND_ONLY, e(9), true, &[], &[1]);
    steps.push(("i21", inside.clone(), vec![format!("ACKNOWLEDGE {} 0x61 msn 6", e(9))]));
    steps.push(("i22", inside, none()));
    for (name, frame, want) in steps {
        assert_eq!(s.say(frame), want, "{name}");
    }
    assert_eq!(s.state(), QpState::Err);
    assert_eq!(s.side.bytes(WORD as usize, 8), 46u64.to_ne_bytes(), "added once");
    let delivered = s.statuses().iter().filter(|(_, s)| *s == Success).count();
    assert_eq!((delivered, s.statuses().len()), (4, 16));
}

/// One scenario: its name, receives of 64 bytes, packets, all that comes back, how receives end.
struct Scenario {
    name: &'static str,
    setup: Setup,
    receives: u64,
    packets: fn(&mut Peer, u32) -> Vec<Vec<u8>>,
    answers: &'static [&'static str],
    statuses: &'static [(u64, CompletionStatus)],
    state: QpState,
}

fn send(p: &mut Peer, psn: u32, len: usize) -> Vec<u8> {
    p.frame(Opcode::RC_SEND_ONLY, psn, true, &[], &vec![1; len])
}

fn scenarios() -> Vec<Scenario> {
    let setup = Setup { psn: [100, 0], ..Setup::default() };
    let base = |name, receives, packets, answers, statuses, state| Scenario {
        name,
        setup,
        receives,
        packets,
        answers,
        statuses,
        state,
    };
    use QpState::{Err, Rts};
    vec![
        base(
            "1 zero-length READ takes one PSN",
            1,
            |p, _| vec![p.read(0, (0, 0, 0)), send(p, 1, 4)],
            &["READ_RESP_ONLY 0 0x1f msn 1", "ACKNOWLEDGE 1 0x1f msn 2"],
            &[(0, Success)],
            Rts,
        ),
        // rxe sends NAK 0x60 right after the RNR NAK; no other NAK may follow before PSN 0 comes.
        Scenario {
            setup: Setup { min_rnr_timer: 20, ..setup },
            ..base(
                "2 three SENDs, no receive",
                0,
                |p, _| (0..3).map(|psn| send(p, psn, 4)).collect(),
                &["ACKNOWLEDGE 0 0x34 msn 0"],
                &[],
                Rts,
            )
        },
        base(
            "3 WRITE with a bad key",
            1,
            |p, _| vec![p.write(Opcode::RC_WRITE_ONLY, 0, true, (VA, 0xBAD, 4), b"data")],
            &["ACKNOWLEDGE 0 0x62 msn 0"],
            &[(0, WrFlushErr)],
            Err,
        ),
        base(
            "4 WRITE of three packets beyond the region",
            1,
            |p, key| {
                vec![
                    p.write(Opcode::RC_WRITE_FIRST, 0, false, (VA + (1 << 20) - 1024, key, 3072), &[9; 1024]),
                    p.frame(Opcode::RC_WRITE_MIDDLE, 1, false, &[], &[9; 1024]),
                    p.frame(Opcode::RC_WRITE_LAST, 2, true, &[], &[9; 1024]),
                ]
            },
            &["ACKNOWLEDGE 0 0x62 msn 0"],
            &[(0, WrFlushErr)],
            Err,
        ),
        base(
            "5 READ with a bad key",
            1,
            |p, _| vec![p.read(0, (VA, 0xBAD, 4))],
            &["ACKNOWLEDGE 0 0x62 msn 0"],
            &[(0, WrFlushErr)],
            Err,
        ),
        // rxe answers 0x63; a SEND that is too long is an invalid request, and a local length error.
        base(
            "6 SEND of 100 bytes into 64",
            1,
            |p, _| vec![send(p, 0, 100)],
            &["ACKNOWLEDGE 0 0x61 msn 0"],
            &[(0, LocLenErr)],
            Err,
        ),
        Scenario {
            setup: Setup { access: Access::REMOTE_READ, ..setup },
            ..base(
                "7 WRITE without the right",
                0,
                |p, key| vec![p.write(Opcode::RC_WRITE_ONLY, 0, true, (VA, key, 4), b"data")],
                &["ACKNOWLEDGE 0 0x61 msn 0"],
                &[],
                Err,
            )
        },
        Scenario {
            setup: Setup { rd_atomic: 0, ..setup },
            ..base(
                "7b READ with max_dest_rd_atomic 0",
                0,
                |p, key| vec![p.read(0, (VA, key, 4))],
                &["ACKNOWLEDGE 0 0x61 msn 0"],
                &[],
                Err,
            )
        },
        // rxe sends a positive ACK with msn 0 and then goes to error: the sender never learns why.
        base(
            "10 SEND with invalidate of no key",
            1,
            |p, _| vec![p.frame(Opcode::RC_SEND_ONLY_INV, 0, true, &[0, 0, 0xB, 0xAD], &[1])],
            &[],
            &[(0, RemInvReqErr)],
            Err,
        ),
        base(
            "12 SEND_MIDDLE without FIRST",
            1,
            |p, _| vec![p.frame(Opcode::RC_SEND_MIDDLE, 0, true, &[], &[1; 1024])],
            &["ACKNOWLEDGE 0 0x61 msn 0"],
            &[(0, WrFlushErr)],
            Err,
        ),
        // rxe 6.1 accepts this one and the next.
        base(
            "13 SEND_FIRST of 1000",
            1,
            |p, _| vec![p.frame(Opcode::RC_SEND_FIRST, 0, true, &[], &[1; 1000])],
            &["ACKNOWLEDGE 0 0x61 msn 0"],
            &[(0, RemInvReqErr)],
            Err,
        ),
        base(
            "14 SEND_FIRST and an empty SEND_LAST",
            0,
            |p, _| {
                vec![
                    p.frame(Opcode::RC_SEND_FIRST, 0, true, &[], &[1; 1024]),
                    p.frame(Opcode::RC_SEND_LAST, 1, true, &[], &[]),
                ]
            },
            &["ACKNOWLEDGE 0 0x1f msn 0", "ACKNOWLEDGE 1 0x61 msn 0"],
            &[(99, RemInvReqErr)],
            Err,
        ),
        base(
            "15 WRITE_ONLY that says 8 and has 4",
            0,
            |p, key| vec![p.write(Opcode::RC_WRITE_ONLY, 0, true, (VA, key, 8), b"data")],
            &["ACKNOWLEDGE 0 0x61 msn 0"],
            &[],
            Err,
        ),
        base(
            "16 WRITE_ONLY of 5 with its pad on the wire and PadCnt 0",
            0,
            |p, key| {
                let mut ext = [0; 16];
                Reth { va: VA, rkey: key, len: 5 }.emit(&mut ext);
                vec![p.frame_padded(Opcode::RC_WRITE_ONLY, 0, true, &ext, b"12345", 3, 0)]
            },
            &["ACKNOWLEDGE 0 0x61 msn 0"],
            &[],
            Err,
        ),
        base(
            "17 reserved opcode 0x15, then 18 UC opcode: silence",
            1,
            |p, _| {
                vec![
                    altered(&send(p, 0, 4), BTH, 0x15),
                    p.frame(Opcode::UC_SEND_ONLY, 0, true, &[], &[1]),
                    send(p, 0, 4),
                ]
            },
            &["ACKNOWLEDGE 0 0x1f msn 1"],
            &[(0, Success)],
            Rts,
        ),
        // rxe adds NAK 0x60 after the RNR NAK.
        Scenario {
            setup: Setup { min_rnr_timer: 12, ..setup },
            ..base(
                "19 SEND, SEND (no receive left), SEND, SEND",
                1,
                |p, _| (0..4).map(|psn| send(p, psn, 4)).collect(),
                &["ACKNOWLEDGE 0 0x1f msn 1", "ACKNOWLEDGE 1 0x2c msn 1"],
                &[(0, Success)],
                Rts,
            )
        },
    ]
}

#[test]
fn scenarios_of_one_fault_each() {
    let all = scenarios();
    assert_eq!(all.len(), 16);
    for case in all {
        let mut s = Script::new(&case.setup);
        (0..case.receives).for_each(|i| s.side.recv(i, (1 << 19) + i as usize * 64, 64));
        if case.name.starts_with("14") {
            s.side.recv(99, 1 << 19, 4096);
        }
        let key = s.key();
        let packets = (case.packets)(&mut s.peer, key);
        let answers: Vec<String> = packets.into_iter().flat_map(|p| s.say(p)).collect();
        assert_eq!(answers, case.answers, "{}", case.name);
        assert_eq!(s.statuses(), case.statuses, "{}", case.name);
        assert_eq!(s.state(), case.state, "{}", case.name);
        assert_eq!(s.side.bytes((1 << 20) - 1024, 1024), [0; 1024], "{}: nothing written", case.name);
    }
}

/// 2 and 9 as the requester sees them.
#[test]
fn scenarios_of_the_requester() {
    let mut s = Script::new(&Setup { rnr_retry: 2, ..Setup::default() });
    (1..=3).for_each(|i| s.post_send(i, 4));
    s.out();
    for round in 0..3 {
        s.ack(100, 0x34);
        s.ack(100, 0x60);
        let sent = s.pass(roce_engine::units::Duration::from_millis(11));
        assert_eq!(sent.len(), if round < 2 { 3 } else { 0 }, "round {round}");
    }
    assert_eq!(s.statuses(), [(1, RnrRetryExcErr), (2, WrFlushErr), (3, WrFlushErr)]);

    let mut s = Script::new(&Setup { timeout: 14, retry_cnt: 3, ..Setup::default() });
    (1..=2).for_each(|i| s.post_send(i, 4));
    let sent = s.pass(roce_engine::units::Duration::from_millis(300));
    let first: Vec<u64> =
        sent.iter().filter(|(_, l)| l == "SEND_ONLY 100 A").map(|(t, _)| t / 1000).collect();
    assert_eq!(first, [0, 67, 134, 201]);
    assert_eq!(s.statuses(), [(1, RetryExcErr), (2, WrFlushErr)]);
}
