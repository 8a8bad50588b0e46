//! A port with several workers: frames that come to the wrong one cross over.

use crate::app::{App, Half, Place, Spec, VERBS, Verb, connect};
use crate::net::{Net, TestIo};
use crate::{all_through, endpoint, turn_until};
use roce_engine::units::{Instant, Qpn};
use roce_engine::wire::{DropReason, classify};
use roce_engine::worker::{Endpoint, EndpointConfig, Worker, crossings};
use std::collections::HashMap;

/// A sender with one worker (port 0), a receiver with two (ports 1 and 2) and a queue pair on each.
fn three(net: &Net, specs: [Spec; 2], depth: usize) -> ([Worker<TestIo, App>; 3], [Qpn; 2]) {
    let mut a = endpoint(net.port(0, None), 1, None);
    let mut shares: Vec<Endpoint<TestIo>> = crossings(2, depth)
        .into_iter()
        .zip(0..)
        .map(|(crossing, share)| {
            let config = EndpointConfig { share, workers: 2, secret: 2, ..EndpointConfig::default() };
            Endpoint::new(net.port(1 + share as usize, None), config, Some(crossing))
        })
        .collect();
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for (share, spec) in shares.iter_mut().zip(specs) {
        let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
        let at_b = Place { endpoint: share, index: 0, host: 2 };
        let [from, to] = connect(spec, at_a, at_b);
        senders.push(from);
        receivers.push(to);
    }
    let qpns = [receivers[0].qpn, receivers[1].qpn];
    let worker = |end, halves: Vec<Half>| Worker::new(vec![end], App { halves, strangers: 0 });
    let mut shares = shares.into_iter().zip(receivers).map(|(end, half)| worker(end, vec![half]));
    let (one, two) = (shares.next().unwrap(), shares.next().unwrap());
    ([worker(a, senders), one, two], qpns)
}

fn dest(frame: &[u8]) -> Qpn {
    classify(frame).unwrap().bth.dest_qp
}

/// The port of the worker that owns a queue pair of the receiver: even numbers are the first one's.
fn owner(qpn: Qpn) -> usize {
    1 + (qpn.get() & 1) as usize
}

#[test]
fn every_frame_at_the_wrong_worker() {
    for verb in VERBS {
        let net = Net::new(3, |from, frame| {
            let to = if from == 0 { 3 - owner(dest(&frame)) } else { 0 };
            vec![(to, frame)]
        });
        let spec = Spec { verb, messages: 300, ..Spec::default() };
        let (mut workers, qpns) = three(&net, [spec; 2], 512);
        assert_eq!(qpns.map(owner), [1, 2]);
        turn_until(&mut workers, Instant::ZERO, |w| all_through(w) && net.is_empty());
        let [a, one, two] = &workers;
        for half in &a.app().halves {
            let c = half.counters(&a.endpoints()[0]);
            assert_eq!((half.done, half.failed, c.retransmits), (300, 0, 0), "{verb:?}");
        }
        let sent = a.endpoints()[0].counters().tx_packets;
        let (c1, c2) = (one.endpoints()[0].counters(), two.endpoints()[0].counters());
        assert!(c1.is_balanced() && c2.is_balanced());
        assert_eq!(c1.rx_packets + c2.rx_packets, sent);
        assert_eq!((c1.crossed_out, c2.crossed_out), (c1.rx_packets, c2.rx_packets), "all of them");
        assert_eq!((c1.crossed_in, c2.crossed_in), (c2.crossed_out, c1.crossed_out));
        assert_eq!(c1.dropped_total() + c2.dropped_total(), 0);
        for (sender, receiver) in a.app().halves.iter().zip([one, two]) {
            let got = receiver.app().halves[0].memory(&receiver.endpoints()[0]);
            assert!(verb == Verb::FetchAdd || got == sender.memory(&a.endpoints()[0]), "{verb:?}");
        }
    }
}

/// D14: a queue pair whose frames come to one worker for a while, then to the other.
#[test]
fn frames_that_change_their_way_stay_in_order() {
    let mut sent = HashMap::new();
    let net = Net::new(3, move |from, frame| {
        if from != 0 {
            return vec![(0, frame)];
        }
        let n = sent.entry(dest(&frame)).or_insert(0u64);
        *n += 1;
        // Seven messages of three packets this way, seven that way.
        let right = owner(dest(&frame));
        vec![(if (*n - 1) / 21 % 2 == 0 { 3 - right } else { right }, frame)]
    });
    // One at a time: two queues that are polled one after the other have no order between them.
    let spec = Spec { messages: 500, depth: 1, ..Spec::default() };
    let (mut workers, _) = three(&net, [spec; 2], 512);
    turn_until(&mut workers, Instant::ZERO, |w| all_through(w) && net.is_empty());
    for half in &workers[0].app().halves {
        let c = half.counters(&workers[0].endpoints()[0]);
        assert_eq!((half.done, c.packet_seq_err, c.retransmits), (500, 0, 0));
    }
    let c = workers[1].endpoints()[0].counters();
    assert!(c.crossed_out > 500 && c.rx_packets - c.crossed_out > 500, "both ways: {c:?}");
}

/// A worker whose own queue is never empty still serves what the other one hands over.
#[test]
fn a_busy_worker_takes_what_crosses() {
    let net = Net::new(3, |from, frame| vec![(if from == 0 { 1 } else { 0 }, frame)]);
    let other = Spec { messages: 0, ..Spec::default() };
    let spec = Spec { messages: 50, depth: 1, ..Spec::default() };
    // The second queue pair's frames come to the first worker.
    let (mut workers, _) = three(&net, [other, spec], 512);
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let mut rounds = 0;
    turn_until(&mut workers, Instant::ZERO, |w| {
        // More than a burst for each turn of the second one.
        (0..40).for_each(|_| net.inject(2, arp.clone()));
        rounds += 1;
        assert!(rounds < 10_000, "starved");
        w[0].app().is_through()
    });
    let c = workers[0].app().halves[1].counters(&workers[0].endpoints()[0]);
    assert_eq!((c.retransmits, c.local_ack_timeout_err), (0, 0));
}

/// A ring that is full loses frames, which is counted, and recovered from.
#[test]
fn a_full_ring_loses_frames_and_says_so() {
    let net = Net::new(3, |from, frame| vec![(if from == 0 { 1 } else { 0 }, frame)]);
    let other = Spec { messages: 0, ..Spec::default() };
    let spec = Spec { messages: 200, depth: 32, ..Spec::default() };
    let (workers, _) = three(&net, [other, spec], 4);
    let mut workers = workers;
    turn_until(&mut workers, Instant::ZERO, |w| all_through(w) && net.is_empty());
    let c = workers[1].endpoints()[0].counters();
    assert!(c.is_balanced() && c.dropped[DropReason::CrossingFull as usize] > 0, "{c:?}");
    assert_eq!(workers[2].app().halves[0].received, 200);
}

/// A queue pair that no worker has is nobody's, wherever its frames come in.
#[test]
fn frames_for_nobody_cross_once() {
    let net = Net::new(3, |from, frame| vec![(if from == 0 { 1 } else { 0 }, frame)]);
    let spec = Spec { messages: 1, depth: 1, retry_cnt: 0, timeout: 1, ..Spec::default() };
    let (mut workers, qpns) = three(&net, [Spec { messages: 0, ..spec }, spec], 512);
    assert!(workers[2].endpoints_mut()[0].destroy_qp(qpns[1]));
    turn_until(&mut workers, Instant::ZERO, |w| all_through(w) && net.is_empty());
    let [_, one, two] = &workers;
    let (c1, c2) = (one.endpoints()[0].counters(), two.endpoints()[0].counters());
    assert_eq!((c1.crossed_out, c2.crossed_in), (3, 3));
    assert_eq!(c2.dropped[DropReason::NoQp as usize], 3);
    assert!(c1.is_balanced() && c2.is_balanced());
}
