//! Two ports joined by rings in memory.

use std::ffi::CString;
use std::ptr::NonNull;

use dpdk_sys as sys;

use crate::eal::{clear_log, last_lines};
use crate::{Eal, Errno, PortError, PortId};

/// The driver takes no more.
const MAX_QUEUES: u16 = 16;

/// Makes two ports: what one sends on queue `q`, the other receives on queue
/// `q`.  Each queue of each direction holds exactly `size` frames; `socket` is
/// the NUMA node, `None` for any.
///
/// The ports are called `NAME-a` and `NAME-b`; configure both with `queues`
/// queues.  Frames pass as they are: no MTU, no checksums, no copy.  Frames
/// that are in a ring when its receiver is dropped go back to their pool.
///
/// # Errors
/// [`PortError::Ring`]: the name is taken or has more than 20 bytes, `queues`
/// is not 1 to 16, or there is too little memory.
pub fn ring_pair(
    eal: &Eal,
    name: &str,
    queues: u16,
    size: u32,
    socket: Option<i32>,
) -> Result<(PortId, PortId), PortError> {
    let refused = |problem: String| PortError::Ring { name: name.into(), problem };
    if !(1..=MAX_QUEUES).contains(&queues) {
        return Err(refused(format!("{queues} queues, not 1 to {MAX_QUEUES}")));
    }
    if size == 0 || name.is_empty() || name.len() > 20 || name.contains([',', '\0']) {
        return Err(refused("a size of 1 and a name of 1 to 20 bytes without comma are the least".into()));
    }
    let socket = socket.filter(|s| *s >= 0).unwrap_or(-1);
    let mut state = eal.state();
    let mut pair = RingPair { ports: [None; 2], receives: [Vec::new(), Vec::new()] };
    for (side, letter) in ['a', 'b'].into_iter().enumerate() {
        for queue in 0..queues {
            match RawRing::create(&format!("{name}-{letter}{queue}"), size, socket) {
                Ok(ring) => pair.receives[side].push(ring),
                Err(errno) => {
                    pair.close();
                    return Err(refused(format!("{queues} rings of {size} frames: {errno}")));
                }
            }
        }
    }
    clear_log();
    for (side, letter) in ['a', 'b'].into_iter().enumerate() {
        match make_port(&format!("{name}-{letter}"), &pair.receives[side], &pair.receives[1 - side], socket) {
            Ok(port) => pair.ports[side] = Some(port),
            Err(errno) => {
                pair.close();
                return Err(refused(format!("{errno} ({})", last_lines())));
            }
        }
    }
    let [Some(a), Some(b)] = pair.ports else { unreachable!("both were set above") };
    state.rings.push(pair);
    Ok((a, b))
}

fn make_port(name: &str, receive: &[RawRing], send: &[RawRing], socket: i32) -> Result<PortId, Errno> {
    let c_name = CString::new(name).map_err(|_| Errno::from_return(libc::EINVAL))?;
    let pointers = |rings: &[RawRing]| rings.iter().map(|r| r.0.as_ptr()).collect::<Vec<_>>();
    let (rx, tx) = (pointers(receive), pointers(send));
    // The driver wants a real node.
    let socket = socket.max(0) as u32;
    // SAFETY: the call copies name and arrays; the pair frees the rings after its ports.
    let port = unsafe {
        sys::rte_eth_from_rings(
            c_name.as_ptr(),
            rx.as_ptr(),
            rx.len() as u32,
            tx.as_ptr(),
            tx.len() as u32,
            socket,
        )
    };
    u16::try_from(port).map(PortId::new).map_err(|_| Errno::last())
}

/// Two ports and the rings between them.  Its owner is the EAL's state.
pub(crate) struct RingPair {
    /// `None` once closed.
    ports: [Option<PortId>; 2],
    /// The rings that each side receives from.
    receives: [Vec<RawRing>; 2],
}

impl RingPair {
    /// Whether the port is one of the two and not closed.
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.ports.contains(&Some(port))
    }

    /// One of the two was closed: what waits for it goes back to its pool.
    /// Returns true when both are closed; the pair is to be dropped then by
    /// [`RingPair::close`].
    pub(crate) fn port_closed(&mut self, port: PortId) -> bool {
        for (slot, rings) in self.ports.iter_mut().zip(&self.receives) {
            if *slot == Some(port) {
                *slot = None;
                rings.iter().for_each(RawRing::drain);
            }
        }
        self.ports == [None, None]
    }

    /// Removes ports that nobody has configured, then the rings.
    pub(crate) fn close(self) {
        for port in self.ports.into_iter().flatten() {
            // SAFETY: the port has no owner and the caller holds the EAL's lock: nobody uses it.
            unsafe {
                let device = sys::rdpdk_port_device(port.raw());
                if !device.is_null() {
                    sys::rdpdk_device_remove(device);
                }
            }
        }
        for ring in self.receives.into_iter().flatten() {
            ring.drain();
            // SAFETY: both ports are gone, and they alone used the ring.
            unsafe { sys::rte_ring_free(ring.0.as_ptr()) };
        }
    }
}

struct RawRing(NonNull<sys::rte_ring>);

// SAFETY: any thread may use a ring; the queues see to it that one sends and one receives.
unsafe impl Send for RawRing {}

impl RawRing {
    fn create(name: &str, size: u32, socket: i32) -> Result<Self, Errno> {
        let c_name = CString::new(name).map_err(|_| Errno::from_return(libc::EINVAL))?;
        // SAFETY: the caller's handle proves that the EAL runs; the call copies the name.
        let ring = unsafe { sys::rdpdk_ring_create(c_name.as_ptr(), size, socket) };
        NonNull::new(ring).map(Self).ok_or_else(Errno::last)
    }

    /// Frees the frames in it.  The receiver must be gone.
    fn drain(&self) {
        // SAFETY: the port that receives from it is closed, so this is the only consumer.
        unsafe { sys::rdpdk_ring_drain(self.0.as_ptr()) };
    }
}
