//! What is told of a flow beyond its latencies: by size, by kind, by queue pair.

use super::Latency;
use crate::workload::{LaneSpec, Message};
use hdrhistogram::Histogram;
use roce_engine::units::{Duration, Instant};

/// What is told apart; all since the last sample.  Parts that nobody asks for are empty.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    /// From when a message was due to when it was posted, where messages are due by the clock.
    pub delay: Option<Latency>,
    /// By size, where sizes differ.
    pub sizes: Option<SizeDetail>,
    /// By kind, where there are several.
    pub kinds: Vec<KindCount>,
    /// By queue pair, where there are several.
    pub qps: Vec<QpDetail>,
}

/// How large messages were, and how long they took for it.
#[derive(Clone, Debug)]
pub struct SizeDetail {
    /// Sizes to three digits.
    pub sizes: Histogram<u64>,
    /// By class of size, from the smallest on that occurs.
    pub bins: Vec<Bin>,
    /// The class of the first of them.
    pub first: usize,
}

/// Messages of like size.
#[derive(Clone, Debug)]
pub struct Bin {
    /// From when they were due or posted to their completion.
    pub time: Latency,
    /// That, in thousandths of the ideal; empty where nobody knows the ideal.
    pub slowdown: Latency,
}

/// Messages of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// How many.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
}

/// What a queue pair did.
#[derive(Clone, Debug, Default)]
pub struct QpDetail {
    /// Messages that ended well.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
    /// Their latencies, where those are asked for by queue pair.
    pub latency: Option<Latency>,
}

/// The largest size of the first class; each class ends at four times the one before.
const FIRST_BIN: u64 = 256;

/// The class of a size.
pub fn bin_of(size: u32) -> usize {
    let mut bin = 0;
    while u64::from(size) > FIRST_BIN << (2 * bin) {
        bin += 1;
    }
    bin
}

/// The smallest and largest size of a class.
pub fn bin_bounds(bin: usize) -> (u64, u64) {
    let last = |bin: usize| FIRST_BIN << (2 * bin);
    (bin.checked_sub(1).map_or(0, |b| last(b) + 1), last(bin))
}

impl SizeDetail {
    fn new((min, max): (u32, u32), sized: bool) -> SizeDetail {
        // The bounds are constant and legal.
        #[allow(clippy::unwrap_used)]
        let mut sizes = Histogram::new_with_bounds(1, if sized { 1 << 31 } else { 2 }, 3).unwrap();
        sizes.auto(!sized);
        let bin = || Bin { time: Latency::coarse(sized), slowdown: Latency::coarse(sized) };
        let first = bin_of(min);
        SizeDetail { sizes, bins: (first..=bin_of(max)).map(|_| bin()).collect(), first }
    }

    fn add(&mut self, other: &SizeDetail) {
        let _ = self.sizes.add(&other.sizes);
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            bin.time.add(&more.time);
            bin.slowdown.add(&more.slowdown);
        }
    }

    fn blank(&self) -> SizeDetail {
        let mut sizes = self.sizes.clone();
        sizes.reset();
        let blank = |bin: &Bin| Bin { time: bin.time.blank(), slowdown: bin.slowdown.blank() };
        SizeDetail { sizes, bins: self.bins.iter().map(blank).collect(), first: self.first }
    }

    fn reset(&mut self) {
        self.sizes.reset();
        for bin in &mut self.bins {
            bin.time.reset();
            bin.slowdown.reset();
        }
    }

    /// How far the sizes are from a distribution: the largest difference between the share of messages
    /// up to a size and the share `asked` there (Kolmogorov, Smirnov).
    pub fn distance(&self, asked: impl Fn(u32) -> f64) -> Option<f64> {
        let count = self.sizes.len();
        let mut before = 0;
        let mut most = 0.0f64;
        for step in self.sizes.iter_recorded() {
            // All that is recorded as one size lies between these two.
            let low = self.sizes.lowest_equivalent(step.value_iterated_to());
            let high = self.sizes.highest_equivalent(step.value_iterated_to()).min(u64::from(u32::MAX));
            let share = |n: u64| n as f64 / count as f64;
            if let Some(below) = low.checked_sub(1) {
                most = most.max((share(before) - asked(below as u32)).abs());
            }
            before += step.count_since_last_iteration();
            most = most.max((share(before) - asked(high as u32)).abs());
        }
        (count != 0).then_some(most)
    }
}

impl Detail {
    /// With room for what a lane's flow needs; all of it from the start if it is `sized`.
    pub fn of(lane: &LaneSpec, sized: bool) -> Detail {
        let traffic = &lane.traffic;
        let kinds = if traffic.kinds().len() > 1 { traffic.kinds().len() } else { 0 };
        let qps = if lane.qps > 1 || lane.per_qp { lane.qps as usize } else { 0 };
        let qp = QpDetail { latency: lane.per_qp.then(|| Latency::coarse(sized)), ..QpDetail::default() };
        Detail {
            delay: lane.is_open().then(|| if sized { Latency::sized() } else { Latency::default() }),
            sizes: (!traffic.is_fixed()).then(|| SizeDetail::new(traffic.bounds(), sized)),
            kinds: vec![KindCount::default(); kinds],
            qps: vec![qp; qps],
        }
    }

    /// An empty one with the same room.
    pub fn blank(&self) -> Detail {
        let qp = |qp: &QpDetail| QpDetail {
            latency: qp.latency.as_ref().map(Latency::blank),
            ..QpDetail::default()
        };
        Detail {
            delay: self.delay.as_ref().map(Latency::blank),
            sizes: self.sizes.as_ref().map(SizeDetail::blank),
            kinds: vec![KindCount::default(); self.kinds.len()],
            qps: self.qps.iter().map(qp).collect(),
        }
    }

    /// Whether [`Detail::note`] has anything to note.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.sizes.is_some() || !self.kinds.is_empty() || !self.qps.is_empty()
    }

    /// A message ended on queue pair `qp` after `took`; with nothing in its way it would have taken `ideal`.
    pub fn note(&mut self, qp: u32, message: Message, took: Duration, at: Instant, ideal: Option<f64>) {
        if let Some(sizes) = &mut self.sizes {
            // No message is larger than what there is room for.
            let _ = sizes.sizes.record(u64::from(message.size));
            if let Some(bin) = sizes.bins.get_mut(bin_of(message.size) - sizes.first) {
                bin.time.record_at(took, at);
                if let Some(ideal) = ideal.filter(|ns| *ns > 0.0) {
                    let thousandths = (took.as_nanos() as f64 / ideal * 1e3).round();
                    bin.slowdown.record_at(Duration::from_nanos(thousandths as u64), at);
                }
            }
        }
        if let Some(kind) = self.kinds.get_mut(message.kind as usize) {
            kind.messages += 1;
            kind.bytes += u64::from(message.size);
        }
        if let Some(qp) = self.qps.get_mut(qp as usize) {
            qp.messages += 1;
            qp.bytes += u64::from(message.size);
            if let Some(latency) = &mut qp.latency {
                latency.record_at(took, at);
            }
        }
    }

    /// Adds `other`; what its queue pairs did only where it happened `within` the span of the
    /// measurement.
    pub fn add(&mut self, other: &Detail, within: bool) {
        add(&mut self.delay, &other.delay, Latency::add);
        add(&mut self.sizes, &other.sizes, SizeDetail::add);
        fit(&mut self.kinds, other.kinds.len());
        for (kind, more) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.messages += more.messages;
            kind.bytes += more.bytes;
        }
        fit(&mut self.qps, other.qps.len());
        for (qp, more) in self.qps.iter_mut().zip(&other.qps) {
            if within {
                qp.messages += more.messages;
                qp.bytes += more.bytes;
            }
            add(&mut qp.latency, &more.latency, Latency::add);
        }
    }

    /// Forgets all, keeps the room.
    pub fn reset(&mut self) {
        self.delay.iter_mut().for_each(Latency::reset);
        self.sizes.iter_mut().for_each(SizeDetail::reset);
        self.kinds.fill(KindCount::default());
        for qp in &mut self.qps {
            (qp.messages, qp.bytes) = (0, 0);
            qp.latency.iter_mut().for_each(Latency::reset);
        }
    }
}

/// Adds what may be there.
fn add<T: Clone>(sum: &mut Option<T>, more: &Option<T>, add: impl Fn(&mut T, &T)) {
    match (sum.as_mut(), more) {
        (Some(sum), Some(more)) => add(sum, more),
        (None, Some(more)) => *sum = Some(more.clone()),
        (_, None) => {}
    }
}

fn fit<T: Clone + Default>(list: &mut Vec<T>, len: usize) {
    if list.len() < len {
        list.resize(len, T::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Verb;
    use crate::workload::{Kind, Sizes, Traffic};

    #[test]
    fn classes_of_sizes() {
        for (size, bin) in [(0, 0), (256, 0), (257, 1), (1024, 1), (1025, 2), (1 << 20, 6), (1 << 31, 12)] {
            let (low, high) = bin_bounds(bin);
            assert_eq!(bin_of(size), bin, "{size}");
            assert!((low..=high).contains(&u64::from(size)), "{size}: {low} {high}");
        }
    }

    /// Sizes that are drawn are near their own distribution, and far from another.
    #[test]
    fn the_distance_from_what_was_asked() {
        let points = vec![(0, 0.0), (1_000, 0.5), (30_000_000, 1.0)];
        let all = [
            Sizes::Cdf { file: "x".into(), points },
            Sizes::Uniform { min: 1, max: 60_000 },
            Sizes::List(vec![(64, 0.25), (65, 0.5), (1 << 20, 1.0)]),
        ];
        let traffic = all.map(|sizes| Traffic::new(vec![Kind { verb: Verb::Write, sizes, share: 1.0 }]));
        for (i, of) in traffic.iter().enumerate() {
            let mut detail = SizeDetail::new(of.bounds(), i == 0);
            (0..10_000).for_each(|n| detail.sizes.record(u64::from(of.message(7, n).size)).unwrap());
            for (k, other) in traffic.iter().enumerate() {
                let distance = detail.distance(|size| other.share_up_to(size)).unwrap();
                assert_eq!(distance < 0.02, i == k, "{i} {k}: {distance}");
            }
        }
        assert_eq!(SizeDetail::new((1, 2), true).distance(|_| 0.0), None);
    }
}
