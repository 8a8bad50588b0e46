//! The time stamp counter as a clock.

use crate::io::Clock;
use crate::units::Instant;

/// The measuring time of a calibration.
const SPAN: std::time::Duration = std::time::Duration::from_millis(50);

/// The counter does not go at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time stamp counter does not run evenly: measured {first} Hz, then {second} Hz")]
pub struct ClockError {
    first: u64,
    second: u64,
}

/// Nanoseconds since calibration, read from the time stamp counter.
///
/// All copies share the origin, so that workers agree on the time.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    origin: u64,
    /// Nanoseconds per count, 32 fractional bits.
    mult: u64,
    hz: u64,
    wall: std::time::Instant,
}

impl TscClock {
    /// Measures the counter against CLOCK_MONOTONIC, twice for 50 ms.
    ///
    /// # Errors
    /// The two measurements differ by more than 0.1 %, five times over.
    #[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub fn calibrate() -> Result<TscClock, ClockError> {
        let mut worst = ClockError { first: 0, second: 0 };
        for _ in 0..5 {
            let (first, second) = (measure(), measure());
            if first.abs_diff(second) <= first / 1000 {
                let hz = first.midpoint(second);
                let mult = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
                let wall = std::time::Instant::now();
                return Ok(TscClock { origin: dpdk_ffi::tsc(), mult, hz, wall });
            }
            worst = ClockError { first, second };
        }
        Err(worst)
    }

    /// Counts a second, as measured.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Counts a second, as DPDK has them from the processor or its own measurement.
    pub fn nominal_hz(&self) -> u64 {
        dpdk_ffi::tsc_hz()
    }

    /// How far the clock is ahead of CLOCK_MONOTONIC since calibration, in parts per million.
    pub fn drift_ppm(&self) -> f64 {
        let wall = self.wall.elapsed().as_nanos() as f64;
        let own = self.read().as_nanos() as f64;
        (own - wall) / wall.max(1.0) * 1e6
    }

    /// The present time.
    #[inline]
    pub fn read(&self) -> Instant {
        let counts = dpdk_ffi::tsc().wrapping_sub(self.origin);
        Instant::from_nanos(((u128::from(counts) * u128::from(self.mult)) >> 32) as u64)
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&mut self) -> Instant {
        self.read()
    }
}

/// Counts a second over [`SPAN`].
#[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
fn measure() -> u64 {
    let (wall, tsc) = (std::time::Instant::now(), dpdk_ffi::tsc());
    std::thread::sleep(SPAN);
    let (span, counts) = (wall.elapsed(), dpdk_ffi::tsc().wrapping_sub(tsc));
    (u128::from(counts) * 1_000_000_000 / span.as_nanos().max(1)) as u64
}
