//! The shared receive queue: who takes, who is told, what an error leaves alone.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use roce_engine::transport::Verdict;
use roce_engine::units::Instant;
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

const SRQN: Srqn = Srqn::new(0);

/// Queue pairs of one kind that share a queue, each with its peer.  Their memories look alike, so
/// that a request of the queue fits any of them.
struct Shared {
    srq: SharedReceiveQueue,
    sides: Vec<Side>,
    peers: Vec<Peer>,
    next: Vec<u32>,
}

impl Shared {
    fn new(ty: QpType, qps: usize, receives: u64) -> Shared {
        let setup = Setup { ty, srq: Some(SRQN), credits: true, ..Setup::default() };
        let mut shared = Shared {
            srq: SharedReceiveQueue::new(16),
            sides: (0..qps).map(|_| Side::new(0, &setup)).collect(),
            peers: (0..qps).map(|_| Peer::to(0)).collect(),
            next: vec![5000; qps],
        };
        (0..receives).for_each(|wr_id| shared.post(wr_id, 2048));
        shared
    }

    fn post(&mut self, wr_id: u64, len: u32) {
        let sge = self.sides[0].sge(wr_id as usize * 4096, len);
        self.srq.post(RecvWr { wr_id, sge }).unwrap();
    }

    /// A packet to queue pair `qp`, and what that says.
    fn packet(&mut self, qp: usize, opcode: Opcode, payload: &[u8]) -> (Verdict, Vec<String>) {
        let frame = self.peers[qp].frame(opcode, self.next[qp], true, &[], payload);
        self.next[qp] += 1;
        let verdict = self.take(qp, &frame);
        (verdict, show_all(&self.sides[qp].drain(Instant::ZERO)))
    }

    fn take(&mut self, qp: usize, frame: &[u8]) -> Verdict {
        let side = &mut self.sides[qp];
        let p = classify(frame).unwrap();
        side.qp.on_packet_shared(Instant::ZERO, &p, &mut side.mem, &mut self.srq, &mut side.done)
    }

    fn send(&mut self, qp: usize) -> Vec<String> {
        self.packet(qp, Opcode::RC_SEND_ONLY, b"data").1
    }
}

#[test]
fn requests_go_to_whoever_comes_first() {
    let mut s = Shared::new(QpType::Rc, 2, 3);
    // Shared receives are promised to nobody: no credits.
    assert_eq!(s.send(0), ["ACKNOWLEDGE 5000 0x1f msn 1"]);
    assert_eq!(s.send(1), ["ACKNOWLEDGE 5000 0x1f msn 1"]);
    assert_eq!(s.send(1), ["ACKNOWLEDGE 5001 0x1f msn 2"]);
    assert_eq!(s.sides[0].statuses(), [(0, Success)]);
    assert_eq!(s.sides[1].statuses(), [(1, Success), (2, Success)]);
    assert_eq!(s.sides[1].bytes(2 * 4096, 4), b"data");
}

#[test]
fn an_empty_queue_is_not_ready() {
    let mut s = Shared::new(QpType::Rc, 2, 1);
    s.send(0);
    assert_eq!(s.send(1), ["ACKNOWLEDGE 5000 0x21 msn 0"], "RNR NAK");
    assert_eq!(s.sides[1].qp.counters().out_of_buffer, 1);
    s.post(9, 64);
    s.next[1] = 5000;
    assert_eq!(s.send(1), ["ACKNOWLEDGE 5000 0x1f msn 1"]);
    assert_eq!(s.sides[1].statuses(), [(9, Success)]);
}

#[test]
fn one_limit_event_each_time_it_is_armed() {
    let mut s = Shared::new(QpType::Rc, 2, 6);
    s.srq.arm(4);
    s.send(0);
    s.send(1);
    assert!(s.sides.iter().all(|q| !q.done.events.contains(&QpEvent::SrqLimit(SRQN))), "4 are left");
    s.send(1);
    s.send(0);
    assert_eq!(s.sides[1].done.events, [QpEvent::SrqLimit(SRQN)]);
    assert_eq!(s.sides[0].done.events, []);
    s.srq.arm(2);
    s.send(0);
    assert_eq!(s.sides[0].done.events, [QpEvent::SrqLimit(SRQN)]);
}

/// What a queue pair has taken is its own; the rest belongs to the others.
#[test]
fn an_error_leaves_the_queue_to_the_others() {
    let mut s = Shared::new(QpType::Rc, 2, 3);
    assert_eq!(s.packet(0, Opcode::RC_SEND_FIRST, &[1; 1024]).0, Verdict::Delivered);
    let (_, said) = s.packet(0, Opcode::RC_WRITE_MIDDLE, &[1; 1024]);
    assert_eq!(said, ["ACKNOWLEDGE 5001 0x61 msn 0"]);
    assert_eq!(s.sides[0].qp.state(), QpState::Err);
    assert_eq!(s.sides[0].statuses(), [(0, RemInvReqErr)], "the request that it had taken");
    assert_eq!(s.sides[0].done.events, [QpEvent::Fatal(RemInvReqErr), QpEvent::LastWqeReached]);
    assert_eq!(s.srq.len(), 2);
    s.send(1);
    assert_eq!(s.sides[1].statuses(), [(1, Success)]);
    // By order of its owner, in the middle of a message, and told once.
    s.packet(1, Opcode::RC_SEND_FIRST, &[1; 1024]);
    let side = &mut s.sides[1];
    side.qp.modify(Transition::Err, &mut side.done).unwrap();
    side.qp.modify(Transition::Err, &mut side.done).unwrap();
    assert_eq!(side.statuses(), [(1, Success), (2, WrFlushErr)]);
    assert_eq!(side.done.events, [QpEvent::LastWqeReached]);
    assert_eq!(side.qp.next_deadline(), None);
}

#[test]
fn unreliable_connections_share_too() {
    let mut s = Shared::new(QpType::Uc, 2, 2);
    s.packet(0, Opcode::UC_SEND_FIRST, &[1; 1024]);
    s.packet(1, Opcode::UC_SEND_ONLY, b"data");
    s.packet(0, Opcode::UC_SEND_LAST, b"data");
    assert_eq!(s.sides[0].statuses(), [(0, Success)]);
    assert_eq!(s.sides[1].statuses(), [(1, Success)]);
    let none = Verdict::Dropped(DropReason::NoRecvWqe);
    assert_eq!(s.packet(1, Opcode::UC_SEND_ONLY, b"data").0, none);
}

#[test]
fn it_has_no_receive_queue_of_its_own() {
    let mut s = Shared::new(QpType::Rc, 1, 1);
    let sge = s.sides[0].sge(0, 64);
    assert_eq!(s.sides[0].qp.post_recv(RecvWr { wr_id: 1, sge }), Err(PostError::Unsupported));
    assert_eq!(s.sides[0].qp.srq(), Some(SRQN));
    // And a queue pair without a shared queue does not touch one that is lent to it.
    let mut own = Side::new(0, &Setup::default());
    own.recv(7, 0, 64);
    let frame = s.peers[0].frame(Opcode::RC_SEND_ONLY, 5000, true, &[], b"data");
    let p = classify(&frame).unwrap();
    own.qp.on_packet_shared(Instant::ZERO, &p, &mut own.mem, &mut s.srq, &mut own.done);
    assert_eq!((own.statuses(), s.srq.len()), (vec![(7, Success)], 1));
}
