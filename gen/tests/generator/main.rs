//! The generator on two workers joined in memory: faults that no iCRC shows are found, messages
//! are posted when they are due, and nothing is allocated.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod drive;
mod rig;

use rig::{Fate, Judge, MTU, Seen, Spec, rig};
use roce_engine::units::{Duration, Instant};
use roce_gen::config::Verb;
use roce_gen::measure::{FlowSample, Latency};
use roce_gen::workload::{Arrivals, Buffers, Command, Pace};

/// Runs `spec`, with a judge over the frames that carry payload.
fn tampered(spec: Spec, judge: impl FnMut(&mut Seen<'_>) -> Fate + 'static) -> FlowSample {
    let judge: Judge = Box::new(judge);
    let judges = if spec.verb == Verb::Read { [None, Some(judge)] } else { [Some(judge), None] };
    rig(&[spec], judges).run().finish()
}

/// Changes the `n`th frame that carries payload, from 0.
fn once(n: u64, mut change: impl FnMut(&mut Seen<'_>)) -> impl FnMut(&mut Seen<'_>) -> Fate {
    let mut count = 0;
    move |seen| {
        if seen.len == 0 {
            return Fate::Pass;
        }
        count += 1;
        if count != n + 1 {
            return Fate::Pass;
        }
        change(seen);
        Fate::Changed
    }
}

#[test]
fn a_clean_run_has_nothing_wrong() {
    for verb in Verb::ALL {
        for uc in [false, true] {
            if uc && verb == Verb::Read {
                continue;
            }
            let f = tampered(Spec { uc, ..Spec::new(verb) }, |_| Fate::Pass);
            let s = f.stats;
            assert_eq!((s.posted, s.completed, s.failed, s.outstanding), (50, 50, 0, 0), "{verb} {uc}");
            assert_eq!((s.received, s.verified, s.verify_errors, s.lost), (50, 50, 0, 0), "{verb} {uc}");
            assert_eq!((s.wrong, f.latency.count()), (None, 50));
        }
    }
}

#[test]
fn a_flipped_bit_is_found_where_it_is() {
    // Frame 7 is the second of message 2: three frames each.
    for verb in Verb::ALL {
        for (at, offset) in [(0, MTU), (333, MTU + 333), (MTU - 1, 2 * MTU - 1)] {
            let f = tampered(Spec::new(verb), once(7, move |seen| seen.bytes[seen.payload + at] ^= 1));
            let wrong = f.stats.wrong.unwrap();
            assert_eq!((f.stats.verified, f.stats.verify_errors, f.stats.completed), (50, 1, 50), "{verb}");
            assert_eq!((wrong.message, wrong.offset), (2, offset as u64), "{verb}");
        }
    }
}

#[test]
fn messages_that_change_places_are_found() {
    for verb in [Verb::Send, Verb::Write, Verb::WriteImm] {
        // The payload of the message before stands in for its own.
        let mut before = Vec::new();
        let mut n = 0;
        let swap = move |seen: &mut Seen<'_>| {
            if seen.len == 0 {
                return Fate::Pass;
            }
            n += 1;
            let payload = seen.payload..seen.payload + seen.len;
            let own = seen.bytes[payload.clone()].to_vec();
            if n == 11 {
                seen.bytes[payload].copy_from_slice(&before);
            }
            before = own;
            if n == 11 { Fate::Changed } else { Fate::Pass }
        };
        let f = tampered(Spec { size: 900, ..Spec::new(verb) }, swap);
        assert_eq!((f.stats.verify_errors, f.stats.wrong.unwrap().message), (1, 10), "{verb}");
        assert_eq!(f.stats.wrong.unwrap().offset, 0, "{verb}");
    }
}

#[test]
fn bytes_from_elsewhere_in_the_message_are_found() {
    // The second kilobyte comes twice, the third not at all.
    for verb in Verb::ALL {
        let mut second = Vec::new();
        let mut n = 0;
        let torn = move |seen: &mut Seen<'_>| {
            if seen.len == 0 {
                return Fate::Pass;
            }
            n += 1;
            let payload = seen.payload..seen.payload + seen.len;
            match n {
                2 => second = seen.bytes[payload].to_vec(),
                3 => {
                    let len = seen.len;
                    seen.bytes[payload].copy_from_slice(&second[..len]);
                    return Fate::Changed;
                }
                _ => {}
            }
            Fate::Pass
        };
        let f = tampered(Spec::new(verb), torn);
        let wrong = f.stats.wrong.unwrap();
        assert_eq!((f.stats.verify_errors, wrong.message, wrong.offset), (1, 0, 2 * MTU as u64), "{verb}");
    }
}

#[test]
fn a_write_to_the_wrong_place_is_found() {
    for verb in [Verb::Write, Verb::WriteImm] {
        let stride = Buffers::stride(500, true);
        let aside = move |seen: &mut Seen<'_>| {
            let va = seen.extension..seen.extension + 8;
            let old = u64::from_be_bytes(seen.bytes[va.clone()].try_into().unwrap());
            seen.bytes[va].copy_from_slice(&(old + stride).to_be_bytes());
        };
        let f = tampered(Spec { size: 500, ..Spec::new(verb) }, once(4, aside));
        assert!(f.stats.verify_errors >= 1, "{verb}");
        assert_eq!(f.stats.wrong.unwrap().message, 4, "{verb}");
    }
}

/// Between the buffers there are bytes that nobody may touch.
#[test]
fn a_write_past_its_buffer_is_found() {
    // The last message into its slot, eight bytes late: what the slot lacks is found as well.
    let late = |seen: &mut Seen<'_>| {
        let va = seen.extension..seen.extension + 8;
        let old = u64::from_be_bytes(seen.bytes[va.clone()].try_into().unwrap());
        seen.bytes[va].copy_from_slice(&(old + 512).to_be_bytes());
    };
    let f = tampered(Spec { size: 512, ..Spec::new(Verb::Write) }, once(49, late));
    assert_eq!(f.stats.verify_errors, 2, "the message, and the bytes behind its buffer: {:?}", f.stats);
}

#[test]
fn wrong_immediate_data_is_found() {
    for verb in [Verb::SendImm, Verb::WriteImm] {
        let mut n = 0;
        let flip = move |seen: &mut Seen<'_>| {
            if !seen.name.ends_with("IMM") {
                return Fate::Pass;
            }
            n += 1;
            if n != 6 {
                return Fate::Pass;
            }
            // The immediate data stands right before the payload.
            seen.bytes[seen.payload - 1] ^= 0x80;
            Fate::Changed
        };
        let f = tampered(Spec::new(verb), flip);
        let s = f.stats;
        assert_eq!((s.verify_errors, s.wrong.unwrap().message), (1, 5), "{verb}");
        assert_eq!((s.received, s.verified), (50, 50), "{verb}");
    }
}

/// On an unreliable connection messages may go missing; that is lost, not wrong.
#[test]
fn unreliable_messages_that_are_lost_are_counted_as_lost() {
    for verb in [Verb::Send, Verb::SendImm, Verb::Write, Verb::WriteImm] {
        let mut n = 0;
        let lossy = move |_: &mut Seen<'_>| {
            n += 1;
            // One frame of messages 3, 10, 11 and 20, of three frames each.
            if [10, 31, 34, 63].contains(&n) { Fate::Drop } else { Fate::Pass }
        };
        let f = tampered(Spec { uc: true, ..Spec::new(verb) }, lossy);
        let s = f.stats;
        assert_eq!((s.completed, s.received, s.lost), (50, 46, 4), "{verb}");
        assert_eq!((s.verified, s.verify_errors), (46, 0), "{verb}: {:?}", s.wrong);
    }
}

/// The reliable connection makes up for what is lost before anybody checks it.
#[test]
fn reliable_messages_are_whole_in_the_end() {
    for verb in Verb::ALL {
        let mut n = 0;
        let lossy = move |_: &mut Seen<'_>| {
            n += 1;
            if n % 13 == 0 { Fate::Drop } else { Fate::Pass }
        };
        let s = tampered(Spec::new(verb), lossy).stats;
        assert_eq!((s.completed, s.verified, s.verify_errors, s.lost), (50, 50, 0, 0), "{verb}");
        assert!(s.counters.iter().any(|c| c.retransmits > 0));
    }
}

/// A message lands in whatever buffer the shared queue has next, and is checked there.
#[test]
fn shared_receives_are_anybodys() {
    // Four messages each are under way for as few receives as that, most of them of the first flow.
    let specs = [4, 2, 1].map(|entries| Spec { srq: Some(entries), ..Spec::new(Verb::Send) });
    let mut busy = specs.to_vec();
    busy.push(Spec { srq: Some(1), ..Spec::new(Verb::SendImm) });
    for f in rig(&busy, [None, None]).run().ask(Command::Finish) {
        let s = f.stats;
        assert_eq!((s.completed, s.received, s.verified, s.verify_errors), (50, 50, 50, 0), "{:?}", s.wrong);
        assert!(s.is_balanced());
    }
    // And a bit that is wrong is found, whosever buffer it lies in.
    let judge: Judge = Box::new(once(40, |seen| seen.bytes[seen.payload + 9] ^= 1));
    let flows = rig(&specs, [Some(judge), None]).run().ask(Command::Finish);
    assert_eq!(flows.iter().map(|f| f.stats.verify_errors).sum::<u64>(), 1);
    assert_eq!(flows.iter().map(|f| f.stats.verified).sum::<u64>(), 150);
}

#[test]
fn messages_are_posted_when_they_are_due() {
    // (messages a second, nanoseconds a turn)
    for (rate, step) in [(1_000.0, 500), (333.0, 10_000), (250_000.0, 1_000), (0.5, 100_000)] {
        let arrivals = Arrivals::Even(Pace::new(rate, 1, 0));
        let spec = Spec { size: 64, depth: 16, messages: None, arrivals, ..Spec::new(Verb::Write) };
        let mut rig = rig(&[spec], [None, None]);
        rig.start();
        let span = (1000.0 / rate * 1e9).min(3e9) as u64;
        rig.turns(span / step, step);
        let f = &rig.ask(Command::Sample)[0];
        // The first is due at once.
        let due = (rig.now as f64 / 1e9 * rate).floor() as u64 + 1;
        assert!(f.stats.posted.abs_diff(due) <= 1, "{rate}: {} of {due}", f.stats.posted);
        assert!(f.latency.max_ns().unwrap() <= 10 * step, "{rate}: {:?}", f.latency.max_ns());
    }
}

/// H02: a message counts from when it was due, so that a stall is in the latencies of all it held up.
#[test]
fn a_stall_is_in_the_latencies() {
    let arrivals = Arrivals::Even(Pace::new(10_000.0, 1, 0));
    let spec = Spec { size: 64, depth: 2048, messages: None, arrivals, ..Spec::new(Verb::Write) };
    let mut rig = rig(&[spec], [None, None]);
    rig.start();
    rig.turns(10_000, 10_000);
    // Nobody is there for 50 ms, in which 500 messages are due.
    rig.turns(1, 50_000_000);
    rig.turns(5_000, 10_000);
    let f = &rig.ask(Command::Sample)[0];
    assert_eq!(f.stats.posted.abs_diff(2_000), 1, "none is left out");
    let l = &f.latency;
    assert!((49_000_000..52_000_000).contains(&l.max_ns().unwrap()), "{:?}", l.max_ns());
    // A quarter of all messages waited, evenly up to 50 ms.
    let near = |percent, ms: f64| {
        let got = l.percentile_ns(percent).unwrap() as f64 / 1e6;
        assert!((got - ms).abs() < 1.0, "p{percent}: {got} ms");
    };
    near(75.0, 0.5);
    near(87.5, 25.0);
    near(97.5, 45.0);
}

/// Several queue pairs take turns.
#[test]
fn lanes_of_a_flow_are_due_one_after_the_other() {
    let specs = [0, 1, 2, 3].map(|i| {
        let arrivals = Arrivals::Even(Pace::new(1_000.0, 4, i));
        Spec { size: 8, messages: None, arrivals, ..Spec::new(Verb::Send) }
    });
    let mut rig = rig(&specs, [None, None]);
    rig.start();
    let mut posted = Vec::new();
    for _ in 0..8 {
        rig.turns(100, 10_000);
        let flows = rig.ask(Command::Sample);
        posted.push(flows.iter().map(|f| f.stats.posted).sum::<u64>());
    }
    for (i, n) in posted.iter().enumerate() {
        assert!(n.abs_diff(i as u64 + 2) <= 1, "one a millisecond: {posted:?}");
    }
}

/// Whoever thinks between two messages has no more of them under way than its depth, and waits.
#[test]
fn a_closed_loop_takes_its_time_to_think() {
    let think = Duration::from_micros(100);
    let arrivals = Arrivals::Closed { think };
    let mut rig = rig(&[Spec { size: 8, messages: None, arrivals, ..Spec::new(Verb::Write) }], [None, None]);
    rig.start();
    rig.turns(10_000, 1_000);
    let f = &rig.ask(Command::Sample)[0];
    // Four places, each with a message every 100 us and a few turns.
    assert!((370..=400).contains(&f.stats.completed), "{}", f.stats.completed);
    assert!(f.latency.max_ns().unwrap() < 10_000, "thinking is not waiting: {:?}", f.latency.max_ns());
}

#[test]
fn nothing_is_allocated_in_a_turn() {
    let endless = |verb| Spec { messages: None, ..Spec::new(verb) };
    let mut specs: Vec<Spec> = Verb::ALL.map(endless).to_vec();
    specs.extend(Verb::ALL.into_iter().filter(|v| *v != Verb::Read).map(|v| Spec { uc: true, ..endless(v) }));
    specs.push(Spec { arrivals: Arrivals::Even(Pace::new(20_000.0, 1, 0)), ..endless(Verb::Write) });
    let on_off =
        |pace| Arrivals::OnOff { pace, on: Duration::from_micros(100), off: Duration::from_micros(300) };
    let think = Duration::from_micros(2);
    for arrivals in
        [Arrivals::Poisson { mean_ns: 30_000.0 }, on_off(Pace::new(1e5, 1, 0)), Arrivals::Closed { think }]
    {
        specs.push(Spec { arrivals, ..endless(Verb::Send) });
    }
    specs.extend([2, 3].map(|entries| Spec { srq: Some(entries), ..endless(Verb::Send) }));
    let mut rig = rig(&specs, [None, None]);
    rig.start();
    rig.turns(2_000, 1_000);
    let before = rig.ask(Command::Sample);
    let mut samples = [0, 1].map(|i| Some(Box::new(rig.workers[i].app().blank(&Latency::sized()))));
    let found = allocation_counter::measure(|| {
        for _ in 0..20 {
            rig.turns(1_000, 1_000);
            // Samples go round as in a run.
            let now = Instant::from_nanos(rig.now);
            for ((worker, answers), sample) in rig.workers.iter_mut().zip(&mut rig.answers).zip(&mut samples)
            {
                worker.command(now, Command::Sample(sample.take().unwrap()));
                *sample = answers.pop().ok();
            }
        }
    });
    let after = rig.ask(Command::Sample);
    for (b, a) in before.iter().zip(&after) {
        assert!(a.stats.completed > b.stats.completed + 100, "{}", a.stats.completed);
        assert_eq!(a.stats.verify_errors, 0);
    }
    assert_eq!(found.count_total, 0, "{found:?}");
}
