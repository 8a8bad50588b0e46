//! The part of a command line that says which port, and who it is.

use clap::Args;
use roce_engine::net::Subnet;
use roce_engine::units::Mtu;
use roce_engine::wire::MacAddr;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A neighbour that is not asked: `IP=MAC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourArg(pub IpAddr, pub MacAddr);

impl FromStr for NeighbourArg {
    type Err = String;

    fn from_str(text: &str) -> Result<NeighbourArg, String> {
        let wrong = || format!("\"{text}\" is not ADDRESS=MAC, as in 198.18.0.2=02:00:00:00:00:02");
        let (ip, mac) = text.split_once('=').ok_or_else(wrong)?;
        Ok(NeighbourArg(ip.parse().map_err(|_| wrong())?, mac.parse().map_err(|_| wrong())?))
    }
}

/// Which port, and who it is.
#[derive(Args, Clone, Debug)]
pub struct StationArgs {
    /// The port: a virtual device as in net_af_packet0,iface=tap0, or a PCI address
    #[arg(short = 'd', long, value_name = "DEVICE")]
    pub device: String,
    /// An address of the port with its prefix length; repeatable
    #[arg(long = "ip", value_name = "ADDRESS/PREFIX", required = true)]
    pub addresses: Vec<Subnet>,
    /// The router to other subnets; once for each version of IP
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// A neighbour that is not asked for its MAC address; repeatable
    #[arg(long, value_name = "ADDRESS=MAC")]
    pub neighbour: Vec<NeighbourArg>,
    /// The port's MAC address, instead of its own
    #[arg(long)]
    pub mac: Option<MacAddr>,
    /// The VLAN that frames are tagged with
    #[arg(long, value_name = "VID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// The core to poll on; left to the scheduler without
    #[arg(long)]
    pub core: Option<usize>,
    /// Packets that a queue pair may have unacknowledged
    #[arg(long, value_name = "PACKETS", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub window: u32,
    /// Take no hugepages
    #[arg(long)]
    pub no_huge: bool,
    /// Record all frames to this capture file
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}

/// The value of an option that is a path MTU.
pub fn parse_mtu(text: &str) -> Result<Mtu, String> {
    let mtu = text.parse().ok().and_then(Mtu::from_bytes);
    mtu.ok_or_else(|| "a path MTU is 256, 512, 1024, 2048 or 4096".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        let mac = MacAddr([2, 0, 0, 0, 0, 2]);
        assert_eq!(
            "2001:2::2=02:00:00:00:00:02".parse(),
            Ok(NeighbourArg("2001:2::2".parse().unwrap(), mac))
        );
        for wrong in ["198.18.0.2", "198.18.0.2=", "x=02:00:00:00:00:02"] {
            let error = wrong.parse::<NeighbourArg>().unwrap_err();
            assert!(error.starts_with(&format!("\"{wrong}\" is not ADDRESS=MAC")), "{error}");
        }
    }
}
