//! One queue pair against a scripted peer: what the peer says, what the queue pair answers.

use super::*;
use roce_engine::units::Msn;

/// A queue pair (side 0), its peer, and the time.
pub struct Script {
    pub side: Side,
    pub peer: Peer,
    pub now: Instant,
}

/// The key that the queue pair's own requests carry.
pub const PEER_KEY: MrKey = MrKey(0x1234);

impl Script {
    pub fn new(setup: &Setup) -> Script {
        Script { side: Side::new(0, setup), peer: Peer::to(0), now: Instant::ZERO }
    }

    /// The key of the queue pair's memory.
    pub fn key(&self) -> u32 {
        self.side.mr.key.0
    }

    /// Lets the queue pair take a frame, as the worker does.
    pub fn take(&mut self, frame: &[u8]) -> Verdict {
        match classify(frame) {
            Err(reason) => Verdict::Dropped(reason),
            Ok(p) if !p.verify_icrc() => Verdict::Dropped(DropReason::Icrc),
            Ok(p) => self.side.qp.on_packet(self.now, &p, &mut self.side.mem, &mut self.side.done),
        }
    }

    /// Takes a frame and returns what is sent then.
    pub fn say(&mut self, frame: Vec<u8>) -> Vec<String> {
        self.take(&frame);
        self.out()
    }

    /// What is sent now.
    pub fn out(&mut self) -> Vec<String> {
        show_all(&self.frames())
    }

    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        self.side.drain(self.now)
    }

    /// Lets time pass, serving every deadline on the way; returns what was sent with the microsecond.
    pub fn pass(&mut self, time: Duration) -> Vec<(u64, String)> {
        let end = self.now + time;
        let mut log = Vec::new();
        let mut slot = vec![0xEE; 4400];
        loop {
            let mut wake = end;
            loop {
                let side = &mut self.side;
                match side.qp.poll_transmit(self.now, &side.mem, &mut slot, &mut side.done) {
                    Transmit::Sent(sent) => {
                        log.push((self.now.as_nanos() / 1000, show(&slot[..sent.len()])));
                    }
                    Transmit::Wait(at) => {
                        wake = wake.min(at);
                        break;
                    }
                    Transmit::Idle => break,
                }
            }
            if let Some(at) = self.side.qp.next_deadline() {
                wake = wake.min(at);
            }
            if self.now >= end {
                return log;
            }
            self.now = self.now.max(wake);
            if self.side.qp.next_deadline().is_some_and(|at| at <= self.now) {
                self.side.qp.on_deadline(self.now, &mut self.side.done);
            }
        }
    }

    pub fn ack(&mut self, psn: u32, syndrome: u8) -> Vec<String> {
        let frame = self.peer.ack(psn, syndrome, 0);
        self.say(frame)
    }

    pub fn response(&mut self, opcode: Opcode, psn: u32, payload: &[u8]) -> Vec<String> {
        let frame = self.peer.read_response(opcode, psn, payload);
        self.say(frame)
    }

    /// A request of the peer's without extension headers.
    pub fn request(&mut self, opcode: Opcode, psn: u32, ack_req: bool, payload: &[u8]) -> Vec<String> {
        let frame = self.peer.frame(opcode, psn, ack_req, &[], payload);
        self.say(frame)
    }

    /// A WRITE packet with RETH at `VA + offset`.
    pub fn write(&mut self, opcode: Opcode, psn: u32, offset: u64, len: u32, payload: &[u8]) -> Vec<String> {
        let frame = self.peer.write(opcode, psn, true, (VA + offset, self.side.mr.key.0, len), payload);
        self.say(frame)
    }

    pub fn read(&mut self, psn: u32, offset: u64, len: u32) -> Vec<String> {
        let frame = self.peer.read(psn, (VA + offset, self.side.mr.key.0, len));
        self.say(frame)
    }

    /// Posts a signaled WRITE of `len` bytes from the start of memory.
    pub fn post_write(&mut self, wr_id: u64, len: u32) {
        self.side.post(wr_id, SendOp::Write { raddr: VA, rkey: PEER_KEY }, 0, len);
    }

    pub fn post_send(&mut self, wr_id: u64, len: u32) {
        self.side.post(wr_id, SendOp::Send, 0, len);
    }

    /// Posts a READ of `len` bytes into memory from `offset` on.
    pub fn post_read(&mut self, wr_id: u64, offset: usize, len: u32) {
        self.side.post(wr_id, SendOp::Read { raddr: VA, rkey: PEER_KEY }, offset, len);
    }

    pub fn state(&self) -> QpState {
        self.side.qp.state()
    }

    pub fn statuses(&self) -> Vec<(u64, CompletionStatus)> {
        self.side.statuses()
    }

    pub fn counters(&self) -> roce_engine::transport::QpCounters {
        self.side.qp.counters()
    }
}

impl Peer {
    pub fn read(&mut self, psn: u32, (va, rkey, len): (u64, u32, u32)) -> Vec<u8> {
        self.write(Opcode::RC_READ_REQUEST, psn, true, (va, rkey, len), &[])
    }

    pub fn fetch_add(&mut self, psn: u32, (va, rkey): (u64, u32), add: u64) -> Vec<u8> {
        let mut ext = [0; 28];
        AtomicEth { va, rkey, swap_or_add: add, compare: 0 }.emit(&mut ext);
        self.frame(Opcode::RC_FETCH_ADD, psn, true, &ext, &[])
    }

    pub fn atomic_ack(&mut self, psn: u32, original: u64) -> Vec<u8> {
        let mut ext = [0; 12];
        Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: Msn::new(1) }.emit(&mut ext);
        AtomicAckEth { original }.emit(&mut ext[4..]);
        self.frame(Opcode::RC_ATOMIC_ACK, psn, false, &ext, &[])
    }

    pub fn cnp(&mut self) -> Vec<u8> {
        self.frame(Opcode::CNP, 0, false, &[0; 16], &[])
    }
}

/// `frame` with another byte at `at` and a right iCRC.
pub fn altered(frame: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] = value;
    resealed(frame)
}

/// `frame` with a right iCRC, when it still parses.
pub fn resealed(mut frame: Vec<u8>) -> Vec<u8> {
    let sealed = classify(&frame).ok().map(|p| (p.wire_len(), p.icrc_computed()));
    if let Some((end, icrc)) = sealed {
        frame[end - 4..end].copy_from_slice(&icrc);
    }
    frame
}

/// Offset of the BTH in frames over untagged IPv4.
pub const BTH: usize = 42;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
