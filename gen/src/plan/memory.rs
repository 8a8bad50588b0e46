//! The memory that the flows of a scenario take.

use crate::config::{Flow, Recovery, Scenario, ScenarioError};
use crate::workload::{Layout, Side};
use roce_engine::wire::MAX_HEADERS;

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
        let deep = if flow.verify { format!(" x depth {}", flow.depth) } else { String::new() };
        let text = format!(
            "the buffers of qps {}{deep} x size {} B take {bytes} B; all flows need {} B and {available} B are \
             free: lower one of them",
            flow.qps,
            flow.size,
            self.total(),
        );
        Err(s.flow_error(worst, "size", text))
    }
}

/// What each queue pair keeps at each end that is ours: a buffer for each outstanding message when
/// every byte is checked, else one.
fn flow_bytes(s: &Scenario, flow: &Flow) -> u64 {
    let sides = [(flow.from, Side::Sender), (flow.to, Side::Receiver)];
    let local = sides.into_iter().filter(|(port, _)| s.ports[*port].is_local());
    local.fold(0u64, |sum, (_, side)| {
        // At most 2^14 x 3 x 2^15 x 2^31.
        let buffers = u64::from(flow.qps) * Layout::of(flow, side).bytes();
        // Packets that wait for one before them; the other end has the room too and never uses it.
        let kept = match (flow.recovery, side) {
            (Recovery::SelectiveRepeat, Side::Receiver) => {
                let frame = (flow.mtu.bytes() + MAX_HEADERS) as u64;
                u64::from(flow.qps) * u64::from(flow.window.next_power_of_two()) * frame
            }
            _ => 0,
        };
        sum.saturating_add(buffers).saturating_add(kept)
    })
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
verify = true
{flow}
"#
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()
    }

    #[test]
    fn products_are_64_bits_wide() {
        let total = |flow: &str| Memory::of(&scenario(flow)).total();
        // Each buffer is followed by a guard of 64 B.
        assert_eq!(total("size = \"64MiB\"\ndepth = 64"), (2 << 32) + 2 * 64 * 64);
        assert_eq!(total("size = \"2GiB\"\ndepth = 2"), (2 << 32) + 2 * 2 * 64);
        assert_eq!(total("size = 1610612736\ndepth = 2"), (6 << 30) + 2 * 2 * 64);
        assert_eq!(total("size = \"2GiB\"\ndepth = 32768\nqps = 16384"), (1 << 61) + (1 << 36));
    }

    #[test]
    fn as_many_buffers_as_the_flow_has() {
        let total = |verb: &str, rest: &str| {
            let text = format!("size = 8\ndepth = 16\n{rest}");
            let text = scenario(&text).text.replace("\"write\"", &format!("\"{verb}\""));
            Memory::of(&Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()).total()
        };
        assert_eq!(total("write", ""), 2 * 16 * 128);
        assert_eq!(total("read", ""), (16 + 17) * 128, "one more to read from");
        assert_eq!(total("send", "transport = \"uc\""), (16 + 64) * 128, "room for bursts");
        let text = scenario("size = 40\ndepth = 16\ntransport = \"uc\"").text;
        let text = text.replace("\"write\"", "\"send\"").replace("\"uc\"", "\"ud\"");
        let datagrams = Memory::of(&Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()).total();
        assert_eq!(datagrams, 16 * 128 + 64 * 192, "40 B more for the header of each datagram");
    }

    #[test]
    fn room_for_what_comes_out_of_order() {
        let total = |rest: &str| {
            let text = format!("size = 8\ndepth = 16\nmtu = 1024\nqps = 2\n{rest}");
            Memory::of(&scenario(&text)).total()
        };
        let more = total("recovery = \"selective-repeat\"\nwindow = 100") - total("");
        assert_eq!(more, 2 * 128 * (1024 + MAX_HEADERS as u64));
    }

    #[test]
    fn more_than_there_is() {
        let s = scenario("size = \"2GiB\"\ndepth = 2");
        assert_eq!(Memory::of(&s).check(&s, 9 << 30), Ok(()));
        let error = Memory::of(&s).check(&s, 1 << 30).unwrap_err();
        insta::assert_snapshot!(error, @r#"x.toml:17: flow "f": key "size": the buffers of qps 1 x depth 2 x size 2147483648 B take 8589934848 B; all flows need 8589934848 B and 1073741824 B are free: lower one of them"#);
    }
}
