//! The keys of `flow`, `replay`, `expect`.  Flows and what is expected of them.

use super::Kind::*;
use super::{Key, MAX, Shape, key};

/// `flow`.
pub(crate) const FLOW: [Key; 50] = [
    key("name", Name, "required", "Unique among flows."),
    key(
        "from",
        Odd("name of a port", Shape::Texts),
        "required without `among`",
        "Where work requests are posted. For READ the payload travels the other way.",
    ),
    key(
        "to",
        Odd("name of a port", Shape::Texts),
        "required without `among`",
        "The other end. At least one of the two ports is driven by this process.",
    ),
    key(
        "among",
        Odd("names of ports", Shape::Texts),
        "-",
        "Instead of `from` and `to`, for patterns around a ring.",
    ),
    key(
        "pattern",
        Word(&[
            "each",
            "incast",
            "pairs",
            "permutation",
            "ring",
            "all-reduce",
            "halving-doubling",
            "all-gather",
            "reduce-scatter",
            "all-to-all",
        ]),
        r#"`"each"`"#,
        "Who sends to whom where a table names several ports. See [patterns](#patterns).",
    ),
    key(
        "bytes",
        Size,
        "-",
        "Of a [collective](#collectives): the buffer of each port. `size` follows from it.",
    ),
    key("chunk", Size, r#"`"1MiB"`"#, "The largest message that `bytes` is cut into. All are of one size."),
    key(
        "pieces",
        Whole(1, 32_768),
        "1",
        "1 to 32768: instead of `bytes`, the messages of `size` bytes that a share of the buffer has on each queue pair.",
    ),
    key("iterations", Whole(1, 4_294_967_296), "no end", "1 to 4294967296: how often a collective is done."),
    key(
        "shuffle",
        Flag,
        "`false`",
        "A ring goes through the ports, and a collective numbers them, in an order that the seed draws.",
    ),
    key(
        "verb",
        Word(&["write", "write_imm", "send", "send_imm", "read"]),
        "required without `mix`",
        r#"`"write"`, `"write_imm"`, `"send"`, `"send_imm"` or `"read"`."#,
    ),
    key("size", Size, "required without `sizes`, `mix`", r#"Bytes of a message: 0 to `"2GiB"`."#),
    key(
        "sizes",
        Odd("table", Shape::Table),
        "-",
        "Instead of `size`, a distribution. See [sizes and mixes](#sizes).",
    ),
    key(
        "mix",
        Odd("tables", Shape::Tables),
        "-",
        "Instead of `verb` and `size`, several kinds of message by weight. See [sizes and mixes](#sizes).",
    ),
    key(
        "arrival",
        Word(&["closed", "constant", "poisson", "on-off"]),
        r#"`"closed"`, or `"constant"` with a load"#,
        r#"When messages are due: `"closed"`, `"constant"`, `"poisson"` or `"on-off"`. See [arrivals](#arrivals)."#,
    ),
    key(
        "load",
        FlowRate,
        "-",
        r#"How much is due by the clock: a share of line rate at L1 as in `"60%"`, bits per second at L1 or messages per second."#,
    ),
    key(
        "start",
        Time,
        r#"`"0s"`"#,
        "How long after the others its queue pairs begin; `warmup` in `[run]` begins without them.",
    ),
    key(
        "think_time",
        Time,
        r#"`"0s"`"#,
        "In a closed loop: from the end of a message to the next one in its place.",
    ),
    key("on", Time, r#"required for `"on-off"`"#, "How long messages are due."),
    key("off", Time, r#"required for `"on-off"`"#, "How long none is."),
    key(
        "transport",
        Word(&["rc", "uc", "ud"]),
        r#"`"rc"`"#,
        r#"`"rc"`, reliable connection; `"uc"`, unreliable connection, which has no READ; or `"ud"`, unreliable datagrams, which have only SEND, of at most `mtu` bytes."#,
    ),
    key("qps", Whole(1, 16_384), "1", "1 to 16384 queue pairs."),
    key("depth", Whole(1, 32_768), "16", "1 to 32768 work requests outstanding on each queue pair."),
    key(
        "mtu",
        Odd("whole number", Shape::PathMtu),
        "largest that fits",
        "Path MTU, payload bytes of a full packet: 256, 512, 1024, 2048 or 4096. With at most 64 B of headers over IPv4, 84 B over IPv6, it fits the `mtu` of both ports.",
    ),
    key(
        "rate",
        FlowRate,
        r#"`"unlimited"`"#,
        "What the whole flow, all its queue pairs together, is paced to. See [rates](#rates).",
    ),
    key(
        "layer",
        Word(&["l1", "l2", "goodput"]),
        r#"`"l1"`"#,
        r#"What a `rate` in bit/s counts: `"l1"`, `"l2"` or `"goodput"`."#,
    ),
    key(
        "burst",
        Whole(1, 4_096),
        "16",
        "1 to 4096 packets: the most that a paced flow sends back to back, also to catch up.",
    ),
    key(
        "messages",
        Whole(1, MAX),
        "no bound",
        "At least 1: messages that each queue pair sends, those in the warm-up included.",
    ),
    key("verify", Flag, "`false`", "Whether the side that gets the payload checks every byte."),
    key(
        "per_qp",
        Flag,
        "`false`",
        "Whether the result tells messages, goodput and latency of each queue pair; 25 kB of memory for each.",
    ),
    key(
        "base_rtt",
        Time,
        r#"by `[link]` or `[fabric]` in virtual time, else `"0s"`"#,
        "What a message takes at least, whatever its size: a part of the ideal that slowdown is measured by.",
    ),
    key("dscp", Whole(0, 63), "0", "0 to 63: the upper six bits of the traffic class."),
    key(
        "traffic_class",
        Whole(0, 255),
        "0",
        "0 to 255, the whole byte with the two ECN bits 0: four times the DSCP. Next to `dscp` it must say the same.",
    ),
    key(
        "ecn",
        Flag,
        "`true` with congestion control, else `false`",
        "Whether packets are marked ECN-capable, ECT(0): without, no switch can mark them.",
    ),
    key(
        "pcp",
        Whole(0, 7),
        "0",
        "0 to 7: the priority in the VLAN tag. Without `vlan` there is no tag to carry it: a warning.",
    ),
    key("sl", Whole(0, 7), "0", "0 to 7: the service level, another name of `pcp`."),
    key("hop_limit", Whole(1, 255), "64", "1 to 255: TTL or hop limit."),
    key(
        "ack_timeout",
        Whole(0, 31),
        "14",
        "0 to 31: an answer is missed after 4.096 us x 2^n, and at most four times as long; 14 is 67 ms. 0 is never: a peer that is gone is never noticed.",
    ),
    key(
        "retry_cnt",
        Whole(0, 7),
        "7",
        "0 to 7: times that a request is sent again after a timeout or a sequence NAK, before its queue pair fails. Progress reloads it.",
    ),
    key(
        "rnr_retry",
        Whole(0, 7),
        "7",
        "0 to 7: times that a request is sent again to a receiver that was not ready; 7 is for ever.",
    ),
    key(
        "min_rnr_timer",
        Whole(0, 31),
        "12",
        "0 to 31: code of the wait that a receiver asks for when it is not ready; 12 is 0.64 ms, 0 is 655.36 ms.",
    ),
    key(
        "max_rd_atomic",
        Whole(1, 128),
        "16",
        "1 to 128: READ requests without a full reply on a queue pair.",
    ),
    key(
        "ack_interval",
        Whole(1, 65_536),
        "16",
        "1 to 65536: the most packets that the responder answers with one ACK. A packet that asks for an ACK is answered at once.",
    ),
    key(
        "window",
        Whole(1, 4_194_304),
        "1024",
        "1 to 4194304: the most unacknowledged packets of a queue pair. Under selective repeat at most 65536, and by default the packets of four round trips where `[link]` and a rate say how many those are, at least 64.",
    ),
    key(
        "recovery",
        Word(&["go-back-n", "selective-repeat"]),
        r#"`"go-back-n"`"#,
        r#"`"go-back-n"`: everything from a lost packet on is sent again. `"selective-repeat"`: only what is missing, see [reliability](reliability.md); both ends must be this program, the other side is refused when its file says otherwise."#,
    ),
    key(
        "ack_timeout_low",
        Whole(0, 31),
        "0",
        "0 to 31, selective repeat only: the timer where at most 3 packets are unacknowledged, as a code like `ack_timeout`; 0 takes that one.",
    ),
    key(
        "srq",
        Odd("flag or whole number", Shape::FlagOrWhole),
        "`false`",
        "Whether the receiving queue pairs share their receive requests: all that they would have apart, or so many. Those on one worker share a queue.",
    ),
    key(
        "credits",
        Flag,
        "`false`",
        r#"End-to-end credits: ACKs tell how many receive requests wait, and no SEND or WRITE with immediate leaves for which the receiver has told of none. `"rc"` without `srq` only."#,
    ),
    key("psn", Whole(0, 16_777_215), "random", "0 to 16777215 (`0xFFFFFF`): first PSN of every queue pair."),
    key(
        "cc",
        Word(&["none", "dcqcn", "aimd"]),
        r#"`"dcqcn"` with a `[dcqcn]`, else `"none"`"#,
        r#"What its queue pairs do when they are told of congestion: `"none"`, `"dcqcn"`, by the knobs of [`[dcqcn]`](#dcqcn), or `"aimd"`: as TCP, faster all the time and half as fast when something was lost, whatever is marked. The last two need a line rate."#,
    ),
];

/// `expect`.
pub(crate) const EXPECT: [Key; 2] = [
    key(
        "flow",
        Odd("name of a flow", Shape::Text),
        "whole run",
        "The flow it is about. Without it the whole run: the sum of counts and rates, the worst flow's latencies and `line_rate_pct`.",
    ),
    key(
        "counters",
        Odd("table", Shape::Table),
        "none",
        r#"`counters.NAME = "== 0"`: a counter of the flow's queue pairs, both ends that this process drives; without `flow` also a counter of ports, summed, such as a reason for which frames were dropped, and `fabric_dropped`, `fabric_marked` and `fabric_pauses` of a `[fabric]`."#,
    ),
];

/// `replay`, besides keys of `flow`.
pub(crate) const REPLAY: [Key; 8] = [
    key(
        "file",
        Odd("path", Shape::Text),
        "required",
        "The recording, beside the scenario file unless the path is absolute.",
    ),
    key(
        "format",
        Word(&["hpcc", "csv", "pcap"]),
        "by the name",
        r#"`"csv"`: lines `time,from,to,verb,bytes`, the time in seconds or with a unit; the first line may be a heading. `"pcap"`: a pcap or pcapng file with frames of RoCE. `"hpcc"`, for names that end otherwise than in `.csv`, `.pcap`, `.pcapng` or `.cap`: a flow list of the HPCC simulator, a count and as many lines "source destination priority port bytes start"."#,
    ),
    key(
        "ports",
        Odd("path", Shape::Text),
        "none",
        "A file with lines \"name port\": what the recording says, an address or a number, and the port of this scenario that it is. Without it what the recording says is the name of a port, its address, or N for the port `hN`.",
    ),
    key(
        "time_scale",
        Odd("number", Shape::Any),
        "1",
        "More than 0: times of the recording are multiplied by it.",
    ),
    key("loops", Whole(1, 4_294_967_296), "1", "1 to 4294967296: how often all of it is replayed."),
    key("pause", Time, r#"`"0s"`"#, "From the last message of a loop to the first of the next."),
    key(
        "qps",
        Whole(1, 16_384),
        "1",
        "1 to 16384 queue pairs that messages go over in turn. A pcap file says itself which connection a message was on.",
    ),
    key("depth", Whole(1, 32_768), "128", "1 to 32768, as that of a flow."),
];
