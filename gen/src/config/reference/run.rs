//! The keys of `run`, `port`, `port.pfc`, `connect`.  What concerns the whole run, its ports, and the meeting with another process.

use super::Kind::*;
use super::{Key, MAX, Shape, key};

/// `run`.
pub(crate) const RUN: [Key; 13] = [
    key(
        "duration",
        Time,
        "none",
        "How long to measure, beginning after the warm-up; longer than zero. May be left out when every flow has `messages`. With both, a flow ends at whichever comes first.",
    ),
    key(
        "warmup",
        Time,
        r#"`"0s"`"#,
        "How long to run before measuring. What happens in it is in no rate and no latency.",
    ),
    key(
        "drain",
        Time,
        r#"`"2s"`"#,
        "How long to wait at the end for what is outstanding. What is still outstanding then is reported.",
    ),
    key(
        "interval",
        Time,
        r#"`"1s"`"#,
        r#"Span between two progress lines and samples of the statistics; at least `"10ms"`."#,
    ),
    key(
        "sample",
        Time,
        r#"a 250th of `duration`, at least `"10ms"`"#,
        r#"`"1ms"` or more, in virtual time `"1us"`: the span between two readings of every flow, a line of `intervals.csv` and a point of the [report's](report.md) charts each."#,
    ),
    key(
        "window",
        Time,
        "none",
        "Looks for the smallest goodput of each flow over any span of this length: `min_window_gbps` of the result. At least `sample`.",
    ),
    key("per_qp", Flag, "`false`", "`intervals.csv` has a line for each queue pair as well."),
    key(
        "seed",
        Whole(0, MAX),
        "drawn",
        "0 to 2^63-1. Seeds every random choice, so that first PSNs, QP numbers and keys are the same again. The report names the seed that was drawn.",
    ),
    key(
        "line_rate",
        BitRate,
        "none",
        "What 100 % is, at L1, for ports that have no speed of their own: rings and virtual devices. It is a reference, not a limit.",
    ),
    key(
        "icrc",
        Word(&["always", "sampled", "off"]),
        r#"`"always"`"#,
        r#"How many received packets have their iCRC checked: `"always"` all, `"sampled"` some, `"off"` none. It is always written into what is sent."#,
    ),
    key(
        "hugepages",
        Word(&["auto", "never", "require"]),
        r#"`"auto"`"#,
        r#"`"auto"`: taken where there are enough; `"never"`; `"require"`: no start without."#,
    ),
    key(
        "memory",
        Size,
        "by need",
        r#"Bytes that DPDK may take for packet buffers and itself, in normal pages of twice as much address space; at least `"16MiB"`."#,
    ),
    key(
        "share_cores",
        Flag,
        "`false`",
        "Whether two ports may name the same core. Their endpoints then share one worker.",
    ),
];

/// `port`.
pub(crate) const PORT: [Key; 14] = [
    key("name", Name, "required", "Unique among ports."),
    key("device", Odd("text", Shape::Text), "required", "What is behind the port; see [devices](#devices)."),
    key(
        "ip",
        Odd("address", Shape::Text),
        "required",
        r#"Unique among ports. The two ports of a flow have addresses of one family. On a network card, net_tap, net_af_packet and net_af_xdp the port answers ARP requests, neighbour solicitations and pings for it, and tells it to everybody at start. With a prefix length, as in `"198.18.0.1/24"`, what is not in that subnet is behind `gateway`."#,
    ),
    key(
        "mac",
        Odd("MAC address", Shape::Text),
        "the device's own",
        r#"Unique among ports. Required for device `"none"`."#,
    ),
    key(
        "mtu",
        Whole(340, 65535),
        "by device",
        "340 to 65535: the most L3 bytes of a frame, as `ip link` counts it. See [devices](#devices) for defaults and [`[[flow]]` `mtu`](#flow) for what it must hold.",
    ),
    key(
        "roce",
        Word(&["v1", "v2"]),
        r#"`"v2"`"#,
        r#"`"v1"`: frames of RoCEv1, a GRH behind Ethernet instead of IP and UDP; `ip` is the GID, and no router passes them. Both ends of a flow speak the same."#,
    ),
    key(
        "vlan",
        Whole(1, 4094),
        "untagged",
        "1 to 4094: the VLAN of every frame. The two ends of a ring are in the same one.",
    ),
    key(
        "cores",
        Odd("list of whole numbers", Shape::Wholes),
        "assigned",
        "Cores of the port's workers, one worker each, as in `[2, 3]`. See [cores](#cores).",
    ),
    key("promiscuous", Flag, "`false`", "Whether to take frames for any MAC address."),
    key("link_wait", Time, r#"`"10s"`"#, "How long to wait at start for the link."),
    key(
        "next_hop_mac",
        Odd("MAC address", Shape::Text),
        "the peer's",
        "Where frames go when a router is between the ports: the MAC address of its near side.",
    ),
    key(
        "gateway",
        Odd("address", Shape::Text),
        "none",
        "The router to addresses outside the subnet of `ip`; it is asked for its MAC address. See [who is asked](#neighbours).",
    ),
    key(
        "neighbours",
        Odd("list of text or table", Shape::ListOrTable),
        "none",
        r#"MAC addresses that are not asked for: `["198.18.0.2=02:00:00:00:00:02"]`, or a table `"198.18.0.2" = "02:00:00:00:00:02"`."#,
    ),
    key("pfc", Odd("section", Shape::Table), "none", "Link-level flow control: see [`[port.pfc]`](#pfc)."),
];

/// `port.pfc`.
pub(crate) const PFC: [Key; 17] = [
    key(
        "kind",
        Word(&["pfc", "link"]),
        r#"`"pfc"`"#,
        r#"`"pfc"`, or `"link"`: 802.3x. Frames of the other kind are counted and not obeyed."#,
    ),
    key(
        "by",
        Word(&["software", "nic"]),
        r#"`"nic"` for a NIC, else `"software"`"#,
        "Who does it. By software a port has one core, and a line rate.",
    ),
    key(
        "priorities",
        Odd("list of whole numbers", Shape::Wholes),
        "`[3]`",
        "0 to 7: the lossless priorities. The others are neither paused nor ask for it.",
    ),
    key(
        "trust",
        Word(&["dscp", "pcp"]),
        r#"`"dscp"`"#,
        r#"What tells a packet's priority: `"dscp"`, or `"pcp"`, the VLAN tag."#,
    ),
    key(
        "dscp_map",
        Odd("list of text", Shape::List),
        "DSCP / 8",
        r#"`["26=3", "48=6"]`: changes to the priority of a DSCP. By default data with DSCP 26 has priority 3, CNPs have 6."#,
    ),
    key("obey", Flag, "`true`", "Whether packets of a paused priority wait."),
    key(
        "quanta",
        Whole(1, 65535),
        "65535",
        "1 to 65535: the pause that is asked for, in units of 512 bit times. It is asked for again after half of it.",
    ),
    key(
        "drain",
        BitRate,
        "no lag",
        "The receiver takes so many bits of each lossless priority a second, and no more: what is above fills a buffer in mind.",
    ),
    key("xoff", Size, "100000", "Bytes in that buffer above which it pauses its peer."),
    key("xon", Size, "half of `xoff`", "Bytes below which it lets the peer go on."),
    key(
        "storm_period",
        Time,
        "no storm",
        r#"At least `"1us"`: sends pause frames without reason, this far apart."#,
    ),
    key(
        "storm_priorities",
        Odd("list of whole numbers", Shape::Wholes),
        "`priorities`",
        "What the storm pauses.",
    ),
    key("storm_from", Time, r#"`"0s"`"#, "When it begins, from the start of the worker."),
    key("storm_length", Time, r#"`"1h"`"#, "How long it lasts."),
    key(
        "watchdog",
        Word(&["off", "alert", "forward"]),
        r#"`"off"`"#,
        r#"What happens in a storm that the port is subject to: `"alert"`, it is counted; `"forward"`, pauses are not obeyed until it is over."#,
    ),
    key(
        "detection",
        Time,
        r#"`"200ms"`"#,
        r#"`"100ms"` to `"5s"`: a pause without a break that lasts this long is a storm."#,
    ),
    key(
        "restoration",
        Time,
        r#"`"200ms"`"#,
        r#"`"100ms"` to `"60s"`: without a pause frame for this long, the storm is over."#,
    ),
];

/// `connect`.
pub(crate) const CONNECT: [Key; 3] = [
    key(
        "listen",
        Odd("address and port", Shape::Text),
        "-",
        r#"`"0.0.0.0:7471"`: this process waits here for the other."#,
    ),
    key(
        "peer",
        Odd("host and port", Shape::Text),
        "-",
        r#"`"server:7471"` or `"[fd00::1]:7471"`: where the other one waits. One of `listen` and `peer` is required."#,
    ),
    key(
        "timeout",
        Time,
        r#"`"30s"`"#,
        "How long to wait for the other process, at each step of the meeting.",
    ),
];
