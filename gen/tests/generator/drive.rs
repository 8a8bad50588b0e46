//! Somebody pauses a run and changes its rate.

use crate::rig::{Rig, Spec, rig};
use roce_engine::cc::{PaceUnit, Pacer};
use roce_engine::units::{Duration, Instant, Qpn};
use roce_gen::config::Verb;
use roce_gen::workload::{Arrivals, Command, Drive, Pace};

const MS: u64 = 1_000_000;
/// The span of a turn.
const TURN: u64 = 1_000;

fn drive(rig: &mut Rig, paused: bool, percent: u32, limit: Option<Pacer>) {
    let limits = vec![limit; rig.flows].into();
    let now = Instant::from_nanos(rig.now);
    for worker in &mut rig.workers {
        worker
            .command(now, Command::Drive(Drive { paused, percent, limits: std::sync::Arc::clone(&limits) }));
    }
}

/// Messages posted in so many milliseconds.
fn posted(rig: &mut Rig, ms: u64) -> u64 {
    let before = rig.ask(Command::Sample)[0].stats.posted;
    rig.turns(ms * MS / TURN, TURN);
    rig.ask(Command::Sample)[0].stats.posted - before
}

fn open(arrivals: Arrivals) -> Spec {
    Spec { size: 64, depth: 64, messages: None, arrivals, ..Spec::new(Verb::Write) }
}

fn even(rate: f64) -> Arrivals {
    Arrivals::Even(Pace::new(rate, 1, 0))
}

/// Nothing is posted in a pause, and nobody waits because of it.
#[test]
fn a_pause_is_in_no_latency_of_an_open_loop() {
    let poisson = Arrivals::Poisson { mean_ns: 50_000.0 };
    let bursts = Arrivals::OnOff {
        pace: Pace::new(40_000.0, 1, 0),
        on: Duration::from_millis(1),
        off: Duration::from_millis(1),
    };
    for arrivals in [even(20_000.0), poisson, bursts] {
        let mut rig = rig(&[open(arrivals)], [None, None]);
        rig.start();
        let usual = posted(&mut rig, 100);
        assert!((1_700..2_300).contains(&usual), "{arrivals:?}: {usual}");
        drive(&mut rig, true, 100, None);
        assert_eq!(posted(&mut rig, 500), 0, "{arrivals:?}");
        drive(&mut rig, false, 100, None);
        let again = posted(&mut rig, 100);
        assert!((1_700..2_300).contains(&again), "{arrivals:?}: no burst makes up for the pause: {again}");
        let f = &rig.ask(Command::Sample)[0];
        let longest = f.latency.max_ns().unwrap_or(0);
        assert!(longest < 50 * TURN, "{arrivals:?}: {longest} ns");
        let now = Instant::from_nanos(rig.now);
        rig.workers[0].command(now, Command::StopPosting);
        rig.turns(100, TURN);
        assert_eq!(rig.finish().stats.overdue, 0, "{arrivals:?}");
    }
}

/// A message that is late when the run is paused is as late when it goes on, no later and no sooner.
#[test]
fn what_was_late_before_a_pause_stays_so() {
    // A pipe that is shut by a pacer far below what is due.
    let spec = Spec { size: 1024, depth: 1, ..open(even(10_000.0)) };
    let late = |pause: u64| {
        let mut rig = rig(&[spec], [None, None]);
        slow(&mut rig, Some(Pacer::new(PaceUnit::Packets, 1_000.0, 1, 0).unwrap()));
        rig.start();
        rig.turns(20 * MS / TURN, TURN);
        if pause != 0 {
            drive(&mut rig, true, 100, None);
            rig.turns(pause * MS / TURN, TURN);
            drive(&mut rig, false, 100, None);
        }
        rig.turns(20 * MS / TURN, TURN);
        let f = rig.ask(Command::Sample).remove(0);
        (f.stats.completed, f.latency.max_ns().unwrap())
    };
    let (straight, paused) = (late(0), late(400));
    assert!(straight.1 > 30 * MS, "{straight:?}");
    // The message under way ends in the pause, and the pacer has room for one more.
    assert!(paused.0.abs_diff(straight.0) <= 2, "{straight:?} {paused:?}");
    assert!(paused.1.abs_diff(straight.1) < 2 * MS, "{straight:?} {paused:?}");
}

fn slow(rig: &mut Rig, pacer: Option<Pacer>) {
    let (_, endpoints) = rig.workers[0].parts_mut();
    let qpn = qpn(&endpoints[0]);
    endpoints[0].qp_mut(qpn).unwrap().set_pacer(pacer);
}

/// The first queue pair of an endpoint.
fn qpn<I: roce_engine::io::PacketIo>(endpoint: &roce_engine::worker::Endpoint<I>) -> Qpn {
    (0..1 << 24).map(Qpn::new).find(|q| endpoint.qp(*q).is_some()).unwrap()
}

#[test]
fn a_closed_loop_stops_and_goes_on() {
    for think in [Duration::ZERO, Duration::from_micros(20)] {
        let mut rig = rig(&[Spec { depth: 4, ..open(Arrivals::Closed { think }) }], [None, None]);
        rig.start();
        let usual = posted(&mut rig, 10);
        assert!(usual > 1_000, "{usual}");
        drive(&mut rig, true, 100, None);
        assert_eq!(posted(&mut rig, 10), 0);
        assert_eq!(rig.ask(Command::Sample)[0].stats.outstanding, 0, "what was outstanding has ended");
        drive(&mut rig, false, 100, None);
        let again = posted(&mut rig, 10);
        assert!(again.abs_diff(usual) < usual / 50 + 10, "{usual} {again}");
        assert_eq!(rig.ask(Command::Sample)[0].stats.outstanding.min(1), u64::from(think == Duration::ZERO));
    }
}

/// Whoever is to begin in a pause begins when it is over, and then as ever.
#[test]
fn what_begins_in_a_pause_begins_after_it() {
    let think = Duration::from_micros(20);
    for arrivals in [Arrivals::CLOSED, Arrivals::Closed { think }, even(20_000.0)] {
        let spec = Spec { depth: 4, ..open(arrivals) };
        let mut usual = rig(&[spec], [None, None]);
        usual.start();
        let usual = posted(&mut usual, 10);
        let mut rig = rig(&[spec], [None, None]);
        drive(&mut rig, true, 100, None);
        rig.start();
        assert_eq!(posted(&mut rig, 10), 0, "{arrivals:?}");
        drive(&mut rig, false, 100, None);
        let got = posted(&mut rig, 10);
        assert!(usual > 100 && got.abs_diff(usual) < usual / 50 + 10, "{arrivals:?}: {usual} {got}");
    }
}

/// One that has not begun when the run ends owes nothing.
#[test]
fn what_never_begins_is_not_overdue() {
    let mut rig = rig(&[open(even(20_000.0))], [None, None]);
    rig.turns(10 * MS / TURN, TURN);
    drive(&mut rig, true, 100, None);
    rig.start();
    rig.turns(10 * MS / TURN, TURN);
    let now = Instant::from_nanos(rig.now);
    rig.workers[0].command(now, Command::StopPosting);
    assert_eq!(rig.finish().stats.overdue, 0);
}

/// In per cent of what the scenario says, and back.
#[test]
fn a_rate_is_scaled_whatever_gives_it() {
    let poisson = Arrivals::Poisson { mean_ns: 50_000.0 };
    let paced = |rig: &mut Rig| slow(rig, Some(Pacer::new(PaceUnit::Packets, 20_000.0, 4, 0).unwrap()));
    let none: fn(&mut Rig) = |_| {};
    for (name, spec, prepare) in [
        ("even", open(even(20_000.0)), none),
        ("poisson", open(poisson), none),
        ("paced", open(Arrivals::CLOSED), paced as fn(&mut Rig)),
    ] {
        let mut rig = rig(&[spec], [None, None]);
        prepare(&mut rig);
        rig.start();
        rig.turns(10 * MS / TURN, TURN);
        for percent in [50, 10, 150, 200, 100] {
            drive(&mut rig, false, percent, None);
            // What was outstanding at the rate before.
            rig.turns(10 * MS / TURN, TURN);
            let got = posted(&mut rig, 200);
            let want = 4_000 * u64::from(percent) / 100;
            assert!(got.abs_diff(want) <= want / 10, "{name}: {got} at {percent} %, not {want}");
        }
        let longest = rig.ask(Command::Sample)[0].latency.max_ns().unwrap_or(0);
        if name != "paced" {
            assert!(longest < 50 * TURN, "{name}: nobody is late because the rate changed: {longest} ns");
        }
    }
}

/// One that nothing paces is held to what it is told, and let go.
#[test]
fn a_flow_without_a_rate_is_held_and_let_go() {
    let mut rig = rig(&[open(Arrivals::CLOSED)], [None, None]);
    rig.start();
    let usual = posted(&mut rig, 20);
    drive(&mut rig, false, 90, Some(Pacer::new(PaceUnit::Packets, 5_000.0, 4, 0).unwrap()));
    rig.turns(20 * MS / TURN, TURN);
    let held = posted(&mut rig, 100);
    assert!(usual > 2_000 && held.abs_diff(500) < 20, "{usual} {held}");
    drive(&mut rig, false, 100, None);
    rig.turns(MS / TURN, TURN);
    let free = posted(&mut rig, 20);
    assert!(free.abs_diff(usual) < usual / 50 + 10, "{usual} {free}");
    assert_eq!(rig.finish().stats.failed, 0);
}
