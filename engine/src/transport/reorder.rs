//! Selective repeat, the receiving side: packets that came ahead of the expected one.
//!
//! They are kept as they came and executed in order when the hole before them closes.  So every
//! check of the responder, the order of completions and what happens to memory are those of
//! go-back-N.  The room is made when the queue pair is connected and never grows.

use super::psn_set::PsnSet;
use crate::units::{Duration, Instant, Mtu, Psn};
use crate::wire::{Checks, ICRC_LEN, Kind, MAX_HEADERS, Packet, SackBlock, classify_checks};
use arrayvec::ArrayVec;

/// The packets ahead of the expected one, and what the peer has to be told of them.
#[derive(Debug)]
pub(super) struct Reorder {
    have: PsnSet,
    frames: Box<[u8]>,
    lens: Box<[u16]>,
    /// Bytes for a frame.
    slot: usize,
    window: u32,
    mtu: Mtu,
    kept: u32,
    /// When a missing packet was seen to be missing; [`Instant::FAR`] where none is.
    missed: Box<[Instant]>,
    /// The PSN after the newest packet that came.
    top: Psn,
    /// Packets that came since the last NAK, the last of each run, newest last.
    untold: ArrayVec<Psn, { SackBlock::MOST }>,
    /// Packets that came since the last NAK.
    quiet: u32,
    due: bool,
}

/// What became of a packet that is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is kept.  With it, so many packets were seen to be missing, or one that was missing for
    /// so long has come.
    New { gap: u32, closed: Option<Duration> },
    /// It was there already.
    Again,
    /// It lies beyond the window.
    Beyond,
}

impl Reorder {
    pub(super) fn new(window: u32, mtu: Mtu, expected: Psn) -> Reorder {
        let have = PsnSet::new(window);
        let places = have.size() as usize;
        let slot = (MAX_HEADERS + mtu.bytes() + ICRC_LEN).next_multiple_of(64);
        Reorder {
            frames: vec![0; places * slot].into_boxed_slice(),
            lens: vec![0; places].into_boxed_slice(),
            missed: vec![Instant::FAR; places].into_boxed_slice(),
            have,
            slot,
            window,
            mtu,
            kept: 0,
            top: expected,
            untold: ArrayVec::new(),
            quiet: 0,
            due: false,
        }
    }

    /// Whether the peer is to be told now.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Takes a packet that is ahead of `expected`.  The peer is told at once of a packet that asks,
    /// of a new gap and of one that was filled, of others after `interval`.
    pub(super) fn keep(&mut self, now: Instant, p: &Packet<'_>, expected: Psn, interval: u32) -> Kept {
        let psn = p.bth.psn;
        let ahead = expected.distance_to(psn);
        let len = p.wire_len();
        if ahead < 0 || ahead as u32 >= self.window || len > self.slot {
            return Kept::Beyond;
        }
        if !self.have.insert(psn) {
            self.tell(psn);
            return Kept::Again;
        }
        let place = self.have.place(psn);
        p.copy_to(&mut self.frames[place * self.slot..][..len]);
        self.lens[place] = len as u16;
        self.kept += 1;
        self.quiet += 1;
        let fills = psn.is_before(self.top);
        let closed = self.arrived(now, psn);
        let mut gap = 0;
        if !fills {
            let seen = if self.top.is_before(expected) { expected } else { self.top };
            gap = seen.distance_to(psn) as u32;
            for n in 0..gap {
                self.missed[self.have.place(seen.plus(n))] = now;
            }
            self.top = psn.plus(span(p, self.mtu));
        }
        match self.untold.last_mut() {
            Some(last) if last.plus(1) == psn => *last = psn,
            _ => self.note_untold(psn),
        }
        self.due |= gap != 0 || fills || p.bth.ack_req || self.quiet >= interval;
        Kept::New { gap, closed }
    }

    /// `psn` has come: how long it was missing.
    pub(super) fn arrived(&mut self, now: Instant, psn: Psn) -> Option<Duration> {
        if !psn.is_before(self.top) {
            return None;
        }
        let missed = core::mem::replace(&mut self.missed[self.have.place(psn)], Instant::FAR);
        (missed != Instant::FAR).then(|| now.since(missed))
    }

    /// The packet `psn`, when it is there.
    #[inline]
    pub(super) fn get(&self, psn: Psn) -> Option<Packet<'_>> {
        if self.kept == 0 || !self.have.contains(psn) {
            return None;
        }
        let place = self.have.place(psn);
        let frame = self.frames[place * self.slot..].get(..usize::from(self.lens[place]))?;
        // It was classified when it came.
        classify_checks(frame, None, Checks::OFFLOADED).ok()
    }

    /// Gives up a packet that could not be executed: the peer sends it again.
    pub(super) fn forget(&mut self, psn: Psn) {
        self.kept -= u32::from(self.have.remove(psn));
    }

    /// The packet that is expected was `from` and is `to`: what lies between is done with.
    #[inline]
    pub(super) fn advance(&mut self, from: Psn, to: Psn) {
        let missing = self.kept != 0 || to.is_before(self.top) || from.is_before(self.top);
        if missing {
            for n in 0..(from.distance_to(to) as u32).min(self.have.size()) {
                let psn = from.plus(n);
                self.forget(psn);
                self.missed[self.have.place(psn)] = Instant::FAR;
            }
        }
        if self.kept == 0 && !to.is_before(self.top) {
            self.top = to;
            self.quiet = 0;
            self.due = false;
            self.untold.clear();
        }
    }

    /// The runs that have grown since they were told, now told.
    pub(super) fn take_blocks(&mut self) -> ArrayVec<SackBlock, { SackBlock::MOST }> {
        let mut blocks = ArrayVec::<SackBlock, { SackBlock::MOST }>::new();
        for psn in self.untold.drain(..).rev() {
            if self.have.contains(psn) {
                let from = psn.minus(self.have.run_before(psn, self.window));
                let to = psn.plus(self.have.run_from(psn, self.window));
                let block = SackBlock { from, to };
                if !blocks.contains(&block) {
                    blocks.push(block);
                }
            }
        }
        self.quiet = 0;
        self.due = false;
        blocks
    }

    fn tell(&mut self, psn: Psn) {
        self.note_untold(psn);
        self.due = true;
    }

    /// The oldest makes room: the peer is told of its run when it grows again.
    fn note_untold(&mut self, psn: Psn) {
        if self.untold.is_full() {
            self.untold.remove(0);
        }
        self.untold.push(psn);
    }
}

/// The PSNs that a request takes: a READ takes one for each packet of its answer.
fn span(p: &Packet<'_>, mtu: Mtu) -> u32 {
    match (p.info.kind, p.reth()) {
        (Kind::ReadRequest, Some(reth)) => mtu.packets(reth.len).min(1 << 22),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Qpn;
    use crate::wire::{Gid, MacAddr, Opcode, Reth, Route, Stamp, Template, classify};

    const NOW: Instant = Instant::from_nanos(1000);

    fn frame(opcode: Opcode, psn: u32, ask: bool, ext: &[u8]) -> Vec<u8> {
        let (mac, gid) = (MacAddr([0; 6]), Gid::default());
        let route = Route {
            src_mac: mac,
            dst_mac: mac,
            vlan: None,
            src: gid,
            dst: gid,
            tos: 0,
            hop_limit: 1,
            flow_label: 0,
            sport: 0,
        };
        let mut template = Template::new(&route, 0xFFFF, Qpn::new(3));
        let mut slot = vec![0; 300];
        let at = template.headers_len();
        slot[at..at + ext.len()].copy_from_slice(ext);
        let stamp = Stamp { opcode, solicited: false, ack_req: ask, pad: 0, psn: Psn::new(psn), tos: None };
        template.stamp(&mut slot, &stamp, ext.len());
        let len = template.seal(&mut slot, ext.len());
        slot.truncate(len);
        slot
    }

    fn keep(r: &mut Reorder, at: u64, expected: u32, psn: u32, ask: bool) -> Kept {
        let frame = frame(Opcode::RC_SEND_ONLY, psn, ask, &[]);
        let now = Instant::from_nanos(at);
        r.keep(now, &classify(&frame).unwrap(), Psn::new(expected), 4)
    }

    fn new(gap: u32, closed: Option<u64>) -> Kept {
        Kept::New { gap, closed: closed.map(Duration::from_nanos) }
    }

    fn told(r: &mut Reorder) -> Vec<(u32, u32)> {
        r.take_blocks().iter().map(|b| (b.from.get(), b.to.get())).collect()
    }

    #[test]
    fn what_is_told_and_when() {
        let mut r = Reorder::new(64, Mtu::B256, Psn::new(100));
        assert_eq!(keep(&mut r, 0, 100, 102, false), new(2, None));
        assert!(r.is_due(), "a gap is told at once");
        assert_eq!(told(&mut r), [(102, 103)]);
        for psn in 103..106 {
            assert_eq!(keep(&mut r, 10, 100, psn, false), new(0, None));
            assert!(!r.is_due());
        }
        keep(&mut r, 10, 100, 106, false);
        assert!(r.is_due(), "after the interval");
        keep(&mut r, 20, 100, 110, false);
        assert_eq!(told(&mut r), [(110, 111), (102, 107)]);
        assert_eq!(keep(&mut r, 50, 100, 108, false), new(0, Some(30)));
        assert!(r.is_due(), "something in a gap is told at once");
        assert_eq!(keep(&mut r, 50, 100, 108, false), Kept::Again);
        assert_eq!(told(&mut r), [(108, 109)]);
        assert_eq!(keep(&mut r, 50, 100, 163, true), new(52, None));
        assert_eq!(keep(&mut r, 50, 100, 164, true), Kept::Beyond);
        assert_eq!(r.arrived(Instant::from_nanos(77), Psn::new(100)), Some(Duration::from_nanos(77)));
    }

    /// A READ of five packets covers the PSNs of its answer: they are no gap.
    #[test]
    fn a_read_takes_the_psns_of_its_answer() {
        let mut r = Reorder::new(64, Mtu::B256, Psn::new(100));
        let mut ext = [0; Reth::LEN];
        Reth { va: 0, rkey: 0, len: 5 * 256 }.emit(&mut ext);
        let read = frame(Opcode::RC_READ_REQUEST, 101, true, &ext);
        let kept = r.keep(NOW, &classify(&read).unwrap(), Psn::new(100), 4);
        assert_eq!(kept, new(1, None));
        assert_eq!(keep(&mut r, 0, 100, 106, false), new(0, None));
        // Its execution leaves them behind, and all is as at the start.
        r.advance(Psn::new(100), Psn::new(101));
        assert!(r.get(Psn::new(101)).is_some() && r.get(Psn::new(102)).is_none());
        r.advance(Psn::new(101), Psn::new(106));
        r.advance(Psn::new(106), Psn::new(107));
        assert!(!r.is_due() && r.kept == 0 && r.top == Psn::new(107));
    }
}
