//! The time between the packets of a queue pair.

use crate::units::{Duration, Instant, bucket_of, buckets, middle_of};

/// A power of two has 16 parts: a gap is known to 1/16.
const PART_BITS: u32 = 4;
const BUCKETS: usize = buckets(PART_BITS);

/// A histogram of gaps in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaps {
    last: Option<Instant>,
    counts: [u64; BUCKETS],
    sum: u64,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { last: None, counts: [0; BUCKETS], sum: 0 }
    }
}

impl Gaps {
    /// A packet leaves.
    #[inline]
    pub fn note(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last).as_nanos();
            self.counts[bucket_of(gap, PART_BITS)] += 1;
            self.sum += gap;
        }
    }

    /// Adds those of `other` to `self`.
    pub fn add(&mut self, other: &Gaps) {
        for (sum, n) in self.counts.iter_mut().zip(&other.counts) {
            *sum += n;
        }
        self.sum += other.sum;
    }

    /// What `self` has more than `earlier`.
    pub fn since(&self, earlier: &Gaps) -> Gaps {
        let counts = core::array::from_fn(|i| self.counts[i].saturating_sub(earlier.counts[i]));
        Gaps { last: None, counts, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// Forgets all of them.
    pub fn reset(&mut self) {
        *self = Gaps::default();
    }

    /// Gaps.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean; `None` without gaps.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// The gap that `percent` of them do not exceed, to 1/16; `None` without gaps.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * percent / 100.0).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        found.filter(|_| count != 0).map(|i| Duration::from_nanos(middle_of(i, PART_BITS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_a_sixteenth_wide() {
        for gap in (0..200_000).chain([1 << 30, (1 << 36) - 1]) {
            let near = middle_of(bucket_of(gap, PART_BITS), PART_BITS);
            assert!(near.abs_diff(gap) << PART_BITS <= gap, "{gap}: {near}");
        }
        assert_eq!(bucket_of(u64::MAX, PART_BITS), BUCKETS - 1);
        assert_eq!(bucket_of((1 << 36) - 1, PART_BITS), BUCKETS - 1);
    }

    #[test]
    fn percentiles_and_differences() {
        let mut gaps = Gaps::default();
        assert_eq!((gaps.mean(), gaps.percentile(50.0)), (None, None));
        let mut t = 0;
        for i in 0..=100 {
            gaps.note(Instant::from_nanos(t));
            t += if i % 10 == 9 { 5 } else { 8 };
        }
        assert_eq!(gaps.count(), 100);
        let at = |p| gaps.percentile(p).unwrap().as_nanos();
        assert_eq!((at(1.0), at(10.0), at(11.0), at(100.0)), (5, 5, 8, 8));
        assert_eq!(gaps.mean().unwrap().as_nanos(), 7);
        let before = gaps.clone();
        gaps.note(Instant::from_nanos(t + 100));
        let new = gaps.since(&before);
        assert_eq!(
            (new.count(), new.percentile(50.0).unwrap().as_nanos()),
            (1, 109),
            "the middle of 108 to 111"
        );
        let mut sum = before.clone();
        sum.add(&new);
        assert_eq!(sum.count(), 101);
    }
}
