//! Messages and times that come from a recording.

use super::traffic::Message;

/// The messages of a queue pair, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// In the order in which they are due.
    pub entries: Vec<Entry>,
    /// Nanoseconds from the beginning of one loop to that of the next.
    pub period: u64,
    /// How often all of it is done.
    pub loops: u64,
}

/// A message of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it is due, in nanoseconds since its loop began.
    pub at: u64,
    /// What it is.
    pub message: Message,
}

impl Script {
    /// All of its messages.
    pub fn messages(&self) -> u64 {
        self.loops.saturating_mul(self.entries.len() as u64)
    }

    /// Message `number`; there is one.
    pub(super) fn message(&self, number: u64) -> Message {
        self.entries[(number % self.entries.len() as u64) as usize].message
    }

    /// When message `number` is due, in nanoseconds since the start.
    pub(super) fn due(&self, number: u64) -> u64 {
        let len = self.entries.len() as u64;
        let at = self.entries[(number % len) as usize].at;
        (number / len).saturating_mul(self.period).saturating_add(at)
    }

    /// Messages that are due until `ns` after the start, of which `posted` were.
    pub(super) fn due_until(&self, ns: u64, posted: u64) -> u64 {
        let (mut low, mut high) = (posted, self.messages());
        // Times rise with numbers.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.due(middle) <= ns { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Verb;

    #[test]
    fn loops_follow_each_other() {
        let entry = |at| Entry { at, message: Message { kind: 0, verb: Verb::Write, size: at as u32 } };
        let script = Script { entries: [0, 30, 30, 70].map(entry).to_vec(), period: 100, loops: 3 };
        let due: Vec<_> = (0..6).map(|n| (script.due(n), script.message(n).size)).collect();
        assert_eq!(due, [(0, 0), (30, 30), (30, 30), (70, 70), (100, 0), (130, 30)]);
        let until = |ns, posted| script.due_until(ns, posted);
        assert_eq!(
            (until(0, 0), until(29, 1), until(30, 1), until(99, 0), until(10_000, 5)),
            (1, 1, 3, 4, 12)
        );
    }
}
