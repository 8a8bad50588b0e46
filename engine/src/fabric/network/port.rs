//! One end of a cable.

use super::{Cable, Framing, PortCounters, PriorityCounters};
use crate::fabric::packet::{Arena, Priority, Queue};
use crate::fabric::red::{Dice, Red};
use crate::fabric::scheduler::{Scheduler, Service};
use core::slice::from_ref;
use prefetch_index::prefetch_index;

/// The owner of a host's port.
pub(super) const HOST: u32 = u32::MAX;

/// Fractional bits of the picoseconds of a byte.
const FRACTION: u32 = 20;

/// The lines of the cache that every packet goes over come first, what is rarely wanted last.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// The port at the other end.
    pub(super) peer: u32,
    /// Its switch, or [`HOST`].
    pub(super) owner: u32,
    /// Its number in the switch, or its station.
    pub(super) local: u32,
    pub(super) frames: u32,
    pub(super) busy_until: u64,
    pub(super) delay_ps: u64,
    ps_per_byte: u64,
    framing: Framing,
    /// Someone looks after it when it is free again.
    pub(super) free_pending: bool,
    /// What leaves by the other end is handed out when it gets here.
    pub(super) judged: bool,
    /// Priorities that wait, that may not be sent, whose packets are dropped.
    pub(super) waiting: u8,
    pub(super) paused: u8,
    pub(super) dropping: u8,
    /// Priorities that its peer is to pause, and those of which the peer has to be told.
    pub(super) asserted: u8,
    pub(super) due: u8,
    /// Priorities that are marked, and those served before all others.
    pub(super) marked: u8,
    pub(super) strict: u8,
    pub(super) refresh_pending: bool,
    pub(super) expire_pending: bool,
    pub(super) lanes: [Lane; Priority::COUNT],
    pub(super) tx_bytes: u64,
    pub(super) tx_ps: u64,
    pub(super) red: Red,
    pub(super) dice: Dice,
    pub(super) service: Service,
    pub(super) scheduler: Scheduler,
    /// How long a pause lasts that is not renewed.
    pub(super) pause_ps: u64,
    pub(super) no_route: u64,
    pub(super) rare: [Rare; Priority::COUNT],
}

/// A priority of a port: what every packet changes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    pub(super) queue: Queue,
    pub(super) tx_packets: u64,
    pub(super) marked: u64,
    pub(super) peak: u64,
}

/// A priority of a port: what pauses and drops change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rare {
    pub(super) paused_until: u64,
    /// When the pause, or the time without one, began.
    pub(super) paused_since: u64,
    pub(super) paused_ps: u64,
    /// Only what is not counted elsewhere.
    pub(super) counters: PriorityCounters,
}

impl Port {
    /// An end of a cable at a host.
    pub(super) fn new(peer: u32, cable: &Cable) -> Port {
        const PS: u128 = 1_000_000_000_000;
        let bps = u128::from(cable.rate.bps().max(1));
        let per_byte = ((8 * PS) << FRACTION).div_ceil(bps);
        // 65,535 times 512 bit times.
        let pause = 65_535 * 512 * PS / bps;
        Port {
            peer,
            owner: HOST,
            local: 0,
            frames: 0,
            busy_until: 0,
            delay_ps: cable.delay.as_nanos().saturating_mul(1000),
            ps_per_byte: u64::try_from(per_byte).unwrap_or(u64::MAX),
            framing: cable.framing,
            free_pending: false,
            judged: false,
            waiting: 0,
            paused: 0,
            dropping: 0,
            asserted: 0,
            due: 0,
            marked: 0,
            strict: Service::default().strict(),
            refresh_pending: false,
            expire_pending: false,
            lanes: [Lane { queue: Queue::EMPTY, tx_packets: 0, marked: 0, peak: 0 }; Priority::COUNT],
            tx_bytes: 0,
            tx_ps: 0,
            red: Red::new(u64::MAX, u64::MAX, 0.0),
            dice: Dice(0),
            service: Service::default(),
            scheduler: Scheduler::default(),
            pause_ps: u64::try_from(pause).unwrap_or(u64::MAX / 4),
            no_route: 0,
            rare: [Rare::default(); Priority::COUNT],
        }
    }

    /// Has its queues served so.
    pub(super) fn serve(&mut self, service: Service) {
        self.service = service;
        self.strict = service.strict();
    }

    /// Picoseconds that a frame of `len` bytes takes.
    #[inline]
    pub(super) fn time_of(&self, len: u32) -> u64 {
        let bytes = self.framing.wire_bytes(len);
        // Frames have less than 2^17 bytes: above 100 kb/s the product fits.
        let time = u64::from(bytes).saturating_mul(self.ps_per_byte) >> FRACTION;
        if self.framing.whole_ns { time - time % 1000 } else { time }
    }

    /// The queue to serve of those in `ready`, which is not empty.
    #[inline]
    pub(super) fn pick<F>(&mut self, ready: u8, arena: &Arena<F>) -> usize {
        let strict = ready & self.strict;
        if strict != 0 {
            return 7 - strict.leading_zeros() as usize;
        }
        self.scheduler.pick(&self.service, ready, |q| self.lanes[q].queue.head_len(arena))
    }

    /// Fetches what a packet of this priority changes when it is queued and sent.
    #[inline]
    pub(super) fn fetch(&self, priority: Priority) {
        let this = from_ref(self);
        prefetch_index(this, 0);
        prefetch_index(&self.lanes[..], priority.index());
        prefetch_index(from_ref(&self.tx_bytes), 0);
    }

    /// Fetches the queue that may be next, whose packet [`Port::first_waiting`] leads to then.
    #[inline]
    pub(super) fn fetch_waiting(&self) {
        if let Some(priority) = self.first_waiting() {
            prefetch_index(&self.lanes[..], priority);
            prefetch_index(from_ref(&self.tx_bytes), 0);
        }
    }

    /// The highest priority that waits.
    #[inline]
    pub(super) fn first_waiting(&self) -> Option<usize> {
        (self.waiting != 0).then(|| 7 - self.waiting.leading_zeros() as usize)
    }

    #[inline]
    pub(super) fn rare(&mut self, priority: Priority) -> &mut Rare {
        &mut self.rare[priority.index()]
    }

    /// What it counted.
    pub(super) fn counters(&self) -> PortCounters {
        let of = |(lane, rare): (&Lane, &Rare)| PriorityCounters {
            tx_packets: lane.tx_packets,
            marked: lane.marked,
            peak: lane.peak,
            ..rare.counters
        };
        let mut priorities = [PriorityCounters::default(); Priority::COUNT];
        for (p, parts) in priorities.iter_mut().zip(self.lanes.iter().zip(&self.rare)) {
            *p = of(parts);
        }
        PortCounters {
            tx_packets: priorities.iter().map(|p| p.tx_packets).sum(),
            tx_bytes: self.tx_bytes,
            tx_ps: self.tx_ps,
            no_route: self.no_route,
            priorities,
        }
    }
}
