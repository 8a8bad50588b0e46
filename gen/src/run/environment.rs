//! What the run stands on: DPDK, its memory, the clock, the processor.

use super::EnvironmentError;
use crate::config::{Device, Hugepages, Pfc, Scenario};
use roce_engine::io::dpdk::{
    self, DeviceSpec, Eal, EalConfig, EalError, LogLevel, MemoryKind, PciAccess, PortSpec, TscClock,
};
use roce_engine::wire::MAX_HEADERS;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// The part of a result that says where it was measured.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Environment {
    /// rocegen's version.
    pub rocegen: String,
    /// DPDK's version.
    pub dpdk: String,
    /// The processor's name.
    pub cpu: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// The kernel.
    pub kernel: String,
    /// Where DPDK's memory is: hugepages, or normal pages and why.
    pub memory: String,
    /// The clock, its rate and its error over the run.
    pub clock: ClockReport,
}

/// The clock of a result.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ClockReport {
    /// What it is.
    pub source: &'static str,
    /// Counts a second, as measured at the start against CLOCK_MONOTONIC.
    pub hz: u64,
    /// Counts a second, as DPDK has them.
    pub nominal_hz: u64,
    /// How far it ran ahead of CLOCK_MONOTONIC, in parts per million.
    pub drift_ppm: f64,
}

impl Environment {
    /// Reads it off the machine.
    pub fn of(eal: &Eal, clock: &TscClock) -> Environment {
        let first = |path: &str, key: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|l| l.starts_with(key)).map(str::to_string);
            line.and_then(|l| l.split_once(':').map(|(_, v)| v.trim().to_string())).unwrap_or_default()
        };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut environment = Environment {
            rocegen: env!("CARGO_PKG_VERSION").to_string(),
            dpdk: Eal::dpdk_version().trim_start_matches("DPDK ").to_string(),
            cpu: first("/proc/cpuinfo", "model name"),
            cores: crate::machine::available_cores().len(),
            kernel: kernel.trim().to_string(),
            memory: describe_memory(&eal.memory()),
            clock: ClockReport {
                source: "tsc",
                hz: clock.hz(),
                nominal_hz: clock.nominal_hz(),
                drift_ppm: 0.0,
            },
        };
        environment.close(clock);
        environment
    }

    /// That of virtual time: the same on every machine.
    pub fn virtual_time() -> Environment {
        Environment {
            rocegen: env!("CARGO_PKG_VERSION").to_string(),
            dpdk: "none".to_string(),
            cpu: "virtual time".to_string(),
            cores: 0,
            kernel: "none".to_string(),
            memory: "none of DPDK's".to_string(),
            clock: ClockReport {
                source: "virtual",
                hz: 1_000_000_000,
                nominal_hz: 1_000_000_000,
                drift_ppm: 0.0,
            },
        }
    }

    /// Reads the clock's error at the end of the run.
    pub fn close(&mut self, clock: &TscClock) {
        self.clock.drift_ppm = (clock.drift_ppm() * 100.0).round() / 100.0;
    }
}

fn describe_memory(memory: &MemoryKind) -> String {
    match memory {
        MemoryKind::Hugepages { page_size_kib, .. } => format!("hugepages of {page_size_kib} KiB"),
        MemoryKind::NoHuge { reason } => format!("normal pages ({reason})"),
    }
}

/// Starts DPDK with what these ports need.
///
/// # Errors
/// [`EnvironmentError`].
pub fn start_dpdk(
    hugepages: Hugepages,
    specs: &[PortSpec],
    memory: Option<u64>,
    verbose: bool,
) -> Result<Eal, EnvironmentError> {
    let pci: Vec<String> = specs
        .iter()
        .filter_map(|s| match &s.device {
            DeviceSpec::Pci(address) => Some(address.clone()),
            _ => None,
        })
        .collect();
    let needed = dpdk::memory_mib(specs);
    let config = EalConfig {
        hugepages: match hugepages {
            Hugepages::Auto => dpdk::Hugepages::Auto,
            Hugepages::Never => dpdk::Hugepages::Never,
            Hugepages::Require => dpdk::Hugepages::Require,
        },
        memory_mib: memory.map_or(needed, |bytes| bytes.div_ceil(1 << 20) as usize),
        pci: if pci.is_empty() { PciAccess::None } else { PciAccess::Allow(pci) },
        log_level: if verbose { LogLevel::Info } else { LogLevel::Quiet },
        ..EalConfig::default()
    };
    Eal::init(&config).map_err(|e: EalError| EnvironmentError(e.to_string()))
}

/// The address of a port of a mesh that has none of its own: frames find their way by it.
fn mesh_mac(index: usize, device: &Device) -> Option<[u8; 6]> {
    let Device::Mesh(n) = device else { return None };
    let [.., a, b] = n.to_be_bytes();
    let [.., c, d] = (index as u32).to_be_bytes();
    Some([0x02, 0x6d, a, b, c, d])
}

/// How the local ports of a scenario are to be opened; with the scenario's index of each.
pub(super) fn port_specs(s: &Scenario, cores: &[Vec<usize>]) -> Vec<(usize, PortSpec)> {
    let local = s.ports.iter().enumerate().filter(|(_, p)| p.is_local());
    local
        .map(|(index, port)| {
            let device = match &port.device {
                Device::Ring(n) => DeviceSpec::Ring(*n),
                Device::Mesh(n) => DeviceSpec::Mesh(*n),
                Device::Vdev { devargs, .. } => DeviceSpec::Vdev(devargs.clone()),
                Device::Pci(address) => DeviceSpec::Pci(address.clone()),
                Device::None | Device::Remote | Device::Peer | Device::Fabric => {
                    unreachable!("only local ports are opened, and a fabric is never run")
                }
            };
            let mtu = match &port.device {
                Device::Pci(_) => Some(port.l3_mtu()),
                Device::Vdev { driver, .. } if driver == "net_tap" => port.mtu,
                // The others take frames of any length, or refuse the call and take them all the same.
                _ => None,
            };
            let payload = s
                .flows
                .iter()
                .filter(|f| f.from == index || f.to == index)
                .map(|f| f.mtu.bytes())
                .max()
                .unwrap_or(4096);
            let spec = PortSpec {
                name: port.name.clone(),
                device,
                workers: cores[index].len() as u16,
                mtu,
                max_frame: payload.max(usize::from(port.l3_mtu())) + MAX_HEADERS + 8,
                mac: port.mac.map(|m| m.0).or(mesh_mac(index, &port.device)),
                promiscuous: port.promiscuous,
                link_wait: Duration::from_nanos(port.link_wait.as_nanos()),
                flow_control: port
                    .pfc
                    .as_ref()
                    .filter(|_| matches!(port.device, Device::Pci(_)))
                    .map(Pfc::of_the_nic),
            };
            (index, spec)
        })
        .collect()
}
