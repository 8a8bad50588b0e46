//! The memory that the flows of a scenario take.

use crate::config::{Flow, Scenario, ScenarioError};

/// Bytes of message buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// For each flow, what it takes in this process.
    pub flows: Vec<u64>,
}

impl Memory {
    /// Counts the buffers of all flows.
    pub fn of(s: &Scenario) -> Memory {
        Memory { flows: s.flows.iter().map(|f| flow_bytes(s, f)).collect() }
    }

    /// All of it; the largest number when it has more digits than that.
    pub fn total(&self) -> u64 {
        self.flows.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// That `available` bytes are enough.
    ///
    /// # Errors
    /// Names the flow that takes most, and the bytes needed.
    pub fn check(&self, s: &Scenario, available: u64) -> Result<(), ScenarioError> {
        if self.total() <= available {
            return Ok(());
        }
        let (worst, bytes) = self.flows.iter().enumerate().max_by_key(|(_, b)| **b).unwrap_or((0, &0));
        let flow = &s.flows[worst];
        let ends = ends(s, flow);
        let text = format!(
            "qps {} x depth {} x size {} B{} take {bytes} B; all flows need {} B and {available} B are free: \
             lower one of them",
            flow.qps,
            flow.depth,
            flow.size,
            if ends == 2 { " at both ends" } else { "" },
            self.total(),
        );
        Err(s.flow_error(worst, "size", text))
    }
}

/// A buffer for each outstanding message of each queue pair, at each end that is ours.
fn flow_bytes(s: &Scenario, flow: &Flow) -> u64 {
    // At most 2^14 x 2^15 x 2^31 x 2.
    u64::from(flow.qps) * u64::from(flow.depth) * u64::from(flow.size) * ends(s, flow)
}

fn ends(s: &Scenario, flow: &Flow) -> u64 {
    [flow.from, flow.to].iter().filter(|&&p| s.ports[p].is_local()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn scenario(flow: &str) -> Scenario {
        let text = format!(
            r#"[run]
duration = "1s"
[[port]]
name = "a"
device = "ring:0"
ip = "198.18.0.1"
[[port]]
name = "b"
device = "ring:0"
ip = "198.18.0.2"
[[flow]]
name = "f"
from = "a"
to = "b"
verb = "write"
{flow}
"#
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()
    }

    #[test]
    fn products_are_64_bits_wide() {
        let total = |flow: &str| Memory::of(&scenario(flow)).total();
        assert_eq!(total("size = \"64MiB\"\ndepth = 64"), 2 << 32);
        assert_eq!(total("size = \"2GiB\"\ndepth = 2"), 2 << 32);
        assert_eq!(total("size = 1610612736\ndepth = 2"), 6 << 30);
        assert_eq!(total("size = \"2GiB\"\ndepth = 32768\nqps = 16384"), 1 << 61);
    }

    #[test]
    fn more_than_there_is() {
        let s = scenario("size = \"2GiB\"\ndepth = 2");
        assert_eq!(Memory::of(&s).check(&s, 8 << 30), Ok(()));
        let error = Memory::of(&s).check(&s, 1 << 30).unwrap_err();
        insta::assert_snapshot!(error, @r#"x.toml:16: flow "f": key "size": qps 1 x depth 2 x size 2147483648 B at both ends take 8589934592 B; all flows need 8589934592 B and 1073741824 B are free: lower one of them"#);
    }
}
