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
    pool: Mempool,
    near: usize,
    /// The last of `now` is the next, the last of `next` follows its first.
    now: ArrayVec<Mbuf, BATCH>,
    next: ArrayVec<Mbuf, BATCH>,
}

impl Supply {
    /// Of `pool`.  Keeps up to 64 of its frames at hand.
    pub fn new(pool: Mempool) -> Supply {
        let near = NEAR.min(usize::from(pool.data_room()));
        Supply { pool, near, now: ArrayVec::new(), next: ArrayVec::new() }
    }

    /// The pool.
    pub fn pool(&self) -> &Mempool {
        &self.pool
    }

    /// An empty frame; `None` when the pool has none left.  The next ones are likely to be filled by
    /// copying with `reach` bytes each: 0 when that is not known.
    #[inline]
    pub fn take(&mut self, reach: usize) -> Option<Mbuf> {
        if self.now.is_empty() {
            self.refill();
        }
        let frame = self.now.pop()?;
        if let Some(later) = self.ahead(AHEAD) {
            // SAFETY: the mbuf is valid; a fetch has no effect on what memory holds, wherever it goes.
            unsafe { sys::rdpdk_fetch_fresh(later.as_ptr(), self.near as u32) }
        }
        if reach > self.near
            && let Some(later) = self.ahead(AHEAD_FAR)
        {
            // SAFETY: as above.
            unsafe { sys::rdpdk_fetch_room(later.as_ptr(), self.near as u32, reach as u32) }
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

    #[inline(never)]
    fn refill(&mut self) {
        std::mem::swap(&mut self.now, &mut self.next);
        self.pool.take_bulk(&mut self.next, BATCH);
        if self.now.is_empty() {
            // The first time, or after the pool was empty.
            std::mem::swap(&mut self.now, &mut self.next);
            self.pool.take_bulk(&mut self.next, BATCH);
            for frame in self.now.iter().rev().take(AHEAD) {
                // SAFETY: as in `take`.
                unsafe { sys::rdpdk_fetch_fresh(frame.as_ptr(), self.near as u32) }
            }
        }
    }
}
