//! A lane: one side of one queue pair of a flow.

use super::arrivals::Schedule;
use super::buffers::{Buffers, Side};
use super::pattern;
use super::spec::LaneSpec;
use super::traffic::Message;
use crate::config::Verb;
use crate::plan::Frames;
use roce_engine::io::PacketIo;
use roce_engine::units::{Duration, Instant, Qpn};
use roce_engine::verbs::{Datagram, RecvWr, SendFlags, SendOp, SendWr, Sge};
use roce_engine::wire::PERIOD;
use roce_engine::worker::Endpoint;
use std::collections::VecDeque;

/// The bytes between two buffers, which nothing may touch, hold this.
const GUARD: u8 = 0xA5;

/// A message that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its number.
    pub number: u64,
    /// When it was due.
    pub due: Instant,
    /// What it was.
    pub message: Message,
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    due: Instant,
    message: Message,
}

/// What the check of a received message found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub number: u64,
    /// Whether it was checked.
    pub checked: bool,
    /// Messages before it that have not come.
    pub lost: u64,
    /// It had been taken for lost.
    pub found: bool,
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
    /// The largest message.
    size: u32,
    schedule: Schedule,
    posted: u64,
    received: u64,
    /// The message received last, and which of those up to the newest one have come: the newest in the
    /// lowest bit.
    last: u64,
    came: u64,
    /// The messages under way, oldest first.
    due: VecDeque<Outstanding>,
    /// In a closed loop with time to think: when it has thought, earliest first.
    thinking: VecDeque<Instant>,
    dead: bool,
    blocked: bool,
    /// Until when it had no room for what was due.
    full_until: Instant,
    finish_noted: bool,
    begun: bool,
    /// Messages that it may post so far.
    allowed: u64,
}

impl Lane {
    /// A lane at rest.
    pub fn new(spec: LaneSpec) -> Lane {
        let depth = if spec.side == Side::Sender { spec.depth as usize } else { 0 };
        let allowed = if spec.steps.is_some() { 0 } else { u64::MAX };
        Lane {
            flow: 0,
            size: spec.traffic.bounds().1,
            schedule: Schedule::new(spec.arrivals, spec.seed),
            posted: 0,
            received: 0,
            last: 0,
            came: u64::MAX,
            due: VecDeque::with_capacity(depth),
            thinking: VecDeque::with_capacity(if spec.thinks().is_some() { depth } else { 0 }),
            dead: false,
            blocked: false,
            full_until: Instant::ZERO,
            finish_noted: false,
            begun: false,
            allowed,
            spec,
        }
    }

    /// Fills the buffers and posts the first receive requests, named after lane `number`.
    pub fn prepare<I: PacketIo>(&self, number: u32, endpoint: &mut Endpoint<I>) {
        let s = &self.spec;
        let size = self.size as usize;
        // Where READs put bytes there must not lie what they are to bring.
        let source = match s.side {
            Side::Sender => s.traffic.has(|v| v != Verb::Read).then_some(s.local.write),
            Side::Receiver => s.traffic.has(|v| v == Verb::Read).then_some(s.local.read),
        };
        let (key, va) = (s.local.write.key, s.local.each().map(|b| b.va).min().unwrap_or(0));
        let _ = endpoint.memory_mut().fill(key, |bytes| {
            bytes.fill(GUARD);
            let Some(source) = source else { return };
            let from = (source.va - va) as usize;
            // A hollow memory has no such bytes.
            let Some(bytes) = bytes.get_mut(from..from + source.len() as usize) else { return };
            for (slot, buffer) in bytes.chunks_exact_mut(source.stride as usize).enumerate() {
                let buffer = &mut buffer[..size];
                if s.verify {
                    pattern::fill(buffer, s.seed, slot as u64);
                    continue;
                }
                // Nobody looks at it: what repeats soon stays in the caches of who sends it.
                let (first, rest) = buffer.split_at_mut(size.min(PERIOD));
                pattern::fill(first, s.seed, slot as u64);
                rest.chunks_mut(PERIOD).for_each(|more| more.copy_from_slice(&first[..more.len()]));
            }
        });
        if source.is_some() && s.local.each().count() == 1 && !s.verify && size != 0 {
            // The same bytes over and over: nothing needs to look at them again.
            let _ = endpoint.memory_mut().freeze(key, s.mtu.bytes().min(size));
        }
        if s.side == Side::Receiver && s.traffic.has(Verb::takes_recv) {
            for i in 0..u64::from(s.shared.map_or(s.depth, |shared| shared.entries)) {
                let slot = (i % s.local.receive.slots) as u32;
                self.repost(ReceiveId { lane: number, slot }, endpoint);
            }
        }
    }

    /// Fetches what lies outside of it: when its oldest message was due, and its memory region.
    #[inline]
    pub(super) fn fetch_more<I: PacketIo>(&self, endpoint: &Endpoint<I>) {
        if let Some(due) = self.due.front() {
            I::fetch(due);
        }
        if let Some(region) = endpoint.memory().region(self.spec.local.write.key) {
            I::fetch(region);
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
        self.spec.traffic.has(|v| self.is_sender() != (v == Verb::Read))
    }

    pub(super) fn spec(&self) -> &LaneSpec {
        &self.spec
    }

    /// What a kind of its messages comes to on the wire.
    #[inline]
    pub(super) fn frames(&self, kind: u32) -> &Frames {
        &self.spec.frames[kind as usize]
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

    /// It may post so many messages since the start.
    #[inline]
    pub(super) fn allow(&mut self, messages: u64) {
        self.allowed = messages;
    }

    /// Whether it posts at times of its own, and not as soon as there is room.
    pub(super) fn is_timed(&self) -> bool {
        self.is_open() || self.spec.thinks().is_some()
    }

    /// Whether its messages are due by the clock.
    pub(super) fn is_open(&self) -> bool {
        self.spec.is_open()
    }

    pub(super) fn set_blocked(&mut self) {
        self.blocked = true;
    }

    /// There is room again at `now`: whether something due has waited for that.
    pub(super) fn take_blocked(&mut self, now: Instant) -> bool {
        if self.blocked {
            self.full_until = now;
        }
        std::mem::take(&mut self.blocked)
    }

    /// Whether there was no room for a message when it was due.
    pub(super) fn was_full(&self, due: Instant) -> bool {
        due <= self.full_until && self.full_until != Instant::ZERO
    }

    /// A message has ended: when the next one in its place is due, if it thinks in between and
    /// waits for nothing else already.
    pub(super) fn think(&mut self, now: Instant) -> Option<Instant> {
        let at = now + self.spec.thinks()?;
        self.thinking.push_back(at);
        (self.thinking.len() == 1).then_some(at)
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

    /// How long after the others it begins.
    pub(super) fn start(&self) -> Duration {
        self.spec.start
    }

    /// Begins at `now`, which is as all times of its schedule in the time of the schedules: when its first
    /// message is due, if its messages are due by the clock.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Instant> {
        self.begun = true;
        self.schedule.begin(now);
        self.next_due()
    }

    /// Whether it posts as soon as there is room, and may.
    pub(super) fn is_eager(&self) -> bool {
        self.begun && !self.is_timed()
    }

    /// When its next message is due, if it posts at times of its own and has one.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Instant> {
        if !self.is_sender() || self.is_over() {
            return None;
        }
        if let Some(script) = &self.spec.script {
            let start = self.schedule.start().as_nanos();
            return Some(Instant::from_nanos(start.saturating_add(script.due(self.posted))));
        }
        self.schedule.due(self.posted).or_else(|| self.thinking.front().copied())
    }

    /// Messages that were due until `now` and are not posted.
    pub(super) fn overdue(&self, now: Instant) -> u64 {
        if !self.is_sender() || !self.is_open() || !self.begun || self.dead {
            return 0;
        }
        let due = match &self.spec.script {
            Some(script) => script.due_until(now.since(self.schedule.start()).as_nanos(), self.posted),
            None => self.schedule.due_until(now, self.posted),
        };
        let due = due.min(self.spec.messages.unwrap_or(u64::MAX));
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

    /// Posts its next message, which was due at `due` by the clock; `false` when there is no room or none
    /// left.
    #[inline]
    pub(super) fn post<I: PacketIo>(&mut self, due: Instant, endpoint: &mut Endpoint<I>) -> bool {
        let s = &self.spec;
        let number = self.posted;
        if !self.is_sender() || self.is_over() || self.due.len() >= s.depth as usize || number >= self.allowed
        {
            return false;
        }
        let message = self.message(number);
        let Message { verb, size, .. } = message;
        let reads = verb == Verb::Read;
        let (local, remote) =
            if reads { (s.local.read, s.remote.read) } else { (s.local.write, s.remote.write) };
        let (addr, raddr, rkey) = (local.of(number), remote.of(number), remote.key);
        let imm = number as u32;
        if s.verify && !reads && size != 0 {
            if let Ok(bytes) = endpoint.memory_mut().local_mut(local.key, addr, size) {
                pattern::fill(bytes, s.seed, number);
            }
        }
        let wr = |op| SendWr {
            wr_id: number,
            op,
            sge: Sge { addr, len: size, lkey: local.key },
            flags: SendFlags { signaled: true, ..SendFlags::default() },
        };
        // Each is posted for itself and so put together in the send queue: one that is put together here
        // and then moved would be read before it is stored.
        let outcome = match (verb, s.datagram) {
            (Verb::Write, _) => endpoint.post_send(s.qpn, wr(SendOp::Write { raddr, rkey })),
            (Verb::WriteImm, _) => endpoint.post_send(s.qpn, wr(SendOp::WriteImm { raddr, rkey, imm })),
            (Verb::Read, _) => endpoint.post_send(s.qpn, wr(SendOp::Read { raddr, rkey })),
            (Verb::Send, None) => endpoint.post_send(s.qpn, wr(SendOp::Send)),
            (Verb::SendImm, None) => endpoint.post_send(s.qpn, wr(SendOp::SendImm(imm))),
            (_, Some(to)) => {
                let imm = (verb == Verb::SendImm).then_some(imm);
                endpoint.post_send(s.qpn, wr(SendOp::Datagram(Datagram { imm, ..to })))
            }
        };
        if !matches!(outcome, Some(Ok(()))) {
            return false;
        }
        self.posted += 1;
        self.schedule.advance();
        self.thinking.pop_front();
        self.due.push_back(Outstanding { due, message });
        true
    }

    /// Message `number`.
    #[inline]
    fn message(&self, number: u64) -> Message {
        match &self.spec.script {
            None => self.spec.traffic.message(self.spec.seed, number),
            Some(script) => script.message(number),
        }
    }

    /// Its oldest outstanding message has ended.
    #[inline]
    pub(super) fn end_message(&mut self) -> Option<Ended> {
        let number = self.posted - self.due.len() as u64;
        let Outstanding { due, message } = self.due.pop_front()?;
        Some(Ended { number, due, message })
    }

    /// What READ `number` brought, checked if that is asked for; `None` for other verbs.
    #[inline]
    pub(super) fn check_read<I: PacketIo>(&self, ended: &Ended, endpoint: &Endpoint<I>) -> Option<Received> {
        let s = &self.spec;
        let Ended { number, message, .. } = *ended;
        if message.verb != Verb::Read {
            return None;
        }
        if !s.verify {
            return Some(Received { number, ..Received::default() });
        }
        let (local, remote) = (s.local.read, s.remote.read);
        let wrong = match endpoint.memory().local(local.key, local.of(number), message.size) {
            Ok(bytes) => pattern::check(bytes, s.seed, number % remote.slots).err().map(|w| w.offset as u64),
            Err(_) => Some(0),
        };
        Some(Received { number, checked: true, wrong, ..Received::default() })
    }

    /// A message was received at `place`.
    #[inline]
    pub(super) fn receive<I: PacketIo>(&mut self, place: Sge, endpoint: &Endpoint<I>) -> Received {
        let Sge { addr, len, lkey } = place;
        let s = &self.spec;
        let mut number = self.received;
        let mut message = self.message(number);
        // Nothing tells this side of what is read from it.
        while message.verb == Verb::Read {
            number += 1;
            message = self.message(number);
        }
        let bytes = if s.verify { endpoint.memory().local(lkey, addr, len).ok() } else { None };
        let (mut lost, mut found, mut newest) = (0, false, true);
        if s.unreliable
            && let Some(says) = bytes.and_then(|b| pattern::number_of(b, s.seed))
        {
            // Some messages before this one may never come, and this one may have been overtaken or doubled.
            let (ahead, behind) = (says.wrapping_sub(number), number.wrapping_sub(says));
            if ahead < 1 << 32 {
                (lost, number) = (ahead, says);
            } else if behind < 1 << 32 {
                (newest, number) = (false, says);
                let bit = 1u64.checked_shl((behind - 1) as u32).unwrap_or(0);
                found = self.came & bit == 0 && bit != 0;
                self.came |= bit;
            }
            message = self.message(number);
        }
        self.last = number;
        if newest {
            self.received = number + 1;
        }
        if newest && self.spec.unreliable {
            self.came = self.came.checked_shl(lost.saturating_add(1).min(64) as u32).unwrap_or(0) | 1;
        }
        let s = &self.spec;
        if !s.verify {
            return Received { number, ..Received::default() };
        }
        let place = match message.verb {
            Verb::Send | Verb::SendImm => true,
            Verb::Write | Verb::WriteImm => addr == s.local.write.of(number),
            Verb::Read => false,
        };
        let wrong = match bytes {
            Some(bytes) if len == message.size && place => {
                pattern::check(bytes, s.seed, number).err().map(|w| w.offset as u64)
            }
            _ => Some(0),
        };
        Received { number, checked: true, lost, found, wrong }
    }

    /// Whether the immediate data is that of the message received last.
    pub(super) fn check_imm(&self, imm: Option<u32>) -> bool {
        if self.spec.unreliable && !self.spec.verify {
            // Some messages may be missing, and nothing else tells which one this is.
            return self.spec.traffic.has(|v| v.has_imm() == imm.is_some());
        }
        imm == self.message(self.last).verb.has_imm().then_some(self.last as u32)
    }

    /// The number of the message received last.
    pub(super) fn last_received(&self) -> u64 {
        self.last
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Where the message lies in its buffer `slot`, of which `byte_len` bytes were filled.
    pub(super) fn message_in(&self, slot: u32, byte_len: u32) -> Sge {
        let s = &self.spec;
        let addr = s.local.receive.at(u64::from(slot)) + u64::from(s.front);
        Sge { addr, len: byte_len.saturating_sub(s.front), lkey: s.local.receive.key }
    }

    /// Where a WRITE put `len` bytes.
    pub(super) fn written_at(&self, addr: u64, len: u32) -> Sge {
        Sge { addr, len, lkey: self.spec.local.write.key }
    }

    pub(super) fn shares_receives(&self) -> bool {
        self.spec.shared.is_some()
    }

    /// Posts one of its receive requests.
    #[inline]
    pub(super) fn repost<I: PacketIo>(&self, id: ReceiveId, endpoint: &mut Endpoint<I>) {
        let s = &self.spec;
        let Buffers { key: lkey, .. } = s.local.receive;
        let addr = s.local.receive.at(u64::from(id.slot));
        let wr = RecvWr { wr_id: id.pack(), sge: Sge { addr, len: self.size + s.front, lkey } };
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
        let filled = u64::from(s.front) + u64::from(self.size);
        s.local.each().find_map(|part| {
            let guard = (part.stride - filled) as u32;
            (0..part.slots).find_map(|slot| {
                let from = part.at(slot) + filled;
                let bytes = endpoint.memory().local(part.key, from, guard).ok()?;
                let at = bytes.iter().position(|b| *b != GUARD)?;
                Some(from - part.va + at as u64)
            })
        })
    }
}
