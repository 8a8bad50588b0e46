//! The exchange of `-R`: SENDs on a connection of the connection manager's.

use crate::run::EnvironmentError;
use crate::station::{Answer, Call, Manager, QpShape, Station};
use roce_engine::cm::{CommId, Event, RejReason};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Mtu, Qpn};
use roce_engine::verbs::{
    CompletionStatus, CqEntry, MemoryRegion, Pd, QpEvent, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode,
};
use std::collections::VecDeque;
use std::net::IpAddr;

/// The exchange has a protection domain of its own.
const PD: Pd = Pd(2);
/// The longest word, and words that may wait each way.
const WORD: u32 = 64;
const WORDS: u64 = 8;
/// A server opens its next listener only when it is asked to: so often, so far apart, it is tried.
const TRIES: u32 = 30;
const APART: Duration = Duration::from_millis(200);
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(3);
/// And how long where the user wants to go.
const SHORT: Duration = Duration::from_millis(300);

/// The connection for words, and those for data.
#[derive(Debug)]
pub(super) struct Words {
    manager: Manager,
    to: IpAddr,
    port: u16,
    mtu: Mtu,
    qpn: Qpn,
    region: MemoryRegion,
    said: u64,
    heard: VecDeque<Vec<u8>>,
    control: CommId,
    data: Vec<CommId>,
    patience: Duration,
}

impl Words {
    /// Calls a server.
    ///
    /// # Errors
    /// It refuses, or does not answer.
    pub(super) fn call<I: PacketIo, C: Clock>(
        station: &mut Station<I, C>,
        (to, port): (IpAddr, u16),
        (mtu, window): (Mtu, u32),
        patience: Duration,
    ) -> Result<Words, EnvironmentError> {
        let mut manager = Manager::new(station, 1 << 14);
        let region = station.register(PD, (2 * WORDS * u64::from(WORD)) as usize)?;
        let shape = QpShape { pd: PD, sends: WORDS as u32, receives: WORDS as u32, window };
        let qpn = station.create_qp(&shape)?;
        for n in 0..WORDS {
            post_recv(station, &region, qpn, n)?;
        }
        let call = Call { to, port, qpn, rd_atomic: [0, 0], mtu };
        let answer = connect(station, &mut manager, &call, patience)?;
        answer.link(station)?;
        manager.ready(answer.id)?;
        let control = answer.id;
        let (heard, data) = (VecDeque::new(), Vec::new());
        Ok(Words { manager, to, port, mtu, qpn, region, said: 0, heard, control, data, patience })
    }

    /// Calls for a queue pair for data; [`Words::ready`] when that is connected.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub(super) fn connect<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        qpn: Qpn,
        rd_atomic: u8,
    ) -> Result<Answer, EnvironmentError> {
        let call = Call { to: self.to, port: self.port, qpn, rd_atomic: [rd_atomic; 2], mtu: self.mtu };
        let answer = connect(station, &mut self.manager, &call, self.patience)?;
        self.data.push(answer.id);
        Ok(answer)
    }

    /// Tells the server that a queue pair is connected.
    ///
    /// # Errors
    /// The connection is gone.
    pub(super) fn ready(&mut self, answer: &Answer) -> Result<(), EnvironmentError> {
        self.manager.ready(answer.id)
    }

    /// Says one word.
    ///
    /// # Errors
    /// The connection has failed.
    pub(super) fn say<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        word: &[u8],
    ) -> Result<(), EnvironmentError> {
        let fail = |e: String| EnvironmentError(format!("{}: {e}", self.to));
        let at = self.region.va + (WORDS + self.said % WORDS) * u64::from(WORD);
        self.said += 1;
        let memory = station.endpoint().memory_mut();
        let slot = memory.local_mut(self.region.key, at, word.len() as u32);
        slot.map_err(|e| fail(e.to_string()))?.copy_from_slice(word);
        let sge = Sge { addr: at, len: word.len() as u32, lkey: self.region.key };
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        match station.endpoint().post_send(self.qpn, SendWr { wr_id: 0, op: SendOp::Send, sge, flags }) {
            Some(Ok(())) => Ok(()),
            Some(Err(e)) => Err(fail(e.to_string())),
            None => Err(fail("the connection is gone".into())),
        }
    }

    /// The next word of the server's, if it has come.
    ///
    /// # Errors
    /// The connection has failed, or ended.
    pub(super) fn hear<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
    ) -> Result<Option<Vec<u8>>, EnvironmentError> {
        let fail = |e: &str| EnvironmentError(format!("{}: {e}", self.to));
        while let Some(event) = self.manager.pump(station) {
            if matches!(event, Event::Disconnected { id, .. } if id == self.control) {
                return Err(fail("the other side has closed the connection"));
            }
        }
        while let Some(entry) = station.pop_of(self.qpn) {
            match entry {
                CqEntry::Completion(done) if done.status != CompletionStatus::Success => {
                    return Err(fail(&format!("the exchange ended with {}", done.status.name())));
                }
                CqEntry::Completion(done) if done.opcode == WcOpcode::Recv => {
                    let at = self.region.va + done.wr_id * u64::from(WORD);
                    let word = station.endpoint().memory().local(self.region.key, at, done.byte_len);
                    self.heard.push_back(word.map_err(|e| fail(&e.to_string()))?.to_vec());
                    post_recv(station, &self.region, self.qpn, done.wr_id)?;
                }
                CqEntry::Event(_, QpEvent::Fatal(status)) => return Err(fail(status.name())),
                _ => {}
            }
        }
        Ok(self.heard.pop_front())
    }

    /// Ends all connections, those for data first.
    pub(super) fn close<I: PacketIo, C: Clock>(mut self, station: &mut Station<I, C>) {
        let mut open = self.data.clone();
        for last in [false, true] {
            if last {
                open = vec![self.control];
            }
            for id in &open {
                // One that has ended already needs no farewell.
                let _ = self.manager.agent().disconnect(station.now(), *id);
            }
            let end = station.turn() + if station.is_interrupted() { SHORT } else { FAREWELL };
            while !open.is_empty() && station.idle_turn() < end {
                if let Some(Event::Disconnected { id, .. }) = self.manager.pump(station) {
                    open.retain(|o| *o != id);
                }
            }
        }
    }
}

/// Calls until the server listens.
fn connect<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    manager: &mut Manager,
    call: &Call,
    patience: Duration,
) -> Result<Answer, EnvironmentError> {
    for left in (0..TRIES).rev() {
        match manager.dial(station, call, patience)? {
            Ok(answer) => return Ok(answer),
            Err(reason) if reason == RejReason::INVALID_SERVICE_ID && left != 0 => {}
            Err(reason) => return Err(EnvironmentError(format!("{}: refused: {reason}", call.to))),
        }
        let again = station.now() + APART;
        while station.idle_turn() < again {
            let _ = manager.pump(station);
        }
    }
    Err(EnvironmentError(format!("{}: nobody listens", call.to)))
}

fn post_recv<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    region: &MemoryRegion,
    qpn: Qpn,
    n: u64,
) -> Result<(), EnvironmentError> {
    let sge = Sge { addr: region.va + n * u64::from(WORD), len: WORD, lkey: region.key };
    match station.endpoint().post_recv(qpn, RecvWr { wr_id: n, sge }) {
        Some(Ok(())) => Ok(()),
        other => Err(EnvironmentError(format!("queue pair {qpn}: {other:?}"))),
    }
}
