//! A lane: one side of one queue pair of a flow.

use super::pattern;
use crate::config::{After, Flow, Transport, Verb};
use roce_engine::io::{BURST, PacketIo};
use roce_engine::units::{Instant, Mtu, Qpn};
use roce_engine::verbs::{Datagram, GRH_LEN, MrKey, RecvWr, SendFlags, SendOp, SendWr, Sge, Srqn};
use roce_engine::worker::Endpoint;
use std::collections::VecDeque;

/// The bytes between two buffers, which nothing may touch, hold this.
const GUARD: u8 = 0xA5;
/// At least so many of them.
const GUARD_BYTES: u64 = 64;

/// Which side of a flow a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Posts the requests.
    Sender,
    /// The other one.
    Receiver,
}

impl Side {
    /// The other side.
    pub fn other(self) -> Side {
        match self {
            Side::Sender => Side::Receiver,
            Side::Receiver => Side::Sender,
        }
    }
}

/// Messages that a side of a flow has room for.
pub fn side_depth(flow: &Flow, side: Side) -> u32 {
    match side {
        Side::Sender => flow.depth,
        Side::Receiver => receive_depth(flow.transport, flow.depth),
    }
}

/// Messages that a receiver has room for.  Nothing holds an unreliable sender back: its receiver
/// takes up to a burst of messages before it looks at the first.
pub fn receive_depth(transport: Transport, depth: u32) -> u32 {
    if transport.is_reliable() { depth } else { depth.max(2 * BURST as u32) }
}

/// Bytes that one buffer of a side holds: a message, and what lies before a received datagram.
pub fn buffer_size(flow: &Flow, side: Side) -> u32 {
    flow.size + front(flow.transport, side)
}

/// Bytes before the message in a buffer.
pub fn front(transport: Transport, side: Side) -> u32 {
    match (transport, side) {
        (Transport::Ud, Side::Receiver) => GRH_LEN,
        _ => 0,
    }
}

/// What a receiving lane has in a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedReceives {
    /// The queue.
    pub srqn: Srqn,
    /// Receive requests that the lane posts there.
    pub entries: u32,
}

/// Message buffers of one side of a queue pair: `slots` of them, `stride` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Virtual address of the first.
    pub va: u64,
    /// The key of their memory region.
    pub key: MrKey,
    /// How many.
    pub slots: u64,
    /// Bytes from one to the next.
    pub stride: u64,
}

impl Buffers {
    /// Bytes from one buffer of `size` bytes to the next; with a guard in between when it is
    /// to be verified.
    pub fn stride(size: u32, verify: bool) -> u64 {
        u64::from(size).next_multiple_of(64).max(64) + if verify { GUARD_BYTES } else { 0 }
    }

    /// Buffers that one side keeps: one for each outstanding message when every byte is to be
    /// verified, else one for all, as perftest does; one more for what READs read, so that no
    /// two READs into a buffer find the same bytes.
    pub fn slots(depth: u32, verify: bool, read_source: bool) -> u64 {
        match (verify, read_source) {
            (false, _) => 1,
            (true, false) => u64::from(depth),
            (true, true) => u64::from(depth) + 1,
        }
    }

    /// All bytes of it.
    pub fn len(&self) -> u64 {
        self.slots * self.stride
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn at(&self, slot: u64) -> u64 {
        self.va + slot * self.stride
    }
}

/// Messages at fixed times: message `n` of a lane is due `offset + n x interval` after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds between two messages, 20 fractional bits.
    pub interval: u64,
    /// Nanoseconds from the start to the first.
    pub offset: u64,
}

impl Pace {
    /// `rate` messages a second over `lanes` lanes, of which this is number `index`.
    pub fn new(rate: f64, lanes: u32, index: u32) -> Pace {
        let interval = f64::from(lanes) / rate * 1e9;
        let offset = interval * f64::from(index) / f64::from(lanes);
        Pace { interval: (interval * f64::from(1 << 20)).min(u64::MAX as f64) as u64, offset: offset as u64 }
    }
}

/// What a lane is made with.
#[derive(Clone, Copy, Debug)]
pub struct LaneSpec {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Index of the queue pair in the flow.
    pub index: u32,
    /// Index of the endpoint on its worker.
    pub endpoint: usize,
    /// The queue pair.
    pub qpn: Qpn,
    /// Which side.
    pub side: Side,
    /// What is posted.
    pub verb: Verb,
    /// Messages may go missing.
    pub unreliable: bool,
    /// Seeds the payload; the same on both sides.
    pub seed: u64,
    /// Bytes of a message.
    pub size: u32,
    /// The path MTU.
    pub mtu: Mtu,
    /// Messages outstanding.
    pub depth: u32,
    /// Check every byte.
    pub verify: bool,
    /// Messages to send.
    pub messages: Option<u64>,
    /// What its messages wait for, by steps.
    pub after: Option<After>,
    /// When messages are due; as soon as there is room when left out.
    pub pace: Option<Pace>,
    /// The buffers of this side.
    pub local: Buffers,
    /// The buffers of the other side.
    pub remote: Buffers,
    /// Bytes before the message in a buffer of this side.
    pub front: u32,
    /// Where datagrams go.
    pub datagram: Option<Datagram>,
    /// Receive requests that other lanes may use.
    pub shared: Option<SharedReceives>,
}

/// A message that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its number.
    pub number: u64,
    /// When it was due.
    pub due: Instant,
}

/// What the check of a received message found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub number: u64,
    /// Whether it was checked.
    pub checked: bool,
    /// Messages before it that never came.
    pub lost: u64,
    /// Offset of the first wrong byte.
    pub wrong: Option<u64>,
}

/// The name of a receive request: whose buffer it is, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveId {
    /// Index of the lane on its worker.
    pub(super) lane: u32,
    pub(super) slot: u32,
}

impl ReceiveId {
    fn pack(self) -> u64 {
        u64::from(self.lane) << 32 | u64::from(self.slot)
    }

    pub(super) fn unpack(wr_id: u64) -> ReceiveId {
        ReceiveId { lane: (wr_id >> 32) as u32, slot: wr_id as u32 }
    }
}

/// One side of one queue pair.
#[derive(Debug)]
pub struct Lane {
    spec: LaneSpec,
    /// Index of its flow in the generator.
    flow: usize,
    start: Instant,
    posted: u64,
    received: u64,
    /// When the outstanding messages were due, oldest first.
    due: VecDeque<Instant>,
    dead: bool,
    blocked: bool,
    finish_noted: bool,
    /// Messages that it may post so far.
    allowed: u64,
}

impl Lane {
    /// A lane at rest.
    pub fn new(spec: LaneSpec) -> Lane {
        let depth = if spec.side == Side::Sender { spec.depth as usize } else { 0 };
        let allowed = spec.after.map_or(u64::MAX, |a| a.pieces);
        Lane {
            spec,
            flow: 0,
            start: Instant::ZERO,
            posted: 0,
            received: 0,
            due: VecDeque::with_capacity(depth),
            dead: false,
            blocked: false,
            finish_noted: false,
            allowed,
        }
    }

    /// Fills the buffers and posts the first receive requests, named after lane `number`.
    pub fn prepare<I: PacketIo>(&self, number: u32, endpoint: &mut Endpoint<I>) {
        let s = &self.spec;
        let size = s.size as usize;
        // Where READs put bytes there must not lie what they are to bring.
        let source = (s.verb == Verb::Read) == (s.side == Side::Receiver);
        let _ = endpoint.memory_mut().fill(s.local.key, |bytes| {
            bytes.fill(GUARD);
            for (slot, buffer) in bytes.chunks_exact_mut(s.local.stride as usize).enumerate() {
                if source {
                    pattern::fill(&mut buffer[..size], s.seed, slot as u64);
                }
            }
        });
        if source && !s.verify && s.size != 0 {
            // The same bytes over and over: nothing needs to look at them again.
            let _ = endpoint.memory_mut().freeze(s.local.key, s.mtu.bytes());
        }
        if s.side == Side::Receiver && s.verb.takes_recv() {
            for i in 0..u64::from(s.shared.map_or(s.depth, |shared| shared.entries)) {
                let slot = (i % s.local.slots) as u32;
                self.repost(ReceiveId { lane: number, slot }, endpoint);
            }
        }
    }

    pub(super) fn flow_of_scenario(&self) -> usize {
        self.spec.flow
    }

    /// Its flow, among those of its generator.
    pub(super) fn flow(&self) -> usize {
        self.flow
    }

    pub(super) fn set_flow(&mut self, flow: usize) {
        self.flow = flow;
    }

    pub(super) fn index(&self) -> u32 {
        self.spec.index
    }

    pub(super) fn endpoint(&self) -> usize {
        self.spec.endpoint
    }

    pub(super) fn qpn(&self) -> Qpn {
        self.spec.qpn
    }

    pub(super) fn is_sender(&self) -> bool {
        self.spec.side == Side::Sender
    }

    /// Whether payload leaves from here.
    pub(super) fn sends_data(&self) -> bool {
        self.is_sender() != (self.spec.verb == Verb::Read)
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.due.len() as u32
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }

    pub(super) fn set_dead(&mut self) {
        self.dead = true;
    }

    /// The flow whose messages it waits for.
    pub(super) fn after(&self) -> Option<usize> {
        Some(self.spec.after?.flow)
    }

    /// So many messages have come that it may wait for.
    #[inline]
    pub(super) fn allow_after(&mut self, received: u64) {
        if let Some(after) = self.spec.after {
            self.allowed = (received / after.pieces + 1) * after.pieces;
        }
    }

    pub(super) fn is_paced(&self) -> bool {
        self.spec.pace.is_some()
    }

    pub(super) fn set_blocked(&mut self) {
        self.blocked = true;
    }

    pub(super) fn take_blocked(&mut self) -> bool {
        std::mem::take(&mut self.blocked)
    }

    /// Whether it posts nothing more by itself.
    pub(super) fn is_over(&self) -> bool {
        self.dead || self.spec.messages.is_some_and(|m| self.posted >= m)
    }

    /// Whether all its messages have ended.
    pub(super) fn is_finished(&self) -> bool {
        self.is_over() && self.due.is_empty()
    }

    /// Whether this is the first time that somebody notes its end.
    pub(super) fn note_finished(&mut self) -> bool {
        !std::mem::replace(&mut self.finish_noted, true)
    }

    /// Begins at `now`: when its first message is due, if it is paced by messages.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Instant> {
        self.start = now;
        self.next_due()
    }

    /// When its next message is due, if it is paced by messages and has one.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let pace = self.spec.pace.filter(|_| self.is_sender() && !self.is_over())?;
        let after = (u128::from(self.posted) * u128::from(pace.interval)) >> 20;
        let ns = u64::try_from(after).unwrap_or(u64::MAX).saturating_add(pace.offset);
        Some(Instant::from_nanos(self.start.as_nanos().saturating_add(ns)))
    }

    /// Messages that were due until `now` and are not posted.
    pub(super) fn overdue(&self, now: Instant) -> u64 {
        let Some(pace) = self.spec.pace.filter(|_| self.is_sender() && !self.dead) else { return 0 };
        let Some(since) = now.since(self.start).as_nanos().checked_sub(pace.offset) else { return 0 };
        let due =
            u64::try_from((u128::from(since) << 20) / u128::from(pace.interval.max(1))).unwrap_or(u64::MAX);
        let due = due.saturating_add(1).min(self.spec.messages.unwrap_or(u64::MAX));
        due.saturating_sub(self.posted)
    }

    /// Posts until its pipe is full; how many.
    pub(super) fn fill_pipe<I: PacketIo>(&mut self, now: Instant, endpoint: &mut Endpoint<I>) -> u64 {
        let mut n = 0;
        while self.post(now, endpoint) {
            n += 1;
        }
        n
    }

    /// Posts its next message, which was due at `due`; `false` when there is no room or none left.
    #[inline]
    pub(super) fn post<I: PacketIo>(&mut self, due: Instant, endpoint: &mut Endpoint<I>) -> bool {
        let s = &self.spec;
        let number = self.posted;
        if !self.is_sender() || self.is_over() || self.due.len() >= s.depth as usize || number >= self.allowed
        {
            return false;
        }
        let addr = s.local.at(number % s.local.slots);
        let raddr = s.remote.at(number % s.remote.slots);
        let rkey = s.remote.key;
        let imm = number as u32;
        let op = match s.verb {
            Verb::Write => SendOp::Write { raddr, rkey },
            Verb::WriteImm => SendOp::WriteImm { raddr, rkey, imm },
            Verb::Send => s.datagram.map_or(SendOp::Send, SendOp::Datagram),
            Verb::SendImm => match s.datagram {
                None => SendOp::SendImm(imm),
                Some(to) => SendOp::Datagram(Datagram { imm: Some(imm), ..to }),
            },
            Verb::Read => SendOp::Read { raddr, rkey },
        };
        if s.verify && s.verb != Verb::Read && s.size != 0 {
            if let Ok(bytes) = endpoint.memory_mut().local_mut(s.local.key, addr, s.size) {
                pattern::fill(bytes, s.seed, number);
            }
        }
        let wr = SendWr {
            wr_id: number,
            op,
            sge: Sge { addr, len: s.size, lkey: s.local.key },
            flags: SendFlags { signaled: true, ..SendFlags::default() },
        };
        if !matches!(endpoint.post_send(s.qpn, wr), Some(Ok(()))) {
            return false;
        }
        self.posted += 1;
        self.due.push_back(due);
        true
    }

    /// Its oldest outstanding message has ended.
    #[inline]
    pub(super) fn end_message(&mut self) -> Option<Ended> {
        let number = self.posted - self.due.len() as u64;
        self.due.pop_front().map(|due| Ended { number, due })
    }

    /// What READ `number` brought, checked if that is asked for; `None` for other verbs.
    #[inline]
    pub(super) fn check_read<I: PacketIo>(&self, number: u64, endpoint: &Endpoint<I>) -> Option<Received> {
        let s = &self.spec;
        if s.verb != Verb::Read {
            return None;
        }
        if !s.verify {
            return Some(Received { number, ..Received::default() });
        }
        let addr = s.local.at(number % s.local.slots);
        let wrong = match endpoint.memory().local(s.local.key, addr, s.size) {
            Ok(bytes) => {
                pattern::check(bytes, s.seed, number % s.remote.slots).err().map(|w| w.offset as u64)
            }
            Err(_) => Some(0),
        };
        Some(Received { number, checked: true, lost: 0, wrong })
    }

    /// A message was received at `place`.
    #[inline]
    pub(super) fn receive<I: PacketIo>(&mut self, place: Sge, endpoint: &Endpoint<I>) -> Received {
        let Sge { addr, len, lkey } = place;
        let s = &self.spec;
        let mut number = self.received;
        let bytes = if s.verify { endpoint.memory().local(lkey, addr, len).ok() } else { None };
        let mut lost = 0;
        if s.unreliable && s.verify {
            // Some messages before this one may never come.
            if let Some(found) =
                bytes.and_then(|b| pattern::number_of(b, s.seed)).filter(|n| n.wrapping_sub(number) < 1 << 32)
            {
                lost = found - number;
                number = found;
            }
        }
        self.received = number + 1;
        if !s.verify {
            return Received { number, ..Received::default() };
        }
        let place =
            s.verb.takes_recv() && s.verb != Verb::WriteImm || addr == s.local.at(number % s.local.slots);
        let wrong = match bytes {
            Some(bytes) if len == s.size && place => {
                pattern::check(bytes, s.seed, number).err().map(|w| w.offset as u64)
            }
            _ => Some(0),
        };
        Received { number, checked: true, lost, wrong }
    }

    /// Whether the immediate data is that of the message received last.
    pub(super) fn check_imm(&self, imm: Option<u32>) -> bool {
        if self.spec.unreliable && !self.spec.verify {
            // Some messages may be missing, and nothing else tells which one this is.
            return imm.is_some() == self.spec.verb.has_imm();
        }
        let want = self.spec.verb.has_imm().then(|| self.received.wrapping_sub(1) as u32);
        imm == want
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Where the message lies in its buffer `slot`, of which `byte_len` bytes were filled.
    pub(super) fn message_in(&self, slot: u32, byte_len: u32) -> Sge {
        let s = &self.spec;
        let addr = s.local.at(u64::from(slot)) + u64::from(s.front);
        Sge { addr, len: byte_len.saturating_sub(s.front), lkey: s.local.key }
    }

    /// Where a WRITE put `len` bytes.
    pub(super) fn written_at(&self, addr: u64, len: u32) -> Sge {
        Sge { addr, len, lkey: self.spec.local.key }
    }

    pub(super) fn shares_receives(&self) -> bool {
        self.spec.shared.is_some()
    }

    /// Posts one of its receive requests.
    #[inline]
    pub(super) fn repost<I: PacketIo>(&self, id: ReceiveId, endpoint: &mut Endpoint<I>) {
        let s = &self.spec;
        let addr = s.local.at(u64::from(id.slot));
        let wr = RecvWr { wr_id: id.pack(), sge: Sge { addr, len: s.size + s.front, lkey: s.local.key } };
        match s.shared.and_then(|shared| endpoint.srq_mut(shared.srqn)) {
            // There is room: each request is posted again after it was taken.
            Some(srq) => _ = srq.post(wr),
            None => _ = endpoint.post_recv(s.qpn, wr),
        }
    }

    /// The offset of the first byte outside the buffers that something has touched.
    pub(super) fn check_guards<I: PacketIo>(&self, endpoint: &Endpoint<I>) -> Option<u64> {
        let s = &self.spec;
        if !s.verify {
            return None;
        }
        let filled = u64::from(s.front) + u64::from(s.size);
        let guard = (s.local.stride - filled) as u32;
        (0..s.local.slots).find_map(|slot| {
            let from = s.local.at(slot) + filled;
            let bytes = endpoint.memory().local(s.local.key, from, guard).ok()?;
            let at = bytes.iter().position(|b| *b != GUARD)?;
            Some(from - s.local.va + at as u64)
        })
    }
}
