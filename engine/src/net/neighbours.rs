//! The table of neighbours: who has which MAC address, who is being asked.

use crate::units::{Duration, Instant};
use crate::wire::MacAddr;
use core::net::IpAddr;
use std::collections::BTreeMap;

/// How long an answer may take until the question is repeated, and how often it is put.
const ANSWER: Duration = Duration::from_millis(250);
const QUESTIONS: u8 = 8;
/// How long an answer is trusted, and how long its absence.
const REACHABLE: Duration = Duration::from_secs(60);
const ABSENT: Duration = Duration::from_secs(1);
/// Neighbours that are remembered; strangers beyond that are not.
const CAPACITY: usize = 4096;

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Its MAC address.
    Known(MacAddr),
    /// It is being asked.
    Asked,
    /// It does not answer.
    Absent,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// Set by hand: never asked.
    Fixed(MacAddr),
    Known {
        mac: MacAddr,
        until: Instant,
    },
    /// The old address is used while the question is open.
    Asked {
        old: Option<MacAddr>,
        questions: u8,
        next: Instant,
    },
    Absent {
        until: Instant,
    },
}

/// The table.
#[derive(Debug)]
pub(super) struct Neighbours {
    entries: BTreeMap<IpAddr, Entry>,
    /// The earliest `next` of those that are being asked.
    deadline: Instant,
}

impl Neighbours {
    pub(super) fn new(fixed: &[(IpAddr, MacAddr)]) -> Neighbours {
        let entries = fixed.iter().map(|(ip, mac)| (*ip, Entry::Fixed(*mac))).collect();
        Neighbours { entries, deadline: Instant::FAR }
    }

    /// What is known of `ip`, and whether it is to be asked now.
    pub(super) fn resolve(&mut self, now: Instant, ip: IpAddr) -> (Resolution, bool) {
        let next = now + ANSWER;
        let (resolution, asked) = match self.entries.get(&ip) {
            Some(Entry::Fixed(mac)) => return (Resolution::Known(*mac), false),
            Some(Entry::Known { mac, until }) if now < *until => return (Resolution::Known(*mac), false),
            Some(Entry::Known { mac, .. }) => {
                (Resolution::Known(*mac), Entry::Asked { old: Some(*mac), questions: 1, next })
            }
            Some(Entry::Asked { old, .. }) => {
                return (old.map_or(Resolution::Asked, Resolution::Known), false);
            }
            Some(Entry::Absent { until }) if now < *until => return (Resolution::Absent, false),
            Some(Entry::Absent { .. }) | None => {
                (Resolution::Asked, Entry::Asked { old: None, questions: 1, next })
            }
        };
        self.entries.insert(ip, asked);
        self.deadline = self.deadline.min(next);
        (resolution, true)
    }

    /// `ip` says that its address is `mac`; whether that was asked for or is news of one known.
    /// One that was never heard of is remembered only when `stranger` says so.
    pub(super) fn learn(&mut self, now: Instant, ip: IpAddr, mac: MacAddr, stranger: bool) -> bool {
        match self.entries.get(&ip) {
            Some(Entry::Fixed(_)) => return false,
            None if !stranger || self.entries.len() >= CAPACITY => return false,
            _ => {}
        }
        self.entries.insert(ip, Entry::Known { mac, until: now + REACHABLE });
        true
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR).then_some(self.deadline)
    }

    /// Calls `ask` for those who are to be asked again.
    pub(super) fn on_deadline(&mut self, now: Instant, mut ask: impl FnMut(IpAddr)) {
        let mut deadline = Instant::FAR;
        for (ip, entry) in &mut self.entries {
            let Entry::Asked { old, questions, next } = *entry else { continue };
            if next > now {
                deadline = deadline.min(next);
            } else if questions < QUESTIONS {
                let next = now + ANSWER;
                *entry = Entry::Asked { old, questions: questions + 1, next };
                deadline = deadline.min(next);
                ask(*ip);
            } else {
                *entry = Entry::Absent { until: now + ABSENT };
            }
        }
        self.deadline = deadline;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(198, 18, 0, 2));
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn asked(table: &mut Neighbours, now: Instant) -> usize {
        let mut n = 0;
        table.on_deadline(now, |ip| n += usize::from(ip == IP));
        n
    }

    #[test]
    fn asks_again_then_gives_up_for_a_while() {
        let mut table = Neighbours::new(&[]);
        let mut now = Instant::ZERO;
        assert_eq!(table.resolve(now, IP), (Resolution::Asked, true));
        assert_eq!(table.resolve(now, IP), (Resolution::Asked, false));
        let mut questions = 1;
        while let Some(at) = table.next_deadline() {
            now = at;
            questions += asked(&mut table, now);
        }
        assert_eq!((questions, now), (usize::from(QUESTIONS), Instant::ZERO + Duration::from_secs(2)));
        assert_eq!(table.resolve(now, IP), (Resolution::Absent, false));
        assert_eq!(table.resolve(now + ABSENT, IP), (Resolution::Asked, true));
        assert!(table.learn(now + ABSENT, IP, MAC, false));
        assert_eq!(table.resolve(now + ABSENT, IP), (Resolution::Known(MAC), false));
        assert_eq!(asked(&mut table, now + ABSENT + ANSWER), 0);
    }

    #[test]
    fn an_old_answer_is_used_while_it_is_asked_for_again() {
        let mut table = Neighbours::new(&[]);
        assert!(!table.learn(Instant::ZERO, IP, MAC, false), "an answer that nobody asked for");
        assert!(table.learn(Instant::ZERO, IP, MAC, true));
        let late = Instant::ZERO + REACHABLE;
        assert_eq!(table.resolve(late, IP), (Resolution::Known(MAC), true));
        assert_eq!(table.resolve(late, IP), (Resolution::Known(MAC), false));
        let moved = MacAddr([2, 0, 0, 0, 0, 9]);
        assert!(table.learn(late, IP, moved, false));
        assert_eq!(table.resolve(late, IP), (Resolution::Known(moved), false));
    }

    #[test]
    fn fixed_neighbours_are_not_argued_with() {
        let mut table = Neighbours::new(&[(IP, MAC)]);
        assert!(!table.learn(Instant::ZERO, IP, MacAddr([2, 0, 0, 0, 0, 9]), true));
        assert_eq!(table.resolve(Instant::ZERO + REACHABLE, IP), (Resolution::Known(MAC), false));
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let mut table = Neighbours::new(&[]);
        let ip = |n: u32| IpAddr::V4(n.into());
        let learned = (0..5000).filter(|n| table.learn(Instant::ZERO, ip(*n), MAC, true)).count();
        assert_eq!(learned, CAPACITY);
    }
}
