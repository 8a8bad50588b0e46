//! Every verb over lines with every mix of loss, reordering and duplication, at two windows: what the
//! repair costs, as a table.
//!
//! All figures follow from the protocol and a fixed seed.  A change of one of them is a change of
//! behaviour: look at it, then take it over with `cargo insta review`.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::script::Random;
use common::*;
use roce_engine::units::Duration;
use roce_engine::verbs::*;
use std::fmt::Write;

const MESSAGES: u64 = 100;
/// Four packets at an MTU of 1024 bytes.
const SIZE: u32 = 4096;
/// How late a reordered frame is: ten others overtake it.
const LATE: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Send,
    Write,
    Read,
    FetchAdd,
}

/// Frames in a thousand, in both directions, that meet each fault.
#[derive(Clone, Copy)]
struct Line {
    loss: u64,
    reorder: u64,
    duplication: u64,
}

#[test]
fn what_the_repair_costs() {
    for verb in [Verb::Send, Verb::Write, Verb::Read, Verb::FetchAdd] {
        let mut table = String::from(
            "per mille: loss reorder duplication; window | messages data_packets resent responses naks implied timeouts us\n",
        );
        for window in [8, 64] {
            for loss in [0, 10, 50] {
                for reorder in [0, 20] {
                    for duplication in [0, 20] {
                        let line = Line { loss, reorder, duplication };
                        writeln!(
                            table,
                            "{loss:3} {reorder:3} {duplication:3} {window:4} | {}",
                            run(verb, line, window)
                        )
                        .unwrap();
                    }
                }
            }
        }
        insta::assert_snapshot!(format!("matrix_{verb:?}").to_lowercase(), table);
    }
}

/// A row of the table; every message must have arrived whole, once.
fn run(verb: Verb, line: Line, window: u32) -> String {
    let setup = Setup { window, timeout: 8, ..Setup::default() };
    let mut pair = Pair::new(&setup);
    let key = pair.sides[1].mr.key;
    let len = if verb == Verb::FetchAdd { 8 } else { SIZE };
    for i in 0..MESSAGES {
        let at = i as usize * SIZE as usize;
        let raddr = VA + at as u64;
        let op = match verb {
            Verb::Send => SendOp::Send,
            Verb::Write => SendOp::Write { raddr, rkey: key },
            Verb::Read => SendOp::Read { raddr, rkey: key },
            Verb::FetchAdd => SendOp::FetchAdd { raddr: VA, rkey: key, add: i },
        };
        match verb {
            Verb::Send | Verb::Write => pair.sides[0].fill(at, &pattern(i as u32, SIZE as usize)),
            Verb::Read => pair.sides[1].fill(at, &pattern(i as u32, SIZE as usize)),
            Verb::FetchAdd => {}
        }
        pair.sides[1].recv(i, at, SIZE);
        pair.sides[0].post(i, op, at, len);
    }
    let mut random = Random(7);
    let mut fate = |_: usize, _: &[u8]| {
        let n = random.below(1000);
        if n < line.loss {
            Fate::Drop
        } else if n < line.loss + line.reorder {
            Fate::Delay(LATE)
        } else if n < line.loss + line.reorder + line.duplication {
            Fate::Duplicate
        } else {
            Fate::Pass
        }
    };
    assert!(pair.run(Duration::from_secs(10), &mut fate, &mut |_| {}), "ends by itself");
    check(&pair, verb);
    let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
    format!(
        "{:3} {:5} {:4} {:5} {:3} {:3} {:2} {:6}",
        pair.sides[0].done.completions.len(),
        a.tx_data_packets,
        a.retransmits,
        b.tx_response_packets + b.acks_sent,
        b.naks_sent,
        a.implied_nak_seq_err,
        a.local_ack_timeout_err,
        pair.now.as_nanos() / 1000,
    )
}

/// Every message completed once, in order, and its bytes are where they belong.
fn check(pair: &Pair, verb: Verb) {
    let [a, b] = &pair.sides;
    let good: Vec<_> = (0..MESSAGES).map(|i| (i, CompletionStatus::Success)).collect();
    assert_eq!(a.statuses(), good);
    match verb {
        Verb::Send => assert_eq!(b.statuses(), good),
        Verb::Write => assert_eq!(b.done.events.len() as u64, MESSAGES, "executed once each"),
        Verb::Read => {}
        Verb::FetchAdd => {
            let word = |side: &Side, at| u64::from_ne_bytes(side.bytes(at, 8).try_into().unwrap());
            assert_eq!(word(b, 0), (0..MESSAGES).sum::<u64>());
            for i in 0..MESSAGES {
                assert_eq!(word(a, i as usize * SIZE as usize), (0..i).sum::<u64>(), "the sum before it");
            }
            return;
        }
    }
    let sink = if verb == Verb::Read { a } else { b };
    for i in 0..MESSAGES {
        let bytes = sink.bytes(i as usize * SIZE as usize, SIZE as usize);
        assert_eq!(bytes, pattern(i as u32, SIZE as usize), "{verb:?} message {i}");
    }
}
