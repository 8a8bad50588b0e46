//! How a run went: what each flow did in one span after the other, in memory that does not grow.

use roce_engine::transport::QpCounters;
use roce_engine::units::{Duration, Instant};

/// Spans that are kept of the flows of a run; where there would be more, two become one.
const CELLS: usize = 24_000;
/// At most so many of a flow: more than a picture has room for says nothing more.
const SPANS: usize = 600;

/// What a flow or a queue pair has come to at one moment, counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Payload bytes that came to the end that takes them; 0 where that end is not ours.
    pub bytes: u64,
    /// Packets that were acknowledged.
    pub acked: u64,
    /// Messages completed.
    pub completed: u64,
    /// CNPs that came back to the sender of the data.
    pub cnps: u64,
    /// NAKs that came back to the requester, RNR NAKs included, and responses found lost.
    pub naks: u64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Ack timeouts.
    pub timeouts: u64,
    /// The rate that congestion control allows now, in bit/s, all queue pairs together.
    pub rate_bps: Option<f64>,
}

impl Reading {
    /// What one queue pair has come to, messages aside.
    pub fn of(c: &QpCounters, rate_bps: Option<f64>) -> Reading {
        Reading {
            bytes: c.rx_payload_bytes,
            acked: c.psns_acked,
            completed: 0,
            cnps: c.rp_cnp_handled + c.rp_cnp_ignored,
            naks: c.packet_seq_err + c.rnr_nak_retry_err + c.implied_nak_seq_err,
            retransmits: c.retransmits,
            timeouts: c.local_ack_timeout_err,
            rate_bps,
        }
    }

    /// Adds what another queue pair has come to.
    pub fn add(&mut self, other: &Reading) {
        self.bytes += other.bytes;
        self.acked += other.acked;
        self.completed += other.completed;
        self.cnps += other.cnps;
        self.naks += other.naks;
        self.retransmits += other.retransmits;
        self.timeouts += other.timeouts;
        self.rate_bps = match (self.rate_bps, other.rate_bps) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// What happened in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spell {
    /// The counts are those of the span, the rate is that at its end.
    pub counts: Reading,
    /// Median latency of the messages that ended in it, in nanoseconds.
    pub p50: Option<u64>,
    /// 99 % of them took no longer.
    pub p99: Option<u64>,
}

impl Spell {
    /// What happened between two readings.
    pub fn between(before: &Reading, now: &Reading, p50: Option<u64>, p99: Option<u64>) -> Spell {
        let counts = Reading {
            bytes: now.bytes.saturating_sub(before.bytes),
            acked: now.acked.saturating_sub(before.acked),
            completed: now.completed.saturating_sub(before.completed),
            cnps: now.cnps.saturating_sub(before.cnps),
            naks: now.naks.saturating_sub(before.naks),
            retransmits: now.retransmits.saturating_sub(before.retransmits),
            timeouts: now.timeouts.saturating_sub(before.timeouts),
            rate_bps: now.rate_bps,
        };
        Spell { counts, p50, p99 }
    }

    /// Two spells that follow one another.  The median is the mean of the two by messages, the other
    /// percentile the larger one.
    fn join(&self, next: &Spell) -> Spell {
        let (a, b) = (&self.counts, &next.counts);
        let mean = |x: u64, y: u64| {
            let (m, n) = (a.completed.max(1) as f64, b.completed.max(1) as f64);
            ((x as f64 * m + y as f64 * n) / (m + n)) as u64
        };
        let mut counts = *a;
        counts.add(b);
        counts.rate_bps = b.rate_bps.or(a.rate_bps);
        Spell {
            counts,
            p50: self.p50.zip(next.p50).map(|(x, y)| mean(x, y)).or(self.p50).or(next.p50),
            p99: self.p99.max(next.p99),
        }
    }
}

/// The spans of the measurement, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// From when to when.
    pub spans: Vec<(Instant, Instant)>,
    /// By span, by flow.
    pub spells: Vec<Vec<Spell>>,
    /// Spans as they came that make one that is kept; 0 before the first.
    pub joined: usize,
    /// Of them, those that the last one has.
    open: usize,
}

impl Timeline {
    /// Adds a span: what each flow did.
    pub fn push(&mut self, from: Instant, to: Instant, flows: Vec<Spell>) {
        if to <= from {
            return;
        }
        self.joined = self.joined.max(1);
        let most = (CELLS / flows.len().max(1)).clamp(60, SPANS);
        match (self.spans.last_mut(), self.spells.last_mut()) {
            (Some(span), Some(last)) if self.open < self.joined => {
                span.1 = to;
                for (a, b) in last.iter_mut().zip(&flows) {
                    *a = a.join(b);
                }
                self.open += 1;
            }
            _ => {
                if self.spans.len() >= most {
                    self.halve();
                }
                self.spans.push((from, to));
                self.spells.push(flows);
                self.open = 1;
            }
        }
    }

    /// Joins each two spans that follow one another.
    fn halve(&mut self) {
        self.spans = self.spans.chunks(2).map(|c| (c[0].0, c[c.len() - 1].1)).collect();
        let join = |pair: &[Vec<Spell>]| match pair {
            [a, b] => a.iter().zip(b).map(|(a, b)| a.join(b)).collect(),
            _ => pair[0].clone(),
        };
        self.spells = self.spells.chunks(2).map(join).collect();
        self.joined *= 2;
    }

    /// The length of the spans, the last one aside.
    pub fn step(&self) -> Option<Duration> {
        self.spans.first().map(|(from, to)| to.since(*from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spell(bytes: u64, p99: u64) -> Spell {
        let counts = Reading { bytes, completed: 1, ..Reading::default() };
        Spell { counts, p50: Some(p99 / 2), p99: Some(p99) }
    }

    #[test]
    fn nothing_is_lost_when_spans_are_joined() {
        let mut line = Timeline::default();
        let n = 5_000_u64;
        for i in 0..n {
            let at = |i: u64| Instant::from_nanos(i * 1_000_000);
            line.push(at(i), at(i + 1), vec![spell(i, i), spell(1, 7)]);
        }
        assert!(line.spans.len() <= SPANS && line.spans.len() >= SPANS / 4, "{}", line.spans.len());
        let sum = |f: usize| line.spells.iter().map(|s| s[f].counts.bytes).sum::<u64>();
        assert_eq!((sum(0), sum(1)), (n * (n - 1) / 2, n));
        assert!(line.spans.windows(2).all(|w| w[0].1 == w[1].0), "without a gap");
        let ends = (line.spans[0].0.as_nanos(), line.spans[line.spans.len() - 1].1.as_nanos());
        assert_eq!(ends, (0, n * 1_000_000));
        assert_eq!(line.spells.last().unwrap()[0].p99, Some(n - 1), "the largest stays");
        assert_eq!(line.step().unwrap().as_nanos(), line.joined as u64 * 1_000_000);
    }

    #[test]
    fn a_span_without_length_says_nothing() {
        let mut line = Timeline::default();
        line.push(Instant::from_nanos(5), Instant::from_nanos(5), vec![spell(1, 1)]);
        assert!(line.spans.is_empty() && line.step().is_none());
    }
}
