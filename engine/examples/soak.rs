//! Random schedules of faults between two queue pairs in virtual time, as many as are asked for.
//!
//! `soak COUNT FIRST`: runs schedules FIRST .. FIRST + COUNT, on all cores; see `scripts/soak`.
//! Exit code 0 when none failed, 1 when one did, 2 when the arguments are wrong.
#![allow(clippy::print_stderr, reason = "a command line program")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::schedule;
use common::script::Random;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Failures that are printed; there is little to learn from the hundredth.
const MOST_PRINTED: u64 = 20;

#[allow(clippy::disallowed_methods, reason = "how fast it is; the schedules have a clock of their own")]
fn main() -> ExitCode {
    let args: Vec<Option<u64>> = std::env::args().skip(1).map(|a| a.parse().ok()).collect();
    let [Some(count), Some(first)] = args[..] else {
        eprintln!("usage: soak COUNT FIRST, two whole numbers from 0 on");
        return ExitCode::from(2);
    };
    let began = Instant::now();
    let (taken, done, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let n = taken.fetch_add(1, Relaxed);
            if n >= count {
                return;
            }
            if let Err(what) = one(first.wrapping_add(n))
                && failed.fetch_add(1, Relaxed) < MOST_PRINTED
            {
                println!("schedule {}: {what}", first.wrapping_add(n));
            }
            done.fetch_add(1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        let mut told = Duration::ZERO;
        while done.load(Relaxed) < count {
            std::thread::sleep(Duration::from_millis(50));
            if began.elapsed() >= told + Duration::from_secs(10) {
                told = began.elapsed();
                let (done, failed) = (done.load(Relaxed), failed.load(Relaxed));
                eprintln!("{done} of {count} schedules, {failed} failed, {} s", told.as_secs());
            }
        }
    });
    let (failed, seconds) = (failed.into_inner(), began.elapsed().as_secs_f64());
    let last = first.wrapping_add(count.saturating_sub(1));
    println!(
        "{count} schedules run ({first} to {last}), {failed} failures, {seconds:.0} s, {:.0} schedules/s",
        count as f64 / seconds.max(1e-9)
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Schedule `n`: up to 23 messages, up to one frame in five meets a fault; every second
/// one recovers by selective repeat.
fn one(n: u64) -> Result<(), String> {
    let mut random = Random(n);
    let (seed, faults, ops) = (random.next(), random.below(200), 1 + random.below(23) as usize);
    let recovery = schedule::recovery_of(n % 2 == 1);
    std::panic::catch_unwind(|| schedule::run(seed, faults, ops, recovery))
        .unwrap_or_else(|_| Err(format!("seed {seed:#x} faults {faults} ops {ops} {recovery:?}: panicked")))
}
