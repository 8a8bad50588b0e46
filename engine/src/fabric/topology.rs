//! Networks of the usual shapes, given by numbers.

use super::hash::mix;
use super::network::{Cable, Network, Node, PortId, SwitchId, SwitchSpec};
use super::packet::Station;

/// The shape of a network.
///
/// Stations are numbered host by host, and in a host NIC by NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Two hosts joined by a cable.
    Direct,
    /// One switch with all hosts.
    Single {
        /// How many.
        hosts: u32,
    },
    /// Two switches joined by one cable.
    Dumbbell {
        /// Hosts of the first switch.
        left: u32,
        /// Hosts of the second.
        right: u32,
    },
    /// Leaves with hosts, each joined to every spine.
    ///
    /// The NICs of a host are on as many neighbouring leaves: NIC `n` of the hosts of a group of
    /// leaves is on the `n`th leaf of it.
    LeafSpine {
        /// Leaf switches, a multiple of `nics`.
        leaves: u32,
        /// Spine switches.
        spines: u32,
        /// Hosts of a leaf.
        hosts_per_leaf: u32,
        /// NICs of a host.
        nics: u32,
    },
}

/// What a topology is built of.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Between hosts and switches.
    pub edge: Cable,
    /// Between switches.
    pub trunk: Cable,
    /// Every switch; each gets a seed of its own, made of the one in here and its number.
    pub switch: SwitchSpec,
    /// All switches have the seed that `switch` has: whoever picks by the same hash with the same
    /// seed as the switch before it picks the same way for all flows that come from there.
    pub same_seed: bool,
}

/// A network that was built, and what its parts are called.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The switches: `leaf0`, `spine1`.
    pub switches: Vec<(String, SwitchId)>,
    /// The ports of switches, each by its switch and what it leads to: `leaf0 -> spine1`.
    pub ports: Vec<SwitchPort>,
}

/// A port of a switch in a [`Plan`].
#[derive(Clone, Debug)]
pub struct SwitchPort {
    /// The index of its switch in the plan.
    pub switch: usize,
    /// What its cable leads to.
    pub to: Neighbour,
    /// The port.
    pub port: PortId,
}

/// What a port of a switch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// A host.
    Station(Station),
    /// Another switch, by its index in the plan.
    Switch(usize),
}

impl Topology {
    /// How many stations it has.
    pub fn stations(&self) -> u32 {
        match *self {
            Topology::Direct => 2,
            Topology::Single { hosts } => hosts,
            Topology::Dumbbell { left, right } => left + right,
            Topology::LeafSpine { leaves, hosts_per_leaf, .. } => leaves * hosts_per_leaf,
        }
    }

    /// Builds it in an empty network.
    pub fn build<F>(&self, net: &mut Network<F>, parts: &Parts) -> Plan {
        let mut b = Builder { net, parts, plan: Plan::default(), edges: Vec::new() };
        match *self {
            Topology::Direct => {
                b.net.join(Node::Host, Node::Host, &parts.edge);
            }
            Topology::Single { hosts } => {
                b.add_switch("switch");
                (0..hosts).for_each(|_| b.add_station(0));
            }
            Topology::Dumbbell { left, right } => {
                b.add_switch("left");
                b.add_switch("right");
                (0..left).for_each(|_| b.add_station(0));
                (0..right).for_each(|_| b.add_station(1));
                b.join(0, 1);
                b.route_up(0, &[1]);
                b.route_up(1, &[0]);
            }
            Topology::LeafSpine { leaves, spines, hosts_per_leaf, nics } => {
                (0..leaves).for_each(|i| b.add_switch(&format!("leaf{i}")));
                (0..spines).for_each(|i| b.add_switch(&format!("spine{i}")));
                for group in 0..leaves / nics {
                    for _ in 0..hosts_per_leaf {
                        (0..nics).for_each(|nic| b.add_station((group * nics + nic) as usize));
                    }
                }
                let (leaves, spines) = (leaves as usize, spines as usize);
                let spines: Vec<usize> = (leaves..leaves + spines).collect();
                for leaf in 0..leaves {
                    spines.iter().for_each(|spine| b.join(leaf, *spine));
                }
                (0..leaves).for_each(|leaf| b.route_up(leaf, &spines));
                spines.iter().for_each(|spine| b.route_down(*spine));
            }
        }
        b.plan
    }
}

struct Builder<'a, F> {
    net: &'a mut Network<F>,
    parts: &'a Parts,
    plan: Plan,
    /// By station: its switch.
    edges: Vec<usize>,
}

impl<F> Builder<'_, F> {
    fn add_switch(&mut self, name: &str) {
        let own = if self.parts.same_seed { 0 } else { self.plan.switches.len() as u64 };
        let seed = mix(self.parts.switch.seed ^ own << 32);
        let id = self.net.add_switch(SwitchSpec { seed, ..self.parts.switch });
        self.plan.switches.push((name.to_owned(), id));
    }

    fn add_station(&mut self, switch: usize) {
        let id = self.plan.switches[switch].1;
        let [_, port] = self.net.join(Node::Host, Node::Switch(id), &self.parts.edge);
        let station = Station(self.edges.len() as u32);
        self.edges.push(switch);
        self.plan.ports.push(SwitchPort { switch, to: Neighbour::Station(station), port });
        self.net.set_route(id, station, &[port]);
    }

    fn join(&mut self, a: usize, b: usize) {
        let ends = [a, b].map(|i| Node::Switch(self.plan.switches[i].1));
        let [p, q] = self.net.join(ends[0], ends[1], &self.parts.trunk);
        self.plan.ports.push(SwitchPort { switch: a, to: Neighbour::Switch(b), port: p });
        self.plan.ports.push(SwitchPort { switch: b, to: Neighbour::Switch(a), port: q });
    }

    fn ways(&self, from: usize, to: &[usize]) -> Vec<PortId> {
        let leads = |p: &&SwitchPort| matches!(p.to, Neighbour::Switch(s) if to.contains(&s));
        self.plan.ports.iter().filter(|p| p.switch == from).filter(leads).map(|p| p.port).collect()
    }

    /// From `switch` to all stations that are not its own: by any of `via`.
    fn route_up(&mut self, switch: usize, via: &[usize]) {
        let ways = self.ways(switch, via);
        for station in (0..self.edges.len()).filter(|s| self.edges[*s] != switch) {
            self.net.set_route(self.plan.switches[switch].1, Station(station as u32), &ways);
        }
    }

    /// From `switch` to every station: by the switch of the station.
    fn route_down(&mut self, switch: usize) {
        for station in 0..self.edges.len() {
            let ways = self.ways(switch, &[self.edges[station]]);
            self.net.set_route(self.plan.switches[switch].1, Station(station as u32), &ways);
        }
    }
}
