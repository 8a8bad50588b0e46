//! A rate in bits per second.

use super::Duration;
use core::fmt;

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// From bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// From gigabits per second.
    pub const fn from_gbps(gbps: u64) -> Rate {
        Rate(gbps * 1_000_000_000)
    }

    /// Bits per second.
    #[inline]
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Gigabits per second, for reports.
    pub fn as_gbps(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self` scaled by `percent`.
    pub fn percent(self, percent: f64) -> Rate {
        Rate((self.0 as f64 * percent / 100.0).round() as u64)
    }

    /// The time that `bytes` take at this rate, rounded up; the longest span when the rate is zero.
    pub fn time_of(self, bytes: u64) -> Duration {
        match (u128::from(bytes) * 8_000_000_000).checked_div(u128::from(self.0)) {
            None => Duration::from_nanos(u64::MAX),
            Some(ns) => {
                let exact = ns * u128::from(self.0) == u128::from(bytes) * 8_000_000_000;
                Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(u64::from(!exact)))
            }
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "kb/s"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "Mb/s"),
            _ => (self.0 as f64 / 1e9, "Gb/s"),
        };
        let text = format!("{value:.3}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_bytes() {
        assert_eq!(Rate::from_gbps(100).time_of(4202), Duration::from_nanos(337));
        assert_eq!(Rate::from_gbps(8).time_of(1), Duration::from_nanos(1));
        assert_eq!(Rate::from_bps(0).time_of(1), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn display() {
        assert_eq!(Rate::from_gbps(100).to_string(), "100 Gb/s");
        assert_eq!(Rate::from_bps(2_500_000_000).to_string(), "2.5 Gb/s");
        assert_eq!(Rate::from_bps(40_000_000).to_string(), "40 Mb/s");
    }
}
