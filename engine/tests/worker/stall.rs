//! A port that takes nothing: for a moment, and for ever.

use crate::app::{App, Place, Spec, connect};
use crate::net::{Net, TestIo};
use crate::{all_through, endpoint, turn_until};
use roce_engine::units::{Duration, Instant};
use roce_engine::verbs::CompletionStatus;
use roce_engine::worker::Worker;

const PATIENCE: Duration = Duration::from_millis(500);

fn pair(net: &Net, spec: Spec, patience: Option<Duration>) -> [Worker<TestIo, App>; 2] {
    let mut a = endpoint(net.port(0, patience), 1, None);
    let mut b = endpoint(net.port(1, patience), 2, None);
    let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
    let at_b = Place { endpoint: &mut b, index: 0, host: 2 };
    let mut apps = connect(spec, at_a, at_b).map(|h| App { halves: vec![h], strangers: 0 }).into_iter();
    [a, b].map(|e| Worker::new(vec![e], apps.next().unwrap()))
}

fn turn_all(workers: &mut [Worker<TestIo, App>], now: Instant) {
    for worker in workers {
        worker.turn(now);
    }
}

#[test]
fn a_pause_costs_nothing() {
    let net = Net::new(2, |from, frame| vec![(1 - from, frame)]);
    // The timer of 2^16 x 4.096 us does not fire within the pause.
    let spec = Spec { messages: 1000, timeout: 16, ..Spec::default() };
    let mut workers = pair(&net, spec, Some(PATIENCE));
    let at = turn_until(&mut workers, Instant::ZERO, |w| w[0].app().halves[0].done > 100);
    net.block(0, true);
    let end = at + Duration::from_millis(200);
    for us in 0..200_000 {
        let now = at + Duration::from_micros(us);
        turn_all(&mut workers, now);
    }
    net.block(0, false);
    turn_until(&mut workers, end, all_through);
    let c = workers[0].endpoints()[0].counters();
    assert!(c.tx_full_turns > 100_000 && c.tx_dropped == 0, "{c:?}");
    assert_eq!(workers[0].app().halves[0].counters(&workers[0].endpoints()[0]).retransmits, 0);
}

/// A link that is lost must be noticed, though nothing leaves any more that a timer could run for.
#[test]
fn a_link_that_is_lost_fails_the_queue_pair() {
    let net = Net::new(2, |from, frame| vec![(1 - from, frame)]);
    // 16.8 ms, four times.
    let spec = Spec { messages: 1_000_000, depth: 64, timeout: 12, retry_cnt: 3, ..Spec::default() };
    let mut workers = pair(&net, spec, Some(PATIENCE));
    let at = turn_until(&mut workers, Instant::ZERO, |w| w[0].app().halves[0].done > 1000);
    net.block(0, true);
    net.block(1, true);
    let end = turn_until(&mut workers, at, |w| w[0].app().is_through() && w[0].app().outstanding() == 0);
    let half = &workers[0].app().halves[0];
    assert_eq!(half.first_failure, Some(CompletionStatus::RetryExcErr));
    assert_eq!(half.failed, 64, "every message ends");
    let took = end.since(at);
    assert!(took < PATIENCE + Duration::from_millis(4 * 4 * 17 + 50), "{took}");
    let c = workers[0].endpoints()[0].counters();
    assert!(c.tx_dropped > 0 && c.is_balanced(), "{c:?}");
    let qp = half.counters(&workers[0].endpoints()[0]);
    assert_eq!(qp.psns_sent, qp.psns_acked + qp.psns_failed);
}

/// And one that comes back is used again.
#[test]
fn a_link_that_comes_back_goes_on() {
    let net = Net::new(2, |from, frame| vec![(1 - from, frame)]);
    let spec = Spec { messages: 3000, timeout: 14, ..Spec::default() };
    let mut workers = pair(&net, spec, Some(PATIENCE));
    let at = turn_until(&mut workers, Instant::ZERO, |w| w[0].app().halves[0].done > 100);
    net.block(0, true);
    let back = at + Duration::from_millis(800);
    for us in 0..800_000 {
        let now = at + Duration::from_micros(us);
        turn_all(&mut workers, now);
    }
    net.block(0, false);
    turn_until(&mut workers, back, all_through);
    assert_eq!(workers[0].app().halves[0].done, 3000);
    assert_eq!(workers[1].app().halves[0].received, 3000);
}

/// Where the port has all the time there is, so have the frames.
#[test]
fn without_an_end_to_patience_nothing_is_dropped() {
    let net = Net::new(2, |from, frame| vec![(1 - from, frame)]);
    let spec = Spec { messages: 10, timeout: 0, ..Spec::default() };
    let mut workers = pair(&net, spec, None);
    net.block(0, true);
    for ms in 0..5_000 {
        let now = Instant::from_nanos(ms * 1_000_000);
        turn_all(&mut workers, now);
    }
    net.block(0, false);
    turn_until(&mut workers, Instant::from_nanos(5_000_000_000), all_through);
    assert_eq!(workers[0].endpoints()[0].counters().tx_dropped, 0);
    assert_eq!(workers[0].app().halves[0].counters(&workers[0].endpoints()[0]).retransmits, 0);
}
