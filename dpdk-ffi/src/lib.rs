//! Safe interface to DPDK for one process that generates and receives frames.
//!
//! [`Eal`] starts DPDK and proves that it runs; whatever needs it takes a
//! reference and keeps a handle, so that DPDK is shut down after its last user.
//! [`Mempool`] hands out [`Mbuf`]s, which own their buffer and give it back when
//! dropped.  [`Port`] is configured once and gives away its queues once: a
//! queue that exists once is polled by one thread, which is what DPDK demands.
//!
//! ```no_run
//! use arrayvec::ArrayVec;
//! use dpdk_ffi::{Eal, EalConfig, Mempool, Port, PortConfig, ring_pair};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let eal = Eal::init(&EalConfig::default())?;
//! let pool = Mempool::create(&eal, "frames", 4096, 256, 2048, None, None)?;
//! let (a, b) = ring_pair(&eal, "pair", 1, 1024, None)?;
//! let mut a = Port::configure(&eal, a, &PortConfig::default(), std::slice::from_ref(&pool))?;
//! let mut b = Port::configure(&eal, b, &PortConfig::default(), std::slice::from_ref(&pool))?;
//! a.start()?;
//! b.start()?;
//! let (_, mut tx) = a.take_queue(0).ok_or("taken")?;
//! let (mut rx, _) = b.take_queue(0).ok_or("taken")?;
//!
//! let mut batch = ArrayVec::<_, 32>::new();
//! pool.alloc_bulk(&mut batch, 32);
//! for frame in &mut batch {
//!     frame.room_mut()[..60].fill(0xA5);
//!     frame.set_len(60);
//! }
//! tx.send(&mut batch);
//! let mut received = ArrayVec::<_, 32>::new();
//! assert_eq!(rx.recv(&mut received), 32);
//! # Ok(())
//! # }
//! ```
//!
//! This crate and `dpdk-sys` are the only ones that contain `unsafe`.

mod eal;
mod errno;
mod mbuf;
mod mempool;
mod port;
mod ring;
mod supply;

pub use eal::{
    Eal, EalConfig, EalError, HugepagePool, Hugepages, LcoreToken, LogLevel, MemoryKind, PciAccess,
    free_hugepages,
};
pub use errno::Errno;
pub use mbuf::{ChecksumState, Mbuf, free_bulk};
pub use mempool::{Mempool, PoolError, SharedBytes};
pub use port::{
    DescriptorLimits, FlowControl, Link, Port, PortConfig, PortError, PortId, PortInfo, PortStats, RxQueue,
    TxQueue,
};
pub use ring::{ring_mesh, ring_pair};
pub use supply::Supply;

/// Asks the processor for all cache lines of `what`, to have them at hand a little later.
#[inline(always)]
pub fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = std::ptr::from_ref(what).cast::<i8>().wrapping_add(line);
        // SAFETY: a prefetch reads nothing and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Reads the time stamp counter: 20 to 40 ns in a virtual machine, less on
/// bare metal, not ordered with the instructions around it.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: reads a register of the processor and has no other effect.
    unsafe { dpdk_sys::rdpdk_tsc() }
}

/// Ticks of [`tsc`] in a second; 0 before [`Eal::init`], which measures it.
pub fn tsc_hz() -> u64 {
    // SAFETY: returns a number that the EAL writes once, during its start.
    unsafe { dpdk_sys::rte_get_tsc_hz() }
}
