//! End-to-end credits: what ACKs tell, what waits for it, and that nothing waits for ever.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::script::{Random, Script};
use common::*;
use roce_engine::units::{Duration, Instant, Mtu};
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

fn setup() -> Setup {
    Setup { credits: true, psn: [100, 50], ..Setup::default() }
}

/// A requester whose peer has told nothing yet.
fn requester() -> Script {
    Script::new(&setup())
}

fn ack(s: &mut Script, psn: u32, syndrome: u8, msn: u32) -> Vec<String> {
    let frame = s.peer.ack(psn, syndrome, msn);
    s.say(frame)
}

#[test]
fn acks_tell_how_many_receives_wait() {
    let mut s = Script::new(&setup());
    (0..8).for_each(|i| s.side.recv(i, 0, 64));
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, b"data"), ["ACKNOWLEDGE 50 0x05 msn 1"], "7: 6");
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 51, true, b"data"), ["ACKNOWLEDGE 51 0x05 msn 2"]);
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 52, true, b"data"), ["ACKNOWLEDGE 52 0x04 msn 3"], "5: 4");
    // A WRITE takes none, a READ's answer tells them as well.
    assert_eq!(s.write(Opcode::RC_WRITE_ONLY, 53, 0, 4, b"data"), ["ACKNOWLEDGE 53 0x04 msn 4"]);
    let want = ["READ_RESP_FIRST 54 0x04 msn 5", "READ_RESP_MIDDLE 55", "READ_RESP_LAST 56 0x04 msn 5"];
    assert_eq!(s.read(54, 0, 3000), want);
    // NAKs tell nothing; a duplicate is answered with what is there now.
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 60, true, b"data"), ["ACKNOWLEDGE 57 0x60 msn 5"]);
    (8..16).for_each(|i| s.side.recv(i, 0, 64));
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, b"data"), ["ACKNOWLEDGE 53 0x07 msn 5"]);
}

/// Receives that are posted while the peer has none to count on are told at once.
#[test]
fn posted_receives_are_told_unasked() {
    let mut s = Script::new(&setup());
    s.side.recv(0, 0, 64);
    assert!(s.out().is_empty(), "nobody has asked for anything");
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, b"data"), ["ACKNOWLEDGE 50 0x00 msn 1"]);
    s.side.recv(1, 0, 64);
    assert_eq!(s.out(), ["ACKNOWLEDGE 50 0x01 msn 1"]);
    s.side.recv(2, 0, 64);
    assert!(s.out().is_empty(), "the peer can go on");
    assert_eq!(s.counters().credit_updates_sent, 1);
}

#[test]
fn no_credits_unless_asked_for() {
    let mut s = Script::new(&Setup { credits: false, ..setup() });
    (0..8).for_each(|i| s.side.recv(i, 0, 64));
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, b"data"), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    (0..8).for_each(|i| s.post_send(i, 4));
    assert_eq!(s.out().len(), 8);
    assert!(ack(&mut s, 100, 0, 1).is_empty(), "and none are heeded");
    s.post_send(8, 4);
    assert_eq!(s.out().len(), 1);
}

#[test]
fn messages_wait_for_credits() {
    let mut s = requester();
    (1..=6).for_each(|i| s.post_send(i, 4));
    assert_eq!(s.out(), ["SEND_ONLY 100 A"], "one asks");
    assert_eq!(ack(&mut s, 100, 2, 1), ["SEND_ONLY 101 A", "SEND_ONLY 102 A"]);
    assert!(ack(&mut s, 101, 1, 2).is_empty(), "the same limit");
    assert_eq!(ack(&mut s, 102, 1, 3), ["SEND_ONLY 103 A"]);
    assert!(ack(&mut s, 103, 0, 4).is_empty());
    // An ACK for what is acknowledged brings nothing but credits.
    assert_eq!(ack(&mut s, 103, 1, 4), ["SEND_ONLY 104 A"]);
    // A peer that gives up on credits is never limited again.
    assert_eq!(ack(&mut s, 104, 0x1F, 5), ["SEND_ONLY 105 A"]);
    ack(&mut s, 105, 0, 6);
    (7..=9).for_each(|i| s.post_send(i, 4));
    assert_eq!(s.out().len(), 3);
    assert_eq!(s.counters().credit_waits, 4, "messages 2, 4, 5 and 6");
}

#[test]
fn only_what_takes_a_receive_waits() {
    let mut s = requester();
    s.post_write(1, 4);
    s.post_read(2, 0, 4);
    s.post_send(3, 4);
    s.post_write(4, 3000);
    let imm = SendOp::WriteImm { raddr: VA, rkey: script::PEER_KEY, imm: 1 };
    s.side.post(5, imm, 0, 4);
    s.post_write(6, 4);
    let sent = s.out();
    assert_eq!(
        sent[..3],
        ["WRITE_ONLY 100 A va+0x0 len 4", "READ_REQUEST 101 A va+0x0 len 4", "SEND_ONLY 102 A"]
    );
    assert_eq!(sent.len(), 6, "{sent:?}");
    // Messages 1 to 3 are through and the peer has a receive: 4 is a WRITE and moves the limit.
    s.ack(100, 0);
    let response = s.peer.read_response(Opcode::RC_READ_RESP_ONLY, 101, b"data");
    s.say(script::altered(&response, script::BTH + 12, 0));
    assert_eq!(ack(&mut s, 102, 0, 3), [""; 0]);
    assert_eq!(
        ack(&mut s, 105, 1, 4),
        ["WRITE_ONLY_IMM 106 A va+0x0 len 4", "WRITE_ONLY 107 A va+0x0 len 4"]
    );
}

/// The word that brings credits may be lost: after the ack timeout, one message asks.
#[test]
fn a_lost_word_does_not_stop_it_for_ever() {
    let mut s = requester();
    (1..=3).for_each(|i| s.post_send(i, 4));
    s.out();
    ack(&mut s, 100, 0, 1);
    // Code 10 is 4.194304 ms.
    let sent = s.pass(Duration::from_millis(6));
    assert_eq!(sent, [(4194, "SEND_ONLY 101 A".to_owned())]);
    ack(&mut s, 101, 0x21, 1);
    let sent = s.pass(Duration::from_millis(1));
    assert_eq!(sent.len(), 1, "what is sent again needs no credit: {sent:?}");
    assert_eq!(ack(&mut s, 101, 1, 2), ["SEND_ONLY 102 A"]);
    assert_eq!(s.statuses(), [(1, Success), (2, Success)]);
    // Without a timer there is nothing to wait for.
    let mut s = Script::new(&Setup { timeout: 0, ..setup() });
    (1..=3).for_each(|i| s.post_send(i, 4));
    s.out();
    assert_eq!(ack(&mut s, 100, 0, 1), ["SEND_ONLY 101 A"]);
}

/// Sends 300 messages to a receiver that posts a receive now and then.
fn slow_receiver(credits: bool, post_every: Duration) -> Pair {
    let mut pair = Pair::new(&Setup { credits, recv_depth: 3, timeout: 12, ..Setup::default() });
    (0..3).for_each(|i| pair.sides[1].recv(i, 0, 64));
    (0..100).for_each(|i| pair.sides[0].post(i, SendOp::Send, 0, 64));
    let (mut posted, mut next) = (3, Instant::ZERO + post_every);
    while pair.sides[0].done.completions.len() < 100 {
        pair.run(next.since(pair.now), &mut |_, _| Fate::Pass, &mut |_| {});
        pair.now = next;
        next += post_every;
        if posted as usize - pair.sides[1].done.completions.len() < 3 {
            pair.sides[1].recv(posted, 0, 64);
            posted += 1;
        }
    }
    pair
}

#[test]
fn a_slow_receiver_is_never_not_ready() {
    let without = slow_receiver(false, Duration::from_micros(50));
    assert!(without.sides[1].qp.counters().rnr_naks_sent > 0, "credits have nothing to do here");
    let with = slow_receiver(true, Duration::from_micros(50));
    for pair in [&without, &with] {
        assert_eq!(pair.sides[0].statuses(), (0..100).map(|i| (i, Success)).collect::<Vec<_>>());
    }
    let counters = with.sides[1].qp.counters();
    assert_eq!((counters.rnr_naks_sent, counters.out_of_buffer), (0, 0));
    assert!(counters.credit_updates_sent > 50, "{counters:?}");
    assert_eq!(with.sides[0].qp.counters().retransmits, 0);
}

/// Whatever is sent, lost and posted: no more than one message starts beyond what the peer has told,
/// and all complete.
#[test]
fn property_all_complete_and_none_goes_too_far() {
    for seed in 0..60 {
        one_of_many(seed);
    }
}

fn one_of_many(seed: u64) {
    const MESSAGES: u64 = 60;
    let mut random = Random(seed);
    let mut pair = Pair::new(&Setup { credits: true, timeout: 3, recv_depth: 8, ..Setup::default() });
    let rkey = pair.sides[1].mr.key;
    // Of the first n messages, how many take a receive.
    let mut takers = vec![0];
    for i in 0..MESSAGES {
        let op = match random.below(5) {
            0 => SendOp::Write { raddr: VA, rkey },
            1 => SendOp::Read { raddr: VA, rkey },
            2 => SendOp::WriteImm { raddr: VA, rkey, imm: 1 },
            _ => SendOp::Send,
        };
        takers.push(takers[i as usize] + usize::from(op.takes_recv()));
        pair.sides[0].post(i, op, 0, random.below(3000) as u32);
    }
    let all = takers[MESSAGES as usize];
    pair.sides[1].recv(0, 0, 4096);
    let mut posted = 1;
    // Receives told of so far, messages started, and the next PSN that was never sent.
    let (mut told, mut started, mut fresh) = (0, 0, 100);
    let mut dice = Random(seed ^ 0xABCD);
    let mut fate = |from: usize, frame: &[u8]| {
        let p = classify(frame).expect("our frames parse");
        let psn = p.bth.psn.get();
        if from == 0 && psn >= fresh {
            let read = p.reth().filter(|_| p.info.kind == Kind::ReadRequest);
            fresh = psn + read.map_or(1, |reth| Mtu::B1024.packets(reth.len));
            started += usize::from(p.info.position.starts());
            let starts_taker = p.info.position.starts() && takers[started] > takers[started - 1];
            assert!(!starts_taker || takers[started] <= told + 1, "seed {seed}: message {started}");
        }
        if from == 1
            && let Some(aeth) = p.aeth()
            && let AethKind::Ack { credits: code } = aeth.syndrome.kind()
        {
            let left = usize::from(credits(code).expect("the receives are not shared"));
            told = told.max(takers[aeth.msn.get() as usize] + left);
        }
        if !seed.is_multiple_of(3) && dice.below(20) == 0 { Fate::Drop } else { Fate::Pass }
    };
    for _ in 0..20_000 {
        let span = Duration::from_nanos(1 + random.below(20_000));
        let end = pair.now + span;
        pair.run(span, &mut fate, &mut |_| {});
        pair.now = end;
        let got = pair.sides[1].done.completions.len();
        if posted < all && posted - got < 8 && random.below(4) == 0 {
            pair.sides[1].recv(posted as u64, 0, 4096);
            posted += 1;
        }
        if pair.sides[0].done.completions.len() as u64 == MESSAGES {
            break;
        }
    }
    let want: Vec<_> = (0..MESSAGES).map(|i| (i, Success)).collect();
    assert_eq!(pair.sides[0].statuses(), want, "seed {seed}");
    assert_eq!(pair.sides[1].done.completions.len(), all, "seed {seed}");
}
