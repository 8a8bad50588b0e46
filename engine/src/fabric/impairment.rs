//! Deterministic faults: a judge that says what happens to each frame.

use super::event::{Event, EventLog};
use super::hash::mix;
use super::rule::{Action, ActionKind, Rule, Subject};
use super::stream::{Passes, Stream};
use crate::units::{Instant, Psn};
use crate::wire::{Bth, Checks, DropReason, Gid, ICRC_LEN, Packet, classify_checks, classify_rocev1};

/// What happens to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// The stream that it belongs to: frames that wait for others wait for those of their stream.
    pub stream: u32,
    /// It is lost; nothing else happens to it.
    pub drop: bool,
    /// A copy of it, as it was, goes along.
    pub duplicate: bool,
    /// A bit is flipped.
    pub flip: Option<Flip>,
    /// It is marked with congestion experienced.
    pub mark_ce: bool,
    /// It is held back.
    pub hold: Option<Release>,
}

impl Fate {
    /// Whether the frame goes on as if nothing were there.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.drop && !self.duplicate && self.flip.is_none() && !self.mark_ce && self.hold.is_none()
    }
}

/// A bit of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// Offset of its byte.
    pub byte: u32,
    /// The bit in it.
    pub mask: u8,
}

/// When a frame that is held back goes on: the sooner of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// After so many later frames of its stream; 0 when it does not wait for frames.
    pub after: u32,
    /// At this time.
    pub at: Instant,
}

/// Judges the frames of one direction of a link, or that one port sends.
///
/// Whether a rule by chance acts on a packet depends on the seed and on which packet it is - flow,
/// queue pair, direction, PSN, the how-manieth time - and on nothing else: neither on time nor on
/// the packets around it.  Reads no clock and allocates nothing once made.
///
/// All rules that are about a packet act on it, but a packet that is dropped is only dropped, and
/// one whose bits are flipped is not marked.  The copy of a duplicate is not judged.
#[derive(Debug)]
pub struct Impairment {
    seed: u64,
    rules: Vec<Rule>,
    /// By rule: packets that it acted on.
    injected: Vec<u64>,
    streams: Vec<State>,
    /// Packets that belong to no stream.
    others: State,
    last: usize,
    judged: u64,
    log: EventLog,
}

#[derive(Debug)]
struct State {
    stream: Stream,
    requests: Passes,
    responses: Passes,
}

impl State {
    fn new(stream: Stream) -> State {
        State {
            requests: Passes::new(stream.first_request, stream.window),
            responses: Passes::new(stream.first_response, stream.window),
            stream,
        }
    }

    fn key(&self) -> (u32, Gid) {
        (self.stream.dest_qpn.get(), self.stream.dest)
    }
}

/// Packets of no stream.
const NO_FLOW: u32 = u32::MAX;

impl Impairment {
    /// A judge by `rules` over `streams`, with a log of at most `log` events.
    pub fn new(seed: u64, rules: Vec<Rule>, streams: Vec<Stream>, log: usize) -> Impairment {
        let mut streams: Vec<State> = streams.into_iter().map(State::new).collect();
        streams.sort_by_key(State::key);
        let others = Stream {
            dest: Gid::default(),
            dest_qpn: crate::units::Qpn::new(0),
            flow: NO_FLOW,
            qp: NO_FLOW,
            backward: false,
            first_request: Psn::new(0),
            first_response: Psn::new(0),
            window: 4096,
        };
        Impairment {
            seed,
            injected: vec![0; rules.len()],
            rules,
            streams,
            others: State::new(others),
            last: 0,
            judged: 0,
            log: EventLog::new(log),
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// By rule: packets that it acted on.
    pub fn injected(&self) -> &[u64] {
        &self.injected
    }

    /// Packets that an action of this kind was done to.
    pub fn injected_of(&self, kind: ActionKind) -> u64 {
        self.rules.iter().zip(&self.injected).filter(|(r, _)| r.action.kind() == kind).map(|(_, n)| n).sum()
    }

    /// Packets judged.
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// What was done to which packet.
    pub fn log(&self) -> &EventLog {
        &self.log
    }

    /// The time that a frame can be held back at most.
    pub fn longest_hold(&self) -> crate::units::Duration {
        let hold = |r: &Rule| match r.action {
            Action::Reorder { at_most, .. } => at_most,
            Action::Delay(by) => by,
            _ => crate::units::Duration::ZERO,
        };
        self.rules.iter().map(hold).max().unwrap_or_default()
    }

    /// Judges an Ethernet frame without FCS.  One that is not RoCE goes on as it is.
    #[inline]
    pub fn judge(&mut self, now: Instant, frame: &[u8]) -> Fate {
        match classify_checks(frame, None, Checks::OFFLOADED) {
            Ok(p) => self.judge_packet(now, &p),
            Err(DropReason::Rocev1) => match classify_rocev1(frame, None) {
                Ok(p) => self.judge_packet(now, &p),
                Err(_) => Fate::default(),
            },
            Err(_) => Fate::default(),
        }
    }

    fn judge_packet(&mut self, now: Instant, p: &Packet<'_>) -> Fate {
        self.judged += 1;
        let index = self.find(p);
        let state = self.streams.get_mut(index).unwrap_or(&mut self.others);
        let passes = if p.info.is_response() { &mut state.responses } else { &mut state.requests };
        let (psn, pass) = passes.note(p.bth.psn);
        let s = &state.stream;
        let subject = Subject {
            flow: s.flow,
            qp: if s.flow == NO_FLOW { p.bth.dest_qp.get() } else { s.qp },
            backward: s.backward,
            opcode: p.bth.opcode,
            info: p.info,
            psn,
            pass,
        };
        let mut fate = Fate { stream: index as u32, ..Fate::default() };
        let fires = |rule: usize, r: &Rule, seed: u64| {
            r.is_about(&subject)
                && (r.chance.is_certain() || r.chance.takes(draw(seed, rule as u64, &subject)))
        };
        for rule in 0..self.rules.len() {
            let r = &self.rules[rule];
            if r.action == Action::Drop && fires(rule, r, self.seed) {
                fate.drop = true;
                self.note(now, &subject, rule, 0);
                return fate;
            }
        }
        for rule in 0..self.rules.len() {
            let r = &self.rules[rule];
            if r.action == Action::Drop || !fires(rule, r, self.seed) {
                continue;
            }
            // What a packet has had, it does not have again: each event in the log is real.
            let detail = match r.action {
                Action::Duplicate if !fate.duplicate => {
                    fate.duplicate = true;
                    0
                }
                Action::Reorder { packets, at_most } if fate.hold.is_none() => {
                    fate.hold = Some(Release { after: packets.max(1), at: now + at_most });
                    0
                }
                Action::Delay(by) if fate.hold.is_none() => {
                    fate.hold = Some(Release { after: 0, at: now + by });
                    0
                }
                Action::Corrupt(bit) if fate.flip.is_none() && !fate.mark_ce => {
                    let choice = draw(!self.seed, rule as u64, &subject);
                    let (flip, bit) = place(p, bit, choice);
                    fate.flip = Some(flip);
                    bit
                }
                Action::MarkCe if fate.flip.is_none() && !fate.mark_ce => {
                    fate.mark_ce = true;
                    0
                }
                _ => continue,
            };
            self.note(now, &subject, rule, detail);
        }
        fate
    }

    /// The stream of a packet; past the end when it has none.
    #[inline]
    fn find(&mut self, p: &Packet<'_>) -> usize {
        let key = (p.bth.dest_qp.get(), p.dst());
        if self.streams.get(self.last).is_none_or(|s| s.key() != key) {
            self.last = self.streams.binary_search_by_key(&key, State::key).unwrap_or(self.streams.len());
        }
        self.last
    }

    fn note(&mut self, at: Instant, s: &Subject, rule: usize, detail: u32) {
        self.injected[rule] += 1;
        self.log.push(Event {
            at,
            flow: s.flow,
            qp: s.qp,
            backward: s.backward,
            opcode: s.opcode,
            psn: s.psn,
            pass: s.pass,
            action: self.rules[rule].action.kind(),
            rule: rule as u32,
            detail,
        });
    }
}

/// The bit to flip, and its number from the first bit of the BTH.
fn place(p: &Packet<'_>, bit: Option<u32>, choice: u64) -> (Flip, u32) {
    let end = p.wire_len();
    let bth = end - ICRC_LEN - p.body().len();
    let bits = 8 * (end - bth) as u64;
    let after = 8 * Bth::LEN as u64;
    let bit = match bit {
        Some(bit) => u64::from(bit).min(bits - 1),
        None => after + choice % (bits - after),
    };
    (Flip { byte: bth as u32 + (bit / 8) as u32, mask: 0x80 >> (bit % 8) }, bit as u32)
}

/// A number that depends on the rule and on which packet it is, and on nothing else.
fn draw(seed: u64, rule: u64, s: &Subject) -> u64 {
    let ways = u64::from(s.backward) << 1 | u64::from(s.info.is_response());
    [rule << 2 | ways, u64::from(s.flow) << 32 | u64::from(s.qp), s.psn as u64, u64::from(s.pass)]
        .into_iter()
        .fold(mix(seed), |hash, word| mix(hash ^ word))
}

#[cfg(test)]
mod tests;
