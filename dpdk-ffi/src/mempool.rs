//! Pools of frame buffers.
//!
//! An [`Mbuf`] is one pointer and holds no handle of its pool, so a pool must
//! outlive its mbufs by other means: a pool whose last handle is dropped while
//! mbufs are out is handed to the EAL, which frees it at shutdown if all came
//! back, and otherwise leaves DPDK's memory mapped for good.

use std::ffi::{CStr, CString};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use crate::mbuf::extend;
use crate::{Eal, Errno, Mbuf};

/// A pool of frame buffers of one size.  Clones are handles of the same pool.
#[derive(Clone)]
pub struct Mempool(Arc<Inner>);

struct Inner {
    raw: RawPool,
    name: String,
    count: u32,
    data_room: u16,
    eal: Eal,
    /// What frames of this pool may point to.
    shared: Mutex<Vec<Arc<[u8]>>>,
}

/// Bytes that frames carry without a copy: see [`Mempool::share`].
#[derive(Clone, Debug)]
pub struct SharedBytes {
    bytes: Arc<[u8]>,
    pool: Mempool,
}

impl SharedBytes {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(crate) fn is_kept_by(&self, pool: *const sys::rte_mempool) -> bool {
        std::ptr::eq(self.pool.as_ptr(), pool)
    }
}

/// Why a pool cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The name is empty, too long, or contains a NUL byte.
    #[error("buffer pool `{name}`: a name has 1 to 24 bytes, none of them NUL")]
    Name {
        /// The name that was asked for.
        name: String,
    },
    /// There is a pool of that name.
    #[error("buffer pool `{name}` exists already")]
    Exists {
        /// The name that was asked for.
        name: String,
    },
    /// DPDK's memory has no room for the pool.
    #[error(
        "buffer pool `{name}`: {count} buffers of {data_room} B need {needed_mib} MiB of DPDK memory, \
         which are not free; give DPDK more memory or use fewer buffers"
    )]
    OutOfMemory {
        /// The name that was asked for.
        name: String,
        /// Number of buffers.
        count: u32,
        /// Bytes for data in each.
        data_room: u16,
        /// Memory that they take, in MiB.
        needed_mib: usize,
    },
    /// DPDK refused for another reason.
    #[error("buffer pool `{name}` ({count} buffers, cache {cache}): {errno}")]
    Refused {
        /// The name that was asked for.
        name: String,
        /// Number of buffers.
        count: u32,
        /// Buffers that each thread caches.
        cache: u32,
        /// DPDK's reason.
        errno: Errno,
    },
}

impl Mempool {
    /// The most bytes that one buffer can hold for data.
    pub const MAX_DATA_ROOM: u16 = u16::MAX - sys::RDPDK_HEADROOM as u16;
    /// The largest cache of a thread, in buffers.
    pub const MAX_CACHE: u32 = sys::RDPDK_CACHE_MAX;

    /// Makes a pool of `count` buffers for frames of up to `data_room` bytes
    /// (headroom is added), of which each registered thread caches up to
    /// 1.5 times `cache`; allow for that in `count`.  A cache that is larger
    /// than [`Mempool::MAX_CACHE`] or two thirds of `count` is cut to that.
    ///
    /// `socket` is the NUMA node, `None` for any.  `ops` names how free buffers
    /// are kept ("stack", "lf_stack", "ring_mp_mc", ...); `None` takes
    /// "stack", which hands out what was used last and so stays in the
    /// processor's caches, or DPDK's default where that driver is missing.
    ///
    /// # Errors
    /// [`PoolError`]; mostly too little memory, see [`Mempool::memory_mib`].
    pub fn create(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        data_room: u16,
        socket: Option<i32>,
        ops: Option<&str>,
    ) -> Result<Self, PoolError> {
        let bad_name = || PoolError::Name { name: name.into() };
        let c_name = CString::new(name).map_err(|_| bad_name())?;
        if name.is_empty() || name.len() > 24 {
            return Err(bad_name());
        }
        let refused = |errno| PoolError::Refused { name: name.into(), count, cache, errno };
        let room = data_room
            .checked_add(sys::RDPDK_HEADROOM as u16)
            .ok_or_else(|| refused(Errno::from_return(libc::EINVAL)))?;
        let wanted: Vec<Option<CString>> = match ops {
            Some(ops) => {
                vec![Some(CString::new(ops).map_err(|_| refused(Errno::from_return(libc::EINVAL)))?)]
            }
            None => vec![Some(c"stack".to_owned()), None],
        };
        let socket = socket.filter(|s| *s >= 0).unwrap_or(-1);
        let cache = cache.min(Self::MAX_CACHE).min((u64::from(count) * 2 / 3) as u32);
        let mut errno = Errno::from_return(libc::EINVAL);
        for ops in &wanted {
            let ops = ops.as_ref().map_or(std::ptr::null(), |o| o.as_ptr());
            // SAFETY: `eal` proves that the EAL runs; the call copies the strings.
            let raw = unsafe { sys::rdpdk_pool_create(c_name.as_ptr(), count, cache, room, socket, ops) };
            if let Some(raw) = NonNull::new(raw) {
                let raw = RawPool(raw);
                return Ok(Self(Arc::new(Inner {
                    raw,
                    name: name.into(),
                    count,
                    data_room,
                    eal: eal.clone(),
                    shared: Mutex::default(),
                })));
            }
            errno = Errno::last();
            if errno.raw() == libc::EEXIST {
                return Err(PoolError::Exists { name: name.into() });
            }
        }
        if errno.raw() == libc::ENOMEM {
            let needed_mib = Self::memory_mib(count, data_room);
            return Err(PoolError::OutOfMemory { name: name.into(), count, data_room, needed_mib });
        }
        Err(refused(errno))
    }

    /// Memory that `count` buffers of `data_room` bytes take, in MiB, rounded
    /// up and with the bookkeeping of the pool.
    pub fn memory_mib(count: u32, data_room: u16) -> usize {
        let room = data_room.saturating_add(sys::RDPDK_HEADROOM as u16);
        // SAFETY: a computation without side effects.
        let element = unsafe { sys::rdpdk_pool_element_size(room) } as usize;
        // The free list has a pointer per buffer; caches are there for every possible thread.
        let caches = sys::RDPDK_MAX_LCORE as usize * (Self::MAX_CACHE as usize * 3 * size_of::<usize>() + 64);
        ((element + 2 * size_of::<usize>()) * count as usize + caches).div_ceil(1 << 20)
    }

    /// Buffers that can be allocated, those in the caches of threads included.
    /// Not exact while others allocate and free.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as this handle; the count reads shared counters only.
        unsafe { sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    /// Buffers that are out.  Not exact while others allocate and free.
    pub fn in_use(&self) -> u32 {
        self.0.count.saturating_sub(self.available())
    }

    /// Appends up to `n` empty frames to `out`, as many as it has room for and
    /// the pool has left; returns how many.
    #[inline]
    pub fn alloc_bulk<const N: usize>(&self, out: &mut ArrayVec<Mbuf, N>, n: usize) -> usize {
        // SAFETY: on success all `n` slots hold mbufs that are nobody else's, and otherwise none is taken.
        unsafe { self.take_with(out, n, sys::rdpdk_alloc_bulk) }
    }

    /// As [`Mempool::alloc_bulk`] without looking at the buffers, which are as their last owner left
    /// them: valid, but to be made ready.
    #[inline]
    pub(crate) fn take_bulk<const N: usize>(&self, out: &mut ArrayVec<Mbuf, N>, n: usize) -> usize {
        // SAFETY: as in `alloc_bulk`; a buffer that went back to its pool is one valid segment.
        unsafe { self.take_with(out, n, sys::rdpdk_take_bulk) }
    }

    /// # Safety
    /// `take(pool, slots, n)` returns 0 when it has written valid mbufs that nobody else owns to all `n`
    /// slots, and otherwise has taken none.
    #[inline(always)]
    unsafe fn take_with<const N: usize>(
        &self,
        out: &mut ArrayVec<Mbuf, N>,
        n: usize,
        take: unsafe extern "C" fn(*mut sys::rte_mempool, *mut *mut sys::rte_mbuf, u32) -> i32,
    ) -> usize {
        let pool = self.as_ptr();
        // SAFETY: the handle keeps the pool, and the caller vouches for `take`.
        let alloc = |slots, n: usize| unsafe { take(pool, slots, n as u32) == 0 };
        // SAFETY: the closure returns as many as `alloc` wrote, which is all or nothing each time.
        unsafe {
            extend(out, n, |slots, n| if alloc(slots, n) { n } else { alloc_what_is_left(slots, n, alloc) })
        }
    }

    /// Bytes that frames with a buffer of this pool can carry, see [`Mbuf::chain`].  The pool keeps
    /// them as long as it has buffers out.
    pub fn share(&self, bytes: &Arc<[u8]>) -> SharedBytes {
        let mut shared = self.0.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !shared.iter().any(|b| Arc::ptr_eq(b, bytes)) {
            shared.push(Arc::clone(bytes));
        }
        SharedBytes { bytes: Arc::clone(bytes), pool: self.clone() }
    }

    /// Number of buffers.
    pub fn count(&self) -> u32 {
        self.0.count
    }

    /// Bytes for data in each buffer.
    pub fn data_room(&self) -> u16 {
        self.0.data_room
    }

    /// The name given at creation.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How free buffers are kept, as DPDK names it.
    pub fn ops(&self) -> String {
        // SAFETY: the handle keeps the pool; the name is a static string of its driver.
        let name = unsafe { CStr::from_ptr(sys::rdpdk_pool_ops_name(self.as_ptr())) };
        name.to_string_lossy().into_owned()
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.0.raw.0.as_ptr()
    }
}

/// A pool that is almost empty refuses a whole burst: take what there is by
/// halves.
#[cold]
fn alloc_what_is_left(
    slots: *mut *mut sys::rte_mbuf,
    n: usize,
    alloc: impl Fn(*mut *mut sys::rte_mbuf, usize) -> bool,
) -> usize {
    let (mut got, mut part) = (0, n / 2);
    while part > 0 {
        // `got + part <= n` holds throughout: a part that succeeds is tried again only if it fits.
        while got + part <= n && alloc(slots.wrapping_add(got), part) {
            got += part;
        }
        part /= 2;
    }
    got
}

impl fmt::Debug for Mempool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mempool")
            .field("name", &self.0.name)
            .field("count", &self.0.count)
            .field("data_room", &self.0.data_room)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.raw.free_if_full() {
            self.eal.adopt(
                self.raw,
                std::mem::take(self.shared.get_mut().unwrap_or_else(PoisonError::into_inner)),
            );
        }
    }
}

/// A pool without a handle, on its way to be freed.
#[derive(Clone, Copy)]
pub(crate) struct RawPool(NonNull<sys::rte_mempool>);

// SAFETY: the functions of DPDK on pools may be called from any thread; a RawPool has one owner at a time.
unsafe impl Send for RawPool {}
// SAFETY: as above; a shared RawPool is used for allocation and counting, which are thread-safe.
unsafe impl Sync for RawPool {}

impl RawPool {
    /// Frees the pool if all of its mbufs are back; says whether it did.
    pub(crate) fn free_if_full(self) -> bool {
        // SAFETY: the last handle is gone, so nobody allocates; a full pool has no mbuf out.
        unsafe {
            let full = sys::rdpdk_pool_is_full(self.0.as_ptr()) != 0;
            if full {
                sys::rte_mempool_free(self.0.as_ptr());
            }
            full
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_taken_to_the_last_one() {
        for left in 0..40usize {
            let taken = std::cell::Cell::new(0);
            let alloc = |_, n: usize| {
                let fits = taken.get() + n <= left;
                if fits {
                    taken.set(taken.get() + n);
                }
                fits
            };
            let got = alloc_what_is_left(std::ptr::null_mut(), 32, alloc);
            assert_eq!(got, taken.get());
            assert_eq!(got, left.min(32), "of {left}");
        }
    }

    #[test]
    fn memory_estimate_grows_with_the_buffers() {
        let small = Mempool::memory_mib(1024, 2048);
        let large = Mempool::memory_mib(65536, 2048);
        assert!((3..8).contains(&small), "{small} MiB");
        assert!((145..170).contains(&large), "{large} MiB");
    }
}
