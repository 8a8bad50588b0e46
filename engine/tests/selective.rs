//! Selective repeat, packet by packet, against a scripted peer and in pairs.
#![allow(clippy::unwrap_used)]

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::{Recovery, Transmit, Verdict};
use roce_engine::units::{Duration, Psn};
use roce_engine::verbs::*;
use roce_engine::wire::*;

fn setup() -> Setup {
    Setup {
        recovery: Recovery::SelectiveRepeat { low_timeout: 0 },
        window: 64,
        ack_interval: 4,
        ..Setup::default()
    }
}

/// A NAK for `psn` that says what came after it.
fn nak(s: &mut Script, psn: u32, blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut ext = vec![0; Aeth::LEN + SackBlock::LEN * blocks.len()];
    Aeth { syndrome: Syndrome::NAK_PSN_SEQUENCE, msn: roce_engine::units::Msn::new(0) }.emit(&mut ext);
    for (n, (from, to)) in blocks.iter().enumerate() {
        let block = SackBlock { from: Psn::new(*from), to: Psn::new(*to) };
        block.emit(&mut ext[Aeth::LEN + SackBlock::LEN * n..]);
    }
    s.peer.frame(Opcode::RC_ACKNOWLEDGE, psn, false, &ext, &[])
}

fn said(s: &mut Script, psn: u32, blocks: &[(u32, u32)]) -> Vec<String> {
    let frame = nak(s, psn, blocks);
    s.say(frame)
}

/// The receiving side: the peer's first PSN is 5000.
#[test]
fn what_comes_ahead_is_kept_and_told() {
    let mut s = Script::new(&setup());
    let full = |n: u8| vec![n; 1024];
    for n in 0..6 {
        s.side.recv(n, 1024 * n as usize, 1024);
    }
    let none: [&str; 0] = [];
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5000, false, &full(0)), none);
    // 5001 is missing: said at once.
    s.now = at_us(3);
    assert_eq!(
        s.request(Opcode::RC_SEND_ONLY, 5002, false, &full(2)),
        ["ACKNOWLEDGE 5001 0x60 msn 1 has 5002..5003"]
    );
    // What follows it is not, until one asks.
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5003, false, &full(3)), none);
    assert_eq!(
        s.request(Opcode::RC_SEND_ONLY, 5004, true, &full(4)),
        ["ACKNOWLEDGE 5001 0x60 msn 1 has 5002..5005"]
    );
    assert_eq!(s.statuses().len(), 1, "nothing completes out of order");
    // It comes: everything is executed, in order, and acknowledged at once.
    s.now = at_us(10);
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5001, true, &full(1)), ["ACKNOWLEDGE 5004 0x1f msn 5"]);
    assert_eq!(s.statuses(), (0..5).map(|n| (n, CompletionStatus::Success)).collect::<Vec<_>>());
    for n in 0..5 {
        assert_eq!(s.side.bytes(1024 * n, 1024), &full(n as u8)[..]);
    }
    let c = s.counters();
    assert_eq!((c.out_of_sequence, c.naks_sent, c.duplicate_request), (3, 2, 0));
    // One NAK for one gap, one packet that was missed.
    assert_eq!(s.side.stages(), [1, 1, 0, 0, 0]);
}

#[test]
fn two_gaps_are_two_runs() {
    let mut s = Script::new(&setup());
    let key = s.key();
    let write = |s: &mut Script, psn: u32| {
        let frame = s.peer.write(Opcode::RC_WRITE_ONLY, psn, false, (VA, key, 4), &[psn as u8; 4]);
        s.take(&frame)
    };
    // Taken in one burst: the NAK that leaves then tells of both runs, the newest first.
    for psn in [5001, 5003, 5004] {
        assert_eq!(write(&mut s, psn), Verdict::Delivered);
    }
    assert_eq!(s.out(), ["ACKNOWLEDGE 5000 0x60 msn 0 has 5003..5005 has 5001..5002"]);
    // The second copy of one is told again and changes nothing.
    assert_eq!(write(&mut s, 5003), Verdict::Answered);
    assert_eq!(s.out(), ["ACKNOWLEDGE 5000 0x60 msn 0 has 5003..5005"]);
    // The later gap closes first: its run is told, the NAK still asks for the first.
    assert_eq!(write(&mut s, 5002), Verdict::Delivered);
    assert_eq!(s.out(), ["ACKNOWLEDGE 5000 0x60 msn 0 has 5001..5005"]);
    assert_eq!(write(&mut s, 5000), Verdict::Delivered);
    assert_eq!(s.out(), ["ACKNOWLEDGE 5004 0x1f msn 5"]);
    assert_eq!(s.side.bytes(0, 4), [5004u32 as u8; 4], "the last one written stands");
    assert_eq!(s.counters().duplicate_request, 1);
}

#[test]
fn nothing_is_kept_beyond_the_window() {
    let mut s = Script::new(&setup());
    let frame = |s: &mut Script, psn| s.peer.frame(Opcode::RC_SEND_ONLY, psn, true, &[], &[1]);
    let far = frame(&mut s, 5064);
    assert_eq!(s.take(&far), Verdict::Dropped(DropReason::OutOfSequenceDropped));
    assert_eq!(s.out().len(), 0);
    let last = frame(&mut s, 5063);
    assert_eq!(s.take(&last), Verdict::Delivered);
    assert_eq!(s.out(), ["ACKNOWLEDGE 5000 0x60 msn 0 has 5063..5064"]);
}

/// A SEND that was kept finds no receive request: it is given up and comes again.
#[test]
fn a_kept_send_that_finds_no_receive() {
    let mut s = Script::new(&setup());
    s.side.recv(0, 0, 1024);
    assert_eq!(
        s.request(Opcode::RC_SEND_ONLY, 5001, true, &[2]),
        ["ACKNOWLEDGE 5000 0x60 msn 0 has 5001..5002"]
    );
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5000, true, &[1]), ["ACKNOWLEDGE 5001 0x21 msn 1"]);
    s.side.recv(1, 1024, 1024);
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5001, true, &[2]), ["ACKNOWLEDGE 5001 0x1f msn 2"]);
    assert_eq!(s.statuses(), [(0, CompletionStatus::Success), (1, CompletionStatus::Success)]);
    assert_eq!((s.counters().out_of_buffer, s.counters().rnr_naks_sent), (1, 1));
}

/// A kept packet that breaks a rule ends the connection when its turn comes, not before.
#[test]
fn a_kept_packet_is_checked_in_its_turn() {
    let mut s = Script::new(&setup());
    s.side.recv(0, 0, 1024);
    // The middle of a message that never began.
    let told = s.request(Opcode::RC_SEND_MIDDLE, 5001, true, &[0; 1024]);
    assert_eq!(told, ["ACKNOWLEDGE 5000 0x60 msn 0 has 5001..5002"]);
    assert_eq!(s.state(), QpState::Rts);
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5000, true, &[1]), ["ACKNOWLEDGE 5001 0x61 msn 1"]);
    assert_eq!(s.state(), QpState::Err);
}

/// The sending side: its first PSN is 100.
#[test]
fn only_what_is_missing_leaves_again() {
    let mut s = Script::new(&setup());
    s.post_write(1, 8 * 1024);
    assert_eq!(s.out().len(), 8);
    s.now = at_us(5);
    // 101 and 104 are missing; 107 may still come.
    assert_eq!(said(&mut s, 101, &[(105, 107), (102, 104)]), ["WRITE_MIDDLE 101 A", "WRITE_MIDDLE 104 A"]);
    // The same again: nothing is sent twice for it.
    let again = nak(&mut s, 101, &[(105, 107), (102, 104)]);
    assert_eq!(s.take(&again), Verdict::Dropped(DropReason::DuplicateDropped));
    assert_eq!(s.out().len(), 0);
    s.now = at_us(9);
    assert_eq!(said(&mut s, 104, &[(105, 108)]).len(), 0, "101 has come, 104 is on its way");
    assert_eq!(s.ack(107, 0x1F).len(), 0);
    assert_eq!(s.statuses(), [(1, CompletionStatus::Success)]);
    let c = s.counters();
    assert_eq!((c.retransmits, c.packet_seq_err, c.local_ack_timeout_err), (2, 3, 0));
    assert_eq!((c.psns_sent, c.psns_acked), (8, 8));
    // Both were resent and recovered; the timer had no part in it.
    assert_eq!(s.side.stages(), [0, 0, 2, 2, 0]);
}

/// What left after the resent packet has come and the packet has not: it is lost again.
#[test]
fn a_resent_packet_that_is_lost_again() {
    let mut s = Script::new(&setup());
    s.post_write(1, 4 * 1024);
    assert_eq!(s.out().len(), 4);
    assert_eq!(said(&mut s, 101, &[(102, 104)]), ["WRITE_MIDDLE 101 A"]);
    s.post_write(2, 2 * 1024);
    assert_eq!(s.out(), ["WRITE_FIRST 104 va+0x0 len 2048", "WRITE_LAST 105 A"]);
    // 104 left after 101 did.
    assert_eq!(said(&mut s, 101, &[(102, 105)]), ["WRITE_MIDDLE 101 A"]);
    assert_eq!(said(&mut s, 101, &[(102, 106)]).len(), 0);
    assert_eq!(s.ack(105, 0x1F).len(), 0);
    assert_eq!(s.statuses().len(), 2);
    assert_eq!((s.counters().retransmits, s.counters().local_ack_timeout_err), (2, 0));
    assert_eq!(s.side.stages(), [0, 0, 1, 1, 0], "one loss, however often it was sent again");
}

/// The last packet: only the timer finds it, and only it is sent again.
#[test]
fn the_timer_resends_what_is_not_kept() {
    let mut s = Script::new(&Setup { timeout: 4, ..setup() });
    s.post_write(1, 6 * 1024);
    assert_eq!(s.out().len(), 6);
    assert_eq!(said(&mut s, 100, &[(101, 105)]), ["WRITE_FIRST 100 A va+0x0 len 6144"]);
    let sent = s.pass(Duration::from_micros(70));
    let sent: Vec<_> = sent.iter().map(|(us, what)| (*us, what.as_str())).collect();
    assert_eq!(sent, [(65, "WRITE_FIRST 100 A va+0x0 len 6144"), (65, "WRITE_LAST 105 A")]);
    s.now = at_us(80);
    assert_eq!(s.ack(105, 0x1F).len(), 0);
    assert_eq!(s.statuses(), [(1, CompletionStatus::Success)]);
    assert_eq!(s.counters().local_ack_timeout_err, 1);
    // The stall is all that the timer's recovery counts as.
    assert_eq!(s.side.stages(), [0, 0, 1, 0, 1]);
}

/// Few packets under way, the short timer; more of them, the long one, from the same start.
#[test]
fn two_timers() {
    let low = Recovery::SelectiveRepeat { low_timeout: 2 };
    let first = |len: u32| {
        let mut s = Script::new(&Setup { timeout: 4, recovery: low, ..setup() });
        s.post_write(1, len);
        s.pass(Duration::from_micros(70)).iter().map(|(us, _)| *us).find(|us| *us != 0)
    };
    assert_eq!((first(3 * 1024), first(4 * 1024)), (Some(16), Some(65)));
}

#[test]
fn blocks_that_make_no_sense() {
    let mut s = Script::new(&setup());
    s.post_write(1, 4 * 1024);
    assert_eq!(s.out().len(), 4);
    // Empty, backwards, not sent yet, half the circle away: of what was sent, 103 counts.
    let said = said(&mut s, 101, &[(102, 102), (103, 102), (103, 2000), (0x80_0070, 0x80_0080)]);
    assert_eq!(said, ["WRITE_MIDDLE 101 A", "WRITE_MIDDLE 102 A"]);
    // An ACK has none, and 5 are too many.
    for (syndrome, blocks) in [(0x1F, 1), (0x60, 5), (0x21, 1)] {
        let mut ext = vec![0; 4 + 8 * blocks];
        ext[0] = syndrome;
        let frame = s.peer.frame(Opcode::RC_ACKNOWLEDGE, 101, false, &ext, &[]);
        assert_eq!(s.take(&frame), Verdict::Dropped(DropReason::Malformed), "{syndrome:#x} {blocks}");
    }
    assert_eq!(s.state(), QpState::Rts);
}

/// Go-back-N hears of no blocks, and never sends one.
#[test]
fn a_foreign_peer_never_sees_a_block() {
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 4 * 1024);
    assert_eq!(s.out().len(), 4);
    let frame = nak(&mut s, 101, &[(102, 103)]);
    assert_eq!(s.take(&frame), Verdict::Dropped(DropReason::Malformed));
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 5001, true, &[1]), ["ACKNOWLEDGE 5000 0x60 msn 0"]);
}

/// Of a READ's answer, the parts that are missing are asked for, each by a request of its own.
#[test]
fn a_read_asks_for_what_is_missing() {
    let mut s = Script::new(&setup());
    s.post_read(1, 0, 6 * 1024);
    assert_eq!(s.out(), ["READ_REQUEST 100 A va+0x0 len 6144"]);
    let part = |n: u8| vec![n; 1024];
    s.response(Opcode::RC_READ_RESP_FIRST, 100, &part(0));
    assert_eq!(
        s.response(Opcode::RC_READ_RESP_MIDDLE, 103, &part(3)),
        ["READ_REQUEST 101 A va+0x400 len 2048"]
    );
    assert_eq!(
        s.response(Opcode::RC_READ_RESP_LAST, 105, &part(5)),
        ["READ_REQUEST 104 A va+0x1000 len 1024"]
    );
    // The second gap closes before the first.
    s.response(Opcode::RC_READ_RESP_ONLY, 104, &part(4));
    s.response(Opcode::RC_READ_RESP_FIRST, 101, &part(1));
    let twice = s.peer.read_response(Opcode::RC_READ_RESP_ONLY, 104, &part(9));
    assert_eq!(s.take(&twice), Verdict::Dropped(DropReason::StaleResponse));
    assert_eq!(s.statuses(), []);
    s.response(Opcode::RC_READ_RESP_LAST, 102, &part(2));
    assert_eq!(s.statuses(), [(1, CompletionStatus::Success)]);
    for n in 0..6 {
        assert_eq!(s.side.bytes(1024 * n, 1024), &part(n as u8)[..]);
    }
    let c = s.counters();
    assert_eq!((c.retransmits, c.duplicate_response, c.psns_acked), (2, 1, 6));
    assert_eq!(s.side.stages(), [0, 0, 3, 3, 0], "three responses");
}

/// The other side of it: the parts are repeated, and nothing that has not left yet.
#[test]
fn parts_of_an_answer_are_repeated() {
    let mut s = Script::new(&setup());
    assert_eq!(s.read(5000, 0, 4 * 1024).len(), 4);
    assert_eq!(
        s.read(5001, 1024, 2 * 1024),
        ["READ_RESP_FIRST 5001 0x1f msn 1", "READ_RESP_LAST 5002 0x1f msn 1"]
    );
    assert_eq!(s.read(5003, 3 * 1024, 1024), ["READ_RESP_ONLY 5003 0x1f msn 1"]);
    // Another place than that of its PSN, or more than was asked for.
    for (psn, offset, len) in [(5001, 2048, 1024), (5001, 1024, 4096), (5001, 1024, 1000)] {
        assert_eq!(s.read(psn, offset, len).len(), 0);
    }
    // A second request for what has not left once is not answered twice.
    let first = s.peer.read(5004, (VA, s.side.mr.key.0, 2048));
    assert_eq!(s.take(&first), Verdict::Delivered);
    let again = s.peer.read(5005, (VA + 1024, s.side.mr.key.0, 1024));
    assert_eq!(s.take(&again), Verdict::Dropped(DropReason::DuplicateDropped));
    assert_eq!(s.out(), ["READ_RESP_FIRST 5004 0x1f msn 2", "READ_RESP_LAST 5005 0x1f msn 2"]);
}

/// A READ behind a gap is executed when the gap closes; the PSNs of its answer are no gap.
#[test]
fn a_read_behind_a_gap() {
    let mut s = Script::new(&setup());
    assert_eq!(s.read(5001, 0, 3 * 1024), ["ACKNOWLEDGE 5000 0x60 msn 0 has 5001..5002"]);
    assert_eq!(
        s.write(Opcode::RC_WRITE_ONLY, 5004, 0, 1, &[7]),
        ["ACKNOWLEDGE 5000 0x60 msn 0 has 5004..5005"]
    );
    assert_eq!(
        s.write(Opcode::RC_WRITE_ONLY, 5000, 4096, 1, &[7]),
        [
            "ACKNOWLEDGE 5000 0x1f msn 1",
            "READ_RESP_FIRST 5001 0x1f msn 2",
            "READ_RESP_MIDDLE 5002",
            "READ_RESP_LAST 5003 0x1f msn 2",
            "ACKNOWLEDGE 5004 0x1f msn 3"
        ]
    );
    assert_eq!(s.side.stages(), [1, 1, 0, 0, 0]);
}

/// A lost READ request is sent again whole, though what followed it is kept.
#[test]
fn a_lost_read_request_leaves_again_whole() {
    let mut s = Script::new(&setup());
    s.post_read(1, 4096, 3 * 1024);
    s.post_write(2, 1024);
    assert_eq!(s.out(), ["READ_REQUEST 100 A va+0x0 len 3072", "WRITE_ONLY 103 A va+0x0 len 1024"]);
    assert_eq!(said(&mut s, 100, &[(103, 104)]), ["READ_REQUEST 100 A va+0x0 len 3072"]);
    for (psn, opcode) in [(100, Opcode::RC_READ_RESP_FIRST), (102, Opcode::RC_READ_RESP_LAST)] {
        let asked = s.response(opcode, psn, &[psn as u8; 1024]);
        // The answer's middle is lost as well.
        let want: &[&str] = if psn == 102 { &["READ_REQUEST 101 A va+0x400 len 1024"] } else { &[] };
        assert_eq!(asked, want);
    }
    // The WRITE is done, but completes after the READ.
    assert_eq!(s.ack(103, 0x1F).len(), 0);
    assert_eq!(s.statuses(), []);
    s.response(Opcode::RC_READ_RESP_ONLY, 101, &[101; 1024]);
    assert_eq!(s.statuses(), [(1, CompletionStatus::Success), (2, CompletionStatus::Success)]);
    assert_eq!(s.counters().psns_acked, 4);
}

#[test]
fn not_ready_waits_and_sends_one_packet_again() {
    let mut s = Script::new(&setup());
    s.post_send(1, 3 * 1024);
    assert_eq!(s.out().len(), 3);
    // Kept, and given up by an RNR NAK: 20 us.
    assert_eq!(said(&mut s, 100, &[(101, 102)]), ["SEND_FIRST 100 A"]);
    s.ack(101, 0x22);
    let sent = s.pass(Duration::from_micros(30));
    assert_eq!(sent, [(20, "SEND_MIDDLE 101 A".to_owned())]);
    s.ack(102, 0x1F);
    assert_eq!(s.statuses(), [(1, CompletionStatus::Success)]);
}

/// A long message at 1 % loss: little is sent twice, nothing waits for the timer, and both sides
/// count the same losses.
#[test]
fn a_pair_loses_one_in_a_hundred() {
    let mut pair = Pair::new(&Setup { window: 1024, ..setup() });
    let data = pattern(1, 900 * 1024);
    pair.sides[0].fill(0, &data);
    let rkey = pair.sides[1].mr.key;
    pair.sides[0].post(1, SendOp::Write { raddr: VA, rkey }, 0, data.len() as u32);
    let mut random = Random(9);
    let mut lost = 0;
    let mut fate = |from, frame: &[u8]| {
        let last = classify(frame).unwrap().info.position == Position::Last;
        let drop = from == 0 && !last && random.below(100) == 0;
        lost += u64::from(drop);
        if drop { Fate::Drop } else { Fate::Pass }
    };
    assert!(pair.run(Duration::from_secs(1), &mut fate, &mut |_| {}));
    assert_eq!(pair.sides[1].bytes(0, data.len()), &data[..]);
    assert!(lost > 5, "{lost}");
    let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
    assert_eq!((a.retransmits, a.local_ack_timeout_err, b.duplicate_request), (lost, 0, 0));
    let [sender, receiver] = [0, 1].map(|i| pair.sides[i].stages());
    assert_eq!([sender[2], sender[3], receiver[1]], [lost; 3]);
}

/// Both ends, one data packet in 50 lost: a recovery takes no memory.
#[test]
fn a_recovery_allocates_nothing() {
    let mut sides = [0, 1].map(|i| Side::new(i, &setup()));
    let rkey = sides[1].mr.key;
    for side in &mut sides {
        side.done.completions.reserve(1000);
        side.done.events.reserve(1000);
    }
    let mut slot = vec![0; 4400];
    let mut sent = 0;
    let found = allocation_counter::measure(|| {
        for turn in 0..40_000 {
            let now = at_us(turn);
            for from in [0, 1] {
                let side = &mut sides[from];
                if from == 0 && side.qp.send_room() > 120 {
                    let op = match turn % 3 {
                        0 => SendOp::Read { raddr: VA, rkey },
                        _ => SendOp::Write { raddr: VA, rkey },
                    };
                    side.post(turn, op, 0, 20_000);
                    side.done.completions.clear();
                }
                if side.qp.next_deadline().is_some_and(|at| at <= now) {
                    side.qp.on_deadline(now, &mut side.done);
                }
                let polled = side.qp.poll_transmit(now, &side.mem, &mut slot, &mut side.done);
                let Transmit::Sent(frame) = polled else { continue };
                sent += 1;
                if sent % 50 != 0 {
                    let packet = classify(&slot[..frame.len()]).unwrap();
                    let to = &mut sides[1 - from];
                    to.qp.on_packet(now, &packet, &mut to.mem, &mut to.done);
                    to.done.events.clear();
                }
            }
        }
    });
    assert_eq!(found.count_total, 0, "{found:?}");
    let (a, b) = (sides[0].qp.counters(), sides[1].qp.counters());
    assert!(a.retransmits > 300 && b.naks_sent > 300 && a.psns_acked > 20_000, "{a:?} {b:?}");
}
