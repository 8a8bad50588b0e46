//! The log of what was done to which packet.

use super::rule::ActionKind;
use crate::units::Instant;
use crate::wire::Opcode;
use core::fmt;

/// Something was done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// Index of the flow; `u32::MAX` for packets of none.
    pub flow: u32,
    /// Index of the queue pair in the flow; the destination queue pair for packets of none.
    pub qp: u32,
    /// Against the direction of the flow's payload.
    pub backward: bool,
    /// The packet's opcode.
    pub opcode: Opcode,
    /// Its PSN, counted from the first one.
    pub psn: i64,
    /// The how-manieth time that it passed.
    pub pass: u32,
    /// What was done.
    pub action: ActionKind,
    /// By which rule.
    pub rule: u32,
    /// The bit flipped, from the first of the BTH; 0 for other actions.
    pub detail: u32,
}

impl Event {
    /// What makes it this event, whenever it happened: the order of logs from several workers.
    pub fn key(&self) -> (u32, u32, bool, i64, u32, u32) {
        (self.flow, self.qp, self.backward, self.psn, self.pass, self.rule)
    }
}

/// One line without the time and the flow: what both worlds have in common.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.backward { "back" } else { "forth" };
        write!(
            f,
            "qp {} {way} psn {} pass {} {} {} rule {}",
            self.qp,
            self.psn,
            self.pass,
            self.opcode,
            self.action.as_str(),
            self.rule
        )?;
        match self.action {
            ActionKind::Corrupt => write!(f, " bit {}", self.detail),
            _ => Ok(()),
        }
    }
}

/// A bounded list of events: the first ones are kept, the others counted.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: Vec<Event>,
    missed: u64,
}

impl EventLog {
    /// A log of at most `capacity` events.
    pub fn new(capacity: usize) -> EventLog {
        EventLog { events: Vec::with_capacity(capacity), missed: 0 }
    }

    /// The events kept, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Events that found no room.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        if self.events.len() < self.events.capacity() {
            self.events.push(event);
        } else {
            self.missed += 1;
        }
    }
}
