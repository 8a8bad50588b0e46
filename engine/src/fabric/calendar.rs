//! What happens next: a calendar of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// log2 of the picoseconds of a slot: about the time between two events of a few hundred busy ports.
const SLOT_SHIFT: u32 = 11;
/// log2 of the slots; together they reach 67 us, further than most packets are under way.
const SLOT_BITS: u32 = 15;
const SLOTS: usize = 1 << SLOT_BITS;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

/// Events by time, those of one time in the order in which they were made.
///
/// Times are picoseconds.  What is due soon lies in a ring of slots of 2 ns and is sorted when its
/// slot's turn has come; what is due later waits in a heap.  Both ways cost the same few dozen
/// instructions whether ten events are pending or a hundred thousand.  Once it has grown it
/// allocates nothing.
#[derive(Debug)]
pub struct Calendar<T> {
    heads: Box<[u32]>,
    /// Which slots have events, and which words of that.
    occupied: Box<[u64]>,
    words: [u64; WORDS / 64],
    nodes: Vec<Node<T>>,
    free: u32,
    /// The events of the present slot and of any time before it, in order from `next` on.
    present: Vec<Entry<T>>,
    next: usize,
    /// The present slot, counted from time zero.
    slot: u64,
    far: BinaryHeap<Reverse<Far<T>>>,
    age: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    entry: Entry<T>,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    /// The low bits of the number of events made before it: only ages near each other are compared.
    age: u32,
    what: T,
}

#[derive(Clone, Copy, Debug)]
struct Far<T> {
    at: u64,
    age: u64,
    what: T,
}

impl<T> PartialEq for Far<T> {
    fn eq(&self, other: &Far<T>) -> bool {
        (self.at, self.age) == (other.at, other.age)
    }
}

impl<T> Eq for Far<T> {}

impl<T> PartialOrd for Far<T> {
    fn partial_cmp(&self, other: &Far<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Far<T> {
    fn cmp(&self, other: &Far<T>) -> std::cmp::Ordering {
        (self.at, self.age).cmp(&(other.at, other.age))
    }
}

impl<T: Copy> Default for Calendar<T> {
    fn default() -> Calendar<T> {
        Calendar {
            heads: vec![NONE; SLOTS].into_boxed_slice(),
            occupied: vec![0; WORDS].into_boxed_slice(),
            words: [0; WORDS / 64],
            nodes: Vec::new(),
            free: NONE,
            present: Vec::new(),
            next: 0,
            slot: 0,
            far: BinaryHeap::new(),
            age: 0,
            len: 0,
        }
    }
}

impl<T: Copy> Calendar<T> {
    /// Events pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing will ever happen any more.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `what` is due at `at`; at once when that is past.
    #[inline]
    pub fn push(&mut self, at: u64, what: T) {
        self.age += 1;
        self.len += 1;
        let slot = at >> SLOT_SHIFT;
        if slot <= self.slot {
            self.insert_present(Entry { at, age: self.age as u32, what });
        } else if slot - self.slot < SLOTS as u64 {
            self.link(Entry { at, age: self.age as u32, what });
        } else {
            self.far.push(Reverse(Far { at, age: self.age, what }));
        }
    }

    /// The next event, when it is due before or at `end`.
    #[inline]
    pub fn pop_until(&mut self, end: u64) -> Option<(u64, T)> {
        if self.next == self.present.len() && !self.advance(end) {
            return None;
        }
        let Entry { at, what, .. } = *self.present.get(self.next)?;
        if at > end {
            return None;
        }
        self.next += 1;
        self.len -= 1;
        Some((at, what))
    }

    /// Makes the next slot with events the present one, unless it lies behind `end`.
    fn advance(&mut self, end: u64) -> bool {
        self.present.clear();
        self.next = 0;
        let far = || self.far.peek().map(|Reverse(f)| f.at >> SLOT_SHIFT);
        let Some(slot) = self.next_slot().or_else(far) else { return false };
        if slot > end >> SLOT_SHIFT {
            return false;
        }
        self.slot = slot;
        // Before anything newer can be put into the slots that have come into reach.
        while let Some(Reverse(f)) = self.far.peek().copied() {
            if (f.at >> SLOT_SHIFT) - slot >= SLOTS as u64 {
                break;
            }
            self.far.pop();
            self.link(Entry { at: f.at, age: f.age as u32, what: f.what });
        }
        self.collect();
        true
    }

    /// Takes the events of the present slot out of the ring.
    fn collect(&mut self) {
        let index = self.slot as usize % SLOTS;
        let mut at = core::mem::replace(&mut self.heads[index], NONE);
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.words[index / 4096] &= !(1 << (index / 64 % 64));
        }
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            self.present.push(node.entry);
            let next = core::mem::replace(&mut node.next, self.free);
            self.free = at;
            at = next;
        }
        if self.present.len() > 1 {
            // Counted from the next age on, round the circle of ages: the newest comes last.
            let next = (self.age as u32).wrapping_add(1);
            self.present.sort_unstable_by_key(|e| (e.at, e.age.wrapping_sub(next)));
        }
    }

    #[inline]
    fn insert_present(&mut self, entry: Entry<T>) {
        let later = self.present[self.next..].iter().rev().take_while(|e| e.at > entry.at).count();
        self.present.insert(self.present.len() - later, entry);
    }

    #[inline]
    fn link(&mut self, entry: Entry<T>) {
        let index = (entry.at >> SLOT_SHIFT) as usize % SLOTS;
        let node = Node { entry, next: self.heads[index] };
        let at = if self.free == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            at
        };
        self.heads[index] = at;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.words[index / 4096] |= 1 << (index / 64 % 64);
    }

    /// The first slot of the ring after the present one that has events.
    fn next_slot(&self) -> Option<u64> {
        let from = self.slot as usize % SLOTS;
        let index = self.first_from(from).or_else(|| self.first_from(0))?;
        let ahead = (index + SLOTS - from) % SLOTS;
        Some(self.slot + ahead as u64)
    }

    /// The first occupied slot with an index of at least `from`.
    fn first_from(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let rest = self.occupied[word] & u64::MAX << (from % 64);
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let mut group = (word + 1) / 64;
        let mut mask = u64::MAX << ((word + 1) % 64);
        while group < self.words.len() {
            let some = self.words[group] & mask;
            if some != 0 {
                let word = group * 64 + some.trailing_zeros() as usize;
                return Some(word * 64 + self.occupied[word].trailing_zeros() as usize);
            }
            mask = u64::MAX;
            group += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all<T: Copy>(c: &mut Calendar<T>) -> Vec<(u64, T)> {
        core::iter::from_fn(|| c.pop_until(u64::MAX)).collect()
    }

    #[test]
    fn by_time_then_by_age() {
        let mut c = Calendar::default();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (900_000_000, 'f'), (80_000, 'e')] {
            c.push(at, what);
        }
        assert_eq!((c.len(), c.pop_until(2)), (6, None));
        let order: String = all(&mut c).into_iter().map(|(_, what)| what).collect();
        assert_eq!(order, "bdacef");
        assert!(c.is_empty());
    }

    /// The event that was pushed last, when its slot is collected with older ones of its time.
    #[test]
    fn the_newest_comes_last_of_its_time() {
        let mut c = Calendar::default();
        for what in 1..=3 {
            c.push(50_000, what);
        }
        assert_eq!(all(&mut c), [(50_000, 1), (50_000, 2), (50_000, 3)]);
    }

    proptest! {
        /// The same as a heap of (time, number), whatever is pushed in between.
        #[test]
        fn as_a_heap_does(steps in prop::collection::vec((0u64..4, 0u32..40, 0u64..1000, 0usize..4), 1..400)) {
            let (mut c, mut heap) = (Calendar::default(), BinaryHeap::new());
            let (mut now, mut number) = (0u64, 0u32);
            for (kind, shift, more, pops) in steps {
                let at = if kind == 0 { now } else { now + (more << shift >> 8) };
                number += 1;
                c.push(at, number);
                heap.push(Reverse((at, number)));
                for _ in 0..pops {
                    // Now and then a stop before the next event.
                    let end = if more % 3 == 0 { now + more } else { u64::MAX };
                    let want = heap.peek().copied().filter(|Reverse((at, _))| *at <= end);
                    prop_assert_eq!(c.pop_until(end), want.map(|Reverse(e)| e));
                    if let Some(Reverse((at, _))) = want {
                        heap.pop();
                        now = at;
                    }
                }
                prop_assert_eq!(c.len(), heap.len());
            }
            while let Some(Reverse(want)) = heap.pop() {
                prop_assert_eq!(c.pop_until(u64::MAX), Some(want));
            }
            prop_assert!(c.is_empty());
        }
    }
}
