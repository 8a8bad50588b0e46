//! One end of a cable.

use super::{Cable, Framing, PortCounters};
use crate::fabric::packet::{Priority, Queue};
use crate::fabric::red::{Dice, Red};
use crate::fabric::scheduler::{Scheduler, Service};

/// The owner of a host's port.
pub(super) const HOST: u32 = u32::MAX;

/// Fractional bits of the picoseconds of a byte.
const FRACTION: u32 = 20;

#[derive(Debug)]
pub(super) struct Port {
    /// The port at the other end.
    pub(super) peer: u32,
    /// Its switch, or [`HOST`].
    pub(super) owner: u32,
    /// Its number in the switch, or its station.
    pub(super) local: u32,
    ps_per_byte: u64,
    pub(super) delay_ps: u64,
    framing: Framing,
    /// How long a pause lasts that is not renewed.
    pub(super) pause_ps: u64,
    pub(super) busy_until: u64,
    /// Someone looks after it when it is free again.
    pub(super) free_pending: bool,
    pub(super) judged: bool,
    /// Priorities that wait, that may not be sent, whose packets are dropped.
    pub(super) waiting: u8,
    pub(super) paused: u8,
    pub(super) dropping: u8,
    /// Priorities that its peer is to pause, and those of which the peer has to be told.
    pub(super) asserted: u8,
    pub(super) due: u8,
    pub(super) refresh_pending: bool,
    pub(super) expire_pending: bool,
    /// Priorities that are marked.
    pub(super) marked: u8,
    pub(super) red: Red,
    pub(super) dice: Dice,
    pub(super) service: Service,
    pub(super) scheduler: Scheduler,
    pub(super) frames: u32,
    pub(super) queues: [Queue; Priority::COUNT],
    pub(super) paused_until: [u64; Priority::COUNT],
    /// When the pause, or the time without one, began.
    pub(super) paused_since: [u64; Priority::COUNT],
    pub(super) paused_ps: [u64; Priority::COUNT],
    pub(super) counters: PortCounters,
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
            ps_per_byte: u64::try_from(per_byte).unwrap_or(u64::MAX),
            delay_ps: cable.delay.as_nanos().saturating_mul(1000),
            framing: cable.framing,
            pause_ps: u64::try_from(pause).unwrap_or(u64::MAX / 4),
            busy_until: 0,
            free_pending: false,
            judged: false,
            waiting: 0,
            paused: 0,
            dropping: 0,
            asserted: 0,
            due: 0,
            refresh_pending: false,
            expire_pending: false,
            marked: 0,
            red: Red::new(u64::MAX, u64::MAX, 0.0),
            dice: Dice(0),
            service: Service::default(),
            scheduler: Scheduler::default(),
            frames: 0,
            queues: [Queue::EMPTY; Priority::COUNT],
            paused_until: [0; Priority::COUNT],
            paused_since: [0; Priority::COUNT],
            paused_ps: [0; Priority::COUNT],
            counters: PortCounters::default(),
        }
    }

    /// Picoseconds that a frame of `len` bytes takes.
    #[inline]
    pub(super) fn time_of(&self, len: u32) -> u64 {
        let bytes = self.framing.wire_bytes(len);
        // Frames have less than 2^17 bytes: above 100 kb/s the product fits.
        u64::from(bytes).saturating_mul(self.ps_per_byte) >> FRACTION
    }
}
