//! The scenario: what a run does, with units in the types.
//!
//! Every field is described for users in `docs/scenario.md`.

mod flow;

pub use flow::{
    Arrival, Collective, Control, Dial, DialBy, Flow, FlowRate, Layer, Recovery, Steps, Transport, Verb,
};

use super::congestion::Dcqcn;
use super::error::{Place, ScenarioError};
use super::pfc::Pfc;
use super::source::{KeyPath, Seg, Source};
use roce_engine::cc::NotificationConfig;
use roce_engine::fabric::{BufferSpec, Marking, Priority, Rule, Service, Topology, Watchdog};
use roce_engine::net::Subnet;
use roce_engine::sim::FrameSizes;
use roce_engine::units::{Duration, Mtu, Rate};
use roce_engine::wire::{Encapsulation, MacAddr};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A scenario that is right in itself; whether this machine can run it is checked apart
/// ([`super::validate_cores`], [`crate::plan::Memory::check`]).
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file it came from, as named by the user.
    pub file: PathBuf,
    /// What concerns the whole run.
    pub run: Run,
    /// The ports, in file order; flows name them by index.
    pub ports: Vec<Port>,
    /// The flows, in file order; expectations name them by index.
    pub flows: Vec<Flow>,
    /// The collectives that flows are parts of, in file order.
    pub collectives: Vec<Collective>,
    /// What must hold at the end.
    pub expects: Vec<Expect>,
    /// The meeting with another process, where ports are [`Device::Remote`].
    pub connect: Option<Connect>,
    /// What goes wrong on the way, in file order.
    pub impairs: Vec<Impair>,
    /// The link between the two ports of a flow, in virtual time.
    pub link: Link,
    /// The hosts and switches between which flows go, for `rocegen sim`; its ports are in `ports`.
    pub fabric: Option<Fabric>,
    /// Ports of hosts that stop their switch.
    pub storms: Vec<Storm>,
    /// The sweep over loss, for `rocegen sim`.
    pub cliff: Option<Cliff>,
    /// The reaction point of flows under DCQCN, where it is not the usual one.
    pub dcqcn: Option<Dcqcn>,
    /// How marked packets are answered; not at all when `None`.
    pub notification: Option<NotificationConfig>,
    /// The effective TOML: the file's text with every `--set` applied.
    pub text: String,
    /// What is allowed but probably not meant, one sentence each.
    pub warnings: Vec<String>,
    /// Where every key came from.
    pub(crate) source: Source,
}

impl Scenario {
    /// An error about a key of port `port`, with the line that set it.
    pub fn port_error(&self, port: usize, key: &str, text: impl fmt::Display) -> ScenarioError {
        let text = format!("port \"{}\": key \"{key}\": {text}", self.ports[port].name);
        ScenarioError { place: self.place("port", Some(port), Some(key)), text }
    }

    /// An error about a key of flow `flow`, with the line that set it.
    pub fn flow_error(&self, flow: usize, key: &str, text: impl fmt::Display) -> ScenarioError {
        let text = format!("flow \"{}\": key \"{key}\": {text}", self.flows[flow].name);
        ScenarioError { place: self.place("flow", Some(flow), Some(key)), text }
    }

    /// What an expectation is about: a flow, or all flows of a table by its name; `None` is all there are.
    pub fn subject(&self, e: &Expect) -> Option<&str> {
        let flow = &self.flows[e.flow?];
        Some(flow.group.as_deref().filter(|_| e.flows != 1).unwrap_or(&flow.name))
    }

    /// An error about the expectation `expect`, with the line that set it.
    pub fn expect_error(&self, expect: usize, text: impl fmt::Display) -> ScenarioError {
        let e = &self.expects[expect];
        let mut path = e.path.clone();
        let place = self.source.place(&path);
        path.truncate(2);
        ScenarioError { place, text: format!("[[expect]]: key \"{}\": {text}", e.metric) }
    }

    /// The rules of all `[[impair]]`.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.impairs.iter().flat_map(|i| &i.rules)
    }

    /// The line rate that `%` and `line_rate_pct` of a flow refer to, as far as the file tells: the
    /// speed of a NIC goes before it and is known when its link is up.
    pub fn line_rate(&self, flow: &Flow) -> Option<Rate> {
        match self.ports[flow.data_from()].device {
            Device::Pci(_) => None,
            Device::Fabric => self.fabric.as_ref().map(|f| f.rate),
            _ => self.run.line_rate,
        }
    }

    /// Where a key of a section was set; the section itself where the key is left out.
    pub(crate) fn place(&self, section: &str, index: Option<usize>, key: Option<&str>) -> Place {
        let mut path: KeyPath = vec![Seg::Key(section.to_owned())];
        let table = |index: usize| match section {
            "flow" => self.flows[index].table,
            _ => index,
        };
        let index = index.map(table);
        if index == Some(super::replay::TABLE) {
            path = vec![Seg::Key("replay".to_owned())];
        } else {
            path.extend(index.map(Seg::Index));
        }
        path.extend(key.map(|k| Seg::Key(k.to_owned())));
        self.source.place(&path)
    }
}

/// `[run]`: what concerns the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How long to measure, after the warm-up; without it every flow has `messages`.
    pub duration: Option<Duration>,
    /// How long to run before measuring.
    pub warmup: Duration,
    /// How long to wait at the end for what is outstanding.
    pub drain: Duration,
    /// The span between two progress lines and statistics samples, at least 10 ms.
    pub interval: Duration,
    /// The span between two lines of `intervals.csv`; see [`Run::sample`] for the default.
    pub sample: Option<Duration>,
    /// The span over which the smallest rate of each flow is looked for.
    pub window: Option<Duration>,
    /// Whether `intervals.csv` tells queue pairs apart.
    pub per_qp: bool,
    /// Seeds every random choice; drawn and reported when left out.
    pub seed: Option<u64>,
    /// The line rate at L1 for ports that have no speed of their own.
    pub line_rate: Option<Rate>,
    /// How often received packets have their iCRC checked.
    pub icrc: IcrcCheck,
    /// Whether to take hugepages.
    pub hugepages: Hugepages,
    /// Bytes of memory that DPDK may take; sized by need when left out.
    pub memory: Option<u64>,
    /// Whether a core may be named twice: its endpoints then share one worker.
    pub share_cores: bool,
}

impl Run {
    /// The span between two readings of each flow: a 250th of what is measured where nothing else is asked
    /// for, a tenth of the window at most, and no less than `least`.
    pub fn sample(&self, least: Duration) -> Duration {
        let part = |span: Option<Duration>, of: u64| span.map(|d| d.as_nanos() / of);
        let default = part(self.duration, 250).unwrap_or(0).max(least.as_nanos());
        let fine = part(self.window, 10).unwrap_or(u64::MAX).max(1_000);
        self.sample.unwrap_or(Duration::from_nanos(default.min(fine)))
    }
}

/// How often the iCRC of received packets is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IcrcCheck {
    /// Every packet.
    #[default]
    Always,
    /// Some packets, to leave the core time at high rates.
    Sampled,
    /// None.
    Off,
}

/// Whether DPDK takes hugepages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hugepages {
    /// Where there are enough.
    #[default]
    Auto,
    /// Not even where there are.
    Never,
    /// Refuse to start without.
    Require,
}

/// `[[port]]`: an Ethernet port with one address.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Unique among ports.
    pub name: String,
    /// What is behind it.
    pub device: Device,
    /// Its address, unique among ports.
    pub ip: IpAddr,
    /// The length of its subnet's prefix; every address is a neighbour's when left out.
    pub prefix: Option<u8>,
    /// Its MAC address; the device's own, or a made-up one, when left out.
    pub mac: Option<MacAddr>,
    /// Its Ethernet MTU: the most L3 bytes of a frame.  See [`Port::l3_mtu`] for the default.
    pub mtu: Option<u16>,
    /// The VLAN its frames are tagged with, 1..=4094.
    pub vlan: Option<u16>,
    /// What its frames are.
    pub roce: Roce,
    /// The cores of its workers, one worker each; assigned at start when left out.
    pub cores: Option<Vec<usize>>,
    /// Whether it takes frames for any MAC address.
    pub promiscuous: bool,
    /// How long to wait at start for the link.
    pub link_wait: Duration,
    /// Where frames go when the other end is behind a router.
    pub next_hop_mac: Option<MacAddr>,
    /// The router to other subnets, which is asked for its MAC address.
    pub gateway: Option<IpAddr>,
    /// Neighbours that are not asked for theirs.
    pub neighbours: Vec<(IpAddr, MacAddr)>,
    /// Link-level flow control, where there is any.
    pub pfc: Option<Pfc>,
}

impl Port {
    /// One that no `[[port]]` describes: RoCEv2, and nothing set.
    pub(in crate::config) fn plain(name: String, device: Device, ip: IpAddr) -> Port {
        Port {
            name,
            device,
            ip,
            prefix: None,
            mac: None,
            mtu: None,
            vlan: None,
            roce: Roce::V2,
            cores: None,
            promiscuous: false,
            link_wait: Duration::ZERO,
            next_hop_mac: None,
            gateway: None,
            neighbours: Vec::new(),
            pfc: None,
        }
    }

    /// The L3 MTU that is set, else the one its kind of device has.
    pub fn l3_mtu(&self) -> u16 {
        self.mtu.unwrap_or_else(|| self.device.default_mtu())
    }

    /// What precedes the BTH of its frames.
    pub fn encapsulation(&self) -> Encapsulation {
        match self.roce {
            Roce::V1 => Encapsulation::Grh,
            Roce::V2 if self.ip.is_ipv6() => Encapsulation::Ipv6,
            Roce::V2 => Encapsulation::Ipv4,
        }
    }

    /// Whether `other` is in its subnet.
    pub fn is_near(&self, other: IpAddr) -> bool {
        let subnet = self.prefix.and_then(|prefix| Subnet::new(self.ip, prefix));
        subnet.is_none_or(|subnet| subnet.contains(other))
    }

    /// Whether others on its network can ask for its address, and be asked for theirs.
    pub fn can_ask(&self) -> bool {
        let driver = match &self.device {
            Device::Vdev { driver, .. } => driver.as_str(),
            Device::Pci(_) => "pci",
            _ => "",
        };
        self.roce == Roce::V2
            && matches!(driver, "pci" | "net_tap" | "net_af_packet" | "net_af_xdp" | "net_memif")
    }

    /// Whether this process drives it.
    pub fn is_local(&self) -> bool {
        !matches!(self.device, Device::None | Device::Remote | Device::Peer)
    }
}

/// The version of RoCE that a port speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roce {
    /// In Ethernet, with a GRH: not routable.
    V1,
    /// In UDP.
    #[default]
    V2,
}

/// What is behind a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// `ring:N`: one of two ports of this process that are joined by DPDK rings.
    Ring(u32),
    /// `mesh:N`: one of several ports of this process, each joined with every other by DPDK rings.
    Mesh(u32),
    /// `net_...`: a DPDK virtual device.
    Vdev {
        /// Its driver: `net_tap`.
        driver: String,
        /// What DPDK is told: `net_tap0,iface=dtap0`.
        devargs: String,
    },
    /// A PCI address with its domain: `0000:3b:00.0`.
    Pci(String),
    /// `none`: a named peer that no one answers for; needs a MAC address and takes only unreliable flows.
    None,
    /// `remote`: a port of another rocegen process, met through `[connect]`.
    Remote,
    /// A host's port of the `[fabric]`.
    Fabric,
    /// Another machine, that a flow names by its address and meets by [`Dial`].
    Peer,
}

impl Device {
    /// The L3 MTU of a port that names none.
    ///
    /// Devices whose MTU is ours to choose carry a full packet of the largest path MTU; those that
    /// lead into a kernel count as 1500, or what `framesz` holds where that is given.
    pub fn default_mtu(&self) -> u16 {
        match self {
            Device::Ring(_)
            | Device::Mesh(_)
            | Device::Pci(_)
            | Device::None
            | Device::Remote
            | Device::Fabric
            | Device::Peer => 4200,
            Device::Vdev { driver, .. } => match driver.as_str() {
                "net_null" | "net_ring" | "net_pcap" => 4200,
                "net_af_packet" => self.frame_limit().map_or(1500, |(limit, _)| limit),
                _ => 1500,
            },
        }
    }

    /// The most L3 bytes that a device option allows, and that option, where one does.
    ///
    /// The kernel puts 66 bytes before an Ethernet frame in a slot of a packet ring, the frame has
    /// 14 more before its L3 part.
    pub(crate) fn frame_limit(&self) -> Option<(u16, String)> {
        match self {
            Device::Vdev { driver, .. } if driver == "net_af_packet" => {
                let framesz: u32 = self.devarg("framesz")?.parse().ok()?;
                let limit = framesz.saturating_sub(80).min(u32::from(u16::MAX)) as u16;
                Some((limit, format!("framesz={framesz}")))
            }
            _ => None,
        }
    }

    /// The value of a `key=value` part of a virtual device's arguments.
    pub fn devarg(&self, key: &str) -> Option<&str> {
        let Device::Vdev { devargs, .. } = self else { return None };
        devargs.split(',').skip(1).find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Ring(n) => write!(f, "ring:{n}"),
            Device::Mesh(n) => write!(f, "mesh:{n}"),
            Device::Vdev { devargs, .. } => f.write_str(devargs),
            Device::Pci(address) => f.write_str(address),
            Device::None => f.write_str("none"),
            Device::Remote => f.write_str("remote"),
            Device::Fabric => f.write_str("fabric"),
            Device::Peer => f.write_str("another machine"),
        }
    }
}

/// `[connect]`: how two processes that drive the two ends of flows meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Which side this process is.
    pub role: Role,
    /// How long to wait for the other side at each step.
    pub timeout: Duration,
}

/// The side that a process takes in the meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the other side on this TCP address.
    Listen(SocketAddr),
    /// Calls the other side at this `host:port`.
    Peer(String),
}

/// `[[impair]]`: what goes wrong with some packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impair {
    /// One for each action.
    pub rules: Vec<Rule>,
}

/// `[link]`: the link between the two ports of a flow: in virtual time, and where it has a rate between
/// the two ends of a ring as well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Its rate at L1; that of the ports when left out.
    pub rate: Option<Rate>,
    /// The time from one end to the other.
    pub delay: Duration,
    /// Bytes that wait for it, where it is slower than the ports.
    pub queue_bytes: u64,
    /// Which of those that leave its queue are marked.
    pub marking: Option<Marking>,
}

/// `[fabric]`: hosts, switches and the cables between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    /// Its shape.
    pub topology: Topology,
    /// Of the cables between hosts and switches, at L1.
    pub rate: Rate,
    /// From one end of those to the other.
    pub delay: Duration,
    /// Of the cables between switches.
    pub trunk_rate: Rate,
    /// From one end of those to the other.
    pub trunk_delay: Duration,
    /// Set of the lossless priorities.
    pub lossless: u8,
    /// The buffer of every switch.
    pub buffer: BufferSpec,
    /// For each port and lossless priority; by cable when left out.
    pub headroom: Option<u64>,
    /// Which queues are marked, and when.
    pub marking: Option<Marking>,
    /// How queues are served.
    pub service: Service,
    /// Switches look at the destination queue pair too when they choose between ways.
    pub hash_queue_pairs: bool,
    /// All switches choose alike.
    pub same_seed: bool,
    /// What ends pause storms.
    pub watchdog: Option<Watchdog>,
    /// How often time series are sampled; there are none when left out.
    pub sample: Option<Duration>,
    /// How long frames are, where they are not those of RoCE over Ethernet.
    pub frames: Option<FrameSizes>,
    /// Times of frames are cut off to whole nanoseconds.
    pub whole_ns: bool,
}

/// `[[storm]]`: a host's port that pauses its switch, whatever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Index of the port.
    pub port: usize,
    /// The priority that it pauses.
    pub priority: Priority,
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub span: Duration,
}

/// `[cliff]`: one flow at every loss rate, path MTU, round trip and recovery of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Cliff {
    /// Probabilities that a packet is lost.
    pub loss: Vec<f64>,
    /// Path MTUs.
    pub mtu: Vec<Mtu>,
    /// Round-trip times, without the time that packets take on the wire.
    pub round_trip: Vec<Duration>,
    /// How what is lost is sent again.
    pub recovery: Vec<Recovery>,
}

/// One line of `[[expect]]`: a metric of the result that must hold at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// The flow it is about; the whole run when left out: sums of counts and rates, the worst of
    /// percentiles and shares.
    pub flow: Option<usize>,
    /// How many flows from that one on: those of its table.
    pub flows: usize,
    /// Its name: one of [`super::METRICS`], or `counters.` and the name of a counter.
    pub metric: String,
    /// How the result is compared.
    pub op: Op,
    /// With what: nanoseconds for times, Gb/s, 1/s, per cent or a count for the others.
    pub value: f64,
    /// As the user wrote it: `>= 98`.
    pub text: String,
    /// The key that set it.
    pub(crate) path: KeyPath,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `>=`
    Ge,
    /// `<=`
    Le,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `>`
    Gt,
    /// `<`
    Lt,
}

impl Op {
    /// Whether `got` compares to `want` so.  A value that is not a number never passes.
    pub fn holds(self, got: f64, want: f64) -> bool {
        match self {
            Op::Ge => got >= want,
            Op::Le => got <= want,
            Op::Eq => got == want,
            Op::Ne => !got.is_nan() && got != want,
            Op::Gt => got > want,
            Op::Lt => got < want,
        }
    }
}
