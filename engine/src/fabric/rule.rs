//! Rules: which packets something happens to, and what.

use crate::units::Duration;
use crate::wire::{Kind, Opcode, OpcodeInfo};

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It never arrives.
    Drop,
    /// It arrives twice.
    Duplicate,
    /// It is held back until so many later packets of its stream have gone, or for this long.
    Reorder {
        /// Packets that overtake it, at least 1.
        packets: u32,
        /// The longest that it waits for them.
        at_most: Duration,
    },
    /// It arrives later by this.
    Delay(Duration),
    /// One bit of it is flipped: this one, counted from the first bit of the BTH; else one after
    /// the BTH that the seed chooses, which makes the iCRC wrong.
    Corrupt(Option<u32>),
    /// It arrives marked with congestion experienced.
    MarkCe,
}

impl Action {
    /// What it is, without how much.
    pub const fn kind(self) -> ActionKind {
        match self {
            Action::Drop => ActionKind::Drop,
            Action::Duplicate => ActionKind::Duplicate,
            Action::Reorder { .. } => ActionKind::Reorder,
            Action::Delay(_) => ActionKind::Delay,
            Action::Corrupt(_) => ActionKind::Corrupt,
            Action::MarkCe => ActionKind::MarkCe,
        }
    }
}

/// The kinds of [`Action`]; `as usize` is the index of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionKind {
    /// See [`Action::Drop`].
    Drop,
    /// See [`Action::Duplicate`].
    Duplicate,
    /// See [`Action::Reorder`].
    Reorder,
    /// See [`Action::Delay`].
    Delay,
    /// See [`Action::Corrupt`].
    Corrupt,
    /// See [`Action::MarkCe`].
    MarkCe,
}

impl ActionKind {
    /// All of them, in the order of their index.
    pub const ALL: [ActionKind; 6] = [
        ActionKind::Drop,
        ActionKind::Duplicate,
        ActionKind::Reorder,
        ActionKind::Delay,
        ActionKind::Corrupt,
        ActionKind::MarkCe,
    ];

    /// As scenario files and logs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ActionKind::Drop => "drop",
            ActionKind::Duplicate => "duplicate",
            ActionKind::Reorder => "reorder",
            ActionKind::Delay => "delay",
            ActionKind::Corrupt => "corrupt",
            ActionKind::MarkCe => "mark_ce",
        }
    }
}

/// How often a rule acts on the packets that it is about: a share of 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// On all of them.
    pub const ALWAYS: Chance = Chance(u64::MAX);

    /// With this probability, 0 to 1.
    pub fn new(probability: f64) -> Chance {
        // 2^64; the cast saturates.
        Chance((probability.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u64)
    }

    /// The probability, 0 to 1.
    pub fn probability(self) -> f64 {
        if self.is_certain() { 1.0 } else { self.0 as f64 / 18_446_744_073_709_551_616.0 }
    }

    /// Whether it acts where `draw` is uniform over all 64-bit numbers.
    #[inline]
    pub(super) const fn takes(self, draw: u64) -> bool {
        draw < self.0 || self.0 == u64::MAX
    }

    /// Whether no draw is needed.
    #[inline]
    pub(super) const fn is_certain(self) -> bool {
        self.0 == u64::MAX
    }
}

/// Packets by what they carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketClass {
    /// All.
    #[default]
    Any,
    /// Requests, and responses with data.
    Data,
    /// ACK, NAK, RNR NAK and CNP.
    Ack,
}

impl PacketClass {
    #[inline]
    fn takes(self, info: &OpcodeInfo) -> bool {
        let ack = matches!(info.kind, Kind::Acknowledge | Kind::Cnp);
        match self {
            PacketClass::Any => true,
            PacketClass::Data => !ack,
            PacketClass::Ack => ack,
        }
    }
}

/// Directions of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Both.
    #[default]
    Both,
    /// That of its payload.
    Forward,
    /// The other one.
    Backward,
}

impl Way {
    #[inline]
    const fn takes(self, backward: bool) -> bool {
        match self {
            Way::Both => true,
            Way::Forward => !backward,
            Way::Backward => backward,
        }
    }
}

/// A rule: an action and the packets that it is for.  What is left out matches all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Index of the flow.
    pub flow: Option<u32>,
    /// Index of the queue pair in its flow.
    pub qp: Option<u32>,
    /// Direction.
    pub way: Way,
    /// What the packet carries.
    pub class: PacketClass,
    /// Its opcode.
    pub opcode: Option<Opcode>,
    /// Its PSN, counted from the first one of its direction.  Does not wrap: a PSN that comes again
    /// after 2^24 others is another one.
    pub psn: Option<i64>,
    /// The how-manieth time that this PSN passes, from 1.
    pub pass: Option<u32>,
    /// How often.
    pub chance: Chance,
    /// What happens.
    pub action: Action,
}

impl Rule {
    /// `action` on every packet.
    pub const fn always(action: Action) -> Rule {
        Rule {
            flow: None,
            qp: None,
            way: Way::Both,
            class: PacketClass::Any,
            opcode: None,
            psn: None,
            pass: None,
            chance: Chance::ALWAYS,
            action,
        }
    }

    /// Whether the packet is one that the rule is about.
    #[inline]
    pub(super) fn is_about(&self, p: &Subject) -> bool {
        self.psn.is_none_or(|psn| psn == p.psn)
            && self.pass.is_none_or(|pass| pass == p.pass)
            && self.flow.is_none_or(|flow| flow == p.flow)
            && self.qp.is_none_or(|qp| qp == p.qp)
            && self.way.takes(p.backward)
            && self.class.takes(p.info)
            && self.opcode.is_none_or(|opcode| opcode == p.opcode)
    }
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) flow: u32,
    pub(super) qp: u32,
    pub(super) backward: bool,
    pub(super) opcode: Opcode,
    pub(super) info: &'static OpcodeInfo,
    pub(super) psn: i64,
    pub(super) pass: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances() {
        assert!(Chance::new(1.0).is_certain() && Chance::new(7.0).is_certain());
        assert!(Chance::ALWAYS.takes(u64::MAX));
        assert!(!Chance::new(0.0).takes(0));
        assert!(Chance::new(0.5).takes((1 << 63) - 1) && !Chance::new(0.5).takes(1 << 63));
    }

    #[test]
    fn index_is_place() {
        for (i, kind) in ActionKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
        }
    }
}
