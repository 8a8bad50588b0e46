//! Paced queue pairs and a clock that goes in steps.

use crate::app::{App, Place, Spec, connect};
use crate::endpoint;
use crate::net::Net;
use roce_engine::cc::{PaceUnit, Pacer};
use roce_engine::units::Instant;
use roce_engine::verbs::QpType;
use roce_engine::worker::Worker;

/// A sender of one-packet messages at `rate` packets a second, and what it sent by now.
fn paced(rate: f64, burst: u32, qps: usize) -> Worker<crate::net::TestIo, App> {
    let net = Net::new(1, |_, _| Vec::new());
    let mut a = endpoint(net.port(0, None), 1, None);
    let mut b = endpoint(net.port(0, None), 2, None);
    let mut halves = Vec::new();
    for _ in 0..qps {
        let spec = Spec { ty: QpType::Uc, size: 100, depth: 64, messages: u64::MAX, ..Spec::default() };
        let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
        let at_b = Place { endpoint: &mut b, index: 0, host: 2 };
        let [half, _] = connect(spec, at_a, at_b);
        let pacer = Pacer::new(PaceUnit::Packets, rate / qps as f64, burst, 0);
        a.qp_mut(half.qpn).unwrap().set_pacer(pacer);
        halves.push(half);
    }
    Worker::new(vec![a], App { halves, strangers: 0 })
}

fn sent(worker: &Worker<crate::net::TestIo, App>) -> u64 {
    worker.endpoints()[0].counters().tx_packets
}

#[test]
fn the_rate_is_met_whatever_a_turn_takes() {
    // (packets a second, burst, queue pairs, nanoseconds a turn)
    let table = [
        (1e6, 2, 1, 100),
        (1e6, 16, 1, 5_000),
        (1e6, 64, 4, 20_000),
        (10_000.0, 2, 1, 777),
        (335.0, 2, 1, 10_000),
        (2.0, 1, 1, 100_000),
        (12_500_000.0, 16, 8, 900),
    ];
    for (rate, burst, qps, step) in table {
        let mut worker = paced(rate, burst, qps);
        let span = ((2000.0 / rate * 1e9) as u64).max(20_000_000);
        for ns in (0..span).step_by(step) {
            worker.turn(Instant::from_nanos(ns));
        }
        let want = rate * span as f64 / 1e9;
        let got = sent(&worker) as f64;
        let slack = f64::from(burst) * qps as f64 + 1.0;
        assert!(
            (got - want).abs() <= want * 0.001 + slack,
            "{rate}/s in steps of {step} ns: {got}, not {want}"
        );
    }
}

/// R03: no opening burst, and nothing early.
#[test]
fn slow_flows_send_one_at_a_time() {
    let mut worker = paced(10.0, 1, 1);
    let mut times = Vec::new();
    for us in 0..1_000_000u64 {
        let before = sent(&worker);
        worker.turn(Instant::from_nanos(us * 1000));
        let now = sent(&worker);
        assert!(now - before <= 1);
        if now != before {
            times.push(us);
        }
    }
    assert_eq!(times.len(), 10);
    // What is late by a little does not make all that follows late.
    for (i, at) in times.iter().enumerate() {
        let due = i as u64 * 100_000;
        assert!((due..due + 100).contains(at), "{i}: {times:?}");
    }
}

/// R05: after a stall the queue pair catches up with its burst, no more.
#[test]
fn a_stall_is_not_paid_back_at_once() {
    let mut worker = paced(1e6, 8, 1);
    let mut now = 0;
    let mut go = |worker: &mut Worker<_, _>, until: u64| {
        while now < until {
            worker.turn(Instant::from_nanos(now));
            now += 500;
        }
        now = until;
    };
    go(&mut worker, 10_000_000);
    let before = sent(&worker);
    assert!(before.abs_diff(10_000) <= 9);
    // Half a second without a turn, then ten microseconds.
    worker.turn(Instant::from_nanos(510_000_000));
    assert_eq!(sent(&worker) - before, 8);
    for ns in (510_000_500..510_010_000).step_by(500) {
        worker.turn(Instant::from_nanos(ns));
    }
    assert!((sent(&worker) - before).abs_diff(8 + 10) <= 1, "{}", sent(&worker) - before);
}
