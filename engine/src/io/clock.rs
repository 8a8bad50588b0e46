//! Clocks of the poll loop.

use crate::units::Instant;

/// Tells the time once a turn.
pub trait Clock {
    /// Now.  Never earlier than before.
    fn now(&mut self) -> Instant;
}

/// CLOCK_MONOTONIC, from the moment that the clock was made.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock(std::time::Instant);

impl MonotonicClock {
    /// A clock whose origin is now.
    #[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub fn new() -> MonotonicClock {
        MonotonicClock(std::time::Instant::now())
    }
}

impl Default for MonotonicClock {
    fn default() -> MonotonicClock {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&mut self) -> Instant {
        Instant::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
