//! Remote access near the edges of a region against a check in 128-bit arithmetic.
#![allow(clippy::unwrap_used)]

mod common;

use common::script::*;
use common::*;
use roce_engine::transport::{QpConfig, QueuePair, Recovery};
use roce_engine::units::{Mtu, Psn, Qpn};
use roce_engine::verbs::*;
use roce_engine::wire::*;

const LEN: usize = 4096;
/// A region that starts at 0, one in the middle, one that ends where addresses end.
const BASES: [u64; 3] = [0, 0x7FFF_0000, u64::MAX - LEN as u64];

fn connect(qp: &mut QueuePair, done: &mut Done) {
    qp.modify(Transition::Reset, done).unwrap();
    qp.modify(Transition::Init(InitAttrs { access: Access::ALL, pkey: 0xFFFF }), done).unwrap();
    let rtr = RtrAttrs {
        route: route(1, 2),
        mtu: Mtu::B256,
        dest_qpn: Qpn::new(0x12),
        rq_psn: Psn::new(0),
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
    };
    qp.modify(Transition::Rtr(Box::new(rtr)), done).unwrap();
}

/// An address and a length near the edges of `base .. base + LEN`, or of the address space.
fn near(random: &mut Random, base: u64) -> (u64, u32) {
    let edge = random.pick(&[base, base.wrapping_add(LEN as u64), 0, u64::MAX, base.wrapping_add(2048)]);
    let va = edge.wrapping_add(random.below(600)).wrapping_sub(300);
    let to_the_end = base.wrapping_add(LEN as u64).wrapping_sub(va) as u32;
    let len = match random.below(8) {
        0 => random.next() as u32,
        1 => to_the_end,
        2 => to_the_end.wrapping_add(1),
        3 => to_the_end.wrapping_sub(1),
        4 => (1 << 31) - random.below(3) as u32 + 1,
        _ => random.below(512) as u32,
    };
    (va, len)
}

#[test]
fn x07_out_of_bounds() {
    let mut random = Random(7);
    let mut mem = Memory::new(99);
    let regions = BASES.map(|base| mem.register_at(PD, base, LEN, Access::ALL).unwrap());
    // Neighbours on both sides, under other keys, and what all must look like.
    let neighbours = BASES.map(|base| {
        let guard = |mem: &mut Memory, va| mem.register_at(PD, va, LEN, Access::ALL).ok();
        [base.checked_sub(LEN as u64), base.checked_add(LEN as u64)].map(|va| guard(&mut mem, va?))
    });
    let mut model = BASES.map(|_| vec![0u8; LEN]);
    let config = QpConfig {
        qpn: Qpn::new(0x11),
        ty: QpType::Rc,
        pd: PD,
        max_send_wr: 1,
        max_recv_wr: 1,
        srq: None,
        credits: false,
        window: 1,
        ack_interval: 1,
        recovery: Recovery::GoBackN,
    };
    let (mut qp, mut done, mut peer) = (QueuePair::new(config), Done::default(), Peer::to(0));
    connect(&mut qp, &mut done);
    let mut slot = vec![0; 4400];
    let (mut psn, mut granted, mut refused) = (0, [0u32; 3], [0u32; 3]);
    for _ in 0..1_000_000 {
        let r = random.below(3) as usize;
        let (base, key) = (BASES[r], regions[r].key.0);
        let (va, len) = near(&mut random, base);
        let key_is_right = random.below(64) != 0;
        let key = if key_is_right { key } else { key ^ (1 << random.below(32)) };
        let kind = random.below(3) as usize;
        let inside = |len: u32| {
            let (from, to) = (u128::from(va), u128::from(va) + u128::from(len));
            let (start, end) = (u128::from(base), u128::from(base) + LEN as u128);
            key_is_right && from >= start && to <= end
        };
        let mut data = [0u8; 256];
        let (frame, allowed, long) = match kind {
            0 => {
                let now = len.min(256) as usize;
                let fill = random.next() as u8;
                data[..now].fill(fill);
                let opcode = if len > 256 { Opcode::RC_WRITE_FIRST } else { Opcode::RC_WRITE_ONLY };
                let frame = peer.write(opcode, psn, true, (va, key, len), &data[..now]);
                (frame, len == 0 || (len <= 1 << 31 && inside(len)), len > 256)
            }
            1 => (peer.read(psn, (va, key, len)), len == 0 || (len <= 1 << 31 && inside(len)), false),
            _ => (peer.fetch_add(psn, (va, key), 1), va % 8 == 0 && inside(8), false),
        };
        let packet = classify(&frame).unwrap();
        qp.on_packet(at_us(0), &packet, &mut mem, &mut done);
        let taken = qp.state() == QpState::Rtr;
        assert_eq!(taken, allowed, "kind {kind} va {va:#x} len {len:#x} key {key_is_right}");
        let counts = if taken { &mut granted } else { &mut refused };
        counts[kind] += 1;
        if taken && kind != 1 && (kind == 2 || len != 0) {
            let at = (va - base) as usize;
            let model = &mut model[r];
            if kind == 0 {
                let now = len.min(256) as usize;
                model[at..at + now].copy_from_slice(&data[..now]);
            } else {
                let word: &mut [u8; 8] = (&mut model[at..at + 8]).try_into().unwrap();
                *word = u64::from_ne_bytes(*word).wrapping_add(1).to_ne_bytes();
            }
            assert_eq!(mem.local(regions[r].key, base, LEN as u32).unwrap(), &model[..]);
        }
        // Answers are read out whole: each within the region, or this would stop in an error.
        let mut read = 0;
        while let roce_engine::transport::Transmit::Sent(sent) =
            qp.poll_transmit(at_us(0), &mem, &mut slot, &mut done)
        {
            if kind == 1 && taken {
                let p = classify(&slot[..sent.len()]).unwrap();
                let at = (va.wrapping_sub(base) as usize).wrapping_add(read);
                if len != 0 {
                    assert_eq!(p.payload(), &model[r][at..at + sent.payload() as usize]);
                }
                read += sent.payload() as usize;
            }
        }
        if kind == 1 && taken {
            assert_eq!(read, len as usize);
        }
        psn = (psn + if kind == 1 { Mtu::B256.packets(len) } else { 1 }) & 0xFF_FFFF;
        if !taken || long {
            connect(&mut qp, &mut done);
            psn = 0;
        }
        done.events.clear();
        done.completions.clear();
    }
    assert!(granted.iter().all(|n| *n > 10_000), "granted {granted:?}");
    assert!(refused.iter().all(|n| *n > 10_000), "refused {refused:?}");
    for (r, region) in regions.iter().enumerate() {
        assert_eq!(mem.local(region.key, region.va, LEN as u32).unwrap(), &model[r][..]);
    }
    for guard in neighbours.into_iter().flatten().flatten() {
        assert_eq!(mem.local(guard.key, guard.va, LEN as u32).unwrap(), [0; LEN], "guard {guard:?}");
    }
}
