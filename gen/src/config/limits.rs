//! The keys of each section, and the bounds of those that are whole numbers.

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

pub(super) const RUN: &[&str] = &[
    "duration",
    "warmup",
    "drain",
    "interval",
    "sample",
    "window",
    "per_qp",
    "seed",
    "line_rate",
    "icrc",
    "hugepages",
    "memory",
    "share_cores",
];

pub(super) const PORT: &[&str] = &[
    "name",
    "device",
    "ip",
    "mac",
    "mtu",
    "vlan",
    "roce",
    "cores",
    "promiscuous",
    "link_wait",
    "next_hop_mac",
    "pfc",
];

pub(super) const PFC: &[&str] = &[
    "kind",
    "by",
    "priorities",
    "trust",
    "dscp_map",
    "obey",
    "quanta",
    "drain",
    "xoff",
    "xon",
    "storm_priorities",
    "storm_from",
    "storm_length",
    "storm_period",
    "watchdog",
    "detection",
    "restoration",
];

pub(super) const FLOW: &[&str] = &[
    "name",
    "from",
    "to",
    "among",
    "pattern",
    "pieces",
    "bytes",
    "chunk",
    "iterations",
    "shuffle",
    "verb",
    "transport",
    "size",
    "sizes",
    "mix",
    "arrival",
    "think_time",
    "start",
    "on",
    "off",
    "load",
    "per_qp",
    "base_rtt",
    "qps",
    "depth",
    "mtu",
    "rate",
    "layer",
    "burst",
    "messages",
    "verify",
    "dscp",
    "traffic_class",
    "ecn",
    "pcp",
    "sl",
    "hop_limit",
    "ack_timeout",
    "retry_cnt",
    "rnr_retry",
    "min_rnr_timer",
    "max_rd_atomic",
    "ack_interval",
    "window",
    "psn",
    "cc",
    "srq",
    "credits",
    "recovery",
    "ack_timeout_low",
];

/// Keys of `replay` besides those of flows.
pub(super) const REPLAY: &[&str] = &["file", "format", "ports", "time_scale", "loops", "pause"];

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

pub(super) const CONNECT: &[&str] = &["listen", "peer", "timeout"];

pub(super) const IMPAIR: &[&str] = &[
    "flow",
    "qp",
    "psn",
    "pass",
    "direction",
    "class",
    "opcode",
    "action",
    "chance",
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "mark_ce",
    "delay",
    "packets",
    "hold",
    "bit",
];

/// Keys of `impair` whose values are shares of packets.
pub(super) const SHARES: [&str; 6] = ["chance", "loss", "duplicate", "reorder", "corrupt", "mark_ce"];

pub(super) const LINK: &[&str] = &["rate", "delay", "queue", "ecn_kmin", "ecn_kmax", "ecn_pmax"];

pub(super) const FABRIC: &[&str] = &[
    "topology",
    "hosts",
    "left",
    "right",
    "leaves",
    "spines",
    "hosts_per_leaf",
    "nics",
    "rate",
    "delay",
    "trunk_rate",
    "trunk_delay",
    "buffer",
    "alpha",
    "lossy_alpha",
    "queue",
    "headroom",
    "pfc",
    "ecn_kmin",
    "ecn_kmax",
    "ecn_pmax",
    "ecn_per",
    "ecn_priorities",
    "frame_headers",
    "frame_bare",
    "whole_ns",
    "weights",
    "ecmp",
    "ecmp_seed",
    "watchdog_detect",
    "watchdog_restore",
    "sample",
];

pub(super) const STORM: &[&str] = &["port", "priority", "at", "for"];

pub(super) const CLIFF: &[&str] = &["loss", "mtu", "round_trip", "recovery"];

pub(super) const DCQCN: &[&str] = &[
    "preset",
    "algorithm",
    "rpg_time_reset",
    "rpg_byte_reset",
    "rpg_threshold",
    "rpg_ai_rate",
    "rpg_hai_rate",
    "rpg_gd",
    "rpg_min_dec_fac",
    "rpg_min_rate",
    "rpg_max_rate",
    "rate_to_set_on_first_cnp",
    "dce_tcp_g",
    "dce_tcp_rtt",
    "rate_reduce_monitor_period",
    "initial_alpha_value",
    "min_alpha_value",
    "clamp_tgt_rate",
    "clamp_tgt_rate_after_time_inc",
    "full_fast_recovery",
    "slow_restart",
];

pub(super) const NOTIFICATION: &[&str] =
    &["enabled", "key", "min_time_between_cnps", "cnp_dscp", "cnp_802p_prio", "cnp_with_nak"];

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

const MAX: u64 = i64::MAX as u64;

const INTEGERS: [(&str, u64, u64); 30] = [
    ("seed", 0, MAX),
    ("vlan", 1, 4094),
    ("qps", 1, 16_384),
    ("depth", 1, 32_768),
    ("burst", 1, 4_096),
    ("messages", 1, MAX),
    ("pieces", 1, 32_768),
    ("iterations", 1, 1 << 32),
    ("loops", 1, 1 << 32),
    ("dscp", 0, 63),
    ("traffic_class", 0, 255),
    ("pcp", 0, 7),
    ("sl", 0, 7),
    ("hop_limit", 1, 255),
    ("ack_timeout", 0, 31),
    ("ack_timeout_low", 0, 31),
    ("retry_cnt", 0, 7),
    ("rnr_retry", 0, 7),
    ("min_rnr_timer", 0, 31),
    ("max_rd_atomic", 1, 128),
    ("ack_interval", 1, 65_536),
    ("window", 1, 1 << 22),
    ("psn", 0, (1 << 24) - 1),
    ("srq", 1, 1 << 29),
    ("qp", 0, 16_383),
    ("pass", 1, 65_535),
    ("packets", 1, 65_535),
    ("bit", 0, 65_535),
    ("cnp_dscp", 0, 63),
    ("cnp_802p_prio", 0, 7),
];

/// The bounds of the L3 MTU of a port: it carries at least a path MTU of 256 and its headers.
pub(super) const PORT_MTU: Range = Range { min: 340, max: 65_535 };

/// The bounds of an integer key.
pub(super) fn range(key: &str) -> Option<Range> {
    INTEGERS.iter().find(|(k, ..)| *k == key).map(|&(_, min, max)| Range { min, max })
}

/// What the value of `key` must be where that is not text.
pub(super) fn of(key: &str) -> Option<String> {
    match key {
        "mtu" => Some("a whole number of bytes".to_owned()),
        "verify" | "ecn" | "shuffle" | "promiscuous" | "share_cores" | "credits" | "per_qp" => {
            Some("true or false".to_owned())
        }
        "cores" => Some("a list of core numbers, as in [2, 3]".to_owned()),
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
        "type" | "service" | "qp_type" => "transport",
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
        "gateway" | "gateway_mac" | "dst_mac" => "next_hop_mac",
        "time" | "runtime" => "duration",
        "warm_up" | "ramp" => "warmup",
        _ => return None,
    })
}
