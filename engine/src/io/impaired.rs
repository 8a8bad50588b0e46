//! A port on whose sending side things go wrong.

use super::link::{Link, LinkCounters, LinkSpec};
use super::{BURST, Caps, FrameMut, PacketIo};
use crate::fabric::{Fate, Held, Impairment, flip, mark_ce};
use crate::units::{Duration, Instant};
use crate::wire::{Piece, Tail};
use arrayvec::ArrayVec;
use std::collections::VecDeque;

/// Frames that a port holds back at most; when it holds so many, it takes no more until some are due.
pub const HELD: usize = 1024;

/// Does to the frames that a port sends what an [`Impairment`] says, and leads them over a [`Link`];
/// received frames pass as they are.  Without either it costs one comparison a burst.
///
/// Every judgement is carried out: a frame is judged only when there is a free frame for its copy
/// and room to hold it back, else it stays with the sender as one that the port did not take.
#[derive(Debug)]
pub struct Impaired<I: PacketIo> {
    inner: I,
    state: Option<Box<State<I::Tx>>>,
}

#[derive(Debug)]
struct State<F> {
    impairment: Option<Impairment>,
    /// What they cross after they were judged.
    link: Option<Link<F>>,
    now: Instant,
    held: Held<F>,
    /// Judged and on their way to the port.
    out: VecDeque<F>,
    batch: ArrayVec<F, BURST>,
    /// Dropped frames: the next copies, or given back to the sender to fill again.
    spare: Vec<F>,
}

impl<I: PacketIo> Impaired<I> {
    /// `inner` as it is.
    pub fn new(inner: I) -> Impaired<I> {
        Impaired { inner, state: None }
    }

    /// Judges what is sent from now on.
    pub fn set_impairment(&mut self, impairment: Impairment) {
        self.state_mut().impairment = Some(impairment);
    }

    /// Leads what is sent from now on over a link.
    pub fn set_link(&mut self, link: LinkSpec) {
        self.state_mut().link = Some(Link::new(link));
    }

    fn state_mut(&mut self) -> &mut State<I::Tx> {
        self.state.get_or_insert_with(|| {
            Box::new(State {
                impairment: None,
                link: None,
                now: Instant::ZERO,
                held: Held::new(HELD),
                out: VecDeque::with_capacity(HELD + 2 * BURST),
                batch: ArrayVec::new(),
                spare: Vec::with_capacity(2 * BURST),
            })
        })
    }

    /// The judge, with its counts and its log.
    pub fn impairment(&self) -> Option<&Impairment> {
        self.state.as_ref()?.impairment.as_ref()
    }

    /// What the link did.
    pub fn link(&self) -> Option<LinkCounters> {
        Some(self.state.as_ref()?.link.as_ref()?.counters())
    }

    /// Frames held back or on their way to the port.
    pub fn frames_inside(&self) -> usize {
        let on_link = |s: &State<I::Tx>| s.link.as_ref().map_or(0, Link::frames);
        self.state.as_ref().map_or(0, |s| on_link(s) + s.held.len() + s.out.len() + s.batch.len())
    }

    /// The port itself.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    /// The port itself, to end a recording.
    pub fn inner_mut(&mut self) -> &mut I {
        &mut self.inner
    }
}

impl<F: FrameMut> State<F> {
    /// Whether one more frame can be judged, whatever its fate.
    fn is_ready(&mut self, port: &mut impl PacketIo<Tx = F>) -> bool {
        if self.out.len() >= BURST || self.held.is_full() {
            return false;
        }
        if self.spare.is_empty() {
            self.spare.extend(port.alloc(0));
        }
        !self.spare.is_empty()
    }

    fn pass(&mut self, mut frame: F) {
        let Some(impairment) = &mut self.impairment else {
            self.go_on(frame);
            return self.release();
        };
        let fate: Fate = impairment.judge(self.now, frame.bytes());
        if fate.drop {
            return self.drop(frame);
        }
        if fate.duplicate
            && let Some(mut copy) = self.spare.pop()
        {
            let bytes = frame.bytes();
            copy.buf()[..bytes.len()].copy_from_slice(bytes);
            copy.set_len(bytes.len());
            self.go_on(copy);
        }
        if fate.flip.is_some() || fate.mark_ce {
            let len = frame.bytes().len();
            let bytes = &mut frame.buf()[..len];
            if let Some(f) = fate.flip {
                flip(bytes, f);
            }
            if fate.mark_ce {
                mark_ce(bytes);
            }
        }
        self.held.passed(fate.stream);
        match fate.hold {
            Some(release) => self.held.hold(frame, fate.stream, release),
            None => self.go_on(frame),
        }
        self.release();
    }

    /// A frame that was judged goes over the link, where there is one.
    fn go_on(&mut self, frame: F) {
        let lost = match &mut self.link {
            None => return self.out.push_back(frame),
            Some(link) => link.push(self.now, frame),
        };
        if let Some(frame) = lost {
            self.drop(frame);
        }
    }

    /// A frame that goes nowhere is as good as a fresh one.
    fn drop(&mut self, frame: F) {
        if self.spare.len() < self.spare.capacity() {
            self.spare.push(frame);
        }
    }

    fn release(&mut self) {
        while let Some(frame) = self.held.pop(self.now) {
            self.go_on(frame);
        }
        if let Some(link) = &mut self.link {
            while let Some(frame) = link.pop(self.now) {
                self.out.push_back(frame);
            }
        }
    }

    /// Hands over what is on its way; whether all of it went.
    fn flush(&mut self, port: &mut impl PacketIo<Tx = F>) -> bool {
        loop {
            while !self.batch.is_full() {
                let Some(frame) = self.out.pop_front() else { break };
                self.batch.push(frame);
            }
            if self.batch.is_empty() {
                return true;
            }
            port.send(&mut self.batch);
            if !self.batch.is_empty() {
                return false;
            }
        }
    }
}

impl<I: PacketIo> PacketIo for Impaired<I> {
    type Rx = I::Rx;
    type Tx = I::Tx;

    #[inline]
    fn recv(&mut self, out: &mut ArrayVec<I::Rx, BURST>) -> usize {
        if let Some(state) = &mut self.state {
            state.release();
            state.flush(&mut self.inner);
        }
        self.inner.recv(out)
    }

    #[inline]
    fn alloc(&mut self, reach: usize) -> Option<I::Tx> {
        match &mut self.state {
            // One is kept for a copy.
            Some(state) if state.spare.len() > 1 => state.spare.pop(),
            _ => self.inner.alloc(reach),
        }
    }

    #[inline(always)]
    fn attach(&mut self, frame: &mut I::Tx, head: &[u8], piece: &Piece<'_>, tail: Tail) -> bool {
        // What is to be altered or doubled is in one piece.
        self.state.is_none() && self.inner.attach(frame, head, piece, tail)
    }

    #[inline]
    fn send(&mut self, batch: &mut ArrayVec<I::Tx, BURST>) -> usize {
        let Some(state) = &mut self.state else { return self.inner.send(batch) };
        state.release();
        if !state.flush(&mut self.inner) {
            return 0;
        }
        let mut n = 0;
        // The frames that are taken leave at the front, the others keep their order.
        let mut rest = core::mem::take(batch).into_iter();
        while rest.len() != 0 && state.is_ready(&mut self.inner) {
            let Some(frame) = rest.next() else { break };
            state.pass(frame);
            n += 1;
        }
        batch.extend(rest);
        state.flush(&mut self.inner);
        n
    }

    #[inline]
    fn release(&mut self, frames: &mut ArrayVec<I::Rx, BURST>) {
        self.inner.release(frames);
    }

    #[inline]
    fn fetch<T>(what: &T) {
        I::fetch(what);
    }

    #[inline]
    fn fetch_frame(frame: &I::Rx) {
        I::fetch_frame(frame);
    }

    /// What it holds back may be long.
    fn patience(&self) -> Option<Duration> {
        self.inner.patience().filter(|_| self.state.is_none())
    }

    #[inline]
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        if let Some(state) = &mut self.state {
            state.now = now;
        }
        self.inner.set_now(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Action, Rule, Stream};
    use crate::io::Frame;
    use crate::io::mem::{self, MemFrame, MemPort};
    use crate::units::{Duration, Psn, Qpn};
    use crate::wire::{Gid, Opcode, Route, Stamp, Template, classify};
    use std::net::IpAddr;

    fn gid(a: &str) -> Gid {
        Gid::from(a.parse::<IpAddr>().unwrap())
    }

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn setup(rules: Vec<Rule>) -> (Impaired<MemPort>, MemPort, Template) {
        let route = Route {
            src_mac: [2, 0, 0, 0, 0, 1].into(),
            dst_mac: [2, 0, 0, 0, 0, 2].into(),
            vlan: None,
            src: gid("198.18.0.1"),
            dst: gid("198.18.0.2"),
            tos: 2,
            hop_limit: 64,
            flow_label: 0,
            sport: 0xC000,
        };
        let stream = Stream {
            dest: route.dst,
            dest_qpn: Qpn::new(0x11),
            flow: 0,
            qp: 0,
            backward: false,
            first_request: Psn::new(0),
            first_response: Psn::new(0),
            window: 64,
        };
        let (a, b) = mem::pair(64, 2048);
        let mut a = Impaired::new(a);
        a.set_impairment(Impairment::new(1, rules, vec![stream], 100));
        (a, b, Template::new(&route, 0xFFFF, Qpn::new(0x11)))
    }

    fn fill(template: &mut Template, frame: &mut MemFrame, psn: u32) {
        let stamp = Stamp {
            opcode: Opcode::RC_SEND_ONLY,
            solicited: false,
            ack_req: false,
            pad: 0,
            psn: Psn::new(psn),
            tos: None,
        };
        template.stamp(frame.buf(), &stamp, 64);
        let len = template.seal(frame.buf(), 64);
        frame.set_len(len);
    }

    /// PSNs that arrive when 0..n are sent at once.
    fn through(
        a: &mut Impaired<MemPort>,
        b: &mut MemPort,
        t: &mut Template,
        n: u32,
        now: Instant,
    ) -> Vec<u32> {
        a.set_now(now);
        let mut next = 0;
        let mut got = Vec::new();
        while next < n {
            let mut batch: ArrayVec<_, BURST> = (0..(n - next).min(8)).filter_map(|_| a.alloc(0)).collect();
            for frame in &mut batch {
                fill(t, frame, next);
                next += 1;
            }
            while !batch.is_empty() {
                a.send(&mut batch);
                got.extend(arrived(b));
            }
        }
        got
    }

    fn arrived(b: &mut MemPort) -> Vec<u32> {
        let mut got = ArrayVec::new();
        b.recv(&mut got);
        let psns = got.iter().map(|f| classify(Frame::bytes(f)).unwrap().bth.psn.get()).collect();
        b.release(&mut got);
        psns
    }

    fn on(psn: i64, action: Action) -> Rule {
        Rule { psn: Some(psn), ..Rule::always(action) }
    }

    #[test]
    fn drops_doubles_and_reorders() {
        let hold = Action::Reorder { packets: 2, at_most: Duration::from_micros(1) };
        let rules = vec![on(1, Action::Drop), on(3, Action::Duplicate), on(5, hold), on(9, hold)];
        let (mut a, mut b, mut t) = setup(rules);
        assert_eq!(through(&mut a, &mut b, &mut t, 10, at(0)), [0, 2, 3, 3, 4, 6, 7, 5, 8]);
        assert_eq!(a.frames_inside(), 1);
        let mut none = ArrayVec::new();
        a.set_now(at(999));
        a.recv(&mut none);
        assert_eq!(arrived(&mut b), [0u32; 0]);
        a.set_now(at(1000));
        a.recv(&mut none);
        assert_eq!(arrived(&mut b), [9]);
        assert_eq!(a.frames_inside(), 0);
    }

    #[test]
    fn no_frame_is_lost_to_the_pool() {
        let rules =
            vec![Rule { pass: Some(1), ..Rule::always(Action::Drop) }, Rule::always(Action::Duplicate)];
        let (mut a, mut b, mut t) = setup(rules);
        for round in 0..50 {
            let got = through(&mut a, &mut b, &mut t, 40, at(round));
            assert_eq!(got.len(), if round == 0 { 0 } else { 80 });
        }
        assert_eq!(a.impairment().unwrap().injected(), [40, 40 * 49]);
    }

    #[test]
    fn delayed_frames_fill_the_store_and_no_more() {
        let (mut a, mut b, mut t) = setup(vec![Rule::always(Action::Delay(Duration::from_micros(5)))]);
        let mut sent = 0;
        for _ in 0..10 {
            let mut batch: ArrayVec<_, BURST> = (0..16).filter_map(|_| a.alloc(0)).collect();
            for frame in &mut batch {
                fill(&mut t, frame, sent);
                sent += 1;
            }
            let n = batch.len();
            assert_eq!(a.send(&mut batch), n);
        }
        assert_eq!(a.frames_inside() as u32, sent);
        a.set_now(at(5000));
        let mut got = Vec::new();
        for _ in 0..10 {
            a.recv(&mut ArrayVec::new());
            got.extend(arrived(&mut b));
        }
        assert_eq!(got, (0..sent).collect::<Vec<_>>());
    }

    #[test]
    fn bits_and_marks() {
        let (mut a, mut b, mut t) = setup(vec![on(0, Action::Corrupt(None)), on(1, Action::MarkCe)]);
        through(&mut a, &mut b, &mut t, 0, at(0));
        let mut batch: ArrayVec<_, BURST> = (0..2).filter_map(|_| a.alloc(0)).collect();
        for (psn, frame) in batch.iter_mut().enumerate() {
            fill(&mut t, frame, psn as u32);
        }
        a.send(&mut batch);
        let mut got = ArrayVec::<_, BURST>::new();
        b.recv(&mut got);
        let (first, second) =
            (classify(Frame::bytes(&got[0])).unwrap(), classify(Frame::bytes(&got[1])).unwrap());
        assert!(!first.verify_icrc() && second.verify_icrc());
        assert_eq!(second.ecn(), crate::wire::Ecn::Ce);
    }
}
