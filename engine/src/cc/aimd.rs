//! Additive increase, multiplicative decrease: background traffic that behaves as TCP does.

use crate::units::{Instant, Rate};

/// Time between increases, and the least time between cuts: about a round trip of a busy data centre.
const PERIOD: u64 = 100_000;
/// Increases from nothing to the line rate.
const STEPS: u64 = 256;
/// Lateness that is made up for, in picoseconds.
const SLACK: u64 = 4_096_000;

/// The rate of a queue pair that hears of congestion by losses only.
///
/// It begins with a 16th of the line rate, adds a 256th of it every 100 us, and halves at a loss, once
/// in that time.  So flows of this kind fill what queue there is, lose packets, and share what they are
/// given.
#[derive(Clone, Debug)]
pub struct Aimd {
    /// Bits a second.
    max: u64,
    rate: u64,
    /// Nanoseconds: the next increase; before this no cut.
    increase_at: u64,
    cut_from: u64,
    /// Picoseconds: when the next packet may leave.
    next: u64,
}

impl Aimd {
    /// One that sends at most at `line`, counted at L1.
    pub fn new(line: Rate) -> Aimd {
        let max = line.bps().max(STEPS);
        Aimd { max, rate: max / 16, increase_at: 0, cut_from: 0, next: 0 }
    }

    /// The rate at `now`.
    pub fn rate(&self, now: Instant) -> Rate {
        let mut then = self.clone();
        then.advance(now);
        Rate::from_bps(then.rate)
    }

    /// Packets were lost.
    pub fn on_loss(&mut self, now: Instant) {
        self.advance(now);
        if now.as_nanos() >= self.cut_from {
            self.rate = (self.rate / 2).max(self.max / STEPS);
            self.cut_from = now.as_nanos() + PERIOD;
            self.increase_at = now.as_nanos() + PERIOD;
        }
    }

    /// Until when nothing may be sent, if that is not over at `now`.
    #[inline]
    pub fn hold(&mut self, now: Instant) -> Option<Instant> {
        (self.next > picos(now)).then(|| Instant::from_nanos(self.next.div_ceil(1000)))
    }

    /// Bytes left, counted at L1.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        let time = u64::try_from(u128::from(bytes) * 8_000_000_000_000 / u128::from(self.rate));
        let floor = picos(now).saturating_sub(SLACK);
        self.next = self.next.max(floor).saturating_add(time.unwrap_or(u64::MAX));
    }

    fn advance(&mut self, now: Instant) {
        let now = now.as_nanos();
        if self.increase_at == 0 {
            // The first packet.
            self.increase_at = now + PERIOD;
        }
        if self.increase_at <= now {
            let times = (now - self.increase_at) / PERIOD + 1;
            self.rate = self.rate.saturating_add(times.saturating_mul(self.max / STEPS)).min(self.max);
            self.increase_at += times * PERIOD;
        }
    }
}

fn picos(t: Instant) -> u64 {
    t.as_nanos().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(1_000_000 + us * 1000)
    }

    #[test]
    fn it_rises_by_steps_and_halves_once_a_period() {
        let mut aimd = Aimd::new(Rate::from_gbps(256));
        let gbps = |aimd: &Aimd, us: u64| aimd.rate(at(us)).bps() / 1_000_000_000;
        aimd.on_sent(at(0), 1000);
        assert_eq!((gbps(&aimd, 0), gbps(&aimd, 99), gbps(&aimd, 100), gbps(&aimd, 1000)), (16, 16, 17, 26));
        assert_eq!(gbps(&aimd, 100 * 240), 256);
        assert_eq!(gbps(&aimd, 1_000_000), 256, "not above the line");
        aimd.on_loss(at(1000));
        assert_eq!(gbps(&aimd, 1000), 13);
        aimd.on_loss(at(1050));
        assert_eq!(gbps(&aimd, 1099), 13, "what is lost in the same round trip is one loss");
        aimd.on_loss(at(1100));
        assert_eq!(gbps(&aimd, 1100), 7);
    }

    #[test]
    fn it_keeps_its_rate() {
        let mut aimd = Aimd::new(Rate::from_gbps(100));
        let (mut sent, mut now) = (0u64, 0);
        while now < 99 {
            match aimd.hold(at(now)) {
                None => {
                    aimd.on_sent(at(now), 1250);
                    sent += 1250;
                }
                Some(_) => now += 1,
            }
        }
        // 6.25 Gb/s for 99 us, and the slack of 4.1 us that it begins with.
        let want = 6.25e9 * 103e-6 / 8.0;
        assert!((sent as f64 / want - 1.0).abs() < 0.03, "{sent} {want}");
    }
}
