//! Threads that DPDK knows.

use std::marker::PhantomData;

use dpdk_sys as sys;

use super::{Eal, EalError};
use crate::Errno;

/// Proof that the calling thread is registered with DPDK; ends with it.
#[derive(Debug)]
pub struct LcoreToken {
    lcore: u32,
    /// False if the thread had a number before.
    registered_here: bool,
    _eal: Eal,
    /// The number belongs to this thread: not to be sent.
    _thread: PhantomData<*const ()>,
}

impl LcoreToken {
    /// DPDK's number of this thread, unique among the registered ones.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

pub(super) fn register(eal: Eal) -> Result<LcoreToken, EalError> {
    let token = |lcore, registered_here| LcoreToken {
        lcore,
        registered_here,
        _eal: eal.clone(),
        _thread: PhantomData,
    };
    // SAFETY: the EAL runs while `eal` lives; both calls change this thread's own registration only.
    unsafe {
        let lcore = sys::rdpdk_lcore_id();
        if lcore != sys::RDPDK_LCORE_ANY {
            return Ok(token(lcore, false));
        }
        match sys::rte_thread_register() {
            0 => Ok(token(sys::rdpdk_lcore_id(), true)),
            _ => Err(EalError::Thread { errno: Errno::last() }),
        }
    }
}

impl Drop for LcoreToken {
    fn drop(&mut self) {
        if self.registered_here {
            // SAFETY: the token is not Send: this is the thread that registered, and its caches are its own.
            unsafe {
                // What this thread cached would be out of reach of the others.
                sys::rdpdk_flush_lcore_caches();
                sys::rte_thread_unregister();
            }
        }
    }
}
