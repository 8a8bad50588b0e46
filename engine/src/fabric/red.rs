//! Random early marking.

use super::hash::mix;

/// Marks by the length of a queue: never up to `kmin`, always above `kmax`, in between with a
/// probability that rises from 0 to `pmax`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red {
    kmin: u64,
    kmax: u64,
    /// 2^32 is certainty.
    pmax: u64,
}

impl Red {
    /// Thresholds in bytes, `kmin` at most `kmax`, and a probability from 0 to 1.
    pub fn new(kmin: u64, kmax: u64, pmax: f64) -> Red {
        Red { kmin: kmin.min(kmax), kmax, pmax: (pmax.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u64 + 1 }
    }

    /// The probability that a packet is marked at a queue of `bytes`, of 2^32.
    #[inline]
    pub fn probability(&self, bytes: u64) -> u64 {
        if bytes <= self.kmin {
            0
        } else if bytes > self.kmax {
            1 << 32
        } else {
            // Queues are shorter than 2^32, so the product fits.
            self.pmax * (bytes - self.kmin) / (self.kmax - self.kmin)
        }
    }
}

/// SplitMix64: the dice of a port.
#[derive(Clone, Copy, Debug)]
pub struct Dice(pub(super) u64);

impl Dice {
    /// Dice that fall as `seed` says.
    pub fn new(seed: u64) -> Dice {
        Dice(mix(seed))
    }

    /// Whether something of this probability, of 2^32, happens.
    #[inline]
    pub fn takes(&mut self, probability: u64) -> bool {
        if probability == 0 {
            return false;
        }
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0) >> 32 < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_between_the_thresholds() {
        let red = Red::new(5_000, 200_000, 0.01);
        let share = |bytes| red.probability(bytes) as f64 / 2f64.powi(32);
        assert_eq!((share(0), share(5_000), share(200_001)), (0.0, 0.0, 1.0));
        assert!((share(102_500) - 0.005).abs() < 1e-6);
        assert!((share(200_000) - 0.01).abs() < 1e-6);
        // One threshold: all or nothing, as DCTCP has it.
        let step = Red::new(40_000, 40_000, 1.0);
        assert_eq!((step.probability(40_000), step.probability(40_001)), (0, 1 << 32));
    }

    #[test]
    fn as_often_as_asked() {
        for p in [0.001, 0.1, 0.5, 0.999] {
            let red = Red::new(0, 1000, p);
            let mut dice = Dice(3);
            let n = 1_000_000;
            let hits = (0..n).filter(|_| dice.takes(red.probability(1000))).count() as f64;
            let sigma = (f64::from(n) * p * (1.0 - p)).sqrt();
            assert!((hits - f64::from(n) * p).abs() < 5.0 * sigma, "{p}: {hits}");
        }
        assert!((0..1000).all(|_| Dice(9).takes(1 << 32)));
    }
}
