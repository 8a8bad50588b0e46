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
    pub fn calibrate() -> Result<TscClock, ClockError> {
        let mut worst = ClockError { first: 0, second: 0 };
        for _ in 0..5 {
            let (first, second) = (measure(), measure());
            if first.abs_diff(second) <= first / 1000 {
                let hz = first.midpoint(second);
                let mult = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
                let (wall, origin) = both();
                return Ok(TscClock { origin, mult, hz, wall });
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
        let (now, counts) = both();
        let wall = now.saturating_duration_since(self.wall).as_nanos() as f64;
        let own = self.at(counts).as_nanos() as f64;
        (own - wall) / wall.max(1.0) * 1e6
    }

    /// The present time.
    #[inline]
    pub fn read(&self) -> Instant {
        self.at(dpdk_ffi::tsc())
    }

    #[inline]
    fn at(&self, counts: u64) -> Instant {
        let counts = counts.wrapping_sub(self.origin);
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
fn measure() -> u64 {
    let (wall, tsc) = both();
    std::thread::sleep(SPAN);
    let (now, counts) = both();
    let (span, counts) = (now.saturating_duration_since(wall), counts.wrapping_sub(tsc));
    (u128::from(counts) * 1_000_000_000 / span.as_nanos().max(1)) as u64
}

/// Both clocks at one moment: of some readings the one in which the least time went by.
#[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
fn both() -> (std::time::Instant, u64) {
    let read = || {
        let before = dpdk_ffi::tsc();
        let wall = std::time::Instant::now();
        let took = dpdk_ffi::tsc().wrapping_sub(before);
        (took, wall, before.wrapping_add(took / 2))
    };
    let mut best = read();
    for _ in 0..16 {
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1, best.2)
}
