//! How a send request becomes packets.

use super::qp::{Conn, Sent};
use super::ud;
use crate::units::Psn;
use crate::verbs::{CompletionStatus, Memory, SendOp, SendWr};
use crate::wire::{AtomicEth, Head, Ieth, ImmDt, Opcode, Payload, Reth, Slot, Stamp};

/// One packet of a send request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Its place in the message, from 0 on.
    pub(super) index: u32,
    /// Nothing follows it in the message.
    pub(super) last: bool,
    /// READ: packets of the answer that it asks for.
    pub(super) asks_for: u32,
    /// It asks for an acknowledgement.
    pub(super) ask: bool,
    pub(super) psn: Psn,
}

impl Segment {
    /// Writes the frame.  `Err` when the local bytes cannot be had.
    #[inline(always)]
    pub(super) fn write(
        self,
        wr: &SendWr,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
    ) -> Result<Sent, CompletionStatus> {
        let k = self.index;
        if let SendOp::Datagram(to) = &wr.op {
            return ud::write(wr, to, self.psn, conn, mem, slot);
        }
        let uc = conn.unreliable;
        let opcode = opcode_of(&wr.op, k == 0, self.last, uc);
        let at = conn.template.headers_len();
        let done_bytes = k << conn.mtu.shift();
        let mut ext = 0;
        let mut head = Head::new();
        let body = head.from(at);
        match wr.op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::Datagram(_) => {}
            SendOp::Write { raddr, rkey } | SendOp::WriteImm { raddr, rkey, .. } => {
                if k == 0 {
                    Reth { va: raddr, rkey: rkey.0, len: wr.sge.len }.emit(body);
                    ext = Reth::LEN;
                }
            }
            SendOp::Read { raddr, rkey } => {
                let va = raddr.wrapping_add(u64::from(done_bytes));
                let len = (wr.sge.len - done_bytes).min(self.asks_for << conn.mtu.shift());
                Reth { va, rkey: rkey.0, len }.emit(body);
                ext = Reth::LEN;
            }
            SendOp::CompareSwap { raddr, rkey, compare, swap } => {
                AtomicEth { va: raddr, rkey: rkey.0, swap_or_add: swap, compare }.emit(body);
                ext = AtomicEth::LEN;
            }
            SendOp::FetchAdd { raddr, rkey, add } => {
                AtomicEth { va: raddr, rkey: rkey.0, swap_or_add: add, compare: 0 }.emit(body);
                ext = AtomicEth::LEN;
            }
        }
        if self.last {
            ext += end_of_message(&wr.op, &mut body[ext..]);
        }
        let payload = if wr.op.is_read_or_atomic() {
            0
        } else {
            (wr.sge.len - done_bytes).min(conn.mtu.bytes() as u32)
        };
        let mut what = Payload::default();
        if payload != 0 {
            let from = wr.sge.addr.wrapping_add(u64::from(done_bytes));
            match mem.source(conn.pd, wr.sge.lkey, from, payload) {
                Ok(source) => what = source,
                Err(_) => return Err(CompletionStatus::LocProtErr),
            }
        }
        let solicited = wr.flags.solicited && self.last && wr.op.takes_recv();
        let stamp = Stamp { opcode, solicited, ack_req: self.ask && !uc, pad: 0, psn: self.psn, tos: None };
        let len = conn.template.write(slot, &mut head, stamp, ext, what);
        Ok(Sent::new(len, payload, self.psn))
    }
}

const SEND: [Opcode; 4] =
    [Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_FIRST, Opcode::RC_SEND_LAST, Opcode::RC_SEND_ONLY];
const WRITE: [Opcode; 4] =
    [Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_LAST, Opcode::RC_WRITE_ONLY];

/// The same but for how it ends.
const fn ending([middle, first, ..]: [Opcode; 4], last: Opcode, only: Opcode) -> [Opcode; 4] {
    [middle, first, last, only]
}

/// Writes the header that a message ends with, if it has one; how many bytes that is.
#[inline(always)]
fn end_of_message(op: &SendOp, out: &mut [u8]) -> usize {
    match op {
        SendOp::SendImm(imm) | SendOp::WriteImm { imm, .. } => {
            ImmDt(*imm).emit(out);
            ImmDt::LEN
        }
        SendOp::SendInv(key) => {
            Ieth(key.0).emit(out);
            Ieth::LEN
        }
        _ => 0,
    }
}

/// The opcode of a packet, by its place in the message.
#[inline(always)]
const fn opcode_of(op: &SendOp, first: bool, last: bool, uc: bool) -> Opcode {
    // Middle, first, last, only: a table of the operations.
    let [middle, first_of, last_of, only] = match op {
        SendOp::Datagram(_) => [Opcode::UD_SEND_ONLY; 4],
        SendOp::Send => SEND,
        SendOp::SendImm(_) => ending(SEND, Opcode::RC_SEND_LAST_IMM, Opcode::RC_SEND_ONLY_IMM),
        SendOp::SendInv(_) => ending(SEND, Opcode::RC_SEND_LAST_INV, Opcode::RC_SEND_ONLY_INV),
        SendOp::Write { .. } => WRITE,
        SendOp::WriteImm { .. } => ending(WRITE, Opcode::RC_WRITE_LAST_IMM, Opcode::RC_WRITE_ONLY_IMM),
        SendOp::Read { .. } => [Opcode::RC_READ_REQUEST; 4],
        SendOp::CompareSwap { .. } => [Opcode::RC_COMPARE_SWAP; 4],
        SendOp::FetchAdd { .. } => [Opcode::RC_FETCH_ADD; 4],
    };
    let row = u32::from_le_bytes([middle.0, first_of.0, last_of.0, only.0]);
    let place = 8 * (first as u32 | (last as u32) << 1);
    let rc = Opcode((row >> place) as u8);
    if uc { Opcode(rc.0 | 0x20) } else { rc }
}
