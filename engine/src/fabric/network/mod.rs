//! Hosts, switches and the cables between them.

mod counters;
mod port;
mod run;
#[cfg(test)]
mod tests;

pub use counters::{PortCounters, PriorityCounters, Totals};
pub use run::Occurrence;

use super::buffer::{Buffer, BufferSpec};
use super::calendar::Calendar;
use super::hash::mix;
use super::packet::{Arena, Priority, Station};
use super::red::Red;
use super::scheduler::Service;
use crate::units::{Duration, Rate};
use crate::wire::{L1_OVERHEAD, MIN_FRAME};
use port::{HOST, Port};
use run::Event;

/// A port of a host or a switch: one end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub(super) u32);

impl PortId {
    /// A number below that of all ports.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(crate) fn of_index(index: u32) -> PortId {
        PortId(index)
    }
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub(super) u32);

/// What a cable ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A host; the end becomes the next [`Station`].
    Host,
    /// A switch; the end becomes its next port.
    Switch(SwitchId),
}

/// A cable, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Bits a second.
    pub rate: Rate,
    /// From the last bit in to the last bit out.
    pub delay: Duration,
    /// What a frame takes beside its bytes.
    pub framing: Framing,
}

/// How many bytes of line time a frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Added to every frame: FCS, preamble and gap.
    pub overhead: i32,
    /// Frames count as at least so many bytes, without the overhead.
    pub min_frame: u32,
    /// Its time is cut off to whole nanoseconds.
    pub whole_ns: bool,
}

impl Framing {
    /// That of Ethernet.
    pub const ETHERNET: Framing =
        Framing { overhead: L1_OVERHEAD as i32, min_frame: MIN_FRAME as u32, whole_ns: false };

    /// Bytes that a frame of `len` bytes takes.
    #[inline]
    pub fn wire_bytes(&self, len: u32) -> u32 {
        len.max(self.min_frame).saturating_add_signed(self.overhead)
    }
}

/// What a switch is made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchSpec {
    /// Its buffer.
    pub buffer: BufferSpec,
    /// Set of the lossless priorities: whoever sends too much of them is paused.
    pub lossless: u8,
    /// Headroom of a port and lossless priority; when left out, as much as the cable may still hold
    /// when the pause gets to its other end.
    pub headroom: Option<u64>,
    /// The largest frame, for the headroom.
    pub max_frame: u32,
    /// How its ports serve their queues.
    pub service: Service,
    /// Which queues are marked, and when.
    pub marking: Option<Marking>,
    /// Seeds its choice between equal ways, and its dice.
    pub seed: u64,
    /// What ends a pause storm.
    pub watchdog: Option<Watchdog>,
}

/// Marking with congestion experienced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Bytes in the queue up to which nothing is marked.
    pub kmin: u64,
    /// Bytes above which everything is.
    pub kmax: u64,
    /// Probability at `kmax`.
    pub pmax: f64,
    /// The rate of a port for which these thresholds hold; those of others are in proportion.
    pub reference: Option<Rate>,
    /// Set of the priorities that are marked.
    pub priorities: u8,
}

/// The guard against pause storms: a lossless queue that was paused without a break for `detect`,
/// and has something to send, is emptied, and what comes for it dropped, until it was not paused
/// for `restore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// How long a pause may last.
    pub detect: Duration,
    /// How long after the storm the queue is served again.
    pub restore: Duration,
}

#[derive(Debug)]
pub(super) struct Switch {
    spec: SwitchSpec,
    buffer: Buffer,
    /// By port of the switch.
    ports: Vec<u32>,
    /// By station: the first of the ways there in `ways`, and how many.
    routes: Vec<(u32, u32)>,
    ways: Vec<u32>,
}

/// Ports, switches, cables, and the packets in them; `F` is what a packet carries.
///
/// It is built once, then packets are sent into it and [`Network::next`] tells what the hosts have
/// to know.  It does nothing by chance: the same calls give the same answers.  Times are
/// picoseconds, since a packet may take a fraction of a nanosecond.
#[derive(Debug)]
pub struct Network<F> {
    now: u64,
    calendar: Calendar<Event>,
    arena: Arena<F>,
    ports: Vec<Port>,
    switches: Vec<Switch>,
    /// By station: its port.
    stations: Vec<u32>,
    /// What dropped packets carried.
    scrap: Vec<F>,
    totals: Totals,
    /// Whom something will be said to soon, and the packet that comes to it.
    soon: Vec<(Station, u32)>,
}

impl<F> Default for Network<F> {
    fn default() -> Network<F> {
        Network {
            now: 0,
            calendar: Calendar::default(),
            arena: Arena::new(),
            ports: Vec::new(),
            switches: Vec::new(),
            stations: Vec::new(),
            scrap: Vec::new(),
            totals: Totals::default(),
            soon: Vec::new(),
        }
    }
}

impl<F> Network<F> {
    /// Adds a switch.
    pub fn add_switch(&mut self, spec: SwitchSpec) -> SwitchId {
        self.switches.push(Switch {
            spec,
            buffer: Buffer::new(spec.buffer, spec.lossless),
            ports: Vec::new(),
            routes: Vec::new(),
            ways: Vec::new(),
        });
        SwitchId(self.switches.len() as u32 - 1)
    }

    /// Joins two nodes by a cable: the port at each end.
    pub fn join(&mut self, a: Node, b: Node, cable: &Cable) -> [PortId; 2] {
        self.join_ways(a, b, [cable, cable])
    }

    /// The same by a cable whose two directions differ: from `a` to `b`, and back.
    pub fn join_ways(&mut self, a: Node, b: Node, ways: [&Cable; 2]) -> [PortId; 2] {
        let first = self.ports.len() as u32;
        self.add_end(a, first + 1, ways[0]);
        self.add_end(b, first, ways[1]);
        [PortId(first), PortId(first + 1)]
    }

    /// The ways from a switch to a station: ports of the switch, equal to one another.
    pub fn set_route(&mut self, switch: SwitchId, to: Station, ways: &[PortId]) {
        let switch = &mut self.switches[switch.0 as usize];
        let index = to.0 as usize;
        if switch.routes.len() <= index {
            switch.routes.resize(index + 1, (0, 0));
        }
        let ways = ways.iter().map(|p| p.0);
        // Most stations have the same ways as the one before.
        let known = index.checked_sub(1).map(|i| switch.routes[i]).filter(|(first, n)| {
            switch.ways[*first as usize..][..*n as usize].iter().copied().eq(ways.clone())
        });
        switch.routes[index] = known.unwrap_or_else(|| {
            let first = switch.ways.len() as u32;
            switch.ways.extend(ways);
            (first, switch.ways.len() as u32 - first)
        });
    }

    /// The station of a host's port.
    pub fn station(&self, port: PortId) -> Option<Station> {
        let port = &self.ports[port.0 as usize];
        (port.owner == HOST).then_some(Station(port.local))
    }

    /// The port of a station.
    pub fn port_of(&self, station: Station) -> PortId {
        PortId(self.stations[station.0 as usize])
    }

    /// The port at the other end of the cable.
    pub fn peer(&self, port: PortId) -> PortId {
        PortId(self.ports[port.0 as usize].peer)
    }

    /// How many stations there are.
    pub fn stations(&self) -> usize {
        self.stations.len()
    }

    /// The ports of a switch.
    pub fn ports_of(&self, switch: SwitchId) -> impl Iterator<Item = PortId> + '_ {
        self.switches[switch.0 as usize].ports.iter().map(|p| PortId(*p))
    }

    /// Has [`Occurrence::Crossing`] tell of every packet that leaves by `port`.
    pub fn watch_crossings(&mut self, port: PortId) {
        let peer = self.peer(port);
        self.ports[peer.0 as usize].judged = true;
    }

    /// What a port counted.
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.ports[port.0 as usize].counters()
    }

    /// How long the queues of `port` were paused, one after the other, until now.
    pub fn paused(&self, port: PortId, priority: Priority) -> Duration {
        let port = &self.ports[port.0 as usize];
        let rare = &port.rare[priority.index()];
        let under_way = if port.paused & priority.bit() != 0 { self.now - rare.paused_since } else { 0 };
        Duration::from_nanos((rare.paused_ps + under_way) / 1000)
    }

    /// Whether some priority of a port may not be sent now.
    pub fn is_paused(&self, port: PortId) -> bool {
        self.ports[port.0 as usize].paused != 0
    }

    /// Bytes that wait at a port.
    pub fn queued(&self, port: PortId, priority: Priority) -> u64 {
        self.ports[port.0 as usize].lanes[priority.index()].queue.bytes
    }

    /// Frames that wait at a port or are just being sent.
    #[inline]
    pub fn backlog(&self, port: PortId) -> usize {
        let port = &self.ports[port.0 as usize];
        port.frames as usize + usize::from(port.busy_until > self.now)
    }

    /// How many frames a host may hand to its port, which is to hold at most `ahead`: none while it
    /// sends, so that they come in batches and the line is busy all the same.
    #[inline]
    pub fn room(&self, port: PortId, ahead: usize) -> usize {
        let port = &self.ports[port.0 as usize];
        if port.busy_until > self.now { 0 } else { ahead.saturating_sub(port.frames as usize) }
    }

    /// Bytes in the buffer of a switch: now, and at most.
    pub fn buffer(&self, switch: SwitchId) -> (u64, u64) {
        let buffer = &self.switches[switch.0 as usize].buffer;
        (buffer.used(), buffer.peak)
    }

    /// What became of all packets.
    pub fn totals(&self) -> Totals {
        Totals { inside: self.arena.len() as u64, ..self.totals }
    }

    fn add_end(&mut self, node: Node, peer: u32, cable: &Cable) {
        let id = self.ports.len() as u32;
        let mut port = Port::new(peer, cable);
        match node {
            Node::Host => {
                port.local = self.stations.len() as u32;
                self.stations.push(id);
            }
            Node::Switch(switch) => {
                let index = switch.0;
                let switch = &mut self.switches[index as usize];
                let spec = &switch.spec;
                port.owner = index;
                port.local = switch.ports.len() as u32;
                port.serve(spec.service);
                port.dice.0 = mix(spec.seed ^ u64::from(port.local) << 40 ^ u64::from(index) << 20);
                if let Some(marking) = &spec.marking {
                    port.marked = marking.priorities;
                    port.red = marking.at(cable.rate);
                }
                switch.ports.push(id);
                switch.buffer.add_port(spec.headroom.unwrap_or_else(|| cable.headroom(spec.max_frame)));
            }
        }
        self.ports.push(port);
    }
}

impl Marking {
    fn at(&self, rate: Rate) -> Red {
        let scale = |bytes: u64| match self.reference {
            Some(reference) => {
                (u128::from(bytes) * u128::from(rate.bps()) / u128::from(reference.bps().max(1))) as u64
            }
            None => bytes,
        };
        Red::new(scale(self.kmin), scale(self.kmax), self.pmax)
    }
}

impl Cable {
    /// Picoseconds that a frame of `len` bytes takes at its rate.
    pub fn time_of(&self, len: u32) -> u64 {
        let bits = u128::from(self.framing.wire_bytes(len)) * 8 * 1_000_000_000_000;
        u64::try_from(bits / u128::from(self.rate.bps().max(1))).unwrap_or(u64::MAX)
    }

    /// What may still come in after a port has decided to pause its peer: the frame that it is
    /// just sending and the pause frame go first, the peer ends the frame that it is sending, and
    /// the cable is full both ways.
    pub fn headroom(&self, max_frame: u32) -> u64 {
        let in_flight = u128::from(self.rate.bps()) * u128::from(self.delay.as_nanos()) * 2 / 8_000_000_000;
        in_flight as u64
            + u64::from(self.framing.wire_bytes(MIN_FRAME as u32))
            + 3 * u64::from(self.framing.wire_bytes(max_frame))
    }
}
