//! Empty frames that are near before they are wanted.

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use crate::{Mbuf, Mempool};

/// Frames that are taken from the pool at once.
const BATCH: usize = 32;
/// A frame is asked for so many frames before its turn, and the far end of a long one so many.
const AHEAD: usize = 12;
const AHEAD_FAR: usize = 2;
/// So much of each is asked for in any case.
const NEAR: usize = 192;

/// Empty frames of a pool, one after the other, each on its way to the processor's caches some frames
/// before its turn: their lines are mostly in the caches of another core, and who writes to one that has
/// not come yet waits for it with all that it writes after.
#[derive(Debug)]
pub struct Supply {
    room: usize,
    /// The last of `now` is the next, the last of `next` follows its first.
    now: ArrayVec<Mbuf, BATCH>,
    next: ArrayVec<Mbuf, BATCH>,
    /// Behind its frames, which go back to it first.
    pool: Mempool,
}

impl Supply {
    /// The most frames that it keeps at hand.
    pub const AT_HAND: u32 = 2 * BATCH as u32;

    /// Of `pool`.
    pub fn new(pool: Mempool) -> Supply {
        Supply { room: usize::from(pool.data_room()), now: ArrayVec::new(), next: ArrayVec::new(), pool }
    }

    /// The pool.
    pub fn pool(&self) -> &Mempool {
        &self.pool
    }

    /// An empty frame; `None` when the pool has none left.  The next ones are likely to be filled by
    /// copying with `reach` bytes each, of which the room that there is counts: 0 when that is not known.
    #[inline]
    pub fn take(&mut self, reach: usize) -> Option<Mbuf> {
        if self.now.is_empty() {
            self.refill();
        }
        let frame = self.now.pop()?;
        if let Some(later) = self.ahead(AHEAD) {
            self.fetch(later);
        }
        if reach > NEAR
            && let Some(later) = self.ahead(AHEAD_FAR)
        {
            // SAFETY: the mbuf is valid; a fetch has no effect on what memory holds.
            unsafe { sys::rdpdk_fetch_room(later.as_ptr(), NEAR as u32, reach.min(self.room) as u32) }
        }
        // SAFETY: the mbuf is valid, of one segment, and nobody else's.
        unsafe { sys::rdpdk_make_ready(frame.as_ptr()) }
        Some(frame)
    }

    /// The frame that comes after `after` less one others.
    #[inline(always)]
    fn ahead(&self, after: usize) -> Option<&Mbuf> {
        match self.now.len().checked_sub(after) {
            Some(at) => self.now.get(at),
            None => self.next.get((self.next.len() + self.now.len()).checked_sub(after)?),
        }
    }

    /// Brings the first lines of a frame near.
    #[inline(always)]
    fn fetch(&self, frame: &Mbuf) {
        // SAFETY: the mbuf is valid; a fetch has no effect on what memory holds.
        unsafe { sys::rdpdk_fetch_fresh(frame.as_ptr(), NEAR.min(self.room) as u32) }
    }

    #[inline(never)]
    fn refill(&mut self) {
        std::mem::swap(&mut self.now, &mut self.next);
        if self.pool.take_bulk(&mut self.next, BATCH) == 0 && self.now.is_empty() {
            return;
        }
        // Fetched when they were in `next`, but for what is nearer now than they could be seen from there:
        // all, the first time; some, after the pool had few.
        let seen = self.now.len();
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.next);
            self.pool.take_bulk(&mut self.next, BATCH);
        }
        for later in seen + 1..=AHEAD {
            if let Some(frame) = self.ahead(later) {
                self.fetch(frame);
            }
        }
    }
}
