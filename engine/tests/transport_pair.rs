//! Two queue pairs in virtual time: each verb, loss at each place, the wrap, and random faults.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use proptest::prelude::*;
use roce_engine::units::{Duration, Mtu};
use roce_engine::verbs::*;
use roce_engine::wire::*;

fn pass(_: usize, _: &[u8]) -> Fate {
    Fate::Pass
}

/// Drops the `nth` sending of each listed data PSN of side 0.
fn drops(list: &[(u32, u32)]) -> impl FnMut(usize, &[u8]) -> Fate {
    let list = list.to_vec();
    let mut seen = std::collections::HashMap::new();
    move |from, frame| {
        let p = classify(frame).unwrap();
        if from != 0 {
            return Fate::Pass;
        }
        let n = seen.entry(p.bth.psn.get()).or_insert(0);
        *n += 1;
        if list.contains(&(p.bth.psn.get(), *n)) { Fate::Drop } else { Fate::Pass }
    }
}

fn write_op(pair: &Pair, offset: u64) -> SendOp {
    SendOp::Write { raddr: VA + offset, rkey: pair.sides[1].mr.key }
}

#[test]
fn every_verb_delivers_its_bytes() {
    for mtu in Mtu::ALL {
        for len in [0usize, 1, 255, 1024, 1025, 4096, 5000, 70_001] {
            let mut pair = Pair::new(&Setup { mtu, ..Setup::default() });
            let data = pattern(len as u32, 70_001);
            pair.sides[0].fill(0, &data);
            let remote = pattern(9, 70_001);
            pair.sides[1].fill(300_000, &remote);
            let key = pair.sides[1].mr.key;
            let n = len as u32;
            for (i, base) in [100_000, 200_000, 400_000].into_iter().enumerate() {
                pair.sides[1].recv(i as u64, base, 70_001);
            }
            let s = &mut pair.sides[0];
            s.post(1, SendOp::Send, 0, n);
            s.post(2, SendOp::SendImm(0xAABB_CCDD), 0, n);
            s.post(3, SendOp::Write { raddr: VA, rkey: key }, 0, n);
            s.post(4, SendOp::WriteImm { raddr: VA + 500_000, rkey: key, imm: 7 }, 0, n);
            s.post(5, SendOp::Read { raddr: VA + 300_000, rkey: key }, 600_000, n);
            assert!(pair.run(Duration::from_secs(1), &mut pass, &mut |_| {}), "ends by itself");
            let want: Vec<_> = (1..=5).map(|i| (i, CompletionStatus::Success)).collect();
            assert_eq!(pair.sides[0].statuses(), want, "mtu {mtu} len {len}");
            for at in [0, 100_000, 200_000, 500_000] {
                assert_eq!(pair.sides[1].bytes(at, len), &data[..len], "mtu {mtu} len {len} at {at}");
            }
            assert_eq!(pair.sides[0].bytes(600_000, len), &remote[..len]);
            let got: Vec<_> = pair.sides[1]
                .done
                .completions
                .iter()
                .map(|c| (c.wr_id, c.opcode, c.byte_len, c.imm))
                .collect();
            assert_eq!(
                got,
                [
                    (0, WcOpcode::Recv, n, None),
                    (1, WcOpcode::Recv, n, Some(0xAABB_CCDD)),
                    (2, WcOpcode::RecvRdmaWithImm, n, Some(7)),
                ]
            );
            let c = pair.sides[0].qp.counters();
            assert_eq!((c.retransmits, c.local_ack_timeout_err), (0, 0));
            assert_eq!(c.psns_sent, c.psns_acked);
        }
    }
}

#[test]
fn atomics_change_memory_once() {
    let mut pair = Pair::new(&Setup::default());
    pair.sides[1].fill(64, &1000u64.to_ne_bytes());
    let rkey = pair.sides[1].mr.key;
    pair.sides[0].post(1, SendOp::FetchAdd { raddr: VA + 64, rkey, add: 5 }, 0, 8);
    let swap = SendOp::CompareSwap { raddr: VA + 64, rkey, compare: 1005, swap: 7 };
    pair.sides[0].post(2, swap, 8, 8);
    pair.sides[0].post(3, swap, 16, 8);
    // The first answer is lost: the request comes again and must not add twice.
    let mut answers = 0;
    let mut fate = |from, _: &[u8]| {
        answers += u32::from(from == 1);
        if from == 1 && answers == 1 { Fate::Drop } else { Fate::Pass }
    };
    assert!(pair.run(Duration::from_secs(1), &mut fate, &mut |_| {}));
    let got: Vec<u64> =
        (0..3).map(|i| u64::from_ne_bytes(pair.sides[0].bytes(8 * i, 8).try_into().unwrap())).collect();
    assert_eq!(got, [1000, 1005, 7]);
    assert_eq!(pair.sides[1].bytes(64, 8), 7u64.to_ne_bytes());
    assert_eq!(pair.sides[0].statuses().len(), 3);
    assert_eq!(pair.sides[1].qp.counters().rx_atomic_requests, 3);
    assert_eq!(pair.sides[0].qp.counters().implied_nak_seq_err, 1);
}

#[test]
fn l01_a_single_drop_at_each_place() {
    for i in 0..16 {
        let mut pair = Pair::new(&Setup::default());
        let data = pattern(i, 16 * 1024);
        pair.sides[0].fill(0, &data);
        let op = write_op(&pair, 0);
        pair.sides[0].post(1, op, 0, 16 * 1024);
        assert!(pair.run(Duration::from_secs(1), &mut drops(&[(100 + i, 1)]), &mut |_| {}));
        assert_eq!(pair.sides[0].statuses(), [(1, CompletionStatus::Success)]);
        assert_eq!(pair.sides[1].bytes(0, data.len()), &data[..]);
        let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
        let last = i == 15;
        assert_eq!(b.naks_sent, u64::from(!last), "drop of {i}");
        assert_eq!(a.local_ack_timeout_err, u64::from(last), "drop of {i}");
        assert_eq!(pair.sides[1].done.events.len(), 1, "delivered once");
    }
}

#[test]
fn l02_the_retransmission_is_lost_too() {
    let mut pair = Pair::new(&Setup::default());
    let op = write_op(&pair, 0);
    pair.sides[0].post(1, op, 0, 16 * 1024);
    assert!(pair.run(Duration::from_secs(1), &mut drops(&[(105, 1), (105, 2)]), &mut |_| {}));
    let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
    assert_eq!((b.naks_sent, a.local_ack_timeout_err), (1, 1));
    assert_eq!(pair.sides[0].statuses(), [(1, CompletionStatus::Success)]);
}

#[test]
fn l07_one_in_256_is_no_livelock() {
    let mut pair = Pair::new(&Setup { window: 1024, ..Setup::default() });
    for i in 0..10 {
        let op = write_op(&pair, 0);
        pair.sides[0].post(i, op, 0, 1 << 19);
    }
    let mut n = 0u32;
    let mut fate = |from, _: &[u8]| {
        n += u32::from(from == 0);
        if from == 0 && n.is_multiple_of(256) { Fate::Drop } else { Fate::Pass }
    };
    assert!(pair.run(Duration::from_secs(1), &mut fate, &mut |_| {}));
    assert!(pair.sides[0].statuses().iter().all(|(_, s)| *s == CompletionStatus::Success));
    let c = pair.sides[0].qp.counters();
    assert!(c.psns_acked / c.packet_seq_err.max(1) >= 100, "{c:?}");
}

#[test]
fn l09_wrap_under_loss() {
    let mut pair = Pair::new(&Setup { psn: [0xFF_FFF0, 0], ..Setup::default() });
    let data = pattern(1, 64 * 1024);
    pair.sides[0].fill(0, &data);
    let op = write_op(&pair, 0);
    pair.sides[0].post(1, op, 0, 64 * 1024);
    let mut fate = drops(&[(0xFF_FFFF, 1), (0, 2), (1, 3)]);
    assert!(pair.run(Duration::from_secs(1), &mut fate, &mut |_| {}));
    let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
    assert_eq!((b.naks_sent, a.local_ack_timeout_err), (3, 0));
    assert_eq!(pair.sides[1].bytes(0, data.len()), &data[..]);
    pair.sides[0].post(2, op, 0, 1);
    pair.logging = true;
    assert!(pair.run(Duration::from_secs(1), &mut pass, &mut |_| {}));
    assert_eq!(pair.log[0], "-> WRITE_ONLY 48 A va+0x0 len 1");
}

#[test]
fn l12_retransmit_at_every_size() {
    for kib in [4u32, 8, 12, 16, 64, 512] {
        for extra in [0, 1] {
            let len = kib * 1024 + extra;
            let mut pair = Pair::new(&Setup::default());
            let data = pattern(kib, len as usize);
            pair.sides[0].fill(0, &data);
            let op = write_op(&pair, 0);
            pair.sides[0].post(1, op, 0, len);
            let last_but_one = 100 + Mtu::B1024.packets(len) - 2;
            assert!(pair.run(Duration::from_secs(1), &mut drops(&[(last_but_one, 1)]), &mut |_| {}));
            assert_eq!(pair.sides[1].bytes(0, len as usize), &data[..]);
        }
    }
}

#[test]
fn a_lost_read_response_is_asked_again_from_the_middle() {
    let mut pair = Pair::new(&Setup::default());
    let data = pattern(3, 8 * 1024);
    pair.sides[1].fill(0, &data);
    let rkey = pair.sides[1].mr.key;
    pair.sides[0].post(1, SendOp::Read { raddr: VA, rkey }, 4096, 8 * 1024);
    pair.logging = true;
    let mut n = 0;
    let mut fate = |from, _: &[u8]| {
        n += u32::from(from == 1);
        if from == 1 && n == 4 { Fate::Drop } else { Fate::Pass }
    };
    assert!(pair.run(Duration::from_secs(1), &mut fate, &mut |_| {}));
    assert_eq!(pair.sides[0].statuses(), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.sides[0].bytes(4096, data.len()), &data[..]);
    let asked: Vec<_> = pair.log.iter().filter(|l| l.starts_with("->")).cloned().collect();
    assert_eq!(asked, ["-> READ_REQUEST 100 A va+0x0 len 8192", "-> READ_REQUEST 103 A va+0xc00 len 5120"]);
}

#[test]
fn rnr_waits_and_delivers_once() {
    let mut pair = Pair::new(&Setup { min_rnr_timer: 14, ..Setup::default() });
    let data = pattern(5, 3000);
    pair.sides[0].fill(0, &data);
    pair.sides[0].post(1, SendOp::Send, 0, 3000);
    let mut posted = false;
    let mut log = Vec::new();
    let done = {
        let mut app = |sides: &mut [Side; 2]| {
            if !posted && sides[1].qp.counters().rnr_naks_sent > 1 {
                sides[1].recv(9, 1000, 3000);
                posted = true;
            }
        };
        pair.logging = true;
        pair.run(Duration::from_secs(1), &mut pass, &mut app)
    };
    log.append(&mut pair.log);
    assert!(done, "{log:#?}");
    assert_eq!(pair.sides[1].bytes(1000, 3000), &data[..]);
    assert_eq!(pair.sides[1].statuses(), [(9, CompletionStatus::Success)]);
    let c = pair.sides[0].qp.counters();
    assert_eq!((c.rnr_nak_retry_err, c.local_ack_timeout_err, c.packet_seq_err), (2, 0, 0));
    assert!(pair.now.as_nanos() > 2 * 1_280_000, "two waits of 1.28 ms");
}

#[test]
fn unreliable_connection_loses_whole_messages_only() {
    let setup = Setup { ty: QpType::Uc, ..Setup::default() };
    let mut pair = Pair::new(&setup);
    for i in 0..8 {
        pair.sides[0].fill(i * 4096, &pattern(i as u32, 4096));
        pair.sides[1].recv(i as u64, i * 8192, 8192);
        pair.sides[0].post(i as u64, SendOp::SendImm(i as u32), i * 4096, 4000);
    }
    assert!(pair.run(Duration::from_secs(1), &mut drops(&[(105, 1), (115, 1)]), &mut |_| {}));
    assert_eq!(pair.sides[0].statuses().len(), 8, "sends complete when they have left");
    let got: Vec<_> = pair.sides[1].done.completions.iter().map(|c| (c.wr_id, c.imm.unwrap())).collect();
    // Messages 1 (PSN 104..107) and 3 (112..115) are lost; their receives serve the next ones.
    assert_eq!(got, [(0, 0), (1, 2), (2, 4), (3, 5), (4, 6), (5, 7)]);
    for (wr, message) in got {
        let bytes = pair.sides[1].bytes(wr as usize * 8192, 4000);
        assert_eq!(bytes, &pattern(message, 4096)[..4000]);
    }
}

#[test]
fn sqd_drains_and_resumes() {
    let mut pair = Pair::new(&Setup::default());
    let op = write_op(&pair, 0);
    pair.sides[0].post(1, op, 0, 8192);
    pair.sides[0].post(2, op, 0, 8192);
    // One packet leaves, then the queue drains: message 1 finishes, message 2 waits.
    let now = pair.now;
    let mut slot = vec![0; 4400];
    let side = &mut pair.sides[0];
    side.qp.poll_transmit(now, &side.mem, &mut slot, &mut side.done);
    side.qp.modify(Transition::Sqd, &mut side.done).unwrap();
    assert!(pair.run(Duration::from_secs(1), &mut pass, &mut |_| {}));
    let side = &mut pair.sides[0];
    assert_eq!(side.statuses(), [(1, CompletionStatus::Success)]);
    assert_eq!(side.done.events, [QpEvent::SqDrained]);
    side.qp.modify(Transition::Resume, &mut side.done).unwrap();
    assert!(pair.run(Duration::from_secs(1), &mut pass, &mut |_| {}));
    assert_eq!(pair.sides[0].statuses().len(), 2);
}

/// Runs that went wrong once.
#[test]
fn schedules_that_broke_something() {
    // Answers that were repeated for late copies of a READ counted as READs outstanding.
    let seeds = [(0xd12d_de54_418d_8bd2, 159, 16), (0xd0b1_8db9_46bd_59bb, 194, 17)];
    // A late RNR NAK stopped the timer of selective repeat for good.
    let seeds = seeds.into_iter().chain([(0x8284_0aab_0d57_67d0, 188, 22)]);
    for (seed, faults, ops) in seeds {
        for selective in [false, true] {
            schedule::run(seed, faults, ops, schedule::recovery_of(selective)).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_schedule_of_faults_delivers_once_and_in_order(
        seed: u64,
        faults in 0u64..200,
        ops in 1usize..24,
        selective: bool,
    ) {
        if let Err(text) = schedule::run(seed, faults, ops, schedule::recovery_of(selective)) {
            return Err(TestCaseError::fail(text));
        }
    }
}
