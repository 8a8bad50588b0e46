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
            match wr.op {
                SendOp::SendImm(imm) | SendOp::WriteImm { imm, .. } => {
                    ImmDt(imm).emit(&mut body[ext..]);
                    ext += ImmDt::LEN;
                }
                SendOp::SendInv(key) => {
                    Ieth(key.0).emit(&mut body[ext..]);
                    ext += Ieth::LEN;
                }
                _ => {}
            }
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

/// The opcode of a packet, by its place in the message.
#[inline]
const fn opcode_of(op: &SendOp, first: bool, last: bool, uc: bool) -> Opcode {
    let rc = match (op, first, last) {
        (SendOp::Datagram(_), _, _) => Opcode::UD_SEND_ONLY,
        (SendOp::Send, true, true) => Opcode::RC_SEND_ONLY,
        (SendOp::SendImm(_), true, true) => Opcode::RC_SEND_ONLY_IMM,
        (SendOp::SendInv(_), true, true) => Opcode::RC_SEND_ONLY_INV,
        (SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_), true, false) => Opcode::RC_SEND_FIRST,
        (SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_), false, false) => Opcode::RC_SEND_MIDDLE,
        (SendOp::Send, false, true) => Opcode::RC_SEND_LAST,
        (SendOp::SendImm(_), false, true) => Opcode::RC_SEND_LAST_IMM,
        (SendOp::SendInv(_), false, true) => Opcode::RC_SEND_LAST_INV,
        (SendOp::Write { .. }, true, true) => Opcode::RC_WRITE_ONLY,
        (SendOp::WriteImm { .. }, true, true) => Opcode::RC_WRITE_ONLY_IMM,
        (SendOp::Write { .. } | SendOp::WriteImm { .. }, true, false) => Opcode::RC_WRITE_FIRST,
        (SendOp::Write { .. } | SendOp::WriteImm { .. }, false, false) => Opcode::RC_WRITE_MIDDLE,
        (SendOp::Write { .. }, false, true) => Opcode::RC_WRITE_LAST,
        (SendOp::WriteImm { .. }, false, true) => Opcode::RC_WRITE_LAST_IMM,
        (SendOp::Read { .. }, _, _) => Opcode::RC_READ_REQUEST,
        (SendOp::CompareSwap { .. }, _, _) => Opcode::RC_COMPARE_SWAP,
        (SendOp::FetchAdd { .. }, _, _) => Opcode::RC_FETCH_ADD,
    };
    if uc { Opcode(rc.0 | 0x20) } else { rc }
}
