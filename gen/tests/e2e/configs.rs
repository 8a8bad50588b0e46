//! The scenarios that come with the project run as they are.

use crate::common::{Ended, Machine, float, int, list, run, text};
use serde_json::Value;

/// Runs `configs/NAME` for a short span.
fn short(name: &str, flows: &[&str], more: &[&str]) -> Ended {
    let file = format!("configs/{name}");
    let mut args = vec!["run", &file, "--set", "run.duration=300ms", "--set", "run.warmup=50ms"];
    args.extend(["--set", "run.interval=100ms", "--set", "run.drain=30s"]);
    // A worker may be without a core for longer than the usual timer.
    let patient: Vec<String> = flows.iter().map(|f| format!("flow.{f}.ack_timeout=20")).collect();
    args.extend(patient.iter().flat_map(|p| ["--set", p.as_str()]));
    args.extend(more);
    run(args)
}

/// What holds for every good run.
fn judge(ended: &Ended, flows: usize) -> Value {
    let result = ended.result(0);
    assert_eq!(text(&result, "/verdict"), "pass");
    well_formed(&result);
    assert_eq!(list(&result, "/flows").len(), flows);
    for flow in list(&result, "/flows") {
        assert!(int(flow, "/messages") > 0, "{flow:#}");
        for nothing in
            ["messages_failed", "messages_outstanding", "messages_lost", "verify_errors", "retransmits"]
        {
            assert_eq!(int(flow, &format!("/{nothing}")), 0, "{nothing}: {flow:#}");
        }
        assert!(float(flow, "/elapsed_s") >= 0.3, "{flow:#}");
    }
    assert_eq!(list(&result, "/reasons").len(), 0);
    assert!(list(&result, "/expectations").iter().all(|e| e["pass"] == true));
    let words = ["Gb/s", "goodput", "msg/s", "p99", "resent 0"];
    let progress: Vec<&str> =
        ended.stderr.lines().filter(|line| words.iter().all(|word| line.contains(word))).collect();
    assert!(progress.len() >= 2 * flows, "a line each interval and flow: {}", ended.stderr);
    result
}

/// Every field is there, has its type, and fits the others.
pub(crate) fn well_formed(r: &Value) {
    assert_eq!(text(r, "/schema"), "rocegen-result-1");
    assert!(["pass", "fail", "interrupted"].contains(&text(r, "/verdict")));
    assert_eq!(r["balanced"], true, "{:#}", r["reasons"]);
    let words = ["rocegen", "dpdk", "cpu", "kernel", "memory", "clock/source"];
    for word in words.map(|w| format!("/environment/{w}")).iter().chain([&"/scenario".to_owned()]) {
        assert!(!text(r, word).is_empty(), "{word}");
    }
    for number in ["/seed", "/environment/cores", "/environment/clock/hz"] {
        int(r, number);
    }
    assert!(float(r, "/environment/clock/drift_ppm").abs() < 1000.0);
    for flow in list(r, "/flows") {
        flow_is_well_formed(flow);
    }
    for port in list(r, "/ports") {
        text(port, "/name");
        text(port, "/device");
        text(port, "/driver");
        let dropped = port["rx_dropped"].as_object().expect("reasons");
        let dropped: u64 = dropped.values().map(|n| n.as_u64().expect("a count")).sum();
        let fates = int(port, "/delivered") + int(port, "/answered") + dropped;
        assert_eq!(int(port, "/rx_packets"), fates, "every frame has one fate: {port:#}");
        assert!(int(port, "/tx_bytes") >= 60 * int(port, "/tx_packets"));
    }
    for worker in list(r, "/workers") {
        assert!((0.0..=100.0).contains(&float(worker, "/busy_pct")), "{worker:#}");
        assert!(int(worker, "/idle_turns") <= int(worker, "/turns"));
        int(worker, "/core");
    }
    for e in list(r, "/expectations") {
        assert!(e["flow"].is_null() || e["flow"].is_string());
        assert!(e["metric"].is_string() && e["want"].is_string() && e["pass"].is_boolean());
        assert!(e["got"].is_number() || e["got"].is_null());
    }
}

fn flow_is_well_formed(flow: &Value) {
    let size = int(flow, "/size_bytes");
    let messages = int(flow, "/messages");
    for word in ["name", "verb", "transport"] {
        assert!(!text(flow, &format!("/{word}")).is_empty());
    }
    for count in ["qps", "depth", "mtu"] {
        assert!(int(flow, &format!("/{count}")) > 0);
    }
    // Where sizes differ, `size_bytes` is the largest.
    if flow["sizes"].is_null() {
        assert_eq!(int(flow, "/bytes"), messages * size);
    }
    let [rate, packets, goodput, l2, l1, elapsed] =
        ["message_rate", "packet_rate", "goodput_gbps", "l2_gbps", "l1_gbps", "elapsed_s"]
            .map(|m| float(flow, &format!("/{m}")));
    assert!(rate * elapsed <= messages as f64 * (1.0 + 1e-9), "the drain is in no rate: {flow:#}");
    let near = |got: f64, want: f64| (got - want).abs() <= want.abs() * 1e-9;
    let fixed = flow["sizes"].is_null();
    assert!(!fixed || near(goodput, rate * size as f64 * 8.0 / 1e9), "{flow:#}");
    // FCS, preamble and gap are 24 B a packet.
    assert!(near(l1 - l2, packets * 24.0 * 8.0 / 1e9) || rate == 0.0, "{flow:#}");
    assert!(goodput <= l2 && l2 <= l1);
    match flow["line_rate_gbps"].as_f64() {
        Some(line) => assert!(near(float(flow, "/line_rate_pct"), l1 / line * 100.0)),
        None => assert!(flow["line_rate_gbps"].is_null() && flow["line_rate_pct"].is_null()),
    }
    let counters = flow["counters"].as_object().expect("counters");
    for name in
        ["out_of_sequence", "packet_seq_err", "duplicate_request", "local_ack_timeout_err", "retransmits"]
    {
        assert!(counters.contains_key(name), "{name}");
    }
    assert_eq!(counters["retransmits"], flow["retransmits"]);
    if flow["latency_ns"].is_null() {
        assert_eq!(messages, 0, "{flow:#}");
        return;
    }
    assert_eq!(int(flow, "/latency_ns/count"), messages, "every message is recorded: {flow:#}");
    let steps = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"]
        .map(|p| int(flow, &format!("/latency_ns/{p}")));
    assert!(steps.is_sorted(), "{steps:?}");
    let mean = float(flow, "/latency_ns/mean");
    assert!(steps[0] as f64 <= mean && mean <= steps[6] as f64, "{mean} {steps:?}");
}

/// What one port sent, the other got; and nobody dropped anything.
fn frames_balance(r: &Value) {
    let (a, b) = (&r["ports"][0], &r["ports"][1]);
    for (from, to) in [(a, b), (b, a)] {
        assert!(int(from, "/tx_packets") > 0);
        assert_eq!(int(from, "/tx_packets"), int(to, "/rx_packets"));
        assert_eq!(int(from, "/tx_bytes"), int(to, "/rx_bytes"));
        assert_eq!(to["rx_dropped"], serde_json::json!({}));
        assert_eq!(int(to, "/rx_missed"), 0);
    }
}

#[test]
fn loopback() {
    let _machine = Machine::take();
    let result = judge(&short("loopback.toml", &["single"], &["--json"]), 1);
    frames_balance(&result);
    let flow = &result["flows"][0];
    let all = int(flow, "/messages") + int(flow, "/messages_warmup");
    assert_eq!(int(flow, "/messages_verified"), all, "verify is on");
    assert_eq!(int(flow, "/messages_received"), all);
    assert_eq!(float(flow, "/line_rate_gbps"), 100.0);
    assert_eq!(list(&result, "/expectations").len(), 3);
}

#[test]
fn line_rate_100g() {
    let _machine = Machine::take();
    // How fast it is, is for the benches: here, that it is no faster than it is told to be.
    let paced = ["--set", "expect=[]", "--set", "flow.single.rate=100%", "--json"];
    let result = judge(&short("line-rate-100g.toml", &["single"], &paced), 1);
    frames_balance(&result);
    assert!(float(&result, "/flows/0/line_rate_pct") <= 100.1, "{:#}", result["flows"]);
}

#[test]
fn null_tx() {
    let _machine = Machine::take();
    let result = judge(&short("null-tx.toml", &[], &["--json"]), 1);
    let (flow, port) = (&result["flows"][0], &result["ports"][0]);
    assert_eq!(list(&result, "/ports").len(), 1, "nobody is no port of ours");
    assert!(flow["messages_received"].is_null(), "nobody told");
    // 64 messages of 64 KiB are 64 packets each.
    let all = int(flow, "/messages") + int(flow, "/messages_warmup");
    assert_eq!(int(port, "/tx_packets"), all * 64);
}

#[test]
fn latency() {
    let _machine = Machine::take();
    let result = judge(&short("latency.toml", &["ping"], &["--json"]), 1);
    frames_balance(&result);
    assert!(result["flows"][0]["line_rate_pct"].is_null(), "nothing says what the line rate is");
    let flow = &result["flows"][0];
    // Depth 1: a request and an answer for each message.
    let all = int(flow, "/messages") + int(flow, "/messages_warmup");
    assert_eq!(int(&result, "/ports/0/tx_packets"), all);
    assert_eq!(int(&result, "/ports/1/tx_packets"), all);
}

#[test]
fn mixed_verbs() {
    let _machine = Machine::take();
    let flows = ["write", "write_imm", "send", "send_imm", "read"];
    let result = judge(&short("mixed-verbs.toml", &flows, &["--json"]), 5);
    frames_balance(&result);
    for (flow, verb) in list(&result, "/flows").iter().zip(flows) {
        assert_eq!(text(flow, "/verb"), verb);
        let all = int(flow, "/messages") + int(flow, "/messages_warmup");
        assert_eq!(int(flow, "/messages_verified"), all, "{verb}");
    }
}

#[test]
fn mixed_sizes() {
    let _machine = Machine::take();
    let result = judge(&short("mixed-sizes.toml", &["mix"], &["--json", "--set", "flow.mix.load=5%"]), 1);
    let flow = &list(&result, "/flows")[0];
    assert_eq!((text(flow, "/verb"), list(flow, "/mix").len()), ("mixed", 5));
    assert_eq!(int(flow, "/messages_verified"), int(flow, "/messages_received"));
    for kind in list(flow, "/mix") {
        assert!(int(kind, "/messages") > 0, "{kind:#}");
    }
}

#[test]
fn websearch_open_loop() {
    let _machine = Machine::take();
    let more =
        ["--json", "--set", "run.line_rate=1Gbps", "--set", "flow.search.sizes={cdf=\"workloads/rpc.txt\"}"];
    let result = judge(&short("websearch-open-loop.toml", &["search"], &more), 1);
    let flow = &list(&result, "/flows")[0];
    // Fifteen thousand messages.
    assert!(float(flow, "/sizes/ks_distance") < 0.02, "{flow:#}");
    // Some of the warm-up were under way when measuring began.
    let posted = int(flow, "/post_delay_ns/count");
    assert!(posted <= int(flow, "/sizes/count") && posted + 512 >= int(flow, "/sizes/count"), "{flow:#}");
    assert!(int(flow, "/latency_ns/p50") >= int(flow, "/post_delay_ns/p50"));
    assert!(list(flow, "/by_size").iter().all(|b| float(b, "/slowdown/p99") >= float(b, "/slowdown/p50")));
}

#[test]
fn allreduce_ring() {
    let _machine = Machine::take();
    let more = ["--json", "--set", "flow.ring.iterations=2"];
    let ended =
        run([&["run", "configs/allreduce-ring.toml", "--set", "flow.ring.ack_timeout=20"], &more[..]]
            .concat());
    let result = ended.result(0);
    well_formed(&result);
    let c = &list(&result, "/collectives")[0];
    assert_eq!((text(c, "/pattern"), int(c, "/ranks"), int(c, "/steps")), ("all-reduce", 4, 6));
    assert_eq!(float(c, "/iterations"), 2.0, "{c:#}");
    // 2 (n - 1) / n of the buffer by the measured time.
    let bus = int(c, "/bytes") as f64 * 8.0 / float(c, "/time_mean_ns") * 6.0 / 4.0;
    assert!((float(c, "/bus_gbps") / bus - 1.0).abs() < 1e-9, "{c:#}");
    let bytes: u64 = list(&result, "/flows").iter().map(|f| int(f, "/bytes")).sum();
    assert_eq!(bytes, 2 * 6 * int(c, "/bytes"), "each rank sends 6 quarters of the buffer, twice");
}

/// Messages are posted when the trace has them, as far as the workers have their cores to themselves;
/// and where they do not, no later than they were away.
#[test]
fn replay() {
    const MS: u64 = 1_000_000;
    let _machine = Machine::take();
    // Others may have had the cores the first time.
    for _ in 0..3 {
        let result = run(["run", "configs/replay.toml", "--json"]).result(0);
        well_formed(&result);
        let flows = list(&result, "/flows");
        assert_eq!(flows.iter().map(|f| int(f, "/messages")).sum::<u64>(), 2000);
        let away = list(&result, "/workers").iter().map(|w| int(w, "/longest_turn_ns")).max().unwrap();
        for flow in flows {
            assert_eq!(int(flow, "/post_delay_ns/count"), int(flow, "/messages"), "all of them: {flow:#}");
            let late = int(flow, "/post_delay_ns/p50");
            assert!(
                late <= if away < MS { 10_000 } else { away },
                "{late} ns in the median, away for {away} ns"
            );
        }
        if away < MS {
            return;
        }
    }
}

/// What was recorded is learnt from the recording: the same messages on as many queue pairs.
#[test]
fn a_recording_is_replayed() {
    let _machine = Machine::take();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.pcapng");
    let file = file.to_str().unwrap();
    let keys = ["run.duration=100ms", "run.warmup=0s", "flow.mix.load=2%", "flow.mix.ack_timeout=20"];
    let mut args =
        vec!["run", "configs/mixed-sizes.toml", "--json", "--pcap", file, "--pcap-count", "1000000"];
    args.extend(keys.iter().flat_map(|k| ["--set", k]));
    let recorded = run(&args).result(0);
    let replayed = run([
        "sim",
        "configs/replay.toml",
        "--json",
        "--set",
        &format!("replay.file={file:?}"),
        "--set",
        "replay.loops=1",
        "--set",
        "replay.time_scale=1.0",
        "--set",
        "replay.ports=\"traces/addresses.txt\"",
    ]);
    let replayed = replayed.result(0);
    let (a, b) = (&list(&recorded, "/flows")[0], &list(&replayed, "/flows")[0]);
    assert_eq!(list(&replayed, "/flows").len(), 1);
    for same in ["/messages", "/bytes", "/qps"] {
        assert_eq!(int(a, same), int(b, same), "{same}");
    }
    for (a, b) in list(a, "/mix").iter().zip(list(b, "/mix")) {
        assert_eq!(int(a, "/messages") > 0, int(b, "/messages") > 0);
    }
}

#[test]
fn datagrams() {
    let _machine = Machine::take();
    let result = judge(&short("datagrams.toml", &["ud", "ud_imm"], &["--json"]), 2);
    frames_balance(&result);
    for flow in list(&result, "/flows") {
        assert_eq!(text(flow, "/transport"), "ud");
        let all = int(flow, "/messages") + int(flow, "/messages_warmup");
        assert_eq!(int(flow, "/messages_verified"), all, "{flow:#}");
        assert_eq!(int(flow, "/counters/tx_data_packets"), all, "a packet each");
        assert_eq!(int(flow, "/counters/acks_sent") + int(flow, "/counters/out_of_buffer"), 0);
    }
}

#[test]
fn receive_queues() {
    let _machine = Machine::take();
    let result = judge(&short("receive-queues.toml", &["shared", "credits"], &["--json"]), 2);
    frames_balance(&result);
    for flow in list(&result, "/flows") {
        let all = int(flow, "/messages") + int(flow, "/messages_warmup");
        assert_eq!(int(flow, "/messages_verified"), all, "{flow:#}");
    }
}

/// What goes wrong on the way is made up for; the verdict is about messages.
#[test]
fn impaired_loopback() {
    let _machine = Machine::take();
    let flows = ["write", "write_imm", "send", "send_imm", "read"];
    let file = "configs/impaired-loopback.toml";
    let ended = run(["run", file, "--json", "--set", "run.duration=500ms", "--set", "run.drain=60s"]);
    let result = ended.result(0);
    well_formed(&result);
    assert_eq!(list(&result, "/flows").len(), flows.len());
    for flow in list(&result, "/flows") {
        assert_eq!(int(flow, "/verify_errors") + int(flow, "/messages_failed"), 0, "{flow:#}");
        assert_eq!(int(flow, "/messages_verified"), int(flow, "/messages"), "{flow:#}");
    }
}

#[test]
fn dcqcn_loopback() {
    let _machine = Machine::take();
    // How close it comes on a machine that is busy with other things is up to the machine.
    let more = ["--set", "expect=[]", "--json"];
    let result = judge(&short("dcqcn-loopback.toml", &["reacts"], &more), 1);
    let [reacts] = list(&result, "/flows") else { panic!("a flow") };
    assert_eq!(text(reacts, "/cc"), "dcqcn");
    let count = |name: &str| int(reacts, &format!("/counters/{name}"));
    assert!(count("np_cnp_sent") > 0);
    assert_eq!(count("np_cnp_sent"), count("rp_cnp_handled"));
    assert_eq!((count("retransmits"), count("rp_cnp_ignored")), (0, 0));
    assert!(int(reacts, "/dcqcn/cuts") > 0 && int(reacts, "/packet_gap_ns/count") > 0);
    let rate = float(reacts, "/l1_gbps");
    assert!(rate < 10.1, "{rate} Gb/s at a bottleneck of 10 Gb/s");
    // A worker without a core sends nothing, whatever it is allowed to.
    let away = list(&result, "/workers").iter().map(|w| int(w, "/longest_turn_ns")).max();
    if away.is_some_and(|ns| ns < 200_000) {
        assert!(rate > 9.0, "{rate} Gb/s at a bottleneck of 10 Gb/s, {away:?}");
    }
}

/// One flow reacts to marks, the other does not care.
#[test]
fn each_flow_has_its_own_congestion_control() {
    let _machine = Machine::take();
    let file = "gen/tests/data/two-controls.toml";
    let times = ["--set", "run.duration=300ms", "--set", "run.warmup=50ms", "--set", "run.drain=30s"];
    let patient = ["--set", "flow.reacts.ack_timeout=20", "--set", "flow.steady.ack_timeout=20"];
    let args = ["run", file, "--json", "--set", "expect=[]"].into_iter().chain(times).chain(patient);
    let result = run(args).result(0);
    let [reacts, steady] = list(&result, "/flows") else { panic!("two flows") };
    assert_eq!((text(reacts, "/cc"), text(steady, "/cc")), ("dcqcn", "none"));
    let count = |flow: &Value, name: &str| int(flow, &format!("/counters/{name}"));
    assert!(count(reacts, "np_cnp_sent") > 0);
    assert_eq!(count(reacts, "np_cnp_sent"), count(reacts, "rp_cnp_handled"));
    assert_eq!(count(steady, "np_cnp_sent"), count(steady, "rp_cnp_ignored"));
    assert!(int(reacts, "/dcqcn/cuts") > 0 && steady.get("dcqcn").is_none());
    assert!(int(steady, "/packet_gap_ns/count") > 0);
}

#[test]
fn rocev1() {
    let _machine = Machine::take();
    let ended = short("rocev1.toml", &["write", "read", "send"], &["--json"]);
    let result = judge(&ended, 3);
    for port in list(&result, "/ports") {
        assert_eq!(port["rx_dropped"].as_object().map(|dropped| dropped.len()), Some(0), "{port:#}");
    }
}

/// Each file is tested: here, by `sim.rs` or, where it needs root, by `scripts/test-namespaces`.
#[test]
fn no_file_is_left_out() {
    let entries = std::fs::read_dir(crate::common::root().join("configs")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n.ends_with(".toml")).collect();
    names.sort();
    let here = [
        "allreduce-ring",
        "datagrams",
        "dcqcn-loopback",
        "impaired-loopback",
        "latency",
        "line-rate-100g",
        "loopback",
        "mixed-sizes",
        "mixed-verbs",
        "null-tx",
        "receive-queues",
        "replay",
        "rocev1",
        "websearch-open-loop",
    ];
    let elsewhere = [
        "loss-cliff",
        "tap",
        "dcqcn-two-flows",
        "convergence",
        "hpcc-two-flows",
        "roce-and-tcp",
        "incast-16",
        "victim-flow",
        "pfc-storm",
        "ecmp-entropy",
        "cluster-200",
        "stall",
        "replay-incast",
        "allreduce-64",
    ];
    let mut known: Vec<String> = here.iter().chain(&elsewhere).map(|n| format!("{n}.toml")).collect();
    known.sort();
    assert_eq!(names, known);
}

#[test]
fn quiet_says_nothing_and_the_table_is_for_people() {
    let _machine = Machine::take();
    let ended = short("latency.toml", &["ping"], &["-q"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "");
    for word in
        ["L1 Gb/s", "L2 Gb/s", "goodput", "p50", "p99.99", "ping", "ring:0", "ok   run: messages_failed"]
    {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    assert!(ended.stdout.ends_with("verdict: pass\n"), "{}", ended.stdout);
}

#[test]
fn an_expectation_that_does_not_hold_sets_the_exit_code() {
    let _machine = Machine::take();
    let ended = short(
        "latency.toml",
        &["ping"],
        &["--json", "--set", "expect.0.latency_min=<= 1ns", "--set", "expect.0.flow=ping"],
    );
    let result = ended.result(1);
    well_formed(&result);
    assert_eq!(text(&result, "/verdict"), "fail");
    let failed: Vec<&Value> = list(&result, "/expectations").iter().filter(|e| e["pass"] == false).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((text(failed[0], "/metric"), text(failed[0], "/flow")), ("latency_min", "ping"));
    assert!(float(failed[0], "/got") > 1.0);
    assert_eq!(list(&result, "/reasons").len(), 1, "{:#}", result["reasons"]);
}
