//! What a scenario puts on the wire, worked out from its text alone.
//!
//! [`FlowPlan`] counts one message of a flow at every layer; rates in any unit follow from it.
//! [`Memory`] counts the buffers of all flows.  Counts of bytes are 64 bits wide throughout.

mod memory;
mod path;
mod wire;

pub use memory::Memory;
pub use path::base_round_trip;
pub use wire::{FlowPlan, Frames, Message, Packet, Totals};

use crate::config::{Device, Flow, FlowRate, Layer, Scenario, Transport, Verb};
use crate::measure::FlowStats;
use roce_engine::units::{Duration, Rate};

/// One rate, in every unit at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bits per second with FCS, preamble and gap.
    pub l1_bps: f64,
    /// Bits per second of frames without FCS.
    pub l2_bps: f64,
    /// Bits per second of payload.
    pub goodput_bps: f64,
    /// Packets with payload per second.
    pub packets: f64,
    /// Messages per second.
    pub messages: f64,
}

impl Rates {
    /// The rates of the messages that ended between two counts, `span` apart.
    pub fn between(before: &FlowStats, after: &FlowStats, span: Duration) -> Rates {
        let seconds = span.as_secs_f64();
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let bits = |bytes: u64| per_second(bytes) * 8.0;
        Rates {
            l1_bps: bits(after.l1_bytes - before.l1_bytes),
            l2_bps: bits(after.l2_bytes - before.l2_bytes),
            goodput_bps: bits(after.bytes - before.bytes),
            packets: per_second(after.packets - before.packets),
            messages: per_second(after.completed - before.completed),
        }
    }
}

/// What one message of a flow comes to in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    packets: f64,
    payload_bytes: f64,
    l2_bytes: f64,
    l1_bytes: f64,
}

impl FlowPlan {
    /// The plan of the largest message of flow `flow` of a scenario, of its first kind.
    pub fn of(s: &Scenario, flow: &Flow) -> FlowPlan {
        FlowPlan::new(message_of(s, flow, flow.verb))
    }

    /// What one message comes to.
    pub fn mean(&self) -> Mean {
        Mean {
            packets: f64::from(self.packets),
            payload_bytes: self.payload_bytes as f64,
            l2_bytes: self.l2_bytes as f64,
            l1_bytes: self.l1_bytes as f64,
        }
    }

    /// The rates at `messages` per second.
    pub fn rates(&self, messages: f64) -> Rates {
        self.mean().rates(messages)
    }

    /// See [`Mean::asked`].
    pub fn asked(&self, rate: FlowRate, line: Option<Rate>) -> Option<Rates> {
        self.mean().asked(rate, line)
    }

    /// The rates when nothing but the line limits the flow.
    pub fn at_line_rate(&self, line: Rate) -> Rates {
        self.mean().at_line_rate(line)
    }
}

/// The largest message of a flow, were it one of `verb`.
fn message_of(s: &Scenario, flow: &Flow, verb: Verb) -> Message {
    let port = &s.ports[if verb == Verb::Read { flow.to } else { flow.from }];
    Message {
        verb,
        size: flow.size,
        mtu: flow.mtu,
        encapsulation: port.encapsulation(),
        // A port elsewhere is most likely in the VLAN of ours.
        datagram: flow.transport == Transport::Ud,
        vlan: if port.is_local() { port.vlan.is_some() } else { s.ports[flow.from].vlan.is_some() },
    }
}

/// What is on the wire for each kind of message of a flow.
pub fn frames_of(s: &Scenario, flow: &Flow) -> Vec<Frames> {
    flow.traffic.kinds().iter().map(|kind| Frames::new(message_of(s, flow, kind.verb))).collect()
}

impl Mean {
    /// Of a flow.
    pub fn of(s: &Scenario, flow: &Flow) -> Mean {
        let mut mean = Mean { packets: 0.0, payload_bytes: 0.0, l2_bytes: 0.0, l1_bytes: 0.0 };
        for (kind, frames) in flow.traffic.kinds().iter().zip(frames_of(s, flow)) {
            let of = |part: fn(Totals) -> f64| kind.share * kind.sizes.mean(|size| part(frames.totals(size)));
            mean.packets += of(|t| f64::from(t.packets));
            mean.l2_bytes += of(|t| t.l2 as f64);
            mean.l1_bytes += of(|t| t.l1 as f64);
            mean.payload_bytes += kind.share * kind.sizes.mean(f64::from);
        }
        mean
    }

    /// Payload bytes of a packet.
    pub fn payload_per_packet(&self) -> f64 {
        self.payload_bytes / self.packets.max(1.0)
    }

    /// The rates at `messages` per second.
    pub fn rates(&self, messages: f64) -> Rates {
        let bits = |bytes: f64| bytes * 8.0 * messages;
        Rates {
            l1_bps: bits(self.l1_bytes),
            l2_bps: bits(self.l2_bytes),
            goodput_bps: bits(self.payload_bytes),
            packets: self.packets * messages,
            messages,
        }
    }

    /// The rates of a flow paced to `rate`; `None` when it is not paced, or to a share of a line
    /// rate that is not known yet.
    pub fn asked(&self, rate: FlowRate, line: Option<Rate>) -> Option<Rates> {
        let messages = match rate {
            FlowRate::Unlimited => return None,
            FlowRate::Percent(p) => line?.bps() as f64 * p / 100.0 / (self.l1_bytes * 8.0),
            FlowRate::Bits { rate, layer } => {
                let bytes = match layer {
                    Layer::L1 => self.l1_bytes,
                    Layer::L2 => self.l2_bytes,
                    Layer::Goodput => self.payload_bytes,
                };
                rate.bps() as f64 / (bytes * 8.0)
            }
            FlowRate::Packets(n) => n / self.packets,
            FlowRate::Messages(n) => n,
        };
        Some(self.rates(messages))
    }

    /// The rates when nothing but the line limits the flow.
    pub fn at_line_rate(&self, line: Rate) -> Rates {
        self.rates(line.bps() as f64 / (self.l1_bytes * 8.0))
    }
}

/// How long it takes to notice that the peer of a flow is gone: the least and the most.
///
/// The timer is 4.096 us x 2^ack_timeout; an endpoint may take up to four times as long to act on
/// it, and acts `retry_cnt + 1` times.  `None` where it never notices: `ack_timeout = 0`, or no
/// acknowledgements.
pub fn dead_peer(flow: &Flow) -> Option<(Duration, Duration)> {
    if !flow.transport.is_reliable() || flow.ack_timeout == 0 {
        return None;
    }
    let least = ack_timer(flow.ack_timeout).as_nanos() * (u64::from(flow.retry_cnt) + 1);
    Some((Duration::from_nanos(least), Duration::from_nanos(4 * least)))
}

/// The acknowledgement timer of a code: 4.096 us x 2^code.
pub fn ack_timer(code: u8) -> Duration {
    Duration::from_nanos(4096 << code.min(31))
}

/// A sentence for every port and direction whose flows ask for more than the line rate.
pub fn overload(s: &Scenario) -> Vec<String> {
    let Some(line) = s.run.line_rate else { return Vec::new() };
    let mut warnings = Vec::new();
    for (i, port) in s.ports.iter().enumerate() {
        if matches!(port.device, Device::None | Device::Remote | Device::Peer | Device::Pci(_)) {
            continue;
        }
        let asked = |f: &Flow| Mean::of(s, f).asked(f.asked_rate(), Some(line)).map_or(0.0, |r| r.l1_bps);
        let sent: f64 = s.flows.iter().filter(|f| f.data_from() == i).map(asked).sum();
        // A billionth covers the rounding of the sum.
        if sent > line.bps() as f64 * (1.0 + 1e-9) {
            warnings.push(format!(
                "port \"{}\": its flows ask for {:.3} Gb/s at L1 of a line rate of {line}",
                port.name,
                sent / 1e9
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Verb;
    use roce_engine::units::Mtu;
    use roce_engine::wire::Encapsulation;
    use std::path::Path;

    fn plan(verb: Verb, size: u32, mtu: Mtu) -> FlowPlan {
        FlowPlan::new(Message {
            verb,
            size,
            mtu,
            encapsulation: Encapsulation::Ipv4,
            vlan: false,
            datagram: false,
        })
    }

    fn scenario(flow: &str) -> Scenario {
        let text = format!(
            r#"run = {{ duration = "1s", line_rate = "100Gbps" }}
port = [
  {{ name = "a", device = "ring:0", ip = "198.18.0.1" }},
  {{ name = "b", device = "ring:0", ip = "198.18.0.2" }},
]
flow = [{flow}]
"#
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()
    }

    #[test]
    fn ten_gigabit_at_l1_of_1024_byte_sends() {
        let p = plan(Verb::Send, 1024, Mtu::B1024);
        let l1 = FlowRate::Bits { rate: Rate::from_gbps(10), layer: Layer::L1 };
        let r = p.asked(l1, None).unwrap();
        assert_eq!(r.packets.round(), 1_130_199.0);
        assert_eq!(r.messages, r.packets);
        assert_eq!(
            format!("{:.3} {:.3} {:.3}", r.l1_bps / 1e9, r.l2_bps / 1e9, r.goodput_bps / 1e9),
            "10.000 9.783 9.259"
        );
    }

    #[test]
    fn every_unit_leads_to_the_same_rates() {
        let p = plan(Verb::Write, 1 << 20, Mtu::B4096);
        let line = Some(Rate::from_gbps(100));
        let want = p.asked(FlowRate::Percent(98.0), line).unwrap();
        assert_eq!((want.l1_bps / 1e9).round(), 98.0);
        for rate in [
            FlowRate::Bits { rate: Rate::from_gbps(98), layer: Layer::L1 },
            FlowRate::Bits { rate: Rate::from_bps(want.l2_bps.round() as u64), layer: Layer::L2 },
            FlowRate::Bits { rate: Rate::from_bps(want.goodput_bps.round() as u64), layer: Layer::Goodput },
            FlowRate::Packets(want.packets),
            FlowRate::Messages(want.messages),
        ] {
            let got = p.asked(rate, line).unwrap();
            assert!((got.l1_bps - want.l1_bps).abs() < 10.0, "{rate:?}: {got:?}");
        }
        assert_eq!(p.asked(FlowRate::Percent(98.0), None), None);
        assert_eq!(p.asked(FlowRate::Unlimited, line), None);
        assert_eq!(p.at_line_rate(Rate::from_gbps(100)).l1_bps, 1e11);
    }

    #[test]
    fn dead_peers() {
        let bounds = |keys: &str| {
            let flow =
                format!("{{ name = \"f\", from = \"a\", to = \"b\", verb = \"write\", size = 8, {keys} }}");
            let s = scenario(&flow);
            dead_peer(&s.flows[0]).map(|(a, b)| format!("{a} {b}"))
        };
        assert_eq!(bounds("ack_timeout = 14, retry_cnt = 7"), Some("536.871ms 2.147s".into()));
        assert_eq!(bounds("ack_timeout = 20, retry_cnt = 7"), Some("34.36s 137.439s".into()));
        assert_eq!(bounds("ack_timeout = 14, retry_cnt = 3"), Some("268.435ms 1.074s".into()));
        assert_eq!(bounds("ack_timeout = 31, retry_cnt = 7"), Some("70368.744s 281474.977s".into()));
        assert_eq!(bounds("ack_timeout = 0"), None);
        assert_eq!(bounds("transport = \"uc\""), None);
    }

    #[test]
    fn more_than_the_line_carries() {
        let flow = |name: &str, from: &str, to: &str, verb: &str, rate: &str| {
            format!(
                "{{ name = \"{name}\", from = \"{from}\", to = \"{to}\", verb = \"{verb}\", size = 8, rate = \"{rate}\" }},"
            )
        };
        let fits = flow("x", "a", "b", "write", "60%") + &flow("y", "b", "a", "write", "60%");
        assert!(overload(&scenario(&fits)).is_empty());
        let full = flow("x", "a", "b", "write", "60%") + &flow("y", "a", "b", "write", "40%");
        assert!(overload(&scenario(&full)).is_empty());
        // A READ by b is sent by a.
        let over = flow("x", "a", "b", "write", "60%") + &flow("y", "b", "a", "read", "60Gbps");
        insta::assert_snapshot!(overload(&scenario(&over)).join("\n"), @r#"port "a": its flows ask for 120.000 Gb/s at L1 of a line rate of 100 Gb/s"#);
    }
}
