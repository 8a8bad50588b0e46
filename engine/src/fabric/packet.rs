//! What the fabric knows of a packet, and where packets wait.

use super::hash::FlowHash;
use prefetch_index::prefetch_index;

/// A priority, 0 ..= 7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Priorities of a port.
    pub const COUNT: usize = 8;

    /// All of them, ascending.
    pub const ALL: [Priority; Priority::COUNT] = [
        Priority(0),
        Priority(1),
        Priority(2),
        Priority(3),
        Priority(4),
        Priority(5),
        Priority(6),
        Priority(7),
    ];

    /// The priority `number`; `None` above 7.
    pub const fn new(number: u8) -> Option<Priority> {
        if number < 8 { Some(Priority(number)) } else { None }
    }

    /// What a port that trusts the DSCP takes it for, unless told otherwise: its upper three bits.
    #[inline]
    pub const fn of_dscp(dscp: u8) -> Priority {
        Priority(dscp >> 3 & 7)
    }

    /// Its number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Its bit in a set of priorities.
    #[inline]
    pub const fn bit(self) -> u8 {
        1 << self.0
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where packets come from and go to: a port of a host, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station(pub u32);

/// What switches need to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where it goes.
    pub to: Station,
    /// Of what a switch with several ways spreads flows by.
    pub hash: FlowHash,
    /// Bytes of the frame without FCS.
    pub len: u32,
    /// Its priority.
    pub priority: Priority,
    /// It may be marked with congestion experienced.
    pub ect: bool,
    /// It is marked.
    pub ce: bool,
}

impl Station {
    /// No station: what goes there gets as far as a cable leads it.
    pub const NOBODY: Station = Station(u32::MAX);
}

impl Label {
    /// Of a packet of `len` bytes for nobody.
    pub const fn of_nobody(len: u32) -> Label {
        let (to, hash) = (Station::NOBODY, FlowHash::NONE);
        Label { to, hash, len, priority: Priority::ALL[0], ect: false, ce: false }
    }
}

pub(super) const NONE: u32 = u32::MAX;

/// A packet under way: half a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    pub(super) label: Label,
    /// The port that it is on its way to or, in a switch, came in by.
    pub(super) at: u32,
    /// On a cable the port that it will leave by, once that was looked up; in a queue the next one.
    pub(super) next: u32,
}

/// The packets under way; their slots are used again.
#[derive(Debug)]
pub(super) struct Arena<F> {
    slots: Vec<Slot>,
    /// By slot.
    freight: Vec<Option<F>>,
    free: u32,
    live: usize,
}

impl<F> Arena<F> {
    pub(super) fn new() -> Arena<F> {
        Arena { slots: Vec::new(), freight: Vec::new(), free: NONE, live: 0 }
    }

    /// Packets in it.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn put(&mut self, label: Label, freight: F) -> u32 {
        let slot = Slot { label, at: NONE, next: NONE };
        self.live += 1;
        if self.free == NONE {
            self.slots.push(slot);
            self.freight.push(Some(freight));
            return self.slots.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.slots[at as usize].next;
        self.slots[at as usize] = slot;
        self.freight[at as usize] = Some(freight);
        at
    }

    #[inline]
    pub(super) fn take(&mut self, at: u32) -> Option<(Label, F)> {
        let freight = self.freight[at as usize].take()?;
        let slot = &mut self.slots[at as usize];
        slot.next = self.free;
        self.free = at;
        self.live -= 1;
        Some((slot.label, freight))
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.slots[at as usize]
    }

    /// What a packet carries.
    #[inline]
    pub(super) fn freight(&self, at: u32) -> Option<&F> {
        self.freight.get(at as usize)?.as_ref()
    }

    /// Fetches a packet into the cache.
    #[inline]
    pub(super) fn fetch(&self, at: u32) {
        prefetch_index(&self.slots, at as usize);
        prefetch_index(&self.freight, at as usize);
    }
}

/// A queue of packets: a list through the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
    pub(super) frames: u32,
    pub(super) bytes: u64,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE, frames: 0, bytes: 0 };

    /// Appends the packet `at` of `len` bytes.
    #[inline]
    pub(super) fn push<F>(&mut self, arena: &mut Arena<F>, at: u32, len: u32) {
        if self.head == NONE {
            self.head = at;
        } else {
            arena.get_mut(self.tail).next = at;
        }
        self.tail = at;
        self.frames += 1;
        self.bytes += u64::from(len);
    }

    #[inline]
    pub(super) fn pop<F>(&mut self, arena: &Arena<F>) -> Option<u32> {
        if self.head == NONE {
            return None;
        }
        let at = self.head;
        let slot = arena.get(at);
        self.head = if at == self.tail { NONE } else { slot.next };
        self.frames -= 1;
        self.bytes -= u64::from(slot.label.len);
        Some(at)
    }

    /// The packet at its head; nobody's number when it is empty.
    #[inline]
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Bytes of the packet at its head.
    #[inline]
    pub(super) fn head_len<F>(&self, arena: &Arena<F>) -> u32 {
        if self.head == NONE { 0 } else { arena.get(self.head).label.len }
    }
}
