//! The keys of `dcqcn`, `notification`.  Congestion control.

use super::Kind::*;
use super::{Key, MAX, key};

/// `dcqcn`.
pub(crate) const DCQCN: [Key; 21] = [
    key(
        "preset",
        Word(&["nvidia", "sigcomm15", "hpcc", "hpcc-paper", "keysight", "spirent"]),
        r#"`"nvidia"`"#,
        r#"`"nvidia"`, `"sigcomm15"`, `"hpcc"`, `"hpcc-paper"`, `"keysight"` or `"spirent"`: the defaults of all other keys."#,
    ),
    key(
        "algorithm",
        Word(&["sigcomm15", "nvidia", "hpcc"]),
        "by preset",
        r#"`"sigcomm15"`: every CNP cuts at once; `"nvidia"`: cuts at fixed periods; `"hpcc"`: as the HPCC simulator does."#,
    ),
    key("rpg_time_reset", Whole(1, 131071), "by preset", "1 to 131071 us between increases without a cut."),
    key(
        "rpg_byte_reset",
        Whole(0, 16777215),
        "by preset",
        "0 to 16777215 times 64 bytes sent between increases; 0 is no byte counter; NICs hold up to 32767.",
    ),
    key("rpg_threshold", Whole(1, 31), "by preset", "1 to 31 increases after which fast recovery ends."),
    key("rpg_ai_rate", Whole(1, 1000000), "by preset", "1 to 1000000 Mb/s: the step of additive increase."),
    key("rpg_hai_rate", Whole(1, 1000000), "by preset", "1 to 1000000 Mb/s: the step of hyper increase."),
    key(
        "rpg_gd",
        Whole(0, MAX),
        "by preset",
        "10 or 11: a cut takes alpha x 2^(10 - n) of the rate; 11 is half of alpha.",
    ),
    key(
        "rpg_min_dec_fac",
        Whole(0, 100),
        "by preset",
        "0 to 100 %: a cut leaves at least this much of the rate.",
    ),
    key("rpg_min_rate", Whole(1, 1000000), "by preset", "1 to 1000000 Mb/s: no cut goes below."),
    key(
        "rpg_max_rate",
        Whole(0, 1000000),
        "by preset",
        "0 to 1000000 Mb/s: no increase goes above; 0 is the line rate.",
    ),
    key(
        "rate_to_set_on_first_cnp",
        Whole(0, 1000000),
        "by preset",
        "0 to 1000000 Mb/s: rate and target after the first CNP; 0 leaves them.",
    ),
    key(
        "dce_tcp_g",
        Whole(0, 1023),
        "by preset",
        "0 to 1023 of 1024: what alpha keeps of itself at an update.",
    ),
    key("dce_tcp_rtt", Whole(1, 131071), "by preset", "1 to 131071 us between updates of alpha."),
    key(
        "rate_reduce_monitor_period",
        Whole(0, 131071),
        "by preset",
        r#"0 to 131071 us between cuts; 0 only for `"sigcomm15"`."#,
    ),
    key("initial_alpha_value", Whole(1, 1024), "by preset", "1 to 1024 of 1024: alpha at the first CNP."),
    key("min_alpha_value", Whole(0, 1024), "by preset", "0 to 1024 of 1024: alpha does not fall below."),
    key("clamp_tgt_rate", Flag, "by preset", "Every cut sets the target rate to the rate from before it."),
    key(
        "clamp_tgt_rate_after_time_inc",
        Flag,
        "by preset",
        "A cut does so when the rate was increased since the last one.",
    ),
    key(
        "full_fast_recovery",
        Flag,
        "`true`",
        r#"`"sigcomm15"`: fast recovery has `rpg_threshold` steps; one less without."#,
    ),
    key(
        "slow_restart",
        Flag,
        "`false`",
        "A sequence NAK or an ack timeout slows a queue pair down as a CNP does.",
    ),
];

/// `notification`.
pub(crate) const NOTIFICATION: [Key; 6] = [
    key("enabled", Flag, "`true`", "`false`: marks are counted and not answered."),
    key(
        "key",
        Word(&["qp", "ip_pair", "destination_ip", "port", "none"]),
        r#"`"qp"`"#,
        r#"What CNPs are spaced by: `"qp"`, `"ip_pair"`, `"destination_ip"` (of the CNP), `"port"` or `"none"`. Each worker of a port spaces its own."#,
    ),
    key(
        "min_time_between_cnps",
        Time,
        r#"by `preset` of `[dcqcn]`, else `"4us"`"#,
        "At most 131071 us: the least time between two CNPs of a key; 0 answers every mark.",
    ),
    key("cnp_dscp", Whole(0, 63), "48", "0 to 63: DSCP of CNPs, which are not ECN-capable."),
    key(
        "cnp_802p_prio",
        Whole(0, 7),
        "6",
        "0 to 7: priority of CNPs in the VLAN tag, where the port has one.",
    ),
    key(
        "cnp_with_nak",
        Flag,
        "`false`",
        "A CNP goes along with a NAK for a sequence error, as some NICs have it.",
    ),
];
