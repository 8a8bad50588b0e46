//! Runs that end by count, by time, by failure, or without a message.

use crate::common::{Folder, Machine, float, flow, int, list, ring_pair, run, text, two_ports};
use crate::configs::well_formed;
use serde_json::Value;
use std::collections::BTreeSet;

fn json(scenario: &str, code: i32) -> Value {
    let folder = Folder::new();
    let file = folder.write("x.toml", scenario);
    let result = run(["run", &file, "--json"]).result(code);
    well_formed(&result);
    result
}

/// Two ports that throw everything away: nobody answers.
fn nobody_answers(run: &str, flows: &str) -> String {
    two_ports(run, ("net_null0", "198.18.0.1", ""), ("net_null1", "198.18.0.2", ""), flows)
}

/// R16.
#[test]
fn every_queue_pair_sends_its_messages_whatever_the_depth() {
    let _machine = Machine::take();
    for (depth, qps, messages) in [(128, 1, 1001), (128, 8, 1001), (128, 8, 100), (7, 3, 1001)] {
        for verb in ["write", "send", "read"] {
            let keys =
                format!("size = 8\ndepth = {depth}\nqps = {qps}\nmessages = {messages}\nverify = true");
            let result = json(&ring_pair("seed = 1", &flow("f", verb, &keys)), 0);
            let f = &result["flows"][0];
            assert_eq!(int(f, "/messages"), qps * messages, "{verb} {keys}");
            assert_eq!(
                int(f, "/messages_received"),
                if verb == "read" { qps * messages } else { int(f, "/messages") }
            );
            assert_eq!(int(f, "/messages_verified"), qps * messages, "{verb} {keys}");
            assert_eq!(int(f, "/latency_ns/count"), qps * messages, "{verb} {keys}");
            assert!(float(f, "/elapsed_s") > 0.0 && float(f, "/message_rate") > 0.0, "{f:#}");
        }
    }
}

/// The memory that nobody has asked for by number is enough for the most ports there can be.
#[test]
fn as_many_ports_as_a_mesh_can_have() {
    let _machine = Machine::take();
    let mut scenario = "[run]\nshare_cores = true\n".to_string();
    for i in 0..16 {
        scenario += &format!("[[port]]\nname = \"m{i}\"\ndevice = \"mesh:0\"\nip = \"198.18.0.{}\"\n", i + 1);
    }
    scenario += "[[flow]]\nname = \"x\"\namong = \"m[0-15]\"\npattern = \"ring\"\nverb = \"write\"\nsize = \"64KiB\"\n\
                 messages = 2\ndepth = 1\nack_timeout = 20\n";
    let result = json(&scenario, 0);
    let messages: Vec<u64> = list(&result, "/flows").iter().map(|f| int(f, "/messages")).collect();
    assert_eq!(messages, [2; 16]);
}

#[test]
fn each_queue_pair_sends_as_many_as_it_was_told() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let pcap = folder.path("x.pcapng");
    let keys = "size = 8\ndepth = 128\nqps = 8\nmessages = 101";
    let file = folder.write("x.toml", &ring_pair("seed = 1", &flow("f", "send", keys)));
    run(["run", &file, "--json", "--pcap", &pcap, "--pcap-direction", "tx"]).result(0);
    let Some(frames) = crate::capture::frames(&pcap) else { return };
    let mut by_qp = std::collections::BTreeMap::new();
    for f in frames.iter().filter(|f| f.interface == 0) {
        *by_qp.entry(f.dest_qp).or_insert(0) += 1;
    }
    assert_eq!(by_qp.into_values().collect::<Vec<_>>(), [101; 8]);
}

/// R06.
#[test]
fn by_time_or_by_count_the_result_has_the_same_fields() {
    fn fields(prefix: &str, v: &Value, out: &mut BTreeSet<String>) {
        match v {
            Value::Object(map) => map.iter().for_each(|(k, v)| fields(&format!("{prefix}/{k}"), v, out)),
            Value::Array(list) => list.iter().for_each(|v| fields(&format!("{prefix}/*"), v, out)),
            _ => drop(out.insert(prefix.to_owned())),
        }
    }
    let _machine = Machine::take();
    let keys = "size = 64\nrate = \"10kmsg/s\"";
    let by_time = json(&ring_pair("duration = \"200ms\"", &flow("f", "send", keys)), 0);
    let by_count = json(&ring_pair("", &flow("f", "send", &format!("{keys}\nmessages = 2000"))), 0);
    let mut sets = [BTreeSet::new(), BTreeSet::new()];
    fields("", &by_time, &mut sets[0]);
    fields("", &by_count, &mut sets[1]);
    assert_eq!(sets[0], sets[1]);
    assert_eq!(int(&by_count, "/flows/0/messages"), 2000);
    // Due at 0, 100, 200 us: the last of 2000 is due after 199.9 ms, and none is posted early.
    assert!(float(&by_count, "/flows/0/elapsed_s") >= 0.1999, "{}", by_count["flows"][0]["elapsed_s"]);
    assert!(float(&by_time, "/flows/0/elapsed_s") >= 0.2);
    // Nothing is posted after the time: what is due in 200 ms, and one more of the turn that ends it.
    let elapsed = float(&by_time, "/flows/0/elapsed_s") + 0.2;
    assert!(int(&by_time, "/flows/0/messages") as f64 <= elapsed * 10_000.0);
}

#[test]
fn time_or_count_whichever_comes_first() {
    let _machine = Machine::take();
    let keys = "size = 64\nmessages = 50";
    let result = json(&ring_pair("duration = \"1m\"", &flow("f", "write", keys)), 0);
    assert_eq!(int(&result, "/flows/0/messages"), 50);
    assert!(float(&result, "/flows/0/elapsed_s") < 30.0);
    let keys = "size = 64\nrate = \"100msg/s\"\nmessages = 100000";
    let result = json(&ring_pair("duration = \"100ms\"", &flow("f", "write", keys)), 0);
    assert!((1..1000).contains(&int(&result, "/flows/0/messages")), "{:#}", result["flows"]);
}

/// H07.
#[test]
fn no_message_no_latency() {
    let _machine = Machine::take();
    let keys = "size = 64\nrate = \"0.01msg/s\"";
    let scenario = ring_pair("duration = \"100ms\"\nwarmup = \"500ms\"", &flow("f", "write", keys));
    let result = json(&scenario, 0);
    let f = &result["flows"][0];
    assert_eq!((int(f, "/messages"), int(f, "/messages_warmup")), (0, 1));
    assert!(f["latency_ns"].is_null());
    assert_eq!(float(f, "/l1_gbps"), 0.0);
    let folder = Folder::new();
    let file = folder.write("x.toml", &scenario);
    let out = folder.path("out");
    let table = run(["run", &file, "--out", &out]);
    assert_eq!(table.code(), Some(0), "{}", table.stderr);
    assert!(table.stdout.contains("no samples"), "{}", table.stdout);
    // What does not exist is not below any bound.
    let ended = run(["run", &file, "--json", "--set", "expect=[{latency_p99 = \"<= 1h\"}]"]);
    let result = ended.result(1);
    assert_eq!(result["expectations"][0]["pass"], false);
    assert!(result["expectations"][0]["got"].is_null());
}

/// Q11.
#[test]
fn a_run_ends_when_all_its_queue_pairs_have_failed() {
    let _machine = Machine::take();
    let keys = "size = 3000\nmtu = 1024\nqps = 4\ndepth = 8\nmessages = 100000\nretry_cnt = 1";
    let flows = flow("f", "write", keys).replace("ack_timeout = 20", "ack_timeout = 16");
    let result = json(&nobody_answers("", &flows), 1);
    let f = &result["flows"][0];
    assert_eq!((int(f, "/messages"), int(f, "/messages_failed")), (0, 4 * 8), "{f:#}");
    assert_eq!(int(f, "/messages_outstanding"), 0);
    // Each of the 8 messages is 3 packets, sent twice.
    assert_eq!(int(f, "/retransmits"), 4 * 8 * 3);
    assert_eq!(int(&result, "/ports/0/tx_packets"), 2 * 4 * 8 * 3);
    assert_eq!(text(&result, "/verdict"), "fail");
    let reason = list(&result, "/reasons")[0].as_str().unwrap();
    for part in ["flow \"f\"", "32 messages failed", "4 queue pairs", "RETRY_EXC", "198.18.0.2", "QPN"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// Q09.
#[test]
fn a_timer_that_never_fires_does_not_keep_the_run_from_ending() {
    let _machine = Machine::take();
    let flows = flow("f", "write", "size = 8\ndepth = 5").replace("ack_timeout = 20", "ack_timeout = 0");
    let result = json(&nobody_answers("duration = \"200ms\"\ndrain = \"100ms\"", &flows), 1);
    let f = &result["flows"][0];
    assert_eq!((int(f, "/messages_outstanding"), int(f, "/retransmits")), (5, 0), "{f:#}");
    let reasons = list(&result, "/reasons");
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].as_str().unwrap().contains("5 messages were unacknowledged"), "{reasons:?}");
}

/// One core, two endpoints; and several workers for a port.
#[test]
fn cores_are_shared_as_told() {
    let _machine = Machine::take();
    let keys = "size = 5000\nmtu = 1024\nqps = 4\nmessages = 50\nverify = true";
    let flows: String = ["write", "send_imm", "read"].map(|verb| flow(verb, verb, keys)).concat();
    for (shared, a, b, workers) in
        [(true, "[0]", "[0]", 1), (false, "[0]", "[1]", 2), (true, "[0, 1]", "[1]", 2)]
    {
        let port = |device, ip, cores: &str| (device, ip, format!("cores = {cores}"));
        let (a, b) = (port("ring:0", "198.18.0.1", a), port("ring:0", "198.18.0.2", b));
        let scenario =
            two_ports(&format!("share_cores = {shared}"), (a.0, a.1, &a.2), (b.0, b.1, &b.2), &flows);
        if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 && workers > 1 {
            println!("skipped: one core");
            continue;
        }
        let result = json(&scenario, 0);
        assert_eq!(list(&result, "/workers").len(), workers, "{:#}", result["workers"]);
        for f in list(&result, "/flows") {
            assert_eq!(int(f, "/messages_verified"), 200, "{f:#}");
        }
    }
}

/// X02: everything random comes from the seed.
#[test]
fn a_seed_makes_the_same_run_again() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = folder.write("x.toml", &ring_pair("", &flow("f", "write", "size = 8\nqps = 3\nmessages = 2")));
    let numbers = |seed: &str| {
        let pcap = folder.path("x.pcapng");
        let seed = format!("run.seed={seed}");
        let mut args = vec!["run", &file, "--json", "--pcap", &pcap, "--pcap-direction", "tx"];
        if !seed.ends_with('=') {
            args.extend(["--set", &seed]);
        }
        let result = run(args).result(0);
        let frames = crate::capture::frames(&pcap)?;
        let of_a: BTreeSet<_> =
            frames.iter().filter(|f| f.interface == 0).map(|f| (f.dest_qp, f.psn)).collect();
        Some((int(&result, "/seed"), of_a))
    };
    let (Some(one), Some(again), Some(two)) = (numbers("7"), numbers("7"), numbers("8")) else { return };
    assert_eq!(one, again);
    assert_ne!(one.1, two.1);
    let (drawn, other) = (numbers("").unwrap(), numbers("").unwrap());
    assert_ne!(drawn, other, "without a seed one is drawn");
    assert_eq!(numbers(&drawn.0.to_string()).unwrap(), drawn, "the report names it");
}
