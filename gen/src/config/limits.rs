//! The keys of each section, and the bounds of those that are whole numbers, as [`reference`] has them.

use super::reference::{self, MAX};
use std::fmt;

/// Sections of a scenario.
pub(super) const SECTIONS: [&str; 13] = [
    "run",
    "port",
    "flow",
    "replay",
    "expect",
    "connect",
    "impair",
    "link",
    "fabric",
    "storm",
    "cliff",
    "dcqcn",
    "notification",
];

pub(super) const RUN: &[&str] = &reference::names(&reference::RUN);
pub(super) const PORT: &[&str] = &reference::names(&reference::PORT);
pub(super) const PFC: &[&str] = &reference::names(&reference::PFC);
pub(super) const FLOW: &[&str] = &reference::names(&reference::FLOW);
pub(super) const EXPECT: &[&str] = &reference::names(&reference::EXPECT);
pub(super) const CONNECT: &[&str] = &reference::names(&reference::CONNECT);
pub(super) const IMPAIR: &[&str] = &reference::names(&reference::IMPAIR);
pub(super) const LINK: &[&str] = &reference::names(&reference::LINK);
pub(super) const FABRIC: &[&str] = &reference::names(&reference::FABRIC);
pub(super) const STORM: &[&str] = &reference::names(&reference::STORM);
pub(super) const CLIFF: &[&str] = &reference::names(&reference::CLIFF);
pub(super) const DCQCN: &[&str] = &reference::names(&reference::DCQCN);
pub(super) const NOTIFICATION: &[&str] = &reference::names(&reference::NOTIFICATION);

/// Keys of `replay` besides those of flows.
pub(super) const REPLAY: &[&str] = &reference::names(&reference::REPLAY);

/// All keys of `replay`: those of flows, but for who sends what to whom and when.
pub(super) fn replay() -> Vec<&'static str> {
    const NOT: &[&str] = &[
        "from",
        "to",
        "among",
        "pattern",
        "pieces",
        "bytes",
        "chunk",
        "iterations",
        "shuffle",
        "connect",
        "oob",
        "service",
        "verb",
        "size",
        "sizes",
        "mix",
        "arrival",
        "think_time",
        "on",
        "off",
        "load",
        "rate",
        "layer",
        "burst",
        "messages",
        "psn",
    ];
    FLOW.iter().filter(|k| !NOT.contains(k)).chain(REPLAY).copied().collect()
}

/// Keys of `impair` whose values are shares of packets.
pub(super) const SHARES: [&str; 6] = ["chance", "loss", "duplicate", "reorder", "corrupt", "mark_ce"];

/// Bounds of a whole number, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max {
            // TOML has 64-bit signed integers: that bound is not ours to explain.
            MAX => write!(f, "a whole number of at least {}", self.min),
            max => write!(f, "a whole number from {} to {max}", self.min),
        }
    }
}

/// The bounds of the L3 MTU of a port: it carries at least a path MTU of 256 and its headers.
pub(super) const PORT_MTU: Range = Range { min: 340, max: 65_535 };

/// The bounds of an integer key.
pub(super) fn range(key: &str) -> Option<Range> {
    reference::bounds(key).map(|(min, max)| Range { min, max })
}

/// What the value of `key` must be where that is not text.
pub(super) fn of(key: &str) -> Option<String> {
    match key {
        "mtu" => Some("a whole number of bytes".to_owned()),
        "cores" => Some("a list of core numbers, as in [2, 3]".to_owned()),
        _ if reference::is_flag(key) => Some("true or false".to_owned()),
        _ => range(key).map(|r| r.to_string()),
    }
}

/// Our key for one that other tools use, where no spelling would lead to it.
pub(super) fn synonym(key: &str) -> Option<&'static str> {
    Some(match key {
        "pps" | "bandwidth" | "bw" | "speed" | "gbps" => "rate",
        "count" | "iters" | "num_messages" => "messages",
        "ttl" => "hop_limit",
        "tos" => "traffic_class",
        "op" | "operation" | "opcode" => "verb",
        "type" | "qp_type" => "transport",
        "addr" | "address" => "ip",
        "src" | "source" => "from",
        "dst" | "destination" => "to",
        "queue_pairs" | "qp" => "qps",
        "tx_depth" | "iodepth" | "queue_depth" | "outstanding" => "depth",
        "pmtu" | "path_mtu" => "mtu",
        "message_size" | "msg_size" | "length" => "size",
        "timeout" => "ack_timeout",
        "initial_psn" | "start_psn" => "psn",
        "pci" | "vdev" => "device",
        "lcores" | "cpus" | "core" => "cores",
        "gateway_mac" | "dst_mac" => "next_hop_mac",
        "router" | "gw" => "gateway",
        "neighbors" | "neighbour" | "neighbor" | "arp" => "neighbours",
        "time" | "runtime" => "duration",
        "warm_up" | "ramp" => "warmup",
        _ => return None,
    })
}
