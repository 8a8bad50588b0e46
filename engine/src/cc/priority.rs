//! Priorities: which of the eight classes of a link a packet belongs to.

use crate::wire::Vlan;

/// From DSCP, or from the VLAN tag, to priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityMap {
    /// By DSCP: entry n is for DSCP n.
    Dscp([u8; 64]),
    /// By the priority of the tag; 0 without one.
    Pcp,
}

impl Default for PriorityMap {
    /// DSCP / 8, as NICs and switches have it: 26 is priority 3, 48 is priority 6.
    fn default() -> PriorityMap {
        PriorityMap::Dscp(core::array::from_fn(|dscp| (dscp >> 3) as u8))
    }
}

impl PriorityMap {
    /// The priority of a packet by its TOS or traffic class and its tag, 0..=7.
    #[inline]
    pub fn of(&self, tos: u8, vlan: Option<Vlan>) -> u8 {
        match self {
            PriorityMap::Dscp(map) => map[usize::from(tos >> 2)] & 7,
            PriorityMap::Pcp => vlan.map_or(0, |tag| tag.pcp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_tags() {
        let map = PriorityMap::default();
        let tag = Some(Vlan { pcp: 5, dei: false, vid: 0 });
        let of = |dscp: u8| map.of(dscp << 2 | 2, tag);
        assert_eq!([of(0), of(7), of(24), of(26), of(31), of(48), of(63)], [0, 0, 3, 3, 3, 6, 7]);
        assert_eq!((PriorityMap::Pcp.of(26 << 2, tag), PriorityMap::Pcp.of(26 << 2, None)), (5, 0));
    }
}
