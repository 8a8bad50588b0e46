//! Every frame has one fate, every message ends once.

use crate::app::{App, Place, Spec, VERBS, Verb, connect};
use crate::net::Net;
use crate::{all_through, endpoint, turn_until};
use roce_engine::units::Instant;
use roce_engine::verbs::QpType;
use roce_engine::wire::{DropReason, classify};
use roce_engine::worker::{EndpointCounters, Worker};
use std::cell::RefCell;
use std::rc::Rc;

fn dropped(c: &EndpointCounters, reason: DropReason) -> u64 {
    c.dropped[reason as usize]
}

/// Two endpoints on one worker, the same on two: nothing differs but who turns.
#[test]
fn every_verb_in_both_directions_on_one_worker_and_on_two() {
    for shared in [true, false] {
        let net = Net::new(2, |from, frame| vec![(1 - from, frame)]);
        let mut a = endpoint(net.port(0, None), 1, None);
        let mut b = endpoint(net.port(1, None), 2, None);
        let index_b = usize::from(shared);
        let (mut halves_a, mut halves_b) = (Vec::new(), Vec::new());
        for verb in VERBS {
            let spec = Spec { verb, ..Spec::default() };
            let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
            let at_b = Place { endpoint: &mut b, index: index_b, host: 2 };
            let [half_a, half_b] = connect(spec, at_a, at_b);
            halves_a.push(half_a);
            halves_b.push(half_b);
            let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
            let at_b = Place { endpoint: &mut b, index: index_b, host: 2 };
            let [half_b, half_a] = connect(spec, at_b, at_a);
            halves_a.push(half_a);
            halves_b.push(half_b);
        }
        let app = |halves| App { halves, strangers: 0 };
        let mut workers = match shared {
            true => vec![Worker::new(vec![a, b], app([halves_a, halves_b].concat()))],
            false => vec![Worker::new(vec![a], app(halves_a)), Worker::new(vec![b], app(halves_b))],
        };
        turn_until(&mut workers, Instant::ZERO, |w| all_through(w) && net.is_empty());
        let mut pairs = Vec::new();
        for worker in &workers {
            assert_eq!(worker.app().strangers, 0);
            for half in &worker.app().halves {
                let end = &worker.endpoints()[half.endpoint];
                let c = half.counters(end);
                assert_eq!(half.failed, 0);
                assert_eq!((c.retransmits, c.psns_sent), (0, c.psns_acked));
                pairs.push((half.spec.verb, half.done, half.received, half.memory(end).to_vec()));
            }
        }
        for verb in VERBS {
            let of: Vec<_> = pairs.iter().filter(|p| p.0 == verb).collect();
            assert_eq!(of.iter().map(|p| p.1).sum::<u64>(), 200, "{verb:?}");
            let arrives = !matches!(verb, Verb::Read | Verb::FetchAdd);
            assert_eq!(of.iter().map(|p| p.2).sum::<u64>(), if arrives { 200 } else { 0 }, "{verb:?}");
            if verb != Verb::FetchAdd {
                assert!(of.iter().all(|p| p.3 == of[0].3), "the bytes are on both sides: {verb:?}");
            }
        }
        let ends: Vec<_> = workers.iter().flat_map(|w| w.endpoints()).map(|e| e.counters().clone()).collect();
        for (one, other) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            assert!(one.is_balanced());
            assert_eq!((one.tx_packets, one.tx_bytes), (other.rx_packets, other.rx_bytes));
            assert_eq!((one.rx_packets, one.dropped_total()), (one.delivered + one.answered, 0));
        }
    }
}

/// Loss, doubles, wrong bits, foreign tags and noise: each is counted as what it is, and hurts nobody.
#[test]
fn what_is_dropped_is_counted_by_its_reason() {
    #[derive(Default)]
    struct Injected {
        sent: u64,
        lost: u64,
        doubled: u64,
        flipped: [u64; 2],
    }
    for verb in VERBS {
        let injected = Rc::new(RefCell::new(Injected::default()));
        let counts = Rc::clone(&injected);
        let net = Net::new(2, move |from, mut frame| {
            let mut i = counts.borrow_mut();
            i.sent += 1;
            if i.sent % 37 == 0 {
                i.lost += 1;
                return Vec::new();
            }
            if i.sent % 41 == 0 {
                i.doubled += 1;
                return vec![(1 - from, frame.clone()), (1 - from, frame)];
            }
            if i.sent % 53 == 0 {
                // A bit of the PSN: only the iCRC can tell.
                let bth = 18 + 20 + 8;
                frame[bth + 11] ^= 0x40;
                i.flipped[1 - from] += 1;
            }
            vec![(1 - from, frame)]
        });
        let vlan = Some(100);
        let mut a = endpoint(net.port(0, None), 1, vlan);
        let mut b = endpoint(net.port(1, None), 2, vlan);
        let spec = Spec { verb, messages: 400, vlan, ..Spec::default() };
        let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
        let at_b = Place { endpoint: &mut b, index: 0, host: 2 };
        let [half_a, half_b] = connect(spec, at_a, at_b);
        let mut workers = [half_a, half_b].map(|h| App { halves: vec![h], strangers: 0 }).into_iter();
        let mut workers = [a, b].map(|e| Worker::new(vec![e], workers.next().unwrap()));

        // A frame to copy the noise from.
        let mut noise = 0;
        let model = Rc::new(RefCell::new(None));
        let mut rounds = 0;
        turn_until(&mut workers, Instant::ZERO, |w| {
            rounds += 1;
            if rounds % 50 == 0 && noise < 20 {
                noise += 1;
                let mut arp = vec![0; 60];
                arp[12..14].copy_from_slice(&[0x08, 0x06]);
                net.inject(1, arp);
                let mut other_vlan: Vec<u8> = model.borrow_mut().get_or_insert_with(tagged).clone();
                other_vlan[15] = 200;
                net.inject(1, other_vlan);
                let mut no_qp: Vec<u8> = model.borrow().clone().unwrap();
                no_qp[18 + 28 + 5..18 + 28 + 8].copy_from_slice(&[0x7F, 0x12, 0x34]);
                net.inject(1, no_qp);
                net.inject(1, vec![0xFF; 13]);
            }
            all_through(w) && net.is_empty() && noise == 20
        });

        let i = injected.borrow();
        assert!(i.lost > 10 && i.doubled > 10 && i.flipped[1] > 5, "{verb:?}");
        let ends = workers.each_ref().map(|w| w.endpoints()[0].counters().clone());
        for (index, c) in ends.iter().enumerate() {
            assert!(c.is_balanced(), "{verb:?}: {c:?}");
            assert_eq!(dropped(c, DropReason::Icrc), i.flipped[index], "{verb:?}");
        }
        assert_eq!(dropped(&ends[1], DropReason::VlanMismatch), 20);
        assert_eq!(dropped(&ends[1], DropReason::NoQp), 20);
        assert_eq!(dropped(&ends[1], DropReason::NonRoce), 20);
        assert_eq!(dropped(&ends[1], DropReason::Runt), 20);
        let (tx, rx) = (ends[0].tx_packets + ends[1].tx_packets, ends[0].rx_packets + ends[1].rx_packets);
        assert_eq!(tx, i.sent);
        assert_eq!(rx, tx - i.lost + i.doubled + 4 * 20, "{verb:?}");
        let [sender, receiver] = workers.each_ref().map(|w| &w.app().halves[0]);
        assert_eq!((sender.done, sender.failed), (400, 0));
        if !matches!(verb, Verb::Read | Verb::FetchAdd) {
            assert_eq!(receiver.received, 400, "{verb:?}");
        }
        let c = sender.counters(&workers[0].endpoints()[0]);
        assert_eq!(c.psns_sent, c.psns_acked);
        assert!(c.retransmits > 0);
    }
}

/// A tagged RoCE frame with a right iCRC.
fn tagged() -> Vec<u8> {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&kept);
    let net = Net::new(2, move |_, frame| {
        keep.borrow_mut().push(frame);
        Vec::new()
    });
    let mut ends = [0, 1].map(|i| endpoint(net.port(i, None), 9, Some(100)));
    let [a, b] = &mut ends;
    let spec = Spec { vlan: Some(100), size: 64, messages: 1, ..Spec::default() };
    let at_a = Place { endpoint: a, index: 0, host: 1 };
    let at_b = Place { endpoint: b, index: 0, host: 2 };
    let [half, _] = connect(spec, at_a, at_b);
    let [a, _] = ends;
    Worker::new(vec![a], App { halves: vec![half], strangers: 0 }).turn(Instant::ZERO);
    let frame = kept.borrow()[0].clone();
    assert!(classify(&frame).is_ok_and(|p| p.verify_icrc()));
    frame
}

/// What is lost on an unreliable connection is lost, and still counted.
#[test]
fn unreliable_messages_come_whole_or_not_at_all() {
    let lost = Rc::new(RefCell::new(0));
    let count = Rc::clone(&lost);
    let mut n = 0;
    let net = Net::new(2, move |from, frame| {
        n += 1;
        if n % 29 == 0 {
            *count.borrow_mut() += 1;
            return Vec::new();
        }
        vec![(1 - from, frame)]
    });
    let mut a = endpoint(net.port(0, None), 1, None);
    let mut b = endpoint(net.port(1, None), 2, None);
    let spec = Spec { verb: Verb::Send, ty: QpType::Uc, messages: 1000, ..Spec::default() };
    let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
    let at_b = Place { endpoint: &mut b, index: 0, host: 2 };
    let halves = connect(spec, at_a, at_b);
    let mut apps = halves.map(|h| App { halves: vec![h], strangers: 0 }).into_iter();
    let mut workers = [a, b].map(|e| Worker::new(vec![e], apps.next().unwrap()));
    turn_until(&mut workers, Instant::ZERO, |w| w[0].app().is_through() && net.is_empty());
    let (sent, received) = (workers[0].app().halves[0].done, workers[1].app().halves[0].received);
    // Three packets a message: each lost packet spoils one message.
    assert_eq!((sent, received), (1000, 1000 - *lost.borrow()));
    let c = workers[1].endpoints()[0].counters();
    assert!(c.is_balanced() && c.rx_packets == 3000 - *lost.borrow());
    assert_eq!(workers[1].endpoints()[0].counters().tx_packets, 0, "nobody answers");
}
