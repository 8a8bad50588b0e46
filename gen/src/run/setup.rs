//! From a scenario and open ports to workers with connected queue pairs.

mod reach;

use super::EnvironmentError;
use super::connect::{FlowInfo, Meeting, QpInfo};
use super::talk::Granted;
use super::worker::Plan;
use crate::config::{
    self, Arrival, Control, Dcqcn, Device, Flow, FlowRate, IcrcCheck, Layer, Roce, Scenario, ScenarioError,
    Transport, Verb,
};
use crate::measure::{Latency, Sample};
use crate::plan::{FlowPlan, Mean, base_round_trip, frames_of};
use crate::random::Random;
use crate::workload::{
    Arrivals, Generator, Ideal, Lane, LaneSpec, Layout, Pace, Places, SharedReceives, Side, front, side_depth,
};
use anyhow::Result;
use roce_engine::cc::{Aimd, PaceUnit, Pacer, Preset, RateControl, ReactionPoint, Spacing};
use roce_engine::fabric::Stream;
use roce_engine::io::PacketIo;
use roce_engine::transport::{QpConfig, Recovery};
use roce_engine::units::{Psn, Qpn, Rate};
use roce_engine::verbs::{
    Access, Datagram, InitAttrs, MrKey, Pd, QpType, RtrAttrs, RtsAttrs, Srqn, Transition, UdAttrs,
};
use roce_engine::wire::{Gid, MacAddr, Route, Vlan, source_port};
use roce_engine::worker::{Endpoint, EndpointConfig, crossings};
use rtrb::RingBuffer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The protection domain of all that a run registers.
const PD: Pd = Pd(1);
/// Frames between two workers of a port.
const CROSSING_DEPTH: usize = 512;

/// A port of the run, ours or not.
#[derive(Clone, Debug)]
pub(crate) struct PortFacts {
    pub(crate) mac: MacAddr,
    /// The line rate: of the link, or the one that the scenario gives.
    pub(crate) line_rate: Option<Rate>,
}

/// An open port: what each of its workers has of it.
#[derive(Debug)]
pub(crate) struct OpenedPort<I> {
    /// Its index in the scenario.
    pub(crate) index: usize,
    /// One for each worker.
    pub(crate) ios: Vec<I>,
    /// Its own MAC address.
    pub(crate) mac: Option<MacAddr>,
    /// Its own speed.
    pub(crate) speed: Option<Rate>,
}

/// What sends the packets of a stream: worker, and endpoint on it.
pub(crate) type Sender = (usize, usize);

/// One side of a queue pair, made and not yet connected.
#[derive(Clone, Copy, Debug)]
struct Half {
    /// Index of the worker, and of the endpoint on it.
    at: (usize, usize),
    qpn: Qpn,
    info: QpInfo,
    places: Places,
    shared: Option<SharedReceives>,
}

/// The queue pairs of a flow, those sides that are ours.
#[derive(Debug, Default)]
struct FlowHalves {
    from: Vec<Half>,
    to: Vec<Half>,
}

/// Workers under construction.
#[derive(Debug)]
pub(crate) struct Setup<'a, I: PacketIo> {
    scenario: &'a Scenario,
    facts: Vec<PortFacts>,
    workers: Vec<Plan<I>>,
    /// The packets that our sides will send, where the scenario has use for that.
    streams: Vec<(Sender, Stream)>,
    /// By port of the scenario, by share: worker and endpoint.
    shares: Vec<Vec<(usize, usize)>>,
    halves: Vec<FlowHalves>,
    /// Queue pairs both of whose sides are ours.
    pairs: Vec<QpPair>,
    /// By port of ours and other port: the MAC address that leads there, where it was asked for or set by hand.
    hops: BTreeMap<(usize, usize), MacAddr>,
    /// By flow: what another machine grants it.
    granted: BTreeMap<usize, Granted>,
    seed: u64,
    random: Random,
    /// Whether cables have the delays that the scenario gives.
    virtual_time: bool,
}

/// A queue pair of a flow: worker, endpoint on it, and number of each side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpPair {
    pub(crate) flow: usize,
    pub(crate) qp: u32,
    pub(crate) from: (Sender, Qpn),
    pub(crate) to: (Sender, Qpn),
}

impl<'a, I: PacketIo> Setup<'a, I> {
    /// Distributes the ports over workers, one for each core.  Latencies are recorded in copies of
    /// `latency`, which is empty.
    pub(crate) fn new(
        scenario: &'a Scenario,
        cores: &[Vec<usize>],
        open: Vec<OpenedPort<I>>,
        finished: &Arc<AtomicUsize>,
        seed: u64,
        latency: &Latency,
    ) -> Setup<'a, I> {
        let mut random = Random::new(seed);
        let facts = port_facts(scenario, &open, &mut random);
        let mut by_core: BTreeMap<usize, Vec<(usize, Endpoint<I>)>> = BTreeMap::new();
        for OpenedPort { index, ios, .. } in open {
            let port_cores = &cores[index];
            let many = port_cores.len() > 1;
            let mut rings = crossings(if many { port_cores.len() } else { 0 }, CROSSING_DEPTH).into_iter();
            for (share, (io, core)) in ios.into_iter().zip(port_cores).enumerate() {
                let pfc = scenario.ports[index].pfc.as_ref();
                let config = EndpointConfig {
                    vlan: scenario.ports[index].vlan,
                    rocev1: scenario.ports[index].roce == Roce::V1,
                    icrc: match scenario.run.icrc {
                        IcrcCheck::Always => roce_engine::worker::IcrcCheck::Always,
                        IcrcCheck::Sampled => roce_engine::worker::IcrcCheck::Sampled,
                        IcrcCheck::Off => roce_engine::worker::IcrcCheck::Off,
                    },
                    share: share as u32,
                    workers: port_cores.len() as u32,
                    secret: random.next(),
                    notification: scenario.notification,
                    priorities: pfc.map(|p| p.map).unwrap_or_default(),
                    pause: pfc
                        .zip(facts[index].line_rate)
                        .and_then(|(p, speed)| p.config(speed, facts[index].mac)),
                    exact: scenario.fabric.as_ref().is_some_and(|f| f.whole_ns),
                };
                let mut endpoint = Endpoint::new(io, config, rings.next());
                if share == 0 {
                    if let Some(host) = reach::host_of(scenario, index, facts[index].mac) {
                        endpoint.set_host(host);
                    }
                }
                by_core.entry(*core).or_default().push((index, endpoint));
            }
        }
        let flows = scenario.flows.len();
        let mut shares = vec![Vec::new(); scenario.ports.len()];
        let workers = by_core
            .into_iter()
            .enumerate()
            .map(|(worker, (core, list))| {
                let (ports, endpoints): (Vec<usize>, Vec<_>) = list.into_iter().unzip();
                for (at, port) in ports.iter().enumerate() {
                    shares[*port].push((worker, at));
                }
                let (answers_in, answers) = RingBuffer::<Box<Sample>>::new(4);
                let app = Generator::new(ports.clone(), answers_in, Arc::clone(finished), latency.clone());
                Plan { core, ports, endpoints, app, answers, kept: Vec::new() }
            })
            .collect();
        let halves = (0..flows).map(|_| FlowHalves::default()).collect();
        Setup {
            scenario,
            facts,
            workers,
            streams: Vec::new(),
            shares,
            halves,
            pairs: Vec::new(),
            hops: BTreeMap::new(),
            granted: BTreeMap::new(),
            seed,
            random,
            virtual_time: false,
        }
    }

    /// Says that cables have the delays that the scenario gives.
    pub(crate) fn in_virtual_time(&mut self) {
        self.virtual_time = true;
    }

    /// What became of the ports.
    pub(crate) fn facts(&self) -> &[PortFacts] {
        &self.facts
    }

    /// The queue pairs that were connected, both of whose sides are ours.
    pub(crate) fn pairs(&self) -> &[QpPair] {
        &self.pairs
    }

    /// Makes the queue pairs and buffers of all our sides.
    pub(crate) fn create(&mut self) -> Result<()> {
        for f in 0..self.scenario.flows.len() {
            let flow = &self.scenario.flows[f];
            for side in [Side::Sender, Side::Receiver] {
                let port = if side == Side::Sender { flow.from } else { flow.to };
                if self.scenario.ports[port].is_local() {
                    let mut srqs = BTreeMap::new();
                    let halves = (0..flow.qps)
                        .map(|q| self.create_half(f, port, side, q, &mut srqs))
                        .collect::<Result<Vec<_>>>()?;
                    match side {
                        Side::Sender => self.halves[f].from = halves,
                        Side::Receiver => self.halves[f].to = halves,
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a queue pair and its buffers; `srqs` are the shared receive queues of its side so far,
    /// one on each endpoint.
    fn create_half(
        &mut self,
        f: usize,
        port: usize,
        side: Side,
        q: u32,
        srqs: &mut BTreeMap<(usize, usize), Srqn>,
    ) -> Result<Half> {
        let flow = &self.scenario.flows[f];
        let shares = &self.shares[port];
        let at = shares[q as usize % shares.len()];
        let endpoint = &mut self.workers[at.0].endpoints[at.1];
        let fail = |e: String| EnvironmentError(format!("flow \"{}\": {e}", flow.name));
        let (sends, receives) = match side {
            Side::Sender => (side_depth(flow, side), 0),
            Side::Receiver => (0, if flow.takes_recv() { side_depth(flow, side) } else { 0 }),
        };
        let shared = flow.srq.filter(|_| side == Side::Receiver).map(|all| {
            let first = !srqs.contains_key(&at);
            let srqn = *srqs.entry(at).or_insert_with(|| endpoint.create_srq(all));
            let part = all / flow.qps + u32::from(q < all % flow.qps);
            // None stays empty for ever, where queue pairs are spread over more queues than that.
            SharedReceives { srqn, entries: part.max(u32::from(first)) }
        });
        let config = QpConfig {
            qpn: Qpn::new(0),
            ty: qp_type(flow),
            pd: PD,
            max_send_wr: sends,
            max_recv_wr: receives,
            srq: shared.map(|s| s.srqn),
            credits: flow.credits,
            window: flow.window,
            ack_interval: flow.ack_interval,
            recovery: recovery_of(flow),
        };
        let qpn = endpoint.create_qp(config).map_err(|e| fail(e.to_string()))?;
        let layout = Layout::of(flow, side);
        let mut access = if side == Side::Receiver { remote_access(flow) } else { Access::LOCAL_WRITE };
        if side == Side::Receiver && !flow.reads_only() {
            access = access | Access::LOCAL_WRITE;
        }
        let region = endpoint
            .memory_mut()
            .register(PD, layout.bytes() as usize, access)
            .map_err(|e| fail(e.to_string()))?;
        let psn = flow.psn.unwrap_or_else(|| Psn::new(self.random.next() as u32));
        let places = layout.places(region.va, region.key);
        let info = QpInfo { qpn: qpn.get(), psn: psn.get(), va: region.va, rkey: region.key.0 };
        Ok(Half { at, qpn, info, places, shared })
    }

    /// What the other process must know of our sides.
    pub(super) fn tell(&self) -> Vec<FlowInfo> {
        let mut told = Vec::new();
        for (flow, halves) in self.scenario.flows.iter().zip(&self.halves) {
            for (port, remote, ours) in [(flow.from, flow.to, &halves.from), (flow.to, flow.from, &halves.to)]
            {
                if self.scenario.ports[remote].device == Device::Remote {
                    told.push(FlowInfo {
                        name: flow.name.clone(),
                        agreed: agreed(flow),
                        port: self.scenario.ports[port].name.clone(),
                        mac: self.facts[port].mac.to_string(),
                        qps: ours.iter().map(|h| h.info).collect(),
                    });
                }
            }
        }
        told
    }

    /// Meets the other process: learns its sides, agrees on a seed.
    pub(super) fn meet(&mut self, meeting: &mut Meeting) -> Result<Vec<FlowInfo>> {
        let (seed, told) = meeting.exchange(self.seed, self.tell())?;
        self.seed = seed;
        for info in &told {
            let Some(port) = self.scenario.ports.iter().position(|p| p.name == info.port) else { continue };
            if let Ok(mac) = info.mac.parse() {
                self.facts[port].mac = mac;
            }
        }
        Ok(told)
    }

    /// Connects all queue pairs, with what the other process told of its own.
    pub(crate) fn connect(&mut self, told: &[FlowInfo]) -> Result<()> {
        for f in 0..self.scenario.flows.len() {
            let flow = &self.scenario.flows[f];
            let halves = std::mem::take(&mut self.halves[f]);
            let pacers = self.pacing(f)?;
            let control = self.rate_control(f)?;
            for q in 0..flow.qps {
                let theirs = |port: usize| -> Result<QpInfo> {
                    if self.scenario.ports[port].device == Device::None {
                        // Nobody answers: any numbers do.
                        return Ok(QpInfo { qpn: 2 + q, psn: 0, va: 0, rkey: 0 });
                    }
                    if let Some(granted) = self.granted.get(&f) {
                        return Ok(granted.qps[q as usize]);
                    }
                    let info = told.iter().find(|i| i.name == flow.name).and_then(|i| i.qps.get(q as usize));
                    info.copied().ok_or_else(|| {
                        EnvironmentError(format!(
                            "connect: the other side told no queue pair {q} of flow \"{}\"",
                            flow.name
                        ))
                        .into()
                    })
                };
                let from = halves.from.get(q as usize).copied();
                let to = halves.to.get(q as usize).copied();
                let from_info = from.map_or_else(|| theirs(flow.from), |h| Ok(h.info))?;
                let to_info = to.map_or_else(|| theirs(flow.to), |h| Ok(h.info))?;
                if self.scenario.rules().next().is_some() {
                    self.note_streams((f, q), (from, from_info), (to, to_info));
                }
                if let (Some(from), Some(to)) = (from, to) {
                    self.pairs.push(QpPair {
                        flow: f,
                        qp: q,
                        from: (from.at, from.qpn),
                        to: (to.at, to.qpn),
                    });
                }
                if let Some(half) = from {
                    self.connect_half(f, q, Side::Sender, half, to_info, (pacers.as_ref(), &control));
                }
                if let Some(half) = to {
                    self.connect_half(f, q, Side::Receiver, half, from_info, (None, &control));
                }
            }
        }
        Ok(())
    }

    /// Notes the packets that our sides of a queue pair will send.
    fn note_streams(
        &mut self,
        (f, q): (usize, u32),
        from: (Option<Half>, QpInfo),
        to: (Option<Half>, QpInfo),
    ) {
        let flow = &self.scenario.flows[f];
        let reads = flow.reads_only();
        for (own, peer, remote, backward) in [(from, to.1, flow.to, reads), (to, from.1, flow.from, !reads)] {
            let Some(half) = own.0 else { continue };
            let stream = Stream {
                dest: Gid::from(self.scenario.ports[remote].ip),
                dest_qpn: Qpn::new(peer.qpn),
                flow: f as u32,
                qp: q,
                backward,
                first_request: Psn::new(own.1.psn),
                first_response: Psn::new(peer.psn),
                window: flow.window,
            };
            self.streams.push((half.at, stream));
        }
    }

    fn connect_half(
        &mut self,
        f: usize,
        q: u32,
        side: Side,
        half: Half,
        peer: QpInfo,
        (pacer, control): (Option<&Pacer>, &RateControl),
    ) {
        let flow = &self.scenario.flows[f];
        let (own, other) = match side {
            Side::Sender => (flow.from, flow.to),
            Side::Receiver => (flow.to, flow.from),
        };
        let route = self.route(flow, own, other, half.qpn, Qpn::new(peer.qpn));
        let mut remote = Layout::of(flow, side.other()).places(peer.va, MrKey(peer.rkey));
        if flow.dial.is_some() {
            // All that another machine grants is one buffer.
            remote = Places::one(remote.write);
        }
        let reads = self.granted.get(&f).map_or(flow.max_rd_atomic, |g| g.reads.min(flow.max_rd_atomic));
        let mut seed = Random::new(self.seed ^ (f as u64) << 32 ^ u64::from(q));
        let payload_seed = seed.next();
        // Without the high bit, which would ask for the sender's own.
        let qkey = seed.next() as u32 & 0x7FFF_FFFF;
        let access = remote_access(flow);
        let arrivals = self.arrivals(f, q);
        let base = base_round_trip(self.scenario, flow, self.virtual_time);
        let line = self.facts[flow.data_from()].line_rate;
        let ideal = line.map(|line| Ideal { byte_ns: 8e9 / line.bps() as f64, base });
        let datagrams = [
            Transition::InitUd(UdAttrs { pkey: 0xFFFF, qkey, own: route.src, mtu: flow.mtu }),
            Transition::RtrUd,
            Transition::RtsUd(Psn::new(half.info.psn)),
        ];
        let connection = [
            Transition::Init(InitAttrs { access, pkey: 0xFFFF }),
            Transition::Rtr(Box::new(RtrAttrs {
                route,
                mtu: flow.mtu,
                dest_qpn: Qpn::new(peer.qpn),
                rq_psn: Psn::new(peer.psn),
                max_dest_rd_atomic: flow.max_rd_atomic,
                min_rnr_timer: flow.min_rnr_timer,
            })),
            Transition::Rts(RtsAttrs {
                sq_psn: Psn::new(half.info.psn),
                timeout: flow.ack_timeout,
                retry_cnt: flow.retry_cnt,
                rnr_retry: flow.rnr_retry,
                max_rd_atomic: reads,
            }),
        ];
        let plan = &mut self.workers[half.at.0];
        let endpoint = &mut plan.endpoints[half.at.1];
        for step in if flow.transport == Transport::Ud { datagrams } else { connection } {
            // The scenario's ranges are those of the attributes.
            if let Some(Err(e)) = endpoint.modify_qp(half.qpn, step) {
                log::error!("flow \"{}\": queue pair {q}: {e}", flow.name);
            }
        }
        if let Some(qp) = endpoint.qp_mut(half.qpn) {
            qp.set_pacer(pacer.cloned());
            qp.set_rate_control(control.clone());
        }
        let ah = endpoint.create_ah(half.qpn, &route);
        plan.app.add(Lane::new(LaneSpec {
            flow: f,
            index: q,
            endpoint: half.at.1,
            qpn: half.qpn,
            side,
            qps: flow.qps,
            per_qp: flow.per_qp,
            traffic: Arc::clone(&flow.traffic),
            script: flow.scripts.as_ref().map(|s| Arc::clone(&s[q as usize])),
            frames: frames_of(self.scenario, flow).into(),
            ideal,
            unreliable: !flow.transport.is_reliable(),
            seed: payload_seed,
            mtu: flow.mtu,
            depth: side_depth(flow, side),
            verify: flow.verify,
            messages: flow.scripts.as_ref().map(|s| s[q as usize].messages()).or(flow.messages),
            steps: flow.steps.clone(),
            arrivals,
            start: flow.start,
            local: half.places,
            remote,
            front: front(flow.transport, side),
            datagram: ah.map(|ah| Datagram { ah, qpn: Qpn::new(peer.qpn), qkey, imm: None }),
            shared: half.shared,
        }));
    }

    /// The workers, with buffers filled and receive requests posted; the seed of the run, and what
    /// the workers will send.
    pub(crate) fn finish(mut self) -> (Vec<Plan<I>>, u64, Vec<(Sender, Stream)>) {
        for plan in &mut self.workers {
            plan.app.prepare(&mut plan.endpoints);
        }
        (self.workers, self.seed, self.streams)
    }

    fn route(&self, flow: &Flow, own: usize, other: usize, qpn: Qpn, peer: Qpn) -> Route {
        let (port, remote) = (&self.scenario.ports[own], &self.scenario.ports[other]);
        Route {
            src_mac: self.facts[own].mac,
            dst_mac: port
                .next_hop_mac
                .or(self.hops.get(&(own, other)).copied())
                .unwrap_or(self.facts[other].mac),
            vlan: port.vlan.map(|vid| Vlan { pcp: flow.pcp, dei: false, vid }),
            src: Gid::from(port.ip),
            dst: Gid::from(remote.ip),
            tos: flow.tos,
            hop_limit: flow.hop_limit,
            flow_label: 0,
            sport: source_port(qpn, peer, 0),
        }
    }

    /// The congestion control of each queue pair of a flow, on both sides: a READ's data comes from
    /// the other one.
    fn rate_control(&self, f: usize) -> Result<RateControl, ScenarioError> {
        let flow = &self.scenario.flows[f];
        if flow.cc == Control::None {
            return Ok(RateControl::Fixed);
        }
        let Some(line) = self.facts[flow.data_from()].line_rate else {
            let text =
                "congestion control begins at the line rate: this port reports none, set [run] line_rate";
            return Err(self.scenario.flow_error(f, "cc", text));
        };
        if flow.cc == Control::Aimd {
            return Ok(RateControl::Aimd(Box::new(Aimd::new(line))));
        }
        let usual = Dcqcn::new(Preset::Nvidia);
        let params = self.scenario.dcqcn.as_ref().unwrap_or(&usual).params(line);
        match params.check() {
            Ok(()) => {
                let spacing = self.scenario.fabric.as_ref().map_or_else(Spacing::default, |f| Spacing {
                    headers: f.frames.map(|sizes| sizes.headers),
                    whole_ns: f.whole_ns,
                });
                Ok(RateControl::Dcqcn(Box::new(ReactionPoint::new(params, line).spaced(spacing))))
            }
            Err(e) => Err(self.scenario.flow_error(f, "cc", format_args!("at {line}: {e}"))),
        }
    }

    /// When the messages of queue pair `q` of a flow are due.
    fn arrivals(&self, f: usize, q: u32) -> Arrivals {
        let flow = &self.scenario.flows[f];
        let line = self.facts[flow.data_from()].line_rate;
        let asked = |rate| Mean::of(self.scenario, flow).asked(rate, line);
        let Some(rate) = flow.open_rate().and_then(asked).map(|rates| rates.messages) else {
            return match flow.arrival {
                Arrival::Closed { think } => Arrivals::Closed { think },
                // Without a line rate a share of it is refused before.
                _ => Arrivals::CLOSED,
            };
        };
        let pace = Pace::new(rate, flow.qps, q);
        match flow.arrival {
            Arrival::Poisson => Arrivals::Poisson { mean_ns: f64::from(flow.qps) / rate * 1e9 },
            Arrival::OnOff { on, off } => Arrivals::OnOff { pace, on, off },
            Arrival::Constant | Arrival::Closed { .. } => Arrivals::Even(pace),
        }
    }

    /// The pacer of each queue pair of a flow.
    fn pacing(&self, f: usize) -> Result<Option<Pacer>, ScenarioError> {
        let flow = &self.scenario.flows[f];
        if matches!(flow.load, Some(FlowRate::Percent(_))) && self.facts[flow.data_from()].line_rate.is_none()
        {
            let text = "a share needs a line rate: this port reports none, set [run] line_rate";
            return Err(self.scenario.flow_error(f, "load", text));
        }
        let plan = FlowPlan::of(self.scenario, flow);
        let packet = plan.middle.unwrap_or(plan.first);
        let (unit, total) = match flow.rate {
            FlowRate::Unlimited | FlowRate::Messages(_) => return Ok(None),
            FlowRate::Percent(percent) => {
                let Some(line) = self.facts[flow.data_from()].line_rate else {
                    let text = "a share needs a line rate: this port reports none, set [run] line_rate";
                    return Err(self.scenario.flow_error(f, "rate", text));
                };
                (PaceUnit::L1, line.percent(percent).bps() as f64)
            }
            FlowRate::Bits { rate, layer: Layer::L1 } => (PaceUnit::L1, rate.bps() as f64),
            FlowRate::Bits { rate, layer: Layer::L2 } => (PaceUnit::L2, rate.bps() as f64),
            FlowRate::Bits { rate, layer: Layer::Goodput } => (PaceUnit::Goodput, rate.bps() as f64),
            FlowRate::Packets(rate) => (PaceUnit::Packets, rate),
        };
        let each = total / f64::from(flow.qps);
        let bytes = if unit == PaceUnit::Goodput { packet.payload } else { packet.l2 };
        match Pacer::new(unit, each, flow.burst, bytes) {
            Some(pacer) => Ok(Some(pacer)),
            None => Err(self.scenario.flow_error(f, "rate", "out of the range that can be paced")),
        }
    }
}

/// What the peer of a flow's sender lets it do with its memory.
fn remote_access(flow: &Flow) -> Access {
    let mut access = Access::NONE;
    if flow.traffic.has(|v| matches!(v, Verb::Write | Verb::WriteImm)) {
        access = access | Access::REMOTE_WRITE;
    }
    if flow.traffic.has(|v| v == Verb::Read) {
        access = access | Access::REMOTE_READ;
    }
    access
}

fn qp_type(flow: &Flow) -> QpType {
    match flow.transport {
        Transport::Rc => QpType::Rc,
        Transport::Uc => QpType::Uc,
        Transport::Ud => QpType::Ud,
    }
}

/// All that both processes must have equal in a flow.
fn agreed(flow: &Flow) -> String {
    // Each side draws the sizes for itself.
    let sizes = match flow.traffic.is_fixed() && flow.traffic.kinds().len() == 1 {
        true => flow.size.to_string(),
        false => format!("{} (mean {:.3} B)", flow.traffic.describe(), flow.traffic.mean_size()),
    };
    let recovery = match flow.recovery {
        config::Recovery::GoBackN => flow.recovery.to_string(),
        // What one side sends, the other must have room to keep.
        config::Recovery::SelectiveRepeat => format!("{} window {}", flow.recovery, flow.window),
    };
    format!(
        "verb {} transport {} size {} qps {} depth {} mtu {} verify {} max_rd_atomic {} recovery {recovery}",
        flow.verb_name(),
        flow.transport,
        sizes,
        flow.qps,
        flow.depth,
        flow.mtu,
        flow.verify,
        flow.max_rd_atomic
    )
}

fn recovery_of(flow: &Flow) -> Recovery {
    match flow.recovery {
        config::Recovery::GoBackN => Recovery::GoBackN,
        config::Recovery::SelectiveRepeat => Recovery::SelectiveRepeat { low_timeout: flow.ack_timeout_low },
    }
}

fn port_facts<I>(s: &Scenario, open: &[OpenedPort<I>], random: &mut Random) -> Vec<PortFacts> {
    s.ports
        .iter()
        .enumerate()
        .map(|(index, port)| {
            let opened = open.iter().find(|p| p.index == index);
            let own = opened.and_then(|p| p.mac).filter(|mac| !mac.is_zero());
            let made_up = {
                let r = random.next().to_le_bytes();
                MacAddr([0x02, r[0], r[1], r[2], r[3], r[4]])
            };
            PortFacts {
                mac: port.mac.or(own).unwrap_or(made_up),
                line_rate: opened.and_then(|p| p.speed).or(s.run.line_rate),
            }
        })
        .collect()
}
