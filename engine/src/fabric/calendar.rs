//! What happens next: a calendar of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// log2 of the picoseconds of a slot: some ten events of a few hundred busy ports.
const SLOT_SHIFT: u32 = 12;
/// log2 of the slots; together they reach 67 us, further than most packets are under way.
const SLOT_BITS: u32 = 14;
const SLOTS: usize = 1 << SLOT_BITS;
const WORDS: usize = SLOTS / 64;
/// Events of a block: as many of 12 bytes as fill a line of the cache.
const BLOCK: usize = 5;
const NONE: u32 = u32::MAX;

/// Events by time, those of one time in the order in which they were made.
///
/// Times are picoseconds.  What is due soon lies in a ring of slots of 4 ns, each a list of small
/// blocks, and is sorted when its slot's turn has come; what is due later waits in a heap.  Both ways
/// cost the same few dozen instructions whether ten events are pending or a hundred thousand.  Once
/// it has grown it allocates nothing.
#[derive(Debug)]
pub struct Calendar<T> {
    slots: Box<[SlotHead]>,
    /// Which slots have events, and which words of that.
    occupied: Box<[u64]>,
    words: [u64; WORDS / 64],
    blocks: Vec<Block<T>>,
    free: u32,
    /// The events of the present slot, and of any time before it; the next one is the last.
    present: Vec<Entry<T>>,
    /// The present slot, counted from time zero.
    slot: u64,
    far: BinaryHeap<Reverse<Far<T>>>,
    age: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct SlotHead {
    /// The block that was begun last; it leads to those before it.
    block: u32,
    /// Events in that one.
    filled: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block<T> {
    entries: [Entry<T>; BLOCK],
    before: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    /// Picoseconds from the beginning of the slot.
    at: u32,
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
            slots: vec![SlotHead { block: NONE, filled: 0 }; SLOTS].into_boxed_slice(),
            occupied: vec![0; WORDS].into_boxed_slice(),
            words: [0; WORDS / 64],
            blocks: Vec::new(),
            free: NONE,
            present: Vec::new(),
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

    /// `what` is due at `at`, which is not before any time that [`Calendar::pop_until`] told or, for lack
    /// of events, was asked for.
    #[inline]
    pub fn push(&mut self, at: u64, what: T) {
        self.len += 1;
        let slot = at >> SLOT_SHIFT;
        let ahead = slot.wrapping_sub(self.slot);
        if ahead.wrapping_sub(1) < SLOTS as u64 - 1 {
            self.link(at, what);
        } else if slot <= self.slot {
            self.insert_present(at, what);
        } else {
            self.age += 1;
            self.far.push(Reverse(Far { at, age: self.age, what }));
        }
    }

    /// The next event, when it is due before or at `end`.
    #[inline]
    pub fn pop_until(&mut self, end: u64) -> Option<(u64, T)> {
        if self.present.is_empty() && !self.advance(end) {
            return None;
        }
        let Entry { at, what } = *self.present.last()?;
        let at = (self.slot << SLOT_SHIFT) + u64::from(at);
        if at > end {
            return None;
        }
        self.present.pop();
        self.len -= 1;
        Some((at, what))
    }

    /// Whether the events of a slot have all been taken, so that the next one is looked for.
    #[inline]
    pub fn is_through(&self) -> bool {
        self.present.is_empty()
    }

    /// The events of the present slot, the next one last.
    #[inline]
    pub fn present(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        self.present.iter().map(|e| e.what)
    }

    /// Makes the next slot with events the present one, unless it lies behind `end`.
    pub fn advance(&mut self, end: u64) -> bool {
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
            self.link(f.at, f.what);
        }
        self.collect();
        true
    }

    /// Takes the events of the present slot out of the ring.
    fn collect(&mut self) {
        let index = self.slot as usize % SLOTS;
        let SlotHead { block: mut at, mut filled } =
            core::mem::replace(&mut self.slots[index], SlotHead { block: NONE, filled: 0 });
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.words[index / 4096] &= !(1 << (index / 64 % 64));
        }
        // The newest comes first, since it is taken last.
        while at != NONE {
            let block = &mut self.blocks[at as usize];
            self.present.extend(block.entries[..filled as usize].iter().rev());
            filled = BLOCK as u32;
            let before = core::mem::replace(&mut block.before, self.free);
            self.free = at;
            at = before;
        }
        sort(&mut self.present);
    }

    #[inline]
    fn insert_present(&mut self, at: u64, what: T) {
        let at = at.saturating_sub(self.slot << SLOT_SHIFT) as u32;
        let sooner = self.present.iter().rev().take_while(|e| e.at <= at).count();
        self.present.insert(self.present.len() - sooner, Entry { at, what });
    }

    #[inline]
    fn link(&mut self, at: u64, what: T) {
        let index = (at >> SLOT_SHIFT) as usize % SLOTS;
        let entry = Entry { at: at as u32 & ((1 << SLOT_SHIFT) - 1), what };
        let slot = &mut self.slots[index];
        if slot.block != NONE && slot.filled < BLOCK as u32 {
            self.blocks[slot.block as usize].entries[slot.filled as usize] = entry;
            slot.filled += 1;
            return;
        }
        let block = Block { entries: [entry; BLOCK], before: slot.block };
        slot.filled = 1;
        slot.block = self.free;
        if self.free == NONE {
            slot.block = self.blocks.len() as u32;
            self.blocks.push(block);
        } else {
            self.free = core::mem::replace(&mut self.blocks[slot.block as usize], block).before;
        }
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

/// The soonest last; what is due at one time stays in its order.
#[inline]
fn sort<T: Copy>(entries: &mut [Entry<T>]) {
    if entries.len() > 64 {
        return entries.sort_by_key(|e| Reverse(e.at));
    }
    for i in 1..entries.len() {
        let entry = entries[i];
        let mut to = i;
        while to > 0 && entries[to - 1].at < entry.at {
            entries[to] = entries[to - 1];
            to -= 1;
        }
        entries[to] = entry;
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
                    } else if end != u64::MAX {
                        now = end;
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
