//! What a peer is granted: queue pairs and memory, within limits, and taken back.

use super::{Limits, say};
use crate::run::EnvironmentError;
use crate::station::{QpShape, Station};
use roce_engine::cc::{PaceUnit, Pacer, RateControl};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::transport::QpCounters;
use roce_engine::units::{Instant, Qpn};
use roce_engine::verbs::{MemoryRegion, Pd, RecvWr, Sge};
use std::collections::HashMap;
use std::net::IpAddr;

/// The end of a peer's memory is for messages: what is received, then what is sent.
pub(super) const DESK: u64 = 8192;
/// The least that a peer's memory is: as much for data.
pub(super) const LEAST: u64 = 2 * DESK;
/// Bytes of a message slot there, and slots each way.
pub(super) const SLOT: u32 = 64;
pub(super) const SLOTS: u64 = 32;
/// Receive requests of a queue pair that only takes.
const SINK_RECEIVES: u32 = 512;

/// Why a peer gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("all {0} queue pairs are in use")]
    Qps(usize),
    #[error("all {0} bytes of memory are in use")]
    Memory(usize),
}

/// A grant, by number.
pub(super) type GrantId = u32;

/// What a peer has.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) peer: IpAddr,
    pub(super) what: &'static str,
    pub(super) pd: Pd,
    pub(super) region: MemoryRegion,
    pub(super) qpns: Vec<Qpn>,
    /// What its queue pairs that are gone have counted.
    counted: QpCounters,
    used: usize,
    since: Instant,
    /// When one of its queue pairs last did something, and what they had counted then.
    pub(super) active: Instant,
    seen: u64,
}

/// All grants.
#[derive(Debug)]
pub(super) struct Grants {
    limits: Limits,
    all: HashMap<GrantId, Grant>,
    qps: usize,
    memory: usize,
    next: GrantId,
    /// Of the peers that are gone.
    pub(super) totals: QpCounters,
    pub(super) served: u64,
}

impl Grant {
    /// Bytes that the peer may use.
    pub(super) fn data_len(&self) -> u32 {
        (self.region.len as u64 - DESK) as u32
    }

    /// Where message slot `n` for receiving lies.
    pub(super) fn receive_slot(&self, n: u64) -> u64 {
        self.region.va + self.region.len as u64 - DESK + n % SLOTS * u64::from(SLOT)
    }

    /// Where message slot `n` for sending lies.
    pub(super) fn send_slot(&self, n: u64) -> u64 {
        self.receive_slot(n) + DESK / 2
    }
}

impl Grants {
    pub(super) fn new(limits: Limits) -> Grants {
        Grants {
            limits,
            all: HashMap::new(),
            qps: 0,
            memory: 0,
            next: 1,
            totals: QpCounters::default(),
            served: 0,
        }
    }

    pub(super) fn get(&self, id: GrantId) -> Option<&Grant> {
        self.all.get(&id)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (GrantId, &Grant)> {
        self.all.iter().map(|(id, grant)| (*id, grant))
    }

    /// Memory for a peer.
    pub(super) fn open<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        peer: IpAddr,
        what: &'static str,
    ) -> Result<GrantId, Refusal> {
        let len = self.limits.memory_per_peer;
        let full = Refusal::Memory(self.limits.memory);
        if self.memory + len > self.limits.memory {
            return Err(full);
        }
        let id = self.next;
        self.next += 1;
        let pd = Pd(id);
        let region = station.register(pd, len).map_err(|_| full)?;
        self.memory += len;
        let now = station.now();
        let grant = Grant {
            peer,
            what,
            pd,
            region,
            qpns: Vec::new(),
            counted: QpCounters::default(),
            used: 0,
            since: now,
            active: now,
            seen: 0,
        };
        self.all.insert(id, grant);
        Ok(id)
    }

    /// A queue pair for a peer, in INIT, with `receives` receive requests; all of them take into
    /// message slots, or, where there are none given, as sinks into the peer's memory.
    pub(super) fn create_qp<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        id: GrantId,
        receives: Option<u32>,
    ) -> Result<Qpn, EnvironmentError> {
        let refused = |r: Refusal| EnvironmentError(r.to_string());
        let full = Refusal::Qps(self.limits.qps);
        let grant =
            self.all.get_mut(&id).filter(|_| self.qps < self.limits.qps).ok_or_else(|| refused(full))?;
        let count = receives.unwrap_or(SINK_RECEIVES);
        let shape = QpShape { pd: grant.pd, sends: 64, receives: count, window: self.limits.window };
        let qpn = station.create_qp(&shape)?;
        // Two packets back to back, as large as any.
        let limit = self.limits.qp_rate.and_then(|r| Pacer::new(PaceUnit::L1, r.bps() as f64, 2, 4200));
        if let (Some(pacer), Some(qp)) = (limit, station.endpoint().qp_mut(qpn)) {
            qp.set_rate_control(RateControl::Limited(Box::new(pacer)));
        }
        self.qps += 1;
        grant.qpns.push(qpn);
        grant.used += 1;
        for n in 0..u64::from(count) {
            post_recv(station, grant, qpn, receives.is_some(), n);
        }
        Ok(qpn)
    }

    /// Takes one queue pair back.
    pub(super) fn destroy_qp<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        id: GrantId,
        qpn: Qpn,
    ) {
        let Some(grant) = self.all.get_mut(&id) else { return };
        let Some(at) = grant.qpns.iter().position(|q| *q == qpn) else { return };
        grant.qpns.swap_remove(at);
        if let Some(qp) = station.qp(qpn) {
            grant.counted.add(&qp.counters());
        }
        station.endpoint().destroy_qp(qpn);
        self.qps -= 1;
    }

    /// Takes everything back, and says what the peer did.
    pub(super) fn close<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        id: GrantId,
        why: &str,
    ) {
        let qpns = self.get(id).map(|g| g.qpns.clone()).unwrap_or_default();
        for qpn in qpns {
            self.destroy_qp(station, id, qpn);
        }
        let Some(grant) = self.all.remove(&id) else { return };
        let _ = station.endpoint().memory_mut().deregister(grant.region.key);
        self.memory -= grant.region.len;
        self.totals.add(&grant.counted);
        self.served += 1;
        let c = &grant.counted;
        say(&format!(
            "{} {}: {why} after {:.1} s; {} queue pairs, {} request packets, {} bytes taken, {} bytes sent, {} READs, \
             {} atomics, {} out of sequence, {} duplicates",
            grant.peer,
            grant.what,
            station.now().since(grant.since).as_secs_f64(),
            grant.used,
            c.rx_request_packets,
            c.rx_payload_bytes,
            c.tx_payload_bytes,
            c.rx_read_requests,
            c.rx_atomic_requests,
            c.out_of_sequence,
            c.duplicate_request,
        ));
    }

    /// Peers that have been silent for so long that they must be gone.
    pub(super) fn silent<I: PacketIo, C: Clock>(&mut self, station: &Station<I, C>) -> Vec<GrantId> {
        let now = station.now();
        let mut silent = Vec::new();
        for (id, grant) in &mut self.all {
            let seen = grant.qpns.iter().filter_map(|q| station.qp(*q));
            let seen = seen.map(|qp| qp.counters().values().map(|(_, n)| n).sum::<u64>()).sum::<u64>();
            if seen != grant.seen {
                (grant.seen, grant.active) = (seen, now);
            } else if now.since(grant.active) > self.limits.idle {
                silent.push(*id);
            }
        }
        silent
    }
}

/// Posts receive request `n` of a queue pair: into a message slot, or into the peer's memory.
pub(super) fn post_recv<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    grant: &Grant,
    qpn: Qpn,
    slot: bool,
    n: u64,
) {
    let (addr, len) = if slot { (grant.receive_slot(n), SLOT) } else { (grant.region.va, grant.data_len()) };
    let sge = Sge { addr, len, lkey: grant.region.key };
    if let Some(Err(e)) = station.endpoint().post_recv(qpn, RecvWr { wr_id: n, sge }) {
        log::warn!("{}: queue pair {qpn}: {e}", grant.peer);
    }
}
