//! The poll loop over ports in memory, with a clock that the test turns.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod alloc;
mod app;
mod balance;
mod crossing;
mod net;
mod pace;
mod pause;
mod stall;

use app::App;
use net::TestIo;
use roce_engine::units::Instant;
use roce_engine::worker::{Endpoint, EndpointConfig, Worker};

/// An endpoint of an only worker.
fn endpoint(io: TestIo, secret: u64, vlan: Option<u16>) -> Endpoint<TestIo> {
    Endpoint::new(io, EndpointConfig { secret, vlan, ..EndpointConfig::default() }, None)
}

/// Turns all workers, a microsecond for each round, until `is_over`; panics after ten seconds of theirs.
fn turn_until(
    workers: &mut [Worker<TestIo, App>],
    from: Instant,
    mut is_over: impl FnMut(&[Worker<TestIo, App>]) -> bool,
) -> Instant {
    for us in 0..10_000_000 {
        let now = Instant::from_nanos(from.as_nanos() + us * 1000);
        if is_over(workers) {
            return now;
        }
        for worker in workers.iter_mut() {
            worker.turn(now);
        }
    }
    panic!("it does not end");
}

fn all_through(workers: &[Worker<TestIo, App>]) -> bool {
    workers.iter().all(|w| w.app().is_through())
}
