//! What the responder has to say, in the order of the requests' PSNs.

use super::qp::{Conn, Sent};
use crate::units::{Msn, Psn};
use crate::verbs::{Memory, MrKey};
use crate::wire::{
    Aeth, AethKind, AtomicAckEth, Head, NakCode, Opcode, Payload, SackBlock, Slot, Stamp, Syndrome,
};

/// A READ or atomic that was executed: kept to answer it, and to answer it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    pub(super) first: Psn,
    pub(super) packets: u32,
    pub(super) msn: Msn,
    pub(super) what: Answer,
    /// Packets `next .. packets` wait to be sent, `base` begins the answer.
    pub(super) next: u32,
    pub(super) base: u32,
    /// The answer left whole once: what waits is a repetition.
    answered: bool,
    /// An ACK that leaves before it.
    ack_before: Option<(Psn, Msn)>,
}

/// The answer of a [`Resource`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Read { va: u64, rkey: MrKey, len: u32 },
    Atomic { original: u64 },
}

impl Resource {
    fn is_waiting(&self) -> bool {
        self.next < self.packets
    }
}

/// Packets of a READ's answer that are sent again under selective repeat, ahead of all else.
#[derive(Clone, Copy, Debug)]
struct Repair {
    psn: Psn,
    left: u32,
    /// Its first packet has not left.
    begins: bool,
}

/// Repairs that may wait; what finds no room is asked for again.
const REPAIRS: usize = 32;

/// The responder's output: resources with answers to send, then one ACK or NAK.
#[derive(Debug)]
pub(super) struct Output {
    /// The newest READs and atomics, oldest first from `oldest` on.
    resources: Vec<Resource>,
    oldest: usize,
    depth: usize,
    /// At most [`REPAIRS`]; room for them is made where there may be any.
    repairs: Vec<Repair>,
    /// Resources that wait, and those of them that wait for the first time.
    waiting: u32,
    fresh: u32,
    ack: Option<(Psn, Msn)>,
    nak: Option<(Psn, Msn, Syndrome)>,
    /// Nothing follows the NAK.
    closing: bool,
}

impl Output {
    pub(super) fn new() -> Output {
        Output {
            resources: Vec::new(),
            oldest: 0,
            depth: 0,
            repairs: Vec::new(),
            waiting: 0,
            fresh: 0,
            ack: None,
            nak: None,
            closing: false,
        }
    }

    /// Keeps resources for `depth` READs and atomics, and repairs of their answers if `repairs`.
    pub(super) fn start(&mut self, depth: usize, repairs: bool) {
        self.resources = Vec::with_capacity(depth);
        self.repairs = Vec::with_capacity(if repairs && depth != 0 { REPAIRS } else { 0 });
        self.depth = depth;
    }

    /// Whether an answer to something after `psn` waits: it acknowledges `psn` too.
    pub(super) fn answers_after(&self, psn: Psn) -> bool {
        self.waiting != 0 && self.resources.iter().any(|r| r.is_waiting() && r.first.is_after(psn))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ack.is_none() && self.nak.is_none() && !self.has_answer()
    }

    /// Whether a READ or atomic waits to be answered, which goes ahead of an ACK or NAK.
    #[inline]
    pub(super) fn has_answer(&self) -> bool {
        self.waiting != 0 || !self.repairs.is_empty()
    }

    #[inline]
    pub(super) fn has_nak(&self) -> bool {
        self.nak.is_some()
    }

    pub(super) fn has_sequence_nak(&self) -> bool {
        self.nak.is_some_and(|(_, _, s)| s.kind() == AethKind::Nak(NakCode::PsnSequence))
    }

    /// Whether an ACK or NAK could leave now.
    #[inline]
    pub(super) fn has_urgent(&self) -> bool {
        !self.has_answer() && (self.ack.is_some() || self.nak.is_some())
    }

    /// Whether every resource has an answer that was never sent.  Repetitions do not count: the
    /// peer may have all of an answer when the request that asked for it again arrives late.
    pub(super) fn is_full(&self) -> bool {
        self.fresh as usize >= self.depth
    }

    /// An ACK that covers everything up to `psn`; takes the place of an older one.
    #[inline]
    pub(super) fn ack(&mut self, psn: Psn, msn: Msn) {
        if !self.closing {
            self.ack = Some((psn, msn));
        }
    }

    /// What the ACK would have said is said otherwise.
    pub(super) fn drop_ack(&mut self) {
        self.ack = None;
    }

    /// A NAK.  It implies the ACK for what lies before it.
    pub(super) fn nak(&mut self, psn: Psn, msn: Msn, syndrome: Syndrome, closing: bool) {
        if !self.closing {
            self.nak = Some((psn, msn, syndrome));
            self.closing = closing;
        }
    }

    /// Forgets all output but a NAK that closes the connection and what must precede it.
    pub(super) fn stop(&mut self) {
        if self.closing && self.nak.is_some() {
            return;
        }
        self.closing = true;
        self.ack = None;
        self.nak = None;
        self.forget_answers();
    }

    fn forget_answers(&mut self) {
        self.waiting = 0;
        self.fresh = 0;
        self.repairs.clear();
        self.resources.clear();
        self.oldest = 0;
    }

    /// The gap has closed before the NAK left.
    #[inline]
    pub(super) fn cancel_nak(&mut self) {
        if self.nak.is_some() && !self.closing {
            self.nak = None;
        }
    }

    /// A new READ or atomic; the oldest resource makes room.
    pub(super) fn push(&mut self, first: Psn, packets: u32, msn: Msn, what: Answer) {
        let ack_before = self.ack.take();
        let resource = Resource { first, packets, msn, what, next: 0, base: 0, answered: false, ack_before };
        if self.resources.len() < self.depth {
            self.resources.push(resource);
        } else {
            let old = &mut self.resources[self.oldest];
            // An answer that is being repeated: the peer has it, or it would not go on.
            self.waiting -= u32::from(old.is_waiting());
            *old = resource;
            self.oldest = (self.oldest + 1) % self.depth;
        }
        self.waiting += 1;
        self.fresh += 1;
    }

    /// The newest resource that `psn` belongs to: one from a round of the PSNs ago may be there too.
    pub(super) fn find(&self, psn: Psn) -> Option<(usize, Resource)> {
        let inside = |r: &&Resource| {
            let k = r.first.distance_to(psn);
            k >= 0 && (k as u32) < r.packets
        };
        let len = self.resources.len();
        (1..=len).find_map(|age| {
            let i = (self.oldest + len - age) % len;
            self.resources.get(i).filter(inside).map(|r| (i, *r))
        })
    }

    /// Answers resource `index` again from packet `k` on.  An answer under way begins again:
    /// duplicates do not queue up.
    pub(super) fn replay(&mut self, index: usize, k: u32) {
        let resource = &mut self.resources[index];
        if !resource.is_waiting() {
            self.waiting += 1;
        }
        resource.next = k;
        resource.base = k;
    }

    /// Sends `packets` of an answer again from packet `k` on, but none that has not left yet.
    /// Whether any is, and there is room to remember it.
    pub(super) fn repair(&mut self, resource: &Resource, k: u32, packets: u32) -> bool {
        let left = packets.min(resource.next.saturating_sub(k));
        let room = self.repairs.len() < REPAIRS;
        if left != 0 && room {
            self.repairs.push(Repair { psn: resource.first.plus(k), left, begins: true });
        }
        left != 0 && room
    }

    /// Writes the next frame.  `Err` is a READ whose memory is gone: its PSN and MSN.  Nothing but
    /// the NAK that says so may follow.
    pub(super) fn transmit(
        &mut self,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
    ) -> Result<Option<Sent>, (Psn, Msn)> {
        if !self.repairs.is_empty()
            && let Some(sent) = self.transmit_repair(conn, mem, slot)?
        {
            return Ok(Some(sent));
        }
        if self.waiting != 0 {
            return self.transmit_answer(conn, mem, slot).map(Some);
        }
        if let Some((psn, msn, syndrome)) = self.nak.take() {
            self.ack = None;
            match syndrome.kind() {
                AethKind::RnrNak { .. } => conn.counters.rnr_naks_sent += 1,
                _ => conn.counters.naks_sent += 1,
            }
            return Ok(Some(acknowledge(conn, slot, psn, msn, syndrome)));
        }
        if let Some((psn, msn)) = self.ack.take() {
            conn.counters.acks_sent += 1;
            let syndrome = conn.advertised.syndrome(msn);
            return Ok(Some(acknowledge(conn, slot, psn, msn, syndrome)));
        }
        Ok(None)
    }

    fn transmit_answer(
        &mut self,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
    ) -> Result<Sent, (Psn, Msn)> {
        let depth = self.resources.len();
        let index = (0..depth)
            .map(|i| (self.oldest + i) % depth)
            .find(|i| self.resources[*i].is_waiting())
            .unwrap_or(self.oldest);
        let resource = &mut self.resources[index];
        if let Some((psn, msn)) = resource.ack_before.take() {
            conn.counters.acks_sent += 1;
            let syndrome = conn.advertised.syndrome(msn);
            return Ok(acknowledge(conn, slot, psn, msn, syndrome));
        }
        let k = resource.next;
        let psn = resource.first.plus(k);
        let sent = match resource.what {
            Answer::Atomic { original } => atomic_acknowledge(conn, slot, psn, resource.msn, original),
            Answer::Read { .. } => {
                let place = (k == resource.base, k + 1 == resource.packets);
                let resource = *resource;
                match read_packet(conn, mem, slot, &resource, k, place) {
                    Some(sent) => sent,
                    None => return Err(self.unreadable(psn, resource.msn)),
                }
            }
        };
        let resource = &mut self.resources[index];
        resource.next += 1;
        if !resource.is_waiting() {
            self.waiting -= 1;
            self.fresh -= u32::from(!core::mem::replace(&mut resource.answered, true));
        }
        conn.counters.tx_response_packets += 1;
        conn.counters.tx_payload_bytes += u64::from(sent.payload());
        Ok(sent)
    }

    /// The next packet of the oldest repair whose READ is still known.
    fn transmit_repair(
        &mut self,
        conn: &mut Conn,
        mem: &Memory,
        slot: &mut (impl Slot + ?Sized),
    ) -> Result<Option<Sent>, (Psn, Msn)> {
        while let Some(repair) = self.repairs.first_mut() {
            let Repair { psn, left, begins } = *repair;
            *repair = Repair { psn: psn.plus(1), left: left - 1, begins: false };
            if left == 1 {
                self.repairs.remove(0);
            }
            let Some((_, resource)) = self.find(psn) else { continue };
            let k = resource.first.distance_to(psn) as u32;
            let Some(sent) = read_packet(conn, mem, slot, &resource, k, (begins, left == 1)) else {
                return Err(self.unreadable(psn, resource.msn));
            };
            conn.counters.tx_response_packets += 1;
            conn.counters.tx_payload_bytes += u64::from(sent.payload());
            return Ok(Some(sent));
        }
        Ok(None)
    }

    /// The memory of a READ is gone: nothing else is said any more.
    fn unreadable(&mut self, psn: Psn, msn: Msn) -> (Psn, Msn) {
        self.forget_answers();
        self.nak = None;
        self.closing = false;
        (psn, msn)
    }
}

/// Writes packet `k` of a READ's answer; `None` when its bytes cannot be had.
fn read_packet(
    conn: &mut Conn,
    mem: &Memory,
    slot: &mut (impl Slot + ?Sized),
    resource: &Resource,
    k: u32,
    place: (bool, bool),
) -> Option<Sent> {
    let Answer::Read { va, rkey, len } = resource.what else { return None };
    let offset = k << conn.mtu.shift();
    let want = (len - offset).min(conn.mtu.bytes() as u32);
    let bytes = match want {
        0 => Payload::default(),
        _ => mem.remote_source(conn.pd, rkey, va.wrapping_add(u64::from(offset)), want).ok()?,
    };
    Some(read_response(conn, slot, resource.first.plus(k), resource.msn, place, bytes))
}

/// Writes a sequence NAK that says what came after the packet that it asks for.
pub(super) fn acknowledge_blocks(
    conn: &mut Conn,
    slot: &mut (impl Slot + ?Sized),
    psn: Psn,
    msn: Msn,
    blocks: &[SackBlock],
) -> Sent {
    let mut head = Head::new();
    Aeth { syndrome: Syndrome::NAK_PSN_SEQUENCE, msn }.emit(head.from(conn.template.headers_len()));
    let mut bytes = [0; SackBlock::MOST * SackBlock::LEN];
    for (block, out) in blocks.iter().zip(bytes.chunks_exact_mut(SackBlock::LEN)) {
        block.emit(out);
    }
    let bytes = &bytes[..blocks.len().min(SackBlock::MOST) * SackBlock::LEN];
    let sent = finish(conn, slot, &mut head, Opcode::RC_ACKNOWLEDGE, psn, Aeth::LEN, bytes.into());
    // They are no payload of anybody's.
    Sent::new(sent.len(), 0, sent.psn())
}

/// Writes an ACKNOWLEDGE packet: ACK, NAK or RNR NAK.
#[inline]
fn acknowledge(
    conn: &mut Conn,
    slot: &mut (impl Slot + ?Sized),
    psn: Psn,
    msn: Msn,
    syndrome: Syndrome,
) -> Sent {
    let mut head = Head::new();
    Aeth { syndrome, msn }.emit(head.from(conn.template.headers_len()));
    finish(conn, slot, &mut head, Opcode::RC_ACKNOWLEDGE, psn, Aeth::LEN, Payload::default())
}

fn atomic_acknowledge(
    conn: &mut Conn,
    slot: &mut (impl Slot + ?Sized),
    psn: Psn,
    msn: Msn,
    original: u64,
) -> Sent {
    let at = conn.template.headers_len();
    let mut head = Head::new();
    Aeth { syndrome: conn.advertised.syndrome(msn), msn }.emit(head.from(at));
    AtomicAckEth { original }.emit(head.from(at + Aeth::LEN));
    finish(
        conn,
        slot,
        &mut head,
        Opcode::RC_ATOMIC_ACK,
        psn,
        Aeth::LEN + AtomicAckEth::LEN,
        Payload::default(),
    )
}

fn read_response(
    conn: &mut Conn,
    slot: &mut (impl Slot + ?Sized),
    psn: Psn,
    msn: Msn,
    (first, last): (bool, bool),
    bytes: Payload<'_>,
) -> Sent {
    let opcode = match (first, last) {
        (true, true) => Opcode::RC_READ_RESP_ONLY,
        (true, false) => Opcode::RC_READ_RESP_FIRST,
        (false, false) => Opcode::RC_READ_RESP_MIDDLE,
        (false, true) => Opcode::RC_READ_RESP_LAST,
    };
    let mut head = Head::new();
    let mut ext = 0;
    if first || last {
        Aeth { syndrome: conn.advertised.syndrome(msn), msn }.emit(head.from(conn.template.headers_len()));
        ext = Aeth::LEN;
    }
    finish(conn, slot, &mut head, opcode, psn, ext, bytes)
}

#[inline]
fn finish(
    conn: &mut Conn,
    slot: &mut (impl Slot + ?Sized),
    head: &mut Head,
    opcode: Opcode,
    psn: Psn,
    ext: usize,
    payload: Payload<'_>,
) -> Sent {
    let stamp = Stamp { opcode, solicited: false, ack_req: false, pad: 0, psn, tos: None };
    let len = conn.template.write(slot, head, stamp, ext, payload);
    Sent::new(len, payload.len as u32, psn)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^24 PSNs later the same PSN belongs to another atomic.
    #[test]
    fn the_newest_resource_of_a_psn_is_found() {
        let mut out = Output::new();
        out.start(3, false);
        for original in 0..5 {
            let psn = Psn::new(5);
            out.push(psn, 1, Msn::new(0), Answer::Atomic { original });
            let found = out.find(psn).map(|(_, resource)| resource.what);
            assert!(matches!(found, Some(Answer::Atomic { original: o }) if o == original), "{found:?}");
        }
        assert!(out.find(Psn::new(6)).is_none());
    }
}
