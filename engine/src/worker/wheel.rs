//! The timer wheel: one timer per queue pair, rearmed lazily.

use crate::units::Instant;
use prefetch_index::prefetch_index;

/// log2 of the nanoseconds of a tick.
const TICK_SHIFT: u32 = 10;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 5;
const NONE: u32 = u32::MAX;

/// A hierarchical timer wheel over the timers `0 .. n`, each armed at most once.
///
/// A tick is 1.024 us; five levels of 64 slots reach 18 minutes, and what lies
/// further is looked at again then.  Arming and disarming cost a few loads and
/// stores; a timer never fires early and at most one tick late.
#[derive(Debug)]
pub struct TimerWheel {
    /// Heads of the lists, and which slots of a level have one.
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
    timers: Vec<Timer>,
    /// The next tick to look at.
    tick: u64,
    armed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    next: u32,
    prev: u32,
    /// Due at this tick; `u64::MAX` when not armed.
    due: u64,
    place: u16,
}

impl TimerWheel {
    /// A wheel whose time begins at `now`.
    pub fn new(now: Instant) -> TimerWheel {
        TimerWheel {
            heads: [[NONE; SLOTS]; LEVELS],
            occupied: [0; LEVELS],
            timers: Vec::new(),
            tick: now.as_nanos() >> TICK_SHIFT,
            armed: 0,
        }
    }

    /// Makes room for the timers `0 .. n`.
    pub fn grow(&mut self, n: usize) {
        let idle = Timer { next: NONE, prev: NONE, due: u64::MAX, place: 0 };
        if n > self.timers.len() {
            self.timers.resize(n, idle);
        }
    }

    /// Fetches what is looked at in every turn.
    #[inline]
    pub(super) fn fetch(&self) {
        prefetch_index(core::slice::from_ref(&self.occupied), 0);
        prefetch_index(core::slice::from_ref(&self.tick), 0);
    }

    /// Timers that are armed.
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// When [`TimerWheel::pop_due`] is wanted next; never later than the first timer is due.
    pub fn next_at(&self) -> Option<Instant> {
        if self.armed == 0 {
            return None;
        }
        let mut next = u64::MAX;
        for (level, occupied) in self.occupied.iter().enumerate().filter(|(_, o)| **o != 0) {
            let shift = SLOT_BITS * level as u32;
            let turn = self.tick >> shift;
            let slot = turn & (SLOTS as u64 - 1);
            // The slots of this turn, else the first of the next one.  What is due in the present
            // slot of an upper level is further down; what is in there belongs to the next turn.
            let ahead = occupied & u64::MAX << slot & !(u64::from(level != 0) << slot);
            let at = match ahead {
                0 => turn - slot + SLOTS as u64 + u64::from(occupied.trailing_zeros()),
                some => turn - slot + u64::from(some.trailing_zeros()),
            };
            next = next.min((at << shift).max(self.tick));
        }
        Some(Instant::from_nanos(next << TICK_SHIFT))
    }

    /// Arms `timer` for `at`, wherever it stood before.
    pub fn arm(&mut self, timer: u32, at: Instant) {
        self.disarm(timer);
        let due = (at.as_nanos().saturating_add((1 << TICK_SHIFT) - 1) >> TICK_SHIFT).max(self.tick);
        self.timers[timer as usize].due = due;
        self.armed += 1;
        self.insert(timer);
    }

    /// Takes `timer` off the wheel.
    pub fn disarm(&mut self, timer: u32) {
        let Timer { next, prev, due, place } = self.timers[timer as usize];
        if due == u64::MAX {
            return;
        }
        let (level, slot) = (usize::from(place) / SLOTS, usize::from(place) % SLOTS);
        if prev == NONE {
            self.heads[level][slot] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            self.timers[prev as usize].next = next;
        }
        if next != NONE {
            self.timers[next as usize].prev = prev;
        }
        self.timers[timer as usize].due = u64::MAX;
        self.armed -= 1;
    }

    /// The next timer that is due at `now`; it is disarmed.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let until = now.as_nanos() >> TICK_SHIFT;
        loop {
            if self.tick > until {
                return None;
            }
            if self.armed == 0 {
                self.tick = until + 1;
                return None;
            }
            let slot = (self.tick & (SLOTS as u64 - 1)) as usize;
            if self.occupied[0] & 1 << slot != 0 {
                let timer = self.heads[0][slot];
                self.disarm(timer);
                return Some(timer);
            }
            self.step(until);
        }
    }

    /// Moves to the next tick that may hold something, and brings upper levels down.
    fn step(&mut self, until: u64) {
        let slot = self.tick & (SLOTS as u64 - 1);
        // Nothing at this slot: the next occupied one of this turn of level 0, or its end.
        let ahead = self.occupied[0] & !((2u64 << slot).wrapping_sub(1));
        let skip = match ahead {
            _ if slot == SLOTS as u64 - 1 => 1,
            0 => SLOTS as u64 - slot,
            some => u64::from(some.trailing_zeros()) - slot,
        };
        self.tick = (self.tick + skip).min(until + 1);
        if self.tick & (SLOTS as u64 - 1) == 0 {
            self.cascade();
        }
    }

    /// A turn of level 0 begins: the slots of upper levels that begin now move down.
    fn cascade(&mut self) {
        for level in 1..LEVELS {
            let slot = ((self.tick >> (SLOT_BITS * level as u32)) & (SLOTS as u64 - 1)) as usize;
            let mut timer = core::mem::replace(&mut self.heads[level][slot], NONE);
            self.occupied[level] &= !(1 << slot);
            while timer != NONE {
                let next = self.timers[timer as usize].next;
                self.insert(timer);
                timer = next;
            }
            if slot != 0 {
                break;
            }
        }
    }

    /// Puts an armed timer into the slot of its due tick.
    fn insert(&mut self, timer: u32) {
        let due = self.timers[timer as usize].due;
        let reach = 1u64 << (SLOT_BITS * LEVELS as u32);
        // Further than the wheel reaches: as far as it does.  The owner looks again then.
        let due = due.min(self.tick + reach - 1);
        let level = (0..LEVELS - 1)
            .find(|l| {
                let shift = SLOT_BITS * (*l as u32 + 1);
                due >> shift == self.tick >> shift
            })
            .unwrap_or(LEVELS - 1);
        let slot = ((due >> (SLOT_BITS * level as u32)) & (SLOTS as u64 - 1)) as usize;
        let head = self.heads[level][slot];
        if head != NONE {
            self.timers[head as usize].prev = timer;
        }
        self.heads[level][slot] = timer;
        self.occupied[level] |= 1 << slot;
        let t = &mut self.timers[timer as usize];
        t.next = head;
        t.prev = NONE;
        t.due = due;
        t.place = (level * SLOTS + slot) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: u64 = 1 << TICK_SHIFT;

    fn drain(wheel: &mut TimerWheel, now: u64) -> Vec<u32> {
        let mut due: Vec<u32> = core::iter::from_fn(|| wheel.pop_due(Instant::from_nanos(now))).collect();
        due.sort_unstable();
        due
    }

    #[test]
    fn fires_in_time_at_every_distance() {
        for shift in 0..40 {
            let at = 1u64 << shift;
            let mut wheel = TimerWheel::new(Instant::ZERO);
            wheel.grow(1);
            wheel.arm(0, Instant::from_nanos(at));
            let before = (at.saturating_sub(1) / TICK) * TICK;
            if before > 0 {
                assert_eq!(drain(&mut wheel, before - 1), [0u32; 0], "2^{shift} early");
            }
            assert_eq!(drain(&mut wheel, at + TICK), [0], "2^{shift} late");
            assert_eq!(wheel.armed(), 0);
        }
    }

    #[test]
    fn sleeping_until_next_at_fires_in_time() {
        for shift in 0..42 {
            let due = (1u64 << shift) + 12_345;
            let mut wheel = TimerWheel::new(Instant::from_nanos(777_777));
            wheel.grow(1);
            wheel.arm(0, Instant::from_nanos(due));
            let mut looks = 0;
            loop {
                let now = wheel.next_at().expect("it is armed");
                looks += 1;
                if wheel.pop_due(now).is_some() {
                    assert!(now.as_nanos() < due.max(777_777) + 2 * TICK, "2^{shift}: {now:?}");
                    break;
                }
            }
            assert!(looks <= 8, "2^{shift}: looked {looks} times");
            assert_eq!(wheel.next_at(), None);
        }
    }

    #[test]
    fn rearming_moves_a_timer() {
        let mut wheel = TimerWheel::new(Instant::ZERO);
        wheel.grow(3);
        for t in 0..3 {
            wheel.arm(t, Instant::from_nanos(100 * TICK));
        }
        wheel.arm(1, Instant::from_nanos(5 * TICK));
        wheel.disarm(2);
        wheel.disarm(2);
        assert_eq!(drain(&mut wheel, 5 * TICK), [1]);
        assert_eq!(drain(&mut wheel, 1000 * TICK), [0]);
    }

    #[test]
    fn what_is_past_is_due_at_once() {
        let mut wheel = TimerWheel::new(Instant::from_nanos(1 << 40));
        wheel.grow(1);
        wheel.arm(0, Instant::ZERO);
        assert_eq!(drain(&mut wheel, 1 << 40), [0]);
    }

    proptest! {
        /// Against a sorted list: each timer fires once, never early, at most a tick late.
        #[test]
        fn agrees_with_a_list(
            start in 0u64..1 << 41,
            arms in proptest::collection::vec((0u32..16, 0u64..1 << 33), 1..60),
            steps in proptest::collection::vec(0u64..1 << 32, 1..60),
        ) {
            let mut wheel = TimerWheel::new(Instant::from_nanos(start));
            wheel.grow(16);
            let mut list = std::collections::BTreeMap::new();
            let mut now = start;
            let mut arms = arms.into_iter();
            for step in steps {
                if let Some((timer, after)) = arms.next() {
                    wheel.arm(timer, Instant::from_nanos(now + after));
                    list.insert(timer, now + after);
                }
                // Whoever sleeps until `next_at` misses nothing.
                let first = list.values().min().copied();
                let next = wheel.next_at().map(|at| at.as_nanos());
                prop_assert_eq!(next.is_some(), first.is_some());
                prop_assert!(next.zip(first).is_none_or(|(n, f)| n < f.max(now) + 2 * TICK), "sleeps too long");
                now += step;
                for timer in drain(&mut wheel, now) {
                    let at = list.remove(&timer);
                    prop_assert!(at.is_some_and(|at| at <= now + TICK), "{timer} fired early or twice");
                }
                for (timer, at) in &list {
                    prop_assert!(*at + TICK > now, "{timer} is late");
                }
                prop_assert_eq!(wheel.armed(), list.len());
            }
        }
    }
}
