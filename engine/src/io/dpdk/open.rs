//! Opening the ports of a run.

use super::{DpdkIo, Pieces, STALLED};
use crate::io::{BURST, Caps};
use dpdk_ffi::{
    Eal, EalError, FlowControl, Link, Mempool, Port, PortConfig, PortError, PortId, PortInfo, PortStats,
    Supply, ring_mesh, ring_pair,
};
use std::collections::HashMap;
use std::time::Duration;

/// Frames that a ring between two ports holds.
const RING_FRAMES: u32 = 256;
/// Descriptors of a hardware or virtual queue.
const DESCRIPTORS: u16 = 512;
/// Bytes of the buffers for pieces of frames: pad and iCRC, or none.
const PIECE_ROOM: u16 = 64;
/// Frames that a worker keeps at hand.
const POOL_CACHE: u32 = 128;

/// The device behind a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// One end of the ring pair with this number.
    Ring(u32),
    /// One of the ports that are joined, each with every other, under this number.
    Mesh(u32),
    /// A virtual device, as DPDK's `--vdev` takes it.
    Vdev(String),
    /// A network card by PCI address.
    Pci(String),
}

/// How a port is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The name that users know it by.
    pub name: String,
    /// The device.
    pub device: DeviceSpec,
    /// Workers that share it.
    pub workers: u16,
    /// The Ethernet MTU to set; `None` leaves the device's own.
    pub mtu: Option<u16>,
    /// The largest frame that will be sent or received, without FCS.
    pub max_frame: usize,
    /// The MAC address to give it.
    pub mac: Option<[u8; 6]>,
    /// Whether it takes frames for any MAC address.
    pub promiscuous: bool,
    /// How long its link may take to come up.
    pub link_wait: Duration,
    /// Flow control by the device; left as it is where `None`.
    pub flow_control: Option<FlowControl>,
}

/// Why a port was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// DPDK could not have the device.
    #[error("port \"{port}\": {source}")]
    Attach {
        /// The port.
        port: String,
        /// Why.
        source: EalError,
    },
    /// The device is there, but not as wished.
    #[error("port \"{port}\": {source}")]
    Port {
        /// The port.
        port: String,
        /// Why.
        source: PortError,
    },
    /// There is no memory for its frames.
    #[error("port \"{port}\": {source}")]
    Pool {
        /// The port.
        port: String,
        /// Why.
        source: dpdk_ffi::PoolError,
    },
    /// No DPDK port has this PCI address.
    #[error(
        "port \"{port}\": DPDK has no port at {address}; bind the card to vfio-pci \
         (dpdk-devbind.py -b vfio-pci {address}) or, for mlx5, install its driver, and see `rocegen ports --pci`"
    )]
    NoPci {
        /// The port.
        port: String,
        /// The address.
        address: String,
    },
    /// The caller gave up while a link was not up yet.
    #[error("port \"{port}\": interrupted while waiting for the link")]
    GivenUp {
        /// The port.
        port: String,
    },
}

/// An open, started port.
#[derive(Debug)]
pub struct OpenPort {
    port: Port,
    /// One for each worker, until taken.
    pub ios: Vec<DpdkIo>,
    pools: Vec<Mempool>,
    /// One for each worker, where the port takes frames in pieces.
    piece_pools: Vec<Mempool>,
    /// The address that frames to it have where the device knows none.
    own_mac: Option<[u8; 6]>,
    /// The speed of its link, when that means something.
    pub speed_bps: Option<u64>,
}

impl OpenPort {
    /// What DPDK says of it.
    pub fn info(&self) -> &PortInfo {
        self.port.info()
    }

    /// Its MAC address; that of a port between rings is the one it was to have, if any.
    pub fn mac(&self) -> [u8; 6] {
        self.own_mac.unwrap_or_else(|| self.port.mac())
    }

    /// What the driver counted.
    pub fn stats(&self) -> PortStats {
        self.port.stats()
    }

    /// Offloads in use.
    pub fn offloads(&self) -> Vec<&'static str> {
        self.port.offload_names()
    }

    /// Gives each worker its queues; more than one where the twin of a ring pair has more workers, or
    /// where each leads to another one of `peers`.
    fn share_queues(&mut self, spec: &PortSpec, queues: u16, peers: Vec<[u8; 6]>) {
        // What is at the other end of a ring belongs to this process: it comes back.
        let patience = (!is_rings(spec)).then_some(STALLED);
        let caps = Caps { max_frame: spec.max_frame, speed_bps: self.speed_bps, headers_only: false };
        for q in 0..queues {
            let Some((rx, tx)) = self.port.take_queue(q) else { continue };
            let worker = usize::from(q) % self.pools.len();
            match self.ios.get_mut(worker) {
                Some(io) => {
                    io.rx.push(rx);
                    if !peers.is_empty() {
                        io.tx.push(tx);
                    }
                }
                None => {
                    self.ios.push(DpdkIo {
                        rx: vec![rx],
                        tx: vec![tx],
                        peers: peers.clone(),
                        frames: Supply::new(self.pools[worker].clone()),
                        pieces: self.piece_pools.get(worker).cloned().map(Pieces::new),
                        caps,
                        patience,
                        next: 0,
                    });
                }
            }
        }
    }
}

/// DPDK memory that these ports need, in MiB.
pub fn memory_mib(specs: &[PortSpec]) -> usize {
    let pools: usize = specs
        .iter()
        .map(|s| {
            let size = pool_size(specs, s);
            let frames = Mempool::memory_mib(size, data_room(s));
            let pieces = if takes_pieces(s) { Mempool::memory_mib(2 * size, PIECE_ROOM) } else { 0 };
            (frames + pieces) * usize::from(s.workers.max(1))
        })
        .sum();
    pools + 32
}

/// Opens and starts all ports.  Waits for their links no longer once `give_up` says so.
///
/// # Errors
/// [`OpenError`]: a port is not as wished; those opened before are closed.
pub fn open(eal: &Eal, specs: &[PortSpec], give_up: &dyn Fn() -> bool) -> Result<Vec<OpenPort>, OpenError> {
    let mut rings: HashMap<u32, (PortId, u16)> = HashMap::new();
    let mut meshes: HashMap<u32, Vec<PortId>> = HashMap::new();
    let mut ports = Vec::new();
    for spec in specs {
        let name = || spec.name.clone();
        let (id, queues) = match &spec.device {
            DeviceSpec::Ring(n) => match rings.remove(n) {
                Some(second) => second,
                None => {
                    let peers = specs.iter().filter(|s| s.device == spec.device);
                    let queues = peers.map(|s| s.workers.max(1)).max().unwrap_or(1);
                    let (a, b) = ring_pair(eal, &format!("ring{n}"), queues, RING_FRAMES, None)
                        .map_err(|source| OpenError::Port { port: name(), source })?;
                    rings.insert(*n, (b, queues));
                    (a, queues)
                }
            },
            DeviceSpec::Mesh(n) => {
                let all = specs.iter().filter(|s| s.device == spec.device).count() as u16;
                let left = match meshes.remove(n) {
                    Some(left) => left,
                    None => {
                        let mut ids = ring_mesh(eal, &format!("mesh{n}"), all, RING_FRAMES, None)
                            .map_err(|source| OpenError::Port { port: name(), source })?;
                        ids.reverse();
                        ids
                    }
                };
                let mut left = left;
                let Some(id) = left.pop() else { unreachable!("one for each that names it") };
                meshes.insert(*n, left);
                (id, all - 1)
            }
            DeviceSpec::Vdev(devargs) => {
                let id = eal
                    .attach(&complete(devargs, spec))
                    .map_err(|source| OpenError::Attach { port: name(), source })?;
                (id, spec.workers.max(1))
            }
            DeviceSpec::Pci(address) => {
                let found = eal.ports().into_iter().find(|p| same_pci(&p.name, address));
                let info =
                    found.ok_or_else(|| OpenError::NoPci { port: name(), address: address.clone() })?;
                (info.id, spec.workers.max(1))
            }
        };
        ports.push((open_one(eal, specs, spec, id, queues)?, queues));
    }
    for (i, (spec, (open, queues))) in specs.iter().zip(&mut ports).enumerate() {
        let wrong = |source| OpenError::Port { port: spec.name.clone(), source };
        open.port.start().map_err(wrong)?;
        match spec.flow_control {
            // To hand MAC control frames over is more than most drivers can.
            Some(FlowControl::None) => drop(open.port.set_flow_control(FlowControl::None)),
            Some(control) => open.port.set_flow_control(control).map_err(wrong)?,
            None => {}
        }
        let link = wait_link(&open.port, spec, give_up)?;
        // Virtual devices invent a speed.
        let real = matches!(spec.device, DeviceSpec::Pci(_));
        open.speed_bps = link.speed_mbps.filter(|_| real).map(|m| u64::from(m) * 1_000_000);
        // In the order of their queues.
        let others = specs.iter().enumerate().filter(|(o, s)| *o != i && s.device == spec.device);
        let mesh = matches!(spec.device, DeviceSpec::Mesh(_));
        let peers = others.filter(|_| mesh).map(|(_, s)| s.mac.unwrap_or_default()).collect();
        open.share_queues(spec, *queues, peers);
    }
    Ok(ports.into_iter().map(|(open, _)| open).collect())
}

fn wait_link(port: &Port, spec: &PortSpec, give_up: &dyn Fn() -> bool) -> Result<Link, OpenError> {
    const SLICE: Duration = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    loop {
        let slice = SLICE.min(spec.link_wait - waited);
        match port.wait_link(slice) {
            Ok(link) => return Ok(link),
            Err(_) if give_up() => return Err(OpenError::GivenUp { port: spec.name.clone() }),
            Err(PortError::LinkDown { name, .. }) if waited + slice >= spec.link_wait => {
                let source = PortError::LinkDown { name, waited: spec.link_wait };
                return Err(OpenError::Port { port: spec.name.clone(), source });
            }
            Err(PortError::LinkDown { .. }) => waited += slice,
            Err(source) => return Err(OpenError::Port { port: spec.name.clone(), source }),
        }
    }
}

fn open_one(
    eal: &Eal,
    specs: &[PortSpec],
    spec: &PortSpec,
    id: PortId,
    queues: u16,
) -> Result<OpenPort, OpenError> {
    let name = || spec.name.clone();
    let workers = spec.workers.max(1);
    let pools = (0..workers)
        .map(|w| {
            let pool = format!("{}-{}-{w}", id.raw(), short(&spec.name));
            Mempool::create(eal, &pool, pool_size(specs, spec), POOL_CACHE, data_room(spec), None, None)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| OpenError::Pool { port: name(), source })?;
    let piece_pools = (0..if takes_pieces(spec) { workers } else { 0 })
        .map(|w| {
            let pool = format!("{}-{}-{w}p", id.raw(), short(&spec.name));
            Mempool::create(eal, &pool, 2 * pool_size(specs, spec), POOL_CACHE, PIECE_ROOM, None, None)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| OpenError::Pool { port: name(), source })?;
    let config = PortConfig {
        rx_queues: queues,
        tx_queues: queues,
        rx_desc: DESCRIPTORS,
        tx_desc: DESCRIPTORS,
        mtu: spec.mtu,
        rss: queues > 1,
        promiscuous: spec.promiscuous,
        ..PortConfig::default()
    };
    let per_queue: Vec<Mempool> = (0..queues).map(|q| pools[usize::from(q % workers)].clone()).collect();
    let wrong = |source| OpenError::Port { port: name(), source };
    let mut port = Port::configure(eal, id, &config, &per_queue).map_err(wrong)?;
    // Rings have no address to set; frames carry the wanted one all the same.
    let settable = !is_rings(spec);
    if let Some(mac) = spec.mac.filter(|_| settable) {
        if mac != port.mac() {
            port.set_mac(mac).map_err(wrong)?;
        }
    }
    let own_mac = spec.mac.filter(|_| matches!(spec.device, DeviceSpec::Mesh(_)));
    Ok(OpenPort { port, ios: Vec::new(), pools, piece_pools, own_mac, speed_bps: None })
}

/// Frames in the rings and queues of a worker, in caches of threads, and in hand: its supply, a batch to
/// send and a burst received, and as many again.
fn pool_size(specs: &[PortSpec], spec: &PortSpec) -> u32 {
    let queued = match spec.device {
        DeviceSpec::Ring(_) => RING_FRAMES,
        DeviceSpec::Mesh(_) => RING_FRAMES * specs.iter().filter(|s| s.device == spec.device).count() as u32,
        _ => 2 * u32::from(DESCRIPTORS),
    };
    queued + 3 * POOL_CACHE * 2 + 2 * (Supply::AT_HAND + 2 * BURST as u32)
}

/// Whether the port takes frames in pieces that lie outside of DPDK's memory: a ring hands them on
/// as they are, and a null port looks at none.
fn takes_pieces(spec: &PortSpec) -> bool {
    match &spec.device {
        DeviceSpec::Ring(_) | DeviceSpec::Mesh(_) => true,
        DeviceSpec::Vdev(devargs) => devargs.starts_with("net_null"),
        DeviceSpec::Pci(_) => false,
    }
}

/// Whether it leads to other ports of this process, by rings.
fn is_rings(spec: &PortSpec) -> bool {
    matches!(spec.device, DeviceSpec::Ring(_) | DeviceSpec::Mesh(_))
}

fn data_room(spec: &PortSpec) -> u16 {
    (spec.max_frame.next_multiple_of(64)).clamp(2048, usize::from(Mempool::MAX_DATA_ROOM)) as u16
}

/// Arguments that devices need to work as a port of a run.
fn complete(devargs: &str, spec: &PortSpec) -> String {
    let lacks = |driver: &str, key: &str| devargs.starts_with(driver) && !devargs.contains(key);
    if lacks("net_null", "no-rx=") {
        // It floods its receiver with empty frames otherwise.
        return format!("{devargs},no-rx=1");
    }
    if lacks("net_memif", "bsize=") {
        // The driver of DPDK 22.11 garbles frames that take several buffers.
        return format!("{devargs},bsize={}", data_room(spec));
    }
    devargs.to_string()
}

fn same_pci(name: &str, address: &str) -> bool {
    let full = |s: &str| if s.matches(':').count() == 1 { format!("0000:{s}") } else { s.to_string() };
    full(name).eq_ignore_ascii_case(&full(address))
}

/// As much of a name as a pool's name has room for.
fn short(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).take(12).collect()
}
