//! A set of PSNs that lie within a window of each other.

use crate::units::Psn;

/// A bit for each PSN of a window, which is a power of two of at least 64: PSNs a window apart
/// share one, so that their owner removes what the window leaves behind.
#[derive(Debug)]
pub(super) struct PsnSet {
    words: Box<[u64]>,
    mask: u32,
}

impl PsnSet {
    /// An empty set for `window` PSNs or a few more.
    pub(super) fn new(window: u32) -> PsnSet {
        let size = window.next_power_of_two().max(64);
        PsnSet { words: vec![0; size as usize / 64].into_boxed_slice(), mask: size - 1 }
    }

    /// PSNs that it tells apart.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.mask + 1
    }

    /// The place of `psn` in anything that has as many places as this set.
    #[inline]
    pub(super) fn place(&self, psn: Psn) -> usize {
        (psn.get() & self.mask) as usize
    }

    #[inline]
    pub(super) fn contains(&self, psn: Psn) -> bool {
        let at = self.place(psn);
        self.words[at / 64] >> (at % 64) & 1 != 0
    }

    /// Whether it was not there before.
    #[inline]
    pub(super) fn insert(&mut self, psn: Psn) -> bool {
        let at = self.place(psn);
        let bit = 1 << (at % 64);
        let new = self.words[at / 64] & bit == 0;
        self.words[at / 64] |= bit;
        new
    }

    /// Whether it was there.
    #[inline]
    pub(super) fn remove(&mut self, psn: Psn) -> bool {
        let at = self.place(psn);
        let bit = 1 << (at % 64);
        let there = self.words[at / 64] & bit != 0;
        self.words[at / 64] &= !bit;
        there
    }

    /// Inserts `count` PSNs from `from` on; the number of those that were not there before.
    pub(super) fn insert_run(&mut self, from: Psn, count: u32) -> u32 {
        let mut new = 0;
        self.each_word(from, count, |word, bits| {
            new += (bits & !*word).count_ones();
            *word |= bits;
        });
        new
    }

    /// Removes `count` PSNs from `from` on.
    pub(super) fn remove_run(&mut self, from: Psn, count: u32) {
        self.each_word(from, count, |word, bits| *word &= !bits);
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// How many PSNs from `from` on are there without a gap, at most `limit`.
    pub(super) fn run_from(&self, from: Psn, limit: u32) -> u32 {
        let mut run = 0;
        while run < limit {
            let at = self.place(from.plus(run));
            let room = 64 - (at % 64) as u32;
            let ones = (self.words[at / 64] >> (at % 64)).trailing_ones();
            run += ones;
            if ones < room {
                break;
            }
        }
        run.min(limit)
    }

    /// How many PSNs right before `end` are there without a gap, at most `limit`.
    pub(super) fn run_before(&self, end: Psn, limit: u32) -> u32 {
        let mut run = 0;
        while run < limit {
            let at = self.place(end.minus(run + 1));
            let room = (at % 64) as u32 + 1;
            let ones = (self.words[at / 64] << (64 - room)).leading_ones();
            run += ones;
            if ones < room {
                break;
            }
        }
        run.min(limit)
    }

    /// Calls `visit` with each word of a run and the bits of the run in it.
    fn each_word(&mut self, from: Psn, count: u32, mut visit: impl FnMut(&mut u64, u64)) {
        let mut at = self.place(from) as u32;
        let mut left = count.min(self.size());
        while left != 0 {
            let bit = at % 64;
            let n = left.min(64 - bit);
            visit(&mut self.words[at as usize / 64], (u64::MAX >> (64 - n)) << bit);
            at = (at + n) & self.mask;
            left -= n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Against a set of numbers, across words, the end of the ring and the wrap of the PSNs.
    #[test]
    fn as_a_set_of_numbers() {
        for (window, base) in [(1, 0xFF_FFF0), (64, 7), (100, 0xFF_FFA0), (256, 1000)] {
            let mut set = PsnSet::new(window);
            let size = set.size();
            let psn = |i: u32| Psn::new(base).plus(i);
            let mut model = BTreeSet::new();
            let mut state = u64::from(window);
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 40) as u32 % size;
                let n = (state >> 20) as u32 % (size - at) + 1;
                match state >> 61 {
                    0 | 1 => {
                        let new = (at..at + n).filter(|i| model.insert(*i)).count();
                        assert_eq!(set.insert_run(psn(at), n) as usize, new);
                    }
                    2 => {
                        set.remove_run(psn(at), n);
                        model.retain(|i| !(at..at + n).contains(i));
                    }
                    3 | 4 => assert_eq!(set.remove(psn(at)), model.remove(&at)),
                    _ => assert_eq!(set.insert(psn(at)), model.insert(at)),
                }
                assert_eq!(set.contains(psn(at)), model.contains(&at));
                let forward = (at..at + n).take_while(|i| model.contains(i)).count() as u32;
                assert_eq!(set.run_from(psn(at), n), forward);
                let back = (0..=at).rev().take_while(|i| model.contains(i)).count() as u32;
                assert_eq!(set.run_before(psn(at + 1), at + 1), back);
            }
            set.clear();
            assert_eq!(set.run_from(psn(0), size), 0);
        }
    }
}
