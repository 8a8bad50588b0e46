//! The states of a queue pair: what each takes, sends and tells.
#![allow(clippy::unwrap_used)]

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::Verdict;
use roce_engine::units::{Duration, Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

/// A queue pair brought to `state`; it expects PSN 50 and sends from 100.
fn in_state(state: QpState) -> Script {
    let mut s = Script::new(&Setup { psn: [100, 50], ..Setup::default() });
    reconnect(&mut s, state);
    s
}

fn reconnect(s: &mut Script, state: QpState) {
    let modify = |s: &mut Script, t| s.side.qp.modify(t, &mut s.side.done).unwrap();
    modify(s, Transition::Reset);
    let steps = [
        (QpState::Init, Transition::Init(InitAttrs { access: Access::ALL, pkey: 0xFFFF })),
        (
            QpState::Rtr,
            Transition::Rtr(Box::new(RtrAttrs {
                route: route(1, 2),
                mtu: Mtu::B1024,
                dest_qpn: Qpn::new(0x12),
                rq_psn: Psn::new(50),
                max_dest_rd_atomic: 4,
                min_rnr_timer: 1,
            })),
        ),
        (
            QpState::Rts,
            Transition::Rts(RtsAttrs {
                sq_psn: Psn::new(100),
                timeout: 8,
                retry_cnt: 1,
                rnr_retry: 1,
                max_rd_atomic: 4,
            }),
        ),
        (QpState::Sqd, Transition::Sqd),
    ];
    if state == QpState::Err {
        modify(s, steps[0].1.clone());
        modify(s, Transition::Err);
    } else if state != QpState::Reset {
        for (reached, step) in steps {
            modify(s, step);
            if reached == state {
                break;
            }
        }
    }
    assert_eq!(s.state(), state);
}

const ALL: [QpState; 6] =
    [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Err];

#[test]
fn what_each_state_takes() {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    for state in ALL {
        let mut s = in_state(state);
        let sge = s.side.sge(0, 64);
        let recv = s.side.qp.post_recv(RecvWr { wr_id: 1, sge });
        let recv_error = (state == Reset).then_some(PostError::State(Reset));
        assert_eq!(recv.err(), recv_error, "{state:?}");
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let post = s.side.qp.post_send(SendWr { wr_id: 2, op: SendOp::Send, sge, flags });
        let post_error = matches!(state, Reset | Init | Rtr).then_some(PostError::State(state));
        assert_eq!(post.err(), post_error, "{state:?}");

        let request = s.peer.frame(Opcode::RC_SEND_ONLY, 50, true, &[], &[7]);
        let processed = matches!(state, Rtr | Rts | Sqd);
        let drop = Verdict::Dropped(DropReason::QpState);
        assert_eq!(s.take(&request), if processed { Verdict::Delivered } else { drop }, "{state:?}");
        let sent = s.out();
        let ack = sent.contains(&"ACKNOWLEDGE 50 0x1f msn 1".to_string());
        assert_eq!(ack, processed, "{state:?} {sent:?}");
        // SQD holds what was posted in it.
        assert_eq!(sent.contains(&"SEND_ONLY 100 A".to_string()), state == Rts, "{state:?}");
        let response = s.peer.ack(100, 0x1F, 0);
        let want = match state {
            Rts => Verdict::Delivered,
            Sqd => Verdict::Dropped(DropReason::GhostAck),
            _ => drop,
        };
        assert_eq!(s.take(&response), want, "{state:?}");
        // Only ERR flushes, at the next deadline.
        if state == Err {
            assert_eq!(s.statuses(), []);
            assert_eq!(s.side.qp.next_deadline(), Some(Instant::ZERO));
            s.side.qp.on_deadline(s.now, &mut s.side.done);
            assert_eq!(s.statuses(), [(2, WrFlushErr), (1, WrFlushErr)]);
            assert_eq!(s.side.qp.next_deadline(), None);
            assert!(s.out().is_empty());
        }
    }
}

#[test]
fn a_receive_posted_in_init_serves_later() {
    let mut s = in_state(QpState::Init);
    s.side.recv(4, 256, 64);
    let rtr = RtrAttrs {
        route: route(1, 2),
        mtu: Mtu::B1024,
        dest_qpn: Qpn::new(0x12),
        rq_psn: Psn::new(50),
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
    };
    s.side.qp.modify(Transition::Rtr(Box::new(rtr)), &mut s.side.done).unwrap();
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, b"hello"), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    assert_eq!((s.statuses(), s.side.bytes(256, 5)), (vec![(4, Success)], &b"hello"[..]));
}

#[test]
fn communication_established_is_told_once_and_only_in_rtr() {
    let mut s = in_state(QpState::Rtr);
    let mut stranger = Peer::with(&route(9, 1), 0xFFFF, 0x11);
    s.take(&stranger.frame(Opcode::RC_SEND_ONLY, 50, true, &[], &[]));
    s.ack(100, 0x1F);
    assert_eq!(s.side.done.events, []);
    s.side.recv(1, 0, 64);
    s.side.recv(2, 0, 64);
    s.request(Opcode::RC_SEND_ONLY, 50, true, &[]);
    s.request(Opcode::RC_SEND_ONLY, 51, true, &[]);
    assert_eq!(s.side.done.events, [QpEvent::CommEst]);
    let mut s = in_state(QpState::Rts);
    s.side.recv(1, 0, 64);
    s.request(Opcode::RC_SEND_ONLY, 50, true, &[]);
    assert_eq!(s.side.done.events, []);
}

#[test]
fn drained_is_told_once_for_each_time_in_sqd() {
    let mut s = in_state(QpState::Rts);
    let modify = |s: &mut Script, t| s.side.qp.modify(t, &mut s.side.done).unwrap();
    s.post_write(1, 64);
    s.out();
    modify(&mut s, Transition::Sqd);
    s.post_write(2, 64);
    assert_eq!((s.out(), s.side.done.events.len()), (vec![], 0));
    // The timer still works for what has started; the other waits.
    assert_eq!(s.pass(Duration::from_micros(1_100)), [(1048, "WRITE_ONLY 100 A va+0x0 len 64".into())]);
    s.ack(100, 0x1F);
    assert_eq!(s.side.done.events, [QpEvent::SqDrained]);
    // Posting in SQD, and packets after that, tell nothing new.
    s.post_write(3, 64);
    s.ack(100, 0x1F);
    s.side.qp.on_deadline(s.now, &mut s.side.done);
    assert_eq!((s.out(), s.side.done.events.len()), (vec![], 1));
    modify(&mut s, Transition::Resume);
    assert_eq!(s.out(), ["WRITE_ONLY 101 A va+0x0 len 64", "WRITE_ONLY 102 A va+0x0 len 64"]);
    s.ack(102, 0x1F);
    assert_eq!(s.statuses(), [(1, Success), (2, Success), (3, Success)]);
    modify(&mut s, Transition::Sqd);
    assert_eq!(s.side.done.events.len(), 2, "drained at once, and told");
}

#[test]
fn rnr_and_go_back_in_sqd() {
    let mut s = in_state(QpState::Rts);
    s.post_send(1, 3000);
    s.post_send(2, 64);
    let mut slot = vec![0; 4400];
    let side = &mut s.side;
    side.qp.poll_transmit(s.now, &side.mem, &mut slot, &mut side.done);
    side.qp.modify(Transition::Sqd, &mut side.done).unwrap();
    assert_eq!(s.out(), ["SEND_MIDDLE 101", "SEND_LAST 102 A"], "the started message goes on");
    assert!(s.ack(100, 0x21).is_empty());
    let again = s.pass(Duration::from_micros(10));
    assert_eq!(again.len(), 3, "{again:?}");
    assert_eq!(s.ack(101, 0x60), ["SEND_MIDDLE 101 A", "SEND_LAST 102 A"]);
    s.ack(102, 0x1F);
    assert_eq!((s.statuses(), &s.side.done.events[..]), (vec![(1, Success)], &[QpEvent::SqDrained][..]));
    // ERR from here flushes what was held.
    s.side.qp.modify(Transition::Err, &mut s.side.done).unwrap();
    assert_eq!(s.statuses(), [(1, Success), (2, WrFlushErr)]);
}

#[test]
fn err_flushes_sends_then_receives() {
    let mut s = in_state(QpState::Rts);
    s.side.recv(10, 0, 64);
    s.side.recv(11, 0, 64);
    s.post_write(1, 4096);
    s.post_read(2, 0, 64);
    s.out();
    s.post_send(3, 64);
    s.side.qp.modify(Transition::Err, &mut s.side.done).unwrap();
    let want = [1, 2, 3, 10, 11].map(|id| (id, WrFlushErr));
    assert_eq!(s.statuses(), want);
    assert_eq!(s.side.done.events, [], "nobody did anything wrong");
    let c = s.counters();
    assert_eq!((c.psns_sent, c.psns_acked, c.psns_failed), (5, 0, 5));
    assert!(s.pass(Duration::from_secs(10)).is_empty());
}

#[test]
fn reset_forgets_all_and_the_next_connection_works() {
    let mut s = in_state(QpState::Rts);
    s.side.recv(10, 0, 4096);
    s.side.recv(11, 0, 64);
    s.post_write(1, 4096);
    s.post_read(2, 0, 64);
    s.out();
    s.request(Opcode::RC_SEND_FIRST, 50, false, &[1; 1024]);
    s.request(Opcode::RC_SEND_MIDDLE, 60, false, &[1; 1024]);
    reconnect(&mut s, QpState::Rts);
    assert_eq!(s.statuses(), [], "RESET completes nothing");
    let c = s.counters();
    assert_eq!((c.psns_sent, c.psns_acked, c.psns_failed), (5, 0, 5), "the balance holds");
    assert_eq!((s.side.qp.outstanding(), s.side.qp.next_deadline()), (0, None));
    s.side.recv(1, 0, 64);
    assert_eq!(s.request(Opcode::RC_SEND_ONLY, 50, true, &[1]), ["ACKNOWLEDGE 50 0x1f msn 1"]);
    s.post_read(3, 0, 64);
    assert_eq!(s.out(), ["READ_REQUEST 100 A va+0x0 len 64"]);
    assert_eq!(s.statuses(), [(1, Success)]);
}
