//! An endpoint: one port, its queue pairs and its memory, on one worker.

mod ahead;
mod fetch;
mod host;
mod pauses;

use super::counters::EndpointCounters;
use super::table::{Owner, QpTable};
use super::wheel::TimerWheel;
use crate::cc::{NotificationConfig, NotificationPoint, PauseConfig, PausePoint, PriorityMap};
use crate::io::{BURST, Frame, FrameMut, PacketIo};
use crate::net::Host;
use crate::transport::{QpConfig, QueuePair, Recovery, Transmit, Verdict};
use crate::units::{Duration, Instant, Qpn};
use crate::verbs::{
    Ah, CompletionQueue, CqEntry, Memory, ModifyError, Pd, PostError, QpType, RecvWr, SendWr,
    SharedReceiveQueue, Srqn, Transition,
};
use crate::wire::{
    DropReason, Piece, Route, Slot, Tail, Vlan, classify_headers, classify_pieces, classify_rocev1,
    classify_rocev1_pieces, classify_with,
};
use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;

/// Packets that a queue pair may send before the next one's turn.
const QUANTUM: u32 = 16;
/// A paced queue pair that may send within this time stays in the ready ring.
const SPIN: Duration = Duration::from_nanos(4096);

/// What a frame holds is fetched so many frames before it is taken.
const RX_AHEAD: usize = 2;

/// When the iCRC of a received frame is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IcrcCheck {
    /// Always.
    #[default]
    Always,
    /// One frame in 64.
    Sampled,
    /// Never.
    Off,
}

/// What an endpoint is made with.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointConfig {
    /// The VLAN that it is in; frames of another one are dropped.  VID 0 is always taken.
    pub vlan: Option<u16>,
    /// Whether it speaks RoCEv1; RoCEv2 otherwise.
    pub rocev1: bool,
    /// When iCRCs are verified.
    pub icrc: IcrcCheck,
    /// Which worker of the port this is, of how many (0 counts as 1).
    pub share: u32,
    /// Workers of the port.
    pub workers: u32,
    /// Random bits: keys of memory regions, generation of queue pair numbers.
    pub secret: u64,
    /// How packets that are marked with congestion experienced are answered; not at all without.
    pub notification: Option<NotificationConfig>,
    /// Which class of the link a packet belongs to.
    pub priorities: PriorityMap,
    /// Link-level flow control, where it is this program that does it.  Pause frames reach one worker of
    /// a port only: for ports with several it is none.
    pub pause: Option<PauseConfig>,
    /// Queue pairs that are held back are woken to the nanosecond and not by the timer wheel: for a poll
    /// loop that is only run when it is wanted.
    pub exact: bool,
}

/// Why a queue pair was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// All numbers are taken.
    #[error("no more than {0} queue pairs are possible on a worker")]
    TooMany(usize),
    /// There is no such shared receive queue.
    #[error("this endpoint has no such shared receive queue")]
    NoSrq,
}

/// Rings by which the workers of a port hand each other frames that came to the wrong one.
#[derive(Debug)]
pub struct Crossing<F> {
    outward: Vec<Option<Producer<F>>>,
    inward: Vec<Consumer<F>>,
}

/// Rings of `depth` frames between each two of `workers` workers.
pub fn crossings<F>(workers: usize, depth: usize) -> Vec<Crossing<F>> {
    let mut all: Vec<Crossing<F>> = (0..workers)
        .map(|_| Crossing { outward: (0..workers).map(|_| None).collect(), inward: Vec::new() })
        .collect();
    for from in 0..workers {
        for to in (0..workers).filter(|to| *to != from) {
            let (producer, consumer) = RingBuffer::new(depth);
            all[from].outward[to] = Some(producer);
            all[to].inward.push(consumer);
        }
    }
    all
}

/// A frame to be written, and the port that it leaves by.
struct TxSlot<'a, I: PacketIo> {
    io: &'a mut I,
    frame: &'a mut I::Tx,
    attached: bool,
}

impl<I: PacketIo> Slot for TxSlot<'_, I> {
    #[inline]
    fn buf(&mut self) -> &mut [u8] {
        self.frame.buf()
    }

    #[inline(always)]
    fn attach(&mut self, head: &[u8], piece: &Piece<'_>, tail: Tail) -> bool {
        self.attached = self.io.attach(self.frame, head, piece, tail);
        self.attached
    }
}

/// One port on one worker.  It shares no cache line with what another worker has.
#[derive(Debug)]
#[repr(align(64))]
pub struct Endpoint<I: PacketIo> {
    io: I,
    config: EndpointConfig,
    table: QpTable,
    srqs: Vec<SharedReceiveQueue>,
    mem: Memory,
    wheel: TimerWheel,
    ready: VecDeque<u32>,
    cq: CompletionQueue,
    notification: Option<NotificationPoint>,
    cnp_priority: u8,
    pause: Option<PausePoint>,
    counters: EndpointCounters,
    crossing: Option<Crossing<I::Rx>>,
    host: Option<Box<Host>>,
    /// The frame that is filled next.
    spare: Option<I::Tx>,
    batch: ArrayVec<I::Tx, BURST>,
    icrc_turn: u32,
    now: Instant,
    /// How long the next frames are likely to be, where they are filled by copying.
    reach: usize,
    /// In this turn: the port did not take all, there was no memory for frames.
    full: bool,
    no_memory: bool,
    /// When what is in the ready ring can go on.
    again: Instant,
    /// Since when the port takes nothing.
    stalled: Option<Instant>,
}

impl<I: PacketIo> Endpoint<I> {
    /// An endpoint without queue pairs.
    pub fn new(io: I, mut config: EndpointConfig, crossing: Option<Crossing<I::Rx>>) -> Endpoint<I> {
        let generation = (config.secret >> 56) as u8;
        let cnps = config.notification.unwrap_or_default();
        let cnp_tag = config.vlan.map(|vid| Vlan { pcp: cnps.cnp_802p_prio, dei: false, vid });
        let headers_only = io.caps().headers_only;
        if headers_only {
            config.icrc = IcrcCheck::Off;
        }
        Endpoint {
            io,
            config,
            table: QpTable::new(config.share, config.workers.max(1), generation),
            srqs: Vec::new(),
            mem: if headers_only { Memory::hollow(config.secret) } else { Memory::new(config.secret) },
            wheel: TimerWheel::new(Instant::ZERO),
            ready: VecDeque::new(),
            cq: CompletionQueue::new(0),
            notification: config.notification.map(NotificationPoint::new),
            cnp_priority: config.priorities.of(cnps.cnp_tos(), cnp_tag),
            pause: config.pause.map(PausePoint::new),
            counters: EndpointCounters::default(),
            crossing,
            host: None,
            spare: None,
            batch: ArrayVec::new(),
            icrc_turn: 0,
            now: Instant::ZERO,
            reach: 0,
            full: false,
            no_memory: false,
            again: Instant::FAR,
            stalled: None,
        }
    }

    /// Makes a queue pair in RESET; `config.qpn` is set to its number.
    pub fn create_qp(&mut self, mut config: QpConfig) -> Result<Qpn, CreateError> {
        if config.srq.is_some_and(|srqn| self.srq(srqn).is_none()) {
            return Err(CreateError::NoSrq);
        }
        let (local, qpn) = self.table.reserve().ok_or(CreateError::TooMany(self.table.len()))?;
        config.qpn = qpn;
        // Every request completes once, and each may come with an event.
        self.cq.grow(2 * (config.max_send_wr + config.max_recv_wr) as usize + 2 * BURST);
        self.wheel.grow(self.table.len());
        self.ready.reserve(self.table.len());
        if let Some(point) = &mut self.notification {
            point.reserve(self.table.len());
        }
        if let Some(slot) = self.table.get_mut(local) {
            let mut qp = QueuePair::new(config);
            qp.set_rocev1(self.config.rocev1);
            slot.qp = Some(qp);
        }
        Ok(qpn)
    }

    /// A reliable queue pair of the usual shape, in RESET.
    pub fn create_rc(&mut self, pd: Pd, depth: u32, window: u32) -> Result<Qpn, CreateError> {
        self.create_qp(QpConfig {
            qpn: Qpn::new(0),
            ty: QpType::Rc,
            pd,
            max_send_wr: depth,
            max_recv_wr: depth,
            srq: None,
            credits: false,
            window,
            ack_interval: 16,
            recovery: Recovery::GoBackN,
        })
    }

    /// Makes a shared receive queue for `max_wr` requests, for queue pairs that name it when they
    /// are made.
    pub fn create_srq(&mut self, max_wr: u32) -> Srqn {
        self.cq.grow(2 * max_wr as usize);
        self.srqs.push(SharedReceiveQueue::new(max_wr));
        Srqn::new(self.srqs.len() as u32 - 1)
    }

    /// A shared receive queue.
    pub fn srq(&self, srqn: Srqn) -> Option<&SharedReceiveQueue> {
        self.srqs.get(srqn.0 as usize)
    }

    /// A shared receive queue, to post receive requests or to arm its limit.
    #[inline]
    pub fn srq_mut(&mut self, srqn: Srqn) -> Option<&mut SharedReceiveQueue> {
        self.srqs.get_mut(srqn.0 as usize)
    }

    /// Ends a queue pair; frames that still come for it are dropped.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> bool {
        let Some(local) = self.local(qpn) else { return false };
        self.wheel.disarm(local);
        self.table.remove(local).is_some()
    }

    /// A queue pair.
    pub fn qp(&self, qpn: Qpn) -> Option<&QueuePair> {
        self.table.get(self.local(qpn)?)?.qp.as_ref()
    }

    /// A queue pair to change what needs no attention of the poll loop.
    pub fn qp_mut(&mut self, qpn: Qpn) -> Option<&mut QueuePair> {
        let local = self.local(qpn)?;
        self.table.get_mut(local)?.qp.as_mut()
    }

    /// All queue pairs.
    pub fn qps(&self) -> impl Iterator<Item = &QueuePair> {
        self.table.iter()
    }

    /// Makes an address handle of a datagram queue pair; see [`QueuePair::create_ah`].
    pub fn create_ah(&mut self, qpn: Qpn, route: &Route) -> Option<Ah> {
        self.qp_mut(qpn)?.create_ah(route)
    }

    /// Changes a queue pair's state; `None` when there is no such queue pair.
    pub fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Option<Result<(), ModifyError>> {
        let local = self.local(qpn)?;
        let slot = self.table.get_mut(local)?;
        if let Transition::Rtr(attrs) = &transition {
            slot.priority = self.config.priorities.of(attrs.route.tos, attrs.route.vlan);
        }
        let qp = slot.qp.as_mut()?;
        let outcome = qp.modify(transition, &mut self.cq);
        if self.io.caps().headers_only {
            qp.set_headers_only();
        }
        self.touch(local);
        Some(outcome)
    }

    /// Posts a send request.  `None` when there is no such queue pair.
    #[inline(always)]
    pub fn post_send(&mut self, qpn: Qpn, wr: SendWr) -> Option<Result<(), PostError>> {
        let local = self.local(qpn)?;
        let slot = self.table.get_mut(local)?;
        let outcome = slot.qp.as_mut()?.post_send(wr);
        if !slot.ready {
            slot.ready = true;
            self.ready.push_back(local);
            self.again = Instant::ZERO;
        }
        Some(outcome)
    }

    /// Posts a receive request.  `None` when there is no such queue pair.
    #[inline]
    pub fn post_recv(&mut self, qpn: Qpn, wr: RecvWr) -> Option<Result<(), PostError>> {
        let local = self.local(qpn)?;
        let qp = self.table.get_mut(local)?.qp.as_mut()?;
        let outcome = qp.post_recv(wr);
        if qp.has_response() || qp.next_deadline() == Some(Instant::ZERO) {
            self.touch(local);
        }
        Some(outcome)
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.mem
    }

    /// Its memory, to register and to write.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.mem
    }

    /// What it counted.
    pub fn counters(&self) -> &EndpointCounters {
        &self.counters
    }

    /// Completions lost because nobody took them in time.
    pub fn cq_overflow(&self) -> u64 {
        self.cq.overflow()
    }

    /// The port.
    pub fn io(&self) -> &I {
        &self.io
    }

    /// The port, to end a recording.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }

    #[inline]
    pub(super) fn has_completions(&self) -> bool {
        !self.cq.is_empty()
    }

    /// The oldest completion or event.
    #[inline]
    pub(super) fn pop_completion(&mut self) -> Option<CqEntry> {
        self.cq.pop()
    }

    /// The queue pair of the completion or event that comes `after` so many others.
    #[inline]
    pub(super) fn completion_ahead(&self, after: usize) -> Option<Qpn> {
        self.cq.ahead(after)
    }

    /// When it has something to do if no frame comes in: the past when it has more to send already.
    /// For who can sleep: what waits for room in the port, or for frames to fill, is left out.
    pub fn next_wake(&self) -> Option<Instant> {
        let goes_on = self.batch.is_empty() && !self.ready.is_empty();
        let mut next = if goes_on { self.again } else { Instant::FAR };
        if let Some(at) = self.wheel.next_at() {
            next = next.min(at);
        }
        if let Some(at) = self.pause.as_ref().and_then(PausePoint::next_at) {
            next = next.min(at);
        }
        if let Some(at) = self.host_wake() {
            next = next.min(at);
        }
        (next != Instant::FAR).then_some(next)
    }

    /// Receives a burst; how many frames.
    #[inline]
    pub(super) fn receive(&mut self, now: Instant) -> usize {
        self.now = now;
        self.io.set_now(now);
        let mut rx = ArrayVec::<I::Rx, BURST>::new();
        // First, or a port that always fills the burst would leave them no room.
        let crossed = if self.crossing.is_some() { self.receive_crossed(&mut rx) } else { 0 };
        let fresh = self.io.recv(&mut rx);
        if rx.is_empty() {
            return 0;
        }
        self.counters.rx_packets += fresh as u64;
        let mut astray = ArrayVec::<(usize, u32), BURST>::new();
        let far = self.is_wide();
        for (i, frame) in rx.iter().enumerate() {
            if far {
                self.look_ahead(&rx, i);
            }
            if let Some(later) = rx.get(i + RX_AHEAD) {
                I::fetch_frame(later);
            }
            if let Some(worker) = self.take(now, frame, i >= crossed) {
                astray.push((i, worker));
            }
        }
        for (removed, (i, worker)) in astray.into_iter().enumerate() {
            let frame = rx.remove(i - removed);
            self.cross(frame, worker);
        }
        self.io.release(&mut rx);
        crossed + fresh
    }

    /// Fires what is due; how many timers.
    #[inline]
    pub(super) fn timers(&mut self, now: Instant) -> usize {
        let mut fired = 0;
        while let Some(local) = self.wheel.pop_due(now) {
            fired += 1;
            let Some(slot) = self.table.get_mut(local) else { continue };
            slot.timer = Instant::FAR;
            if let Some(qp) = &mut slot.qp {
                if qp.next_deadline().is_some_and(|d| d <= now) {
                    qp.on_deadline(now, &mut self.cq);
                }
            }
            self.touch(local);
        }
        if let Some(host) = &mut self.host {
            if host.next_deadline().is_some_and(|at| at <= now) {
                host.on_deadline(now);
                fired += 1;
            }
        }
        fired
    }

    /// Sends up to `budget` packets; how many.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, budget: u32) -> u32 {
        let mut left = budget;
        // Queue pairs that wait for their pacer stay in the ring: each is looked at once.
        let (far, mut looks) = (self.is_wide(), self.ready.len());
        self.again = Instant::FAR;
        self.transmit_pause(now);
        if self.host.as_ref().is_some_and(|host| host.has_output()) {
            left -= self.transmit_host(left);
        }
        // Without a frame to fill nobody need be asked.
        if looks > 0 && !self.has_frame() {
            looks = 0;
        }
        while looks > 0 {
            if left == 0 {
                self.again = now;
                break;
            }
            if self.batch.is_full() && !self.flush() {
                break;
            }
            if far {
                self.look_ahead_to_send();
            }
            let Some(local) = self.ready.pop_front() else { break };
            looks -= 1;
            let (sent, stay) = self.transmit_qp(now, local, left.min(QUANTUM));
            left -= sent;
            let Some(slot) = self.table.get_mut(local) else { continue };
            slot.ready = stay;
            if stay {
                self.ready.push_back(local);
                looks += usize::from(sent != 0);
            }
        }
        if !self.batch.is_empty() {
            self.flush();
        }
        self.counters.tx_full_turns += u64::from(core::mem::take(&mut self.full));
        self.counters.tx_no_memory_turns += u64::from(core::mem::take(&mut self.no_memory));
        budget - left
    }

    /// Lets one queue pair send; how many packets, and whether it has more.
    #[inline]
    fn transmit_qp(&mut self, now: Instant, local: u32, quantum: u32) -> (u32, bool) {
        let mut sent = 0;
        let priority = self.table.get(local).map_or(0, |slot| slot.priority);
        let held = self.held(now, priority);
        let Some(slot) = self.table.get_mut(local) else { return (0, false) };
        let Some(qp) = &mut slot.qp else { return (0, false) };
        let stay = loop {
            if sent == quantum || self.batch.is_full() {
                self.again = now;
                break true;
            }
            if self.spare.is_none() {
                self.spare = self.io.alloc(self.reach);
            }
            let Some(frame) = &mut self.spare else {
                self.no_memory = true;
                break true;
            };
            let mut slot_of = TxSlot { io: &mut self.io, frame, attached: false };
            let outcome = match held {
                (None, None) => qp.poll_transmit(now, &self.mem, &mut slot_of, &mut self.cq),
                _ => pauses::poll(qp, now, held, &self.mem, &mut slot_of, &mut self.cq),
            };
            match outcome {
                Transmit::Sent(what) => {
                    let attached = slot_of.attached;
                    if !attached {
                        frame.set_len(what.len());
                    }
                    self.reach = if attached { 0 } else { what.len() };
                    self.batch.extend(self.spare.take());
                    sent += 1;
                }
                Transmit::Wait(until) => {
                    self.counters.held[qp.hold() as usize] += 1;
                    if until.since(now) <= SPIN || self.config.exact {
                        self.again = self.again.min(until);
                        break true;
                    }
                    if until < slot.timer {
                        slot.timer = until;
                        self.wheel.arm(local, until);
                    }
                    break false;
                }
                Transmit::Idle => {
                    self.counters.held[qp.hold() as usize] += 1;
                    break false;
                }
            }
        };
        if let Some(deadline) = qp.next_deadline() {
            if deadline < slot.timer {
                slot.timer = deadline;
                self.wheel.arm(local, deadline);
            }
        }
        (sent, stay)
    }

    /// Whether there is a frame to fill.
    #[inline]
    fn has_frame(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = self.io.alloc(self.reach);
            self.no_memory |= self.spare.is_none();
        }
        self.spare.is_some()
    }

    /// Hands the batch to the port; whether it took something.
    #[inline]
    fn flush(&mut self) -> bool {
        let bytes = |batch: &[I::Tx]| batch.iter().map(|f| f.wire_len() as u64).sum::<u64>();
        let before = bytes(&self.batch);
        let n = self.io.send(&mut self.batch);
        self.counters.tx_packets += n as u64;
        self.counters.tx_bytes += before - bytes(&self.batch);
        if n != 0 {
            self.stalled = None;
        }
        if !self.batch.is_empty() {
            self.full = true;
            if n == 0 {
                let since = *self.stalled.get_or_insert(self.now);
                if self.io.patience().is_some_and(|p| self.now.since(since) >= p) {
                    self.drop_batch();
                }
            }
        }
        n != 0
    }

    /// Timers run only for what has left: a peer that is gone would never be noticed otherwise.
    #[cold]
    fn drop_batch(&mut self) {
        self.counters.tx_dropped += self.batch.len() as u64;
        self.batch.clear();
    }

    /// Takes one frame; the worker that it belongs to when it is not for this one.
    #[inline]
    fn take(&mut self, now: Instant, frame: &I::Rx, fresh: bool) -> Option<u32> {
        let (bytes, rest) = (frame.bytes(), frame.rest());
        let hollow = frame.hollow_len();
        let len = hollow.unwrap_or(bytes.len() + rest.map_or(0, |r| r[0].len() + r[1].len()));
        self.counters.rx_bytes += if fresh { len as u64 } else { 0 };
        let vlan = frame.stripped_vlan();
        let found = match (self.config.rocev1, hollow, rest) {
            (_, Some(len), _) => classify_headers(bytes, len, vlan),
            (false, None, None) => classify_with(bytes, vlan),
            (false, None, Some(rest)) => classify_pieces(bytes, rest, vlan),
            (true, None, None) => classify_rocev1(bytes, vlan),
            (true, None, Some(rest)) => classify_rocev1_pieces(bytes, rest, vlan),
        };
        // Not moved: it is large.
        let verdict = match &found {
            Err(DropReason::NonRoce) => match self.take_other(now, bytes) {
                Some(_) => self.non_roce(now, frame),
                None => return None,
            },
            Err(reason) => Verdict::Dropped(*reason),
            Ok(p) if !self.vlan_fits(p.vlan) => Verdict::Dropped(DropReason::VlanMismatch),
            Ok(p) => match self.table.owner(p.bth.dest_qp) {
                Owner::Nobody => self.no_qp(p),
                Owner::Worker(worker) if fresh => return Some(worker),
                Owner::Worker(_) => Verdict::Dropped(DropReason::NoQp),
                Owner::Here(local) => {
                    if self.checks_icrc() && !p.verify_icrc() {
                        Verdict::Dropped(DropReason::Icrc)
                    } else if let Some(qp) = self.table.get_mut(local).and_then(|s| s.qp.as_mut()) {
                        let srq = qp.srq().and_then(|srqn| self.srqs.get_mut(srqn.0 as usize));
                        let verdict = match srq {
                            None => qp.on_packet(now, p, &mut self.mem, &mut self.cq),
                            Some(srq) => qp.on_packet_shared(now, p, &mut self.mem, srq, &mut self.cq),
                        };
                        if let Some(mark) = qp.take_mark()
                            && let Some(point) = &mut self.notification
                            && point.allows(now, mark, local, qp.own(), qp.peer())
                        {
                            qp.notify(point.config());
                        }
                        self.touch(local);
                        self.note_received(now, p);
                        verdict
                    } else {
                        Verdict::Dropped(DropReason::NoQp)
                    }
                }
            },
        };
        self.counters.count(verdict);
        None
    }

    /// Hands a frame to the worker that owns its queue pair.
    fn cross(&mut self, frame: I::Rx, worker: u32) {
        let ring = self.crossing.as_mut().and_then(|c| c.outward.get_mut(worker as usize)?.as_mut());
        match ring.map(|ring| ring.push(frame)) {
            Some(Ok(())) => self.counters.crossed_out += 1,
            Some(Err(_)) => self.counters.count(Verdict::Dropped(DropReason::CrossingFull)),
            None => self.counters.count(Verdict::Dropped(DropReason::NoQp)),
        }
    }

    fn receive_crossed(&mut self, rx: &mut ArrayVec<I::Rx, BURST>) -> usize {
        let Some(crossing) = &mut self.crossing else { return 0 };
        let mut n = 0;
        for ring in &mut crossing.inward {
            while rx.len() < BURST / 2 {
                let Ok(frame) = ring.pop() else { break };
                rx.push(frame);
                n += 1;
            }
        }
        self.counters.crossed_in += n as u64;
        n
    }

    #[inline]
    fn checks_icrc(&mut self) -> bool {
        match self.config.icrc {
            IcrcCheck::Always => true,
            IcrcCheck::Off => false,
            IcrcCheck::Sampled => {
                self.icrc_turn = self.icrc_turn.wrapping_add(1);
                self.icrc_turn % 64 == 1
            }
        }
    }

    #[inline]
    fn vlan_fits(&self, vlan: Option<Vlan>) -> bool {
        match vlan {
            None => self.config.vlan.is_none(),
            Some(tag) => tag.vid == 0 || Some(tag.vid) == self.config.vlan,
        }
    }

    /// The queue pair may have something to send or to time.
    #[inline]
    fn touch(&mut self, local: u32) {
        let Some(slot) = self.table.get_mut(local) else { return };
        let Some(qp) = &slot.qp else { return };
        if let Some(deadline) = qp.next_deadline() {
            if deadline < slot.timer {
                slot.timer = deadline;
                self.wheel.arm(local, deadline);
            }
        }
        if !slot.ready && !qp.is_quiet() {
            slot.ready = true;
            self.ready.push_back(local);
            self.again = Instant::ZERO;
        }
    }

    #[inline]
    fn local(&self, qpn: Qpn) -> Option<u32> {
        match self.table.owner(qpn) {
            Owner::Here(local) => Some(local),
            _ => None,
        }
    }
}
