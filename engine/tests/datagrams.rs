//! Unreliable datagrams: what is on the wire, what lands in the buffer, what is dropped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::script::{BTH, altered, resealed};
use common::*;
use roce_engine::transport::{QpConfig, QueuePair, Recovery, StageLog, Verdict};
use roce_engine::units::{Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::CompletionStatus::*;
use roce_engine::verbs::*;
use roce_engine::wire::*;
use std::net::Ipv6Addr;

const QKEY: u32 = 0x1111;
const NOW: Instant = Instant::ZERO;

/// A datagram queue pair of host `1 + index` in INIT, with 1 MiB of memory.
fn ud_in_init(index: u8, own: Gid) -> Side {
    let mut mem = Memory::new(u64::from(index));
    let mr = mem.register_at(PD, VA, 1 << 20, Access::LOCAL_WRITE).unwrap();
    let mut qp = QueuePair::new(QpConfig {
        qpn: Qpn::new(0x11 + u32::from(index)),
        ty: QpType::Ud,
        pd: PD,
        max_send_wr: 8,
        max_recv_wr: 8,
        srq: None,
        credits: false,
        window: 1,
        ack_interval: 1,
        recovery: Recovery::GoBackN,
    });
    let mut done = Done::default();
    let attrs = UdAttrs { pkey: 0xFFFF, qkey: QKEY + u32::from(index), own, mtu: Mtu::B1024 };
    qp.modify(Transition::InitUd(attrs), &mut done).unwrap();
    let mut side = Side { qp, mem, mr, done, log: StageLog::default() };
    side.fill(0, &[0xEE; 1 << 20]);
    side
}

fn ud(index: u8) -> Side {
    let mut side = ud_in_init(index, route(1 + index, 2 - index).src);
    side.qp.modify(Transition::RtrUd, &mut side.done).unwrap();
    side.qp.modify(Transition::RtsUd(Psn::new(0xFF_FFFF)), &mut side.done).unwrap();
    side
}

/// Host 1 that knows the way to host 2, and host 2 with `receives` of 64 bytes.
fn pair(receives: u64) -> (Side, Ah, Side) {
    let (mut a, mut b) = (ud(0), ud(1));
    let ah = a.qp.create_ah(&route(1, 2)).unwrap();
    (0..receives).for_each(|i| b.recv(i, 4096 * i as usize, 64));
    (a, ah, b)
}

fn to(ah: Ah, qkey: u32) -> Datagram {
    Datagram { ah, qpn: Qpn::new(0x12), qkey, imm: None }
}

/// Posts a datagram and returns its frame.
fn frame(side: &mut Side, wr_id: u64, to: Datagram, len: u32) -> Vec<u8> {
    side.post(wr_id, SendOp::Datagram(to), 0, len);
    let mut frames = side.drain(NOW);
    assert_eq!(frames.len(), 1);
    frames.remove(0)
}

fn dropped(reason: DropReason) -> Verdict {
    Verdict::Dropped(reason)
}

#[test]
fn a_datagram_on_the_wire_and_in_the_buffer() {
    let (mut a, ah, mut b) = pair(1);
    a.fill(0, b"hello");
    let sent = frame(&mut a, 7, Datagram { imm: Some(0xABCD), ..to(ah, QKEY + 1) }, 5);
    let p = classify(&sent).unwrap();
    assert!(p.verify_icrc());
    assert_eq!((p.info.name, p.bth.dest_qp.get(), p.bth.psn.get()), ("UD_SEND_ONLY_IMM", 0x12, 0xFF_FFFF));
    assert_eq!((p.bth.ack_req, p.tos, p.sport, p.bth.pad), (false, 0x68, 0xC001, 3));
    assert_eq!(p.deth(), Some(Deth { qkey: QKEY + 1, resv8: 0, src_qp: Qpn::new(0x11) }));
    assert_eq!(p.payload(), b"hello");
    // It completes as it leaves.
    let c = a.done.completions[0];
    assert_eq!((c.wr_id, c.status, c.opcode, c.byte_len), (7, Success, WcOpcode::Send, 5));

    assert_eq!(b.take(NOW, &sent), Verdict::Delivered);
    let c = b.done.completions[0];
    assert_eq!((c.status, c.opcode, c.byte_len, c.imm), (Success, WcOpcode::Recv, 45, Some(0xABCD)));
    assert_eq!((c.src_qp, c.grh), (Some(Qpn::new(0x11)), true));
    assert_eq!(b.bytes(0, 20), [0; 20]);
    assert_eq!(b.bytes(20, 20), &sent[14..34], "the IPv4 header");
    assert_eq!(b.bytes(40, 6), b"hello\xEE", "no pad");
    assert!(b.drain(NOW).is_empty(), "nobody answers");
    let counters = a.qp.counters();
    assert_eq!((counters.psns_sent, counters.psns_acked, counters.tx_payload_bytes), (1, 1, 5));
    assert_eq!(b.qp.counters().rx_payload_bytes, 5);
    assert!(b.done.events.is_empty(), "a datagram establishes nothing");
}

#[test]
fn over_ipv6_the_whole_header_is_kept() {
    let gid = |host: u16| Gid::from(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host));
    let mut b = ud_in_init(1, gid(2));
    b.qp.modify(Transition::RtrUd, &mut b.done).unwrap();
    b.recv(0, 0, 40);
    let mut a = ud_in_init(0, gid(1));
    a.qp.modify(Transition::RtrUd, &mut a.done).unwrap();
    a.qp.modify(Transition::RtsUd(Psn::new(5)), &mut a.done).unwrap();
    let ah = a.qp.create_ah(&Route { src: gid(1), dst: gid(2), ..route(1, 2) }).unwrap();
    let sent = frame(&mut a, 1, to(ah, QKEY + 1), 0);
    assert_eq!(b.take(NOW, &sent), Verdict::Delivered, "in RTR already");
    assert_eq!(b.bytes(0, 41), [&sent[14..54], &[0xEE]].concat());
    assert_eq!(b.done.completions[0].byte_len, 40);
}

/// A handle may lead elsewhere later.
#[test]
fn a_handle_is_changed() {
    let (mut a, ah, _) = pair(0);
    assert!(a.qp.modify_ah(ah, &route(1, 9)));
    let sent = frame(&mut a, 1, to(ah, QKEY), 4);
    let p = classify(&sent).unwrap();
    assert!(p.verify_icrc());
    assert_eq!(p.dst(), route(1, 9).dst);
    assert!(!ud(1).qp.modify_ah(ah, &route(2, 1)), "there is no such handle");
}

/// One queue pair speaks to many: each request names its host and queue pair.
#[test]
fn every_request_has_its_own_address() {
    let (mut a, ah, _) = pair(0);
    let other = a.qp.create_ah(&Route { tos: 0x20, sport: 0xD000, ..route(1, 9) }).unwrap();
    for (ah, qpn) in [(ah, 0x12), (other, 0xABCDEF), (ah, 0x13), (other, 0x14)] {
        a.post(1, SendOp::Datagram(Datagram { qpn: Qpn::new(qpn), ..to(ah, 1) }), 0, 4);
    }
    let frames = a.drain(NOW);
    let seen: Vec<_> = frames
        .iter()
        .map(|f| {
            let p = classify(f).unwrap();
            assert!(p.verify_icrc());
            (p.dst().bytes()[15], p.bth.dest_qp.get(), p.tos, p.sport, p.bth.psn.get())
        })
        .collect();
    let want = [
        (2, 0x12, 0x68, 0xC001, 0xFF_FFFF),
        (9, 0xABCDEF, 0x20, 0xD000, 0),
        (2, 0x13, 0x68, 0xC001, 1),
        (9, 0x14, 0x20, 0xD000, 2),
    ];
    assert_eq!(seen, want);
    assert_eq!(a.statuses(), [(1, Success); 4]);
}

#[test]
fn a_privileged_key_is_replaced_by_ones_own() {
    let (mut a, ah, _) = pair(0);
    for (posted, sent) in [(0x7FFF_FFFF, 0x7FFF_FFFF), (0x8000_0000, QKEY), (GSI_QKEY, QKEY)] {
        let f = frame(&mut a, 1, to(ah, posted), 4);
        assert_eq!(classify(&f).unwrap().deth().unwrap().qkey, sent, "{posted:#x}");
    }
}

#[test]
fn what_is_wrong_is_dropped_and_counted() {
    let (mut a, ah, mut b) = pair(1);
    let wrong_key = frame(&mut a, 1, to(ah, QKEY), 4);
    assert_eq!(b.take(NOW, &wrong_key), dropped(DropReason::QkeyMismatch));
    assert_eq!(b.qp.counters().qkey_viol_cntr, 1);
    let good = frame(&mut a, 2, to(ah, QKEY + 1), 4);
    // P_Key 0x1234; then for another host; then from another host, which does not matter.
    assert_eq!(
        b.take(NOW, &altered(&altered(&good, BTH + 2, 0x12), BTH + 3, 0x34)),
        dropped(DropReason::PkeyMismatch)
    );
    let elsewhere = a.qp.create_ah(&route(1, 9)).unwrap();
    let astray = frame(&mut a, 3, to(elsewhere, QKEY + 1), 4);
    assert_eq!(b.take(NOW, &astray), dropped(DropReason::WrongAddress));
    let mut connected = Peer::to(1);
    assert_eq!(
        b.take(NOW, &connected.frame(Opcode::RC_SEND_ONLY, 0, true, &[], b"data")),
        dropped(DropReason::WrongTransport)
    );
    assert_eq!(b.take(NOW, &connected.ack(0, 0x1F, 0)), dropped(DropReason::WrongTransport));
    // Too long for the receive of 64 bytes; that stays for one that fits.
    let long = frame(&mut a, 4, to(ah, QKEY + 1), 25);
    assert_eq!(b.take(NOW, &long), dropped(DropReason::LengthError));
    assert!(b.done.completions.is_empty());
    assert_eq!(b.bytes(0, 64), [0xEE; 64], "nothing was written");
    let fits = frame(&mut a, 5, to(ah, QKEY + 1), 24);
    assert_eq!(b.take(NOW, &fits), Verdict::Delivered);
    assert_eq!(b.done.completions[0].byte_len, 64);
    assert_eq!(b.take(NOW, &fits), dropped(DropReason::NoRecvWqe));
    assert_eq!(b.qp.counters().out_of_buffer, 1);
    assert_eq!(b.qp.state(), QpState::Rts, "nothing of this is the queue pair's fault");
    assert!(b.drain(NOW).is_empty());
}

/// A peer may set AckReq on datagrams; PSNs say nothing.
#[test]
fn neither_psn_nor_ack_request_matter() {
    let (mut a, ah, mut b) = pair(3);
    let sent = frame(&mut a, 1, to(ah, QKEY + 1), 4);
    for psn in [0x80, 0, 0xFF] {
        let mut other = altered(&sent, BTH + 9, psn);
        other[BTH + 8] |= 0x80;
        assert_eq!(b.take(NOW, &resealed(other)), Verdict::Delivered);
    }
    assert!(b.drain(NOW).is_empty());
    assert_eq!(b.qp.counters().out_of_sequence, 0);
}

#[test]
fn longer_than_the_mtu() {
    let (mut a, ah, mut b) = pair(0);
    b.recv(0, 0, 4096);
    let wr = |len| SendWr {
        wr_id: 1,
        op: SendOp::Datagram(to(ah, QKEY + 1)),
        sge: a.sge(0, len),
        flags: SendFlags::default(),
    };
    let (long, full) = (wr(1025), wr(1024));
    assert_eq!(a.qp.post_send(long), Err(PostError::Length(1025)));
    a.qp.post_send(full).unwrap();
    let sent = a.drain(NOW).remove(0);
    assert_eq!(b.take(NOW, &sent), Verdict::Delivered);
    let mut deth = [0; 8];
    Deth { qkey: QKEY + 1, resv8: 0, src_qp: Qpn::new(3) }.emit(&mut deth);
    let fat = Peer::to(1).frame(Opcode::UD_SEND_ONLY, 0, false, &deth, &[1; 1028]);
    b.recv(1, 0, 4096);
    assert_eq!(b.take(NOW, &fat), dropped(DropReason::LengthError));
}

#[test]
fn each_type_has_its_operations() {
    let (mut a, ah, mut b) = pair(0);
    let flags = SendFlags::default();
    let sge = a.sge(0, 8);
    let mut post = |op| a.qp.post_send(SendWr { wr_id: 1, op, sge, flags });
    let (raddr, rkey) = (VA, MrKey(1));
    let wrong = [
        SendOp::Send,
        SendOp::SendImm(1),
        SendOp::SendInv(rkey),
        SendOp::Write { raddr, rkey },
        SendOp::WriteImm { raddr, rkey, imm: 1 },
        SendOp::Read { raddr, rkey },
        SendOp::FetchAdd { raddr, rkey, add: 1 },
    ];
    for op in wrong {
        assert_eq!(post(op), Err(PostError::Unsupported), "{op:?}");
    }
    // A handle that only the other queue pair has made.
    let (first, second) = (b.qp.create_ah(&route(2, 1)).unwrap(), b.qp.create_ah(&route(2, 3)).unwrap());
    assert_eq!(first, ah, "handles are numbers of their queue pair");
    assert_eq!(post(SendOp::Datagram(to(second, 1))), Err(PostError::AddressHandle));
    let mut rc = Side::new(0, &Setup::default());
    let op = SendOp::Datagram(to(ah, 1));
    assert_eq!(rc.qp.post_send(SendWr { wr_id: 1, op, sge, flags }), Err(PostError::AddressHandle));
    assert!(rc.qp.create_ah(&route(1, 2)).is_none());
}

#[test]
fn states() {
    let mut a = ud_in_init(0, route(1, 2).src);
    let ah = a.qp.create_ah(&route(1, 2)).unwrap();
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Datagram(to(ah, 1)),
        sge: a.sge(0, 8),
        flags: SendFlags { signaled: true, ..SendFlags::default() },
    };
    assert_eq!(a.qp.post_send(wr), Err(PostError::State(QpState::Init)));
    a.recv(5, 0, 64);
    let mut deth = [0; 8];
    Deth { qkey: QKEY, resv8: 0, src_qp: Qpn::new(3) }.emit(&mut deth);
    let hello = Peer::to(0).frame(Opcode::UD_SEND_ONLY, 0, false, &deth, b"data");
    assert_eq!(a.take(NOW, &hello), dropped(DropReason::QpState));
    a.qp.modify(Transition::RtrUd, &mut a.done).unwrap();
    assert_eq!(a.take(NOW, &hello), Verdict::Delivered);
    assert_eq!(a.qp.post_send(wr), Err(PostError::State(QpState::Rtr)));
    a.qp.modify(Transition::RtsUd(Psn::new(9)), &mut a.done).unwrap();
    a.qp.modify(Transition::Sqd, &mut a.done).unwrap();
    assert_eq!(a.done.events, [QpEvent::SqDrained]);
    a.qp.post_send(wr).unwrap();
    assert!(a.drain(NOW).is_empty());
    a.qp.modify(Transition::Resume, &mut a.done).unwrap();
    assert_eq!(a.drain(NOW).len(), 1);
    a.recv(6, 0, 64);
    a.qp.modify(Transition::Err, &mut a.done).unwrap();
    assert_eq!(a.statuses(), [(5, Success), (1, Success), (6, WrFlushErr)]);
    assert_eq!(a.take(NOW, &hello), dropped(DropReason::QpState));
    a.qp.modify(Transition::Reset, &mut a.done).unwrap();
    assert!(a.qp.create_ah(&route(1, 2)).is_none(), "handles need a P_Key");
    assert_eq!((a.qp.state(), a.qp.counters().psns_sent), (QpState::Reset, 1));
}

/// Bad local memory stops the half that it belongs to: sends alone, or all.
#[test]
fn faults_of_ones_own() {
    let (mut a, ah, mut b) = pair(0);
    let foreign = a.mem.register(Pd(9), 64, Access::LOCAL_WRITE).unwrap();
    let sge = Sge { addr: foreign.va, len: 8, lkey: foreign.key };
    let op = SendOp::Datagram(to(ah, QKEY + 1));
    a.qp.post_send(SendWr { wr_id: 1, op, sge, flags: SendFlags::default() }).unwrap();
    a.post(2, op, 0, 8);
    assert!(a.drain(NOW).is_empty());
    assert_eq!((a.qp.state(), a.statuses()), (QpState::Sqe, vec![(1, LocProtErr), (2, WrFlushErr)]));
    a.qp.modify(Transition::Resume, &mut a.done).unwrap();
    let sent = frame(&mut a, 3, to(ah, QKEY + 1), 8);

    let sge = Sge { addr: VA, len: 64, lkey: MrKey(0xDEAD) };
    b.qp.post_recv(RecvWr { wr_id: 5, sge }).unwrap();
    b.recv(6, 0, 64);
    assert_eq!(b.take(NOW, &sent), dropped(DropReason::AccessError));
    assert_eq!((b.qp.state(), b.statuses()), (QpState::Err, vec![(5, LocProtErr), (6, WrFlushErr)]));
    assert_eq!(b.done.events, [QpEvent::Fatal(LocProtErr)]);
}
