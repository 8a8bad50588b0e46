//! Latencies of messages, every one of them.

use hdrhistogram::Histogram;
use roce_engine::units::{Duration, Instant};

/// The longest latency that the histogram tells apart.
const LONGEST_NS: u64 = 60_000_000_000;

/// A histogram of latencies from 1 ns to 60 s to three digits; what is longer is counted,
/// and the longest of all is kept exactly.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    beyond: u64,
    max_ns: u64,
    /// When the longest ended.
    max_at: Instant,
    min_ns: u64,
    sum_ns: u128,
}

impl Default for Latency {
    /// One that takes memory as it needs it: for whoever may allocate.
    fn default() -> Latency {
        Latency::of_auto(3)
    }
}

impl Latency {
    /// One that has all its memory from the start, 210 kB: recording allocates nothing.
    pub fn sized() -> Latency {
        Latency::of(LONGEST_NS, 3)
    }

    /// One to two digits, which take an eighth of the memory; with all of it from the start if it is
    /// `sized`.
    pub fn coarse(sized: bool) -> Latency {
        if sized { Latency::of(LONGEST_NS, 2) } else { Latency::of_auto(2) }
    }

    /// Whether recording may allocate.
    pub fn is_sized(&self) -> bool {
        !self.histogram.is_auto_resize()
    }

    fn of(longest_ns: u64, digits: u8) -> Latency {
        // The bounds are constant and legal.
        #[allow(clippy::unwrap_used)]
        let histogram = Histogram::new_with_bounds(1, longest_ns, digits).unwrap();
        let max_at = Instant::ZERO;
        Latency { histogram, beyond: 0, max_ns: 0, max_at, min_ns: u64::MAX, sum_ns: 0 }
    }

    /// Records one message.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.record_at(latency, Instant::ZERO);
    }

    /// Records one message, which ended at `at`.
    #[inline]
    pub fn record_at(&mut self, latency: Duration, at: Instant) {
        let ns = latency.as_nanos();
        if ns > self.max_ns {
            (self.max_ns, self.max_at) = (ns, at);
        }
        self.min_ns = self.min_ns.min(ns);
        self.sum_ns += u128::from(ns);
        if ns > LONGEST_NS || self.histogram.record(ns.max(1)).is_err() {
            self.beyond += 1;
        }
    }

    /// An empty one of its kind: with all its memory if this one was made with it.
    pub fn blank(&self) -> Latency {
        match self.histogram.is_auto_resize() {
            true => Latency::of_auto(self.histogram.sigfig()),
            false => {
                let mut blank = self.clone();
                blank.reset();
                blank
            }
        }
    }

    fn of_auto(digits: u8) -> Latency {
        let mut small = Latency::of(2, digits);
        small.histogram.auto(true);
        small
    }

    /// Forgets all, keeps the room.
    pub fn reset(&mut self) {
        self.histogram.reset();
        self.beyond = 0;
        self.max_ns = 0;
        self.min_ns = u64::MAX;
        self.sum_ns = 0;
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Latency) {
        // One that is too small grows.
        let _ = self.histogram.add(&other.histogram);
        self.beyond += other.beyond;
        if other.max_ns > self.max_ns {
            (self.max_ns, self.max_at) = (other.max_ns, other.max_at);
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Messages recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len() + self.beyond
    }

    /// Messages that took longer than 60 s.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The shortest, exactly; `None` without messages.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() != 0).then_some(self.min_ns)
    }

    /// The longest, exactly; `None` without messages.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() != 0).then_some(self.max_ns)
    }

    /// When the longest ended; `None` without messages.
    pub fn max_at(&self) -> Option<Instant> {
        (self.count() != 0).then_some(self.max_at)
    }

    /// The mean, exactly; `None` without messages.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() != 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The latency that `percent` of the messages do not exceed; `None` without messages.
    /// Never above the maximum; the maximum where it lies beyond 60 s.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        if rank > self.histogram.len() {
            return Some(self.max_ns);
        }
        // The quantile of what the histogram holds that has this rank.
        let value = self.histogram.value_at_quantile(rank as f64 / self.histogram.len() as f64);
        Some(value.clamp(self.min_ns, self.max_ns))
    }

    /// The histogram, for export.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(u64, u64)]) -> Latency {
        let mut latency = Latency::default();
        for (ns, times) in list {
            for _ in 0..*times {
                latency.record(Duration::from_nanos(*ns));
            }
        }
        latency
    }

    #[test]
    fn h03_what_is_beyond_the_histogram_is_kept() {
        let l = of(&[(59_000_000_000, 1), (61_000_000_000, 1), (600_000_000_000, 1)]);
        assert_eq!((l.count(), l.beyond(), l.max_ns()), (3, 2, Some(600_000_000_000)));
        assert_eq!(l.percentile_ns(99.0), Some(600_000_000_000));
    }

    #[test]
    fn h05_fields_agree() {
        let l = of(&[(0, 3), (1_234, 85), (10_000_000, 12)]);
        let p = |x| l.percentile_ns(x).unwrap();
        let (min, max, mean) = (l.min_ns().unwrap(), l.max_ns().unwrap(), l.mean_ns().unwrap());
        assert!(min <= p(50.0) && p(50.0) <= p(99.0) && p(99.0) <= max, "{min} {} {max}", p(50.0));
        assert!(min as f64 <= mean && mean <= max as f64);
        assert_eq!(l.count(), 100);
        assert_eq!(mean, (1_234.0 * 85.0 + 12.0 * 1e7) / 100.0);
    }

    #[test]
    fn h07_no_samples() {
        let l = Latency::default();
        assert_eq!((l.count(), l.min_ns(), l.max_ns(), l.mean_ns()), (0, None, None, None));
        assert_eq!(l.percentile_ns(50.0), None);
    }

    #[test]
    fn h08_merging_workers() {
        let mut a = of(&[(10_000, 1_000)]);
        a.add(&of(&[(1_000_000_000, 10)]));
        a.add(&Latency::default());
        assert_eq!((a.count(), a.min_ns(), a.max_ns()), (1_010, Some(10_000), Some(1_000_000_000)));
        let near = |got: Option<u64>, want: f64| (got.unwrap() as f64 / want - 1.0).abs() < 0.001;
        assert!(near(a.percentile_ns(99.0), 10_000.0));
        assert!(near(a.percentile_ns(99.5), 1e9));
        assert!((a.mean_ns().unwrap() / 9.911e6 - 1.0).abs() < 0.001);
    }
}
