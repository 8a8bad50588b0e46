//! The unreliable connection: what the receiver gives up, and what its errors end.

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::Verdict;
use roce_engine::units::Duration;
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::Opcode as O;
use roce_engine::wire::*;

fn uc(receives: u64) -> Script {
    let mut s = Script::new(&Setup { ty: QpType::Uc, psn: [100, 50], ..Setup::default() });
    (0..receives).for_each(|i| s.side.recv(i, (1 << 19) + i as usize * 4096, 3000));
    s
}

/// Takes a packet without headers of `len` bytes; nothing is ever answered.
fn packet(s: &mut Script, opcode: O, psn: u32, len: usize) -> Verdict {
    let frame = s.peer.frame(opcode, psn, true, &[], &pattern(psn, len));
    let verdict = s.take(&frame);
    assert!(s.out().is_empty());
    verdict
}

const OK: Verdict = Verdict::Delivered;

fn dropped(reason: DropReason) -> Verdict {
    Verdict::Dropped(reason)
}

#[test]
fn a_gap_gives_the_message_up_and_keeps_its_receive() {
    let mut s = uc(2);
    assert_eq!(packet(&mut s, O::UC_SEND_FIRST, 50, 1024), OK);
    // 51 is lost.
    assert_eq!(packet(&mut s, O::UC_SEND_LAST, 52, 10), dropped(DropReason::OutOfSequenceDropped));
    assert_eq!(packet(&mut s, O::UC_SEND_MIDDLE, 53, 1024), dropped(DropReason::OutOfSequenceDropped));
    // A jump to a new message is taken.
    assert_eq!(packet(&mut s, O::UC_SEND_ONLY, 60, 33), OK);
    assert_eq!(packet(&mut s, O::UC_SEND_FIRST, 61, 1024), OK);
    assert_eq!(packet(&mut s, O::UC_SEND_LAST, 62, 5), OK);
    assert_eq!(s.statuses(), [(0, Success), (1, Success)], "receive 0 was used again");
    assert_eq!(s.side.done.completions[1].byte_len, 1029);
    assert_eq!(s.side.bytes(1 << 19, 33), &pattern(60, 33)[..]);
    assert_eq!(s.counters().out_of_sequence, 2);
}

#[test]
fn a_message_inside_a_message_begins_anew() {
    let mut s = uc(2);
    packet(&mut s, O::UC_SEND_FIRST, 50, 1024);
    assert_eq!(packet(&mut s, O::UC_SEND_FIRST, 51, 1024), OK);
    assert_eq!(packet(&mut s, O::UC_SEND_LAST, 52, 7), OK);
    assert_eq!(s.statuses(), [(0, Success)]);
    assert_eq!(s.side.bytes(1 << 19, 1024), &pattern(51, 1024)[..]);
    packet(&mut s, O::UC_SEND_FIRST, 53, 1024);
    assert_eq!(packet(&mut s, O::UC_WRITE_LAST, 54, 4), dropped(DropReason::OutOfSequenceDropped));
    assert_eq!(packet(&mut s, O::UC_SEND_LAST, 55, 4), dropped(DropReason::OutOfSequenceDropped));
}

#[test]
fn whatever_is_wrong_is_dropped_without_a_word() {
    let mut s = uc(1);
    s.side.fill(0, &[0xEE; 4096]);
    let key = s.key();
    assert_eq!(packet(&mut s, O::UC_SEND_FIRST, 50, 1000), dropped(DropReason::LengthError));
    assert_eq!(packet(&mut s, O::UC_SEND_ONLY, 51, 1028), dropped(DropReason::LengthError));
    // Too long for the receive of 3000 bytes: shows in the third packet.
    packet(&mut s, O::UC_SEND_FIRST, 52, 1024);
    packet(&mut s, O::UC_SEND_MIDDLE, 53, 1024);
    assert_eq!(packet(&mut s, O::UC_SEND_MIDDLE, 54, 1024), dropped(DropReason::LengthError));
    assert_eq!(packet(&mut s, O::UC_SEND_LAST, 55, 4), dropped(DropReason::OutOfSequenceDropped));
    let write = |s: &mut Script, psn, reth, payload: &[u8]| {
        let opcode = if payload.len() == 1024 { O::UC_WRITE_FIRST } else { O::UC_WRITE_ONLY };
        let frame = s.peer.write(opcode, psn, false, reth, payload);
        s.take(&frame)
    };
    assert_eq!(write(&mut s, 56, (VA, key ^ 1, 4), b"data"), dropped(DropReason::AccessError));
    assert_eq!(write(&mut s, 57, (u64::MAX - 1, key, 4), b"data"), dropped(DropReason::AccessError));
    assert_eq!(write(&mut s, 58, (VA, key, 5), b"data"), dropped(DropReason::LengthError));
    assert_eq!(write(&mut s, 59, (VA, key, 1024), &[1; 1024]), dropped(DropReason::LengthError));
    assert_eq!(s.side.bytes(0, 4096), [0xEE; 4096]);
    assert_eq!((s.state(), s.statuses()), (QpState::Rts, vec![]));
    // And a good one is still taken, with the receive that none of these used up.
    assert_eq!(packet(&mut s, O::UC_SEND_ONLY, 60, 4), OK);
    assert_eq!(packet(&mut s, O::UC_SEND_ONLY, 61, 4), dropped(DropReason::NoRecvWqe));
    assert_eq!(s.statuses(), [(0, Success)]);
    assert_eq!(write(&mut s, 62, (VA, key, 4), b"data"), OK);
    assert_eq!(s.side.bytes(0, 5), b"data\xEE");
    assert!(s.out().is_empty());
}

#[test]
fn without_the_right_to_write() {
    let setup = Setup { ty: QpType::Uc, psn: [100, 50], access: Access::NONE, ..Setup::default() };
    let mut s = Script::new(&setup);
    let key = s.key();
    let frame = s.peer.write(O::UC_WRITE_ONLY, 50, false, (VA, key, 4), b"data");
    assert_eq!(s.take(&frame), dropped(DropReason::AccessError));
    let frame = s.peer.frame(O::RC_SEND_ONLY, 51, false, &[], b"data");
    assert_eq!(s.take(&frame), dropped(DropReason::WrongTransport));
}

#[test]
fn write_with_immediate_takes_the_receive_at_its_end() {
    let mut s = uc(1);
    let key = s.key();
    let first = s.peer.write(O::UC_WRITE_FIRST, 50, false, (VA, key, 1028), &[5; 1024]);
    assert_eq!(s.take(&first), OK);
    let last = s.peer.frame(O::UC_WRITE_LAST_IMM, 51, false, &[0, 0, 0, 9], &[6; 4]);
    assert_eq!(s.take(&last), OK);
    let c = s.side.done.completions[0];
    assert_eq!((c.opcode, c.byte_len, c.imm), (WcOpcode::RecvRdmaWithImm, 1028, Some(9)));
    assert_eq!(s.side.bytes(1020, 8), [5, 5, 5, 5, 6, 6, 6, 6]);
    let (first, last) = (s.peer.write(O::UC_WRITE_FIRST, 52, false, (VA, key, 1028), &[7; 1024]), {
        s.peer.frame(O::UC_WRITE_LAST_IMM, 53, false, &[0, 0, 0, 9], &[8; 4])
    });
    s.take(&first);
    assert_eq!(s.take(&last), dropped(DropReason::NoRecvWqe));
}

/// A fault of the receiver's own memory ends the queue pair.
#[test]
fn a_receive_whose_memory_is_gone() {
    let mut s = uc(0);
    let sge = Sge { addr: VA, len: 64, lkey: MrKey(0xDEAD) };
    s.side.qp.post_recv(RecvWr { wr_id: 5, sge }).unwrap();
    s.side.recv(6, 0, 64);
    s.post_send(1, 64);
    assert_eq!(packet_quiet(&mut s, O::UC_SEND_ONLY, 50), dropped(DropReason::AccessError));
    assert_eq!(s.state(), QpState::Err);
    assert_eq!(s.statuses(), [(5, LocProtErr), (1, WrFlushErr), (6, WrFlushErr)]);
}

fn packet_quiet(s: &mut Script, opcode: O, psn: u32) -> Verdict {
    let frame = s.peer.frame(opcode, psn, false, &[], &[1]);
    s.take(&frame)
}

/// A fault of a send stops the send queue alone.
#[test]
fn a_send_error_leads_to_sqe_and_back() {
    let mut s = uc(1);
    s.post_send(1, 64);
    let sge = Sge { addr: VA, len: 64, lkey: MrKey(0xDEAD) };
    let flags = SendFlags::default();
    s.side.qp.post_send(SendWr { wr_id: 2, op: SendOp::Send, sge, flags }).unwrap();
    s.post_send(3, 64);
    assert_eq!(s.out(), ["UC_SEND_ONLY 100"]);
    assert_eq!(s.statuses(), [(1, Success), (2, LocProtErr), (3, WrFlushErr)]);
    assert_eq!(s.state(), QpState::Sqe);
    s.post_send(4, 64);
    assert!(s.pass(Duration::from_micros(1)).is_empty());
    assert_eq!(s.statuses()[3..], [(4, WrFlushErr)], "posts are flushed");
    assert_eq!(packet(&mut s, O::UC_SEND_ONLY, 50, 8), OK, "receiving goes on");
    s.side.qp.modify(Transition::Resume, &mut s.side.done).unwrap();
    s.post_send(5, 64);
    assert_eq!(s.out(), ["UC_SEND_ONLY 101"], "no PSN was lost");
    let c = s.counters();
    assert_eq!((c.psns_sent, c.psns_acked, c.psns_failed), (2, 2, 0));
}

#[test]
fn sqd_drains_between_messages() {
    let mut s = uc(0);
    s.post_send(1, 3000);
    s.post_send(2, 64);
    let mut slot = vec![0; 4400];
    let side = &mut s.side;
    side.qp.poll_transmit(s.now, &side.mem, &mut slot, &mut side.done);
    side.qp.modify(Transition::Sqd, &mut side.done).unwrap();
    assert_eq!(s.out(), ["UC_SEND_MIDDLE 101", "UC_SEND_LAST 102"]);
    assert_eq!((s.statuses(), &s.side.done.events[..]), (vec![(1, Success)], &[QpEvent::SqDrained][..]));
    s.side.qp.modify(Transition::Resume, &mut s.side.done).unwrap();
    assert_eq!(s.out(), ["UC_SEND_ONLY 103"]);
}

#[test]
fn psn_wraps() {
    let mut s = Script::new(&Setup { ty: QpType::Uc, psn: [0xFF_FFFF, 0xFF_FFFE], ..Setup::default() });
    s.side.recv(0, 0, 8192);
    s.post_write(1, 2048);
    assert_eq!(s.out(), ["UC_WRITE_FIRST 16777215 va+0x0 len 2048", "UC_WRITE_LAST 0"]);
    packet(&mut s, O::UC_SEND_FIRST, 0xFF_FFFE, 1024);
    packet(&mut s, O::UC_SEND_MIDDLE, 0xFF_FFFF, 1024);
    assert_eq!(packet(&mut s, O::UC_SEND_LAST, 0, 1), OK);
    assert_eq!(s.statuses(), [(1, Success), (0, Success)]);
}
