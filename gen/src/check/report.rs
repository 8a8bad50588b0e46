//! The report as data, in the form that `--json` prints.

use crate::config::{Arrival, Device, Flow, FlowRate, Hugepages, IcrcCheck, Layer, Roce, Role, Scenario};
use crate::plan::{FlowPlan, Mean, Memory, Packet, Rates, dead_peer};
use roce_engine::fabric::{Rule, Way};
use roce_engine::units::Duration;
use serde::Serialize;

/// What a run would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Names the form: `rocegen-check-1`.
    pub schema: &'static str,
    /// The scenario file.
    pub file: String,
    /// What is allowed but probably not meant.
    pub warnings: Vec<String>,
    /// What concerns the whole run.
    pub run: RunReport,
    /// The ports, in file order.
    pub ports: Vec<PortReport>,
    /// The flows, in file order.
    pub flows: Vec<FlowReport>,
    /// Memory of message buffers.
    pub memory: MemoryReport,
    /// What goes wrong on purpose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultReport>,
    /// What must hold at the end.
    pub expectations: Vec<ExpectReport>,
}

/// One rule of `[[impair]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultReport {
    /// The table, from 0.
    pub table: usize,
    /// What is done.
    pub action: &'static str,
    /// To the packets of which flow; null for all.
    pub flow: Option<String>,
    /// `data`, `ack` or `both`: in which direction of the flow.
    pub direction: &'static str,
    /// Counted from the first; null for all.
    pub psn: Option<i64>,
    /// The how-manieth time that it passes; null for all.
    pub pass: Option<u32>,
    /// With which probability.
    pub probability: f64,
}

/// What concerns the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// How long it measures; null where message counts end it.
    pub duration_s: Option<f64>,
    /// How long it runs before it measures.
    pub warmup_s: f64,
    /// How long it waits for what is outstanding.
    pub drain_s: f64,
    /// The line rate that is given for ports without a speed of their own.
    pub line_rate_gbps: Option<f64>,
    /// Where the seed is given.
    pub seed: Option<u64>,
    /// `always`, `sampled` or `off`.
    pub icrc: &'static str,
    /// `auto`, `never` or `require`.
    pub hugepages: &'static str,
    /// The other process: `listen ADDRESS` or `peer HOST:PORT`.
    pub connect: Option<String>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortReport {
    /// Its name.
    pub name: String,
    /// What is behind it.
    pub device: String,
    /// Its address.
    pub ip: String,
    /// Its MAC address, where the scenario gives it.
    pub mac: Option<String>,
    /// Its L3 MTU; null where another process or no one has the port and none is given.
    pub mtu: Option<u16>,
    /// Its VLAN.
    pub vlan: Option<u16>,
    /// Whether it speaks RoCEv1.
    pub rocev1: bool,
    /// The cores of its workers on this machine.
    pub cores: Vec<usize>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// The port that posts.
    pub from: String,
    /// The other port.
    pub to: String,
    /// What is posted.
    pub verb: &'static str,
    /// `rc`, `uc` or `ud`.
    pub transport: &'static str,
    /// Bytes of a message, of the largest where they differ.
    pub size_bytes: u32,
    /// The sizes, and the kinds, in words, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<String>,
    /// Queue pairs.
    pub qps: u32,
    /// Work requests outstanding on each.
    pub depth: u32,
    /// Path MTU.
    pub mtu: usize,
    /// Messages per queue pair, where they end the flow.
    pub messages: Option<u64>,
    /// Whether payload is checked.
    pub verify: bool,
    /// What it does about congestion: `none` or `dcqcn`.
    pub cc: &'static str,
    /// Packets of a message.
    pub packets_per_message: u32,
    /// The first, or only, packet.
    pub first_packet: PacketReport,
    /// Each packet between, where there are such.
    pub middle_packet: Option<PacketReport>,
    /// The last of several packets.
    pub last_packet: Option<PacketReport>,
    /// The request of a READ.
    pub request_packet: Option<PacketReport>,
    /// Bytes of a message's frames without FCS.
    pub message_l2_bytes: u64,
    /// Bytes of line time of a message.
    pub message_l1_bytes: u64,
    /// The most of the line rate that payload can take.
    pub ceiling_pct: f64,
    /// The rate as asked: `98%`, `10 Gb/s L1`, `unlimited`.
    pub rate: String,
    /// The same in every unit; null where it is not paced, or the line rate is not known yet.
    pub asked: Option<RatesReport>,
    /// What the line allows, where its rate is known.
    pub at_line_rate: Option<RatesReport>,
    /// When a peer that is gone is noticed; null where it never is.
    pub dead_peer_s: Option<[f64; 2]>,
    /// Bytes of its buffers in this process.
    pub memory_bytes: u64,
    #[serde(skip)]
    pub(super) timer: String,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PacketReport {
    /// Payload without padding.
    pub payload_bytes: u32,
    /// The frame without FCS.
    pub l2_bytes: u32,
    /// With FCS, preamble and gap.
    pub l1_bytes: u32,
}

/// One rate in every unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatesReport {
    /// With FCS, preamble and gap.
    pub l1_gbps: f64,
    /// Frames without FCS.
    pub l2_gbps: f64,
    /// Payload.
    pub goodput_gbps: f64,
    /// Packets with payload per second.
    pub packet_rate: f64,
    /// Messages per second.
    pub message_rate: f64,
}

/// Memory of message buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// What all flows take in this process.
    pub needed_bytes: u64,
    /// What is free.
    pub available_bytes: Option<u64>,
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectReport {
    /// The flow, or null for the whole run.
    pub flow: Option<String>,
    /// What is looked at.
    pub metric: String,
    /// The comparison, as in `>= 98`.
    pub want: String,
}

impl Report {
    pub(super) fn new(s: &Scenario, cores: &[Vec<usize>], memory: &Memory, available: Option<u64>) -> Report {
        Report {
            schema: "rocegen-check-1",
            file: s.file.display().to_string(),
            warnings: s.warnings.clone(),
            run: run(s),
            ports: ports(s, cores),
            flows: s.flows.iter().zip(&memory.flows).map(|(f, &bytes)| flow(s, f, bytes)).collect(),
            memory: MemoryReport { needed_bytes: memory.total(), available_bytes: available },
            faults: faults(s),
            expectations: expectations(s),
        }
    }
}

fn faults(s: &Scenario) -> Vec<FaultReport> {
    let tables = s.impairs.iter().enumerate().flat_map(|(t, i)| i.rules.iter().map(move |r| (t, r)));
    let fault = |(table, r): (usize, &Rule)| FaultReport {
        table,
        action: r.action.kind().as_str(),
        flow: r.flow.map(|f| s.flows[f as usize].name.clone()),
        direction: match r.way {
            Way::Forward => "data",
            Way::Backward => "ack",
            Way::Both => "both",
        },
        psn: r.psn,
        pass: r.pass,
        probability: r.chance.probability(),
    };
    tables.map(fault).collect()
}

fn run(s: &Scenario) -> RunReport {
    RunReport {
        duration_s: s.run.duration.map(|d| d.as_secs_f64()),
        warmup_s: s.run.warmup.as_secs_f64(),
        drain_s: s.run.drain.as_secs_f64(),
        line_rate_gbps: s.run.line_rate.map(|r| r.as_gbps()),
        seed: s.run.seed,
        icrc: match s.run.icrc {
            IcrcCheck::Always => "always",
            IcrcCheck::Sampled => "sampled",
            IcrcCheck::Off => "off",
        },
        hugepages: match s.run.hugepages {
            Hugepages::Auto => "auto",
            Hugepages::Never => "never",
            Hugepages::Require => "require",
        },
        connect: s.connect.as_ref().map(|c| match &c.role {
            Role::Listen(address) => format!("listen {address}"),
            Role::Peer(peer) => format!("peer {peer}"),
        }),
    }
}

fn ports(s: &Scenario, cores: &[Vec<usize>]) -> Vec<PortReport> {
    let port = |(p, cores): (&crate::config::Port, &Vec<usize>)| PortReport {
        name: p.name.clone(),
        device: p.device.to_string(),
        ip: p.ip.to_string(),
        mac: p.mac.map(|m| m.to_string()),
        mtu: p.mtu.or_else(|| p.is_local().then(|| p.l3_mtu())),
        vlan: p.vlan,
        rocev1: p.roce == Roce::V1,
        cores: cores.clone(),
    };
    s.ports.iter().zip(cores).map(port).collect()
}

fn flow(s: &Scenario, f: &Flow, memory_bytes: u64) -> FlowReport {
    let plan = FlowPlan::of(s, f);
    let (line, mean) = (s.line_rate(f), Mean::of(s, f));
    FlowReport {
        name: f.name.clone(),
        from: s.ports[f.from].name.clone(),
        to: s.ports[f.to].name.clone(),
        verb: f.verb_name(),
        transport: f.transport.as_str(),
        size_bytes: f.size,
        sizes: sizes(f),
        qps: f.qps,
        depth: f.depth,
        mtu: f.mtu.bytes(),
        messages: f.messages,
        verify: f.verify,
        cc: f.cc.as_str(),
        packets_per_message: plan.packets,
        first_packet: plan.first.into(),
        middle_packet: plan.middle.map(Into::into),
        last_packet: plan.last.map(Into::into),
        request_packet: plan.request.map(Into::into),
        message_l2_bytes: plan.l2_bytes,
        message_l1_bytes: plan.l1_bytes,
        ceiling_pct: plan.ceiling_pct(),
        rate: asked_in_words(f, line.is_some()),
        asked: mean.asked(f.asked_rate(), line).map(Into::into),
        at_line_rate: line.map(|line| mean.at_line_rate(line).into()),
        dead_peer_s: dead_peer(f).map(|(a, b)| [a.as_secs_f64(), b.as_secs_f64()]),
        memory_bytes,
        timer: timer(s, f),
    }
}

/// What is asked for, and how it is due.
fn asked_in_words(f: &Flow, line_known: bool) -> String {
    let due = match f.arrival {
        Arrival::Closed { think } if think != Duration::ZERO => format!(", {think} to think"),
        Arrival::Closed { .. } => String::new(),
        Arrival::Constant if f.load.is_none() => String::new(),
        Arrival::Constant => ", due at even times".to_owned(),
        Arrival::Poisson => ", due at random (Poisson)".to_owned(),
        Arrival::OnOff { on, off } => format!(", due for {on}, not due for {off}"),
    };
    let paced = match (f.load, f.rate) {
        (None, _) | (_, FlowRate::Unlimited) => String::new(),
        (Some(_), paced) => format!(", paced to {}", rate(paced, line_known)),
    };
    format!("{}{due}{paced}", rate(f.asked_rate(), line_known))
}

/// The rate as people write it.
fn rate(rate: FlowRate, line_known: bool) -> String {
    match rate {
        FlowRate::Unlimited => "unlimited".to_owned(),
        FlowRate::Percent(p) if line_known => format!("{p}% of line rate"),
        FlowRate::Percent(p) => format!("{p}% of the port's own speed, known when its link is up"),
        FlowRate::Bits { rate, layer: Layer::Goodput } => format!("{rate} goodput"),
        FlowRate::Bits { rate, layer } => format!("{rate} at {}", layer.as_str().to_uppercase()),
        FlowRate::Packets(n) => format!("{n} packets/s"),
        FlowRate::Messages(n) => format!("{n} messages/s"),
    }
}

/// What messages there are, where they differ.
fn sizes(f: &Flow) -> Option<String> {
    let plain = f.traffic.is_fixed() && f.traffic.kinds().len() == 1;
    (!plain).then(|| format!("{}; mean {:.0} B", f.traffic.describe(), f.traffic.mean_size()))
}

/// How, or why not, a peer that is gone is noticed.
fn timer(s: &Scenario, f: &Flow) -> String {
    if !f.transport.is_reliable() {
        return match s.ports[f.to].device {
            Device::None => "no one is there".to_owned(),
            _ => format!("never noticed: {} has no acknowledgements", f.transport),
        };
    }
    match dead_peer(f) {
        None => "never noticed: ack_timeout is 0".to_owned(),
        Some((least, most)) => format!(
            "noticed after {:.2} s to {:.2} s ({} waits of 1 to 4 times {})",
            least.as_secs_f64(),
            most.as_secs_f64(),
            f.retry_cnt + 1,
            crate::plan::ack_timer(f.ack_timeout)
        ),
    }
}

fn expectations(s: &Scenario) -> Vec<ExpectReport> {
    let expect = |e: &crate::config::Expect| ExpectReport {
        flow: s.subject(e).map(str::to_owned),
        metric: e.metric.clone(),
        want: e.text.clone(),
    };
    s.expects.iter().map(expect).collect()
}

impl From<Packet> for PacketReport {
    fn from(p: Packet) -> PacketReport {
        PacketReport { payload_bytes: p.payload, l2_bytes: p.l2, l1_bytes: p.l1 }
    }
}

impl From<Rates> for RatesReport {
    fn from(r: Rates) -> RatesReport {
        RatesReport {
            l1_gbps: r.l1_bps / 1e9,
            l2_gbps: r.l2_bps / 1e9,
            goodput_gbps: r.goodput_bps / 1e9,
            packet_rate: r.packets,
            message_rate: r.messages,
        }
    }
}
