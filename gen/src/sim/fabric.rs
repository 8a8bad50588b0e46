//! What is measured of a fabric.

use super::build::Built;
use crate::config::Scenario;
use crate::measure::QueueTimeline;
use crate::report::{FabricMeasure, FabricPortMeasure, SwitchMeasure};
use roce_engine::fabric::{Neighbour, Plan, PortId, Priority, Station, Topology};
use roce_engine::units::{Duration, Instant};

/// A port of the fabric, and what it is called.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) port: PortId,
    pub(super) name: String,
    pub(super) to: String,
    pub(super) trunk: bool,
}

/// The ports of switches, then those of hosts.
pub(super) fn named(s: &Scenario, built: &Built) -> Vec<Named> {
    let Some(plan) = &built.plan else { return Vec::new() };
    let switch = |i: usize| plan.switches[i].0.clone();
    let station = |st: Station| s.ports[st.0 as usize].name.clone();
    let of_switches = plan.ports.iter().map(|p| Named {
        port: p.port,
        name: switch(p.switch),
        to: match p.to {
            Neighbour::Station(st) => station(st),
            Neighbour::Switch(other) => switch(other),
        },
        trunk: matches!(p.to, Neighbour::Switch(_)),
    });
    let of_hosts = built.wires.iter().map(|wire| Named {
        port: built.world.net().port_of(wire.station),
        name: station(wire.station),
        to: neighbour_of(s, plan, wire.station),
        trunk: false,
    });
    of_switches.chain(of_hosts).collect()
}

/// What the cable of a host's port leads to.
fn neighbour_of(s: &Scenario, plan: &Plan, station: Station) -> String {
    match plan.ports.iter().find(|p| p.to == Neighbour::Station(station)) {
        Some(p) => plan.switches[p.switch].0.clone(),
        // Two hosts and nothing between them.
        None => s.ports[1 - station.0 as usize].name.clone(),
    }
}

/// The line time that each of the ports has used so far.
pub(super) fn line_times(built: &Built, ports: &[Named]) -> Vec<u64> {
    ports.iter().map(|p| built.world.net().counters(p.port).tx_ps).collect()
}

/// Looks at the queues of switches now and then.
#[derive(Debug)]
pub(super) struct Watch {
    /// The ports of switches come first.
    switches: usize,
    pub(super) timeline: QueueTimeline,
    /// Pauses that were asked for until the look before; `None` before the first.
    pauses: Option<u64>,
}

impl Watch {
    pub(super) fn new(built: &Built) -> Watch {
        let switches = built.plan.as_ref().map_or(0, |plan| plan.ports.len());
        Watch { switches, timeline: QueueTimeline::default(), pauses: None }
    }

    /// Looks; the first look begins.
    pub(super) fn look(&mut self, built: &Built, ports: &[Named], at: Instant) {
        if self.switches == 0 {
            return;
        }
        let net = built.world.net();
        let sent = |p: &Named| net.counters(p.port).priorities.iter().map(|c| c.pauses_sent).sum::<u64>();
        let pauses = ports.iter().map(sent).sum();
        let Some(before) = self.pauses.replace(pauses) else { return };
        let waiting = |p: &Named| Priority::ALL.iter().map(|priority| net.queued(p.port, *priority)).sum();
        let bytes = ports[..self.switches].iter().map(waiting).collect();
        self.timeline.push(at, bytes, pauses - before);
    }
}

/// The measure of a fabric, where there is one; `busy` is the line time that each port used in the
/// span `elapsed`.
pub(super) fn measure(
    s: &Scenario,
    built: &Built,
    ports: &[Named],
    busy: &[u64],
    elapsed: Duration,
    queues: QueueTimeline,
) -> Option<FabricMeasure> {
    let (fabric, plan) = (s.fabric.as_ref()?, built.plan.as_ref()?);
    let net = built.world.net();
    let paused = |port| Priority::ALL.iter().fold(Duration::ZERO, |sum, p| sum + net.paused(port, *p));
    Some(FabricMeasure {
        topology: match fabric.topology {
            Topology::Direct => "direct",
            Topology::Single { .. } => "single",
            Topology::Dumbbell { .. } => "dumbbell",
            Topology::LeafSpine { .. } => "leaf-spine",
        },
        switches: plan
            .switches
            .iter()
            .map(|(name, id)| SwitchMeasure { name: name.clone(), buffer_peak: net.buffer(*id).1 })
            .collect(),
        ports: ports
            .iter()
            .zip(busy)
            .map(|(p, busy)| FabricPortMeasure {
                name: p.name.clone(),
                to: p.to.clone(),
                trunk: p.trunk,
                counters: net.counters(p.port),
                busy: Duration::from_nanos(busy / 1000),
                elapsed,
                paused: paused(p.port),
            })
            .collect(),
        totals: net.totals(),
        queues,
    })
}
