//! Random schedules: messages of every verb over a line that loses, doubles, delays and corrupts.

use super::script::Random;
use super::*;
use std::collections::{HashMap, VecDeque};

/// Bytes of memory for a message, more than the longest.
const SLOT: usize = 8192;
/// In one direction a PSN is lost no more often than this.  Twice this is less than `retry_cnt`:
/// no requester has a reason to give up.
const MOST_LOSSES: u32 = 3;

/// Selective repeat for every second schedule.
pub fn recovery_of(selective: bool) -> Recovery {
    if selective { Recovery::SelectiveRepeat { low_timeout: 0 } } else { Recovery::GoBackN }
}

/// One message and what must have become of it.
struct Message {
    op: SendOp,
    at: usize,
    data: Vec<u8>,
}

/// Runs the schedule of `seed`: `ops` messages, `faults_per_mille` of the frames meet a fault.  All
/// must complete once, in order, with every byte in its place.
///
/// # Errors
///
/// What went wrong, with the arguments.
pub fn run(seed: u64, faults_per_mille: u64, ops: usize, recovery: Recovery) -> Result<(), String> {
    let fail = |what: String| {
        Err(format!("seed {seed:#x} faults {faults_per_mille} ops {ops} {recovery:?}: {what}"))
    };
    let mut random = Random(seed);
    let setup = Setup {
        mtu: random.pick(&[Mtu::B256, Mtu::B512, Mtu::B1024]),
        psn: [random.next() as u32, random.next() as u32],
        window: random.pick(&[1, 2, 7, 64, 1024]),
        ack_interval: random.pick(&[1, 4, 16, 4096]),
        rd_atomic: 1 + random.below(4) as u8,
        timeout: 8,
        retry_cnt: 7,
        rnr_retry: 7,
        memory: ops * SLOT + 8,
        recovery,
        ..Setup::default()
    };
    let mut pair = Pair::new(&setup);
    let word = ops * SLOT;
    let messages: Vec<Message> = (0..ops).map(|i| post(&mut pair, &mut random, seed, i, word)).collect();
    let mut late = LateReceives::new(seed, &messages);
    let mut faults = Faults { random, per_mille: faults_per_mille, left: 2000, losses: HashMap::new() };
    let mut fate = |from: usize, frame: &[u8]| faults.fate(from, frame);
    if !pair.run(Duration::from_secs(100), &mut fate, &mut |sides| late.turn(sides)) {
        return fail(format!("did not end: {:?}", pair.sides[0].qp.counters()));
    }
    let statuses = pair.sides[0].statuses();
    let good: Vec<_> = (0..ops as u64).map(|i| (i, CompletionStatus::Success)).collect();
    if statuses != good {
        return fail(format!("completions {statuses:?}"));
    }
    for Message { op, at, data } in &messages {
        let side = match op {
            SendOp::Read { .. } => 0,
            SendOp::FetchAdd { .. } => continue,
            _ => 1,
        };
        if pair.sides[side].bytes(*at, data.len()) != &data[..] {
            return fail(format!("{op:?} at {at:#x} has wrong bytes"));
        }
    }
    let sums: u64 =
        messages.iter().map(|m| if let SendOp::FetchAdd { add, .. } = m.op { add } else { 0 }).sum();
    let sum = u64::from_ne_bytes(pair.sides[1].bytes(word, 8).try_into().unwrap());
    if sum != sums {
        return fail(format!("atomics sum to {sum:#x}, not {sums:#x}"));
    }
    let got: Vec<u64> = pair.sides[1].done.completions.iter().map(|c| c.wr_id).collect();
    if got != (0..late.posted).collect::<Vec<_>>() {
        return fail(format!("receives {got:?} of {}", late.posted));
    }
    let c = pair.sides[0].qp.counters();
    if c.psns_sent != c.psns_acked {
        return fail(format!("{c:?}"));
    }
    Ok(())
}

/// Posts the `i`th message.
fn post(pair: &mut Pair, random: &mut Random, seed: u64, i: usize, word: usize) -> Message {
    let mut len = random.below(6000) as u32;
    let at = i * SLOT;
    let data = pattern(seed as u32 ^ i as u32, len as usize);
    let (raddr, rkey) = (VA + at as u64, pair.sides[1].mr.key);
    let fence = random.below(4) == 0;
    let op = match random.below(7) {
        0 => SendOp::Send,
        1 => SendOp::SendImm(i as u32),
        2 => SendOp::Write { raddr, rkey },
        3 => SendOp::WriteImm { raddr, rkey, imm: i as u32 },
        4 => SendOp::FetchAdd { raddr: VA + word as u64, rkey, add: 1 << i },
        _ => SendOp::Read { raddr, rkey },
    };
    match op {
        SendOp::Read { .. } => pair.sides[1].fill(at, &data),
        SendOp::FetchAdd { .. } => len = 8,
        _ => pair.sides[0].fill(at, &data),
    }
    let sge = pair.sides[0].sge(at, len);
    let flags = SendFlags { signaled: true, solicited: false, fence };
    pair.sides[0].qp.post_send(SendWr { wr_id: i as u64, op, sge, flags }).unwrap();
    Message { op, at, data }
}

/// The receives that the messages take, posted one at a time, some of them late.
struct LateReceives {
    state: u64,
    pending: VecDeque<usize>,
    posted: u64,
}

impl LateReceives {
    fn new(seed: u64, messages: &[Message]) -> LateReceives {
        let takes =
            |m: &&Message| matches!(m.op, SendOp::Send | SendOp::SendImm(_) | SendOp::WriteImm { .. });
        let pending = messages.iter().filter(takes).map(|m| m.at).collect();
        LateReceives { state: seed ^ 0x5555, pending, posted: 0 }
    }

    fn turn(&mut self, sides: &mut [Side; 2]) {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1);
        if self.state >> 61 == 0
            && let Some(at) = self.pending.pop_front()
        {
            sides[1].recv(self.posted, at, SLOT as u32);
            self.posted += 1;
        }
    }
}

/// Which frame meets which fault.
struct Faults {
    random: Random,
    per_mille: u64,
    left: u32,
    losses: HashMap<(usize, u32), u32>,
}

impl Faults {
    fn fate(&mut self, from: usize, frame: &[u8]) -> Fate {
        if self.left == 0 || self.random.below(1000) >= self.per_mille {
            return Fate::Pass;
        }
        self.left -= 1;
        match self.random.below(4) {
            0 => self.loss(from, frame, Fate::Drop),
            1 => Fate::Duplicate,
            2 => Fate::Delay(self.random.below(20_000)),
            _ => {
                let bit = 14 * 8 + self.random.below((frame.len() as u64 - 14) * 8);
                self.loss(from, frame, Fate::Corrupt(bit as usize))
            }
        }
    }

    fn loss(&mut self, from: usize, frame: &[u8], fate: Fate) -> Fate {
        let psn = u32::from_be_bytes(frame[BTH_PSN..BTH_PSN + 4].try_into().unwrap()) & 0xFF_FFFF;
        let losses = self.losses.entry((from, psn)).or_insert(0);
        *losses += 1;
        if *losses > MOST_LOSSES { Fate::Pass } else { fate }
    }
}

/// Offset of the word that ends in the PSN.
const BTH_PSN: usize = super::script::BTH + 8;
