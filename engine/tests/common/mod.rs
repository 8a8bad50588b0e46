//! Two queue pairs in virtual time, and a scripted peer.
#![allow(dead_code, missing_docs, unreachable_pub, missing_debug_implementations, clippy::unwrap_used)]

pub mod schedule;
pub mod script;

use roce_engine::transport::{QpConfig, QueuePair, Recovery, Stage, StageLog, Stages, Transmit, Verdict};
use roce_engine::units::{Duration, Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::*;
use roce_engine::wire::*;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

#[derive(Default, Debug)]
pub struct Done {
    pub completions: Vec<Completion>,
    pub events: Vec<QpEvent>,
}

impl Completions for Done {
    fn complete(&mut self, completion: Completion) {
        self.completions.push(completion);
    }
    fn event(&mut self, _: Qpn, event: QpEvent) {
        self.events.push(event);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub ty: QpType,
    pub mtu: Mtu,
    pub psn: [u32; 2],
    pub window: u32,
    pub depth: u32,
    pub recv_depth: u32,
    pub ack_interval: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub rd_atomic: u8,
    pub access: Access,
    /// Bytes of memory of a side.
    pub memory: usize,
    pub srq: Option<Srqn>,
    pub credits: bool,
    pub recovery: Recovery,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            ty: QpType::Rc,
            mtu: Mtu::B1024,
            psn: [100, 5000],
            window: 4096,
            depth: 128,
            recv_depth: 128,
            ack_interval: 16,
            timeout: 10,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            rd_atomic: 16,
            access: Access::ALL,
            memory: 1 << 20,
            srq: None,
            credits: false,
            recovery: Recovery::GoBackN,
        }
    }
}

pub const PD: Pd = Pd(3);
pub const VA: u64 = 0x1_0000;
pub const GUARD: usize = 64;

/// One side: a queue pair with memory at `VA`.
pub struct Side {
    pub qp: QueuePair,
    pub mem: Memory,
    pub mr: MemoryRegion,
    pub done: Done,
    pub log: StageLog,
}

pub fn route(from: u8, to: u8) -> Route {
    Route {
        src_mac: MacAddr([2, 0, 0, 0, 0, from]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, to]),
        vlan: None,
        src: Gid::from(Ipv4Addr::new(198, 18, 0, from)),
        dst: Gid::from(Ipv4Addr::new(198, 18, 0, to)),
        tos: 0x68,
        hop_limit: 64,
        flow_label: 0,
        sport: 0xC000 + u16::from(from),
    }
}

impl Side {
    pub fn new(index: usize, s: &Setup) -> Side {
        let own = 0x11 + index as u32;
        let other = 0x12 - index as u32;
        let (me, you) = (1 + index as u8, 2 - index as u8);
        let mut mem = Memory::new(0xFEED + index as u64);
        let mr = mem.register_at(PD, VA, s.memory, Access::ALL).unwrap();
        let mut qp = QueuePair::new(QpConfig {
            qpn: Qpn::new(own),
            ty: s.ty,
            pd: PD,
            max_send_wr: s.depth,
            max_recv_wr: s.recv_depth,
            srq: s.srq,
            credits: s.credits,
            window: s.window,
            ack_interval: s.ack_interval,
            recovery: s.recovery,
        });
        let log = StageLog::new();
        qp.set_stages(log.clone());
        let mut done = Done::default();
        qp.modify(Transition::Init(InitAttrs { access: s.access, pkey: 0xFFFF }), &mut done).unwrap();
        let rtr = RtrAttrs {
            route: route(me, you),
            mtu: s.mtu,
            dest_qpn: Qpn::new(other),
            rq_psn: Psn::new(s.psn[1 - index]),
            max_dest_rd_atomic: s.rd_atomic,
            min_rnr_timer: s.min_rnr_timer,
        };
        qp.modify(Transition::Rtr(Box::new(rtr)), &mut done).unwrap();
        let rts = RtsAttrs {
            sq_psn: Psn::new(s.psn[index]),
            timeout: s.timeout,
            retry_cnt: s.retry_cnt,
            rnr_retry: s.rnr_retry,
            max_rd_atomic: s.rd_atomic,
        };
        qp.modify(Transition::Rts(rts), &mut done).unwrap();
        Side { qp, mem, mr, done, log }
    }

    pub fn fill(&mut self, offset: usize, bytes: &[u8]) {
        self.mem.fill(self.mr.key, |m| m[offset..offset + bytes.len()].copy_from_slice(bytes)).unwrap();
    }

    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        self.mem.local(self.mr.key, VA + offset as u64, len as u32).unwrap()
    }

    pub fn sge(&self, offset: usize, len: u32) -> Sge {
        Sge { addr: VA + offset as u64, len, lkey: self.mr.key }
    }

    pub fn post(&mut self, wr_id: u64, op: SendOp, offset: usize, len: u32) {
        let sge = self.sge(offset, len);
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        self.qp.post_send(SendWr { wr_id, op, sge, flags }).unwrap();
    }

    pub fn recv(&mut self, wr_id: u64, offset: usize, len: u32) {
        let sge = self.sge(offset, len);
        self.qp.post_recv(RecvWr { wr_id, sge }).unwrap();
    }

    /// Every frame that it wants to send now.
    pub fn drain(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut slot = vec![0xEE; 4400];
        while let Transmit::Sent(sent) = self.qp.poll_transmit(now, &self.mem, &mut slot, &mut self.done) {
            frames.push(slot[..sent.len()].to_vec());
            assert!(frames.len() < 100_000, "sends for ever");
        }
        frames
    }

    pub fn take(&mut self, now: Instant, frame: &[u8]) -> Verdict {
        let packet = classify(frame).expect("a frame that parses");
        assert!(packet.verify_icrc(), "iCRC");
        self.qp.on_packet(now, &packet, &mut self.mem, &mut self.done)
    }

    /// How many spans of each stage were recorded, in the order of [`Stage::ALL`].
    pub fn stages(&self) -> [u64; 5] {
        let mut stages = Stages::default();
        self.log.add_to(&mut stages);
        Stage::ALL.map(|stage| stages.of(stage).count())
    }

    /// (wr_id, status) of all completions so far.
    pub fn statuses(&self) -> Vec<(u64, CompletionStatus)> {
        self.done.completions.iter().map(|c| (c.wr_id, c.status)).collect()
    }
}

/// `RC_WRITE_FIRST 100 A` and the like.
pub fn show(frame: &[u8]) -> String {
    let p = classify(frame).unwrap();
    let mut text = format!("{} {}", p.info.name.trim_start_matches("RC_"), p.bth.psn.get());
    if p.bth.ack_req {
        text += " A";
    }
    if let Some(aeth) = p.aeth() {
        text += &format!(" {:#04x} msn {}", aeth.syndrome.0, aeth.msn.get());
    }
    if let Some(reth) = p.reth() {
        text += &format!(" va+{:#x} len {}", reth.va.wrapping_sub(VA), reth.len);
    }
    if p.info.kind == Kind::Acknowledge {
        for block in SackBlock::all(p.payload()).into_iter().flatten() {
            text += &format!(" has {}..{}", block.from.get(), block.to.get());
        }
    }
    text
}

pub fn show_all(frames: &[Vec<u8>]) -> Vec<String> {
    frames.iter().map(|f| show(f)).collect()
}

/// What the link does to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    Duplicate,
    /// Late by so many nanoseconds.
    Delay(u64),
    /// One bit flipped.
    Corrupt(usize),
}

struct Arrival {
    at: u64,
    order: u64,
    to: usize,
    frame: Vec<u8>,
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Arrival) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Arrival {}
impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Arrival) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Arrival {
    fn cmp(&self, other: &Arrival) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Two connected sides and the link between them: 100 ns a frame, 1 us each way.
pub struct Pair {
    pub sides: [Side; 2],
    pub now: Instant,
    free_at: [u64; 2],
    flight: BinaryHeap<Arrival>,
    /// Frames that have arrived, to be used again.
    spare: Vec<Vec<u8>>,
    order: u64,
    pub log: Vec<String>,
    /// When each line of `log` happened, in ns.
    pub logged_at: Vec<u64>,
    pub logging: bool,
    pub icrc_errors: u64,
    pub events: u64,
}

impl Pair {
    pub fn new(setup: &Setup) -> Pair {
        Pair {
            sides: [Side::new(0, setup), Side::new(1, setup)],
            now: Instant::ZERO,
            free_at: [0; 2],
            flight: BinaryHeap::new(),
            spare: Vec::new(),
            order: 0,
            log: Vec::new(),
            logged_at: Vec::new(),
            logging: false,
            icrc_errors: 0,
            events: 0,
        }
    }

    /// Runs until nothing is in flight or due, or `limit` of virtual time has passed.
    /// `fate(from, frame)` decides over each frame; `app` runs after each event.
    pub fn run(
        &mut self,
        limit: Duration,
        fate: &mut dyn FnMut(usize, &[u8]) -> Fate,
        app: &mut dyn FnMut(&mut [Side; 2]),
    ) -> bool {
        let end = self.now + limit;
        let mut slot = vec![0xEE; 4400];
        loop {
            app(&mut self.sides);
            let mut wake = Instant::FAR;
            for from in 0..2 {
                loop {
                    if self.free_at[from] > self.now.as_nanos() {
                        wake = wake.min(Instant::from_nanos(self.free_at[from]));
                        break;
                    }
                    let side = &mut self.sides[from];
                    match side.qp.poll_transmit(self.now, &side.mem, &mut slot, &mut side.done) {
                        Transmit::Sent(sent) => self.launch(from, &slot[..sent.len()], fate),
                        Transmit::Wait(at) => {
                            wake = wake.min(at);
                            break;
                        }
                        Transmit::Idle => break,
                    }
                }
                if let Some(at) = self.sides[from].qp.next_deadline() {
                    wake = wake.min(at);
                }
            }
            if let Some(arrival) = self.flight.peek() {
                wake = wake.min(Instant::from_nanos(arrival.at));
            }
            if wake == Instant::FAR {
                return true;
            }
            if wake > end {
                return false;
            }
            self.now = self.now.max(wake);
            self.events += 1;
            while self.flight.peek().is_some_and(|a| a.at <= self.now.as_nanos()) {
                let Some(arrival) = self.flight.pop() else { break };
                let packet = match classify(&arrival.frame) {
                    Ok(p) if p.verify_icrc() => p,
                    _ => {
                        self.icrc_errors += 1;
                        continue;
                    }
                };
                let side = &mut self.sides[arrival.to];
                side.qp.on_packet(self.now, &packet, &mut side.mem, &mut side.done);
                self.spare.push(arrival.frame);
            }
            for side in &mut self.sides {
                if side.qp.next_deadline().is_some_and(|d| d <= self.now) {
                    side.qp.on_deadline(self.now, &mut side.done);
                }
            }
        }
    }

    fn launch(&mut self, from: usize, frame: &[u8], fate: &mut dyn FnMut(usize, &[u8]) -> Fate) {
        let now = self.now.as_nanos();
        self.free_at[from] = now + 100;
        let fate = fate(from, frame);
        if self.logging {
            let mark = match fate {
                Fate::Pass => String::new(),
                other => format!("  [{other:?}]"),
            };
            self.log.push(format!("{} {}{mark}", ["->", "<-"][from], show(frame)));
            self.logged_at.push(now);
        }
        let mut copies = 1;
        let mut at = now + 1_000;
        let mut flip = None;
        match fate {
            Fate::Pass => {}
            Fate::Drop => copies = 0,
            Fate::Duplicate => copies = 2,
            Fate::Delay(ns) => at += ns,
            Fate::Corrupt(bit) => flip = Some(bit % (frame.len() * 8)),
        }
        for _ in 0..copies {
            self.order += 1;
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame);
            if let Some(bit) = flip {
                copy[bit / 8] ^= 1 << (bit % 8);
            }
            self.flight.push(Arrival { at, order: self.order, to: 1 - from, frame: copy });
        }
    }
}

/// A peer that says what the test wants: frames to side 0 as if from side 1, or the reverse.
pub struct Peer {
    template: Template,
}

impl Peer {
    /// The peer that talks to `Side::new(to, ..)`.
    pub fn to(to: usize) -> Peer {
        let (from, dest) = (2 - to as u8, 1 + to as u8);
        Peer { template: Template::new(&route(from, dest), 0xFFFF, Qpn::new(0x11 + to as u32)) }
    }

    pub fn with(route: &Route, pkey: u16, qpn: u32) -> Peer {
        Peer { template: Template::new(route, pkey, Qpn::new(qpn)) }
    }

    pub fn frame(&mut self, opcode: Opcode, psn: u32, ack_req: bool, ext: &[u8], payload: &[u8]) -> Vec<u8> {
        let pad = payload.len().wrapping_neg() & 3;
        self.frame_padded(opcode, psn, ack_req, ext, payload, pad, pad as u8)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn frame_padded(
        &mut self,
        opcode: Opcode,
        psn: u32,
        ack_req: bool,
        ext: &[u8],
        payload: &[u8],
        pad: usize,
        pad_field: u8,
    ) -> Vec<u8> {
        let mut slot = vec![0; 5000];
        let at = self.template.headers_len();
        let body: Vec<u8> = [ext, payload, &vec![0; pad]].concat();
        slot[at..at + body.len()].copy_from_slice(&body);
        let stamp =
            Stamp { opcode, solicited: false, ack_req, pad: pad_field, psn: Psn::new(psn), tos: None };
        self.template.stamp(&mut slot, &stamp, body.len());
        let len = self.template.seal(&mut slot, body.len());
        slot.truncate(len);
        slot
    }

    pub fn ack(&mut self, psn: u32, syndrome: u8, msn: u32) -> Vec<u8> {
        let mut ext = [0; 4];
        Aeth { syndrome: Syndrome(syndrome), msn: roce_engine::units::Msn::new(msn) }.emit(&mut ext);
        self.frame(Opcode::RC_ACKNOWLEDGE, psn, false, &ext, &[])
    }

    pub fn read_response(&mut self, opcode: Opcode, psn: u32, payload: &[u8]) -> Vec<u8> {
        let mut ext = vec![0; 4];
        Aeth { syndrome: Syndrome(0x1F), msn: roce_engine::units::Msn::new(1) }.emit(&mut ext);
        if opcode == Opcode::RC_READ_RESP_MIDDLE {
            ext.clear();
        }
        self.frame(opcode, psn, false, &ext, payload)
    }

    pub fn write(
        &mut self,
        opcode: Opcode,
        psn: u32,
        ack_req: bool,
        (va, rkey, len): (u64, u32, u32),
        payload: &[u8],
    ) -> Vec<u8> {
        let mut ext = [0; 16];
        Reth { va, rkey, len }.emit(&mut ext);
        self.frame(opcode, psn, ack_req, &ext, payload)
    }
}

pub fn at_us(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(31).wrapping_add(seed.wrapping_mul(97)) >> 3) as u8).collect()
}
