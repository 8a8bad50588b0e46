//! How long the queues of switches were, at even times, in memory that does not grow.

use roce_engine::units::Instant;

/// Spans that are kept; where there would be more, two become one.
const SPANS: usize = 300;

/// What queues came to in a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSpan {
    /// By port: the most bytes that waited when it was looked at.
    pub bytes: Vec<u64>,
    /// Pauses that were asked for, by all ports together.
    pub pauses: u64,
}

/// The spans of the measurement, one after the other.
#[derive(Clone, Debug, Default)]
pub struct QueueTimeline {
    /// When each ended.
    pub ends: Vec<Instant>,
    /// What each came to.
    pub spans: Vec<QueueSpan>,
    /// Looks that make a span.
    joined: usize,
    /// Of them, those that the last one has.
    open: usize,
}

impl QueueTimeline {
    /// Adds what was seen at a moment, and the pauses since the one before.
    pub fn push(&mut self, at: Instant, bytes: Vec<u64>, pauses: u64) {
        self.joined = self.joined.max(1);
        let span = QueueSpan { bytes, pauses };
        match (self.ends.last_mut(), self.spans.last_mut()) {
            (Some(end), Some(last)) if self.open < self.joined => {
                *end = at;
                last.join(&span);
                self.open += 1;
            }
            _ => {
                if self.spans.len() >= SPANS {
                    self.halve();
                }
                self.ends.push(at);
                self.spans.push(span);
                self.open = 1;
            }
        }
    }

    /// Joins each two spans that follow one another.
    fn halve(&mut self) {
        self.ends = self.ends.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
        let join = |pair: &mut [QueueSpan]| {
            let mut first = std::mem::take(&mut pair[0]);
            if let Some(second) = pair.get(1) {
                first.join(second);
            }
            first
        };
        self.spans = self.spans.chunks_mut(2).map(join).collect();
        self.joined *= 2;
    }
}

impl QueueSpan {
    fn join(&mut self, next: &QueueSpan) {
        for (most, bytes) in self.bytes.iter_mut().zip(&next.bytes) {
            *most = (*most).max(*bytes);
        }
        self.pauses += next.pauses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_queue_and_every_pause_stay() {
        let mut line = QueueTimeline::default();
        let n = 5_000_u64;
        for i in 1..=n {
            line.push(Instant::from_nanos(i), vec![if i == 777 { 9_999 } else { i % 100 }, 1], i % 3);
        }
        assert!(line.spans.len() <= SPANS && line.spans.len() >= SPANS / 4, "{}", line.spans.len());
        assert_eq!(line.ends.len(), line.spans.len());
        assert!(line.ends.is_sorted() && line.ends.last() == Some(&Instant::from_nanos(n)));
        assert_eq!(line.spans.iter().map(|s| s.bytes[0]).max(), Some(9_999));
        assert_eq!(line.spans.iter().map(|s| s.pauses).sum::<u64>(), (1..=n).map(|i| i % 3).sum::<u64>());
    }
}
