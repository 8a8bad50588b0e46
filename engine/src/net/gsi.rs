//! Management datagrams: from QP 1 to QP 1.

use crate::cm::MAD_LEN;
use crate::units::{Psn, Qpn};
use crate::wire::{
    DEFAULT_PKEY, Deth, DropReason, GSI_QKEY, Gid, ICRC_LEN, MacAddr, Opcode, Packet, Route, Stamp, Template,
    Vlan, source_port,
};
use std::collections::VecDeque;

/// Datagrams that wait for their reader; more are dropped, and their senders repeat them.
const INBOX: usize = 256;
/// TTL or hop limit.
const HOP_LIMIT: u8 = 64;

/// A management datagram, received or to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// MAC address of the other side.
    pub mac: MacAddr,
    /// GID of the other side.
    pub remote: Gid,
    /// GID of this side.
    pub local: Gid,
    /// The management datagram.
    pub mad: [u8; MAD_LEN],
}

/// The queue pair for management.
#[derive(Debug)]
pub(super) struct Gsi {
    inbox: VecDeque<Datagram>,
    psn: Psn,
}

impl Gsi {
    pub(super) fn new() -> Gsi {
        Gsi { inbox: VecDeque::with_capacity(INBOX), psn: Psn::new(0) }
    }

    /// Takes a packet to QP 1 whose iCRC is right.
    pub(super) fn on_packet(&mut self, p: &Packet<'_>) -> Result<(), DropReason> {
        if p.bth.opcode != Opcode::UD_SEND_ONLY {
            return Err(DropReason::WrongTransport);
        }
        if p.bth.pkey & 0x7FFF != DEFAULT_PKEY & 0x7FFF {
            return Err(DropReason::PkeyMismatch);
        }
        if p.deth().map(|d| d.qkey) != Some(GSI_QKEY) {
            return Err(DropReason::QkeyMismatch);
        }
        let mad = *p.payload().as_array().ok_or(DropReason::LengthError)?;
        if self.inbox.len() == INBOX {
            return Err(DropReason::NoRecvWqe);
        }
        self.inbox.push_back(Datagram { mac: p.src_mac(), remote: p.src(), local: p.dst(), mad });
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<Datagram> {
        self.inbox.pop_front()
    }

    /// Appends the frame that carries a datagram to `out`, which is empty.
    pub(super) fn emit(&mut self, what: &Datagram, mac: MacAddr, vlan: Option<Vlan>, out: &mut Vec<u8>) {
        const BODY: usize = Deth::LEN + MAD_LEN;
        let route = Route {
            src_mac: mac,
            dst_mac: what.mac,
            vlan,
            src: what.local,
            dst: what.remote,
            tos: 0,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            sport: source_port(Qpn::GSI, Qpn::GSI, 0),
        };
        let mut template = Template::new(&route, DEFAULT_PKEY, Qpn::GSI);
        let stamp = Stamp {
            opcode: Opcode::UD_SEND_ONLY,
            solicited: false,
            ack_req: false,
            pad: 0,
            psn: self.psn,
            tos: None,
        };
        self.psn = self.psn.plus(1);
        out.resize(template.headers_len() + BODY + ICRC_LEN, 0);
        let at = template.stamp(out, &stamp, BODY);
        Deth { qkey: GSI_QKEY, resv8: 0, src_qp: Qpn::GSI }.emit(&mut out[at..]);
        out[at + Deth::LEN..][..MAD_LEN].copy_from_slice(&what.mad);
        template.seal(out, BODY);
    }
}
