//! What messages a flow has: their kinds and sizes.
//!
//! Message `number` of a queue pair follows from the seed of the queue pair and from its number, so
//! both ends know each message without a word between them.

use crate::config::Verb;
use crate::random::Random;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Index of its kind.
    pub kind: u32,
    /// What is posted.
    pub verb: Verb,
    /// Bytes of payload.
    pub size: u32,
}

/// How large messages are.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(u32),
    /// Every size from `min` to `max` alike.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// A few sizes, each with the share of messages that are of it or of one before it in the list.
    List(Vec<(u32, f64)>),
    /// Points of a distribution, with straight lines in between.
    Cdf {
        /// The file, as the scenario names it.
        file: String,
        /// Bytes, and the share of messages that are not larger.
        points: Vec<(u32, f64)>,
    },
}

/// One kind of message in a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// What is posted.
    pub verb: Verb,
    /// How large.
    pub sizes: Sizes,
    /// Its share of all messages; those of a mix add up to 1.
    pub share: f64,
}

/// The messages of a flow: one kind or several, drawn by their shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    kinds: Vec<Kind>,
    /// The one message that there is, over and over.
    only: Option<Message>,
}

impl Sizes {
    /// The smallest and the largest.
    pub fn bounds(&self) -> (u32, u32) {
        match self {
            Sizes::Fixed(size) => (*size, *size),
            Sizes::Uniform { min, max } => (*min, *max),
            Sizes::List(list) => {
                let sizes = || list.iter().map(|(size, _)| *size);
                (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
            }
            Sizes::Cdf { points, .. } => {
                let last = points.last().map_or(0, |p| p.0);
                // A size is rounded up, so that the line from 0 begins with 1.
                let first = points.first().map_or(0, |p| if p.1 > 0.0 { p.0 } else { p.0 + 1 });
                (first.min(last), last)
            }
        }
    }

    /// The size that the share `u` of all messages are not larger than, 0 <= `u` < 1.
    pub fn at(&self, u: f64) -> u32 {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Uniform { min, max } => min + (u * (f64::from(max - min) + 1.0)) as u32,
            Sizes::List(list) => {
                let i = list.partition_point(|(_, up_to)| *up_to <= u);
                list[i.min(list.len() - 1)].0
            }
            Sizes::Cdf { points, .. } => {
                let i = points.partition_point(|(_, up_to)| *up_to <= u);
                let Some(&(to, share)) = points.get(i) else { return points.last().map_or(0, |p| p.0) };
                let Some(&(from, before)) = i.checked_sub(1).and_then(|i| points.get(i)) else { return to };
                let part = (u - before) / (share - before);
                // Rounded up: then the share of sizes up to n is what the line says at n.
                let size = f64::from(from) + part * f64::from(to - from);
                (size.floor() as u32 + 1).min(to)
            }
        }
    }

    /// The share of messages of `size` or less.
    pub fn share_up_to(&self, size: u32) -> f64 {
        match self {
            Sizes::Fixed(only) => f64::from(u8::from(size >= *only)),
            Sizes::Uniform { min, max } => {
                if size < *min {
                    return 0.0;
                }
                ((f64::from(size - min) + 1.0) / (f64::from(max - min) + 1.0)).min(1.0)
            }
            Sizes::List(list) => {
                let mut before = 0.0;
                let mut sum = 0.0;
                for (of, up_to) in list {
                    sum += if *of <= size { up_to - before } else { 0.0 };
                    before = *up_to;
                }
                sum
            }
            Sizes::Cdf { points, .. } => {
                let i = points.partition_point(|(of, _)| *of <= size);
                let Some(&(to, share)) = points.get(i) else { return 1.0 };
                let Some(&(from, before)) = i.checked_sub(1).and_then(|i| points.get(i)) else { return 0.0 };
                before + (share - before) * f64::from(size - from) / f64::from(to - from)
            }
        }
    }

    /// The mean of `of` over all messages.
    pub fn mean(&self, of: impl Fn(u32) -> f64) -> f64 {
        /// Sizes looked at on each straight line; what is averaged grows almost evenly with them.
        const STEPS: u32 = 512;
        let line = |from: f64, to: f64| {
            let at = |i: u32| from + (to - from) * (f64::from(i) + 0.5) / f64::from(STEPS);
            (0..STEPS).map(|i| of(at(i).ceil() as u32)).sum::<f64>() / f64::from(STEPS)
        };
        match self {
            Sizes::Fixed(size) => of(*size),
            Sizes::Uniform { min, max } if max - min <= STEPS => {
                (*min..=*max).map(&of).sum::<f64>() / (f64::from(max - min) + 1.0)
            }
            Sizes::Uniform { min, max } => line(f64::from(*min) - 1.0, f64::from(*max)),
            Sizes::List(list) => {
                let mut before = 0.0;
                let share = |up_to: f64| up_to - std::mem::replace(&mut before, up_to);
                let mut share = share;
                list.iter().map(|(size, up_to)| share(*up_to) * of(*size)).sum()
            }
            Sizes::Cdf { points, .. } => {
                let first = points.first().map_or(0.0, |p| p.1 * of(p.0));
                let lines = points.windows(2).filter(|w| w[1].1 > w[0].1);
                let lines = lines.map(|w| match w[0].0 == w[1].0 {
                    true => (w[1].1 - w[0].1) * of(w[0].0),
                    false => (w[1].1 - w[0].1) * line(f64::from(w[0].0), f64::from(w[1].0)),
                });
                first + lines.sum::<f64>()
            }
        }
    }

    /// In words: `64 B`, `uniform 64 B to 1 KiB`, `cdf websearch.txt`.
    pub fn describe(&self) -> String {
        match self {
            Sizes::Fixed(size) => format!("{size} B"),
            Sizes::Uniform { min, max } => format!("uniform {min} to {max} B"),
            Sizes::List(list) => format!("list of {}", list.len()),
            Sizes::Cdf { file, .. } => format!("cdf {file}"),
        }
    }
}

impl Traffic {
    /// Of these kinds; their shares may add up to anything, and do to 1 from now on.
    pub fn new(mut kinds: Vec<Kind>) -> Traffic {
        let sum: f64 = kinds.iter().map(|k| k.share).sum();
        for kind in &mut kinds {
            kind.share /= sum;
        }
        let only = match &kinds[..] {
            [Kind { verb, sizes: Sizes::Fixed(size), .. }] => {
                Some(Message { kind: 0, verb: *verb, size: *size })
            }
            _ => None,
        };
        Traffic { kinds, only }
    }

    /// One message over and over.
    pub fn fixed(verb: Verb, size: u32) -> Traffic {
        Traffic::new(vec![Kind { verb, sizes: Sizes::Fixed(size), share: 1.0 }])
    }

    /// Message `number` of the queue pair that `seed` belongs to.
    #[inline]
    pub fn message(&self, seed: u64, number: u64) -> Message {
        match self.only {
            Some(message) => message,
            None => self.draw(seed, number),
        }
    }

    fn draw(&self, seed: u64, number: u64) -> Message {
        let mut random = Random::new(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F));
        let mut of = unit(random.next());
        let last = self.kinds.len() - 1;
        let mut index = 0;
        while index < last && of >= self.kinds[index].share {
            of -= self.kinds[index].share;
            index += 1;
        }
        let kind = &self.kinds[index];
        Message { kind: index as u32, verb: kind.verb, size: kind.sizes.at(unit(random.next())) }
    }

    /// Its kinds.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Whether all messages have one size.
    pub fn is_fixed(&self) -> bool {
        let (min, max) = self.bounds();
        min == max
    }

    /// The smallest and the largest message.
    pub fn bounds(&self) -> (u32, u32) {
        let all = || self.kinds.iter().map(|k| k.sizes.bounds());
        (all().map(|b| b.0).min().unwrap_or(0), all().map(|b| b.1).max().unwrap_or(0))
    }

    /// The share of messages of `size` or less.
    pub fn share_up_to(&self, size: u32) -> f64 {
        self.kinds.iter().map(|k| k.share * k.sizes.share_up_to(size)).sum()
    }

    /// The mean size.
    pub fn mean_size(&self) -> f64 {
        self.kinds.iter().map(|k| k.share * k.sizes.mean(f64::from)).sum()
    }

    /// Whether any kind has a verb of which this holds.
    pub fn has(&self, is: impl Fn(Verb) -> bool) -> bool {
        self.kinds.iter().any(|k| is(k.verb))
    }

    /// In words, kinds with their shares.
    pub fn describe(&self) -> String {
        if let [kind] = &self.kinds[..] {
            return kind.sizes.describe();
        }
        let kind = |k: &Kind| format!("{:.4}% {} {}", k.share * 100.0, k.verb, k.sizes.describe());
        self.kinds.iter().map(kind).collect::<Vec<_>>().join(", ")
    }
}

/// A number from 0 to less than 1.
pub(super) fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// A waiting time of mean 1, as a Poisson process has between two events.
///
/// The logarithm is worked out here, in sums and products alone: those are the same on every machine.
pub(super) fn exponential(random: u64) -> f64 {
    // From just above 0 to 1.
    -ln(((random >> 11) + 1) as f64 / (1u64 << 53) as f64)
}

/// The natural logarithm of a normal number above 0.
fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut m = f64::from_bits(bits & FRACTION | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln m = 2 atanh((m - 1) / (m + 1)).
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = (0..9).rev().fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    2.0 * s * series + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cdf(points: &[(u32, f64)]) -> Sizes {
        Sizes::Cdf { file: "x".into(), points: points.to_vec() }
    }

    fn all() -> Vec<Sizes> {
        vec![
            Sizes::Fixed(100),
            Sizes::Uniform { min: 3, max: 6 },
            Sizes::Uniform { min: 1_000, max: 9_000 },
            Sizes::List(vec![(64, 0.7), (1 << 20, 0.9), (8, 1.0)]),
            cdf(&[(0, 0.0), (10, 0.1), (1_000, 0.5), (1_000, 0.75), (100_000, 1.0)]),
            cdf(&[(7, 0.25), (8, 1.0)]),
        ]
    }

    /// What is drawn, what is asked and the mean are one distribution.
    #[test]
    fn draws_follow_the_shares() {
        const N: u32 = 200_000;
        for sizes in all() {
            let draws: Vec<u32> = (0..N).map(|i| sizes.at((f64::from(i) + 0.5) / f64::from(N))).collect();
            let (min, max) = sizes.bounds();
            assert!(draws.iter().all(|d| (min..=max).contains(d)), "{sizes:?}");
            assert!(draws.contains(&min) && draws.contains(&max), "{sizes:?}: {min} and {max} do occur");
            for size in [0, 3, 4, 7, 8, 10, 64, 999, 1_000, 1_001, 5_000, 1 << 20, u32::MAX] {
                let share = draws.iter().filter(|d| **d <= size).count() as f64 / f64::from(N);
                assert!((share - sizes.share_up_to(size)).abs() < 1e-4, "{sizes:?} up to {size}: {share}");
            }
            let mean = draws.iter().map(|d| f64::from(*d)).sum::<f64>() / f64::from(N);
            let asked = sizes.mean(f64::from);
            assert!((mean / asked - 1.0).abs() < 2e-3, "{sizes:?}: {mean} {asked}");
        }
    }

    #[test]
    fn kinds_come_by_weight_and_the_same_for_both_ends() {
        let kind = |verb, size, share| Kind { verb, sizes: Sizes::Fixed(size), share };
        let traffic = Traffic::new(vec![
            kind(Verb::Write, 10, 6.0),
            kind(Verb::Read, 20, 3.0),
            kind(Verb::SendImm, 30, 1.0),
        ]);
        let mut counts = [0; 3];
        for n in 0..100_000 {
            let message = traffic.message(5, n);
            assert_eq!(message, traffic.message(5, n));
            assert_eq!(message.size, 10 * (message.kind + 1));
            counts[message.kind as usize] += 1;
        }
        for (count, share) in counts.iter().zip([0.6, 0.3, 0.1]) {
            assert!((f64::from(*count) / 1e5 - share).abs() < 0.005, "{counts:?}");
        }
        assert!((0..100).any(|n| traffic.message(5, n) != traffic.message(6, n)));
        assert_eq!((traffic.bounds(), traffic.mean_size()), ((10, 30), 15.0));
    }

    #[test]
    fn the_logarithm_is_one() {
        for x in [1e-16, 0.001, 0.1, 0.5, 0.707, 0.708, 0.99, 1.0, 1.5, 3.0, 1e9] {
            assert!((ln(x) - f64::ln(x)).abs() <= 1e-14 * f64::ln(x).abs().max(1.0), "{x}");
        }
        assert_eq!(exponential(u64::MAX), 0.0);
        assert!((exponential(0) - 53.0 * std::f64::consts::LN_2).abs() < 1e-9);
        let mut random = Random::new(3);
        let mean = (0..100_000).map(|_| exponential(random.next())).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }
}
