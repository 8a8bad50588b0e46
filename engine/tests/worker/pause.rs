//! Pauses through the whole poll loop.

use crate::app::{App, Place, Spec, connect};
use crate::net::{Net, TestIo};
use crate::{all_through, turn_until};
use roce_engine::cc::{CnpKey, Lag, NotificationConfig, PauseConfig, PauseKind};
use roce_engine::fabric::mark_ce;
use roce_engine::units::{Instant, Rate};
use roce_engine::wire::{MacAddr, Opcode, Pause, classify};
use roce_engine::worker::{Endpoint, EndpointConfig, Worker};

/// What the queue pairs here send is of priority 0.
const DATA: u8 = 1;

fn pause(speed: Rate, lag: Option<Lag>) -> PauseConfig {
    PauseConfig {
        kind: PauseKind::Pfc,
        lossless: DATA,
        obey: true,
        speed,
        mac: MacAddr([2, 0, 0, 0, 0, 9]),
        quanta: u16::MAX,
        lag,
        storm: None,
        watchdog: None,
    }
}

fn endpoint(io: TestIo, secret: u64, pause: PauseConfig) -> Endpoint<TestIo> {
    let notification = Some(NotificationConfig { key: CnpKey::None, ..NotificationConfig::default() });
    let config = EndpointConfig { secret, notification, pause: Some(pause), ..EndpointConfig::default() };
    Endpoint::new(io, config, None)
}

/// Two workers; the second one sends as well if asked to.
fn pair(net: &Net, b_sends: bool, lag: Option<Lag>) -> [Worker<TestIo, App>; 2] {
    let speed = Rate::from_gbps(10);
    let mut a = endpoint(net.port(0, None), 1, pause(speed, None));
    let mut b = endpoint(net.port(1, None), 2, pause(speed, lag));
    let spec = Spec { size: 1000, messages: 3000, timeout: 14, ..Spec::default() };
    let mut halves = [Vec::new(), Vec::new()];
    let (at_a, at_b) =
        (Place { endpoint: &mut a, index: 0, host: 1 }, Place { endpoint: &mut b, index: 0, host: 2 });
    let [x, y] = connect(spec, at_a, at_b);
    halves[0].push(x);
    halves[1].push(y);
    if b_sends {
        let (at_a, at_b) =
            (Place { endpoint: &mut a, index: 0, host: 1 }, Place { endpoint: &mut b, index: 0, host: 2 });
        let [y, x] = connect(spec, at_b, at_a);
        halves[0].push(x);
        halves[1].push(y);
    }
    let [of_a, of_b] = halves.map(|halves| App { halves, strangers: 0 });
    [Worker::new(vec![a], of_a), Worker::new(vec![b], of_b)]
}

/// Everything goes to the other port; what comes to port 0 is marked.
fn marking(from: usize, mut bytes: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
    if from == 1 {
        mark_ce(&mut bytes);
    }
    vec![(1 - from, bytes)]
}

fn frame(pause: Pause) -> Vec<u8> {
    let mut frame = vec![0; Pause::FRAME_LEN];
    pause.emit(MacAddr::default(), &mut frame);
    frame
}

fn run(workers: &mut [Worker<TestIo, App>], us: std::ops::Range<u64>) {
    for us in us {
        for worker in workers.iter_mut() {
            worker.turn(Instant::from_nanos(us * 1000));
        }
    }
}

#[test]
fn c13_data_stops_cnps_do_not_and_xon_ends_it_at_once() {
    let net = Net::new(2, marking);
    let mut workers = pair(&net, true, None);
    run(&mut workers, 0..20);
    let tx = |w: &[Worker<TestIo, App>; 2]| w[0].endpoints()[0].counters().tx_packets;
    let cnps = |w: &[Worker<TestIo, App>; 2]| {
        let sent = |h: &crate::app::Half| h.counters(&w[0].endpoints()[0]).np_cnp_sent;
        w[0].app().halves.iter().map(sent).sum::<u64>()
    };
    assert!(tx(&workers) > 20);
    // An empty vector stops nothing.
    net.inject(0, frame(Pause::Pfc { enable: 0, quanta: [u16::MAX; 8] }));
    let before = tx(&workers);
    run(&mut workers, 20..30);
    assert!(tx(&workers) > before + 10);
    net.inject(0, frame(Pause::pfc(DATA, u16::MAX)));
    // B still sends what its window and depth allow: a answers with CNPs only.
    let before = (tx(&workers), cnps(&workers));
    run(&mut workers, 30..60);
    let during = (tx(&workers) - before.0, cnps(&workers) - before.1);
    assert!(during.0 == during.1 && during.1 > 0, "{during:?}");
    let quiet = tx(&workers);
    run(&mut workers, 60..100);
    assert_eq!(tx(&workers), quiet);
    net.inject(0, frame(Pause::pfc(DATA, 0)));
    run(&mut workers, 100..101);
    assert!(tx(&workers) > quiet);
    // 65535 quanta at 10 Gb/s are 3.355 ms: without XON it ends by itself.
    net.inject(0, frame(Pause::pfc(DATA, u16::MAX)));
    let end = turn_until(&mut workers, Instant::from_nanos(200_000), all_through);
    assert!(end > Instant::from_nanos(3_555_000), "{end:?}");
    let c = workers[0].endpoints()[0].counters();
    assert_eq!(c.pause_frames, 4);
    assert!(c.is_balanced() && workers.iter().all(|w| w.app().halves.iter().all(|h| h.failed == 0)));
    let p = workers[0].endpoints()[0].pause_counters().unwrap();
    assert_eq!((p.rx_xoff[0], p.rx_xon[0], p.pauses[0]), (2, 1, 2));
    assert_eq!(p.paused_ns[0], 70_000 + 3_355_392);
}

#[test]
fn who_falls_behind_slows_its_peer_to_its_own_rate() {
    let lag = Lag { drain: Rate::from_gbps(1), xoff: 50_000, xon: 25_000 };
    let net = Net::new(2, |from, bytes| vec![(1 - from, bytes)]);
    let mut workers = pair(&net, false, Some(lag));
    let end = turn_until(&mut workers, Instant::ZERO, all_through);
    // 3000 messages of 1074 bytes at 1 Gb/s, but for what the buffer holds.
    let want = 3000.0 * 1074.0 * 8.0 - 50_000.0 * 8.0;
    let got = end.as_nanos() as f64;
    assert!((0.97..1.1).contains(&(got / want)), "{got} ns, not {want}");
    let [a, b] = [0, 1].map(|i| workers[i].endpoints()[0].pause_counters().unwrap());
    assert!(b.tx_xoff[0] > 5 && b.tx_xon[0] > 3, "{b:?}");
    assert_eq!((a.rx_xoff[0], a.rx_xon[0]), (b.tx_xoff[0], b.tx_xon[0]));
    // Paused nearly all the time.
    assert!(a.paused_ns[0] as f64 > 0.8 * got, "{a:?}");
    let sender = workers[0].app().halves[0].counters(&workers[0].endpoints()[0]);
    assert_eq!((sender.retransmits, sender.local_ack_timeout_err), (0, 0));
    assert!(workers.iter().all(|w| w.endpoints()[0].counters().is_balanced()));
}

#[test]
fn pauses_are_not_obeyed_where_nobody_asked_for_it() {
    let net = Net::new(2, |from, bytes| vec![(1 - from, bytes)]);
    let mut a = crate::endpoint(net.port(0, None), 1, None);
    let mut b = crate::endpoint(net.port(1, None), 2, None);
    let spec = Spec { messages: 50, ..Spec::default() };
    let halves = connect(
        spec,
        Place { endpoint: &mut a, index: 0, host: 1 },
        Place { endpoint: &mut b, index: 0, host: 2 },
    );
    net.inject(0, frame(Pause::pfc(0xFF, u16::MAX)));
    net.inject(0, frame(Pause::Link { quanta: u16::MAX }));
    let [x, y] = halves.map(|half| App { halves: vec![half], strangers: 0 });
    let mut workers = [Worker::new(vec![a], x), Worker::new(vec![b], y)];
    let end = turn_until(&mut workers, Instant::ZERO, all_through);
    assert!(end < Instant::from_nanos(300_000), "{end:?}");
    let c = workers[0].endpoints()[0].counters();
    assert_eq!((c.pause_frames, c.dropped_total()), (2, 0));
    assert!(c.is_balanced() && workers[0].endpoints()[0].pause_counters().is_none());
}

#[test]
fn pause_frames_look_right_on_the_wire() {
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = seen.clone();
    let net = Net::new(2, move |from, bytes| {
        if classify(&bytes).is_err() {
            log.borrow_mut().push(bytes.clone());
        }
        assert!(classify(&bytes).is_ok_and(|p| p.bth.opcode != Opcode::CNP) || from == 1);
        vec![(1 - from, bytes)]
    });
    let lag = Lag { drain: Rate::from_gbps(1), xoff: 10_000, xon: 5_000 };
    let mut workers = pair(&net, false, Some(lag));
    run(&mut workers, 0..200);
    let seen = seen.borrow();
    assert_eq!(Pause::parse(&seen[0]), Some(Pause::pfc(DATA, u16::MAX)));
    assert_eq!(seen[0][6..12], [2, 0, 0, 0, 0, 9]);
    assert_eq!(Pause::parse(&seen[1]), Some(Pause::pfc(DATA, 0)), "let go before half of the time is over");
}
