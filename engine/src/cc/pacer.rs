//! The pacer: spaces the packets of one queue pair.

use crate::units::Instant;
use crate::wire::L1_OVERHEAD;

/// What the rate of a [`Pacer`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceUnit {
    /// Bits on the wire: frame, FCS, preamble and gap.
    L1,
    /// Bits of the frame, without FCS.
    L2,
    /// Bits of payload.
    Goodput,
    /// Packets.
    Packets,
}

/// A virtual scheduling pacer (GCRA): packet `n` may leave no earlier than its share
/// of the rate allows, and after a pause at most `burst` packets leave back to back.
/// Lateness of up to half a packet more is made up for, so that a poll loop that looks
/// a little late keeps the rate with a burst of one.
///
/// Time is kept in picoseconds, so that the error of a rate stays below 10^-6 at
/// 100 Gb/s and does not add up.
#[derive(Clone, Debug)]
pub struct Pacer {
    unit: PaceUnit,
    /// Picoseconds per byte or packet, 16 fractional bits.
    cost: u64,
    /// When the next packet may leave, in picoseconds.
    next: u64,
    /// How far `next` may lie behind now, in picoseconds.
    slack: u64,
}

impl Pacer {
    /// A pacer for `per_second` bits (or packets, by `unit`) a second.
    ///
    /// `burst` packets of `packet_bytes` (as `unit` counts them) may leave back to back
    /// after a pause.  `None` when the rate is zero, not finite, or above 10^15.
    pub fn new(unit: PaceUnit, per_second: f64, burst: u32, packet_bytes: u32) -> Option<Pacer> {
        if !per_second.is_finite() || per_second <= 0.0 || per_second > 1e15 {
            return None;
        }
        let per_unit = match unit {
            PaceUnit::Packets => 1e12 / per_second,
            _ => 8e12 / per_second,
        };
        // A picosecond count with 16 fractional bits holds up to 281 seconds per byte or packet.
        let cost = (per_unit * 65_536.0).round().clamp(1.0, u64::MAX as f64) as u64;
        let mut pacer = Pacer { unit, cost, next: 0, slack: 0 };
        let one = pacer.price(packet_bytes, packet_bytes);
        pacer.slack = one.saturating_mul(u64::from(burst.saturating_sub(1))).saturating_add(one / 2);
        Some(pacer)
    }

    /// The same at `percent` of the rate; 0 counts as 1.
    #[must_use]
    pub fn scaled(&self, percent: u32) -> Pacer {
        let scale = |time: u64| {
            u64::try_from(u128::from(time) * 100 / u128::from(percent.max(1))).unwrap_or(u64::MAX)
        };
        Pacer { cost: scale(self.cost).max(1), slack: scale(self.slack), ..self.clone() }
    }

    /// Goes on where `other` is: what has left counts.
    #[must_use]
    pub fn after(self, other: &Pacer) -> Pacer {
        Pacer { next: other.next, ..self }
    }

    /// When the next packet may leave.
    #[inline]
    pub fn next_at(&self) -> Instant {
        Instant::from_nanos(self.next.div_ceil(1000))
    }

    /// Whether a packet may leave now.
    #[inline]
    pub fn may_send(&self, now: Instant) -> bool {
        self.next <= picos(now)
    }

    /// Accounts for `packets` packets of `frame_bytes` and `payload_bytes` in all that leave now.
    #[inline]
    pub fn sent(&mut self, now: Instant, packets: u32, frame_bytes: u64, payload_bytes: u64) {
        let floor = picos(now).saturating_sub(self.slack);
        let units = match self.unit {
            PaceUnit::L1 => frame_bytes + u64::from(packets) * L1_OVERHEAD as u64,
            PaceUnit::L2 => frame_bytes,
            PaceUnit::Goodput => payload_bytes,
            PaceUnit::Packets => u64::from(packets),
        };
        self.next = self.next.max(floor).saturating_add(self.times(units));
    }

    fn price(&self, frame_bytes: u32, payload_bytes: u32) -> u64 {
        self.times(match self.unit {
            PaceUnit::L1 => u64::from(frame_bytes) + L1_OVERHEAD as u64,
            PaceUnit::L2 => u64::from(frame_bytes),
            PaceUnit::Goodput => u64::from(payload_bytes),
            PaceUnit::Packets => 1,
        })
    }

    #[inline]
    fn times(&self, units: u64) -> u64 {
        u64::try_from((u128::from(units) * u128::from(self.cost)) >> 16).unwrap_or(u64::MAX)
    }
}

#[inline]
fn picos(t: Instant) -> u64 {
    t.as_nanos().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that leave in `ns` nanoseconds when asked every `step`.
    fn count(mut pacer: Pacer, frame: u64, payload: u64, ns: u64, step: u64) -> u64 {
        let mut sent = 0;
        for t in (0..ns).step_by(step as usize) {
            let now = Instant::from_nanos(t);
            while pacer.may_send(now) {
                pacer.sent(now, 1, frame, payload);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn rates_are_met_within_a_tenth_of_a_percent() {
        let table: [(PaceUnit, f64, u32, u32); 9] = [
            (PaceUnit::L1, 98e9, 4178, 4096),
            (PaceUnit::L1, 50e9, 4178, 4096),
            (PaceUnit::L1, 25e9, 4178, 4096),
            (PaceUnit::L1, 1e9, 4178, 4096),
            (PaceUnit::L1, 100e6, 4178, 4096),
            (PaceUnit::L1, 1e6, 1082, 1024),
            (PaceUnit::L2, 10e9, 1082, 1024),
            (PaceUnit::Goodput, 40e9, 4178, 4096),
            (PaceUnit::Packets, 1_130_199.0, 1082, 1024),
        ];
        for (unit, rate, frame, payload) in table {
            let pacer = Pacer::new(unit, rate, 16, frame).unwrap();
            let units = match unit {
                PaceUnit::L1 => (f64::from(frame) + 24.0) * 8.0,
                PaceUnit::L2 => f64::from(frame) * 8.0,
                PaceUnit::Goodput => f64::from(payload) * 8.0,
                PaceUnit::Packets => 1.0,
            };
            let seconds = 1.0;
            let got = count(pacer, frame.into(), payload.into(), (seconds * 1e9) as u64, 1000) as f64;
            let want = rate * seconds / units;
            assert!((got - want).abs() <= want * 0.001 + 17.0, "{unit:?} {rate}: {got} not {want}");
        }
    }

    #[test]
    fn a_pause_is_paid_back_with_at_most_the_burst() {
        let mut pacer = Pacer::new(PaceUnit::Packets, 1e6, 4, 0).unwrap();
        let mut sent = 0;
        let now = Instant::from_nanos(1_000_000);
        while pacer.may_send(now) {
            pacer.sent(now, 1, 100, 64);
            sent += 1;
        }
        assert_eq!(sent, 4);
        assert_eq!(pacer.next_at(), Instant::from_nanos(1_000_500));
    }

    /// Packets that leave at once, and the gaps after that, of a poll loop that is late now and then.
    #[test]
    fn c15_a_burst_is_no_longer_than_asked_for() {
        for burst in [1, 16] {
            let mut pacer = Pacer::new(PaceUnit::L1, 1e9, burst, 1082).unwrap();
            // 1106 bytes at 1 Gb/s.
            let (one, mut longest, mut sent) = (8848, 0, 0);
            let mut t = 1_000_000u64;
            for turn in 0..200_000u64 {
                t += if turn % 1000 == 0 { 40 * one } else { 1000 };
                let now = Instant::from_nanos(t);
                let mut run = 0;
                while pacer.may_send(now) {
                    pacer.sent(now, 1, 1082, 1024);
                    run += 1;
                }
                sent += run;
                longest = longest.max(run);
            }
            assert_eq!(longest, u64::from(burst));
            assert!(sent > 0);
        }
    }

    #[test]
    fn a_scaled_pacer_has_its_share_of_the_rate_and_comes_back() {
        let whole = Pacer::new(PaceUnit::L1, 10e9, 16, 4178).unwrap();
        let all = count(whole.clone(), 4178, 4096, 10_000_000, 1000) as f64;
        for percent in [10, 50, 90, 150, 200] {
            let part = count(whole.scaled(percent), 4178, 4096, 10_000_000, 1000) as f64;
            let want = all * f64::from(percent) / 100.0;
            assert!((part - want).abs() <= want * 0.01 + 1.0, "{percent} %: {part} of {all}");
        }
        // One that has just sent stays where it is.
        let mut busy = whole.scaled(10);
        let now = Instant::from_nanos(1_000_000);
        busy.sent(now, 64, 64 * 4178, 64 * 4096);
        assert_eq!(whole.clone().after(&busy).next_at(), busy.next_at());
        assert!(!whole.scaled(100).after(&busy).may_send(now));
    }

    /// A loop that comes a microsecond late each time loses nothing with a burst of one.
    #[test]
    fn lateness_is_made_up_for() {
        let mut pacer = Pacer::new(PaceUnit::Packets, 100_000.0, 1, 0).unwrap();
        let (mut sent, mut t) = (0, 0);
        while t < 20_000_000 {
            let now = Instant::from_nanos(t);
            if pacer.may_send(now) {
                pacer.sent(now, 1, 100, 64);
                sent += 1;
            }
            t = pacer.next_at().as_nanos() + 1024;
        }
        assert!((1999..=2001).contains(&sent), "{sent}");
    }

    #[test]
    fn senseless_rates() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(Pacer::new(PaceUnit::L1, rate, 1, 100).is_none());
        }
    }
}
