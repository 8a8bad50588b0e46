//! A queue pair whose peer, owner and clock all do as the bytes of an input say.
//!
//! [`Machine::end`] checks what must hold at the end; the rest is checked on the way.

use super::Input;
use super::common::script::PEER_KEY;
use super::common::{Peer, Setup, Side, VA};
use roce_engine::transport::{
    Recovery, {Sent, Transmit, Verdict},
};
use roce_engine::units::{Duration, Instant, Msn, Mtu, Psn};
use roce_engine::verbs::*;
use roce_engine::wire::*;

/// Bytes of each region.
const REGION: usize = 4096;
/// What a byte is that nobody wrote.
const CANARY: u8 = 0xC5;
/// Packets in flight, and READs of the peer's that are answered.
const WINDOW: u32 = 16;
const READS: u8 = 3;
/// Frames that may leave without time passing or anything coming in.
const MOST_OUTPUT: usize = WINDOW as usize + READS as usize * (REGION / 256 + 1) + 4;

pub struct Machine {
    side: Side,
    peer: Peer,
    now: Instant,
    /// Where receives and READs put their bytes; the peer has no right there.
    own: MemoryRegion,
    /// Of another protection domain, though with every right.
    foreign: MemoryRegion,
    /// What the peer may only read.
    readonly: MemoryRegion,
    /// Bytes of `own` that a posted request may change.
    granted: Vec<bool>,
    /// The PSN of the peer's next request, and of the queue pair's first.
    expected: Psn,
    first: Psn,
    mtu: Mtu,
    ty: QpType,
    remote_writes: bool,
    sends: Posted,
    receives: Posted,
    delivered_requests: u64,
    sent_requests: u64,
    sent_responses: u64,
}

/// Requests posted to a queue, and how far their completions have come.
#[derive(Default)]
struct Posted {
    signaled: Vec<bool>,
    completed: Vec<bool>,
    /// Completions come in the order of posting: none before this one any more.
    next: usize,
}

impl Posted {
    fn post(&mut self, signaled: bool) {
        self.signaled.push(signaled);
        self.completed.push(false);
    }

    fn complete(&mut self, index: usize, what: &Completion) {
        assert!(index < self.signaled.len(), "nobody posted it: {what:?}");
        assert!(index >= self.next, "twice, or out of order: {what:?}");
        assert!(self.signaled[index] || what.status != CompletionStatus::Success, "not asked for: {what:?}");
        self.completed[index] = true;
        self.next = index + 1;
    }

    /// Whether every request that was to complete has.
    fn all_complete(&self) -> bool {
        self.signaled.iter().zip(&self.completed).all(|(signaled, completed)| *completed || !signaled)
    }
}

impl Machine {
    pub fn new(input: &mut Input<'_>) -> Machine {
        let shape = input.byte();
        let ty = if shape & 7 == 7 { QpType::Uc } else { QpType::Rc };
        let mtu = [Mtu::B256, Mtu::B1024][usize::from(shape >> 3 & 1)];
        let access =
            [Access::ALL, Access::ALL, Access::REMOTE_READ, Access::NONE][usize::from(shape >> 4 & 3)];
        // At the wrap, or not.
        let psn = if shape >> 6 & 1 == 0 { [100, 5000] } else { [0xFF_FFF8, 0xFF_FFFC] };
        let setup = Setup {
            ty,
            mtu,
            psn,
            access,
            window: WINDOW,
            depth: 8,
            recv_depth: 8,
            ack_interval: if shape >> 7 == 0 { 4 } else { 4096 },
            timeout: 8,
            retry_cnt: 2,
            rnr_retry: 2,
            min_rnr_timer: 1,
            rd_atomic: READS,
            srq: None,
            credits: false,
            memory: REGION,
            recovery: Recovery::GoBackN,
        };
        let mut side = Side::new(0, &setup);
        let local = Access::LOCAL_WRITE;
        let mut region = |pd, at, access| side.mem.register_at(pd, VA + at, REGION, access).unwrap();
        let own = region(super::common::PD, 0x10_0000, local);
        let foreign = region(Pd(9), 0x20_0000, Access::ALL);
        let readonly = region(super::common::PD, 0x30_0000, Access::REMOTE_READ);
        for key in [side.mr.key, own.key, foreign.key, readonly.key] {
            side.mem.fill(key, |bytes| bytes.fill(CANARY)).unwrap();
        }
        Machine {
            side,
            peer: Peer::to(0),
            now: Instant::ZERO,
            own,
            foreign,
            readonly,
            granted: vec![false; REGION],
            expected: Psn::new(psn[1]),
            first: Psn::new(psn[0]),
            mtu,
            ty,
            remote_writes: access == Access::ALL,
            sends: Posted::default(),
            receives: Posted::default(),
            delivered_requests: 0,
            sent_requests: 0,
            sent_responses: 0,
        }
    }

    /// The peer sends a request; what it is, the input says.
    pub fn request(&mut self, input: &mut Input<'_>, opcodes: &[Opcode]) {
        let psn = self.expected.plus(input.pick(&[
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            9,
            0xFF_FFFF,
            0xFF_FFFE,
            0xFF_FFF0,
            1 << 23,
        ]));
        self.say(input, opcodes, psn);
    }

    /// The peer sends a response, mostly to something that was asked.
    pub fn response(&mut self, input: &mut Input<'_>, opcodes: &[Opcode]) {
        let acked = self.side.qp.counters().psns_acked as u32;
        let una = self.first.plus(acked & 0xFF_FFFF);
        let psn =
            una.plus(input.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 4, 6, 9, 15, 16, 0xFF_FFFF, 0xFF_FFF8, 1 << 23]));
        self.say(input, opcodes, psn);
    }

    fn say(&mut self, input: &mut Input<'_>, opcodes: &[Opcode], psn: Psn) {
        let opcode = input.pick(opcodes);
        let Some(info) = opcode.info() else { return };
        let ask = input.flag();
        let ext = self.extension(input, info);
        let mtu = self.mtu.bytes();
        let len = match input.byte() {
            0..=95 => mtu,
            96..=127 => 0,
            128..=143 => mtu + 4,
            144..=159 => 8,
            n => usize::from(n) - 159,
        };
        let payload = vec![input.byte() | 1; len];
        let frame = self.peer.frame(opcode, psn.get(), ask, &ext, &payload);
        self.take(&frame);
    }

    /// The extension headers that the opcode has.
    fn extension(&self, input: &mut Input<'_>, info: &OpcodeInfo) -> Vec<u8> {
        let mut ext = vec![0; usize::from(info.header_len) - Bth::LEN];
        let mut at = 0;
        if info.reth {
            let (va, rkey) = self.target(input);
            let len = match input.byte() {
                0 => 0,
                1 => 1 << 31,
                2 => u32::MAX,
                n => u32::from(n) * 16 - u32::from(input.byte() & 15),
            };
            Reth { va, rkey, len }.emit(&mut ext);
            at = Reth::LEN;
        }
        if info.atomic {
            let (va, rkey) = self.target(input);
            let canary = u64::from_ne_bytes([CANARY; 8]);
            let compare = if input.flag() { canary } else { 0 };
            AtomicEth { va, rkey, swap_or_add: u64::from(input.byte()), compare }.emit(&mut ext);
            at = AtomicEth::LEN;
        }
        if info.aeth {
            Aeth { syndrome: Syndrome(input.byte()), msn: Msn::new(u32::from(input.byte())) }.emit(&mut ext);
            at = Aeth::LEN;
        }
        if info.ieth {
            Ieth(self.target(input).1).emit(&mut ext[at..]);
        }
        ext
    }

    /// An address and a key: of some region, inside or at its edges, or of none.
    fn target(&self, input: &mut Input<'_>) -> (u64, u32) {
        let choice = input.byte();
        let open = self.side.mr;
        let region =
            [open, open, open, open, self.own, self.foreign, self.readonly][usize::from(choice & 15) % 7];
        let key = if choice & 0x30 == 0x30 { region.key.0 ^ 1 << (choice >> 6) } else { region.key.0 };
        let va = match input.byte() {
            0 => region.va.wrapping_sub(8),
            1 => region.va + REGION as u64 - 4,
            2 => u64::MAX - 15,
            n => region.va + u64::from(n) * 12,
        };
        (va, key)
    }

    fn take(&mut self, frame: &[u8]) {
        // Pieces that do not fit together are the parser's to refuse; see the target `frame`.
        let Ok(p) = classify(frame) else { return };
        assert!(p.verify_icrc());
        let verdict = self.side.qp.on_packet(self.now, &p, &mut self.side.mem, &mut self.side.done);
        if verdict == Verdict::Delivered && !p.info.is_response() && p.info.kind != Kind::Cnp {
            self.delivered_requests += 1;
            let packets = match p.info.kind {
                Kind::ReadRequest => p.reth().map_or(1, |r| self.mtu.packets(r.len)),
                _ => 1,
            };
            self.expected = p.bth.psn.plus(packets);
        }
        self.completions();
    }

    pub fn post_receive(&mut self, input: &mut Input<'_>) {
        let sge = self.sink(input);
        let wr = RecvWr { wr_id: 2 * self.receives.signaled.len() as u64 + 1, sge };
        if self.side.qp.post_recv(wr).is_ok() {
            self.receives.post(true);
            self.grant(sge);
        }
    }

    pub fn post_send(&mut self, input: &mut Input<'_>) {
        let raddr = VA;
        let op = match input.byte() % 8 {
            0 => SendOp::Send,
            1 => SendOp::SendImm(7),
            2 => SendOp::SendInv(PEER_KEY),
            3 => SendOp::WriteImm { raddr, rkey: PEER_KEY, imm: 9 },
            4 => SendOp::Read { raddr, rkey: PEER_KEY },
            5 => SendOp::CompareSwap { raddr, rkey: PEER_KEY, compare: 0, swap: 1 },
            6 => SendOp::FetchAdd { raddr, rkey: PEER_KEY, add: 1 },
            _ => SendOp::Write { raddr, rkey: PEER_KEY },
        };
        let bits = input.byte();
        let mut sge = self.sink(input);
        if matches!(op, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }) && bits & 0x80 == 0 {
            sge.len = 8;
        }
        let flags =
            SendFlags { signaled: bits & 3 != 0, solicited: bits & 4 != 0, fence: bits & 0x18 == 0x18 };
        let wr = SendWr { wr_id: 2 * self.sends.signaled.len() as u64, op, sge, flags };
        if self.side.qp.post_send(wr).is_ok() {
            self.sends.post(flags.signaled);
            if op.writes_local() {
                self.grant(sge);
            }
        }
    }

    /// Bytes of `own`, or now and then bytes that nobody may touch.
    fn sink(&self, input: &mut Input<'_>) -> Sge {
        let at = u64::from(input.byte()) * 16;
        let mtu = self.mtu.bytes() as u32;
        let len = match input.byte() {
            0..=15 => 0,
            16..=47 => 8,
            n @ 48..=143 => (u32::from(n) / 48) * mtu,
            n => u32::from(n) * 11,
        };
        match input.byte() {
            0 => Sge { addr: self.own.va + REGION as u64 - at, len, lkey: self.own.key },
            1 => Sge { addr: self.readonly.va + at, len, lkey: self.readonly.key },
            2 => Sge { addr: self.own.va + at, len, lkey: MrKey(self.own.key.0 ^ 4) },
            _ => Sge { addr: self.own.va + at, len, lkey: self.own.key },
        }
    }

    /// A request that was posted may change these bytes, as far as they are in the region.
    fn grant(&mut self, sge: Sge) {
        if sge.lkey == self.own.key {
            let at = (sge.addr - self.own.va) as usize;
            let end = (at + sge.len as usize).min(REGION);
            self.granted[at..end].fill(true);
        }
    }

    /// Sends at most `most` frames.
    pub fn send(&mut self, most: usize) {
        let mut slot = [0; 1400];
        for _ in 0..most {
            let side = &mut self.side;
            match side.qp.poll_transmit(self.now, &side.mem, &mut slot, &mut side.done) {
                Transmit::Sent(sent) => self.sent(&slot[..sent.len()], sent),
                Transmit::Wait(at) => {
                    assert!(at > self.now, "what may leave now must not wait");
                    break;
                }
                Transmit::Idle => break,
            }
        }
        self.completions();
    }

    /// Sends until nothing is left, which must come soon.
    pub fn send_all(&mut self) {
        let before = self.sent_requests + self.sent_responses;
        self.send(MOST_OUTPUT + 1);
        let sent = (self.sent_requests + self.sent_responses - before) as usize;
        // UC is never stopped by a window.
        let most = if self.ty == QpType::Uc { 8 * 16 } else { MOST_OUTPUT };
        assert!(sent <= most, "{sent} frames at once");
    }

    fn sent(&mut self, frame: &[u8], sent: Sent) {
        let p = classify(frame).expect("a frame that parses");
        assert!(p.verify_icrc());
        assert_eq!((p.bth.psn, p.payload().len()), (sent.psn(), sent.payload() as usize));
        assert!(p.info.payload.allows(p.payload().len(), self.mtu.bytes()), "{p:?}");
        if p.info.is_response() {
            self.sent_responses += 1;
        } else {
            self.sent_requests += 1;
        }
    }

    /// Lets up to 8 ms pass, and what is due happen.
    pub fn wait(&mut self, input: &mut Input<'_>) {
        self.now += Duration::from_nanos(1 << (input.byte() % 24));
        if self.side.qp.next_deadline().is_some_and(|at| at <= self.now) {
            self.side.qp.on_deadline(self.now, &mut self.side.done);
        }
        self.completions();
    }

    pub fn drain_or_resume(&mut self) {
        let to = if self.side.qp.state() == QpState::Rts { Transition::Sqd } else { Transition::Resume };
        let _ = self.side.qp.modify(to, &mut self.side.done);
        self.completions();
    }

    fn completions(&mut self) {
        for c in self.side.done.completions.drain(..) {
            let queue = if c.wr_id & 1 == 0 { &mut self.sends } else { &mut self.receives };
            queue.complete((c.wr_id / 2) as usize, &c);
        }
        self.side.done.events.clear();
        let c = self.side.qp.counters();
        let outstanding = u64::from(self.side.qp.unacknowledged());
        assert_eq!(c.psns_sent, c.psns_acked + c.psns_failed + outstanding, "{c:?}");
        assert_eq!(c.rx_request_packets, self.delivered_requests);
        assert_eq!(c.tx_data_packets, self.sent_requests);
        assert_eq!(c.acks_sent + c.naks_sent + c.rnr_naks_sent + c.tx_response_packets, self.sent_responses);
        // A READ takes all its PSNs at once, when there is room for the first.
        assert!(outstanding <= u64::from(WINDOW) + 4096 / 256, "{outstanding} in flight");
    }

    /// Ends the queue pair: everything posted has completed then, once, and nothing was touched that
    /// nobody had granted.
    pub fn end(mut self) {
        self.send_all();
        let _ = self.side.qp.modify(Transition::Err, &mut self.side.done);
        self.completions();
        assert!(self.sends.all_complete() && self.receives.all_complete());
        self.send(2);
        assert_eq!(self.side.qp.unacknowledged(), 0);
        let intact = |region: &MemoryRegion| match self.side.mem.local(region.key, region.va, REGION as u32) {
            Ok(bytes) => bytes == [CANARY; REGION],
            // A SEND with invalidate took it away.
            Err(_) => true,
        };
        assert!(intact(&self.foreign), "memory of another protection domain was written");
        assert!(intact(&self.readonly), "memory without the right was written");
        assert!(self.remote_writes || intact(&self.side.mr), "the queue pair's rights were passed by");
        if let Ok(bytes) = self.side.mem.local(self.own.key, self.own.va, REGION as u32) {
            let strayed = bytes.iter().zip(&self.granted).position(|(b, granted)| *b != CANARY && !granted);
            assert_eq!(strayed, None, "written where no posted request points");
        }
    }
}
