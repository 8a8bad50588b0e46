//! What a message takes at least, whatever its size: the way there and back.

use crate::config::{Flow, Scenario};
use roce_engine::fabric::Topology;
use roce_engine::units::Duration;

/// The time from the first bit of a message on the wire to the answer to it, without the time that
/// bits take on the wire and in switches: what the flow says, else, in virtual time, the delays of
/// the cables.  Live ports say nothing of theirs: none.
pub fn base_round_trip(s: &Scenario, flow: &Flow, virtual_time: bool) -> Duration {
    if let Some(base) = flow.base_rtt {
        return base;
    }
    if !virtual_time {
        return Duration::ZERO;
    }
    let one_way = match &s.fabric {
        None => s.link.delay,
        Some(fabric) => {
            let sum = |edges: u64, trunks: u64| {
                let ns = edges * fabric.delay.as_nanos() + trunks * fabric.trunk_delay.as_nanos();
                Duration::from_nanos(ns)
            };
            let (from, to) = (flow.from as u32, flow.to as u32);
            match fabric.topology {
                Topology::Direct => sum(1, 0),
                Topology::Single { .. } => sum(2, 0),
                Topology::Dumbbell { left, .. } if (from < left) == (to < left) => sum(2, 0),
                Topology::Dumbbell { .. } => sum(2, 1),
                Topology::LeafSpine { hosts_per_leaf, nics, .. } => {
                    let leaf = |station: u32| station / nics / hosts_per_leaf * nics + station % nics;
                    if leaf(from) == leaf(to) { sum(2, 0) } else { sum(2, 2) }
                }
            }
        }
    };
    one_way + one_way
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn ways_through_a_fabric() {
        let base = |fabric: &str, from: &str, to: &str| {
            let text = format!(
                "run = {{ duration = \"1ms\" }}\n[fabric]\ndelay = \"1us\"\ntrunk_delay = \"3us\"\n{fabric}\n[[flow]]\n\
                 name = \"x\"\nfrom = \"{from}\"\nto = \"{to}\"\nverb = \"write\"\nsize = 8\n"
            );
            let s = Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap();
            base_round_trip(&s, &s.flows[0], true).as_nanos() / 1000
        };
        assert_eq!(base("topology = \"direct\"", "h0", "h1"), 2);
        assert_eq!(base("topology = \"single\"\nhosts = 3", "h0", "h2"), 4);
        let dumbbell = "topology = \"dumbbell\"\nleft = 2\nright = 2";
        assert_eq!((base(dumbbell, "h0", "h1"), base(dumbbell, "h1", "h2")), (4, 10));
        let leaves = "topology = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\nnics = 2";
        assert_eq!(base(leaves, "h0.n0", "h1.n0"), 4, "one leaf");
        assert_eq!(base(leaves, "h0.n0", "h1.n1"), 16, "another NIC is on another leaf");
        assert_eq!(base(leaves, "h0.n0", "h2.n0"), 16);
    }
}
