//! udaddy's service: every datagram is sent back to its sender.
//!
//! A queue pair for each address of this side is made when it is first asked for, and stays.  Who has asked for it
//! is answered; others are not, since nothing leads to them.

use crate::run::EnvironmentError;
use crate::station::{Station, UdShape};
use crate::udaddy::QKEY;
use roce_engine::cm::{Peer, SidrStatus};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Mtu, Qpn};
use roce_engine::verbs::{
    Ah, Completion, CompletionStatus, Datagram, GRH_LEN, MemoryRegion, Pd, RecvWr, SendFlags, SendOp, SendWr,
    Sge, WcOpcode,
};
use roce_engine::wire::Gid;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// No peer's: their protection domains count from 1.
const PD: Pd = Pd(0);
/// Datagrams that a queue pair holds, and bytes of each with its header.
const SLOTS: u32 = 512;
const SLOT: u32 = 4096 + 64;
/// Peers that are remembered; the one that asked longest ago makes room.
const PEERS: usize = 1024;

/// The queue pair of an address.
#[derive(Debug)]
struct Queue {
    qpn: Qpn,
    region: MemoryRegion,
    handles: HashMap<Gid, Ah>,
    /// In the order in which they asked.
    order: VecDeque<Gid>,
}

/// The queue pairs, and what they did.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    queues: HashMap<Gid, Queue>,
    pub(super) answered: u64,
    /// Those of peers that had not asked.
    pub(super) strange: u64,
}

impl Datagrams {
    /// A peer asks for the queue pair: its number, and the key that senders must know.
    pub(super) fn ask<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        from: Peer,
    ) -> Result<(Qpn, u32), SidrStatus> {
        let queue = match self.queues.entry(from.own) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Queue::open(station, from.own).map_err(|e| {
                log::warn!("udaddy: {e}");
                SidrStatus::NoQp
            })?),
        };
        queue.welcome(station, from).map_err(|_| SidrStatus::Rejected)?;
        Ok((queue.qpn, QKEY))
    }

    /// Whether a completion was one of its own, and is done with.
    pub(super) fn on_completion<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        done: &Completion,
    ) -> bool {
        let Some(queue) = self.queues.values().find(|q| q.qpn == done.qpn) else { return false };
        if done.opcode != WcOpcode::Recv || done.status != CompletionStatus::Success {
            // It has been sent: there is room for another.
            queue.post_recv(station, done.wr_id);
            return true;
        }
        if queue.answer(station, done) {
            self.answered += 1;
        } else {
            self.strange += 1;
            queue.post_recv(station, done.wr_id);
        }
        true
    }
}

impl Queue {
    fn open<I: PacketIo, C: Clock>(station: &mut Station<I, C>, own: Gid) -> Result<Queue, EnvironmentError> {
        let region = station.register(PD, (SLOTS * SLOT) as usize)?;
        let shape = UdShape { pd: PD, own, mtu: Mtu::B4096, qkey: QKEY, sends: SLOTS, receives: SLOTS };
        let qpn = station.create_ud(&shape)?;
        let queue = Queue { qpn, region, handles: HashMap::new(), order: VecDeque::new() };
        for slot in 0..SLOTS {
            queue.post_recv(station, slot.into());
        }
        Ok(queue)
    }

    /// Remembers the way to a peer.
    fn welcome<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        Peer { mac, gid, own }: Peer,
    ) -> Result<(), EnvironmentError> {
        let known = match self.handles.get(&gid) {
            None if self.order.len() >= PEERS => {
                self.order.pop_front().and_then(|oldest| self.handles.remove(&oldest))
            }
            known => known.copied(),
        };
        let ah = match known {
            // It may have moved.
            Some(ah) => station.set_handle(self.qpn, ah, (mac, own, gid)).map(|()| ah)?,
            None => station.handle(self.qpn, (mac, own, gid))?,
        };
        if self.handles.insert(gid, ah).is_none() {
            self.order.push_back(gid);
        }
        Ok(())
    }

    /// Sends a datagram back; whether the way is known.
    fn answer<I: PacketIo, C: Clock>(&self, station: &mut Station<I, C>, done: &Completion) -> bool {
        let addr = self.at(done.wr_id);
        let header = station.endpoint().memory().local(self.region.key, addr, GRH_LEN);
        let from = header.ok().and_then(|bytes| bytes.as_array()).map(sender);
        let (Some(ah), Some(qpn)) = (from.and_then(|gid| self.handles.get(&gid)), done.src_qp) else {
            return false;
        };
        let to = Datagram { ah: *ah, qpn, qkey: QKEY, imm: Some(self.qpn.get()) };
        let sge = Sge {
            addr: addr + u64::from(GRH_LEN),
            len: done.byte_len.saturating_sub(GRH_LEN),
            lkey: self.region.key,
        };
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let wr = SendWr { wr_id: done.wr_id, op: SendOp::Datagram(to), sge, flags };
        matches!(station.endpoint().post_send(self.qpn, wr), Some(Ok(())))
    }

    fn post_recv<I: PacketIo, C: Clock>(&self, station: &mut Station<I, C>, slot: u64) {
        let sge = Sge { addr: self.at(slot), len: SLOT, lkey: self.region.key };
        if let Some(Err(e)) = station.endpoint().post_recv(self.qpn, RecvWr { wr_id: slot, sge }) {
            log::warn!("udaddy: queue pair {}: {e}", self.qpn);
        }
    }

    fn at(&self, slot: u64) -> u64 {
        self.region.va + slot * u64::from(SLOT)
    }
}

/// Whom a datagram is from, by the network header before it: IPv6, or IPv4 in the second half.
fn sender(header: &[u8; GRH_LEN as usize]) -> Gid {
    let mut gid = [0; 16];
    if header[0] >> 4 == 6 {
        gid.copy_from_slice(&header[8..24]);
        return Gid::new(gid);
    }
    Gid::from([header[32], header[33], header[34], header[35]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_both_versions() {
        let mut header = [0; GRH_LEN as usize];
        header[20] = 0x45;
        header[32..36].copy_from_slice(&[198, 18, 0, 2]);
        assert_eq!(sender(&header).to_ip(), "198.18.0.2".parse::<std::net::IpAddr>().unwrap());
        let mut header = [0; GRH_LEN as usize];
        header[0] = 0x60;
        header[8..10].copy_from_slice(&[0x20, 0x01]);
        header[23] = 2;
        assert_eq!(sender(&header).to_ip(), "2001::2".parse::<std::net::IpAddr>().unwrap());
    }
}
