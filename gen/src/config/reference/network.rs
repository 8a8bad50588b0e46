//! The keys of `impair`, `link`, `fabric`, `storm`, `cliff`.  What goes wrong on the way, and networks in virtual time.

use super::Kind::*;
use super::{Key, Shape, key};

/// `impair`.
pub(crate) const IMPAIR: [Key; 18] = [
    key("flow", Odd("name of a flow", Shape::Text), "all", "Packets of this flow."),
    key("qp", Whole(0, 16_383), "all", "0 to 16383: those of this queue pair of the flow."),
    key(
        "psn",
        Whole(0, 16_777_215),
        "all",
        "0 to 16777215: the packet with this PSN, counted from the first PSN of its direction; the answers to a request count from the request's. Does not repeat after 2^24 packets.",
    ),
    key(
        "pass",
        Whole(1, 65_535),
        "all",
        "1 to 65535: the how-manieth time that this PSN passes: 1 is the original, 2 the first copy sent again.",
    ),
    key(
        "direction",
        Word(&["data", "ack", "both"]),
        r#"`"data"` with `psn`, else `"both"`"#,
        r#"`"data"`: the way of the flow's payload; `"ack"`: the other way; `"both"`. For READ the requests go the way of `"ack"`."#,
    ),
    key(
        "class",
        Word(&["data", "ack", "any"]),
        r#"`"any"`"#,
        r#"`"data"`: requests and answers with data; `"ack"`: ACK, NAK and CNP; `"any"`."#,
    ),
    key(
        "opcode",
        Odd("text", Shape::Text),
        "all",
        r#"The opcode by name, as in `"RC_WRITE_LAST"` or `"RC_ACKNOWLEDGE"`."#,
    ),
    key(
        "action",
        Word(&["drop", "duplicate", "reorder", "delay", "corrupt", "mark_ce"]),
        "-",
        r#"`"drop"`, `"duplicate"`, `"reorder"`, `"delay"`, `"corrupt"` or `"mark_ce"` (see below)."#,
    ),
    key("chance", Share, r#"`"100%"`"#, "How many of the packets the `action` happens to."),
    key("loss", Share, "none", "Lost."),
    key("duplicate", Share, "none", "Arrive twice."),
    key(
        "reorder",
        Share,
        "none",
        "Held back until `packets` later ones of their queue pair and direction have gone, at most for `hold`.",
    ),
    key(
        "corrupt",
        Share,
        "none",
        "One bit is flipped: by default one after the BTH, which makes the iCRC wrong.",
    ),
    key(
        "mark_ce",
        Share,
        "none",
        "Arrive marked with congestion experienced; IPv4 checksum and iCRC stay right.",
    ),
    key(
        "delay",
        Time,
        "none",
        r#"Arrive later by this: all packets that the table is about, or those of `action = "delay"`."#,
    ),
    key("packets", Whole(1, 65_535), "3", "1 to 65535: packets that overtake a reordered one."),
    key("hold", Time, r#"`"100us"`"#, "The longest that a reordered packet waits for them."),
    key(
        "bit",
        Whole(0, 65_535),
        "by seed",
        "0 to 65535: the bit to flip, counted from the first bit of the BTH; the last bit of the packet where there are fewer.",
    ),
];

/// `link`.
pub(crate) const LINK: [Key; 6] = [
    key(
        "rate",
        BitRate,
        "`line_rate`, else 100 Gb/s",
        "Its rate at L1. Where it is slower than `line_rate` in `[run]`, the rate of the ports, a queue forms before it.",
    ),
    key("delay", Time, r#"`"1us"`"#, "From one end to the other, in each direction."),
    key(
        "queue",
        Size,
        r#"`"1MiB"`"#,
        "Bytes of frames that wait before a slow link; what finds no room is lost.",
    ),
    key(
        "ecn_kmin",
        Size,
        "no marking",
        "The queue marks what leaves it, as that of [`[fabric]`](#fabric) does; needs `rate`.",
    ),
    key("ecn_kmax", Size, "no marking", "As in [`[fabric]`](#fabric)."),
    key("ecn_pmax", Share, "no marking", "As in [`[fabric]`](#fabric)."),
];

/// `fabric`.
pub(crate) const FABRIC: [Key; 32] = [
    key(
        "topology",
        Word(&["direct", "single", "dumbbell", "leaf-spine"]),
        "required",
        r#"`"direct"`: two hosts and a cable; `"single"`: one switch; `"dumbbell"`: two switches joined by one cable; `"leaf-spine"`: every leaf is joined to every spine."#,
    ),
    key("hosts", Whole(1, 4096), r#"required for `"single"`"#, "1 to 4096."),
    key("left", Whole(1, 4096), r#"required for `"dumbbell"`"#, "1 to 4096 hosts of the first switch."),
    key("right", Whole(1, 4096), r#"required for `"dumbbell"`"#, "1 to 4096 hosts of the second."),
    key("leaves", Whole(1, 4096), r#"required for `"leaf-spine"`"#, "1 to 4096 switches with hosts."),
    key("spines", Whole(1, 4096), r#"required for `"leaf-spine"`"#, "1 to 4096 switches that join them."),
    key(
        "hosts_per_leaf",
        Whole(1, 4096),
        r#"required for `"leaf-spine"`"#,
        "1 to 4096 host ports of each leaf; 65536 in all.",
    ),
    key(
        "nics",
        Whole(1, 64),
        "1",
        "1 to 64 NICs of a host, each on a leaf of its own: NIC `n` of the hosts of a group of `nics` leaves is on the `n`th of them. `leaves` is a multiple of it.",
    ),
    key("rate", BitRate, r#"`"100Gbps"`"#, "Of cables between hosts and switches, at L1; at least 1 Mb/s."),
    key("delay", Time, r#"`"1us"`"#, "From one end of those to the other."),
    key("trunk_rate", BitRate, "`rate`", "Of cables between switches."),
    key("trunk_delay", Time, "`delay`", "From one end of those to the other."),
    key("buffer", Size, r#"`"32MiB"`"#, "Of each switch, shared by its ports."),
    key(
        "alpha",
        Odd("power of two", Shape::Any),
        r#"`"1/8"`"#,
        r#"From `"1/128"` to `"128"`: a port's share of a lossless priority may grow to this times what is free of the shared buffer; from there on its peer is paused."#,
    ),
    key(
        "lossy_alpha",
        Odd("power of two", Shape::Any),
        r#"`"1"`"#,
        "The same for a queue of another priority: what comes beyond is lost.",
    ),
    key("queue", Size, "none", "The most that such a queue holds, whatever is free."),
    key("pfc", Odd("list of whole numbers", Shape::Wholes), "none", "Lossless priorities, as in `[3]`."),
    key(
        "headroom",
        Size,
        "by cable",
        "Of each port and lossless priority, for what comes after the pause: by default twice the delay at the rate, three frames and a pause frame.",
    ),
    key(
        "ecn_kmin",
        Size,
        "no marking",
        "Bytes in a queue up to which nothing is marked. A packet is marked as it leaves, by what is behind it; only ECN-capable ones are.",
    ),
    key("ecn_kmax", Size, "`ecn_kmin`", "Bytes above which everything is marked."),
    key("ecn_pmax", Share, r#"`"100%"`"#, "In between, the probability rises from 0 to this."),
    key(
        "ecn_per",
        BitRate,
        "none",
        "The rate of a port for which the two sizes hold: those of others are in proportion.",
    ),
    key(
        "ecn_priorities",
        Odd("list of whole numbers", Shape::Wholes),
        "all",
        "Priorities whose queues are marked.",
    ),
    key(
        "frame_headers",
        Whole(1, 1000),
        "those of RoCE",
        "1 to 1000. To compare with another simulator: every frame is so many bytes longer than its payload, in queues, in `[dcqcn]` and on the cable, where nothing else is counted then.",
    ),
    key("frame_bare", Whole(1, 1000), "`frame_headers`", "1 to 1000: the same for frames without payload."),
    key(
        "whole_ns",
        Flag,
        "`false`",
        "To compare with another simulator: the time of a frame, and the gap after it under `[dcqcn]`, is cut off to whole nanoseconds; hosts hand each frame to their port when it begins to leave.",
    ),
    key(
        "weights",
        Odd("list of eight whole numbers", Shape::Wholes),
        "all strict",
        "By priority: 0 is strict, higher priorities first; the others share what is left by their weights.",
    ),
    key(
        "ecmp",
        Word(&["five-tuple", "queue-pair"]),
        r#"`"five-tuple"`"#,
        r#"What a switch with several ways picks by: addresses and ports, or, `"queue-pair"`, the destination queue pair as well."#,
    ),
    key(
        "ecmp_seed",
        Word(&["switch", "same"]),
        r#"`"switch"`"#,
        r#"Every switch picks in its own way, or all in the `"same"`."#,
    ),
    key(
        "watchdog_detect",
        Time,
        "none",
        "A lossless queue that was paused for so long without a break, and is not empty, is emptied, and takes nothing more",
    ),
    key("watchdog_restore", Time, "`watchdog_detect`", "until it was not paused for so long."),
    key(
        "sample",
        Time,
        "none",
        r#"How often rates and queues are sampled, at least `"100ns"`: with `--out` they are in `rates.csv`, `queues.csv` and pictures of the same names."#,
    ),
];

/// `storm`.
pub(crate) const STORM: [Key; 4] = [
    key("port", Odd("name of a port", Shape::Text), "required", "The host's port."),
    key("priority", Whole(0, 7), "3", "0 to 7."),
    key("at", Time, r#"`"0s"`"#, "When it begins, in simulated time."),
    key("for", Time, "required", "How long it lasts."),
];

/// `cliff`.
pub(crate) const CLIFF: [Key; 4] = [
    key("loss", Odd("list of shares", Shape::Shares), "required", "At most 50 % each."),
    key("mtu", Odd("list of whole numbers", Shape::Wholes), "required", "Path MTUs."),
    key(
        "round_trip",
        Odd("list of times", Shape::List),
        "required",
        r#"At least `"1us"` each: twice the delay of the link."#,
    ),
    key(
        "recovery",
        Odd("list of words", Shape::List),
        "all",
        "As the `recovery` of a flow. The window of selective repeat is the flow's, but not more than the packets of four round trips.",
    ),
];
