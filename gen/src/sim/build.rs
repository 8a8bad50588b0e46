//! From a scenario to hosts and a network.

use crate::config::{Device, Fabric, Flow, Recovery, Roce, Scenario};
use crate::measure::{Latency, Sample};
use crate::run::judges;
use crate::run::setup::{OpenedPort, PortFacts, QpPair, Setup};
use crate::workload::Generator;
use anyhow::Result;
use roce_engine::fabric::{
    BufferSpec, Cable, Framing, Network, Node, Parts, Plan, PortId, Service, Station, SwitchSpec,
};
use roce_engine::sim::{HostId, PortRef, SimFrame, SimPort, World};
use roce_engine::units::{Duration, Rate};
use roce_engine::wire::{Gid, MAX_HEADERS};
use roce_engine::worker::Worker;
use rtrb::Consumer;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The rate of ports and link where the scenario gives none.
pub(super) const RATE: Rate = Rate::from_gbps(100);

/// A scenario's world before anything has happened in it.
pub(super) struct Built {
    pub(super) world: World<Generator>,
    /// By port of the scenario.
    pub(super) hosts: Vec<Host>,
    pub(super) wires: Vec<Wire>,
    pub(super) facts: Vec<PortFacts>,
    /// The switches, where there is a fabric.
    pub(super) plan: Option<Plan>,
    pub(super) pairs: Vec<QpPair>,
    pub(super) finished: Arc<AtomicUsize>,
    pub(super) seed: u64,
}

/// A port of the scenario: a host of its own, with one worker.
pub(super) struct Host {
    pub(super) id: HostId,
    pub(super) answers: Consumer<Box<Sample>>,
}

/// Where a port's frames go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) station: Station,
    /// The port of the network behind which faults happen: its own, or that of the slow link.
    pub(super) last: PortId,
}

/// Whether nobody looks at payload: neither a check of every byte, nor a fault that may change one,
/// nor selective repeat, whose acknowledgements tell in theirs what has come.
pub(super) fn headers_only(s: &Scenario) -> bool {
    let looks = |f: &Flow| f.verify || f.recovery == Recovery::SelectiveRepeat;
    s.impairs.is_empty() && !s.flows.iter().any(looks) && s.ports.iter().all(|p| p.roce == Roce::V2)
}

/// Builds the world of a scenario.
///
/// # Errors
/// A [`crate::config::ScenarioError`]: ports that no cable can join.
pub(super) fn build(s: &Scenario) -> Result<Built> {
    let seed = s.run.seed.unwrap_or(crate::config::SEED);
    let mut net = Network::default();
    let (wires, port_rate, plan) = match &s.fabric {
        Some(fabric) => {
            let plan = switches(s, fabric, seed, &mut net);
            let wire = |station| Wire { station, last: net.port_of(station) };
            let wires = (0..s.ports.len()).map(|i| wire(Station(i as u32))).collect();
            (wires, fabric.rate, Some(plan))
        }
        None if s.ports.iter().any(|p| matches!(p.device, Device::Mesh(_))) => {
            let (wires, rate) = mesh(s, &mut net)?;
            (wires, rate, None)
        }
        None => {
            let (wires, rate) = cables(s, &mut net)?;
            (wires, rate, None)
        }
    };
    let finished = Arc::new(AtomicUsize::new(0));
    let max_frame = max_frame(s);
    let hollow = headers_only(s);
    let port = |speed: Option<u64>| match hollow {
        true => SimPort::headers_only(max_frame, speed),
        false => SimPort::new(max_frame, speed),
    };
    let cores: Vec<Vec<usize>> = (0..s.ports.len()).map(|i| vec![i]).collect();
    let open = (0..s.ports.len()).map(|index| OpenedPort {
        index,
        ios: vec![port(Some(port_rate.bps()))],
        mac: None,
        speed: Some(port_rate),
    });
    let mut setup = Setup::new(s, &cores, open.collect(), &finished, seed, &Latency::default());
    setup.in_virtual_time();
    setup.create()?;
    setup.connect(&[])?;
    let facts = setup.facts().to_vec();
    let pairs = setup.pairs().to_vec();
    let (plans, seed, streams) = setup.finish();
    let mut world = World::new(net);
    if let Some(fabric) = &s.fabric {
        if fabric.hash_queue_pairs {
            world.hash_queue_pairs();
        }
        if fabric.whole_ns {
            world.send_one_by_one();
        }
        if let Some(sizes) = fabric.frames {
            world.set_frame_sizes(sizes);
        }
    }
    let mut hosts = Vec::new();
    for (port, mut plan) in plans.into_iter().enumerate() {
        if s.run.per_qp {
            plan.app.tell_queue_pairs_apart();
        }
        let id = world.add_host(Worker::new(plan.endpoints, plan.app));
        let at = PortRef { host: id, endpoint: 0 };
        world.attach(at, wires[port].station, Gid::from(s.ports[port].ip));
        hosts.push(Host { id, answers: plan.answers });
    }
    for ((port, _), judge) in judges(s, seed, streams) {
        world.impair(wires[port].last, judge);
    }
    Ok(Built { world, hosts, wires, facts, plan, pairs, finished, seed })
}

/// The largest frame of a scenario.
fn max_frame(s: &Scenario) -> usize {
    let payload = s.flows.iter().map(|f| f.mtu.bytes()).max().unwrap_or(4096);
    (payload + MAX_HEADERS + 8).next_multiple_of(64)
}

/// Builds the switches of a fabric and its cables.
fn switches(s: &Scenario, fabric: &Fabric, seed: u64, net: &mut Network<SimFrame>) -> Plan {
    let framing = match fabric.frames {
        // What they have on the line is counted in.
        Some(_) => Framing { overhead: 0, min_frame: 0, whole_ns: fabric.whole_ns },
        None => Framing { whole_ns: fabric.whole_ns, ..Framing::ETHERNET },
    };
    let cable = |rate, delay| Cable { rate, delay, framing };
    let switch = SwitchSpec {
        buffer: fabric.buffer,
        lossless: fabric.lossless,
        headroom: fabric.headroom,
        max_frame: max_frame(s) as u32,
        service: fabric.service,
        marking: fabric.marking,
        seed,
        watchdog: fabric.watchdog,
    };
    let parts = Parts {
        edge: cable(fabric.rate, fabric.delay),
        trunk: cable(fabric.trunk_rate, fabric.trunk_delay),
        switch,
        same_seed: fabric.same_seed,
    };
    fabric.topology.build(net, &parts)
}

/// Joins the ports of each mesh by a switch that holds whatever comes: rings lose nothing either.
fn mesh(s: &Scenario, net: &mut Network<SimFrame>) -> Result<(Vec<Wire>, Rate)> {
    let link_rate = s.link.rate.or(s.run.line_rate).unwrap_or(RATE);
    let port_rate = s.run.line_rate.unwrap_or(link_rate);
    // Half of the way lies on either side of the switch.
    let delay = Duration::from_nanos(s.link.delay.as_nanos() / 2);
    let nic = Cable { rate: port_rate, delay, framing: Framing::ETHERNET };
    let link = Cable { rate: link_rate.min(port_rate), ..nic };
    let mut switches = Vec::new();
    let mut wires = Vec::new();
    for (i, port) in s.ports.iter().enumerate() {
        let Device::Mesh(number) = port.device else {
            let text = "in virtual time either all ports are of meshes or none is";
            return Err(s.port_error(i, "device", text).into());
        };
        let known = switches.iter().find(|(n, _)| *n == number).map(|(_, switch)| *switch);
        let switch = known.unwrap_or_else(|| {
            let switch = net.add_switch(endless());
            switches.push((number, switch));
            switch
        });
        let station = Station(net.stations() as u32);
        let [_, to_host] = net.join_ways(Node::Host, Node::Switch(switch), [&nic, &link]);
        net.set_route(switch, station, &[to_host]);
        wires.push(Wire { station, last: net.port_of(station) });
    }
    Ok((wires, port_rate))
}

/// A switch that loses nothing for want of room.
fn endless() -> SwitchSpec {
    SwitchSpec {
        buffer: BufferSpec {
            total: u64::MAX >> 1,
            reserve: 0,
            resume_offset: 0,
            alpha_log2: 0,
            lossy_alpha_log2: 0,
            queue_limit: None,
        },
        lossless: 0,
        headroom: Some(0),
        max_frame: 0,
        service: Service::default(),
        marking: None,
        seed: 0,
        watchdog: None,
    }
}

/// Joins the two ends of each ring by the link of the scenario; the rate of the ports.
fn cables(s: &Scenario, net: &mut Network<SimFrame>) -> Result<(Vec<Wire>, Rate)> {
    let peers = peers(s)?;
    let link_rate = s.link.rate.or(s.run.line_rate).unwrap_or(RATE);
    let port_rate = s.run.line_rate.unwrap_or(link_rate);
    let link = Cable { rate: link_rate, delay: s.link.delay, framing: Framing::ETHERNET };
    let mut wires: Vec<Option<Wire>> = vec![None; s.ports.len()];
    for (port, peer) in peers.into_iter().enumerate() {
        if wires[port].is_some() {
            continue;
        }
        let first = net.stations() as u32;
        let stations = [Station(first), Station(first + 1)];
        let last = if link_rate < port_rate {
            bottleneck(s, net, stations, port_rate, &link)
        } else {
            net.join(Node::Host, Node::Host, &link)
        };
        for ((end, station), last) in [port, peer].into_iter().zip(stations).zip(last) {
            wires[end] = Some(Wire { station, last });
        }
    }
    // Every port is somebody's peer.
    Ok((wires.into_iter().flatten().collect(), port_rate))
}

/// A link that is slower than the ports has a queue before it, in each direction: a switch between
/// the ports.
fn bottleneck(
    s: &Scenario,
    net: &mut Network<SimFrame>,
    stations: [Station; 2],
    port_rate: Rate,
    link: &Cable,
) -> [PortId; 2] {
    let nic = Cable { rate: port_rate, delay: Duration::ZERO, framing: Framing::ETHERNET };
    let mut spec = endless();
    spec.buffer.queue_limit = Some(s.link.queue_bytes);
    spec.marking = s.link.marking;
    spec.seed = s.run.seed.unwrap_or(crate::config::SEED);
    let switch = net.add_switch(spec);
    let [[_, to_a], [_, to_b]] =
        [(); 2].map(|()| net.join_ways(Node::Host, Node::Switch(switch), [&nic, link]));
    net.set_route(switch, stations[0], &[to_a]);
    net.set_route(switch, stations[1], &[to_b]);
    // What the first port sends leaves by the link to the second.
    [to_b, to_a]
}

/// The other end of each port's cable: that of its ring, or the only other port that there is.
fn peers(s: &Scenario) -> Result<Vec<usize>> {
    let peer = |(i, port): (usize, &crate::config::Port)| {
        let others = || s.ports.iter().enumerate().filter(|(o, _)| *o != i);
        let twin = others().find(|(_, o)| matches!(port.device, Device::Ring(_)) && o.device == port.device);
        let only = others().next().filter(|_| s.ports.len() == 2);
        match twin.or(only) {
            Some((peer, _)) if port.is_local() => Ok(peer),
            _ => {
                let text = "in virtual time a port is one end of a ring, as in \"ring:0\", or there are two ports of \
                            this process in all";
                Err(s.port_error(i, "device", text).into())
            }
        }
    };
    s.ports.iter().enumerate().map(peer).collect()
}
