//! What is done on a connection that the connection manager has made, by the port that was called.

use super::grants::{Grant, SLOT};
use crate::perftest::wire::{self, BINARY_KEY_LEN, Key};
use crate::station::Station;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Psn, Qpn};
use roce_engine::verbs::{MrKey, SendFlags, SendOp, SendWr, Sge};
use roce_engine::wire::Gid;

/// READs and atomics that are answered at once.
const DEPTH: u32 = 16;
/// Bytes of a binary key since perftest 6.29.
const LONG_KEY_LEN: usize = 64;
/// rping's message: address, key, size.
const RPING_LEN: usize = 16;
/// ucmatose's messages, and bytes of each, where it is not told otherwise.
const UCMATOSE_MESSAGES: u32 = 10;
const UCMATOSE_LEN: u32 = 100;

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum App {
    /// perftest's data: the peer does as it likes in its memory.
    Sink,
    /// perftest's exchange by SENDs.
    Control { answers: u64 },
    /// rping's server.
    Rping(Rping),
    /// ucmatose's server.
    Ucmatose { sent: u32, received: u32 },
}

/// Where in a ping rping's server is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rping {
    /// The client tells where to read.
    Source,
    /// The data is read.
    Reading { len: u32 },
    /// The client tells where to write.
    Target { len: u32 },
    /// The data is written.
    Writing,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It goes on.
    Stay,
    /// This side is through with it.
    Disconnect,
    /// The peer breaks the rules.
    Broken(&'static str),
}

impl App {
    /// Receive requests in message slots; none for what takes into the peer's memory.
    pub(super) fn receives(&self) -> Option<u32> {
        match self {
            App::Sink | App::Ucmatose { .. } => None,
            App::Control { .. } | App::Rping(_) => Some(8),
        }
    }

    /// The peer is ready.
    pub(super) fn begin<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        grant: &Grant,
        qpn: Qpn,
    ) -> Next {
        if let App::Ucmatose { sent, .. } = self {
            // Its server speaks first.
            while *sent < UCMATOSE_MESSAGES {
                let sge = Sge { addr: grant.region.va, len: UCMATOSE_LEN, lkey: grant.region.key };
                post(station, qpn, SendOp::Send, sge);
                *sent += 1;
            }
        }
        Next::Stay
    }

    /// A message of the peer's came into receive request `n`.
    pub(super) fn receive<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        grant: &Grant,
        (qpn, own): (Qpn, Gid),
        (n, len): (u64, u32),
    ) -> Next {
        match self {
            App::Sink => Next::Stay,
            App::Ucmatose { received, .. } => {
                *received += 1;
                if *received == UCMATOSE_MESSAGES { Next::Disconnect } else { Next::Stay }
            }
            App::Control { answers } => {
                let heard = read(station, grant, grant.receive_slot(n), len.min(SLOT));
                let Some(answer) = answer(&heard, grant, own) else {
                    return Next::Broken("a message that perftest does not have");
                };
                let at = grant.send_slot(*answers);
                *answers += 1;
                write(station, grant, at, &answer);
                let sge = Sge { addr: at, len: answer.len() as u32, lkey: grant.region.key };
                post(station, qpn, SendOp::Send, sge);
                Next::Stay
            }
            App::Rping(state) => {
                let message = read(station, grant, grant.receive_slot(n), len.min(SLOT));
                let Some((addr, rkey, size)) = rping(&message) else {
                    return Next::Broken("a message that is not rping's");
                };
                if size > grant.data_len() {
                    return Next::Broken("more than the memory of a peer");
                }
                let sge = Sge { addr: grant.region.va, len: size, lkey: grant.region.key };
                match *state {
                    Rping::Source => {
                        post(station, qpn, SendOp::Read { raddr: addr, rkey }, sge);
                        *state = Rping::Reading { len: size };
                    }
                    Rping::Target { len } if len == size => {
                        post(station, qpn, SendOp::Write { raddr: addr, rkey }, sge);
                        *state = Rping::Writing;
                    }
                    _ => return Next::Broken("a message out of turn"),
                }
                Next::Stay
            }
        }
    }

    /// A request of ours is done.
    pub(super) fn sent<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        grant: &Grant,
        qpn: Qpn,
        is_send: bool,
    ) {
        let App::Rping(state) = self else { return };
        *state = match *state {
            _ if is_send => return,
            Rping::Reading { len } => Rping::Target { len },
            Rping::Writing => Rping::Source,
            other => other,
        };
        // "Go ahead": what it says does not matter.
        let sge = Sge { addr: grant.send_slot(0), len: RPING_LEN as u32, lkey: grant.region.key };
        post(station, qpn, SendOp::Send, sge);
    }
}

/// What a server of perftest's says to what its client says.
fn answer(heard: &[u8], grant: &Grant, own: Gid) -> Option<Vec<u8>> {
    match heard.len() {
        wire::VERSION_LEN => Some(wire::version().to_vec()),
        // Page size, cache line, MTU, results: ours are the same.
        wire::NUMBER_LEN | wire::MTU_LEN | wire::RESULT_LEN => Some(heard.to_vec()),
        len @ (BINARY_KEY_LEN | LONG_KEY_LEN) => {
            let key = Key {
                out_reads: DEPTH,
                // The connection manager has told the numbers of the queue pairs.
                qpn: Qpn::new(0),
                psn: Psn::new(0),
                rkey: grant.region.key.0,
                vaddr: grant.region.va,
                gid: own,
            };
            let short = key.to_binary();
            if len == BINARY_KEY_LEN {
                return Some(short.to_vec());
            }
            let mut long = vec![0; LONG_KEY_LEN];
            long[..32].copy_from_slice(&short[..32]);
            long[40..].copy_from_slice(&short[32..]);
            Some(long)
        }
        _ => None,
    }
}

/// Address, key and size of a message of rping's.
fn rping(message: &[u8]) -> Option<(u64, MrKey, u32)> {
    let m: &[u8; RPING_LEN] = message.try_into().ok()?;
    let word = |at: usize| u32::from_be_bytes([m[at], m[at + 1], m[at + 2], m[at + 3]]);
    Some((u64::from(word(0)) << 32 | u64::from(word(4)), MrKey(word(8)), word(12)))
}

fn post<I: PacketIo, C: Clock>(station: &mut Station<I, C>, qpn: Qpn, op: SendOp, sge: Sge) {
    let flags = SendFlags { signaled: true, ..SendFlags::default() };
    if let Some(Err(e)) = station.endpoint().post_send(qpn, SendWr { wr_id: 0, op, sge, flags }) {
        log::warn!("queue pair {qpn}: {e}");
    }
}

fn read<I: PacketIo, C: Clock>(station: &mut Station<I, C>, grant: &Grant, at: u64, len: u32) -> Vec<u8> {
    let bytes = station.endpoint().memory().local(grant.region.key, at, len);
    bytes.map(<[u8]>::to_vec).unwrap_or_default()
}

fn write<I: PacketIo, C: Clock>(station: &mut Station<I, C>, grant: &Grant, at: u64, bytes: &[u8]) {
    if let Ok(slot) = station.endpoint().memory_mut().local_mut(grant.region.key, at, bytes.len() as u32) {
        slot.copy_from_slice(bytes);
    }
}
