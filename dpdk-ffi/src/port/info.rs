//! What a port is and can do.

use std::ffi::{CStr, c_char};
use std::fmt;

use dpdk_sys as sys;

use crate::Errno;

/// Number of a port within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(u16);

impl PortId {
    pub(crate) fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// DPDK's number.
    pub fn raw(self) -> u16 {
        self.0
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Speed in Mb/s; `None` if the driver knows none.  Drivers of virtual
    /// ports state 10,000 or so, which means nothing.
    pub speed_mbps: Option<u32>,
    /// Both directions at once.
    pub full_duplex: bool,
    /// The speed was negotiated.
    pub autoneg: bool,
}

impl Link {
    pub(super) fn from_raw(raw: &sys::rdpdk_link) -> Self {
        let known = raw.speed_mbps != 0 && raw.speed_mbps != sys::RDPDK_SPEED_UNKNOWN;
        Self {
            up: raw.up != 0,
            speed_mbps: known.then_some(raw.speed_mbps),
            full_duplex: raw.full_duplex != 0,
            autoneg: raw.autoneg != 0,
        }
    }
}

/// How many descriptors a queue may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorLimits {
    /// The least.
    pub min: u16,
    /// The most.
    pub max: u16,
    /// The number must be a multiple of this.
    pub align: u16,
}

/// What a port is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number.
    pub id: PortId,
    /// Name of the port: a PCI address or the name of a virtual device.
    pub name: String,
    /// Name of the driver, such as `net_tap` or `mlx5_pci`.
    pub driver: String,
    /// Name of the bus: `pci`, `vdev`, ...
    pub bus: String,
    /// Its address.
    pub mac: [u8; 6],
    /// NUMA node of the device, `None` if it has none.
    pub numa: Option<i32>,
    /// Index of the kernel's interface that it is bound to, `None` if none.
    pub if_index: Option<u32>,
    /// The least MTU that can be set.
    pub min_mtu: u32,
    /// The largest MTU that can be set.  Some drivers carry longer frames than
    /// that (net_af_packet, net_memif) if the MTU is left alone.
    pub max_mtu: u32,
    /// Bytes that the driver counts on top of the MTU for a frame.
    pub frame_overhead: u32,
    /// The most receive queues.
    pub max_rx_queues: u16,
    /// The most transmit queues.
    pub max_tx_queues: u16,
    /// Sizes of a receive queue.
    pub rx_desc: DescriptorLimits,
    /// Sizes of a transmit queue.
    pub tx_desc: DescriptorLimits,
    /// `RTE_ETH_RX_OFFLOAD_*` that it offers.
    pub rx_offload_capa: u64,
    /// `RTE_ETH_TX_OFFLOAD_*` that it offers.
    pub tx_offload_capa: u64,
    /// `RTE_ETH_RSS_*` that it can spread by; 0 without RSS.
    pub rss_capa: u64,
    /// `RTE_ETH_LINK_SPEED_*` that it offers.
    pub speed_capa: u32,
    /// The link when this was read.
    pub link: Link,
}

impl PortInfo {
    pub(crate) fn read(id: PortId) -> Result<Self, Errno> {
        let mut raw = sys::rdpdk_port_info::default();
        // SAFETY: writes one structure to memory owned here; an unknown port is answered by an error.
        Errno::check(unsafe { sys::rdpdk_port_info(id.raw(), &mut raw) })?;
        Ok(Self {
            id,
            name: text(&raw.name),
            driver: text(&raw.driver),
            bus: text(&raw.bus),
            mac: raw.mac,
            numa: (raw.numa >= 0).then_some(raw.numa),
            if_index: (raw.if_index != 0).then_some(raw.if_index),
            min_mtu: raw.min_mtu,
            max_mtu: raw.max_mtu,
            frame_overhead: raw.frame_overhead,
            max_rx_queues: raw.max_rx_queues,
            max_tx_queues: raw.max_tx_queues,
            rx_desc: limits(raw.rx_desc_min, raw.rx_desc_max, raw.rx_desc_align),
            tx_desc: limits(raw.tx_desc_min, raw.tx_desc_max, raw.tx_desc_align),
            rx_offload_capa: raw.rx_offload_capa,
            tx_offload_capa: raw.tx_offload_capa,
            rss_capa: raw.rss_capa,
            speed_capa: raw.speed_capa,
            link: Link::from_raw(&raw.link),
        })
    }

    /// Whether it is a virtual device: no cable, no speed of its own.
    pub fn is_virtual(&self) -> bool {
        self.bus == "vdev"
    }

    /// Names of the offloads that matter here and that the port offers.
    pub fn offload_names(&self) -> Vec<&'static str> {
        offload_names(self.rx_offload_capa, self.tx_offload_capa)
    }
}

/// Names of the offloads that matter here, out of two sets of bits.
pub(super) fn offload_names(rx: u64, tx: u64) -> Vec<&'static str> {
    let all = [
        (rx, sys::RDPDK_RX_OFFLOAD_IPV4_CKSUM, "ipv4-cksum"),
        (rx, sys::RDPDK_RX_OFFLOAD_UDP_CKSUM, "udp-cksum"),
        (rx, sys::RDPDK_RX_OFFLOAD_VLAN_STRIP, "vlan-strip"),
        (rx, sys::RDPDK_RX_OFFLOAD_SCATTER, "scatter"),
        (rx, sys::RDPDK_RX_OFFLOAD_RSS_HASH, "rss-hash"),
        (rx, sys::RDPDK_RX_OFFLOAD_TIMESTAMP, "timestamp"),
        (tx, sys::RDPDK_TX_OFFLOAD_IPV4_CKSUM, "tx-ipv4-cksum"),
        (tx, sys::RDPDK_TX_OFFLOAD_VLAN_INSERT, "tx-vlan-insert"),
        (tx, sys::RDPDK_TX_OFFLOAD_MULTI_SEGS, "multi-segs"),
        (tx, sys::RDPDK_TX_OFFLOAD_MBUF_FAST_FREE, "mbuf-fast-free"),
    ];
    all.into_iter().filter(|(set, bit, _)| set & bit != 0).map(|(_, _, name)| name).collect()
}

fn limits(min: u16, max: u16, align: u16) -> DescriptorLimits {
    DescriptorLimits { min, max, align: align.max(1) }
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_speeds_are_none() {
        let link = |speed_mbps| {
            Link::from_raw(&sys::rdpdk_link { speed_mbps, up: 1, full_duplex: 1, autoneg: 0 }).speed_mbps
        };
        assert_eq!(link(100_000), Some(100_000));
        assert_eq!(link(0), None);
        assert_eq!(link(sys::RDPDK_SPEED_UNKNOWN), None);
    }

    #[test]
    fn offloads_have_names() {
        let rx = sys::RDPDK_RX_OFFLOAD_IPV4_CKSUM | sys::RDPDK_RX_OFFLOAD_SCATTER;
        assert_eq!(
            offload_names(rx, sys::RDPDK_TX_OFFLOAD_MULTI_SEGS),
            ["ipv4-cksum", "scatter", "multi-segs"]
        );
        assert!(offload_names(0, 0).is_empty());
    }

    #[test]
    fn text_ends_at_the_terminator() {
        assert_eq!(text(&[b'a' as c_char, b'b' as c_char, 0, b'c' as c_char]), "ab");
        assert_eq!(text(&[0]), "");
    }
}
