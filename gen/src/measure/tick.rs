//! Readings at even times: what workers tell of their flows between samples, and what is made of it.

use super::timeline::{Reading, Spell, Timeline};
use roce_engine::units::{Duration, Instant, bucket_of, buckets, middle_of};
use std::collections::{BTreeMap, VecDeque};

/// A power of two has 8 parts.
const PART_BITS: u32 = 3;
const BUCKETS: usize = buckets(PART_BITS);

/// A small histogram of latencies, right to 1/16, counted since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    counts: [u32; BUCKETS],
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { counts: [0; BUCKETS] }
    }
}

impl Spread {
    /// A message ended.
    #[inline]
    pub fn note(&mut self, latency: Duration) {
        let count = &mut self.counts[bucket_of(latency.as_nanos(), PART_BITS)];
        *count = count.wrapping_add(1);
    }

    fn add(&mut self, other: &Spread) {
        for (sum, n) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.wrapping_add(*n);
        }
    }

    /// The latency that `percent` of those since `earlier` did not exceed; `None` without any.
    pub fn percentile_since(&self, earlier: &Spread, percent: f64) -> Option<u64> {
        let counts = || self.counts.iter().zip(&earlier.counts).map(|(a, b)| u64::from(a.wrapping_sub(*b)));
        let count: u64 = counts().sum();
        let rank = ((count as f64 * percent / 100.0).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let found = counts().position(|n| {
            seen += n;
            seen >= rank
        });
        found.filter(|_| count != 0).map(|i| middle_of(i, PART_BITS))
    }
}

/// What a reading is of: a flow by its index in the scenario, and a queue pair of it, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The flow.
    pub flow: u32,
    /// The queue pair; all when `None`.
    pub qp: Option<u32>,
}

/// What one worker knows of a flow or a queue pair at one moment, counted since the start.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The number of the moment: the time by the span between two.
    pub number: u64,
    /// When it was.
    pub at: Instant,
    /// Of what.
    pub subject: Subject,
    /// Which of two sides of a queue pair tells it, where they are told apart.
    pub side: usize,
    /// The last of its moment.
    pub last: bool,
    /// The counts.
    pub reading: Reading,
    /// Latencies.
    pub spread: Spread,
}

/// What happened to a flow or a queue pair between two moments.
#[derive(Clone, Debug)]
pub struct Row {
    /// From when.
    pub from: Instant,
    /// To when.
    pub to: Instant,
    /// Of what.
    pub subject: Subject,
    /// What.
    pub spell: Spell,
}

/// What is known of a subject, all workers together.
#[derive(Clone, Debug, Default)]
struct Known {
    /// By worker and side.
    shares: Vec<(Reading, Spread)>,
    /// At the last moment.
    latest: (Reading, Spread),
    /// At the moment where the span that goes on began.
    before: (Reading, Spread),
    window: Window,
}

/// The smallest rate over a window of some length, found as readings come.
#[derive(Clone, Debug, Default)]
struct Window {
    /// Ends of spans that lie in the window, and the sum up to each; the first one lies at its beginning
    /// or before.
    sums: VecDeque<(Instant, f64)>,
    smallest: Option<f64>,
}

impl Window {
    /// So many bytes since the start, at a moment.
    fn note(&mut self, length: Duration, at: Instant, sum: f64) {
        self.sums.push_back((at, sum));
        // The shortest stretch of whole spans that is no shorter than the window.
        while self.sums.len() > 2 && at.since(self.sums[1].0) >= length {
            self.sums.pop_front();
        }
        let (from, first) = self.sums[0];
        let span = at.since(from);
        if span >= length && span > Duration::ZERO {
            let rate = (sum - first) * 8.0 / span.as_nanos() as f64;
            self.smallest = Some(self.smallest.map_or(rate, |r: f64| r.min(rate)));
        }
    }
}

/// Puts the readings of all workers together, moment by moment, in memory that does not grow.
#[derive(Debug)]
pub struct Collector {
    flows: usize,
    window: Option<Duration>,
    /// By worker: readings that wait for those of the others.
    waiting: Vec<VecDeque<Tick>>,
    /// By worker: the number of its last complete moment.
    reached: Vec<Option<u64>>,
    known: BTreeMap<Subject, Known>,
    /// The last moment that all workers have told of.
    now: Option<Instant>,
    /// So many moments make a span.
    per_span: u64,
    /// Where the span that goes on began.
    from: Option<Instant>,
    /// When measuring began and ended, as far as that is known.
    measured: (Option<Instant>, Option<Instant>),
    /// Whether anything was measured.
    began: bool,
    timeline: Timeline,
}

impl Collector {
    /// One that knows of nothing yet.
    pub fn new(workers: usize, flows: usize, window: Option<Duration>) -> Collector {
        Collector {
            flows,
            window,
            waiting: vec![VecDeque::new(); workers],
            reached: vec![None; workers],
            known: BTreeMap::new(),
            now: None,
            per_span: 1,
            from: None,
            measured: (None, None),
            began: false,
            timeline: Timeline::default(),
        }
    }

    /// Spans are so many moments long: what happened in one is told when it is over.
    pub fn set_span(&mut self, moments: u64) {
        self.per_span = moments.max(1);
    }

    /// Measuring began, at or after the last moment that [`Self::advance`] has seen; what was before is left
    /// out.
    pub fn begin(&mut self, at: Instant) {
        self.measured.0 = Some(at);
    }

    /// Measuring ended: what comes later is left out.
    pub fn end(&mut self, at: Instant) {
        self.measured.1 = Some(at);
    }

    /// A worker tells something.
    pub fn take(&mut self, worker: usize, tick: Tick) {
        if tick.last {
            self.reached[worker] = Some(tick.number);
        }
        self.waiting[worker].push_back(tick);
    }

    /// A worker has told all that it has to tell of the moments up to this one.
    pub fn reach(&mut self, worker: usize, number: u64) {
        self.reached[worker] = self.reached[worker].max(Some(number));
    }

    /// Goes on to the last moment of which all workers have told; `payload` says how many bytes of payload a
    /// flow's counts are, `row` gets what happened.
    pub fn advance(&mut self, payload: impl Fn(usize, &Spell) -> f64, mut row: impl FnMut(&Row)) {
        let Some(complete) = self.reached.iter().copied().min().flatten() else { return };
        loop {
            let next = self.waiting.iter().filter_map(VecDeque::front).map(|t| t.number).min();
            let Some(number) = next.filter(|n| *n <= complete) else { return };
            let mut at = Instant::ZERO;
            let workers = self.waiting.len();
            for (worker, waiting) in self.waiting.iter_mut().enumerate() {
                while let Some(tick) = waiting.pop_front_if(|t| t.number == number) {
                    at = at.max(tick.at);
                    let known = self.known.entry(tick.subject).or_default();
                    known.shares.resize(2 * workers, Default::default());
                    known.shares[2 * worker + tick.side] = (tick.reading, tick.spread);
                }
            }
            self.now = Some(at);
            for known in self.known.values_mut() {
                known.latest = known.sum();
            }
            if number % self.per_span == 0 {
                self.moment(at, &payload, &mut row);
            }
        }
    }

    /// All is known of a moment.
    fn moment(&mut self, at: Instant, payload: &impl Fn(usize, &Spell) -> f64, row: &mut impl FnMut(&Row)) {
        let (begin, end) = self.measured;
        let ours =
            |from: &Instant| begin.is_some_and(|b| *from >= b) && end.is_none_or(|e| at <= e) && at > *from;
        let from = self.from.replace(at).or(begin).filter(ours);
        let Some(from) = from else {
            for known in self.known.values_mut() {
                known.before.clone_from(&known.latest);
            }
            return;
        };
        let first = !std::mem::replace(&mut self.began, true);
        let mut flows = vec![Spell::default(); self.flows];
        for (subject, known) in &mut self.known {
            let p = |percent| known.latest.1.percentile_since(&known.before.1, percent);
            let spell = Spell::between(&known.before.0, &known.latest.0, p(50.0), p(99.0));
            known.before.clone_from(&known.latest);
            if subject.qp.is_none() {
                let flow = subject.flow as usize;
                if let Some(length) = self.window {
                    let sum = known.window.sums.back().map_or(0.0, |last| last.1);
                    if first {
                        known.window.note(length, from, sum);
                    }
                    known.window.note(length, at, sum + payload(flow, &spell));
                }
                flows[flow] = spell;
            }
            row(&Row { from, to: at, subject: *subject, spell });
        }
        self.timeline.push(from, at, flows);
    }

    /// The smallest rate of a flow over the window, in Gb/s; `None` when no window was measured.
    pub fn smallest_gbps(&self, flow: usize) -> Option<f64> {
        self.known.get(&Subject { flow: flow as u32, qp: None })?.window.smallest
    }

    /// The last moment that all workers have told of.
    pub fn now(&self) -> Option<Instant> {
        self.now
    }

    /// What each flow, by its index in the scenario, had come to then since the start.
    pub fn latest(&self) -> impl Iterator<Item = (usize, &(Reading, Spread))> {
        let flows = self.known.iter().filter(|(subject, _)| subject.qp.is_none());
        flows.map(|(subject, known)| (subject.flow as usize, &known.latest))
    }

    /// How it went.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }
}

impl Known {
    fn sum(&self) -> (Reading, Spread) {
        let mut sum = (Reading::default(), Spread::default());
        for (reading, spread) in &self.shares {
            sum.0.add(reading);
            sum.1.add(spread);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn tick(worker_bytes: u64, number: u64, flow: u32, last: bool, latencies: &[u64]) -> Tick {
        let mut spread = Spread::default();
        for us in latencies {
            spread.note(Duration::from_micros(*us));
        }
        let completed = latencies.len() as u64;
        let reading = Reading { bytes: worker_bytes, completed, ..Reading::default() };
        let at = Instant::from_nanos(number * MS);
        Tick { number, at, subject: Subject { flow, qp: None }, side: 0, last, reading, spread }
    }

    fn rows(c: &mut Collector) -> Vec<(u64, u64, u64)> {
        let mut rows = Vec::new();
        let ms = |at: Instant| at.as_nanos() / MS;
        c.advance(
            |_, spell| spell.counts.bytes as f64,
            |r| rows.push((ms(r.from), ms(r.to), r.spell.counts.bytes)),
        );
        rows
    }

    #[test]
    fn workers_wait_for_each_other_and_what_is_missing_comes_later() {
        let mut c = Collector::new(2, 1, None);
        c.begin(Instant::ZERO);
        c.take(0, tick(100, 1, 0, true, &[1]));
        assert_eq!(rows(&mut c), [], "the other one has said nothing");
        c.take(1, tick(10, 1, 0, true, &[]));
        assert_eq!(rows(&mut c), [(0, 1, 110)]);
        // The second worker had no room for what it had to say at 2 and 3.
        for n in 2..=4 {
            c.take(0, tick(100 * n, n, 0, true, &[1]));
        }
        assert_eq!(rows(&mut c), []);
        c.take(1, tick(40, 4, 0, true, &[]));
        assert_eq!(rows(&mut c), [(1, 2, 100), (2, 3, 100), (3, 4, 130)]);
        assert_eq!(c.timeline().spans.len(), 4);
        let latest: Vec<_> = c.latest().map(|(flow, (reading, _))| (flow, reading.bytes)).collect();
        assert_eq!((c.now(), latest), (Some(Instant::from_nanos(4 * MS)), vec![(0, 440)]));
    }

    #[test]
    fn spans_of_several_moments() {
        let mut c = Collector::new(1, 1, None);
        c.set_span(4);
        c.begin(Instant::ZERO);
        for n in 1..=7 {
            c.take(0, tick(100 * n, n, 0, true, &[]));
        }
        assert_eq!(rows(&mut c), [(0, 4, 400)], "the second one goes on");
        let bytes = |c: &Collector| c.latest().map(|(_, (reading, _))| reading.bytes).collect::<Vec<_>>();
        assert_eq!((c.now(), bytes(&c)), (Some(Instant::from_nanos(7 * MS)), vec![700]), "and is known");
        // The worker had no room at 8.
        for n in 9..=12 {
            c.take(0, tick(100 * n, n, 0, true, &[]));
        }
        assert_eq!(rows(&mut c), [(4, 12, 800)]);
    }

    #[test]
    fn only_what_was_measured_counts() {
        let mut c = Collector::new(1, 1, Some(Duration::from_millis(2)));
        for n in 1..=2 {
            c.take(0, tick(1000 * n, n, 0, true, &[]));
        }
        assert_eq!(rows(&mut c), [], "it is not known when measuring began");
        c.begin(Instant::from_nanos(2 * MS + 1));
        for n in 3..=9 {
            // 1000 bytes each, but for a stall from 5 to 7.
            let bytes = 1000 * if n <= 5 { n } else { n.max(7) - 2 };
            c.take(0, tick(bytes, n, 0, true, &[]));
        }
        c.end(Instant::from_nanos(8 * MS));
        assert_eq!(rows(&mut c), [(3, 4, 1000), (4, 5, 1000), (5, 6, 0), (6, 7, 0), (7, 8, 1000)]);
        assert_eq!(c.smallest_gbps(0), Some(0.0), "two milliseconds without a byte");
    }

    #[test]
    fn a_window_is_no_shorter_than_asked() {
        let smallest = |length: u64, bytes: &[f64]| {
            let mut w = Window::default();
            let mut sum = 0.0;
            w.note(Duration::from_millis(length), Instant::ZERO, 0.0);
            for (i, b) in bytes.iter().enumerate() {
                sum += b;
                w.note(Duration::from_millis(length), Instant::from_nanos((i as u64 + 1) * MS), sum);
            }
            w.smallest.map(|gbps| (gbps * 1e6 / 8.0).round())
        };
        let bytes = [100.0, 0.0, 50.0, 100.0, 100.0, 0.0];
        assert_eq!(smallest(1, &bytes), Some(0.0));
        assert_eq!(smallest(2, &bytes), Some(25.0));
        assert_eq!(smallest(3, &bytes), Some(50.0));
        assert_eq!(smallest(6, &bytes), Some(58.0));
        assert_eq!(smallest(7, &bytes), None, "longer than what was measured");
    }

    #[test]
    fn percentiles_of_a_span() {
        let mut spread = Spread::default();
        for us in [10, 20, 30] {
            spread.note(Duration::from_micros(us));
        }
        let earlier = spread.clone();
        assert_eq!(spread.percentile_since(&earlier, 50.0), None);
        for us in 1..=100 {
            spread.note(Duration::from_micros(us));
        }
        let near = |percent, want: f64| {
            let got = spread.percentile_since(&earlier, percent).unwrap() as f64;
            assert!((got / want - 1.0).abs() <= 1.0 / 16.0, "{percent} %: {got}, not {want}");
        };
        near(50.0, 50_000.0);
        near(99.0, 99_000.0);
        spread.note(Duration::from_secs(100));
        assert!(spread.percentile_since(&earlier, 100.0).unwrap() > 60_000_000_000);
    }
}
