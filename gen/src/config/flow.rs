//! `[[flow]]`.

use super::dial::{check_dialed, read_dial};
use super::error::ScenarioError;
use super::model::{
    Arrival, Collective, Control, Flow, FlowRate, Layer, Port, Recovery, Steps, Transport, Verb,
};
use super::pattern::read_pairs;
use super::quantity::parse_flow_rate;
use super::read::Table;
use super::sections::check_name;
use super::traffic::{read_arrival, read_traffic};
use super::validate::{largest_mtu, overhead};
use crate::workload::{Traffic, receive_depth};
use roce_engine::units::{Duration, Mtu, Psn, Rate};
use roce_engine::wire::{Ecn, Encapsulation};
use std::sync::Arc;

/// What flows need to know that is not in their table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) ports: &'a [Port],
    /// What holds where a flow has no `cc`.
    pub(super) control: Control,
    /// What is known of the link.
    pub(super) path: Option<KnownLink>,
    /// Of what is left to chance.
    pub(super) seed: u64,
}

/// Reads the flows that table number `table` stands for.
pub(super) fn read_flows(
    t: &Table<'_>,
    table: usize,
    around: Around<'_>,
    flows: &mut Vec<Flow>,
    collectives: &mut Vec<Collective>,
) -> Result<(), ScenarioError> {
    let Around { ports, seed, .. } = around;
    let name = t.need("name", t.text("name")?)?;
    check_name(name).map_err(|e| t.error("name", e))?;
    let pairs = read_pairs(t, ports, seed)?;
    let first = flows.len();
    let cut = pairs.collective.map(|(_, ranks)| read_cut(t, ranks as u64)).transpose()?;
    for (i, pair) in pairs.list.iter().enumerate() {
        let traffic = read_traffic(t, cut.and_then(|c| c.size))?;
        let mut flow = read_flow(t, pair.from, pair.to, around, traffic)?;
        flow.table = table;
        flow.name = if pairs.single { name.to_owned() } else { format!("{name}.{i}") };
        flow.group = (!pairs.single).then(|| name.to_owned());
        if let (Some(part), Some(cut)) = (&pair.part, cut) {
            let pieces = part.shares * cut.pieces;
            let wait = |w: &(usize, u64)| (first + w.0, w.1);
            let waits: Vec<Vec<_>> = part.waits.iter().map(|w| w.iter().map(wait).collect()).collect();
            let steps = Steps { collective: collectives.len(), pieces, waits };
            flow.messages = cut.iterations.map(|n| n.saturating_mul(steps.messages())).or(flow.messages);
            flow.steps = Some(Arc::new(steps));
            if !flow.traffic.is_fixed() || flow.traffic.kinds().len() != 1 {
                let key = if t.has("mix") { "mix" } else { "sizes" };
                return Err(t.clash("pattern", key, "all messages of its steps are of one kind and size"));
            }
            if flow.traffic.has(|v| v == Verb::Read) {
                return Err(t.clash(
                    "pattern",
                    "verb",
                    "a step ends where its message arrives: READ has no such end",
                ));
            }
            if flow.arrival != (Arrival::Closed { think: Duration::ZERO }) {
                let keys = ["arrival", "load", "think_time", "rate"];
                let key = keys.into_iter().find(|k| t.has(k)).unwrap_or("arrival");
                let text = "messages wait for those before them, not for the clock";
                return Err(t.clash("pattern", key, text));
            }
        }
        flows.push(flow);
    }
    if let (Some((pattern, ranks)), Some(cut)) = (pairs.collective, cut) {
        let flow = &flows[first];
        let share = u64::from(flow.size) * cut.pieces * u64::from(flow.qps);
        collectives.push(Collective {
            name: name.to_owned(),
            pattern: pattern.as_str(),
            ranks,
            bytes: share * ranks as u64,
            iterations: cut.iterations,
            steps: pattern.steps(ranks),
            factor: pattern.factor(ranks as u64),
        });
    }
    Ok(())
}

/// How the buffer of a collective is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Bytes of a message, where they follow from the buffer.
    size: Option<u32>,
    /// Messages of a share of the buffer on each queue pair.
    pieces: u64,
    iterations: Option<u64>,
}

/// Reads the buffer and the largest message, or the messages of a share.
fn read_cut(t: &Table<'_>, ranks: u64) -> Result<Cut, ScenarioError> {
    let iterations = t.integer("iterations")?;
    if iterations.is_some() && t.has("messages") {
        return Err(t.clash("iterations", "messages", "both say when it ends"));
    }
    let Some(bytes) = t.size("bytes")? else {
        if t.has("chunk") {
            return Err(t.error("chunk", "cuts \"bytes\", which is missing"));
        }
        return Ok(Cut { size: None, pieces: t.integer("pieces")?.unwrap_or(1), iterations });
    };
    for key in ["size", "sizes", "mix", "pieces"] {
        if t.has(key) {
            let text = "the size of messages follows from the buffer and \"chunk\"";
            return Err(t.clash("bytes", key, text));
        }
    }
    let chunk = t.size("chunk")?.unwrap_or(1 << 20);
    if !(1..=1 << 31).contains(&chunk) {
        return Err(t.error("chunk", "must be from 1 byte to 2GiB"));
    }
    let qps: u64 = t.integer("qps")?.unwrap_or(1);
    let parts = ranks * qps;
    let share = bytes / parts;
    if share == 0 || !bytes.is_multiple_of(parts) {
        let text = format!(
            "{ranks} ports with {qps} queue pairs each cannot share it evenly: make it a multiple of {parts}"
        );
        return Err(t.error("bytes", text));
    }
    // All messages are of one size; a share with few divisors is cut finer than asked.
    let least = share.div_ceil(chunk);
    let Some(pieces) = (least..=least.saturating_mul(4)).find(|n| share.is_multiple_of(*n)) else {
        let text = format!(
            "a share of {share} bytes cannot be cut into equal messages of {chunk} bytes or little less"
        );
        return Err(t.clash("bytes", "chunk", text));
    };
    Ok(Cut { size: Some((share / pieces) as u32), pieces, iterations })
}

/// Reads one flow with these messages.
pub(super) fn read_flow(
    t: &Table<'_>,
    from: usize,
    to: usize,
    around: Around<'_>,
    traffic: Traffic,
) -> Result<Flow, ScenarioError> {
    let Around { ports, control, path, .. } = around;
    if ports[from].ip.is_ipv4() != ports[to].ip.is_ipv4() {
        let text = format!(
            "ports of two address families: {} has {}, {} has {}",
            ports[from].name, ports[from].ip, ports[to].name, ports[to].ip
        );
        return Err(t.clash("from", "to", text));
    }
    let transport = read_transport(t, &traffic)?;
    let (least, size) = traffic.bounds();
    let mtu = read_mtu(t, &ports[from], &ports[to])?;
    let size_key = ["size", "sizes", "mix"].into_iter().find(|k| t.has(k)).unwrap_or("size");
    let reads = traffic.kinds().iter().filter(|k| k.verb == Verb::Read);
    if reads.into_iter().any(|k| mtu.packets(k.sizes.bounds().1) >= 1 << 23) {
        let text =
            format!("a READ of 2^23 packets or more is not possible: lower it or raise mtu from {mtu}");
        return Err(t.error(size_key, text));
    }
    if transport == Transport::Ud && size as usize > mtu.bytes() {
        let text = format!("a datagram is one packet: at most {mtu} bytes, the path MTU");
        return Err(t.error(size_key, text));
    }
    let verify = t.flag("verify")?.unwrap_or(false);
    if verify && !transport.is_reliable() && least < 8 {
        let text = "messages of less than 8 bytes cannot be told apart where some may be lost";
        return Err(t.error("verify", text));
    }
    let cc = t
        .word("cc", &[Control::None, Control::Dcqcn, Control::Aimd].map(|c| (c.as_str(), c)))?
        .unwrap_or(control);
    let qps = t.integer("qps")?.unwrap_or(1);
    let depth = t.integer("depth")?.unwrap_or(16);
    let srq = read_srq(t, &traffic, qps * receive_depth(transport, depth))?;
    let recovery = read_recovery(t, transport)?;
    let window = read_window(t, recovery, mtu, path)?;
    let rate = read_rate(t, size)?;
    let (arrival, load) = read_arrival(t, rate)?;
    let flow = Flow {
        name: String::new(),
        group: None,
        table: 0,
        steps: None,
        scripts: None,
        from,
        to,
        dial: read_dial(t)?,
        verb: traffic.kinds()[0].verb,
        arrival,
        load,
        per_qp: t.flag("per_qp")?.unwrap_or(false),
        base_rtt: t.duration("base_rtt")?,
        transport,
        size,
        qps,
        depth,
        start: t.duration("start")?.unwrap_or(Duration::ZERO),
        mtu,
        rate,
        burst: t.integer("burst")?.unwrap_or(16),
        messages: t.integer("messages")?,
        verify,
        tos: read_tos(t, cc)?,
        pcp: read_pcp(t)?,
        hop_limit: t.integer("hop_limit")?.unwrap_or(64),
        ack_timeout: t.integer("ack_timeout")?.unwrap_or(14),
        retry_cnt: t.integer("retry_cnt")?.unwrap_or(7),
        rnr_retry: t.integer("rnr_retry")?.unwrap_or(7),
        min_rnr_timer: t.integer("min_rnr_timer")?.unwrap_or(12),
        max_rd_atomic: t.integer("max_rd_atomic")?.unwrap_or(16),
        ack_interval: t.integer("ack_interval")?.unwrap_or(16),
        window,
        psn: t.integer("psn")?.map(Psn::new),
        cc,
        srq,
        credits: read_credits(t, &traffic, transport, srq.is_some())?,
        traffic: Arc::new(traffic),
        recovery,
        ack_timeout_low: read_low_timeout(t, recovery)?,
    };
    check_dialed(t, ports, &flow)?;
    Ok(flow)
}

/// A link whose rate and delay are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownLink {
    pub(crate) rate: Rate,
    pub(crate) round_trip: Duration,
}

impl KnownLink {
    /// The window of selective repeat: the packets of four round trips.  A packet that is lost holds
    /// the window for two, one that is lost again for three.
    pub(crate) fn window(self, mtu: Mtu) -> u32 {
        let packet = self.rate.time_of(mtu.bytes() as u64).as_nanos().max(1);
        let packets = (4 * self.round_trip.as_nanos()).div_ceil(packet);
        packets.clamp(64, u64::from(roce_engine::transport::Recovery::MAX_WINDOW)) as u32
    }
}

fn read_recovery(t: &Table<'_>, transport: Transport) -> Result<Recovery, ScenarioError> {
    let recovery = t.word("recovery", &Recovery::ALL.map(|r| (r.as_str(), r)))?.unwrap_or(Recovery::GoBackN);
    if recovery == Recovery::SelectiveRepeat && transport != Transport::Rc {
        return Err(t.clash("recovery", "transport", "nothing is sent again but on transport = \"rc\""));
    }
    Ok(recovery)
}

fn read_window(
    t: &Table<'_>,
    recovery: Recovery,
    mtu: Mtu,
    path: Option<KnownLink>,
) -> Result<u32, ScenarioError> {
    const DEFAULT: u32 = 1024;
    let window = t.integer("window")?;
    let most = roce_engine::transport::Recovery::MAX_WINDOW;
    match (recovery, window) {
        (Recovery::GoBackN, window) => Ok(window.unwrap_or(DEFAULT)),
        (Recovery::SelectiveRepeat, Some(window)) if window > most => Err(t.clash(
            "window",
            "recovery",
            format_args!("selective repeat keeps at most {most} packets out of order, not {window}"),
        )),
        (Recovery::SelectiveRepeat, window) => {
            Ok(window.or(path.map(|path| path.window(mtu))).unwrap_or(DEFAULT))
        }
    }
}

fn read_low_timeout(t: &Table<'_>, recovery: Recovery) -> Result<u8, ScenarioError> {
    match (recovery, t.integer("ack_timeout_low")?) {
        (Recovery::GoBackN, Some(_)) => {
            Err(t.error("ack_timeout_low", "belongs to recovery = \"selective-repeat\""))
        }
        (_, code) => Ok(code.unwrap_or(0)),
    }
}

fn read_transport(t: &Table<'_>, traffic: &Traffic) -> Result<Transport, ScenarioError> {
    const WORDS: [(&str, Transport); 3] =
        [("rc", Transport::Rc), ("uc", Transport::Uc), ("ud", Transport::Ud)];
    let transport = t.word("transport", &WORDS)?.unwrap_or(Transport::Rc);
    let key = if t.has("mix") { "mix" } else { "verb" };
    match transport {
        Transport::Uc if traffic.has(|v| v == Verb::Read) => {
            Err(t.clash(key, "transport", "READ needs transport = \"rc\""))
        }
        Transport::Ud if traffic.has(|v| !matches!(v, Verb::Send | Verb::SendImm)) => {
            let text = "datagrams are sent: write verb = \"send\" or \"send_imm\"";
            Err(t.clash(key, "transport", text))
        }
        _ => Ok(transport),
    }
}

/// The receive requests that are shared: all that the queue pairs would have, or a number.
fn read_srq(t: &Table<'_>, traffic: &Traffic, all: u32) -> Result<Option<u32>, ScenarioError> {
    let Some(value) = t.get("srq") else { return Ok(None) };
    let entries = match (value.get_ref().as_bool(), t.integer("srq")) {
        (Some(false), _) => return Ok(None),
        (None, Ok(Some(entries))) => entries,
        (None, _) => return Err(t.error("srq", "must be true, false or a number of requests, at least 1")),
        (Some(true), _) => all,
    };
    check_receives(t, traffic, "srq")?;
    if entries > all {
        let text = format!("more than the {all} receive requests that its queue pairs would have apart");
        return Err(t.error("srq", text));
    }
    Ok(Some(entries))
}

/// That messages take receive requests, which `key` is about.
fn check_receives(t: &Table<'_>, traffic: &Traffic, key: &str) -> Result<(), ScenarioError> {
    if traffic.has(Verb::takes_recv) {
        return Ok(());
    }
    match t.has("mix") {
        true => Err(t.clash("mix", key, "none of its messages takes a receive request")),
        false => {
            let verb = traffic.kinds()[0].verb;
            Err(t.clash("verb", key, format_args!("\"{verb}\" takes no receive requests")))
        }
    }
}

fn read_credits(
    t: &Table<'_>,
    traffic: &Traffic,
    transport: Transport,
    shared: bool,
) -> Result<bool, ScenarioError> {
    if !t.flag("credits")?.unwrap_or(false) {
        return Ok(false);
    }
    if !transport.is_reliable() {
        return Err(t.clash("transport", "credits", "credits come with acknowledgements"));
    }
    check_receives(t, traffic, "credits")?;
    if shared {
        return Err(t.clash("srq", "credits", "receive requests that are shared are promised to nobody"));
    }
    Ok(true)
}

/// The path MTU that is set, where both ports carry it; else the largest that they do.
fn read_mtu(t: &Table<'_>, from: &Port, to: &Port) -> Result<Mtu, ScenarioError> {
    let narrow = if to.l3_mtu() < from.l3_mtu() { to } else { from };
    let room = narrow.l3_mtu();
    // A GRH is as long as an IPv6 header; that no UDP header follows changes no path MTU.
    let v6 = narrow.encapsulation() != Encapsulation::Ipv4;
    let fits = largest_mtu(room, v6);
    let Some(value) = t.get("mtu") else {
        return fits.ok_or_else(|| {
            t.fail(format_args!("port \"{}\" of MTU {room} carries no path MTU", narrow.name))
        });
    };
    let number = value.get_ref().as_integer().and_then(|n| n.as_str().parse().ok());
    let Some(mtu) = number.and_then(Mtu::from_bytes) else {
        return Err(t.error("mtu", "a path MTU is one of 256, 512, 1024, 2048, 4096"));
    };
    let need = mtu.bytes() + usize::from(overhead(v6));
    if need <= usize::from(room) {
        return Ok(mtu);
    }
    let ladder = match fits {
        Some(fits) => format!("of 256, 512, 1024, 2048, 4096 it carries at most {fits}"),
        None => "it carries not even 256".to_owned(),
    };
    Err(t.error(
        "mtu",
        format_args!("packets of up to {need} B do not fit port \"{}\" of MTU {room}; {ladder}", narrow.name),
    ))
}

fn read_rate(t: &Table<'_>, size: u32) -> Result<FlowRate, ScenarioError> {
    const LAYERS: [(&str, Layer); 3] = [("l1", Layer::L1), ("l2", Layer::L2), ("goodput", Layer::Goodput)];
    let layer = t.word("layer", &LAYERS)?;
    let rate = t.parse("rate", |text| parse_flow_rate(text, layer.unwrap_or_default()))?;
    let Some(rate) = rate else {
        return match layer {
            None => Ok(FlowRate::Unlimited),
            Some(_) => Err(t.error("layer", "there is no \"rate\" that it could belong to")),
        };
    };
    match (rate, layer) {
        (FlowRate::Bits { layer: Layer::Goodput, .. }, _) if size == 0 => {
            Err(t.clash("size", "layer", "messages of 0 bytes have no goodput to pace"))
        }
        (FlowRate::Bits { .. }, _) | (_, None) => Ok(rate),
        (FlowRate::Percent(_), Some(_)) if layer != Some(Layer::L1) => {
            Err(t.clash("rate", "layer", "a rate in % is a share of line rate, at \"l1\""))
        }
        (FlowRate::Percent(_), Some(_)) => Ok(rate),
        (_, Some(_)) => Err(t.clash("rate", "layer", "a layer belongs to a rate in bit/s, as in \"10Gbps\"")),
    }
}

/// The traffic class byte from `dscp` or `traffic_class`, and `ecn`, which congestion control turns on.
fn read_tos(t: &Table<'_>, cc: Control) -> Result<u8, ScenarioError> {
    let dscp: Option<u8> = t.integer("dscp")?;
    let class: Option<u8> = t.integer("traffic_class")?;
    if let Some(class) = class
        && class & 0b11 != 0
    {
        return Err(t.error("traffic_class", "its low two bits are ECN: leave them 0 and write ecn = true"));
    }
    let upper = match (dscp.map(|d| d << 2), class) {
        (Some(a), Some(b)) if a != b => {
            let text = format!("traffic_class is dscp x 4: dscp {} would be {a}, not {b}", a >> 2);
            return Err(t.clash("dscp", "traffic_class", text));
        }
        (a, b) => a.or(b).unwrap_or(0),
    };
    let ecn = t.flag("ecn")?.unwrap_or(cc == Control::Dcqcn);
    Ok(upper | if ecn { Ecn::Ect0 as u8 } else { 0 })
}

/// The VLAN priority from `pcp` or `sl`, which is the same number.
fn read_pcp(t: &Table<'_>) -> Result<u8, ScenarioError> {
    let pcp: Option<u8> = t.integer("pcp")?;
    let sl: Option<u8> = t.integer("sl")?;
    match (pcp, sl) {
        (Some(a), Some(b)) if a != b => {
            Err(t.clash("pcp", "sl", format_args!("the service level is the priority: {a} is not {b}")))
        }
        _ => Ok(pcp.or(sl).unwrap_or(0)),
    }
}
