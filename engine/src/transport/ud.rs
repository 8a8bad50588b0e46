//! Unreliable datagrams: each message is one packet and goes where its request says.

use super::qp::{Conn, Sent, Verdict};
use super::responder::{payload_of, received};
use crate::units::Psn;
use crate::verbs::{
    Ah, Completion, CompletionStatus, Completions, Datagram, GRH_LEN, Memory, RecvWr, Ring, SendWr, WcOpcode,
};
use crate::wire::{Deth, DropReason, Head, ImmDt, Ipv4, Opcode, Packet, Payload, Slot, Stamp, Template};

/// What a datagram queue pair has and a connection has not.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    pub(super) qkey: u32,
    /// The headers to the hosts that address handles name.
    handles: Vec<Template>,
    /// A receive request whose memory could not be written.
    failure: Option<RecvWr>,
}

impl Datagrams {
    pub(super) fn new(qkey: u32) -> Datagrams {
        Datagrams { qkey, ..Datagrams::default() }
    }

    /// A handle for packets that are made by `template`.
    pub(super) fn add(&mut self, template: Template) -> Ah {
        self.handles.push(template);
        Ah(self.handles.len() as u32 - 1)
    }

    /// Makes a handle lead elsewhere; whether there is such a one.
    pub(super) fn set(&mut self, ah: Ah, template: Template) -> bool {
        match self.handles.get_mut(ah.0 as usize) {
            Some(handle) => {
                *handle = template;
                true
            }
            None => false,
        }
    }

    pub(super) fn has(&self, ah: Ah) -> bool {
        (ah.0 as usize) < self.handles.len()
    }

    /// The receive request whose memory could not be written, which ends the queue pair, once.
    pub(super) fn take_failure(&mut self) -> Option<RecvWr> {
        self.failure.take()
    }
}

/// Writes the frame of a datagram.  `Err` when the local bytes cannot be had.
#[inline(never)]
pub(super) fn write(
    wr: &SendWr,
    to: &Datagram,
    psn: Psn,
    conn: &mut Conn,
    mem: &Memory,
    slot: &mut (impl Slot + ?Sized),
) -> Result<Sent, CompletionStatus> {
    let own = conn.datagrams.as_deref_mut().ok_or(CompletionStatus::LocQpOpErr)?;
    let Datagrams { qkey: own_qkey, handles, .. } = own;
    let template = handles.get_mut(to.ah.0 as usize).ok_or(CompletionStatus::LocQpOpErr)?;
    let mut head = Head::new();
    let body = head.from(template.headers_len());
    let qkey = if to.qkey >> 31 == 0 { to.qkey } else { *own_qkey };
    Deth { qkey, resv8: 0, src_qp: conn.qpn }.emit(body);
    let mut ext = Deth::LEN;
    if let Some(imm) = to.imm {
        ImmDt(imm).emit(&mut body[ext..]);
        ext += ImmDt::LEN;
    }
    let payload = wr.sge.len;
    let mut what = Payload::default();
    if payload != 0 {
        what = mem
            .source(conn.pd, wr.sge.lkey, wr.sge.addr, payload)
            .map_err(|_| CompletionStatus::LocProtErr)?;
    }
    let opcode = if to.imm.is_some() { Opcode::UD_SEND_ONLY_IMM } else { Opcode::UD_SEND_ONLY };
    let solicited = wr.flags.solicited;
    let stamp = Stamp { opcode, solicited, ack_req: false, pad: 0, psn, tos: None };
    template.set_dest_qp(to.qpn);
    let len = template.write(slot, &mut head, stamp, ext, what);
    Ok(Sent::new(len, payload, psn))
}

/// Takes a datagram.  What is wrong with it is nobody's business but the counters'.
pub(super) fn on_request(
    p: &Packet<'_>,
    conn: &mut Conn,
    rq: &mut Ring<RecvWr>,
    mem: &mut Memory,
    done: &mut impl Completions,
) -> Verdict {
    match receive(p, conn, rq, mem) {
        Ok(completion) => {
            conn.counters.rx_request_packets += 1;
            conn.counters.rx_payload_bytes += p.payload_len() as u64;
            done.complete(completion);
            Verdict::Delivered
        }
        Err(reason) => {
            match reason {
                DropReason::QkeyMismatch => conn.counters.qkey_viol_cntr += 1,
                DropReason::NoRecvWqe => conn.counters.out_of_buffer += 1,
                _ => {}
            }
            Verdict::Dropped(reason)
        }
    }
}

fn receive(
    p: &Packet<'_>,
    conn: &mut Conn,
    rq: &mut Ring<RecvWr>,
    mem: &mut Memory,
) -> Result<Completion, DropReason> {
    let deth = p.deth().ok_or(DropReason::Malformed)?;
    let own = conn.datagrams.as_deref_mut().ok_or(DropReason::WrongTransport)?;
    if deth.qkey != own.qkey {
        return Err(DropReason::QkeyMismatch);
    }
    let wr = *rq.front().ok_or(DropReason::NoRecvWqe)?;
    let payload = payload_of(p, conn.mtu.bytes()).ok_or(DropReason::LengthError)?;
    let len = GRH_LEN + payload;
    if len > wr.sge.len {
        // The request stays: another datagram may fit.
        return Err(DropReason::LengthError);
    }
    rq.pop();
    let Ok(sink) = mem.sink(conn.pd, wr.sge.lkey, wr.sge.addr, len) else {
        own.failure = Some(wr);
        return Err(DropReason::AccessError);
    };
    if !p.is_hollow() {
        let (grh, bytes) = sink.split_at_mut(GRH_LEN as usize);
        let network = p.network();
        grh[..GRH_LEN as usize - Ipv4::LEN].fill(0);
        grh[GRH_LEN as usize - network.len()..].copy_from_slice(network);
        bytes.copy_from_slice(p.payload());
    }
    let completion = received(p, conn, wr.wr_id, WcOpcode::Recv, len);
    Ok(Completion { src_qp: Some(deth.src_qp), grh: true, ..completion })
}
