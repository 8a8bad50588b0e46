//! Which of several equal ways a flow takes.

use crate::wire::Gid;

/// What a switch knows of a flow: its addresses and ports in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowHash(u64);

impl FlowHash {
    /// Of what belongs to no flow.
    pub(super) const NONE: FlowHash = FlowHash(0);

    /// Of the five-tuple; protocol and destination port are the same for all RoCE, so the source
    /// port is all that tells the queue pairs of two hosts apart.
    #[inline]
    pub fn of(src: Gid, dst: Gid, protocol: u8, sport: u16, dport: u16) -> FlowHash {
        let ports = u64::from(protocol) << 32 | u64::from(sport) << 16 | u64::from(dport);
        let words = |gid: Gid| {
            let value = u128::from_be_bytes(gid.bytes());
            (value >> 64) as u64 ^ (value as u64).rotate_left(17)
        };
        FlowHash(mix(mix(words(src)) ^ words(dst).rotate_left(29) ^ ports))
    }

    /// And of the destination queue pair, which some switches look at as well.
    #[inline]
    #[must_use]
    pub fn and_qp(self, qpn: u32) -> FlowHash {
        FlowHash(mix(self.0 ^ u64::from(qpn)))
    }

    /// Which of `ways` ways a switch with this seed picks, counted from 0; `ways` is at least 1.
    #[inline]
    pub fn pick(self, seed: u64, ways: u32) -> u32 {
        // The upper half of a product spreads evenly over any number of ways.
        (((mix(self.0 ^ seed) >> 32) * u64::from(ways)) >> 32) as u32
    }
}

/// The output function of SplitMix64: every bit of the input moves every bit of the output.
#[inline]
pub(super) const fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn flow(src: u32, dst: u32, sport: u16) -> FlowHash {
        let gid = |n: u32| Gid::from(Ipv4Addr::from(0x0A00_0000 + n));
        FlowHash::of(gid(src), gid(dst), 17, sport, 4791)
    }

    #[test]
    fn flows_spread_evenly_by_any_part_of_the_tuple() {
        let spread = |flow: &dyn Fn(u32) -> FlowHash| {
            let mut hits = [0u32; 10];
            (0..10_000).for_each(|i| hits[flow(i).pick(7, 10) as usize] += 1);
            hits
        };
        for hits in [
            spread(&|i| flow(1, 2, i as u16)),
            spread(&|i| flow(i, 2, 0xC000)),
            spread(&|i| flow(1, i, 0xC000)),
            spread(&|i| flow(1, 2, 0xC000).and_qp(i)),
        ] {
            // 1000 each; five standard deviations are 150.
            assert!(hits.iter().all(|n| (850..1150).contains(n)), "{hits:?}");
        }
    }

    /// Two tiers with one seed send all flows of a spine to the same port; with two they do not.
    #[test]
    fn seeds_keep_tiers_apart() {
        let second_tier = |seed: u64| {
            let mut hits = [0u32; 4];
            for sport in 0..4000 {
                let f = flow(1, 2, sport);
                if f.pick(1, 4) == 0 {
                    hits[f.pick(seed, 4) as usize] += 1;
                }
            }
            hits
        };
        assert_eq!(second_tier(1)[1..], [0, 0, 0]);
        assert!(second_tier(2).iter().all(|n| *n > 150), "{:?}", second_tier(2));
    }
}
