//! A station on a DPDK port.

use super::{Station, StationArgs};
use crate::config::Hugepages;
use crate::report::print;
use crate::run::signal::Signals;
use crate::run::{EnvironmentError, start_dpdk};
use anyhow::{Context, Result};
use roce_engine::io::dpdk::{self, DeviceSpec, DpdkIo, Eal, OpenPort, PortSpec, TscClock};
use roce_engine::io::pcap::{self, CaptureLimits, Recorded};
use roce_engine::net::{Host, HostConfig};
use roce_engine::wire::MacAddr;
use roce_engine::worker::{Endpoint, EndpointConfig};
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Frames that a recording holds.
const RECORDED: usize = 200_000;

/// A station on a DPDK port.
pub(crate) type PortStation = Station<Recorded<DpdkIo, TscClock>, TscClock>;

/// A station, and what it stands on; dropped in this order.
#[derive(Debug)]
pub struct Opened {
    /// The station.
    pub station: PortStation,
    clock: TscClock,
    pcap: Option<PathBuf>,
    _port: OpenPort,
    _eal: Eal,
}

/// Starts DPDK, opens the port and tells the network its addresses.
///
/// # Errors
/// [`EnvironmentError`]: no such port, no rights, no memory.
pub fn open(args: &StationArgs, give_up: &dyn Fn() -> bool) -> Result<Opened> {
    if let Some(core) = args.core {
        if !core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
            return Err(EnvironmentError(format!("--core {core}: cannot run there")).into());
        }
    }
    let device = match args.device.starts_with("net_") {
        true => DeviceSpec::Vdev(args.device.clone()),
        false => DeviceSpec::Pci(args.device.clone()),
    };
    let spec = PortSpec {
        name: args.device.split(',').next().unwrap_or_default().to_owned(),
        device,
        workers: 1,
        mtu: None,
        // As much as a slot of net_af_packet holds with framesz=8192.
        max_frame: 8192,
        mac: args.mac.map(|m| m.0),
        // Neighbour discovery comes to groups.
        promiscuous: true,
        link_wait: Duration::from_secs(10),
        flow_control: None,
    };
    let hugepages = if args.no_huge { Hugepages::Never } else { Hugepages::Auto };
    let specs = [spec];
    let eal = start_dpdk(hugepages, &specs, None, log::log_enabled!(log::Level::Debug))?;
    let clock = TscClock::calibrate().map_err(|e| EnvironmentError(e.to_string()))?;
    let mut opened = dpdk::open(&eal, &specs, give_up).map_err(|e| EnvironmentError(e.to_string()))?;
    let mut port = opened.pop().ok_or_else(|| EnvironmentError("the port is gone".into()))?;
    let io = port.ios.pop().ok_or_else(|| EnvironmentError("the port has no queue".into()))?;
    let limits = args.pcap.as_ref().map(|_| CaptureLimits {
        snap_len: 65535,
        count: RECORDED,
        direction: pcap::Direction::Both,
    });
    let seed = std::hash::RandomState::new().build_hasher().finish();
    let config = EndpointConfig { vlan: args.vlan, workers: 1, secret: seed, ..EndpointConfig::default() };
    let host = Host::new(HostConfig {
        mac: args.mac.unwrap_or(MacAddr(port.mac())),
        vlan: args.vlan,
        addresses: args.addresses.clone(),
        gateways: args.gateway.clone(),
        neighbours: args.neighbour.iter().map(|n| (n.0, n.1)).collect(),
        management: true,
    });
    let endpoint = Endpoint::new(Recorded::new(io, limits, clock), config, None);
    let mut station = Station::new(endpoint, host, clock, seed ^ 0x5EED);
    station.host().announce();
    station.turn();
    Ok(Opened { station, clock, pcap: args.pcap.clone(), _port: port, _eal: eal })
}

/// A command on a port: opens it, does `act`, which may ask whether to give up, closes it, and prints what
/// `act` says.  An interrupt ends it with the exit code of interrupts.
///
/// # Errors
/// As [`open`], and those of `act`.
pub(crate) fn on_port(
    args: &StationArgs,
    act: impl FnOnce(&mut PortStation, &dyn Fn() -> bool) -> Result<String>,
) -> Result<ExitCode> {
    let signals = Signals::install()?;
    let give_up = || signals.interrupted();
    let mut opened = open(args, &give_up)?;
    opened.station.heed(&signals);
    let outcome = act(&mut opened.station, &give_up);
    opened.close()?;
    match outcome {
        Ok(text) => print(&text).map(|()| ExitCode::SUCCESS),
        Err(error) => signals.exit_code(Err(error)),
    }
}

impl Opened {
    /// Writes the recording, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn close(mut self) -> Result<()> {
        let Some(path) = &self.pcap else { return Ok(()) };
        let Some(capture) = self.station.endpoint().io_mut().take_capture() else { return Ok(()) };
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let epoch = (wall.as_nanos() as u64).saturating_sub(self.clock.read().as_nanos());
        pcap::write_pcapng(std::io::BufWriter::new(file), &[("port", &capture)], epoch)
            .with_context(|| path.display().to_string())
    }
}
