//! The requester against a scripted peer: recovery, timers, windows and limits.
#![allow(clippy::unwrap_used)]

mod common;

use common::script::*;
use common::*;
use roce_engine::cc::{PaceUnit, Pacer};
use roce_engine::units::{Duration, Mtu};
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

const MS: u64 = 1_000_000;

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// The PSNs and opcodes alone.
fn psns(lines: &[String]) -> Vec<u32> {
    lines.iter().map(|l| l.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn q01_ack_past_a_read() {
    let mut s = Script::new(&Setup { psn: [40, 0], ..Setup::default() });
    s.post_write(1, 64);
    s.post_read(2, 4096, 1024);
    s.post_write(3, 64);
    let all = [
        "WRITE_ONLY 40 A va+0x0 len 64",
        "READ_REQUEST 41 A va+0x0 len 1024",
        "WRITE_ONLY 42 A va+0x0 len 64",
    ];
    assert_eq!(s.out(), all);
    assert_eq!(s.ack(42, 0x1F), all[1..], "the READ is asked again, and what follows it");
    assert_eq!(s.statuses(), [(1, Success)]);
    assert_eq!(s.counters().implied_nak_seq_err, 1);
    assert!(s.ack(42, 0x1F).is_empty(), "one retry per gap");
    let data = pattern(1, 1024);
    assert!(s.response(Opcode::RC_READ_RESP_ONLY, 41, &data).is_empty());
    assert!(s.ack(42, 0x1F).is_empty());
    assert_eq!(s.statuses(), [(1, Success), (2, Success), (3, Success)]);
    assert_eq!(s.side.bytes(4096, 1024), &data[..]);
    assert_eq!(s.side.qp.next_deadline(), None);
}

#[test]
fn q03_write_resumed_in_the_middle() {
    let data = pattern(3, 16 * 1024);
    let mut s = Script::new(&Setup::default());
    s.side.fill(0, &data);
    s.post_write(1, 16 * 1024);
    assert_eq!(s.out().len(), 16);
    s.take(&Peer::to(0).ack(105, 0x60, 0));
    let frames = s.frames();
    let lines = show_all(&frames);
    assert_eq!(lines[..2], ["WRITE_MIDDLE 105 A", "WRITE_MIDDLE 106"]);
    assert_eq!((lines.len(), lines[10].as_str()), (11, "WRITE_LAST 115 A"));
    assert_eq!(classify(&frames[0]).unwrap().payload(), &data[5 * 1024..6 * 1024]);
    // PSN 100 was acknowledged by the first NAK: the second is of the past.
    assert_eq!(s.take(&Peer::to(0).ack(100, 0x60, 0)), dropped(DropReason::StaleResponse));

    let mut s = Script::new(&Setup::default());
    s.post_write(1, 16 * 1024);
    s.out();
    let lines = s.ack(100, 0x60);
    assert_eq!(lines[..2], ["WRITE_FIRST 100 A va+0x0 len 16384", "WRITE_MIDDLE 101"]);
    assert_eq!(lines.len(), 16);
}

fn dropped(reason: DropReason) -> roce_engine::transport::Verdict {
    roce_engine::transport::Verdict::Dropped(reason)
}

#[test]
fn q04_one_go_back_per_nak() {
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 32 * 1024);
    assert_eq!(s.out().len(), 32);
    let mut again = Vec::new();
    for _ in 0..10 {
        s.now += ns(1000);
        again.extend(s.ack(105, 0x60));
    }
    assert_eq!(psns(&again), (105..132).collect::<Vec<_>>());
    let c = s.counters();
    assert_eq!((c.packet_seq_err, c.retransmits), (10, 27));
    // After progress the next gap is served; after the timer this one is.
    assert_eq!(psns(&s.ack(111, 0x60)), (111..132).collect::<Vec<_>>());
    assert!(s.ack(111, 0x60).is_empty());
    let late: Vec<String> = s.pass(ns(5 * MS)).into_iter().map(|(_, l)| l).collect();
    assert_eq!(psns(&late), (111..132).collect::<Vec<_>>());
    assert_eq!(s.counters().local_ack_timeout_err, 1);
    assert_eq!(psns(&s.ack(111, 0x60)), (111..132).collect::<Vec<_>>());
    assert!(s.ack(111, 0x60).is_empty());
    assert!(s.ack(131, 0x1F).is_empty());
    assert_eq!(s.statuses(), [(1, Success)]);
}

/// Each go-back to a PSN that did not move costs a retry; with none left the request fails.
#[test]
fn naks_without_progress_use_the_retries_up() {
    let mut s = Script::new(&Setup { retry_cnt: 2, timeout: 8, ..Setup::default() });
    s.post_write(1, 4096);
    s.out();
    // NAK (free), timeout, NAK: the third go-back has no retry left.
    assert_eq!(s.ack(100, 0x60).len(), 4);
    assert_eq!(s.pass(ns(1_100_000)).len(), 4);
    assert_eq!(s.ack(100, 0x60).len(), 4);
    assert_eq!(s.state(), QpState::Rts);
    s.pass(ns(1_100_000));
    assert_eq!(s.statuses(), [(1, RetryExcErr)]);
}

#[test]
fn q06_the_rnr_wait_is_honoured() {
    let mut s = Script::new(&Setup { timeout: 8, retry_cnt: 0, ..Setup::default() });
    s.post_send(1, 64);
    s.post_send(2, 64);
    assert_eq!(s.out(), ["SEND_ONLY 100 A", "SEND_ONLY 101 A"]);
    assert!(s.ack(100, 0x34).is_empty());
    // Nothing cuts the wait short: no sequence NAK (rxe sends one), no second RNR NAK, no timer.
    assert!(s.ack(100, 0x60).is_empty());
    assert!(s.ack(100, 0x21).is_empty());
    assert!(s.pass(ns(10_239_999)).is_empty());
    let again = s.pass(ns(1));
    assert_eq!(again, [(10_240, "SEND_ONLY 100 A".into()), (10_240, "SEND_ONLY 101 A".into())]);
    let c = s.counters();
    assert_eq!((c.local_ack_timeout_err, c.rnr_nak_retry_err, c.retransmits), (0, 2, 2));
    assert_eq!(s.state(), QpState::Rts, "no retry was used up");
    // The sequence NAK in the wait left nothing behind: one after it is served.
    assert_eq!(psns(&s.ack(100, 0x60)), [100, 101]);
    s.ack(101, 0x1F);
    assert_eq!(s.statuses(), [(1, Success), (2, Success)]);
}

/// A go-back before the wait does not make a NAK after it look old.
#[test]
fn q06_a_nak_after_the_rnr_wait_is_served() {
    let mut s = Script::new(&Setup { retry_cnt: 1, ..Setup::default() });
    s.post_send(1, 64);
    s.out();
    assert_eq!(psns(&s.ack(100, 0x60)), [100]);
    assert!(s.ack(100, 0x21).is_empty());
    assert_eq!(s.pass(ns(10_000)).len(), 1);
    assert_eq!(psns(&s.ack(100, 0x60)), [100]);
    assert!(s.ack(100, 0x60).is_empty());
}

/// A copy of the refused packet got through after all: the ACK for it starts no timer in the wait.
#[test]
fn q06_progress_in_the_rnr_wait_starts_no_timer() {
    let mut s = Script::new(&Setup { timeout: 8, retry_cnt: 0, ..Setup::default() });
    s.post_send(1, 64);
    s.post_send(2, 64);
    s.out();
    s.ack(100, 0x34);
    assert!(s.ack(100, 0x1F).is_empty());
    assert_eq!(s.statuses(), [(1, Success)]);
    assert_eq!(s.pass(ns(11 * MS)), [(10_240, "SEND_ONLY 101 A".into())]);
    assert_eq!((s.state(), s.counters().local_ack_timeout_err), (QpState::Rts, 0));
}

#[test]
fn every_rnr_timer_code_is_waited() {
    let us: [u64; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
        5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760,
        327_680, 491_520,
    ];
    for (code, us) in us.into_iter().enumerate() {
        let mut s = Script::new(&Setup::default());
        s.post_send(1, 64);
        s.out();
        assert!(s.ack(100, 0x20 | code as u8).is_empty());
        assert!(s.pass(ns(us * 1000 - 1)).is_empty(), "code {code}");
        assert_eq!(s.pass(ns(1)), [(us, "SEND_ONLY 100 A".into())], "code {code}");
    }
}

#[test]
fn rnr_retries_run_out() {
    for rnr_retry in 0..7u8 {
        let mut s = Script::new(&Setup { rnr_retry, ..Setup::default() });
        (1..=3).for_each(|i| s.post_send(i, 64));
        assert_eq!(s.out().len(), 3);
        for _ in 0..rnr_retry {
            s.ack(100, 0x21);
            assert_eq!(s.pass(ns(10_000)).len(), 3);
        }
        assert_eq!(s.state(), QpState::Rts);
        assert!(s.ack(100, 0x21).is_empty());
        assert_eq!(s.statuses(), [(1, RnrRetryExcErr), (2, WrFlushErr), (3, WrFlushErr)]);
        assert_eq!(s.state(), QpState::Err);
    }
}

#[test]
fn rnr_retry_7_is_for_ever_and_progress_reloads_the_others() {
    let mut s = Script::new(&Setup { rnr_retry: 7, ..Setup::default() });
    s.post_send(1, 64);
    s.out();
    for _ in 0..1000 {
        assert!(s.ack(100, 0x21).is_empty());
        assert_eq!(s.pass(ns(10_000)).len(), 1);
    }
    assert_eq!(s.state(), QpState::Rts);

    let mut s = Script::new(&Setup { rnr_retry: 1, ..Setup::default() });
    (0..20).for_each(|i| s.post_send(i, 64));
    s.out();
    for i in 0..20 {
        assert!(s.ack(100 + i, 0x21).is_empty());
        assert_eq!(s.pass(ns(10_000)).len(), 20 - i as usize);
    }
    assert_eq!(s.state(), QpState::Rts, "each RNR NAK acknowledged one more");
}

#[test]
fn q08_retries_run_out() {
    let mut s = Script::new(&Setup { retry_cnt: 3, timeout: 14, ..Setup::default() });
    s.post_write(1, 64);
    s.post_send(2, 64);
    let sent = s.pass(ns(2000 * MS));
    let first: Vec<u64> = sent.iter().filter(|(_, l)| l.starts_with("WRITE")).map(|(t, _)| *t).collect();
    assert_eq!(first, [0, 67_108, 134_217, 201_326]);
    assert_eq!(sent.len(), 8);
    assert_eq!(s.statuses(), [(1, RetryExcErr), (2, WrFlushErr)]);
    assert_eq!(s.state(), QpState::Err);
    assert_eq!(s.side.done.events, [QpEvent::Fatal(RetryExcErr)]);
    let c = s.counters();
    assert_eq!((c.local_ack_timeout_err, c.req_cqe_error, c.req_cqe_flush_error), (4, 1, 1));
    assert_eq!((c.psns_sent, c.psns_acked, c.psns_failed), (2, 0, 2));
}

#[test]
fn retry_cnt_is_the_number_of_repetitions() {
    for retry_cnt in 0..=7u8 {
        let mut s = Script::new(&Setup { retry_cnt, timeout: 1, ..Setup::default() });
        s.post_write(1, 64);
        let sent = s.pass(ns(MS));
        assert_eq!(sent.len(), 1 + usize::from(retry_cnt));
        assert_eq!(s.statuses(), [(1, RetryExcErr)], "7 is seven, not for ever");
    }
}

#[test]
fn q09_timeout_0_is_never() {
    let mut s = Script::new(&Setup { timeout: 0, ..Setup::default() });
    s.post_write(1, 3 * 1024);
    assert_eq!(s.out().len(), 3);
    assert_eq!(s.side.qp.next_deadline(), None);
    assert!(s.pass(Duration::from_secs(10)).is_empty());
    assert_eq!((s.side.qp.unacknowledged(), s.side.qp.outstanding()), (3, 1));
    assert_eq!(s.ack(101, 0x60), ["WRITE_MIDDLE 101 A", "WRITE_LAST 102 A"], "a NAK is still heard");
}

/// The timer guards packets for which an answer was asked, from when they left.
#[test]
fn a_pace_slower_than_the_timeout_is_no_timeout() {
    let mut s = Script::new(&Setup { timeout: 8, retry_cnt: 1, ..Setup::default() });
    s.side.qp.set_pacer(Pacer::new(PaceUnit::Packets, 100.0, 1, 1));
    s.post_write(1, 8 * 1024);
    // One packet every 10 ms, the timeout is 1 ms; only the last asks for an ACK.
    assert_eq!(s.pass(ns(70 * MS)).len(), 8);
    assert_eq!(s.counters().local_ack_timeout_err, 0);
    // It stays away.  The first packet leaves again, asks, and then the retries are used up.
    let again = s.pass(ns(100 * MS));
    assert_eq!(again, [(80_000, "WRITE_FIRST 100 A va+0x0 len 8192".into())]);
    assert_eq!(s.statuses(), [(1, RetryExcErr)]);
    assert_eq!(s.counters().local_ack_timeout_err, 2);
}

#[test]
fn q13_fence() {
    let fenced = |s: &mut Script| {
        let flags = SendFlags { signaled: true, fence: true, ..SendFlags::default() };
        let sge = s.side.sge(0, 4096);
        s.side.qp.post_send(SendWr { wr_id: 9, op: SendOp::Send, sge, flags }).unwrap();
    };
    let mut s = Script::new(&Setup::default());
    s.post_read(1, 0, 4096);
    fenced(&mut s);
    let data = pattern(7, 4096);
    assert_eq!(s.out(), ["READ_REQUEST 100 A va+0x0 len 4096"]);
    assert!(s.response(Opcode::RC_READ_RESP_FIRST, 100, &data[..1024]).is_empty());
    assert!(s.response(Opcode::RC_READ_RESP_MIDDLE, 101, &data[1024..2048]).is_empty());
    // A restart in between does not let it out either.
    assert_eq!(s.pass(ns(5 * MS)), [(4194, "READ_REQUEST 102 A va+0x800 len 2048".into())]);
    assert!(s.response(Opcode::RC_READ_RESP_FIRST, 102, &data[2048..3072]).is_empty());
    s.take(&Peer::to(0).read_response(Opcode::RC_READ_RESP_LAST, 103, &data[3072..]));
    let frames = s.frames();
    let lines = show_all(&frames);
    assert_eq!(lines, ["SEND_FIRST 104", "SEND_MIDDLE 105", "SEND_MIDDLE 106", "SEND_LAST 107 A"]);
    let bytes: Vec<u8> = frames.iter().flat_map(|f| classify(f).unwrap().payload().to_vec()).collect();
    assert_eq!(bytes, data, "with what the READ brought");

    let mut s = Script::new(&Setup::default());
    s.post_write(1, 64);
    fenced(&mut s);
    assert_eq!(s.out().len(), 5, "a WRITE does not hold it");
    // Nor does a READ behind it, when all is sent again.
    s.post_read(10, 8192, 64);
    assert_eq!(psns(&s.out()), [105]);
    assert_eq!(psns(&s.ack(101, 0x60)), [101, 102, 103, 104, 105]);
}

#[test]
fn q14_outstanding_read_limit() {
    for limit in [1u8, 3, 16] {
        let mut s = Script::new(&Setup { rd_atomic: limit, ..Setup::default() });
        (0..64).for_each(|i| s.post_read(i, 0, 2048));
        let mut asked = s.out().len();
        let data = pattern(1, 1024);
        for answered in 0..64 {
            assert_eq!(asked, (answered + usize::from(limit)).min(64));
            let psn = 100 + 2 * answered as u32;
            assert!(s.response(Opcode::RC_READ_RESP_FIRST, psn, &data).is_empty(), "half an answer");
            asked += s.response(Opcode::RC_READ_RESP_LAST, psn + 1, &data).len();
        }
        assert_eq!(s.statuses(), (0..64).map(|i| (i, Success)).collect::<Vec<_>>());
    }
}

/// After a go-back the limit still holds, and nothing leaks.
#[test]
fn q14_the_limit_survives_a_restart() {
    let mut s = Script::new(&Setup { rd_atomic: 2, ..Setup::default() });
    (0..4).for_each(|i| s.post_read(i, 0, 1024));
    let data = pattern(1, 1024);
    assert_eq!(psns(&s.out()), [100, 101]);
    for _ in 0..3 {
        let again: Vec<String> = s.pass(ns(4_200_000)).into_iter().map(|(_, l)| l).collect();
        assert_eq!(psns(&again), [100, 101]);
    }
    // The answer to 100 is lost: 101 implies it, and both are asked again.
    assert_eq!(psns(&s.response(Opcode::RC_READ_RESP_ONLY, 101, &data)), [100, 101]);
    assert_eq!(psns(&s.response(Opcode::RC_READ_RESP_ONLY, 100, &data)), [102]);
    assert_eq!(psns(&s.response(Opcode::RC_READ_RESP_ONLY, 101, &data)), [103]);
    assert!(s.response(Opcode::RC_READ_RESP_ONLY, 102, &data).is_empty());
    assert!(s.response(Opcode::RC_READ_RESP_ONLY, 103, &data).is_empty());
    assert_eq!(s.statuses().len(), 4);
    s.post_read(9, 0, 1024);
    s.post_read(10, 0, 1024);
    assert_eq!(psns(&s.out()), [104, 105], "both places are free again");
}

#[test]
fn q16_read_reply_larger_or_smaller_than_asked() {
    use Opcode as O;
    let data = pattern(2, 1024);
    let replies: [&[(O, usize)]; 6] = [
        &[(O::RC_READ_RESP_FIRST, 1024), (O::RC_READ_RESP_MIDDLE, 1024)],
        &[(O::RC_READ_RESP_FIRST, 1024), (O::RC_READ_RESP_LAST, 512)],
        &[(O::RC_READ_RESP_MIDDLE, 1000)],
        &[(O::RC_READ_RESP_ONLY, 1024)],
        &[(O::RC_READ_RESP_FIRST, 1024), (O::RC_READ_RESP_LAST, 0)],
        &[(O::RC_READ_RESP_FIRST, 1020)],
    ];
    for reply in replies {
        let mut s = Script::new(&Setup::default());
        s.side.fill(0, &[0xEE; 8192]);
        s.post_read(1, 1024, 2048);
        s.post_write(2, 64);
        s.out();
        for (k, (opcode, len)) in reply.iter().enumerate() {
            s.response(*opcode, 100 + k as u32, &data[..*len]);
        }
        assert_eq!(s.statuses(), [(1, LocLenErr), (2, WrFlushErr)], "{reply:?}");
        assert_eq!(s.state(), QpState::Err);
        assert_eq!(s.side.bytes(0, 1024), [0xEE; 1024], "guard before");
        assert_eq!(s.side.bytes(3072, 5120), [0xEE; 5120], "guard after");
    }
}

/// Two PSNs' worth of request, three responses: the third PSN was never asked for.
#[test]
fn q16_responses_past_the_end_are_ghosts() {
    let mut s = Script::new(&Setup::default());
    s.post_read(1, 0, 2048);
    s.out();
    let extra = Peer::to(0).read_response(Opcode::RC_READ_RESP_LAST, 102, &[0; 1024]);
    assert_eq!(s.take(&extra), dropped(DropReason::GhostAck));
    assert_eq!(s.state(), QpState::Rts);
}

#[test]
fn responses_of_the_wrong_kind() {
    let data = [0; 1024];
    let run = |frame: Vec<u8>| {
        let mut s = Script::new(&Setup::default());
        s.post_read(1, 0, 2048);
        s.out();
        s.take(&frame);
        s.statuses()
    };
    let mut peer = Peer::to(0);
    assert_eq!(run(peer.read_response(Opcode::RC_READ_RESP_MIDDLE, 100, &data)), [(1, BadRespErr)]);
    assert_eq!(run(peer.atomic_ack(100, 1)), [(1, BadRespErr)]);
    // AETH of a READ response must say ACK.
    let nak_in_it = peer.frame(Opcode::RC_READ_RESP_FIRST, 100, false, &[0x60, 0, 0, 0], &data);
    assert_eq!(run(nak_in_it), [(1, BadRespErr)]);
    // What carries bytes that it may not carry is damage, not an answer.
    let fat_ack = peer.frame(Opcode::RC_ACKNOWLEDGE, 100, false, &[0x62, 0, 0, 0], &[1, 2, 3, 4]);
    assert_eq!(run(fat_ack), []);
    // Reserved syndromes are ignored.
    for syndrome in (0x40..=0x5F).chain(0x64..=0xFF) {
        assert_eq!(run(peer.ack(100, syndrome, 0)), [], "{syndrome:#04x}");
    }

    let mut s = Script::new(&Setup::default());
    s.post_write(1, 64);
    s.out();
    s.response(Opcode::RC_READ_RESP_ONLY, 100, &[]);
    assert_eq!(s.statuses(), [(1, BadRespErr)], "nobody asked for data");
}

#[test]
fn q18_psn_wrap() {
    let mut s = Script::new(&Setup { psn: [0xFF_FFFA, 0], ..Setup::default() });
    s.post_write(1, 16 * 1024);
    assert_eq!(s.out().len(), 16);
    let from_ffffff = s.ack(0xFF_FFFF, 0x60);
    assert_eq!((from_ffffff.len(), from_ffffff[0].as_str()), (11, "WRITE_MIDDLE 16777215 A"));
    let from_0 = s.ack(0, 0x60);
    assert_eq!((from_0.len(), from_0[0].as_str()), (10, "WRITE_MIDDLE 0 A"));
    assert!(s.ack(8, 0x1F).is_empty() && s.statuses().is_empty());
    assert!(s.ack(9, 0x1F).is_empty());
    assert_eq!(s.statuses(), [(1, Success)]);
    s.post_write(2, 64);
    assert_eq!(s.out(), ["WRITE_ONLY 10 A va+0x0 len 64"]);
}

#[test]
fn q18_read_across_the_wrap() {
    let mut s = Script::new(&Setup { psn: [0xFF_FFFE, 0], ..Setup::default() });
    s.post_read(1, 0, 4096);
    s.post_write(2, 1);
    assert_eq!(psns(&s.out()), [0xFF_FFFE, 2]);
    let data = pattern(1, 4096);
    s.response(Opcode::RC_READ_RESP_FIRST, 0xFF_FFFE, &data[..1024]);
    // 0xFFFFFF is lost; 0 implies it.
    let again = s.response(Opcode::RC_READ_RESP_MIDDLE, 0, &data[2048..3072]);
    assert_eq!(again, ["READ_REQUEST 16777215 A va+0x400 len 3072", "WRITE_ONLY 2 A va+0x0 len 1"]);
    s.response(Opcode::RC_READ_RESP_FIRST, 0xFF_FFFF, &data[1024..2048]);
    s.response(Opcode::RC_READ_RESP_MIDDLE, 0, &data[2048..3072]);
    s.response(Opcode::RC_READ_RESP_LAST, 1, &data[3072..]);
    s.ack(2, 0x1F);
    assert_eq!(s.statuses(), [(1, Success), (2, Success)]);
    assert_eq!(s.side.bytes(0, 4096), &data[..]);
}

#[test]
fn q19_zero_length_messages() {
    let mut s = Script::new(&Setup::default());
    let rkey = PEER_KEY;
    s.side.post(1, SendOp::Send, 0, 0);
    s.side.post(2, SendOp::SendImm(7), 0, 0);
    s.side.post(3, SendOp::Write { raddr: VA, rkey }, 0, 0);
    s.side.post(4, SendOp::WriteImm { raddr: VA, rkey, imm: 8 }, 0, 0);
    s.side.post(5, SendOp::Read { raddr: VA, rkey }, 0, 0);
    let sent = [
        "SEND_ONLY 100 A",
        "SEND_ONLY_IMM 101 A",
        "WRITE_ONLY 102 A va+0x0 len 0",
        "WRITE_ONLY_IMM 103 A va+0x0 len 0",
        "READ_REQUEST 104 A va+0x0 len 0",
    ];
    assert_eq!(s.out(), sent);
    s.ack(103, 0x1F);
    s.response(Opcode::RC_READ_RESP_ONLY, 104, &[]);
    assert_eq!(s.statuses(), (1..=5).map(|i| (i, Success)).collect::<Vec<_>>());
    assert!(s.side.done.completions.iter().all(|c| c.byte_len == 0));
    s.post_send(6, 0);
    assert_eq!(s.out(), ["SEND_ONLY 105 A"], "each took one PSN");
}

/// 2^23 PSNs or more must never be outstanding: old and new could not be told apart.
#[test]
fn a_long_read_waits_for_the_psns_before_it() {
    let mut s = Script::new(&Setup { mtu: Mtu::B256, ..Setup::default() });
    let rkey = PEER_KEY;
    let longest = (1u32 << 31) - 256;
    s.post_write(1, 256);
    s.side.post(2, SendOp::Read { raddr: VA, rkey }, 0, longest);
    s.post_write(3, 256);
    assert_eq!(s.out(), ["WRITE_ONLY 100 A va+0x0 len 256"]);
    assert_eq!(s.ack(100, 0x1F), ["READ_REQUEST 101 A va+0x0 len 2147483392"]);
    assert_eq!(s.side.qp.unacknowledged(), (1 << 23) - 1);
    // The window, not the arithmetic, holds what follows.
    assert!(s.response(Opcode::RC_READ_RESP_FIRST, 101, &[1; 256]).is_empty());
    assert_eq!(s.side.qp.unacknowledged(), (1 << 23) - 2);
}
