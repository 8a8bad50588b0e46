//! The requester: what posting refuses, what completes and when, which packets ask for an ACK.

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::Verdict;
use roce_engine::units::{Duration, Mtu};
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;

fn flags(signaled: bool) -> SendFlags {
    SendFlags { signaled, ..SendFlags::default() }
}

/// Indices of the packets that ask for an ACK.
fn asking(lines: &[String]) -> Vec<usize> {
    (0..lines.len()).filter(|i| lines[*i].split(' ').nth(2) == Some("A")).collect()
}

#[test]
fn fatal_naks() {
    let cases = [(0x61, RemInvReqErr), (0x62, RemAccessErr), (0x63, RemOpErr)];
    for (syndrome, status) in cases {
        let mut s = Script::new(&Setup::default());
        s.side.recv(77, 0, 64);
        (1..=4).for_each(|i| s.post_write(i, 64));
        s.out();
        assert!(s.ack(101, syndrome).is_empty());
        let want = [(1, Success), (2, status), (3, WrFlushErr), (4, WrFlushErr), (77, WrFlushErr)];
        assert_eq!(s.statuses(), want);
        assert_eq!((s.state(), s.side.qp.next_deadline()), (QpState::Err, None));
        assert_eq!(s.side.done.events, [QpEvent::Fatal(status)]);
        let c = s.counters();
        assert_eq!((c.psns_sent, c.psns_acked, c.psns_failed), (4, 1, 3));
        assert_eq!((c.req_cqe_error, c.req_cqe_flush_error, c.resp_cqe_flush_error), (1, 2, 1));
        assert!(s.pass(Duration::from_secs(100)).is_empty(), "silence");
        assert_eq!(s.take(&Peer::to(0).ack(103, 0x1F, 0)), Verdict::Dropped(DropReason::QpState));
    }
}

/// An unanswered READ before the refused request ends in its place: the peer answers no more.
#[test]
fn fatal_nak_behind_an_unanswered_read() {
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 64);
    s.post_read(2, 0, 2048);
    s.post_write(3, 64);
    s.out();
    s.ack(103, 0x62);
    assert_eq!(s.statuses(), [(1, Success), (2, RemAccessErr), (3, WrFlushErr)]);
}

#[test]
fn nak_in_the_middle_of_a_read() {
    let data = pattern(1, 1024);
    let half = |s: &mut Script| {
        s.post_read(1, 0, 4096);
        s.post_write(2, 64);
        s.out();
        s.response(Opcode::RC_READ_RESP_FIRST, 100, &data);
        s.response(Opcode::RC_READ_RESP_MIDDLE, 101, &data);
    };
    let mut s = Script::new(&Setup::default());
    half(&mut s);
    s.ack(102, 0x62);
    assert_eq!(s.statuses(), [(1, RemAccessErr), (2, WrFlushErr)]);

    let mut s = Script::new(&Setup::default());
    half(&mut s);
    let again = ["READ_REQUEST 102 A va+0x800 len 2048", "WRITE_ONLY 104 A va+0x0 len 64"];
    assert_eq!(s.ack(102, 0x60), again);
    // A NAK further on implies that the responses between were lost.
    let mut s = Script::new(&Setup::default());
    half(&mut s);
    assert_eq!(s.ack(103, 0x60), again);
    assert_eq!(s.counters().implied_nak_seq_err, 1);
}

#[test]
fn a_restarted_read_takes_both_forms_of_answer() {
    use Opcode as O;
    let data = pattern(5, 3072);
    // FIRST, LAST by the book; MIDDLE, LAST is rxe's way.
    let forms =
        [[O::RC_READ_RESP_FIRST, O::RC_READ_RESP_LAST], [O::RC_READ_RESP_MIDDLE, O::RC_READ_RESP_LAST]];
    for form in forms {
        let mut s = Script::new(&Setup::default());
        s.post_read(1, 0, 3072);
        s.out();
        s.response(O::RC_READ_RESP_FIRST, 100, &data[..1024]);
        assert_eq!(s.response(O::RC_READ_RESP_LAST, 102, &data[2048..]).len(), 1, "101 was lost");
        s.response(form[0], 101, &data[1024..2048]);
        s.response(form[1], 102, &data[2048..]);
        assert_eq!(s.statuses(), [(1, Success)], "{form:?}");
        assert_eq!(s.side.bytes(0, 3072), &data[..]);
    }
    for form in [O::RC_READ_RESP_ONLY, O::RC_READ_RESP_LAST] {
        let mut s = Script::new(&Setup::default());
        s.post_read(1, 0, 3072);
        s.out();
        s.response(O::RC_READ_RESP_FIRST, 100, &data[..1024]);
        s.response(O::RC_READ_RESP_MIDDLE, 101, &data[1024..2048]);
        let again = s.pass(Duration::from_micros(4_195));
        assert_eq!(again, [(4194, "READ_REQUEST 102 A va+0x800 len 1024".into())]);
        s.response(form, 102, &data[2048..]);
        assert_eq!(s.statuses(), [(1, Success)], "{form:?}");
        assert_eq!(s.side.bytes(0, 3072), &data[..]);
    }
    // FIRST where nothing was asked again makes no sense.
    let mut s = Script::new(&Setup::default());
    s.post_read(1, 0, 3072);
    s.out();
    s.response(O::RC_READ_RESP_FIRST, 100, &data[..1024]);
    s.response(O::RC_READ_RESP_FIRST, 101, &data[1024..2048]);
    assert_eq!(s.statuses(), [(1, BadRespErr)]);
}

/// Late answers of the first round that come before the READ is asked again move it on.
#[test]
fn a_restart_asks_only_for_what_is_missing() {
    let mut s = Script::new(&Setup::default());
    s.post_read(1, 0, 4096);
    s.out();
    let data = pattern(5, 4096);
    s.now = at_us(5_000);
    s.side.qp.on_deadline(s.now, &mut s.side.done);
    s.take(&Peer::to(0).read_response(Opcode::RC_READ_RESP_FIRST, 100, &data[..1024]));
    s.take(&Peer::to(0).read_response(Opcode::RC_READ_RESP_MIDDLE, 101, &data[1024..2048]));
    assert_eq!(s.out(), ["READ_REQUEST 102 A va+0x800 len 2048"]);
}

#[test]
fn x04_forged_naks_and_acks() {
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 2048);
    s.post_write(2, 2048);
    assert_eq!(s.out().len(), 4);
    s.ack(101, 0x1F);
    let before = format!("{:?}", s.side.qp);
    let mut stranger = Peer::with(&route(9, 1), 0xFFFF, 0x11);
    for (psn, syndrome) in [(102, 0x62), (103, 0x1F), (102, 0x20), (102, 0x60)] {
        let forged = stranger.ack(psn, syndrome, 0);
        assert_eq!(s.take(&forged), Verdict::Dropped(DropReason::WrongAddress));
    }
    for syndrome in [0x1F, 0x20, 0x60, 0x61, 0x62, 0x63] {
        for psn in [104, 105, 5000, 102 + (1 << 23)] {
            let ghost = s.peer.ack(psn, syndrome, 0);
            let want = Verdict::Dropped(DropReason::GhostAck);
            assert_eq!(s.take(&ghost), want, "{psn} {syndrome:#x}");
        }
        for psn in [100, 101, 0xFF_FFFF] {
            let stale = s.peer.ack(psn, syndrome, 0);
            assert_eq!(s.take(&stale), Verdict::Dropped(DropReason::StaleResponse));
        }
    }
    assert_eq!(format!("{:?}", s.side.qp), before, "none changes state");
    assert!(s.out().is_empty());
    s.ack(103, 0x1F);
    assert_eq!(s.statuses(), [(1, Success), (2, Success)]);
}

#[test]
fn one_ack_covers_all_before_it() {
    let mut s = Script::new(&Setup::default());
    (1..=5).for_each(|i| s.post_write(i, 2048));
    assert_eq!(s.out().len(), 10);
    s.ack(104, 0x1F);
    assert_eq!(s.statuses(), [(1, Success), (2, Success)], "half of the third is acknowledged");
    assert_eq!(s.side.qp.unacknowledged(), 5);
    s.ack(109, 0x1F);
    assert_eq!(s.statuses(), (1..=5).map(|i| (i, Success)).collect::<Vec<_>>());
    // A READ's answer is an ACK for what precedes it.
    s.post_send(6, 64);
    s.post_read(7, 0, 64);
    s.out();
    s.response(Opcode::RC_READ_RESP_ONLY, 111, &[1; 64]);
    assert_eq!(s.statuses()[5..], [(6, Success), (7, Success)]);
    // Credits are not used: any code acknowledges.
    s.post_send(8, 64);
    s.out();
    s.ack(112, 0x00);
    assert_eq!(s.statuses()[7..], [(8, Success)]);
}

#[test]
fn unsignaled_requests_complete_only_in_error() {
    let mut s = Script::new(&Setup::default());
    let sge = s.side.sge(0, 64);
    for wr_id in 1..=4 {
        let wr = SendWr { wr_id, op: SendOp::Send, sge, flags: flags(wr_id == 2) };
        s.side.qp.post_send(wr).unwrap();
    }
    s.out();
    s.ack(101, 0x1F);
    assert_eq!(s.statuses(), [(2, Success)]);
    assert_eq!((s.side.qp.send_room(), s.side.qp.outstanding()), (126, 2));
    s.ack(102, 0x62);
    assert_eq!(s.statuses(), [(2, Success), (3, RemAccessErr), (4, WrFlushErr)]);
}

#[test]
fn completions_say_what_was_done() {
    let mut s = Script::new(&Setup::default());
    let rkey = PEER_KEY;
    s.side.post(1, SendOp::SendInv(MrKey(9)), 0, 10);
    s.side.post(2, SendOp::WriteImm { raddr: VA, rkey, imm: 1 }, 0, 2000);
    s.side.post(3, SendOp::FetchAdd { raddr: VA, rkey, add: 1 }, 64, 8);
    s.side.post(4, SendOp::CompareSwap { raddr: VA, rkey, compare: 1, swap: 2 }, 72, 8);
    let sent = [
        "SEND_ONLY_INV 100 A",
        "WRITE_FIRST 101 va+0x0 len 2000",
        "WRITE_LAST_IMM 102 A",
        "FETCH_ADD 103 A",
        "COMPARE_SWAP 104 A",
    ];
    assert_eq!(s.out(), sent);
    let (a, b) = (s.peer.atomic_ack(103, 41), s.peer.atomic_ack(104, 42));
    s.take(&b);
    assert_eq!(s.statuses().len(), 2, "104 shows that the answer to 103 was lost");
    assert_eq!(s.out(), ["FETCH_ADD 103 A", "COMPARE_SWAP 104 A"]);
    s.take(&a);
    s.take(&b);
    let got: Vec<_> = s.side.done.completions.iter().map(|c| (c.wr_id, c.opcode, c.byte_len)).collect();
    let want = [
        (1, WcOpcode::Send, 10),
        (2, WcOpcode::RdmaWrite, 2000),
        (3, WcOpcode::FetchAdd, 8),
        (4, WcOpcode::CompareSwap, 8),
    ];
    assert_eq!(got, want);
    assert_eq!(s.side.bytes(64, 16), [41u64.to_ne_bytes(), 42u64.to_ne_bytes()].concat());
}

#[test]
fn post_errors() {
    let mut s = Script::new(&Setup { depth: 2, recv_depth: 1, ..Setup::default() });
    let sge = s.side.sge(0, 64);
    let post = |s: &mut Script, op, len| {
        s.side.qp.post_send(SendWr { wr_id: 0, op, sge: Sge { len, ..sge }, flags: flags(true) })
    };
    let (raddr, rkey) = (VA, PEER_KEY);
    let read = SendOp::Read { raddr, rkey };
    let add = SendOp::FetchAdd { raddr, rkey, add: 1 };
    assert_eq!(post(&mut s, SendOp::Send, (1 << 31) + 1), Err(PostError::Length((1 << 31) + 1)));
    assert_eq!(post(&mut s, read, (1 << 31) + 1), Err(PostError::Length((1 << 31) + 1)));
    assert_eq!(post(&mut s, add, 7), Err(PostError::Length(7)));
    assert_eq!(post(&mut s, SendOp::Send, 64), Ok(()));
    assert_eq!(post(&mut s, SendOp::Send, 1 << 31), Ok(()), "the longest");
    assert_eq!(post(&mut s, SendOp::Send, 64), Err(PostError::QueueFull));
    assert_eq!(s.side.qp.send_room(), 0);
    assert_eq!(s.side.qp.post_recv(RecvWr { wr_id: 1, sge }), Ok(()));
    assert_eq!(s.side.qp.post_recv(RecvWr { wr_id: 2, sge }), Err(PostError::QueueFull));
    // Nothing of what was refused is on the wire or took a PSN.
    assert_eq!(s.out()[0], "SEND_ONLY 100 A");

    let mut s = Script::new(&Setup { rd_atomic: 0, ..Setup::default() });
    assert_eq!(post(&mut s, read, 64), Err(PostError::Unsupported));
    assert_eq!(post(&mut s, add, 8), Err(PostError::Unsupported));
    // At MTU 256 a READ of 2^31 bytes would need half the circle of PSNs.
    let mut s = Script::new(&Setup { mtu: Mtu::B256, ..Setup::default() });
    assert_eq!(post(&mut s, read, 1 << 31), Err(PostError::Length(1 << 31)));
    let mut s = Script::new(&Setup { ty: QpType::Uc, ..Setup::default() });
    assert_eq!(post(&mut s, read, 64), Err(PostError::Unsupported));
    assert_eq!(post(&mut s, SendOp::SendInv(rkey), 64), Err(PostError::Unsupported));
}

#[test]
fn ack_request_every_64_packets_and_on_the_last() {
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 200 * 1024);
    assert_eq!(asking(&s.out()), [63, 127, 191, 199]);
    // What was sent since the last request counts on.
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 3 * 1024);
    s.post_write(2, 70 * 1024);
    assert_eq!(asking(&s.out()), [2, 66, 72]);
}

#[test]
fn ack_request_before_the_window_stalls() {
    let mut s = Script::new(&Setup { window: 11, ..Setup::default() });
    s.post_write(1, 40 * 1024);
    let lines = s.out();
    assert_eq!(lines.len(), 11);
    assert_eq!(asking(&lines), [1, 3, 5, 7, 9, 10], "every quarter of the window, and its last");
    assert_eq!(s.ack(104, 0x1F).len(), 5, "as many as were acknowledged");
    let mut s = Script::new(&Setup { window: 1, ..Setup::default() });
    s.post_write(1, 2 * 1024);
    assert_eq!(s.out(), ["WRITE_FIRST 100 A va+0x0 len 2048"]);
    assert_eq!(s.ack(100, 0x1F), ["WRITE_LAST 101 A"]);
}

/// A request whose local memory cannot be read ends when those before it have.
#[test]
fn a_bad_local_key_ends_in_its_turn() {
    let mut s = Script::new(&Setup::default());
    s.post_write(1, 64);
    let sge = Sge { addr: VA, len: 64, lkey: MrKey(0xDEAD) };
    s.side.qp.post_send(SendWr { wr_id: 2, op: SendOp::Send, sge, flags: flags(false) }).unwrap();
    s.post_write(3, 64);
    assert_eq!(s.out(), ["WRITE_ONLY 100 A va+0x0 len 64"]);
    assert_eq!(s.statuses(), []);
    s.ack(100, 0x1F);
    assert_eq!(s.statuses(), [(1, Success), (2, LocProtErr), (3, WrFlushErr)]);
    assert_eq!(s.state(), QpState::Err);

    let mut s = Script::new(&Setup::default());
    let sink = Sge { addr: VA + (1 << 20) - 8, len: 64, lkey: s.side.mr.key };
    let op = SendOp::Read { raddr: VA, rkey: PEER_KEY };
    s.side.qp.post_send(SendWr { wr_id: 1, op, sge: sink, flags: flags(true) }).unwrap();
    s.out();
    s.response(Opcode::RC_READ_RESP_ONLY, 100, &[1; 64]);
    assert_eq!(s.statuses(), [(1, LocProtErr)], "the sink ends before the answer does");
}

#[test]
fn solicited_is_on_the_last_packet_alone() {
    let mut s = Script::new(&Setup::default());
    let sge = s.side.sge(0, 2048);
    let flags = SendFlags { signaled: true, solicited: true, fence: false };
    s.side.qp.post_send(SendWr { wr_id: 1, op: SendOp::Send, sge, flags }).unwrap();
    s.side
        .qp
        .post_send(SendWr { wr_id: 2, op: SendOp::Write { raddr: VA, rkey: PEER_KEY }, sge, flags })
        .unwrap();
    let se: Vec<bool> = s.frames().iter().map(|f| classify(f).unwrap().bth.solicited).collect();
    assert_eq!(se, [false, true, false, false]);
}
