//! Ports joined by rings in memory: two, or several each with every other.

use std::ffi::CString;
use std::ptr::NonNull;

use dpdk_sys as sys;

use crate::eal::{clear_log, last_lines};
use crate::{Eal, Errno, PortError, PortId};

/// The driver takes no more, and a name ends in two digits at most.
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
    let all = |other: usize| (0..queues).map(|q| (other, q)).collect::<Vec<_>>();
    let names = ['a', 'b'].map(|letter| format!("{name}-{letter}"));
    let ids = join(eal, name, &names, &[all(1), all(0)], size, socket)?;
    Ok((ids[0], ids[1]))
}

/// Makes `ports` ports, each of which reaches every other by a queue of its own: queue `q` of a port
/// leads to the port with that number, those from its own on one further, and what comes from there
/// is received on the same queue.
///
/// The ports are called `NAME-0`, `NAME-1` and so on; configure each with `ports - 1` queues.  All else
/// is as with [`ring_pair`].
///
/// # Errors
/// [`PortError::Ring`]: the name is taken or has more than 20 bytes, `ports` is not 2 to 16, or there
/// is too little memory.
pub fn ring_mesh(
    eal: &Eal,
    name: &str,
    ports: u16,
    size: u32,
    socket: Option<i32>,
) -> Result<Vec<PortId>, PortError> {
    let refused = |problem: String| PortError::Ring { name: name.into(), problem };
    if !(2..=MAX_QUEUES).contains(&ports) {
        return Err(refused(format!("{ports} ports, not 2 to {MAX_QUEUES}")));
    }
    let ports = usize::from(ports);
    // What port i sends to port j, j receives on the queue that leads to i.
    let queue = |of: usize, to: usize| (if to < of { to } else { to - 1 }) as u16;
    let leads: Vec<Vec<(usize, u16)>> =
        (0..ports).map(|i| (0..ports).filter(|j| *j != i).map(|j| (j, queue(j, i))).collect()).collect();
    let names: Vec<String> = (0..ports).map(|i| format!("{name}-{i}")).collect();
    join(eal, name, &names, &leads, size, socket)
}

/// Makes ports called `names`.  Each entry of `leads` is a port's queues: the port that each leads to,
/// and the queue on which that one receives.  All have as many queues.
fn join(
    eal: &Eal,
    name: &str,
    names: &[String],
    leads: &[Vec<(usize, u16)>],
    size: u32,
    socket: Option<i32>,
) -> Result<Vec<PortId>, PortError> {
    let refused = |problem: String| PortError::Ring { name: name.into(), problem };
    if size == 0 || name.is_empty() || name.len() > 20 || name.contains([',', '\0']) {
        return Err(refused("a size of 1 and a name of 1 to 20 bytes without comma are the least".into()));
    }
    let socket = socket.filter(|s| *s >= 0).unwrap_or(-1);
    let mut state = eal.state();
    let mut set = RingSet { ports: vec![None; names.len()], receives: Vec::new() };
    for (port, queues) in names.iter().zip(leads) {
        let mut rings = Vec::new();
        for queue in 0..queues.len() {
            match RawRing::create(&format!("{port}-{queue}"), size, socket) {
                Ok(ring) => rings.push(ring),
                Err(errno) => {
                    set.receives.push(rings);
                    set.close();
                    return Err(refused(format!("{} rings of {size} frames: {errno}", queues.len())));
                }
            }
        }
        set.receives.push(rings);
    }
    clear_log();
    for (i, (port, queues)) in names.iter().zip(leads).enumerate() {
        let receive: Vec<_> = set.receives[i].iter().map(|r| r.0.as_ptr()).collect();
        let send: Vec<_> =
            queues.iter().map(|(to, queue)| set.receives[*to][usize::from(*queue)].0.as_ptr()).collect();
        match make_port(port, &receive, &send, socket) {
            Ok(id) => set.ports[i] = Some(id),
            Err(errno) => {
                set.close();
                return Err(refused(format!("{errno} ({})", last_lines())));
            }
        }
    }
    let ids = set.ports.iter().flatten().copied().collect();
    state.rings.push(set);
    Ok(ids)
}

fn make_port(
    name: &str,
    rx: &[*mut sys::rte_ring],
    tx: &[*mut sys::rte_ring],
    socket: i32,
) -> Result<PortId, Errno> {
    let c_name = CString::new(name).map_err(|_| Errno::from_return(libc::EINVAL))?;
    // The driver wants a real node.
    let socket = socket.max(0) as u32;
    // SAFETY: the call copies name and arrays; the set frees the rings after its ports.
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

/// Ports and the rings between them.  Its owner is the EAL's state.
pub(crate) struct RingSet {
    /// `None` once closed.
    ports: Vec<Option<PortId>>,
    /// The rings that each port receives from.
    receives: Vec<Vec<RawRing>>,
}

impl RingSet {
    /// Whether the port is one of them and not closed.
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.ports.contains(&Some(port))
    }

    /// One of them was closed: what waits for it goes back to its pool.
    /// Returns true when all are closed; the set is to be dropped then by
    /// [`RingSet::close`].
    pub(crate) fn port_closed(&mut self, port: PortId) -> bool {
        for (slot, rings) in self.ports.iter_mut().zip(&self.receives) {
            if *slot == Some(port) {
                *slot = None;
                rings.iter().for_each(RawRing::drain);
            }
        }
        self.ports.iter().all(Option::is_none)
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
            // SAFETY: all ports are gone, and they alone used the ring.
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
