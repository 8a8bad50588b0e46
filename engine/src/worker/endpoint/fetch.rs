//! What a turn will go over, fetched into the cache before.

use super::Endpoint;
use crate::io::PacketIo;
use crate::wire::dest_qp_of;
use core::slice::from_ref;
use prefetch_index::prefetch_index;

impl<I: PacketIo> Endpoint<I> {
    /// Fetches what a turn will touch that has to do with the frame that begins with `bytes`, in three
    /// steps; the second and third follow pointers that the one before has fetched.
    #[inline]
    pub(crate) fn fetch(&self, step: usize, bytes: Option<&[u8]>) {
        if step == 0 {
            prefetch_index(from_ref(&self.io), 0);
            prefetch_index(from_ref(&self.table), 0);
            prefetch_index(from_ref(&self.ready), 0);
            prefetch_index(from_ref(&self.cq), 0);
            prefetch_index(from_ref(&self.counters), 0);
            prefetch_index(from_ref(&self.counters.tx_packets), 0);
            prefetch_index(from_ref(&self.now), 0);
            prefetch_index(from_ref(&self.mem), 0);
            self.wheel.fetch();
            return prefetch_index(from_ref(&self.batch), 0);
        }
        let next = match bytes {
            None => self.ready.front().and_then(|local| self.table.get(*local)),
            Some(bytes) => dest_qp_of(bytes).and_then(|qpn| self.table.expected(qpn)),
        };
        let Some(slot) = next else { return };
        prefetch_index(from_ref(slot), 0);
        if let Some(qp) = &slot.qp {
            qp.fetch(step - 1);
        }
    }
}
