//! `rocegen ports`: what DPDK sees.

use super::EnvironmentError;
use crate::cli::PortsArgs;
use anyhow::Result;
use roce_engine::io::dpdk::{Eal, EalConfig, LogLevel, PciAccess, PortInfo};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    dpdk: String,
    ports: Vec<Entry>,
    cards: Vec<Card>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    driver: String,
    mac: String,
    speed_gbps: Option<f64>,
    link_up: bool,
    mtu_min: u32,
    mtu_max: u32,
    numa: Option<i32>,
    rx_queues: u16,
    tx_queues: u16,
    offloads: Vec<&'static str>,
}

/// A network card, whether DPDK has it or not.
#[derive(Serialize)]
struct Card {
    pci: String,
    vendor: String,
    device: String,
    driver: Option<String>,
    interfaces: Vec<String>,
    /// Whether one of its interfaces is up.
    in_use: bool,
    numa: Option<i32>,
}

/// The text, or JSON, of `rocegen ports`.
pub fn list_ports(args: &PortsArgs, verbose: bool) -> Result<String> {
    let config = EalConfig {
        pci: if args.pci { PciAccess::Scan } else { PciAccess::None },
        vdevs: args.vdev.clone(),
        log_level: if verbose { LogLevel::Info } else { LogLevel::Quiet },
        memory_mib: 64,
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).map_err(|e| EnvironmentError(e.to_string()))?;
    let listing = Listing {
        schema: "rocegen-ports-1",
        dpdk: Eal::dpdk_version().trim_start_matches("DPDK ").to_string(),
        ports: eal.ports().iter().map(entry).collect(),
        cards: cards(),
    };
    if args.json {
        return Ok(serde_json::to_string_pretty(&listing)? + "\n");
    }
    Ok(text(&listing, args.pci))
}

fn entry(info: &PortInfo) -> Entry {
    let mac = roce_engine::wire::MacAddr(info.mac);
    Entry {
        name: info.name.clone(),
        driver: info.driver.clone(),
        mac: mac.to_string(),
        speed_gbps: info.link.speed_mbps.filter(|_| !info.is_virtual()).map(|m| f64::from(m) / 1000.0),
        link_up: info.link.up,
        mtu_min: info.min_mtu,
        mtu_max: info.max_mtu,
        numa: info.numa,
        rx_queues: info.max_rx_queues,
        tx_queues: info.max_tx_queues,
        offloads: info.offload_names(),
    }
}

fn text(listing: &Listing, scanned: bool) -> String {
    let mut out = format!("DPDK {}\n", listing.dpdk);
    if listing.ports.is_empty() {
        out += "no ports";
        out += if scanned {
            "\n"
        } else {
            "; --pci looks for network cards, --vdev net_null0 makes a virtual one\n"
        };
    } else {
        let _ = writeln!(
            out,
            "{:<16} {:<16} {:<18} {:>10} {:>5} {:>11} {:>5} {:>8}  offloads",
            "name", "driver", "mac", "speed", "link", "mtu", "numa", "queues"
        );
    }
    for p in &listing.ports {
        let speed = p.speed_gbps.map_or("virtual".into(), |s| format!("{s} Gb/s"));
        let numa = p.numa.map_or("-".into(), |n| n.to_string());
        let mtu = match p.mtu_max {
            0 | 0xFFFF.. => "any".into(),
            max => format!("{}-{max}", p.mtu_min),
        };
        let _ = writeln!(
            out,
            "{:<16} {:<16} {:<18} {speed:>10} {:>5} {mtu:>11} {numa:>5} {:>8}  {}",
            p.name,
            p.driver,
            p.mac,
            if p.link_up { "up" } else { "down" },
            format!("{}/{}", p.rx_queues, p.tx_queues),
            if p.offloads.is_empty() { "-".into() } else { p.offloads.join(" ") },
        );
    }
    if !listing.cards.is_empty() {
        out += "\nnetwork cards of this machine\n";
    }
    for card in &listing.cards {
        let driver = card.driver.as_deref().unwrap_or("none");
        let hint = match driver {
            "vfio-pci" | "uio_pci_generic" | "igb_uio" => "DPDK can use it".to_string(),
            "mlx5_core" | "mlx4_core" => "DPDK can use it beside the kernel".to_string(),
            _ => format!("for DPDK: dpdk-devbind.py -b vfio-pci {}", card.pci),
        };
        let interfaces = if card.interfaces.is_empty() {
            String::new()
        } else {
            format!(" ({})", card.interfaces.join(" "))
        };
        let _ = writeln!(
            out,
            "{} {}:{} numa {} driver {driver}{interfaces}: {hint}",
            card.pci,
            card.vendor,
            card.device,
            card.numa.map_or("-".into(), |n| n.to_string()),
        );
    }
    out
}

/// Network controllers that the kernel knows, by sysfs.
fn cards() -> Vec<Card> {
    let Ok(devices) = std::fs::read_dir("/sys/bus/pci/devices") else { return Vec::new() };
    let read = |path: &Path| {
        std::fs::read_to_string(path).ok().map(|t| t.trim().trim_start_matches("0x").to_string())
    };
    let mut cards: Vec<Card> = devices
        .flatten()
        .filter(|d| read(&d.path().join("class")).is_some_and(|c| c.starts_with("02")))
        .map(|d| {
            let path = d.path();
            let driver = std::fs::read_link(path.join("driver")).ok();
            let interfaces = interfaces_of(&path);
            let up = |name: &String| {
                read(&Path::new("/sys/class/net").join(name).join("operstate")).as_deref() == Some("up")
            };
            Card {
                pci: d.file_name().to_string_lossy().into_owned(),
                vendor: read(&path.join("vendor")).unwrap_or_default(),
                device: read(&path.join("device")).unwrap_or_default(),
                driver: driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned())),
                in_use: interfaces.iter().any(up),
                interfaces,
                numa: read(&path.join("numa_node")).and_then(|n| n.parse().ok()).filter(|n: &i32| *n >= 0),
            }
        })
        .collect();
    cards.sort_by(|a, b| a.pci.cmp(&b.pci));
    cards
}

/// The kernel's network interfaces of a PCI device; those of virtio hang one level lower.
fn interfaces_of(device: &Path) -> Vec<String> {
    let names = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let below = names(device).into_iter().filter(|n| n.starts_with("virtio")).map(|n| device.join(n));
    below.chain([device.to_owned()]).flat_map(|d| names(&d.join("net"))).collect()
}
