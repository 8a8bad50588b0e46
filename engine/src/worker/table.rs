//! The queue pairs of an endpoint, by number.

use crate::transport::QueuePair;
use crate::units::{Instant, Qpn};

/// Slots that stand for QP 0 and QP 1, which are not ours to give.
const RESERVED: u32 = 2;
/// Bits of a queue pair number that name the slot; the others are its generation.
const SLOT_BITS: u32 = 16;

/// Queue pairs in slots.
///
/// A number is a generation (8 bits) over a slot (16 bits), so that a late frame of
/// a destroyed queue pair does not reach its successor.  Where several workers share
/// a port, worker `share` of `stride` has every `stride`-th slot.
#[derive(Debug)]
pub(super) struct QpTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    share: u32,
    stride: u32,
    first_generation: u8,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) qp: Option<QueuePair>,
    generation: u8,
    /// In the ready ring.
    pub(super) ready: bool,
    /// The class of its packets on the link.
    pub(super) priority: u8,
    /// When its timer is armed for.
    pub(super) timer: Instant,
}

/// Where a queue pair number leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// To this local index, if the generation is right.
    Here(u32),
    /// To another worker of the port.
    Worker(u32),
    Nobody,
}

impl QpTable {
    pub(super) fn new(share: u32, stride: u32, first_generation: u8) -> QpTable {
        QpTable { slots: Vec::new(), free: Vec::new(), share, stride, first_generation }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Sets a slot aside: its local index and number.  `None` when all 2^16 are taken.
    pub(super) fn reserve(&mut self) -> Option<(u32, Qpn)> {
        if let Some(local) = self.free.pop() {
            return Some((local, self.number(local)));
        }
        let local = self.slots.len() as u32;
        if RESERVED + local * self.stride + self.share >= 1 << SLOT_BITS {
            return None;
        }
        let generation = self.first_generation;
        self.slots.push(Slot { qp: None, generation, ready: false, priority: 0, timer: Instant::FAR });
        Some((local, self.number(local)))
    }

    /// Ends the queue pair; its number is dead from now on.
    pub(super) fn remove(&mut self, local: u32) -> Option<QueuePair> {
        let slot = self.slots.get_mut(local as usize)?;
        let qp = slot.qp.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.timer = Instant::FAR;
        self.free.push(local);
        Some(qp)
    }

    #[inline]
    pub(super) fn owner(&self, qpn: Qpn) -> Owner {
        let slot = (qpn.get() & ((1 << SLOT_BITS) - 1)).wrapping_sub(RESERVED);
        if slot >= 1 << SLOT_BITS {
            return Owner::Nobody;
        }
        let (local, share) =
            if self.stride == 1 { (slot, 0) } else { (slot / self.stride, slot % self.stride) };
        if share != self.share {
            return Owner::Worker(share);
        }
        match self.slots.get(local as usize) {
            Some(s) if s.qp.is_some() && u32::from(s.generation) == qpn.get() >> SLOT_BITS => {
                Owner::Here(local)
            }
            _ => Owner::Nobody,
        }
    }

    /// The slot that a number names, whatever is in there.
    #[inline]
    pub(super) fn expected(&self, qpn: Qpn) -> Option<&Slot> {
        let slot = (qpn.get() & ((1 << SLOT_BITS) - 1)).wrapping_sub(RESERVED);
        self.slots.get(if self.stride == 1 { slot } else { slot / self.stride } as usize)
    }

    #[inline]
    pub(super) fn get(&self, local: u32) -> Option<&Slot> {
        self.slots.get(local as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, local: u32) -> Option<&mut Slot> {
        self.slots.get_mut(local as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuePair> {
        self.slots.iter().filter_map(|s| s.qp.as_ref())
    }

    fn number(&self, local: u32) -> Qpn {
        let slot = RESERVED + local * self.stride + self.share;
        Qpn::new(u32::from(self.slots[local as usize].generation) << SLOT_BITS | slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{QpConfig, Recovery};
    use crate::verbs::{Pd, QpType};

    fn qp(qpn: Qpn) -> QueuePair {
        QueuePair::new(QpConfig {
            qpn,
            ty: QpType::Rc,
            pd: Pd(0),
            max_send_wr: 1,
            max_recv_wr: 1,
            srq: None,
            credits: false,
            window: 1,
            ack_interval: 1,
            recovery: Recovery::GoBackN,
        })
    }

    #[test]
    fn a_number_leads_to_its_queue_pair_until_it_ends() {
        let mut table = QpTable::new(0, 1, 0xAB);
        let (local, qpn) = table.reserve().unwrap();
        assert_eq!(qpn.get(), 0xAB_0002);
        assert_eq!(table.owner(qpn), Owner::Nobody, "reserved only");
        table.get_mut(local).unwrap().qp = Some(qp(qpn));
        assert_eq!(table.owner(qpn), Owner::Here(local));
        table.remove(local).unwrap();
        assert_eq!(table.owner(qpn), Owner::Nobody);
        let (again, next) = table.reserve().unwrap();
        assert_eq!((again, next.get()), (local, 0xAC_0002));
        table.get_mut(local).unwrap().qp = Some(qp(next));
        assert_eq!(table.owner(qpn), Owner::Nobody, "the old number stays dead");
    }

    #[test]
    fn workers_share_the_slots() {
        let mut table = QpTable::new(1, 3, 0);
        let (_, first) = table.reserve().unwrap();
        let (_, second) = table.reserve().unwrap();
        assert_eq!((first.get(), second.get()), (3, 6));
        assert_eq!(table.owner(Qpn::new(2)), Owner::Worker(0));
        assert_eq!(table.owner(Qpn::new(7)), Owner::Worker(2));
        for special in [0, 1, 0xFF_FFFF] {
            assert!(!matches!(table.owner(Qpn::new(special)), Owner::Here(_)));
        }
        let mut table = QpTable::new(0, 1, 0);
        assert_eq!(core::iter::from_fn(|| table.reserve()).count(), (1 << 16) - 2);
    }
}
