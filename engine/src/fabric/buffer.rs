//! The shared buffer of a switch.

use super::packet::Priority;
use prefetch_index::prefetch_index;

/// How the buffer of a switch is divided.
///
/// Packets of lossless priorities are accounted by the port that they came in by: first in what is
/// reserved for port and priority, then in the shared part while that is below the dynamic
/// threshold, `2^alpha_log2` times what is free of it, then in the headroom.  From the threshold on
/// the upstream port is paused.  Packets of other priorities take shared buffer only, while the
/// queue that they go into is below a threshold of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// All of it, in bytes.
    pub total: u64,
    /// Reserved for each port and lossless priority.
    pub reserve: u64,
    /// A paused upstream port may go on when its use is so far below the threshold.
    pub resume_offset: u64,
    /// Of lossless priorities.
    pub alpha_log2: i8,
    /// Of the others.
    pub lossy_alpha_log2: i8,
    /// The most that a queue of another priority may hold, whatever is free.
    pub queue_limit: Option<u64>,
}

/// Why a packet found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The headroom of its port and priority is full.
    Headroom,
    /// The queue is as long as it may be, or the shared part is used up.
    Tail,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    headroom_limit: u64,
    reserved: u64,
    shared: u64,
    headroom: u64,
}

/// The buffer of one switch.
#[derive(Debug)]
pub(super) struct Buffer {
    spec: BufferSpec,
    /// What neither reserves nor headroom take.
    pool: u64,
    shared_used: u64,
    used: u64,
    pub(super) peak: u64,
    /// By port of the switch, by priority.
    groups: Vec<[Group; Priority::COUNT]>,
    pub(super) lossless: u8,
}

impl Buffer {
    pub(super) fn new(spec: BufferSpec, lossless: u8) -> Buffer {
        Buffer { spec, pool: spec.total, shared_used: 0, used: 0, peak: 0, groups: Vec::new(), lossless }
    }

    /// A further port, with so much headroom for each lossless priority.
    pub(super) fn add_port(&mut self, headroom: u64) {
        let mut groups = [Group::default(); Priority::COUNT];
        for p in Priority::ALL.into_iter().filter(|p| self.lossless & p.bit() != 0) {
            groups[p.index()].headroom_limit = headroom;
            self.pool = self.pool.saturating_sub(self.spec.reserve + headroom);
        }
        self.groups.push(groups);
    }

    /// Bytes in it.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    #[inline]
    pub(super) fn is_lossless(&self, priority: Priority) -> bool {
        self.lossless & priority.bit() != 0
    }

    #[inline]
    fn free(&self) -> u64 {
        self.pool - self.shared_used
    }

    /// Takes in `len` bytes that came by `port` and go into a queue of `queued` bytes.
    #[inline]
    pub(super) fn admit(
        &mut self,
        port: usize,
        priority: Priority,
        len: u64,
        queued: u64,
    ) -> Result<(), NoRoom> {
        let free = self.free();
        if !self.is_lossless(priority) {
            let limit = threshold(free, self.spec.lossy_alpha_log2);
            if queued + len > limit.min(self.spec.queue_limit.unwrap_or(u64::MAX)) || len > free {
                return Err(NoRoom::Tail);
            }
            self.shared_used += len;
        } else {
            let limit = threshold(free, self.spec.alpha_log2);
            let group = &mut self.groups[port][priority.index()];
            let reserved = len.min(self.spec.reserve - group.reserved);
            let more = len - reserved;
            if more == 0 || group.headroom == 0 && group.shared + more <= limit && more <= free {
                group.reserved += reserved;
                group.shared += more;
                self.shared_used += more;
            } else if group.headroom + len <= group.headroom_limit {
                group.headroom += len;
            } else {
                return Err(NoRoom::Headroom);
            }
        }
        self.used += len;
        self.peak = self.peak.max(self.used);
        Ok(())
    }

    /// Gives back `len` bytes that came by `port`.
    #[inline]
    pub(super) fn release(&mut self, port: usize, priority: Priority, len: u64) {
        self.used -= len;
        if !self.is_lossless(priority) {
            self.shared_used -= len;
            return;
        }
        let group = &mut self.groups[port][priority.index()];
        let headroom = len.min(group.headroom);
        let shared = (len - headroom).min(group.shared);
        group.headroom -= headroom;
        group.shared -= shared;
        group.reserved -= len - headroom - shared;
        self.shared_used -= shared;
    }

    /// Fetches what a packet that comes by `port` is accounted in.
    #[inline]
    pub(super) fn fetch(&self, port: usize, priority: Priority) {
        prefetch_index(&self.groups[port][..], priority.index());
    }

    /// Whether the port that sends to `port` has to stop.
    #[inline]
    pub(super) fn is_congested(&self, port: usize, priority: Priority) -> bool {
        let group = &self.groups[port][priority.index()];
        group.headroom != 0 || group.shared != 0 && group.shared >= self.threshold()
    }

    /// Whether the port that sends to `port`, and was stopped, may go on.
    #[inline]
    pub(super) fn may_resume(&self, port: usize, priority: Priority) -> bool {
        let group = &self.groups[port][priority.index()];
        group.headroom == 0
            && (group.shared == 0 || group.shared + self.spec.resume_offset <= self.threshold())
    }

    #[inline]
    fn threshold(&self) -> u64 {
        threshold(self.free(), self.spec.alpha_log2)
    }
}

#[inline]
fn threshold(free: u64, alpha_log2: i8) -> u64 {
    if alpha_log2 >= 0 { free << alpha_log2.min(16) } else { free >> alpha_log2.unsigned_abs().min(32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPEC: BufferSpec = BufferSpec {
        total: 1_000_000,
        reserve: 4_096,
        resume_offset: 3_000,
        alpha_log2: -3,
        lossy_alpha_log2: 0,
        queue_limit: None,
    };
    const LOSSLESS: Priority = match Priority::new(3) {
        Some(p) => p,
        None => panic!(),
    };
    const LOSSY: Priority = match Priority::new(0) {
        Some(p) => p,
        None => panic!(),
    };

    fn buffer(ports: usize) -> Buffer {
        let mut buffer = Buffer::new(SPEC, LOSSLESS.bit());
        (0..ports).for_each(|_| buffer.add_port(37_500));
        buffer
    }

    /// Where n ports share it evenly each is paused at (pool - n x) / 8 = x.
    #[test]
    fn the_threshold_moves_with_what_is_free() {
        let mut b = buffer(4);
        let mut packets = 0u64;
        while (0..4).all(|port| !b.is_congested(port, LOSSLESS)) {
            for port in 0..4 {
                b.admit(port, LOSSLESS, 1_000, 0).unwrap();
            }
            packets += 1;
        }
        let pool = 1_000_000 - 4 * (4_096 + 37_500);
        let want = pool / (8 + 4) + 4_096;
        assert!((packets * 1_000).abs_diff(want) <= 2_000, "{packets} kB, not {want} B");
        assert!((0..4).all(|port| !b.may_resume(port, LOSSLESS)));
        (0..4).for_each(|_| b.release(0, LOSSLESS, 1_000));
        assert!(b.may_resume(0, LOSSLESS) && !b.may_resume(1, LOSSLESS));
    }

    #[test]
    fn a_lossy_queue_takes_at_most_half_of_what_is_there() {
        let mut b = buffer(1);
        let mut queued = 0;
        while b.admit(0, LOSSY, 1_500, queued).is_ok() {
            queued += 1_500;
        }
        assert!(queued.abs_diff((1_000_000 - 4_096 - 37_500) / 2) <= 1_500, "{queued}");
    }

    proptest! {
        /// Never more than there is; what is given back can be used again; headroom is only
        /// touched by what comes after the threshold.
        #[test]
        fn it_never_runs_over(steps in prop::collection::vec((0usize..6, any::<bool>(), 64u64..9000, 0u8..4), 1..600)) {
            let mut b = buffer(6);
            let mut inside: Vec<(usize, Priority, u64)> = Vec::new();
            let mut queued = 0;
            for (port, lossless, len, kind) in steps {
                let priority = if lossless { LOSSLESS } else { LOSSY };
                if kind != 0 {
                    if b.admit(port, priority, len, queued).is_ok() {
                        inside.push((port, priority, len));
                        queued += if lossless { 0 } else { len };
                    } else if lossless {
                        prop_assert!(b.is_congested(port, priority), "paused before it is dropped");
                    }
                } else if !inside.is_empty() {
                    let (port, priority, len) = inside.swap_remove(len as usize % inside.len());
                    b.release(port, priority, len);
                    queued -= if priority == LOSSY { len } else { 0 };
                }
                let sum: u64 = inside.iter().map(|(.., len)| len).sum();
                prop_assert_eq!(sum, b.used());
                prop_assert!(sum <= SPEC.total && b.shared_used <= b.pool);
            }
            for (port, priority, len) in inside.drain(..) {
                b.release(port, priority, len);
            }
            prop_assert_eq!((b.used(), b.shared_used), (0, 0));
            prop_assert!(b.groups.iter().flatten().all(|g| g.reserved + g.shared + g.headroom == 0));
        }
    }
}
