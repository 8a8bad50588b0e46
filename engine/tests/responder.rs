//! The responder against a scripted peer: order, duplicates, acknowledgements, READs.

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::{Transmit, Verdict};
use roce_engine::units::Duration;
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

/// A queue pair that expects `psn` next, with receives of 4 KiB at 512 KiB and on.
fn expecting(psn: u32, receives: u64) -> Script {
    with(Setup { psn: [100, psn], ..Setup::default() }, receives)
}

fn with(setup: Setup, receives: u64) -> Script {
    let mut s = Script::new(&setup);
    (0..receives).for_each(|i| s.side.recv(i, (1 << 19) + i as usize * 4096, 4096));
    s
}

const SEND_ONLY: Opcode = Opcode::RC_SEND_ONLY;
const WRITE_ONLY: Opcode = Opcode::RC_WRITE_ONLY;

#[test]
fn s01_duplicate_write_after_a_read() {
    let mut s = expecting(30, 1);
    assert_eq!(s.write(WRITE_ONLY, 30, 0, 8, b"original"), ["ACKNOWLEDGE 30 0x1f msn 1"]);
    assert_eq!(s.read(31, 64, 64), ["READ_RESP_ONLY 31 0x1f msn 2"]);
    assert_eq!(s.write(WRITE_ONLY, 30, 0, 8, b"tampered"), ["ACKNOWLEDGE 30 0x1f msn 2"]);
    assert_eq!(s.side.bytes(0, 8), b"original");
    assert_eq!(s.request(SEND_ONLY, 32, true, &[1]), ["ACKNOWLEDGE 32 0x1f msn 3"], "32 is expected");
    assert_eq!(s.counters().duplicate_request, 1);
}

#[test]
fn s01_a_duplicate_is_not_acknowledged_before_a_later_answer() {
    let mut s = expecting(30, 0);
    s.write(WRITE_ONLY, 30, 0, 8, b"original");
    let (read, dup) = (
        s.peer.read(31, (VA, s.key(), 2048)),
        s.peer.write(WRITE_ONLY, 30, true, (VA, s.key(), 8), b"original"),
    );
    s.take(&read);
    assert_eq!(s.take(&dup), Verdict::Dropped(DropReason::DuplicateDropped));
    assert_eq!(s.out(), ["READ_RESP_FIRST 31 0x1f msn 2", "READ_RESP_LAST 32 0x1f msn 2"]);
}

/// READ and WRITE come again: the WRITE's ACK follows the READ's repeated answer, it is not lost.
#[test]
fn s01_a_duplicate_behind_a_repeated_read_is_acknowledged() {
    let mut s = expecting(30, 0);
    assert_eq!(s.read(30, 0, 2048).len(), 2);
    assert_eq!(s.write(WRITE_ONLY, 32, 8192, 4, b"data"), ["ACKNOWLEDGE 32 0x1f msn 2"]);
    let key = s.key();
    let (read, write) =
        (s.peer.read(30, (VA, key, 2048)), s.peer.write(WRITE_ONLY, 32, true, (VA + 8192, key, 4), b"data"));
    s.take(&read);
    assert_eq!(s.take(&write), Verdict::Answered);
    let want = ["READ_RESP_FIRST 30 0x1f msn 1", "READ_RESP_LAST 31 0x1f msn 1", "ACKNOWLEDGE 32 0x1f msn 2"];
    assert_eq!(s.out(), want);
}

/// A repeated READ reads memory again: current bytes, as documented.
#[test]
fn s03_duplicate_read_after_the_data_changed() {
    let mut s = expecting(10, 0);
    s.side.fill(0, b"old word");
    let key = s.key();
    let read = s.peer.read(10, (VA, key, 8));
    let payload = |s: &mut Script, frame: &[u8]| {
        s.take(frame);
        let frames = s.frames();
        (show_all(&frames), classify(&frames[0]).unwrap().payload().to_vec())
    };
    assert_eq!(payload(&mut s, &read), (vec!["READ_RESP_ONLY 10 0x1f msn 1".into()], b"old word".to_vec()));
    s.write(WRITE_ONLY, 11, 0, 8, b"new word");
    assert_eq!(payload(&mut s, &read), (vec!["READ_RESP_ONLY 10 0x1f msn 1".into()], b"new word".to_vec()));
    assert_eq!(s.state(), QpState::Rts);
}

#[test]
fn s04_duplicate_read_outside_the_first() {
    let mut s = expecting(10, 0);
    assert_eq!(s.read(10, 0, 4096).len(), 4);
    let key = s.key();
    let again = |s: &mut Script, psn, va, key, len| {
        let frame = s.peer.read(psn, (va, key, len));
        s.say(frame)
    };
    let tail = ["READ_RESP_FIRST 12 0x1f msn 1", "READ_RESP_LAST 13 0x1f msn 1"];
    assert_eq!(again(&mut s, 12, VA + 0x800, key, 2048), tail);
    let nothing: [&str; 0] = [];
    for (psn, va, key, len) in [
        (12, 0xFFFF_FFFF_FFFF_FC00, key, 0x400),
        (12, VA + 0x800, key, 8192),
        (12, VA + 0x800, key ^ 1, 2048),
        (12, VA + 0x800, key, 1024),
        (12, VA, key, 2048),
        (12, VA, key, 4096),
        (10, VA + 0x800, key, 2048),
        (11, VA + 0x800, key, 2048),
        (10, VA, key, 8192),
        (10, VA, key, 0),
        (9, VA, key, 1024),
        (13, VA + 0xC00, key, u32::MAX),
    ] {
        assert_eq!(again(&mut s, psn, va, key, len), nothing, "{psn} {va:#x} {len}");
    }
    assert_eq!(again(&mut s, 13, VA + 0xC00, key, 1024), ["READ_RESP_ONLY 13 0x1f msn 1"]);
    assert_eq!(again(&mut s, 14, VA, key, 0), ["READ_RESP_ONLY 14 0x1f msn 2"], "14 is expected");
}

#[test]
fn s06_one_sequence_nak_per_gap() {
    let mut s = expecting(100, 64);
    let mut out = Vec::new();
    (101..=120).for_each(|psn| out.extend(s.request(SEND_ONLY, psn, true, &[1])));
    assert_eq!(out, ["ACKNOWLEDGE 100 0x60 msn 0"]);
    // A duplicate does not open the gap again.
    s.request(SEND_ONLY, 99, true, &[1]);
    assert!(s.request(SEND_ONLY, 121, true, &[1]).is_empty());
    let acks: Vec<_> = (100..=120).flat_map(|psn| s.request(SEND_ONLY, psn, true, &[1])).collect();
    let want: Vec<_> = (100..=120).map(|psn| format!("ACKNOWLEDGE {psn} 0x1f msn {}", psn - 99)).collect();
    assert_eq!(acks, want);
    assert_eq!(s.request(SEND_ONLY, 122, true, &[1]), ["ACKNOWLEDGE 121 0x60 msn 21"]);
    assert!(s.request(SEND_ONLY, 123, true, &[1]).is_empty());
    assert_eq!((s.counters().naks_sent, s.counters().out_of_sequence), (2, 23));
}

/// The missing packet comes before the NAK has left: there is nothing to say any more.
#[test]
fn s06_a_nak_that_is_out_of_date_is_not_sent() {
    let mut s = expecting(100, 8);
    let (late, early) =
        (s.peer.frame(SEND_ONLY, 100, true, &[], &[1]), s.peer.frame(SEND_ONLY, 101, true, &[], &[1]));
    assert_eq!(s.take(&early), Verdict::Answered);
    assert_eq!(s.take(&late), Verdict::Delivered);
    assert_eq!(s.out(), ["ACKNOWLEDGE 100 0x1f msn 1"]);
}

#[test]
fn s11_resend_before_the_rnr_time_is_over() {
    let mut s = with(Setup { psn: [100, 50], min_rnr_timer: 14, ..Setup::default() }, 0);
    let nothing: [&str; 0] = [];
    assert_eq!(s.request(SEND_ONLY, 50, true, b"hello"), ["ACKNOWLEDGE 50 0x2e msn 0"]);
    // What was in flight behind it is dropped without a word, duplicates of it are refused again.
    assert_eq!(s.request(SEND_ONLY, 51, true, b"more"), nothing);
    assert_eq!(s.request(SEND_ONLY, 52, true, b"more"), nothing);
    assert_eq!(s.request(SEND_ONLY, 50, true, b"hello"), ["ACKNOWLEDGE 50 0x2e msn 0"]);
    s.side.recv(7, 0, 64);
    s.now += Duration::from_micros(600);
    assert_eq!(s.request(SEND_ONLY, 50, true, b"hello"), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    s.now += Duration::from_micros(800);
    assert_eq!(s.request(SEND_ONLY, 50, true, b"hello"), ["ACKNOWLEDGE 50 0x1f msn 1"], "a duplicate now");
    assert_eq!(s.statuses(), [(7, Success)], "delivered once");
    let c = s.counters();
    assert_eq!((c.rnr_naks_sent, c.out_of_buffer, c.naks_sent), (2, 2, 0));
}

#[test]
fn rnr_of_a_write_with_immediate_and_of_a_long_send() {
    let mut s = expecting(50, 0);
    let imm = [&[0; 16][..], &[0, 0, 0, 9]].concat();
    let mut ext = imm.clone();
    Reth { va: VA, rkey: s.key(), len: 4 }.emit(&mut ext);
    let frame = s.peer.frame(Opcode::RC_WRITE_ONLY_IMM, 50, true, &ext, b"data");
    assert_eq!(s.say(frame.clone()), ["ACKNOWLEDGE 50 0x21 msn 0"]);
    assert_eq!(s.side.bytes(0, 4), [0; 4], "nothing is written yet");
    s.side.recv(1, 4096, 0);
    assert_eq!(s.say(frame), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    let c = s.side.done.completions[0];
    assert_eq!((c.wr_id, c.opcode, c.byte_len, c.imm), (1, WcOpcode::RecvRdmaWithImm, 4, Some(9)));
    // LAST with immediate: the packets before it stay applied, only the last comes again.
    s.write(Opcode::RC_WRITE_FIRST, 51, 0, 1025, &[7; 1024]);
    let last = s.peer.frame(Opcode::RC_WRITE_LAST_IMM, 52, true, &[0, 0, 0, 8], &[7]);
    assert_eq!(s.say(last.clone()), ["ACKNOWLEDGE 52 0x21 msn 1"]);
    s.side.recv(2, 4096, 0);
    assert_eq!(s.say(last), ["ACKNOWLEDGE 52 0x1f msn 2"]);
    assert_eq!(s.side.done.completions[1].byte_len, 1025);
    // A SEND of several packets is refused at its first.
    let nothing: [&str; 0] = [];
    assert_eq!(s.request(Opcode::RC_SEND_FIRST, 53, false, &[1; 1024]), ["ACKNOWLEDGE 53 0x21 msn 2"]);
    assert_eq!(s.request(Opcode::RC_SEND_LAST, 54, true, &[1; 10]), nothing);
    s.side.recv(3, 4096, 4096);
    assert_eq!(s.request(Opcode::RC_SEND_FIRST, 53, false, &[1; 1024]), nothing);
    assert_eq!(s.request(Opcode::RC_SEND_LAST, 54, true, &[1; 10]), ["ACKNOWLEDGE 54 0x1f msn 3"]);
}

#[test]
fn s13_zero_length_read_and_write_skip_the_key() {
    let mut s = expecting(30, 0);
    let read = s.peer.read(30, (0, 0xDEAD_BEEF, 0));
    assert_eq!(s.say(read), ["READ_RESP_ONLY 30 0x1f msn 1"]);
    let write = s.peer.write(WRITE_ONLY, 31, true, (0, 0xDEAD_BEEF, 0), &[]);
    assert_eq!(s.say(write), ["ACKNOWLEDGE 31 0x1f msn 2"]);
}

#[test]
fn s18_too_many_reads_at_once() {
    let mut s = with(Setup { psn: [100, 30], rd_atomic: 2, ..Setup::default() }, 0);
    let key = s.key();
    let frames: Vec<_> = (0..3).map(|i| s.peer.read(30 + 2 * i, (VA, key, 2048))).collect();
    let verdicts: Vec<_> = frames.iter().map(|f| s.take(f)).collect();
    assert_eq!(verdicts, [Verdict::Delivered, Verdict::Delivered, Verdict::Answered]);
    let want = [
        "READ_RESP_FIRST 30 0x1f msn 1",
        "READ_RESP_LAST 31 0x1f msn 1",
        "READ_RESP_FIRST 32 0x1f msn 2",
        "READ_RESP_LAST 33 0x1f msn 2",
        "ACKNOWLEDGE 34 0x61 msn 2",
    ];
    assert_eq!(s.out(), want, "the NAK follows the answers");
    assert_eq!(s.state(), QpState::Err);
}

/// A late copy of an answered request makes its answer come again; that takes no place from a new
/// READ, whose sender had all of the old one.
#[test]
fn s18_repeated_answers_do_not_count() {
    let mut s = with(Setup { psn: [100, 30], rd_atomic: 2, ..Setup::default() }, 0);
    let key = s.key();
    let frames: Vec<_> = (0..4).map(|i| s.peer.read(30 + i, (VA, key, 64))).collect();
    s.say(frames[0].clone());
    s.say(frames[1].clone());
    for frame in [&frames[0], &frames[1], &frames[2], &frames[3]] {
        assert_ne!(s.take(frame), Verdict::Dropped(DropReason::DuplicateDropped));
    }
    assert_eq!(s.state(), QpState::Rts);
    // Their resources went to the new ones.
    assert_eq!(s.out(), ["READ_RESP_ONLY 32 0x1f msn 3", "READ_RESP_ONLY 33 0x1f msn 4"]);
    // With a free resource the repetition is sent, in PSN order.
    let mut s = with(Setup { psn: [100, 30], rd_atomic: 2, ..Setup::default() }, 0);
    s.say(frames[0].clone());
    s.say(frames[1].clone());
    s.take(&frames[1]);
    s.take(&frames[2]);
    assert_eq!(s.out(), ["READ_RESP_ONLY 31 0x1f msn 2", "READ_RESP_ONLY 32 0x1f msn 3"]);
    // A thousand duplicates make one answer.
    (0..1000).for_each(|_| assert_eq!(s.take(&frames[2]), Verdict::Answered));
    assert_eq!(s.out(), ["READ_RESP_ONLY 32 0x1f msn 3"]);
}

#[test]
fn s19_ack_coalescing() {
    for (ack_interval, want) in [(1, 1000), (16, 63), (4096, 1)] {
        let mut s = with(Setup { psn: [100, 0], ack_interval, ..Setup::default() }, 0);
        let key = s.key();
        let payload = [3; 1024];
        let mut acks = Vec::new();
        for k in 0..1000 {
            let reth = (VA, key, 1000 * 1024);
            let frame = match k {
                0 => s.peer.write(Opcode::RC_WRITE_FIRST, 0, false, reth, &payload),
                999 => s.peer.frame(Opcode::RC_WRITE_LAST, 999, true, &[], &payload),
                _ => s.peer.frame(Opcode::RC_WRITE_MIDDLE, k, false, &[], &payload),
            };
            acks.extend(s.say(frame));
        }
        assert_eq!(acks.len(), want, "interval {ack_interval}");
        assert_eq!(acks.last().unwrap(), "ACKNOWLEDGE 999 0x1f msn 1");
    }
    // What asks is answered at once, whatever the interval; what does not is not.
    let mut s = with(Setup { psn: [100, 0], ack_interval: 4096, ..Setup::default() }, 4);
    assert!(s.request(SEND_ONLY, 0, false, &[1]).is_empty());
    assert_eq!(s.request(SEND_ONLY, 1, true, &[1]), ["ACKNOWLEDGE 1 0x1f msn 2"]);
}

/// Packets that arrive together are acknowledged together, by the newest.
#[test]
fn one_ack_for_a_burst() {
    let mut s = expecting(0, 10);
    for psn in 0..10 {
        let frame = s.peer.frame(SEND_ONLY, psn, true, &[], &[1]);
        s.take(&frame);
    }
    assert_eq!(s.out(), ["ACKNOWLEDGE 9 0x1f msn 10"]);
}

#[test]
fn responses_leave_in_psn_order() {
    let mut s = expecting(0, 2);
    s.side.fill(64, &5u64.to_ne_bytes());
    let key = s.key();
    let frames = [
        s.peer.write(WRITE_ONLY, 0, true, (VA, key, 4), b"abcd"),
        s.peer.read(1, (VA, key, 2048)),
        s.peer.frame(SEND_ONLY, 3, true, &[], &[1]),
        s.peer.fetch_add(4, (VA + 64, key), 1),
        s.peer.frame(SEND_ONLY, 5, false, &[], &[1]),
        s.peer.read(6, (VA, key, 4)),
        s.peer.write(WRITE_ONLY, 7, true, (VA, key, 4), b"abcd"),
    ];
    frames.iter().for_each(|f| assert_eq!(s.take(f), Verdict::Delivered));
    let want = [
        "ACKNOWLEDGE 0 0x1f msn 1",
        "READ_RESP_FIRST 1 0x1f msn 2",
        "READ_RESP_LAST 2 0x1f msn 2",
        "ACKNOWLEDGE 3 0x1f msn 3",
        "ATOMIC_ACK 4 0x1f msn 4",
        "READ_RESP_ONLY 6 0x1f msn 6",
        "ACKNOWLEDGE 7 0x1f msn 7",
    ];
    assert_eq!(s.out(), want);
}

#[test]
fn duplicate_sends_are_acknowledged_and_not_delivered() {
    let mut s = expecting(0, 4);
    s.request(SEND_ONLY, 0, true, b"one");
    s.request(SEND_ONLY, 1, true, b"two");
    for (psn, ack_req) in [(0, false), (0, true), (1, false)] {
        assert_eq!(s.request(SEND_ONLY, psn, ack_req, b"bad"), ["ACKNOWLEDGE 1 0x1f msn 2"]);
    }
    // Malformed duplicates get no answer, and no NAK.
    let short_first = s.peer.frame(Opcode::RC_SEND_FIRST, 0, true, &[], &[1; 100]);
    assert_eq!(s.take(&short_first), Verdict::Dropped(DropReason::DuplicateDropped));
    assert_eq!(s.statuses(), [(0, Success), (1, Success)]);
    assert_eq!(s.side.bytes(1 << 19, 3), b"one");
    assert_eq!(s.counters().duplicate_request, 4);
}

#[test]
fn duplicate_atomics_are_answered_from_memory_of_the_first() {
    let mut s = expecting(0, 0);
    s.side.fill(0, &1000u64.to_ne_bytes());
    let key = s.key();
    let original = |s: &mut Script, frame: &[u8]| {
        s.take(frame);
        let frames = s.frames();
        assert_eq!(frames.len(), 1);
        classify(&frames[0]).unwrap().atomic_ack().unwrap().original
    };
    let adds: Vec<_> = (0..3).map(|psn| s.peer.fetch_add(psn, (VA, key), 7)).collect();
    for (i, frame) in adds.iter().enumerate() {
        assert_eq!(original(&mut s, frame), 1000 + 7 * i as u64);
    }
    for (i, frame) in adds.iter().enumerate().rev() {
        assert_eq!(original(&mut s, frame), 1000 + 7 * i as u64);
    }
    assert_eq!(s.side.bytes(0, 8), 1021u64.to_ne_bytes());
    // A READ under the PSN of an atomic, and the reverse, is none of what was granted.
    let read = s.peer.read(1, (VA, key, 8));
    assert_eq!(s.take(&read), Verdict::Dropped(DropReason::DuplicateDropped));
    s.read(3, 0, 8);
    let add = s.peer.fetch_add(3, (VA, key), 7);
    assert_eq!(s.take(&add), Verdict::Dropped(DropReason::DuplicateDropped));
    assert_eq!(s.counters().rx_atomic_requests, 3);
}

#[test]
fn psn_and_msn_across_the_wrap() {
    let mut s = expecting(0xFF_FFFF, 4);
    assert_eq!(s.request(SEND_ONLY, 0xFF_FFFF, true, &[1]), ["ACKNOWLEDGE 16777215 0x1f msn 1"]);
    assert_eq!(s.request(SEND_ONLY, 2, true, &[1]), ["ACKNOWLEDGE 0 0x60 msn 1"]);
    assert_eq!(s.request(SEND_ONLY, 0xFF_FFFF, true, &[1]), ["ACKNOWLEDGE 16777215 0x1f msn 1"]);
    assert_eq!(s.request(SEND_ONLY, 0, true, &[1]), ["ACKNOWLEDGE 0 0x1f msn 2"]);
    // Half the circle behind is a duplicate, half ahead but one is a gap.
    let nothing: [&str; 0] = [];
    assert_eq!(s.request(SEND_ONLY, 1 + (1 << 23), true, &[1]), ["ACKNOWLEDGE 0 0x1f msn 2"]);
    assert_eq!(s.request(SEND_ONLY, 1 << 23, true, &[1]), ["ACKNOWLEDGE 1 0x60 msn 2"]);
    assert_eq!(s.request(SEND_ONLY, (1 << 23) - 5, true, &[1]), nothing);
}

/// The peer's READ answer and an own request take turns; ACKs go before both.
#[test]
fn answers_and_requests_take_turns() {
    let mut s = expecting(0, 1);
    s.post_write(1, 3 * 1024);
    let key = s.key();
    let read = s.peer.read(0, (VA, key, 3 * 1024));
    s.take(&read);
    let kinds: Vec<String> = s.out().iter().map(|l| l.split('_').next().unwrap().into()).collect();
    assert_eq!(kinds, ["WRITE", "READ", "WRITE", "READ", "WRITE", "READ"]);
    s.post_write(2, 2 * 1024);
    let send = s.peer.frame(SEND_ONLY, 3, true, &[], &[1]);
    s.take(&send);
    assert_eq!(s.out()[0], "ACKNOWLEDGE 3 0x1f msn 2");
    // One ACK after another, with requests waiting all the time.
    s.post_write(3, 2 * 1024);
    for psn in [4, 5] {
        s.side.recv(1, 0, 64);
        let send = s.peer.frame(SEND_ONLY, psn, true, &[], &[1]);
        s.take(&send);
        let (side, mut slot) = (&mut s.side, vec![0; 4400]);
        let sent = side.qp.poll_transmit(s.now, &side.mem, &mut slot, &mut side.done);
        assert!(matches!(sent, Transmit::Sent(sent) if sent.payload() == 0 && sent.psn().get() == psn));
    }
}

/// A message in the middle of which the queue pair goes to ERR: its receive is flushed once.
#[test]
fn a_receive_in_use_is_flushed_once() {
    let mut s = expecting(0, 2);
    s.request(Opcode::RC_SEND_FIRST, 0, false, &[1; 1024]);
    s.side.qp.modify(Transition::Err, &mut s.side.done).unwrap();
    assert_eq!(s.statuses(), [(0, WrFlushErr), (1, WrFlushErr)]);
    assert!(s.out().is_empty(), "no NAK for what the peer did not do wrong");
}
