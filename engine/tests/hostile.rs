//! Mutated frames: whatever comes, no panic, bounded output, and a good SEND is still answered.

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::{Recovery, Verdict};
use roce_engine::units::{Mtu, Psn};
use roce_engine::verbs::*;
use roce_engine::wire::*;

const FRAMES: u32 = 300_000;
/// Answers to a READ of all memory, and a little for what else was waiting.
const MOST_OUTPUT: usize = 1024 + 256;

/// A queue pair under attack, and what its peer must say next.
struct Target {
    s: Script,
    expected: Psn,
    /// A message of the peer's is under way.
    open: bool,
    born: u32,
}

fn fresh(n: u32, recovery: Recovery) -> Target {
    let psn = n.wrapping_mul(0x9E37_79B1) & 0xFF_FFFF;
    let setup = Setup { psn: [psn ^ 0xFF_FF00, psn], timeout: 8, recovery, ..Setup::default() };
    Target { s: Script::new(&setup), expected: Psn::new(psn), open: false, born: n }
}

/// A frame that this queue pair could get from a well-meaning peer now.
fn plausible(random: &mut Random, t: &mut Target) -> Vec<u8> {
    let key = t.s.key();
    let at = t.expected.plus(random.pick(&[0, 0, 0, 0, 0, 1, 5, 0xFF_FFFF, 0xFF_FFFE])).get();
    let una = Psn::new((t.born.wrapping_mul(0x9E37_79B1) & 0xFF_FFFF) ^ 0xFF_FF00);
    let sent = una.plus((t.s.counters().psns_acked + random.below(4)) as u32).get();
    let (va, len) = (VA + 8 * random.below(1000), random.pick(&[0u32, 1, 5, 64, 1023, 1024]));
    let payload = vec![random.next() as u8; len as usize];
    let full = vec![random.next() as u8; 1024];
    let ask = random.below(2) == 0;
    let peer = &mut t.s.peer;
    match random.below(18) {
        0 | 1 => peer.frame(Opcode::RC_SEND_ONLY, at, ask, &[], &payload),
        2 => peer.frame(Opcode::RC_SEND_FIRST, at, ask, &[], &full),
        3 => peer.frame(Opcode::RC_SEND_MIDDLE, at, ask, &[], &full),
        4 => peer.frame(Opcode::RC_SEND_LAST, at, ask, &[], &payload),
        5 | 6 => peer.write(Opcode::RC_WRITE_ONLY, at, ask, (va, key, len), &payload),
        7 => peer.write(Opcode::RC_WRITE_FIRST, at, ask, (va, key, 3000), &full),
        8 => peer.frame(Opcode::RC_WRITE_MIDDLE, at, ask, &[], &full),
        9 => peer.frame(Opcode::RC_WRITE_LAST, at, ask, &[], &full[..952]),
        10 => peer.read(at, (va, key, random.pick(&[0, 8, 3000, 1 << 16]))),
        11 => peer.fetch_add(at, (va, key), 3),
        12 => peer.ack(sent, random.pick(&[0x1F, 0x1F, 0x60, 0x21, 0x62]), 9),
        13 => peer.read_response(Opcode::RC_READ_RESP_ONLY, sent, &full),
        14 => peer.read_response(Opcode::RC_READ_RESP_FIRST, sent, &full),
        15 => peer.atomic_ack(sent, 7),
        16 => {
            let mut ext = [0; 12];
            ext[0] = 0x60;
            let from = Psn::new(sent).plus(random.below(4) as u32);
            SackBlock { from, to: from.plus(random.below(9) as u32) }.emit(&mut ext[4..]);
            peer.frame(Opcode::RC_ACKNOWLEDGE, sent, false, &ext, &[])
        }
        _ => peer.cnp(),
    }
}

fn mutate(random: &mut Random, frame: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let len = frame.len() as u64;
        // Mostly in the headers, from IP on.
        let at = if random.below(4) == 0 { random.below(len) } else { 14 + random.below((len - 14).min(80)) };
        let at = at as usize;
        match random.below(6) {
            0 | 1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            3 => frame[at] = random.next() as u8,
            4 => frame[BTH] = random.below(0x24) as u8,
            _ if len > 80 => frame.truncate((60 + random.below(len - 60)) as usize),
            _ => frame.extend([0; 4]),
        }
    }
}

/// Something to be answered, and something to answer with.
fn post(random: &mut Random, s: &mut Script) {
    if s.side.qp.outstanding() < 4 {
        match random.below(4) {
            0 => s.post_write(1, 3000),
            1 => s.post_send(2, 64),
            2 => s.post_read(3, 8192, 1024),
            _ => s.side.post(4, SendOp::FetchAdd { raddr: VA, rkey: PEER_KEY, add: 1 }, 0, 8),
        }
    }
    if random.below(2) == 0 {
        let sge = s.side.sge(1 << 19, 4096);
        let _ = s.side.qp.post_recv(RecvWr { wr_id: 9, sge });
    }
}

#[test]
fn x11_mutated_frames() {
    let mut random = Random(11);
    let mut t = fresh(0, Recovery::GoBackN);
    let (mut answered, mut after_abuse, mut renewed, mut delivered) = (0u32, 0u32, 0u32, 0u32);
    let mut reasons = [0u32; DropReason::COUNT];
    for n in 1..=FRAMES {
        post(&mut random, &mut t.s);
        let mut frame = plausible(&mut random, &mut t);
        mutate(&mut random, &mut frame);
        if random.below(4) != 0 {
            frame = resealed(frame);
        }
        let s = &mut t.s;
        let verdict = s.take(&frame);
        match verdict {
            Verdict::Dropped(reason) => reasons[reason as usize] += 1,
            Verdict::Delivered => delivered += 1,
            Verdict::Answered => {}
        }
        if let (Verdict::Delivered, Ok(p)) = (verdict, classify(&frame))
            && !p.info.is_response()
            && p.info.kind != Kind::Cnp
        {
            let packets = match p.info.kind {
                Kind::ReadRequest => p.reth().map_or(1, |r| Mtu::B1024.packets(r.len)),
                _ => 1,
            };
            t.expected = p.bth.psn.plus(packets);
            t.open = !p.info.position.ends();
        }
        let sent = s.frames().len();
        assert!(sent <= MOST_OUTPUT, "{sent} frames for one");
        s.now = at_us(u64::from(n) * 10);
        if s.side.qp.next_deadline().is_some_and(|at| at <= s.now) {
            s.side.qp.on_deadline(s.now, &mut s.side.done);
        }
        assert!(s.side.qp.unacknowledged() < 1 << 16);
        s.side.done.completions.clear();
        s.side.done.events.clear();
        if s.state() == QpState::Err {
            assert!(s.frames().is_empty(), "silence after the last word");
            t = fresh(n, Recovery::GoBackN);
            renewed += 1;
        }
        if !t.open && n % 7 == 0 {
            let s = &mut t.s;
            let sge = s.side.sge(1 << 19, 4096);
            let _ = s.side.qp.post_recv(RecvWr { wr_id: 9, sge });
            let good = s.peer.frame(Opcode::RC_SEND_ONLY, t.expected.get(), true, &[], b"good");
            assert_eq!(s.take(&good), Verdict::Delivered, "frame {n}");
            let ack = format!("ACKNOWLEDGE {} 0x1f msn", t.expected.get());
            assert!(s.out().iter().any(|l| l.starts_with(&ack)), "frame {n}: {ack}");
            t.expected = t.expected.plus(1);
            answered += 1;
            after_abuse += u32::from(n - t.born > 8);
        }
    }
    // The run is only worth something if all of this happened, and often.
    let hit = reasons.iter().filter(|n| **n > 0).count();
    assert!(answered > 20_000 && after_abuse > 2_000, "{answered} {after_abuse}");
    assert!(renewed > 5_000 && delivered > 20_000, "{renewed} {delivered}");
    assert!(hit > 15, "{hit} reasons: {reasons:?}");
}

/// The same under selective repeat, where what comes ahead is kept: bounded output, a timer for what
/// is outstanding, and every gap closes in the end.
#[test]
fn mutated_frames_out_of_order() {
    let selective = Recovery::SelectiveRepeat { low_timeout: 6 };
    let mut random = Random(12);
    let mut t = fresh(0, selective);
    let (mut renewed, mut closed, mut resent, mut told) = (0u32, 0u64, 0u64, 0u64);
    for n in 1..=FRAMES / 2 {
        post(&mut random, &mut t.s);
        let mut frame = plausible(&mut random, &mut t);
        mutate(&mut random, &mut frame);
        if random.below(4) != 0 {
            frame = resealed(frame);
        }
        let s = &mut t.s;
        s.take(&frame);
        let sent = s.frames();
        assert!(sent.len() <= MOST_OUTPUT, "{} frames for one", sent.len());
        for frame in &sent {
            let p = classify(frame).unwrap();
            // The queue pair says itself what it expects.
            match p.aeth().map(|a| a.syndrome.0) {
                Some(0x60) => t.expected = p.bth.psn,
                Some(0x1F) if p.info.kind == Kind::Acknowledge => t.expected = p.bth.psn.plus(1),
                _ => {}
            }
        }
        s.now = at_us(u64::from(n) * 10);
        if s.side.qp.next_deadline().is_some_and(|at| at <= s.now) {
            s.side.qp.on_deadline(s.now, &mut s.side.done);
        }
        s.side.done.completions.clear();
        s.side.done.events.clear();
        if s.state() == QpState::Err {
            let c = s.counters();
            closed += s.side.stages()[1];
            resent += c.retransmits;
            told += c.naks_sent;
            t = fresh(n, selective);
            renewed += 1;
        }
    }
    assert!(
        renewed > 1000 && closed > 1000 && resent > 1000 && told > 5000,
        "{renewed} {closed} {resent} {told}"
    );
}
