//! The notification point: when a marked packet is answered with a CNP.

use crate::units::{Duration, Instant};
use crate::wire::Gid;

/// What CNPs are spaced by: within one of these, two of them are at least
/// [`NotificationConfig::min_time_between_cnps`] apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CnpKey {
    /// A queue pair.
    #[default]
    Qp,
    /// A pair of addresses.
    IpPair,
    /// The address that the CNP goes to.
    DestinationIp,
    /// The port, or a worker's share of it where it has several.
    Port,
    /// Nothing: every marked packet is answered.
    None,
}

impl CnpKey {
    /// All of them, by the names that scenario files use.
    pub const ALL: [(&'static str, CnpKey); 5] = [
        ("qp", CnpKey::Qp),
        ("ip_pair", CnpKey::IpPair),
        ("destination_ip", CnpKey::DestinationIp),
        ("port", CnpKey::Port),
        ("none", CnpKey::None),
    ];

    /// Its name in scenario files.
    pub fn as_str(self) -> &'static str {
        CnpKey::ALL.iter().find(|(_, k)| *k == self).map_or("", |(name, _)| name)
    }
}

/// How a notification point works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationConfig {
    /// What CNPs are spaced by.
    pub key: CnpKey,
    /// How far; zero answers every mark.
    pub min_time_between_cnps: Duration,
    /// DSCP of CNPs, 0..=63; they are sent not ECN-capable.
    pub cnp_dscp: u8,
    /// Priority in the VLAN tag of CNPs, 0..=7.
    pub cnp_802p_prio: u8,
    /// Whether a CNP goes along with a NAK for a sequence error, as some NICs have it.
    pub cnp_with_nak: bool,
}

impl Default for NotificationConfig {
    /// As ConnectX NICs have it: at least 4 us apart, DSCP 48, priority 6; but spaced by queue pair.
    fn default() -> NotificationConfig {
        NotificationConfig {
            key: CnpKey::Qp,
            min_time_between_cnps: Duration::from_micros(4),
            cnp_dscp: 48,
            cnp_802p_prio: 6,
            cnp_with_nak: false,
        }
    }
}

impl NotificationConfig {
    /// TOS or traffic class of CNPs.
    pub fn cnp_tos(&self) -> u8 {
        self.cnp_dscp << 2
    }
}

/// Why a queue pair has reason to send a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A packet came marked with congestion experienced.
    Congestion,
    /// A sequence error was answered with a NAK.
    SequenceNak,
}

/// A notification point.
#[derive(Clone, Debug)]
pub struct NotificationPoint {
    config: NotificationConfig,
    /// When each key may have its next CNP, sorted by key.
    next: Vec<(Key, Instant)>,
}

/// The parts of a key that do not count are zero.
type Key = (u32, Gid, Gid);

impl NotificationPoint {
    /// A notification point that nothing was asked of yet.
    pub fn new(config: NotificationConfig) -> NotificationPoint {
        NotificationPoint { config, next: Vec::new() }
    }

    /// What it was made with.
    pub fn config(&self) -> &NotificationConfig {
        &self.config
    }

    /// Makes room for the keys of `qps` queue pairs.
    pub fn reserve(&mut self, qps: usize) {
        self.next.reserve(qps.saturating_sub(self.next.len()));
    }

    /// Whether queue pair `qp`, between addresses `own` and `peer`, sends a CNP now.
    pub fn allows(&mut self, now: Instant, mark: Mark, qp: u32, own: Gid, peer: Gid) -> bool {
        if mark == Mark::SequenceNak && !self.config.cnp_with_nak {
            return false;
        }
        let none = Gid::default();
        let key = match self.config.key {
            CnpKey::Qp => (qp, none, none),
            CnpKey::IpPair => (0, own, peer),
            CnpKey::DestinationIp => (0, none, peer),
            CnpKey::Port => (0, none, none),
            CnpKey::None => return true,
        };
        let again = now + self.config.min_time_between_cnps;
        match self.next.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(i) if self.next[i].1 > now => false,
            Ok(i) => {
                self.next[i].1 = again;
                true
            }
            Err(_) => {
                if self.next.len() == self.next.capacity() {
                    self.forget_oldest();
                }
                let i = self.next.partition_point(|(k, _)| *k < key);
                self.next.insert(i, (key, again));
                true
            }
        }
    }

    /// The key of a queue pair that is gone, most likely.
    fn forget_oldest(&mut self) {
        let oldest = self.next.iter().enumerate().min_by_key(|(_, (_, at))| *at);
        if let Some((i, _)) = oldest {
            self.next.remove(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn gid(last: u8) -> Gid {
        Gid::from(Ipv4Addr::new(198, 18, 0, last))
    }

    /// CNPs for marks every microsecond over a millisecond on queue pairs (number, peer).
    fn count(key: CnpKey, interval_us: u64, qps: &[(u32, u8)]) -> Vec<u32> {
        let mut point = NotificationPoint::new(NotificationConfig {
            key,
            min_time_between_cnps: Duration::from_micros(interval_us),
            ..NotificationConfig::default()
        });
        point.reserve(qps.len());
        let mut sent = vec![0; qps.len()];
        for us in 0..1000 {
            let now = Instant::ZERO + Duration::from_micros(us);
            for (i, (qp, peer)) in qps.iter().enumerate() {
                sent[i] += u32::from(point.allows(now, Mark::Congestion, *qp, gid(1), gid(*peer)));
            }
        }
        sent
    }

    #[test]
    fn c02_spacing_and_its_scope() {
        let qps = [(5, 2), (6, 2), (7, 3)];
        assert_eq!(count(CnpKey::Qp, 50, &qps), [20, 20, 20]);
        assert_eq!(count(CnpKey::IpPair, 50, &qps), [20, 0, 20]);
        assert_eq!(count(CnpKey::DestinationIp, 50, &qps), [20, 0, 20]);
        assert_eq!(count(CnpKey::Port, 50, &qps), [20, 0, 0]);
        assert_eq!(count(CnpKey::None, 50, &qps), [1000; 3]);
        assert_eq!(count(CnpKey::Qp, 0, &qps), [1000; 3]);
    }

    #[test]
    fn keys_of_the_past_make_room() {
        let mut point = NotificationPoint::new(NotificationConfig::default());
        point.reserve(2);
        let room = point.next.capacity();
        for qp in 0..100 {
            let now = Instant::ZERO + Duration::from_micros(u64::from(qp) * 10);
            assert!(point.allows(now, Mark::Congestion, qp, gid(1), gid(2)));
            assert!(!point.allows(now, Mark::Congestion, qp, gid(1), gid(2)));
        }
        assert_eq!(point.next.capacity(), room, "no memory was asked for");
    }

    #[test]
    fn naks_count_only_where_asked_for() {
        for with in [false, true] {
            let config = NotificationConfig { cnp_with_nak: with, ..NotificationConfig::default() };
            let mut point = NotificationPoint::new(config);
            point.reserve(1);
            assert_eq!(point.allows(Instant::ZERO, Mark::SequenceNak, 5, gid(1), gid(2)), with);
            assert_eq!(config.cnp_tos(), 0xC0);
        }
    }
}
