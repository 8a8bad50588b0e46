//! Streams: the packets to one queue pair, and how often each has passed.

use crate::units::{Psn, Qpn};
use crate::wire::Gid;

/// The packets to one queue pair: one direction of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Where they go.
    pub dest: Gid,
    /// The queue pair there.
    pub dest_qpn: Qpn,
    /// Index of the flow that they belong to.
    pub flow: u32,
    /// Index of the queue pair in the flow.
    pub qp: u32,
    /// Whether they go against the payload.
    pub backward: bool,
    /// PSN of the first request in this direction.
    pub first_request: Psn,
    /// PSN of the first response in this direction.
    pub first_response: Psn,
    /// Packets that may be unacknowledged.
    pub window: u32,
}

/// How often each PSN of a stream has passed: the last few thousand of them.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    first: Psn,
    /// The highest PSN seen, counted from the first, past the wrap.
    highest: i64,
    slots: Box<[Slot]>,
    /// Packets that came when their slot was already another one's.
    forgotten: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    psn: u32,
    count: u32,
}

/// Passes of a PSN that was forgotten are counted from here.
const FORGOTTEN: u32 = 1 << 16;

impl Passes {
    pub(super) fn new(first: Psn, window: u32) -> Passes {
        let slots = (window.saturating_mul(2)).next_power_of_two().clamp(256, 1 << 16);
        let slots = vec![Slot::default(); slots as usize].into_boxed_slice();
        Passes { first, highest: 0, slots, forgotten: 0 }
    }

    /// Notes that `psn` passes: its number counted from the first, and the how-manieth time it is.
    #[inline]
    pub(super) fn note(&mut self, psn: Psn) -> (i64, u32) {
        let newest = self.first.plus(self.highest as u32);
        let number = self.highest + i64::from(newest.distance_to(psn));
        self.highest = self.highest.max(number);
        let low = number as u32;
        let index = low as usize & (self.slots.len() - 1);
        let slot = &mut self.slots[index];
        if slot.count != 0 && slot.psn == low {
            slot.count = slot.count.saturating_add(1);
            return (number, slot.count);
        }
        if slot.count != 0 && (low.wrapping_sub(slot.psn) as i32) < 0 {
            // Its slot is a newer one's.  It must not look like its first time again: what is
            // decided by probability would come out the same for ever.
            self.forgotten = self.forgotten.wrapping_add(1);
            return (number, FORGOTTEN.saturating_add(self.forgotten));
        }
        *slot = Slot { psn: low, count: 1 };
        (number, 1)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wire::{Opcode, Route, Stamp, Template};
    use std::net::IpAddr;

    /// A frame to queue pair 0x11.
    pub(in super::super) fn frame(v6: bool, tos: u8, opcode: Opcode, psn: u32, body: usize) -> Vec<u8> {
        let ip = |a: &str| Gid::from(a.parse::<IpAddr>().unwrap());
        let route = Route {
            src_mac: [2, 0, 0, 0, 0, 1].into(),
            dst_mac: [2, 0, 0, 0, 0, 2].into(),
            vlan: None,
            src: ip(if v6 { "fd00::1" } else { "198.18.0.1" }),
            dst: ip(if v6 { "fd00::2" } else { "198.18.0.2" }),
            tos,
            hop_limit: 64,
            flow_label: 0,
            sport: 0xC123,
        };
        let mut template = Template::new(&route, 0xFFFF, Qpn::new(0x11));
        let stamp = Stamp { opcode, solicited: false, ack_req: true, pad: 0, psn: Psn::new(psn), tos: None };
        let mut bytes = vec![0; body + 160];
        template.stamp(&mut bytes, &stamp, body);
        let len = template.seal(&mut bytes, body);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn passes_are_counted_across_the_wrap() {
        let mut p = Passes::new(Psn::new(0xFF_FFFE), 4);
        let mut note = |psn: u32| p.note(Psn::new(psn));
        assert_eq!(note(0xFF_FFFE), (0, 1));
        assert_eq!(note(0xFF_FFFF), (1, 1));
        assert_eq!(note(0), (2, 1));
        assert_eq!(note(0xFF_FFFE), (0, 2));
        assert_eq!(note(0), (2, 2));
        assert_eq!(note(0xFF_FFFD), (-1, 1));
    }

    #[test]
    fn a_psn_of_the_next_round_is_another_one() {
        let mut p = Passes::new(Psn::new(3), 1024);
        let mut last = (0, 0);
        for n in 0..(1u32 << 24) + 1 {
            last = p.note(Psn::new(3 + n));
        }
        assert_eq!(last, (1 << 24, 1));
    }

    #[test]
    fn what_is_forgotten_is_never_the_first_time() {
        let mut p = Passes::new(Psn::new(0), 1);
        assert_eq!(p.note(Psn::new(0)), (0, 1));
        assert_eq!(p.note(Psn::new(256)), (256, 1));
        let again: Vec<u32> = (0..3).map(|_| p.note(Psn::new(0)).1).collect();
        assert_eq!(again, [FORGOTTEN + 1, FORGOTTEN + 2, FORGOTTEN + 3]);
    }
}
