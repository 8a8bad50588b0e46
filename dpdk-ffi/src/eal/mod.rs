//! DPDK's environment abstraction layer: started once in a process, shut down
//! after its last user.

mod config;
mod guard;
mod log;
mod memory;
mod thread;

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpdk_sys as sys;

pub use config::{EalConfig, Hugepages, LogLevel, PciAccess};
pub use memory::{HugepagePool, MemoryKind, free_hugepages};
pub use thread::LcoreToken;

use crate::mempool::RawPool;
use crate::ring::RingSet;
use crate::{Errno, PortId, PortInfo};

/// The EAL was started in this process, now or before: DPDK cannot do it twice.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Proof that the EAL runs.  Clones are handles; with the last one, and the
/// last pool, port and thread token, DPDK is shut down.
#[derive(Clone)]
pub struct Eal(Arc<Inner>);

struct Inner {
    memory: MemoryKind,
    state: Mutex<State>,
}

/// What changes while the EAL runs.  Its lock also serialises the control
/// calls that add, remove or close devices.
#[derive(Default)]
pub(crate) struct State {
    /// Ports that have an owner.
    pub(crate) open: HashSet<PortId>,
    /// Joined ports of which one is not closed yet.
    pub(crate) rings: Vec<RingSet>,
    /// Pools without a handle that had mbufs out, and the bytes that these may point to.
    orphans: Vec<(RawPool, Vec<Arc<[u8]>>)>,
}

/// Why the EAL cannot do what it was asked for.  Each reads as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EalError {
    /// Second start in a process.
    #[error("DPDK was already started in this process, which it allows once")]
    AlreadyInitialised,
    /// [`Hugepages::Require`] and too few are free.
    #[error("{needed_mib} MiB of hugepages are needed, {free_mib} MiB are free; {hint}")]
    Hugepages {
        /// Memory that was asked for, in MiB.
        needed_mib: usize,
        /// Memory in free hugepages, in MiB.
        free_mib: usize,
        /// The command that reserves them.
        hint: String,
    },
    /// A value of the configuration that cannot be passed on.
    #[error("DPDK configuration: {what} `{value}` {problem}")]
    Config {
        /// The field.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The start failed.
    #[error("DPDK did not start: {errno}{}", reason(log))]
    Init {
        /// DPDK's error number.
        errno: Errno,
        /// The last lines that DPDK logged, joined by `; `.
        log: String,
    },
    /// No driver of the installed DPDK takes the device.
    #[error("device `{devargs}`: driver not found; check the name, and that DPDK's drivers are installed")]
    DriverNotFound {
        /// The device as it was asked for.
        devargs: String,
    },
    /// The driver refused the device.
    #[error("device `{devargs}`: {}", if log.is_empty() { errno.to_string() } else { log.clone() })]
    Attach {
        /// The device as it was asked for.
        devargs: String,
        /// DPDK's error number; many drivers return 1 (EPERM) for any reason.
        errno: Errno,
        /// The last lines that DPDK logged, joined by `; `, and a hint where
        /// rights may be missing.
        log: String,
    },
    /// The device was added but brought no network port.
    #[error("device `{devargs}` has no network port")]
    NoPort {
        /// The device as it was asked for.
        devargs: String,
    },
    /// A port that is in use cannot be detached, nor one that is not there.
    #[error("port {port} cannot be detached: {problem}")]
    Detach {
        /// The port.
        port: PortId,
        /// Why.
        problem: String,
    },
    /// The thread cannot become an lcore.
    #[error(
        "thread cannot be registered with DPDK: {errno} (at most {} threads at a time)",
        sys::RDPDK_MAX_LCORE
    )]
    Thread {
        /// DPDK's error number.
        errno: Errno,
    },
}

fn reason(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(" ({log})") }
}

impl EalError {
    /// Whether the machine is to blame (memory, rights, devices, drivers)
    /// rather than the configuration or the program.
    pub fn is_environment(&self) -> bool {
        !matches!(self, Self::AlreadyInitialised | Self::Config { .. } | Self::Detach { .. })
    }
}

impl Eal {
    /// Starts DPDK.
    ///
    /// The calling thread becomes DPDK's main lcore but keeps its CPU affinity.
    /// Unless [`EalConfig::log_level`] asks for DPDK's messages, standard
    /// output and standard error of the process lead nowhere while this runs
    /// (about 0.1 s), because DPDK writes to them directly.
    ///
    /// # Errors
    /// [`EalError`]; when it is [`EalError::Init`] or a later stage, DPDK
    /// allows no second try in this process.
    pub fn init(cfg: &EalConfig) -> Result<Self, EalError> {
        cfg.check()?;
        let memory = memory::choose(cfg)?;
        let arguments = config::arguments(cfg, &memory, &guard::allowed_cpus());
        let arguments = to_c(arguments)?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::AlreadyInitialised);
        }
        log::open(cfg.log_level);
        start(&arguments, cfg.log_level == LogLevel::Quiet)?;
        let eal = Self(Arc::new(Inner { memory, state: Mutex::default() }));
        // One by one, so that an error names its device.
        for devargs in &cfg.vdevs {
            eal.attach(devargs)?;
        }
        Ok(eal)
    }

    /// Where DPDK's memory comes from.
    pub fn memory(&self) -> MemoryKind {
        self.0.memory.clone()
    }

    /// Version of the DPDK libraries that are loaded, such as `DPDK 22.11.11`.
    pub fn dpdk_version() -> String {
        // SAFETY: returns a static string that is terminated.
        unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
    }

    /// All ports there are now, configured or not, by number.
    pub fn ports(&self) -> Vec<PortInfo> {
        let _state = self.state();
        port_ids().filter_map(|id| PortInfo::read(id).ok()).collect()
    }

    /// Makes the calling thread known to DPDK, so that it has caches of its own
    /// in each pool.  Pin the thread before.  A thread that is registered
    /// already, or started the EAL, keeps its number.
    ///
    /// # Errors
    /// [`EalError::Thread`] if all numbers are taken.
    pub fn register_thread(&self) -> Result<LcoreToken, EalError> {
        thread::register(self.clone())
    }

    /// Adds a device while DPDK runs: a virtual one by driver name, number and
    /// arguments (`net_tap0,iface=tap7`) or one by PCI address.  If it has
    /// several ports, the first is returned.
    ///
    /// # Errors
    /// [`EalError::DriverNotFound`], [`EalError::Attach`] with what DPDK
    /// logged, [`EalError::NoPort`], [`EalError::Config`].
    pub fn attach(&self, devargs: &str) -> Result<PortId, EalError> {
        let c_devargs = one_c("device", devargs)?;
        let _state = self.state();
        let before: HashSet<PortId> = port_ids().collect();
        log::take();
        // SAFETY: the EAL runs while `self` lives; the lock keeps other device changes out.
        let rc = unsafe { sys::rte_dev_probe(c_devargs.as_ptr()) };
        if rc < 0 {
            return Err(attach_error(devargs, Errno::from_return(rc), &log::take()));
        }
        port_ids().find(|id| !before.contains(id)).ok_or_else(|| {
            let name = devargs.split(',').next().unwrap_or_default();
            let there = before.iter().any(|id| PortInfo::read(*id).is_ok_and(|info| info.name == name));
            match there {
                // DPDK calls it a success.
                true => attach_error(devargs, Errno::from_return(libc::EEXIST), ""),
                false => EalError::NoPort { devargs: devargs.to_owned() },
            }
        })
    }

    /// Removes the device of a port that nobody has configured, or whose
    /// [`Port`](crate::Port) is dropped (virtual ones go with their `Port`).
    ///
    /// # Errors
    /// [`EalError::Detach`].
    pub fn detach(&self, port: PortId) -> Result<(), EalError> {
        let state = self.state();
        let refused = |problem: String| EalError::Detach { port, problem };
        if state.open.contains(&port) {
            return Err(refused("it is in use".into()));
        }
        if state.rings.iter().any(|pair| pair.has(port)) {
            return Err(refused("it belongs to a ring pair".into()));
        }
        log::take();
        // SAFETY: the lock keeps other device changes out, and no Port or queue of this port exists.
        let rc = unsafe {
            match sys::rdpdk_port_device(port.raw()) {
                device if device.is_null() => return Err(refused("there is no such port".into())),
                device => sys::rdpdk_device_remove(device),
            }
        };
        match Errno::check(rc) {
            Ok(_) => Ok(()),
            Err(errno) => Err(refused(format!("{errno}{}", reason(&log::last_lines())))),
        }
    }

    /// Locks the device list.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is a single step, so it is whole even after a panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a pool that has lost its last handle while mbufs were out.
    pub(crate) fn adopt(&self, pool: RawPool, shared: Vec<Arc<[u8]>>) {
        self.state().orphans.push((pool, shared));
    }
}

pub(crate) use log::{last_lines, take as clear_log};

impl fmt::Debug for Eal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eal").field("memory", &self.0.memory).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for pair in state.rings.drain(..) {
            pair.close();
        }
        state.orphans.retain(|(pool, _)| !pool.free_if_full());
        // A frame that somebody still holds lies in memory that cleaning up would unmap, and may
        // point to bytes that are shared.
        if state.orphans.is_empty() {
            // SAFETY: this was the last handle: no port, queue, pool, token or mbuf is left.
            unsafe { sys::rte_eal_cleanup() };
        } else {
            std::mem::forget(std::mem::take(&mut state.orphans));
        }
    }
}

/// Numbers of all ports.
fn port_ids() -> impl Iterator<Item = PortId> {
    // SAFETY: walks a static table, whose entries change under the lock that the callers hold.
    let next = |from: u16| u16::try_from(unsafe { sys::rdpdk_port_next(from) }).ok();
    std::iter::successors(next(0), move |id| next(id + 1)).map(PortId::new)
}

fn attach_error(devargs: &str, errno: Errno, log: &str) -> EalError {
    let no_driver = log::says_no_driver(log);
    let (devargs, mut log) = (devargs.to_owned(), log::join_last(log));
    if no_driver {
        return EalError::DriverNotFound { devargs };
    }
    // These end in the kernel's network, and their drivers do not always say what was refused.
    let kernel = ["net_tap", "net_af_packet", "net_af_xdp"].iter().any(|name| devargs.starts_with(name));
    // SAFETY: asks the kernel for a number.
    if kernel && unsafe { libc::geteuid() } != 0 {
        log += if log.is_empty() { "" } else { "; " };
        log += "this device needs CAP_NET_ADMIN and CAP_NET_RAW, and the user is not root";
    }
    EalError::Attach { devargs, errno, log }
}

fn one_c(what: &'static str, value: &str) -> Result<CString, EalError> {
    CString::new(value).map_err(|_| EalError::Config { what, value: value.into(), problem: "has a NUL byte" })
}

fn to_c(arguments: Vec<String>) -> Result<Vec<CString>, EalError> {
    arguments.iter().map(|a| one_c("argument", a)).collect()
}

fn start(arguments: &[CString], quiet: bool) -> Result<(), EalError> {
    // DPDK keeps pointers into its arguments and permutes the array.
    let argv: Vec<_> = arguments.iter().map(|a| a.clone().into_raw()).chain([std::ptr::null_mut()]).collect();
    let argv = argv.leak();
    let affinity = guard::Affinity::save();
    let output = quiet.then(guard::Silence::begin);
    // SAFETY: called once in the process (STARTED); the strings are terminated and live for ever.
    let rc = unsafe { sys::rte_eal_init(arguments.len() as i32, argv.as_mut_ptr()) };
    let errno = Errno::last();
    let leaked = output.map(guard::Silence::end).unwrap_or_default();
    affinity.restore();
    remove_runtime_dir();
    if rc >= 0 {
        return Ok(());
    }
    // Options that it does not know are reported past the log.
    let log = log::join_last(&format!("{leaked}\n{}", log::take()));
    Err(EalError::Init { errno, log })
}

/// DPDK makes a directory for sockets and shared files, `.../dpdk/PREFIX`, even
/// if it is told to have none.  It stays empty, so it can go at once: nothing
/// is left behind then, however the process ends.
fn remove_runtime_dir() {
    // SAFETY: returns a static string, empty before the EAL has chosen the directory.
    let dir = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) }.to_string_lossy().into_owned();
    let dir = Path::new(&dir);
    // Only empty directories can be removed this way: others are somebody's.
    let _ = std::fs::remove_dir(dir);
    if let Some(parent) = dir.parent().filter(|p| p.ends_with("dpdk")) {
        let _ = std::fs::remove_dir(parent);
    }
}
