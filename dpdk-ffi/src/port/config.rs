//! How a port is set up.

use dpdk_sys as sys;

use super::{PortError, PortInfo, driver_error};
use crate::eal::clear_log;
use crate::{Errno, Mempool};

/// A VLAN tag in each of the two places, which drivers do not count.
const TAGS: u32 = 8;
const DEFAULT_MTU: u32 = 1500;

/// How a port is to be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of a receive queue; brought into the driver's limits.
    pub rx_desc: u16,
    /// Descriptors of a transmit queue; brought into the driver's limits.
    pub tx_desc: u16,
    /// MTU in bytes, the Ethernet header not counted; `None` leaves it alone.
    pub mtu: Option<u16>,
    /// Spread received frames over the queues by IP addresses and UDP ports,
    /// if there are several queues and the port can.
    pub rss: bool,
    /// Receive frames for all addresses.
    pub promiscuous: bool,
    /// Have the port check IPv4 header checksums, if it can.
    pub want_ipv4_checksum: bool,
    /// Have the port take VLAN tags off, if it can.
    pub want_vlan_strip: bool,
    /// Send frames of several segments, if the port can; slower on many.
    pub want_multi_segs: bool,
    /// NUMA node for the descriptors; `None` for that of the device.
    pub socket: Option<i32>,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_desc: 1024,
            tx_desc: 1024,
            mtu: None,
            rss: true,
            promiscuous: false,
            want_ipv4_checksum: true,
            want_vlan_strip: true,
            want_multi_segs: false,
            socket: None,
        }
    }
}

/// What was asked of the driver.
pub(super) struct Setup {
    pub(super) rx_offloads: u64,
    pub(super) tx_offloads: u64,
    pub(super) rss: bool,
    pub(super) promiscuous: bool,
}

/// Configures port and queues, all stopped.  The caller owns the port.
pub(super) fn apply(info: &PortInfo, cfg: &PortConfig, pools: &[Mempool]) -> Result<Setup, PortError> {
    let mut conf = plan(info, cfg, pools)?;
    let (id, name) = (info.id.raw(), info.name.as_str());
    let socket = cfg.socket.or(info.numa).unwrap_or(-1);
    clear_log();
    // SAFETY: the caller has claimed the port, so nobody else uses it; `conf` is owned here.
    driver_error(name, "configure", unsafe { sys::rdpdk_port_configure(id, &mut conf) })?;
    if let Some(mtu) = cfg.mtu {
        // SAFETY: as above; the port is stopped.
        let rc = unsafe { sys::rte_eth_dev_set_mtu(id, mtu) };
        // Drivers without this call took the MTU with the configuration.
        if Errno::check(rc).is_err_and(|e| e != Errno::NOT_SUPPORTED) {
            return Err(mtu_unsupported(info, mtu));
        }
    }
    for queue in 0..cfg.rx_queues {
        let pool = if pools.len() == 1 { &pools[0] } else { &pools[usize::from(queue)] };
        // SAFETY: as above; the caller keeps the pools for as long as the port is open.
        let rc = unsafe { sys::rdpdk_rx_queue_setup(id, queue, &conf, socket, pool.as_ptr()) };
        driver_error(name, "set up receive queue", rc)?;
    }
    for queue in 0..cfg.tx_queues {
        // SAFETY: as above.
        let rc = unsafe { sys::rdpdk_tx_queue_setup(id, queue, &conf, socket) };
        driver_error(name, "set up transmit queue", rc)?;
    }
    Ok(Setup {
        rx_offloads: conf.rx_offloads,
        tx_offloads: conf.tx_offloads,
        rss: conf.rss != 0,
        promiscuous: cfg.promiscuous,
    })
}

/// Checks the wishes against the abilities.
fn plan(info: &PortInfo, cfg: &PortConfig, pools: &[Mempool]) -> Result<sys::rdpdk_port_conf, PortError> {
    let name = || info.name.clone();
    let (rx, tx) = (cfg.rx_queues, cfg.tx_queues);
    if rx == 0 || tx == 0 || rx > info.max_rx_queues || tx > info.max_tx_queues {
        let (max_rx, max_tx) = (info.max_rx_queues, info.max_tx_queues);
        return Err(PortError::Queues { name: name(), rx, tx, max_rx, max_tx });
    }
    if pools.len() != 1 && pools.len() != usize::from(rx) {
        return Err(PortError::Pools { name: name(), pools: pools.len(), rx });
    }
    if let Some(mtu) = cfg.mtu
        && !(info.min_mtu..=info.max_mtu).contains(&u32::from(mtu))
    {
        return Err(mtu_unsupported(info, mtu));
    }
    let rooms: Vec<(&str, u16)> = pools.iter().map(|p| (p.name(), p.data_room())).collect();
    Ok(sys::rdpdk_port_conf {
        rx_queues: rx,
        tx_queues: tx,
        rx_desc: cfg.rx_desc,
        tx_desc: cfg.tx_desc,
        mtu: cfg.mtu.map_or(0, u32::from),
        rx_offloads: rx_offloads(info, cfg) | scatter(info, cfg.mtu, &rooms)?,
        tx_offloads: offered(info.tx_offload_capa, sys::RDPDK_TX_OFFLOAD_MULTI_SEGS, cfg.want_multi_segs),
        rss: if cfg.rss && rx > 1 { info.rss_capa & sys::RDPDK_RSS_IP_UDP } else { 0 },
    })
}

fn rx_offloads(info: &PortInfo, cfg: &PortConfig) -> u64 {
    offered(info.rx_offload_capa, sys::RDPDK_RX_OFFLOAD_IPV4_CKSUM, cfg.want_ipv4_checksum)
        | offered(info.rx_offload_capa, sys::RDPDK_RX_OFFLOAD_VLAN_STRIP, cfg.want_vlan_strip)
}

fn offered(capa: u64, bit: u64, wanted: bool) -> u64 {
    if wanted { capa & bit } else { 0 }
}

/// Several buffers for a frame, where the largest frame does not fit in one.
/// A port that keeps its own MTU and cannot scatter drops such frames itself.
fn scatter(info: &PortInfo, mtu: Option<u16>, rooms: &[(&str, u16)]) -> Result<u64, PortError> {
    let frame = mtu.map_or(DEFAULT_MTU, u32::from) + info.frame_overhead.min(64) + TAGS;
    let Some((pool, room)) = rooms.iter().find(|(_, room)| u32::from(*room) < frame) else { return Ok(0) };
    match info.rx_offload_capa & sys::RDPDK_RX_OFFLOAD_SCATTER {
        0 if mtu.is_some() => {
            Err(PortError::DataRoom { name: info.name.clone(), frame, pool: (*pool).into(), room: *room })
        }
        bit => Ok(bit),
    }
}

fn mtu_unsupported(info: &PortInfo, wanted: u16) -> PortError {
    PortError::MtuUnsupported {
        name: info.name.clone(),
        driver: info.driver.clone(),
        wanted,
        min: info.min_mtu,
        max: info.max_mtu,
    }
}
