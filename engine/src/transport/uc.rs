//! The receive half of an unreliable connection: no answers, broken messages are left out.

use super::qp::{Conn, Verdict};
use super::responder::{payload_of, received};
use crate::units::Psn;
use crate::verbs::{Access, Completions, Memory, MrKey, QpEvent, RecvWr, Ring, WcOpcode};
use crate::wire::{DropReason, Kind, Packet, Position};

/// State of the receive half.
#[derive(Debug, Default)]
pub(super) struct UcReceiver {
    epsn: Psn,
    message: Message,
    /// A receive request whose message broke: the next message takes it.
    spare: Option<RecvWr>,
    /// A receive request whose memory could not be written.
    failure: Option<RecvWr>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Message {
    #[default]
    None,
    Send {
        wr: RecvWr,
        received: u32,
    },
    Write {
        va: u64,
        rkey: MrKey,
        len: u32,
        done: u32,
    },
}

impl UcReceiver {
    pub(super) fn start(&mut self, rq_psn: Psn) {
        self.epsn = rq_psn;
    }

    /// The receive request that a message holds.
    pub(super) fn take_receive(&mut self) -> Option<RecvWr> {
        self.abandon();
        self.spare.take()
    }

    /// The receive request whose memory could not be written, which ends the queue pair, once.
    pub(super) fn take_failure(&mut self) -> Option<RecvWr> {
        self.failure.take()
    }

    /// Takes a request of class UC.
    pub(super) fn on_request(
        &mut self,
        p: &Packet<'_>,
        conn: &mut Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Verdict {
        let psn = p.bth.psn;
        let begins = matches!(p.info.position, Position::First | Position::Only);
        if psn != self.epsn {
            conn.counters.out_of_sequence += 1;
            self.abandon();
        }
        self.epsn = psn.plus(1);
        if begins {
            self.abandon();
        }
        let outcome = match p.info.kind {
            Kind::Send => self.send(p, conn, rq, mem, done),
            Kind::Write => self.write(p, conn, rq, mem, done),
            _ => Err(DropReason::Unsupported),
        };
        match outcome {
            Ok(()) => {
                conn.counters.rx_request_packets += 1;
                conn.counters.rx_payload_bytes += p.payload_len() as u64;
                Verdict::Delivered
            }
            Err(reason) => {
                self.abandon();
                Verdict::Dropped(reason)
            }
        }
    }

    /// Gives the message up that is under way.
    fn abandon(&mut self) {
        if let Message::Send { wr, .. } = core::mem::take(&mut self.message) {
            self.spare = Some(wr);
        }
    }

    fn send(
        &mut self,
        p: &Packet<'_>,
        conn: &Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Result<(), DropReason> {
        let payload = payload_of(p, conn.mtu.bytes()).ok_or(DropReason::LengthError)?;
        let begins = matches!(p.info.position, Position::First | Position::Only);
        let (wr, at) = match self.message {
            Message::Send { wr, received } => (wr, received),
            Message::None if begins => {
                let wr = self.spare.take().or_else(|| rq.pop()).ok_or(DropReason::NoRecvWqe)?;
                (wr, 0)
            }
            _ => return Err(DropReason::OutOfSequenceDropped),
        };
        self.message = Message::Send { wr, received: at };
        if payload > wr.sge.len - at {
            return Err(DropReason::LengthError);
        }
        if payload != 0 {
            let to = wr.sge.addr.wrapping_add(u64::from(at));
            let Ok(sink) = mem.sink(conn.pd, wr.sge.lkey, to, payload) else {
                self.message = Message::None;
                self.failure = Some(wr);
                return Err(DropReason::AccessError);
            };
            p.copy_payload(sink);
        }
        if matches!(p.info.position, Position::First | Position::Middle) {
            self.message = Message::Send { wr, received: at + payload };
        } else {
            self.message = Message::None;
            done.complete(received(p, conn, wr.wr_id, WcOpcode::Recv, at + payload));
        }
        Ok(())
    }

    fn write(
        &mut self,
        p: &Packet<'_>,
        conn: &Conn,
        rq: &mut Ring<RecvWr>,
        mem: &mut Memory,
        done: &mut impl Completions,
    ) -> Result<(), DropReason> {
        if !conn.access.contains(Access::REMOTE_WRITE) {
            return Err(DropReason::AccessError);
        }
        let payload = payload_of(p, conn.mtu.bytes()).ok_or(DropReason::LengthError)?;
        let last = matches!(p.info.position, Position::Last | Position::Only);
        let (va, rkey, len, at) = match (self.message, p.reth()) {
            (Message::None, Some(reth)) => {
                let key = MrKey(reth.rkey);
                if reth.len != 0 {
                    mem.check_remote(conn.pd, key, reth.va, reth.len, Access::REMOTE_WRITE)
                        .map_err(|_| DropReason::AccessError)?;
                }
                (reth.va, key, reth.len, 0)
            }
            (Message::Write { va, rkey, len, done }, None) => (va, rkey, len, done),
            _ => return Err(DropReason::OutOfSequenceDropped),
        };
        let left = len - at;
        if (last && left != payload) || (!last && left <= payload) {
            return Err(DropReason::LengthError);
        }
        if p.info.completes_recv && self.spare.is_none() && rq.is_empty() {
            return Err(DropReason::NoRecvWqe);
        }
        if payload != 0 {
            let to = va.wrapping_add(u64::from(at));
            let sink = mem
                .remote_mut(conn.pd, rkey, to, payload, Access::REMOTE_WRITE)
                .map_err(|_| DropReason::AccessError)?;
            p.copy_payload(sink);
        }
        if !last {
            self.message = Message::Write { va, rkey, len, done: at + payload };
            return Ok(());
        }
        self.message = Message::None;
        done.event(conn.qpn, QpEvent::WriteExecuted { va, len });
        if p.info.completes_recv
            && let Some(wr) = self.spare.take().or_else(|| rq.pop())
        {
            done.complete(received(p, conn, wr.wr_id, WcOpcode::RecvRdmaWithImm, len));
        }
        Ok(())
    }
}
