//! Workloads in virtual time: sizes, arrivals, mixes, and what the result says of them.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use roce_gen::config::{Override, Scenario};
use roce_gen::report::{FlowResult, Judged};
use roce_gen::sim::simulate;
use std::path::Path;

fn load(name: &str, changes: &[&str]) -> Scenario {
    let changes: Vec<Override> = changes.iter().map(|c| c.parse().unwrap()).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name);
    Scenario::load(&file, &changes).unwrap_or_else(|e| panic!("{e}"))
}

/// Two ports at 100 Gb/s, 10 us there and back.
fn pair(flows: &str) -> Scenario {
    let text = format!(
        "run = {{ duration = \"20ms\", line_rate = \"100Gbps\", seed = 3 }}\n\
         port = [{{ name = \"a\", device = \"ring:0\", ip = \"198.18.0.1\" }}, \
         {{ name = \"b\", device = \"ring:0\", ip = \"198.18.0.2\" }}]\n\
         link = {{ delay = \"5us\" }}\n{flows}"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/x.toml");
    Scenario::parse(&file, &text, &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn passed(s: &Scenario) -> Judged {
    let judged = simulate(s, true).unwrap();
    assert!(judged.result.passed(), "{:?}", judged.result.reasons);
    judged
}

fn flow(keys: &str) -> String {
    format!("[[flow]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n")
}

fn only(s: &Scenario) -> FlowResult {
    passed(s).result.flows.remove(0)
}

#[test]
fn a_mix_is_checked_byte_by_byte() {
    let s = load("mixed-sizes.toml", &["run.duration=20ms", "run.warmup=0s"]);
    let first = passed(&s);
    let r = &first.result.flows[0];
    assert_eq!((r.verb, r.detail.mix.len(), r.detail.queue_pairs.len()), ("mixed", 5, 4));
    assert_eq!(r.messages_verified, r.messages_received.unwrap());
    assert_eq!(r.detail.mix.iter().map(|k| k.messages).sum::<u64>(), r.messages);
    assert_eq!(r.detail.mix.iter().map(|k| k.bytes).sum::<u64>(), r.bytes);
    for kind in &r.detail.mix {
        let share = kind.messages as f64 / r.messages as f64 * 100.0;
        assert!((share - kind.share_pct).abs() < 5.0, "{kind:?} of {}", r.messages);
    }
    let json = |j: &Judged| serde_json::to_string(&j.result).unwrap();
    assert_eq!(json(&first), json(&passed(&s)));
}

/// Whatever is lost or doubled on the way, both ends go on to agree on which message is which.
#[test]
fn variable_sizes_survive_faults_on_every_transport() {
    let loss = "[[impair]]\nloss = \"1%\"\n";
    let sizes = "sizes = { uniform = [8, 9000] }";
    let mix = |verbs: &[&str], sizes: &str| {
        let kind = |v: &&str| format!("[[flow.mix]]\nverb = \"{v}\"\n{sizes}\n");
        verbs.iter().map(kind).collect::<String>()
    };
    let all = ["write", "write_imm", "send", "send_imm", "read"];
    for (keys, verbs, sizes) in [
        ("ack_timeout = 8", &all[..], sizes),
        ("ack_timeout = 8\nrecovery = \"selective-repeat\"", &all[..], sizes),
        ("transport = \"uc\"\nrate = \"20%\"", &all[..4], sizes),
        ("transport = \"ud\"\nrate = \"20%\"", &all[2..4], "sizes = { uniform = [8, 1024] }"),
    ] {
        let keys = format!("verify = true\nqps = 3\ndepth = 7\nmtu = 1024\n{keys}");
        // Nothing tells an unreliable message that comes twice from a new one.
        let doubled = if keys.contains("transport") { "" } else { "duplicate = \"0.5%\"\n" };
        let r = only(&pair(&format!("{}{}{loss}{doubled}", flow(&keys), mix(verbs, sizes))));
        assert!(
            r.messages > 1000 && r.messages_verified > 900,
            "{keys}: {} {}",
            r.messages,
            r.messages_verified
        );
        assert_eq!(r.verify_errors, 0, "{keys}");
        assert!(r.detail.sizes.unwrap().ks_distance < 0.05, "{keys}");
    }
}

#[test]
fn web_search_at_random_times() {
    let changes = ["run.duration=500ms", "run.warmup=20ms", "run.line_rate=100Gbps", "expect=[]"];
    let r = only(&load("websearch-open-loop.toml", &changes));
    let sizes = r.detail.sizes.as_ref().unwrap();
    assert!(sizes.ks_distance < 0.03, "{sizes:?}");
    assert!((sizes.mean_asked / 1.711e6 - 1.0).abs() < 0.01, "{}", sizes.mean_asked);
    let asked = r.detail.asked.as_ref().unwrap();
    assert!(asked.rate_kept && asked.why.is_none(), "{asked:?}");
    assert!((r.line_rate_pct.unwrap() - 60.0).abs() < 10.0, "{:?}", r.line_rate_pct);
    assert_eq!(r.latency_kind, "round-trip");
    let bins = &r.detail.by_size;
    assert_eq!(bins.iter().map(|b| b.messages).sum::<u64>(), sizes.count);
    for bin in bins {
        // Nothing is faster than the line; percentiles are right to a hundredth.
        let slow = bin.slowdown.unwrap();
        assert!(slow.p50 > 0.98 && slow.p50 <= slow.p99 && slow.p99 <= slow.max, "{bin:?}");
    }
    // Small ones wait behind large ones: that is what slowdown is looked at for.
    assert!(bins[1].slowdown.unwrap().p99 > 10.0, "{:?}", bins[1]);
}

/// A message alone on the way takes its line time and the round trip: slowdown 1.
#[test]
fn slowdown_is_one_where_nothing_is_in_the_way() {
    let keys = "verb = \"write\"\nsizes = { list = [[\"64KiB\", 1], [\"1MiB\", 1]] }\ndepth = 1\nmtu = 4096";
    let r = only(&pair(&flow(keys)));
    for bin in &r.detail.by_size {
        let slow = bin.slowdown.unwrap();
        assert!(slow.p50 > 0.99 && slow.max < 1.05, "{bin:?}");
    }
}

#[test]
fn bursts_come_and_go() {
    let keys = "verb = \"write\"\nsize = 4096\narrival = \"on-off\"\non = \"1ms\"\noff = \"3ms\"\nload = \"50%\"\nqps = 4";
    let r = only(&pair(&flow(keys)));
    assert!((r.line_rate_pct.unwrap() - 12.5).abs() < 0.3, "a quarter of 50 %: {:?}", r.line_rate_pct);
    let asked = r.detail.asked.unwrap();
    assert!(asked.rate_kept && (asked.rate_got / asked.rate_asked - 1.0).abs() < 0.02, "{asked:?}");
}

/// Who cannot keep what was asked says so, and why.
#[test]
fn what_is_asked_and_not_got_is_said() {
    let closed = "verb = \"write\"\nsize = 4096\nrate = \"98%\"\ndepth = 4";
    let asked = only(&pair(&flow(closed))).detail.asked.unwrap();
    assert_eq!((asked.rate_unit, asked.rate_asked, asked.rate_kept), ("l1_gbps", 98.0, false));
    assert!(asked.rate_got < 15.0, "four messages in 10 us: {asked:?}");
    assert!(
        asked.why.unwrap().starts_with("all 4 messages of its depth were under way"),
        "{}",
        asked.rate_got
    );

    let open = "verb = \"write\"\nsize = 4096\nload = \"98%\"\ndepth = 4";
    let r = only(&pair(&flow(open)));
    let asked = r.detail.asked.unwrap();
    assert_eq!((asked.rate_unit, asked.rate_kept), ("message_rate", false));
    let why = asked.why.unwrap();
    assert!(why.contains("had not been posted") && why.contains("depth 4 was full"), "{why}");
    assert!(r.messages_overdue > r.messages, "{} {}", r.messages_overdue, r.messages);
    // All that it waited for room is in the latencies.
    let delay = r.detail.post_delay_ns.unwrap();
    assert!(delay.p50 > 5_000_000 && r.latency_ns.unwrap().p50 > delay.p50, "{delay:?}");

    let kept = "verb = \"write\"\nsize = 4096\nrate = \"98%\"\ndepth = 256";
    assert!(only(&pair(&flow(kept))).detail.asked.unwrap().rate_kept);
    assert!(only(&pair(&flow("verb = \"write\"\nsize = 4096"))).detail.asked.is_none());
}

/// A receiver stops for 50 ms: the open loop sees what that means for everybody, the closed loop one
/// message.
#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    let judged = passed(&load("stall.toml", &[]));
    let [open, closed] = &judged.result.flows[..] else { panic!("two flows") };
    let (o, c) = (open.latency_ns.unwrap(), closed.latency_ns.unwrap());
    assert!(closed.messages > 15_000, "both had many messages: {}", closed.messages);
    // A thousand of twenty thousand were due in the stall, and waited evenly from 50 ms to 0.
    let near = |got: u64, ms: f64| (got as f64 / 1e6 - ms).abs() < 1.0;
    assert!(near(o.p99, 40.0) && near(o.max, 50.0) && o.p90 < 20_000, "{o:?}");
    assert!((o.max_at_s - 0.55).abs() < 0.001, "when it was over: {o:?}");
    // The same stall, and 99.9 % of the messages know nothing of it.
    assert!(c.p99_9 < 20_000 && near(c.max, 50.0), "{c:?}");
}

/// Hosts on one switch at 100 Gb/s, 1 us of cable to each.
fn star(hosts: u32, flow: &str) -> Scenario {
    let text = format!(
        "run = {{ seed = 3 }}\nfabric = {{ topology = \"single\", hosts = {hosts}, pfc = [3] }}\n[[flow]]\nname = \"x\"\n\
         among = \"h[0-{}]\"\nverb = \"write\"\nmtu = 4096\ndscp = 26\n{flow}\n",
        hosts - 1
    );
    Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// Every pattern moves what it is to move, at nearly the rate of the ports, and bus bandwidth says so
/// whatever the pattern and the number of ports.
#[test]
fn collectives_take_the_time_of_their_bytes() {
    // (pattern, what a rank sends of the buffer in an iteration, steps)
    let ring = |n: u32| f64::from(n - 1) / f64::from(n);
    for n in [2u32, 4, 8] {
        let halving = 2 * n.ilog2();
        for (pattern, sent, steps) in [
            ("all-reduce", 2.0 * ring(n), 2 * (n - 1)),
            ("halving-doubling", 2.0 * ring(n), halving),
            ("all-gather", ring(n), n - 1),
            ("reduce-scatter", ring(n), n - 1),
            ("all-to-all", ring(n), 1),
        ] {
            let keys = format!(
                "pattern = \"{pattern}\"\nbytes = \"8MiB\"\nchunk = \"64KiB\"\niterations = 3\nqps = 2\nverify = true"
            );
            let judged = passed(&star(n, &keys));
            let c = &judged.result.collectives[0];
            assert_eq!((c.iterations, c.steps, c.bytes), (3.0, steps as usize, 8 << 20), "{pattern} {n}");
            let bytes: u64 = judged.result.flows.iter().map(|f| f.bytes).sum();
            assert_eq!(bytes as f64, 3.0 * sent * f64::from(n) * f64::from(8 << 20), "{pattern} {n}");
            assert!(judged.result.flows.iter().all(|f| f.messages == f.messages_verified));
            // At most 98.04 of 100 Gb/s are payload; what a step waits for is partly hidden by the
            // other queue pair.
            let ideal = sent * f64::from(8 << 20) * 8.0 / 98.04;
            let near = c.time_mean_ns / (ideal + f64::from(steps) * 2_000.0);
            assert!(c.time_mean_ns > ideal && near < 1.1, "{pattern} {n}: {near} of the ideal, {c:?}");
            assert!((c.bus_gbps - c.bytes as f64 * 8.0 * sent / c.time_mean_ns).abs() < 1e-9);
        }
    }
}

/// Nobody begins an iteration before it has all of the one before.
#[test]
fn iterations_do_not_overlap() {
    let slow = "pattern = \"all-to-all\"\nbytes = \"4MiB\"\niterations = 5";
    let c = passed(&star(4, slow)).result.collectives.remove(0);
    // Else one of them would be over as soon as it began.
    assert!(c.time_min_ns as f64 > 0.8 * c.time_mean_ns, "{c:?}");
}

#[test]
fn rings_of_four_and_of_sixty_four() {
    let four = load("allreduce-ring.toml", &["flow.ring.iterations=3"]);
    let c = passed(&four).result.collectives.remove(0);
    assert!((90.0..98.1).contains(&c.bus_gbps), "{c:?}");
    let many = load(
        "allreduce-64.toml",
        &[
            "flow.ring.iterations=1",
            "flow.halves.iterations=1",
            "flow.ring.bytes=8MiB",
            "flow.halves.bytes=8MiB",
        ],
    );
    let all = passed(&many).result.collectives;
    assert_eq!(all.iter().map(|c| (c.ranks, c.steps)).collect::<Vec<_>>(), [(64, 126), (64, 12)]);
    for c in all {
        assert!(
            (c.bus_factor - 126.0 / 64.0).abs() < 1e-12 && c.bus_gbps < 98.1 && c.bus_gbps > 10.0,
            "{c:?}"
        );
    }
}

/// A trace is what comes out: every message with its size, at its time, at its priority.
#[test]
fn golden_replay_of_a_flow_list() {
    let s = load("replay-incast.toml", &[]);
    let judged = passed(&s);
    let line = |(r, f): (&FlowResult, &roce_gen::config::Flow)| {
        let delay = r.detail.post_delay_ns.unwrap();
        format!("{} tos {} {} messages {} B late {}", r.name, f.tos, r.messages, r.bytes, delay.max)
    };
    let lines: Vec<_> = judged.result.flows.iter().zip(&s.flows).map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    replay.h1-h0.p3 tos 96 3 messages 600000 B late 0
    replay.h2-h0.p3 tos 96 3 messages 150000 B late 0
    replay.h2-h3.p1 tos 32 1 messages 3000 B late 0
    replay.h3-h0.p3 tos 96 2 messages 2000000 B late 0
    replay.h3-h2.p0 tos 0 1 messages 12 B late 0
    ");
}

/// Loops and time scale: all of it again, later and slower.
#[test]
fn a_trace_is_replayed_again_and_slower() {
    let span = |changes: &[&str]| {
        let s = load("replay.toml", changes);
        let flows = passed(&s).result.flows;
        assert!(flows.iter().all(|f| f.messages_verified == f.messages && f.messages_overdue == 0));
        (flows.iter().map(|f| f.messages).sum::<u64>(), flows.iter().map(|f| f.elapsed_s).fold(0.0, f64::max))
    };
    let (once, short) = span(&["replay.loops=1", "replay.time_scale=1.0"]);
    assert_eq!(once, 400);
    let (twice, long) = span(&["replay.loops=2", "replay.time_scale=3.0", "replay.pause=10ms"]);
    assert_eq!(twice, 800);
    let want = 3.0 * short + 0.01 + 3.0 * short;
    assert!((long / want - 1.0).abs() < 0.05, "{long} {want}");
}
