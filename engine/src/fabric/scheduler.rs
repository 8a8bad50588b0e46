//! Which queue of a port is served next.

use super::packet::Priority;

/// Bytes that a queue of weight 1 is given in its turn.
const QUANTUM: u32 = 512;

/// How the queues of a port are served.
///
/// A queue without weight is strict: it goes before all queues below it and before all that have a
/// weight.  Those share what the strict ones leave, by deficit round robin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// By priority: 0 is strict.
    pub weights: [u16; Priority::COUNT],
}

/// The deficits of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scheduler {
    deficit: [u32; Priority::COUNT],
    turn: u8,
    /// The queue whose turn it is has had its quantum.
    given: bool,
}

impl Scheduler {
    /// The queue to serve of those whose bits are set in `ready`, which is not empty and has none that
    /// is strict; `head` tells the bytes at the head of a queue.
    pub(super) fn pick(&mut self, service: &Service, ready: u8, head: impl Fn(usize) -> u32) -> usize {
        if ready & (ready - 1) == 0 {
            // Alone it owes nobody anything.
            self.deficit = [0; Priority::COUNT];
            self.given = false;
            return ready.trailing_zeros() as usize;
        }
        loop {
            let q = usize::from(self.turn);
            if ready & 1 << q != 0 {
                if !self.given {
                    self.deficit[q] += u32::from(service.weights[q]) * QUANTUM;
                    self.given = true;
                }
                let len = head(q);
                if self.deficit[q] >= len {
                    self.deficit[q] -= len;
                    return q;
                }
            } else {
                self.deficit[q] = 0;
            }
            self.turn = (self.turn + 1) % Priority::COUNT as u8;
            self.given = false;
        }
    }
}

impl Service {
    /// The strict queues.
    pub(super) fn strict(&self) -> u8 {
        self.weights.iter().enumerate().fold(0, |set, (i, w)| set | u8::from(*w == 0) << i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_served(weights: [u16; 8], lengths: [u32; 8], ready: u8, rounds: u32) -> [u64; 8] {
        let mut scheduler = Scheduler::default();
        let mut bytes = [0; 8];
        let service = Service { weights };
        for _ in 0..rounds {
            let q = match ready & service.strict() {
                0 => scheduler.pick(&service, ready, |q| lengths[q]),
                strict => 7 - strict.leading_zeros() as usize,
            };
            bytes[q] += u64::from(lengths[q]);
        }
        bytes
    }

    #[test]
    fn strict_queues_go_first() {
        let weights = [1, 1, 0, 1, 1, 1, 0, 1];
        assert_eq!(bytes_served(weights, [100; 8], 0b1111_1111, 10)[6], 1000);
        assert_eq!(bytes_served(weights, [100; 8], 0b1011_1111, 10)[2], 1000);
    }

    #[test]
    fn weights_are_shares_of_bytes_whatever_the_lengths() {
        let weights = [3, 0, 0, 5, 0, 0, 0, 0];
        for (a, b) in [(1500, 1500), (64, 4178), (9000, 64), (1082, 4178)] {
            let bytes = bytes_served(weights, [a, 0, 0, b, 0, 0, 0, 0], 0b1001, 100_000);
            let ratio = bytes[3] as f64 / bytes[0] as f64;
            assert!((ratio / (5.0 / 3.0) - 1.0).abs() < 0.01, "{a} {b}: {ratio}");
        }
    }

    #[test]
    fn a_queue_that_was_empty_saves_nothing_up() {
        let service = Service { weights: [1, 1, 0, 0, 0, 0, 0, 0] };
        let mut scheduler = Scheduler::default();
        (0..1000).for_each(|_| assert_eq!(scheduler.pick(&service, 0b01, |_| 1000), 0));
        let ones: usize = (0..100).map(|_| scheduler.pick(&service, 0b11, |_| 1000)).sum();
        assert!((48..=52).contains(&ones), "{ones}");
    }
}
