//! Congestion control and notification in a queue pair, against a scripted peer.

mod common;

use common::script::Script;
use common::*;
use roce_engine::cc::{DcqcnParams, Mark, NotificationConfig, RateControl, ReactionPoint};
use roce_engine::fabric::mark_ce;
use roce_engine::transport::Verdict;
use roce_engine::units::{Duration, Rate};
use roce_engine::verbs::{Access, QpState, Transition};
use roce_engine::wire::{DropReason, Ecn, Opcode, classify};

/// A queue pair under DCQCN on a 10 Gb/s line that is to send ten packets.
fn controlled(params: DcqcnParams) -> Script {
    let mut s = Script::new(&Setup { psn: [100, 50], window: 64, ..Setup::default() });
    s.side.qp.set_rate_control(dcqcn(params));
    s
}

fn dcqcn(params: DcqcnParams) -> RateControl {
    RateControl::Dcqcn(Box::new(ReactionPoint::new(params, Rate::from_gbps(10))))
}

/// Two of the periods that the preset has between cuts pass.
fn later(s: &mut Script) {
    s.now += Duration::from_micros(8);
}

#[test]
fn c07_a_nak_and_a_cnp_are_one_cut_and_one_go_back() {
    for slow_restart in [false, true] {
        for nak_first in [false, true] {
            let mut s = controlled(DcqcnParams { slow_restart, ..DcqcnParams::NVIDIA });
            s.post_write(1, 10 * 1024);
            assert_eq!(s.out().len(), 10);
            let (nak, cnp) = (s.peer.ack(105, 0x60, 0), s.peer.cnp());
            let frames = if nak_first { [nak, cnp] } else { [cnp, nak] };
            for frame in frames {
                assert_eq!(s.take(&frame), Verdict::Delivered);
                s.now += Duration::from_nanos(500);
            }
            later(&mut s);
            let state = s.side.qp.rate_control().state(s.now).unwrap();
            assert_eq!(state.cuts, 1, "slow restart {slow_restart}, NAK first {nak_first}: {state:?}");
            let sent = s.pass(Duration::from_micros(100));
            assert_eq!(sent.len(), 5, "{sent:?}");
            let c = s.counters();
            assert_eq!((c.packet_seq_err, c.rp_cnp_handled, c.rp_cnp_ignored), (1, 1, 0));
            assert_eq!(c.retransmits, 5);
        }
    }
}

#[test]
fn a_loss_slows_down_where_slow_restart_is_on() {
    for slow_restart in [false, true] {
        let mut s = controlled(DcqcnParams { slow_restart, ..DcqcnParams::NVIDIA });
        s.post_write(1, 10 * 1024);
        s.out();
        // 4.096 us x 2^10 without an answer.
        s.pass(Duration::from_micros(4300));
        assert_eq!(s.counters().local_ack_timeout_err, 1);
        let state = s.side.qp.rate_control().state(s.now).unwrap();
        assert_eq!((state.active, state.cuts), (slow_restart, u64::from(slow_restart)));
    }
}

#[test]
fn a_cnp_spaces_what_follows() {
    let params = DcqcnParams { rate_to_set_on_first_cnp: 100, ..DcqcnParams::NVIDIA };
    let mut s = controlled(params);
    s.now += Duration::from_millis(1);
    let cnp = s.peer.cnp();
    s.take(&cnp);
    s.post_write(1, 10 * 1024);
    let sent = s.pass(Duration::from_micros(250));
    // 100 Mb/s, half of it after 4 us: 1106 bytes are 88.5 us, then 177 us.
    let at: Vec<u64> = sent.iter().map(|(us, _)| us - 1000).collect();
    assert_eq!(at.len(), 3, "{sent:?}");
    assert!(at[0] == 0 && (60..110).contains(&at[1]) && (170..190).contains(&(at[2] - at[1])), "{at:?}");
}

#[test]
fn read_responses_are_under_control_and_acks_are_not() {
    let params = DcqcnParams { rate_to_set_on_first_cnp: 100, ..DcqcnParams::NVIDIA };
    let mut s = controlled(params);
    s.now += Duration::from_millis(1);
    let cnp = s.peer.cnp();
    s.take(&cnp);
    let read = s.peer.read(50, (VA, s.key(), 4096));
    s.take(&read);
    let sent = s.pass(Duration::from_micros(2000));
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert!(sent[3].0 - sent[0].0 > 300, "{sent:?}");
    // The limiter is busy now; an ACK leaves at once.
    let answer = s.request(Opcode::RC_SEND_ONLY, 54, true, &[1; 8]);
    assert_eq!(answer.len(), 1, "RNR NAK: {answer:?}");
}

#[test]
fn cnps_of_strangers_do_nothing() {
    let mut s = controlled(DcqcnParams::NVIDIA);
    for route in [route(9, 1), route(2, 9)] {
        let spoofed = Peer::with(&route, 0xFFFF, 0x11).cnp();
        assert_eq!(s.take(&spoofed), Verdict::Dropped(DropReason::WrongAddress));
    }
    let mut alien = Peer::with(&route(2, 1), 0x1234, 0x11);
    assert_eq!(s.take(&alien.cnp()), Verdict::Dropped(DropReason::PkeyMismatch));
    later(&mut s);
    let state = s.side.qp.rate_control().state(s.now).unwrap();
    assert!(!state.active && state.cuts == 0, "{state:?}");
    assert_eq!(s.counters().rp_cnp_handled, 0);
}

#[test]
fn c03_what_cnps_look_like_and_what_breeds_them() {
    let mut s = Script::new(&Setup { psn: [100, 50], access: Access::ALL, ..Setup::default() });
    s.side.recv(1, 0, 1024);
    let config = NotificationConfig::default();
    let plain = s.peer.frame(Opcode::RC_SEND_ONLY, 50, false, &[], &[1; 8]);
    let mut marked = plain.clone();
    assert!(mark_ce(&mut marked));
    assert_eq!(s.take(&marked), Verdict::Delivered);
    assert_eq!(s.side.qp.take_mark(), Some(Mark::Congestion));
    assert_eq!(s.side.qp.take_mark(), None, "told once");
    s.side.qp.notify(&config);
    let frames = s.frames();
    let p = classify(&frames[0]).unwrap();
    assert!(p.verify_icrc());
    assert_eq!((p.bth.opcode, p.tos, p.ecn()), (Opcode::CNP, 0xC0, Ecn::NotEct));
    assert!(p.bth.becn && !p.bth.ack_req);
    assert_eq!((p.bth.pkey, p.bth.dest_qp.get(), p.bth.psn.get()), (0xFFFF, 0x12, 0));
    assert_eq!(s.counters().np_cnp_sent, 1);
    // Without a mark, or from a CNP that has one, nothing follows.
    s.take(&plain);
    assert_eq!(s.side.qp.take_mark(), None);
    let mut cnp = s.peer.cnp();
    assert!(mark_ce(&mut cnp));
    assert_eq!(s.take(&cnp), Verdict::Delivered);
    assert_eq!(s.side.qp.take_mark(), None);
    assert_eq!(s.counters().np_ecn_marked_roce_packets, 2);
}

#[test]
fn a_sequence_nak_is_a_mark_of_its_own() {
    let mut s = Script::new(&Setup { psn: [100, 50], ..Setup::default() });
    let ahead = s.peer.frame(Opcode::RC_SEND_ONLY, 52, false, &[], &[1; 8]);
    assert_eq!(s.take(&ahead), Verdict::Answered);
    assert_eq!(s.side.qp.take_mark(), Some(Mark::SequenceNak));
    // The second one in the same gap has no NAK of its own.
    s.take(&ahead);
    assert_eq!(s.side.qp.take_mark(), None);
}

#[test]
fn a_queue_pair_in_error_notifies_nobody() {
    let mut s = Script::new(&Setup::default());
    s.side.qp.notify(&NotificationConfig::default());
    s.side.qp.modify(Transition::Err, &mut s.side.done).unwrap();
    assert_eq!(s.side.qp.state(), QpState::Err);
    assert!(s.out().is_empty());
}
