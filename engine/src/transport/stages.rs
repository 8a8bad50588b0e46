//! How long the stages of a recovery take: histograms of fixed size, filled on loss only.

use crate::units::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A span of time between two steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    /// Receiving side: from the first packet that came ahead of a missing one to the NAK.
    GapToNak,
    /// Receiving side: from when a packet was seen to be missing to when it came.
    GapToClosed,
    /// Sending side: from the NAK for a packet to when the packet leaves again.
    NakToResend,
    /// Sending side: from the NAK for a packet to when it is known to have come.
    NakToRecovered,
    /// Sending side, timeouts only: from the last progress to the next, the timer in between.
    Stall,
}

impl Stage {
    /// All of them, in the order of a recovery.
    pub const ALL: [Stage; 5] =
        [Stage::GapToNak, Stage::GapToClosed, Stage::NakToResend, Stage::NakToRecovered, Stage::Stall];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::GapToNak => "gap_to_nak",
            Stage::GapToClosed => "gap_to_closed",
            Stage::NakToResend => "nak_to_resend",
            Stage::NakToRecovered => "nak_to_recovered",
            Stage::Stall => "timeout_stall",
        }
    }
}

/// A histogram for each [`Stage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    spans: [Spans; Stage::ALL.len()],
    recorded: u64,
}

impl Stages {
    /// The histogram of a stage.
    pub fn of(&self, stage: Stage) -> &Spans {
        &self.spans[stage as usize]
    }

    /// Whether nothing was ever lost.
    pub fn is_empty(&self) -> bool {
        self.recorded == 0
    }

    /// Adds `other`, stage by stage; at no cost where nothing was ever lost.
    pub fn add(&mut self, other: &Stages) {
        if other.is_empty() {
            return;
        }
        self.recorded += other.recorded;
        for (sum, more) in self.spans.iter_mut().zip(other.spans.iter()) {
            sum.add(more);
        }
    }

    /// Forgets all; at no cost where nothing was ever lost.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            // In its place: a turn allocates nothing.
            self.spans.fill(Spans::default());
            self.recorded = 0;
        }
    }
}

/// Where queue pairs record their recoveries: all that have a copy of it record into the same
/// histograms.  Those of one worker should share one, so that no cache line goes back and forth.
///
/// Histograms are larger than all else that a queue pair has, and most never lose a packet.
#[derive(Clone, Debug, Default)]
pub struct StageLog(Option<Arc<Recorded>>);

#[derive(Debug)]
struct Recorded {
    spans: [RecordedSpans; Stage::ALL.len()],
    recorded: AtomicU64,
}

#[derive(Debug)]
struct RecordedSpans {
    counts: [AtomicU32; BUCKETS],
    max: AtomicU64,
}

impl StageLog {
    /// An empty log; [`StageLog::default`] is none at all and forgets what is recorded.
    pub fn new() -> StageLog {
        let spans =
            || RecordedSpans { counts: [const { AtomicU32::new(0) }; BUCKETS], max: AtomicU64::new(0) };
        let spans = std::array::from_fn(|_| spans());
        StageLog(Some(Arc::new(Recorded { spans, recorded: AtomicU64::new(0) })))
    }

    /// Adds to `sum` what was recorded since the log was made; at no cost where nothing was ever lost.
    pub fn add_to(&self, sum: &mut Stages) {
        let Some(log) = &self.0 else { return };
        match log.recorded.load(Ordering::Relaxed) {
            0 => return,
            more => sum.recorded += more,
        }
        for (to, from) in sum.spans.iter_mut().zip(&log.spans) {
            for (n, more) in to.counts.iter_mut().zip(&from.counts) {
                *n = n.saturating_add(more.load(Ordering::Relaxed));
            }
            to.max = to.max.max(Duration::from_nanos(from.max.load(Ordering::Relaxed)));
        }
    }

    /// Adds one span.
    #[cold]
    pub(crate) fn record(&self, stage: Stage, span: Duration) {
        let Some(log) = &self.0 else { return };
        let spans = &log.spans[stage as usize];
        spans.counts[bucket_of(span)].fetch_add(1, Ordering::Relaxed);
        spans.max.fetch_max(span.as_nanos(), Ordering::Relaxed);
        log.recorded.fetch_add(1, Ordering::Relaxed);
    }
}

/// Steps of each power of two that are told apart: values are exact to 1 in 8.
const STEPS: u32 = 8;
/// From 2^FIRST ns on; what is shorter counts as one step.
const FIRST: u32 = 6;
const OCTAVES: u32 = 28;
const BUCKETS: usize = (OCTAVES * STEPS) as usize;

/// A histogram of spans: to 1 in 8 from 64 ns to 17 s, what lies beyond at the ends.  The longest
/// is kept exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    counts: [u32; BUCKETS],
    max: Duration,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans { counts: [0; BUCKETS], max: Duration::ZERO }
    }
}

impl Spans {
    /// Spans recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|n| u64::from(*n)).sum()
    }

    /// The longest, exactly; zero without any.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// What `percent` per cent of the spans do not exceed, up to an eighth more; `None` without any.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|n| {
            seen += u64::from(*n);
            seen >= rank
        })?;
        Some(upper(bucket).min(self.max))
    }

    fn add(&mut self, other: &Spans) {
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*more);
        }
        self.max = self.max.max(other.max);
    }
}

fn bucket_of(span: Duration) -> usize {
    let ns = span.as_nanos();
    let octave = (ns | 1).ilog2();
    if octave < FIRST {
        return 0;
    }
    let step = (ns >> (octave - STEPS.ilog2())) as u32 % STEPS;
    (((octave - FIRST) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The longest span of a bucket.
fn upper(bucket: usize) -> Duration {
    let (octave, step) = (bucket as u32 / STEPS + FIRST, bucket as u64 % u64::from(STEPS));
    Duration::from_nanos(((u64::from(STEPS) + step + 1) << (octave - STEPS.ilog2())) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for ns in (0..40).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (3 << bit) - 1]) {
            let span = Duration::from_nanos(ns);
            let bucket = bucket_of(span);
            if ns < 17_000_000_000 {
                assert!(span <= upper(bucket), "{ns}");
                assert!(bucket == 0 || span > upper(bucket - 1), "{ns}");
                assert!(ns < 64 || upper(bucket).as_nanos() - ns <= ns / 8, "{ns}");
            } else {
                assert_eq!(bucket, BUCKETS - 1);
            }
        }
    }

    #[test]
    fn percentiles_and_sums() {
        let mut a = Stages::default();
        assert!(a.is_empty());
        assert_eq!(a.of(Stage::Stall).percentile(50.0), None);
        let log = StageLog::new();
        for ns in [100, 200, 1000, 5000] {
            log.record(Stage::GapToNak, Duration::from_nanos(ns));
        }
        log.add_to(&mut a);
        let other = StageLog::new();
        other.clone().record(Stage::GapToNak, Duration::from_nanos(70_000));
        let mut b = Stages::default();
        other.add_to(&mut b);
        a.add(&b);
        let none = StageLog::default();
        none.record(Stage::GapToNak, Duration::from_nanos(1));
        none.add_to(&mut a);
        let spans = a.of(Stage::GapToNak);
        assert_eq!((spans.count(), spans.max().as_nanos()), (5, 70_000));
        let p = |percent| spans.percentile(percent).map(Duration::as_nanos);
        assert_eq!(
            [p(1.0), p(40.0), p(50.0), p(80.0), p(100.0)].map(Option::unwrap),
            [103, 207, 1023, 5119, 70_000]
        );
        assert_eq!(a.of(Stage::GapToClosed).count(), 0);
    }
}
