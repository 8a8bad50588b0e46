//! When messages are due.

use super::traffic::exponential;
use crate::random::Random;
use roce_engine::units::{Duration, Instant};

/// When the messages of a queue pair are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// As soon as there is room, but not sooner after a message has ended than this.
    Closed {
        /// The time between the end of a message and the next one in its place.
        think: Duration,
    },
    /// At even times.
    Even(Pace),
    /// At random times, with this mean in between.
    Poisson {
        /// Nanoseconds.
        mean_ns: f64,
    },
    /// At even times while on, and not at all while off.
    OnOff {
        /// The times while on.
        pace: Pace,
        /// How long messages are due.
        on: Duration,
        /// How long none is.
        off: Duration,
    },
}

/// Messages at fixed times: message `n` of a lane is due `offset + n x interval` after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds between two messages, 20 fractional bits.
    pub interval: u64,
    /// Nanoseconds from the start to the first.
    pub offset: u64,
}

impl Pace {
    /// `rate` messages a second over `lanes` lanes, of which this is number `index`.
    pub fn new(rate: f64, lanes: u32, index: u32) -> Pace {
        let interval = f64::from(lanes) / rate * 1e9;
        let offset = interval * f64::from(index) / f64::from(lanes);
        Pace { interval: (interval * f64::from(1 << 20)).min(u64::MAX as f64) as u64, offset: offset as u64 }
    }

    fn at(&self, number: u64) -> u64 {
        let after = (u128::from(number) * u128::from(self.interval)) >> 20;
        u64::try_from(after).unwrap_or(u64::MAX).saturating_add(self.offset)
    }

    /// Messages due until `ns` after the start.
    fn until(&self, ns: u64) -> u64 {
        let Some(since) = ns.checked_sub(self.offset) else { return 0 };
        let due = (u128::from(since) << 20) / u128::from(self.interval.max(1));
        u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Arrivals {
    /// Messages posted whenever there is room.
    pub const CLOSED: Arrivals = Arrivals::Closed { think: Duration::ZERO };

    /// Whether messages are due by the clock, whatever became of those before.
    pub fn is_open(&self) -> bool {
        !matches!(self, Arrivals::Closed { .. })
    }
}

/// Where a lane is in its arrivals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    arrivals: Arrivals,
    start: Instant,
    /// Of a Poisson process: nanoseconds from the start to the next message, and what draws the rest.
    next_ns: f64,
    random: Random,
}

impl Schedule {
    pub(super) fn new(arrivals: Arrivals, seed: u64) -> Schedule {
        Schedule { arrivals, start: Instant::ZERO, next_ns: 0.0, random: Random::new(!seed) }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.start = now;
        self.advance();
    }

    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// A message was posted: the next one is due at another time.
    #[inline]
    pub(super) fn advance(&mut self) {
        if let Arrivals::Poisson { mean_ns } = self.arrivals {
            self.next_ns += exponential(self.random.next()) * mean_ns;
        }
    }

    /// When message `number` is due, the next one; `None` in a closed loop.
    #[inline]
    pub(super) fn due(&self, number: u64) -> Option<Instant> {
        let ns = match self.arrivals {
            Arrivals::Closed { .. } => return None,
            Arrivals::Even(pace) => pace.at(number),
            Arrivals::Poisson { .. } => self.next_ns as u64,
            Arrivals::OnOff { pace, on, off } => {
                let (at, on) = (pace.at(number), on.as_nanos().max(1));
                (at / on).saturating_mul(on.saturating_add(off.as_nanos())).saturating_add(at % on)
            }
        };
        Some(Instant::from_nanos(self.start.as_nanos().saturating_add(ns)))
    }

    /// Messages due until `now`, when the next one is number `posted`.
    pub(super) fn due_until(&self, now: Instant, posted: u64) -> u64 {
        let ns = now.since(self.start).as_nanos();
        match self.arrivals {
            Arrivals::Closed { .. } => posted,
            Arrivals::Even(pace) => pace.until(ns),
            Arrivals::OnOff { pace, on, off } => {
                let (on, off) = (on.as_nanos().max(1), off.as_nanos());
                let turn = on.saturating_add(off);
                // The last nanosecond of a burst is not the first one of the next.
                pace.until(ns / turn * on + (ns % turn).min(on - 1))
            }
            Arrivals::Poisson { mean_ns } => {
                /// So many are drawn one by one; of more, their mean number is right to a thousandth.
                const DRAWN: u64 = 1 << 22;
                let (mut ahead, mut at) = (*self, posted);
                while ahead.next_ns as u64 <= ns {
                    if at - posted == DRAWN {
                        return at + ((ns as f64 - ahead.next_ns) / mean_ns) as u64;
                    }
                    ahead.advance();
                    at += 1;
                }
                at
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, count: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, 9);
        schedule.begin(Instant::from_nanos(1_000));
        let mut times = Vec::new();
        for n in 0..count {
            let due = schedule.due(n).unwrap();
            assert!(schedule.due_until(due, n) > n, "{arrivals:?}: {n} is due when it is due");
            if due.as_nanos() > 1_000 {
                let before = Instant::from_nanos(due.as_nanos() - 1);
                assert_eq!(schedule.due_until(before, n).max(n), n, "{arrivals:?}: and not sooner");
            }
            times.push(due.as_nanos() - 1_000);
            schedule.advance();
        }
        times
    }

    #[test]
    fn bursts_go_on_where_they_stopped() {
        let pace = Pace::new(1e8, 1, 0);
        let arrivals =
            Arrivals::OnOff { pace, on: Duration::from_nanos(25), off: Duration::from_nanos(1_000) };
        assert_eq!(times(arrivals, 7), [0, 10, 20, 1_030, 1_040, 2_050, 2_060]);
    }

    #[test]
    fn a_poisson_process_has_the_rate_and_the_spread_of_one() {
        let at = times(Arrivals::Poisson { mean_ns: 500.0 }, 40_000);
        let gaps: Vec<f64> = at.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 500.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((spread.sqrt() / mean - 1.0).abs() < 0.03, "{}", spread.sqrt());
    }

    #[test]
    fn what_is_due_in_a_long_time_is_still_counted() {
        let mut schedule = Schedule::new(Arrivals::Poisson { mean_ns: 1.0 }, 1);
        schedule.begin(Instant::ZERO);
        let due = schedule.due_until(Instant::from_nanos(50_000_000), 0) as f64;
        assert!((due / 5e7 - 1.0).abs() < 1e-3, "{due}");
    }
}
