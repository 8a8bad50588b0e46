//! The part of a test that is measured: messages between queue pairs that are connected.

use super::options::{AtomicKind, CYCLE, Operation, PerftestArgs};
use super::wire::Key;
use crate::measure::Latency;
use crate::run::EnvironmentError;
use crate::station::Station;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Instant, Qpn};
use roce_engine::verbs::{
    Completion, CompletionStatus, CqEntry, MemoryRegion, MrKey, QpEvent, RecvWr, SendFlags, SendOp, SendWr,
    Sge, WcOpcode,
};
use std::collections::{HashMap, VecDeque};

/// Messages start at multiples of it.
const CACHE_LINE: u32 = 64;
/// Receive requests have this in their numbers.
const RECV: u64 = 1 << 63;

/// Our side of a test: queue pairs, memory, and what the peer told of its own.
#[derive(Debug)]
pub(super) struct Side {
    /// The queue pairs.
    pub(super) qpns: Vec<Qpn>,
    /// The peer's, in the same order.
    pub(super) theirs: Vec<Key>,
    /// Our memory: for each queue pair a part to send from, then for each one to receive into.
    pub(super) region: MemoryRegion,
    /// Bytes of a part.
    pub(super) part: u64,
}

/// What one measurement came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bytes of a message.
    pub size: u32,
    /// Messages of each queue pair.
    pub iterations: u64,
    /// Messages of all queue pairs.
    pub messages: u64,
    /// From the first request to the last completion.
    pub elapsed: Duration,
    /// The shortest time in which as many messages as a queue holds completed; `None` where too
    /// few did, or time and not messages are counted.
    pub best: Option<(u64, Duration)>,
    /// Of each message; half of it where messages go there and back.
    pub latency: Latency,
}

/// What runs in a measurement, by queue pair.
struct Lane {
    posted: u64,
    /// When the requests under way were posted.
    since: VecDeque<Instant>,
    completed: u64,
    received: u64,
    /// WRITEs of the peer's.
    written: u64,
}

/// A measurement that runs.
struct Run<'a> {
    side: &'a Side,
    args: &'a PerftestArgs,
    size: u32,
    lanes: Vec<Lane>,
    by_qpn: HashMap<Qpn, usize>,
    latency: Latency,
    /// When each message ended; not kept where a time, and not a number of messages, is the end.
    ends: Vec<Instant>,
    /// When the last one did.
    last: Option<Instant>,
}

impl Side {
    /// Bytes of a part for messages of `size` bytes: a whole cycle of them.
    pub(super) fn part_for(size: u32) -> u64 {
        u64::from(size.max(CYCLE).next_multiple_of(CACHE_LINE))
    }

    /// Where queue pair `q` sends from.
    pub(super) fn send_at(&self, q: usize) -> u64 {
        self.region.va + q as u64 * self.part
    }

    /// Where queue pair `q` receives, and the peer writes and reads.
    pub(super) fn receive_at(&self, q: usize) -> u64 {
        self.region.va + (self.qpns.len() + q) as u64 * self.part
    }

    /// Posts receive request number `n` of queue pair `q`, which takes messages of all sizes.
    pub(super) fn post_recv<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        q: usize,
        n: u64,
    ) -> Result<(), EnvironmentError> {
        let sge = Sge { addr: self.receive_at(q), len: self.part as u32, lkey: self.region.key };
        let outcome = station.endpoint().post_recv(self.qpns[q], RecvWr { wr_id: RECV | n, sge });
        posted(outcome.map(|o| o.map_err(|e| e.to_string())), self.qpns[q])
    }

    fn post_send<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        (q, n): (usize, u64),
        size: u32,
        operation: Operation,
    ) -> Result<(), EnvironmentError> {
        let their = &self.theirs[q];
        let (raddr, rkey) = (their.vaddr + place(size, n), MrKey(their.rkey));
        let op = match operation {
            Operation::Write => SendOp::Write { raddr, rkey },
            Operation::Read => SendOp::Read { raddr, rkey },
            Operation::Send => SendOp::Send,
            Operation::Atomic(AtomicKind::FetchAdd) => SendOp::FetchAdd { raddr, rkey, add: 1 },
            Operation::Atomic(AtomicKind::CompareSwap) => {
                SendOp::CompareSwap { raddr, rkey, compare: 0, swap: 0 }
            }
        };
        let sge = Sge { addr: self.send_at(q) + place(size, n), len: size, lkey: self.region.key };
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let wr = SendWr { wr_id: n, op, sge, flags };
        let outcome = station.endpoint().post_send(self.qpns[q], wr);
        posted(outcome.map(|o| o.map_err(|e| e.to_string())), self.qpns[q])
    }
}

/// Our side of a bandwidth test: sends, receives, or both.
///
/// # Errors
/// A request failed, or nothing has come for too long.
pub(super) fn bandwidth<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    side: &Side,
    args: &PerftestArgs,
    size: u32,
    sends: bool,
    receives: bool,
) -> Result<Measured, EnvironmentError> {
    let mut run = Run::new(side, args, size);
    let qps = side.qpns.len();
    let iterations = args.iterations();
    let begin = station.turn();
    let end = args.duration.map(|s| begin + Duration::from_secs(s.into()));
    let patience = Duration::from_secs(args.patience.into());
    let mut progress = begin;
    loop {
        let now = station.turn();
        let over = end.is_some_and(|end| now >= end);
        if sends {
            for q in 0..qps {
                while !over
                    && (end.is_some() || run.lanes[q].posted < iterations)
                    && (run.lanes[q].since.len() as u32) < args.tx_depth
                {
                    run.post(station, q, now)?;
                }
            }
        }
        let mut worked = false;
        while let Some(entry) = station.pop() {
            worked = true;
            if let Some((q, n)) = run.take(station.now(), &entry)? {
                side.post_recv(station, q, n + u64::from(args.rx_depth))?;
            }
        }
        if worked {
            progress = station.now();
        }
        let sent = !sends
            || match end {
                Some(_) => over && run.lanes.iter().all(|l| l.since.is_empty()),
                None => run.lanes.iter().all(|l| l.completed >= iterations),
            };
        let received = !receives
            || match end {
                Some(_) => over,
                None => run.lanes.iter().map(|l| l.received).sum::<u64>() >= iterations * qps as u64,
            };
        if sent && received {
            break;
        }
        if station.now().since(progress) > patience {
            return Err(EnvironmentError(format!(
                "nothing has happened for {patience}: {} messages sent, {} received; are the options of \
                 both sides the same?",
                run.lanes.iter().map(|l| l.completed).sum::<u64>(),
                run.lanes.iter().map(|l| l.received).sum::<u64>(),
            )));
        }
    }
    let messages = run.lanes.iter().map(|l| if sends { l.completed } else { l.received }).sum();
    Ok(run.measured(messages, begin, args.tx_depth))
}

/// Our side of a latency test of READ or atomics: one request at a time.
///
/// # Errors
/// As [`bandwidth`].
pub(super) fn one_by_one<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    side: &Side,
    args: &PerftestArgs,
    size: u32,
) -> Result<Measured, EnvironmentError> {
    let one = PerftestArgs { tx_depth: 1, ..args.clone() };
    bandwidth(station, side, &one, size, true, false)
}

/// Our side of a latency test whose messages go there and back; `first` says who begins.
///
/// # Errors
/// As [`bandwidth`].
pub(super) fn ping_pong<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    side: &Side,
    args: &PerftestArgs,
    size: u32,
    first: bool,
) -> Result<Measured, EnvironmentError> {
    let mut run = Run::new(side, args, size);
    let iterations = args.iterations();
    let patience = Duration::from_secs(args.patience.into());
    let begin = station.turn();
    let end = args.duration.map(|s| begin + Duration::from_secs(s.into()));
    let mut sent_at = begin;
    'rounds: for round in 0.. {
        if end.map_or(round >= iterations, |end| station.now() >= end) {
            break;
        }
        if first {
            sent_at = station.now();
            run.answer(station, round)?;
        }
        let wait = station.now();
        while run.came() <= round {
            let now = station.turn();
            while let Some(entry) = station.pop() {
                if let Some((q, n)) = run.take(now, &entry)? {
                    side.post_recv(station, q, n + u64::from(args.rx_depth))?;
                }
            }
            if end.is_some_and(|end| now >= end) {
                break 'rounds;
            }
            if now.since(wait) > patience {
                return Err(EnvironmentError(format!(
                    "message {round} of the peer's has not come for {patience}; are the options of both \
                     sides the same?"
                )));
            }
        }
        // The side that answers measures from its last answer on.
        if first || round > 0 {
            run.latency.record(Duration::from_nanos(station.now().since(sent_at).as_nanos() / 2));
        }
        if !first {
            sent_at = station.now();
            run.answer(station, round)?;
        }
    }
    // What was sent last is acknowledged before anybody goes.
    let wait = station.now();
    while !run.lanes[0].since.is_empty() && station.turn().since(wait) < patience {
        while let Some(entry) = station.pop() {
            run.take(station.now(), &entry)?;
        }
    }
    let messages = run.lanes[0].completed;
    let mut measured = run.measured(messages, begin, 1);
    measured.best = None;
    Ok(measured)
}

impl<'a> Run<'a> {
    fn new(side: &'a Side, args: &'a PerftestArgs, size: u32) -> Run<'a> {
        let lane = || Lane { posted: 0, since: VecDeque::new(), completed: 0, received: 0, written: 0 };
        Run {
            side,
            args,
            size,
            lanes: side.qpns.iter().map(|_| lane()).collect(),
            by_qpn: side.qpns.iter().enumerate().map(|(q, qpn)| (*qpn, q)).collect(),
            latency: Latency::default(),
            ends: Vec::new(),
            last: None,
        }
    }

    fn post<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        q: usize,
        now: Instant,
    ) -> Result<(), EnvironmentError> {
        let lane = &mut self.lanes[q];
        // A peer that looks for a WRITE looks at one place.
        let n = if self.args.tool.is_latency() { 0 } else { lane.posted };
        self.side.post_send(station, (q, n), self.size, self.args.operation())?;
        lane.posted += 1;
        lane.since.push_back(now);
        Ok(())
    }

    /// Sends the message of a round.
    fn answer<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        round: u64,
    ) -> Result<(), EnvironmentError> {
        self.mark(station, round)?;
        self.post(station, 0, station.now())
    }

    /// Messages of the peer's.
    fn came(&self) -> u64 {
        let lane = &self.lanes[0];
        if self.args.operation() == Operation::Write { lane.written } else { lane.received }
    }

    /// The last byte of a WRITE tells its round: the peer looks for it.
    fn mark<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        round: u64,
    ) -> Result<(), EnvironmentError> {
        let at = self.side.send_at(0) + u64::from(self.size) - 1;
        let byte = station.endpoint().memory_mut().local_mut(self.side.region.key, at, 1);
        byte.map_err(|e| EnvironmentError(e.to_string()))?[0] = (round + 1) as u8;
        Ok(())
    }

    /// Takes what has happened; the queue pair and number of a receive request that completed.
    fn take(&mut self, now: Instant, entry: &CqEntry) -> Result<Option<(usize, u64)>, EnvironmentError> {
        match entry {
            CqEntry::Event(qpn, QpEvent::WriteExecuted { .. }) => {
                if let Some(&q) = self.by_qpn.get(qpn) {
                    self.lanes[q].written += 1;
                }
                Ok(None)
            }
            CqEntry::Event(qpn, QpEvent::Fatal(status)) => Err(failed(*qpn, *status)),
            CqEntry::Event(..) => Ok(None),
            CqEntry::Completion(done) => self.complete(now, done),
        }
    }

    fn complete(
        &mut self,
        now: Instant,
        done: &Completion,
    ) -> Result<Option<(usize, u64)>, EnvironmentError> {
        let Some(&q) = self.by_qpn.get(&done.qpn) else { return Ok(None) };
        if done.status != CompletionStatus::Success {
            return Err(failed(done.qpn, done.status));
        }
        let lane = &mut self.lanes[q];
        if done.opcode == WcOpcode::Recv {
            lane.received += 1;
            return Ok(Some((q, done.wr_id & !RECV)));
        }
        lane.completed += 1;
        if let Some(since) = lane.since.pop_front() {
            if !self.args.tool.is_ping_pong() {
                self.latency.record(now.since(since));
            }
        }
        self.last = Some(now);
        if self.args.duration.is_none() {
            self.ends.push(now);
        }
        Ok(None)
    }

    fn measured(self, messages: u64, begin: Instant, depth: u32) -> Measured {
        let span = (depth as usize * self.lanes.len()).min(self.ends.len() / 2);
        let best = (span > 0)
            .then(|| self.ends.windows(span + 1).map(|w| w[span].since(w[0])).min())
            .flatten()
            .filter(|d| *d > Duration::ZERO)
            .map(|d| (span as u64, d));
        Measured {
            size: self.size,
            iterations: messages / self.lanes.len().max(1) as u64,
            messages,
            elapsed: self.last.unwrap_or(begin).since(begin),
            best,
            latency: self.latency,
        }
    }
}

/// Where message `n` lies within a part: small ones go round in the cycle.
fn place(size: u32, n: u64) -> u64 {
    let step = size.next_multiple_of(CACHE_LINE).max(CACHE_LINE);
    if size <= CYCLE / 2 { n % u64::from(CYCLE / step) * u64::from(step) } else { 0 }
}

fn posted(outcome: Option<Result<(), String>>, qpn: Qpn) -> Result<(), EnvironmentError> {
    match outcome {
        Some(Ok(())) => Ok(()),
        Some(Err(e)) => Err(EnvironmentError(format!("queue pair {qpn}: {e}"))),
        None => Err(EnvironmentError(format!("there is no queue pair {qpn}"))),
    }
}

fn failed(qpn: Qpn, status: CompletionStatus) -> EnvironmentError {
    EnvironmentError(format!("queue pair {qpn}: a request ended with {}", status.name()))
}
