//! Network ports: configured once, queues given away once, closed after the
//! last queue.

mod config;
mod info;
mod queue;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpdk_sys as sys;

pub use config::PortConfig;
pub use info::{DescriptorLimits, Link, PortId, PortInfo};
pub use queue::{RxQueue, TxQueue};

use crate::eal::{clear_log, last_lines};
use crate::{Eal, Errno, Mempool};

/// How often [`Port::wait_link`] looks.
const LINK_POLL: Duration = Duration::from_millis(10);

/// A configured port.  It is stopped and closed when this and its queues are
/// gone; frames that it holds go back to their pools then.
pub struct Port {
    inner: Arc<Inner>,
    info: PortInfo,
    setup: config::Setup,
    /// Which queues were given away.
    taken: Vec<bool>,
    /// Drivers expect control calls from one thread at a time: Send, not Sync.
    _one_thread: PhantomData<Cell<()>>,
}

/// The part that the queues keep alive.
struct Inner {
    id: PortId,
    started: AtomicBool,
    /// The receive queues take buffers from these.
    _pools: Vec<Mempool>,
    eal: Eal,
}

/// Counters of a port since its start, as the driver keeps them: some count
/// no bytes (net_ring), some no errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames lost because a receive queue was full.
    pub rx_missed: u64,
    /// Frames received with an error.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames lost because a pool was empty.
    pub rx_nombuf: u64,
}

/// Flow control by a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// None.
    None,
    /// 802.3x, both ways.
    Link,
    /// 802.1Qbb, both ways.
    Priorities {
        /// Bit n is priority n.
        mask: u8,
        /// Quanta that a pause asks for.
        quanta: u16,
    },
}

/// Why a port cannot do what it was asked for.  Each reads as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// No port of that number.
    #[error("there is no port {0}")]
    NotFound(PortId),
    /// The port has an owner.
    #[error("port `{name}` is in use")]
    InUse {
        /// The port.
        name: String,
    },
    /// More queues than it has, or none.
    #[error(
        "port `{name}`: {rx} receive and {tx} transmit queues asked for, 1 to {max_rx} and 1 to {max_tx} possible"
    )]
    Queues {
        /// The port.
        name: String,
        /// Receive queues asked for.
        rx: u16,
        /// Transmit queues asked for.
        tx: u16,
        /// Receive queues there are.
        max_rx: u16,
        /// Transmit queues there are.
        max_tx: u16,
    },
    /// One pool for each receive queue is needed, or one for all.
    #[error("port `{name}`: {pools} buffer pools for {rx} receive queues")]
    Pools {
        /// The port.
        name: String,
        /// Pools given.
        pools: usize,
        /// Receive queues asked for.
        rx: u16,
    },
    /// The MTU cannot be set.  Frames of that size may pass all the same if
    /// the MTU is left alone.
    #[error("port `{name}` ({driver}): MTU {wanted} cannot be set, {min} to {max} can")]
    MtuUnsupported {
        /// The port.
        name: String,
        /// Its driver.
        driver: String,
        /// The MTU asked for.
        wanted: u16,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// A frame is larger than a buffer and the port cannot use several.
    #[error("port `{name}`: frames of {frame} B do not fit in the {room} B of a buffer of pool `{pool}`")]
    DataRoom {
        /// The port.
        name: String,
        /// Length of the largest frame.
        frame: u32,
        /// The pool.
        pool: String,
        /// Bytes for data in its buffers.
        room: u16,
    },
    /// Its queues must be dropped first.
    #[error("port `{name}` cannot be {action} while its queues are in use")]
    QueuesInUse {
        /// The port.
        name: String,
        /// Started or stopped.
        action: &'static str,
    },
    /// The link did not come up.
    #[error("port `{name}`: no link after {:.1} s", waited.as_secs_f64())]
    LinkDown {
        /// The port.
        name: String,
        /// For how long.
        waited: Duration,
    },
    /// The driver refused.
    #[error("port `{name}`: {operation}: {errno}{log}")]
    Driver {
        /// The port.
        name: String,
        /// What was asked for.
        operation: &'static str,
        /// The driver's reason.
        errno: Errno,
        /// What DPDK logged, in parentheses, or nothing.
        log: String,
    },
    /// A ring pair cannot be made.
    #[error("ring pair `{name}`: {problem}")]
    Ring {
        /// The name asked for.
        name: String,
        /// Why.
        problem: String,
    },
}

impl Port {
    /// Configures a port and takes possession of it.  There is one pool for
    /// each receive queue, or one for all.
    ///
    /// # Errors
    /// [`PortError`]; the port can be configured again after one.
    pub fn configure(eal: &Eal, id: PortId, cfg: &PortConfig, pools: &[Mempool]) -> Result<Self, PortError> {
        let claim = Claim::new(eal, id)?;
        let info = PortInfo::read(id).map_err(|_| PortError::NotFound(id))?;
        let setup = config::apply(&info, cfg, pools)?;
        claim.keep();
        let inner = Inner { id, started: AtomicBool::new(false), _pools: pools.to_vec(), eal: eal.clone() };
        let taken = vec![false; usize::from(cfg.rx_queues.min(cfg.tx_queues))];
        Ok(Self { inner: Arc::new(inner), info, setup, taken, _one_thread: PhantomData })
    }

    /// Starts it.  Take the queues after that.
    ///
    /// # Errors
    /// [`PortError::Driver`]; [`PortError::QueuesInUse`].
    pub fn start(&mut self) -> Result<(), PortError> {
        self.no_queues("started")?;
        if self.inner.started.load(Ordering::Acquire) {
            return Ok(());
        }
        clear_log();
        // SAFETY: the port is configured and this is its owner; no queue exists, so no burst runs.
        let rc = unsafe { sys::rte_eth_dev_start(self.raw()) };
        self.driver("start", rc)?;
        self.inner.started.store(true, Ordering::Release);
        if self.setup.promiscuous {
            // SAFETY: as above.
            let rc = unsafe { sys::rte_eth_promiscuous_enable(self.raw()) };
            // A port that filters nothing need not know the mode.
            if rc != -libc::ENOTSUP {
                self.driver("promiscuous mode", rc)?;
            }
        }
        Ok(())
    }

    /// Stops it.  Queues can be taken anew after the next start.
    ///
    /// # Errors
    /// [`PortError::QueuesInUse`]: drop them first.  [`PortError::Driver`].
    pub fn stop(&mut self) -> Result<(), PortError> {
        self.no_queues("stopped")?;
        if self.inner.started.swap(false, Ordering::AcqRel) {
            clear_log();
            // SAFETY: this is the port's owner; no queue exists, so no burst runs.
            let rc = unsafe { sys::rte_eth_dev_stop(self.raw()) };
            self.driver("stop", rc)?;
        }
        self.taken.fill(false);
        Ok(())
    }

    /// Both ends of a queue; `None` if it was given away already, is not
    /// there (with unequal numbers, only pairs are), or the port is not
    /// started.
    pub fn take_queue(&mut self, queue: u16) -> Option<(RxQueue, TxQueue)> {
        let taken = self.taken.get_mut(usize::from(queue))?;
        if *taken || !self.inner.started.load(Ordering::Acquire) {
            return None;
        }
        *taken = true;
        Some(queue::ends(&self.inner, queue))
    }

    /// Its number.
    pub fn id(&self) -> PortId {
        self.inner.id
    }

    /// What it is and can do, as read before it was configured.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Its address.
    pub fn mac(&self) -> [u8; 6] {
        let mut mac = self.info.mac;
        // SAFETY: writes 6 bytes to an array of 6; the port is open while `self` lives.
        unsafe { sys::rdpdk_port_mac(self.raw(), mac.as_mut_ptr()) };
        mac
    }

    /// Sets its address.
    ///
    /// # Errors
    /// [`PortError::Driver`]; [`Errno::NOT_SUPPORTED`] in it if the driver
    /// cannot (net_ring: nothing depends on it there).
    pub fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), PortError> {
        clear_log();
        // SAFETY: reads 6 bytes of an array of 6; the port is open while `self` lives.
        let rc = unsafe { sys::rdpdk_port_set_mac(self.raw(), mac.as_ptr()) };
        self.driver("set address", rc)
    }

    /// Has the device do flow control.  Without, MAC control frames are handed over where the
    /// driver can.
    ///
    /// # Errors
    /// [`PortError::Driver`]; [`Errno::NOT_SUPPORTED`] in it if the driver cannot, as no virtual
    /// device can.
    pub fn set_flow_control(&mut self, control: FlowControl) -> Result<(), PortError> {
        clear_log();
        match control {
            FlowControl::None | FlowControl::Link => {
                let on = i32::from(control == FlowControl::Link);
                // SAFETY: takes numbers only; the port is open while `self` lives.
                let rc = unsafe { sys::rdpdk_port_set_flow_control(self.raw(), on) };
                self.driver("set flow control", rc)
            }
            FlowControl::Priorities { mask, quanta } => {
                for priority in (0..8).filter(|p| mask >> p & 1 == 1) {
                    // SAFETY: takes numbers only; the port is open while `self` lives.
                    let rc = unsafe { sys::rdpdk_port_set_pfc(self.raw(), priority, quanta) };
                    self.driver("set priority flow control", rc)?;
                }
                Ok(())
            }
        }
    }

    /// Its MTU now.
    pub fn mtu(&self) -> u16 {
        let mut mtu = 0;
        // SAFETY: writes one number; the port is open while `self` lives.
        unsafe { sys::rte_eth_dev_get_mtu(self.raw(), &mut mtu) };
        mtu
    }

    /// Its link now.
    pub fn link(&self) -> Link {
        let mut raw = sys::rdpdk_link::default();
        // SAFETY: writes one structure; the port is open while `self` lives.
        unsafe { sys::rdpdk_port_link(self.raw(), &mut raw) };
        Link::from_raw(&raw)
    }

    /// Waits for the link to be up.
    ///
    /// # Errors
    /// [`PortError::LinkDown`].
    pub fn wait_link(&self, timeout: Duration) -> Result<Link, PortError> {
        let mut waited = Duration::ZERO;
        loop {
            let link = self.link();
            if link.up {
                return Ok(link);
            }
            if waited >= timeout {
                return Err(PortError::LinkDown { name: self.info.name.clone(), waited });
            }
            let pause = LINK_POLL.min(timeout - waited);
            std::thread::sleep(pause);
            waited += pause;
        }
    }

    /// Its counters; zeros if the driver has none.
    pub fn stats(&self) -> PortStats {
        let mut raw = sys::rdpdk_port_stats::default();
        // SAFETY: writes one structure; the port is open while `self` lives.
        unsafe { sys::rdpdk_port_stats(self.raw(), &mut raw) };
        PortStats {
            rx_packets: raw.rx_packets,
            tx_packets: raw.tx_packets,
            rx_bytes: raw.rx_bytes,
            tx_bytes: raw.tx_bytes,
            rx_missed: raw.rx_missed,
            rx_errors: raw.rx_errors,
            tx_errors: raw.tx_errors,
            rx_nombuf: raw.rx_nombuf,
        }
    }

    /// Sets its counters to zero, if the driver can.
    pub fn reset_stats(&mut self) {
        // SAFETY: the port is open while `self` lives.
        unsafe { sys::rte_eth_stats_reset(self.raw()) };
    }

    /// Names of the offloads that are switched on.
    pub fn offload_names(&self) -> Vec<&'static str> {
        info::offload_names(self.setup.rx_offloads, self.setup.tx_offloads)
    }

    /// Whether the port spreads received frames over its queues.
    pub fn rss(&self) -> bool {
        self.setup.rss
    }

    fn raw(&self) -> u16 {
        self.inner.id.raw()
    }

    /// The queues, each an owner of `inner`, are all gone.
    fn no_queues(&self, action: &'static str) -> Result<(), PortError> {
        match Arc::strong_count(&self.inner) {
            1 => Ok(()),
            _ => Err(PortError::QueuesInUse { name: self.info.name.clone(), action }),
        }
    }

    fn driver(&self, operation: &'static str, rc: i32) -> Result<(), PortError> {
        driver_error(&self.info.name, operation, rc)
    }
}

/// Turns a return code into an error with what DPDK logged about it.
fn driver_error(name: &str, operation: &'static str, rc: i32) -> Result<(), PortError> {
    Errno::check(rc).map(|_| ()).map_err(|errno| {
        let lines = last_lines();
        let log = if lines.is_empty() { lines } else { format!(" ({lines})") };
        PortError::Driver { name: name.into(), operation, errno, log }
    })
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("id", &self.inner.id)
            .field("name", &self.info.name)
            .field("driver", &self.info.driver)
            .finish_non_exhaustive()
    }
}

/// The right to configure a port, given back if that fails.
struct Claim<'a> {
    eal: &'a Eal,
    id: PortId,
    kept: bool,
}

impl<'a> Claim<'a> {
    fn new(eal: &'a Eal, id: PortId) -> Result<Self, PortError> {
        if !eal.state().open.insert(id) {
            let name = PortInfo::read(id).map_or_else(|_| id.to_string(), |info| info.name);
            return Err(PortError::InUse { name });
        }
        Ok(Self { eal, id, kept: false })
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.eal.state().open.remove(&self.id);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut state = self.eal.state();
        // SAFETY: Port and queues are gone, so no burst runs; the lock keeps other device changes out.
        unsafe {
            if *self.started.get_mut() {
                sys::rte_eth_dev_stop(self.id.raw());
            }
            let device = sys::rdpdk_port_device(self.id.raw());
            let is_virtual = !device.is_null() && sys::rdpdk_device_is_virtual(device) != 0;
            sys::rte_eth_dev_close(self.id.raw());
            // So that its name, and its interface in the kernel, can be used again.
            if is_virtual {
                sys::rdpdk_device_remove(device);
            }
        }
        if let Some(at) = state.rings.iter().position(|pair| pair.has(self.id))
            && state.rings[at].port_closed(self.id)
        {
            state.rings.swap_remove(at).close();
        }
        state.open.remove(&self.id);
    }
}
