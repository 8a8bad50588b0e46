//! The two ends of a queue.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use super::{Inner, PortId};
use crate::Mbuf;
use crate::mbuf::{extend, forget_front};

/// The receiving end of a queue.  Exists once, so one thread polls it at a
/// time; keeps its port open.
pub struct RxQueue(End);

/// The sending end of a queue.  Exists once, so one thread sends at a time;
/// keeps its port open.
pub struct TxQueue(End);

struct End {
    port: u16,
    queue: u16,
    owner: Arc<Inner>,
    /// Owned by one thread at a time: Send, but not Sync.
    _one_thread: PhantomData<Cell<()>>,
}

/// Both ends of queue `queue`.
pub(super) fn ends(owner: &Arc<Inner>, queue: u16) -> (RxQueue, TxQueue) {
    let end = || End { port: owner.id.raw(), queue, owner: Arc::clone(owner), _one_thread: PhantomData };
    (RxQueue(end()), TxQueue(end()))
}

impl RxQueue {
    /// Appends frames that have arrived to `out`, as far as it has room;
    /// returns how many.  Does not wait.
    #[inline]
    pub fn recv<const N: usize>(&mut self, out: &mut ArrayVec<Mbuf, N>) -> usize {
        let End { port, queue, .. } = self.0;
        // SAFETY: `self` keeps the port open and is its queue's only receiver; the driver gives what it returns.
        unsafe {
            extend(out, usize::from(u16::MAX), |slots, n| {
                usize::from(sys::rdpdk_rx_burst(port, queue, slots, n as u16))
            })
        }
    }

    /// The port that it belongs to.
    pub fn port(&self) -> PortId {
        self.0.owner.id
    }

    /// Its number within the port.
    pub fn queue(&self) -> u16 {
        self.0.queue
    }
}

impl TxQueue {
    /// Hands frames to the port, in order; returns how many it took.  The rest
    /// stays at the front of `batch` in order, to be sent again or dropped.
    #[inline]
    pub fn send<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        let End { port, queue, .. } = self.0;
        let n = batch.len().min(usize::from(u16::MAX));
        let frames = batch.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        // SAFETY: `self` keeps the port open and is its only sender; the batch forgets what the driver took.
        unsafe {
            let taken = usize::from(sys::rdpdk_tx_burst(port, queue, frames, n as u16));
            forget_front(batch, taken);
            taken
        }
    }

    /// The port that it belongs to.
    pub fn port(&self) -> PortId {
        self.0.owner.id
    }

    /// Its number within the port.
    pub fn queue(&self) -> u16 {
        self.0.queue
    }
}

impl fmt::Debug for RxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxQueue(port {}, queue {})", self.0.port, self.0.queue)
    }
}

impl fmt::Debug for TxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxQueue(port {}, queue {})", self.0.port, self.0.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker takes its queues along into its thread.
    #[test]
    fn ends_are_send() {
        fn is_send<T: Send>() {}
        is_send::<RxQueue>();
        is_send::<TxQueue>();
        is_send::<ArrayVec<Mbuf, 4>>();
    }
}
