//! Scenarios in virtual time, and what goes wrong in them on purpose.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use roce_gen::config::{Override, Scenario};
use roce_gen::report::{FlowResult, Judged};
use roce_gen::sim::{Cliff, Point, simulate};
use std::path::Path;
use std::process::Command;

fn load(name: &str, changes: &[&str]) -> Scenario {
    let changes: Vec<Override> = changes.iter().map(|c| c.parse().unwrap()).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name);
    Scenario::load(&file, &changes).unwrap_or_else(|e| panic!("{e}"))
}

fn json(judged: &Judged) -> String {
    serde_json::to_string(&judged.result).unwrap()
}

fn cliff(changes: &[&str]) -> Cliff {
    let s = load("loss-cliff.toml", changes);
    let cliff = Cliff::of(&s, s.cliff.as_ref().unwrap(), true).unwrap();
    assert!(cliff.passed(), "{:?}", cliff.reasons);
    cliff
}

/// Five milliseconds with a timer of one, since no core is ever taken away in virtual time.
const SHORT: [&str; 6] = [
    "run.duration=5ms",
    "flow.write.ack_timeout=8",
    "flow.write_imm.ack_timeout=8",
    "flow.send.ack_timeout=8",
    "flow.send_imm.ack_timeout=8",
    "flow.read.ack_timeout=8",
];

#[test]
fn every_verb_survives_and_every_fault_is_found_again() {
    let s = load("impaired-loopback.toml", &SHORT);
    let run = || simulate(&s, true).unwrap();
    let first = run();
    assert!(first.result.passed(), "{:?}", first.result.reasons);
    let impairment = first.result.impairment.as_ref().unwrap();
    assert_eq!(impairment.agreement.len(), 4);
    assert!(impairment.agreement.iter().all(|a| a.agree));
    assert!(impairment.rules.iter().all(|r| r.injected > 0), "{:?}", impairment.rules);
    let verified: u64 = first.result.flows.iter().map(|f| f.messages_verified).sum();
    assert!(verified > 5000, "{verified}");
    // To the byte: the result, and which packet had what when.
    let second = run();
    assert_eq!(json(&first), json(&second));
    let events = |j: &Judged| j.run.injected.iter().flat_map(|i| i.events.clone()).collect::<Vec<_>>();
    assert_eq!(events(&first), events(&second));
    let other = load("impaired-loopback.toml", &[&SHORT[..], &["run.seed=8"]].concat());
    assert_ne!(events(&first), events(&simulate(&other, true).unwrap()));
}

#[test]
fn counts_that_do_not_agree_fail_the_run() {
    let s = load("impaired-loopback.toml", &["run.duration=1ms"]);
    let mut run = simulate(&s, true).unwrap().run;
    run.injected[0].by_rule[0] += 1;
    let judged = run.judged(&s);
    assert!(!judged.result.passed());
    let reason = &judged.result.reasons[0];
    assert!(reason.starts_with("injected faults: frames a -> b: sent"), "{reason}");
}

/// Goodput is what the closed form says, wherever neither window nor timer plays a part.
#[test]
fn the_cliff_is_where_the_closed_form_has_it() {
    let cliff = cliff(&[
        "run.duration=60ms",
        "cliff.loss=[\"0\", \"1e-4\", \"1e-3\", \"1e-2\"]",
        "cliff.round_trip=[\"10us\", \"50us\"]",
        "cliff.recovery=[\"go-back-n\"]",
    ]);
    for p in &cliff.points {
        let off = (p.relative_pct / p.closed_form_pct - 1.0).abs();
        assert!(off < 0.1 && !p.window_limits, "{:.1} % off: {p:?}", off * 100.0);
    }
    let at = |mtu: usize, us: u64, loss: f64| -> &Point {
        let found = |p: &&Point| p.mtu == mtu && p.round_trip_ns == us * 1000 && p.loss == loss;
        cliff.points.iter().find(found).unwrap()
    };
    let (clean, cut) = (at(1024, 50, 0.0), at(1024, 50, 1e-2));
    assert!((clean.line_rate_pct - 98.0).abs() < 0.1, "{clean:?}");
    assert!(cut.line_rate_pct < 30.0, "{cut:?}");
    for t in &cliff.tails {
        // A packet from the middle costs a round trip more; the last one the timer.
        let more = t.middle_lost_ns - t.clean_ns;
        assert!((t.round_trip_ns..t.round_trip_ns + 2_000).contains(&more), "{t:?}");
        assert!(t.last_lost_ns >= t.clean_ns + t.ack_timeout_ns - t.round_trip_ns, "{t:?}");
        assert!(t.last_lost_ns <= t.clean_ns + t.ack_timeout_ns + 2 * t.round_trip_ns, "{t:?}");
        assert!(t.last_lost_slow_ns >= t.slow_ack_timeout_ns, "{t:?}");
    }
}

/// Where go-back-N falls, selective repeat stays up, and hardly anything is sent in vain.
#[test]
fn selective_repeat_keeps_the_rate() {
    let cliff = cliff(&["run.duration=8ms", "cliff.loss=[\"0\", \"1e-3\", \"1e-2\"]"]);
    let of = |recovery: &'static str| cliff.points.iter().filter(move |p| p.recovery == recovery);
    assert_eq!((of("go-back-n").count(), of("selective-repeat").count()), (18, 18));
    for p in of("selective-repeat") {
        assert!(p.relative_pct > 97.0, "{p:?}");
        assert!(p.loss == 0.0 || p.lost > 0, "{p:?}");
        assert_eq!(p.in_vain, 0, "{p:?}");
        // Every packet that is lost leaves again, once each time.
        assert_eq!((p.resent, p.timeouts), (p.lost, 0), "{p:?}");
    }
    for (n, s) in of("go-back-n").zip(of("selective-repeat")).filter(|(n, _)| n.loss == 1e-2) {
        assert!(n.relative_pct < 80.0 && n.resent > 10 * s.resent, "{n:?} {s:?}");
    }
    for t in cliff.tails.iter().filter(|t| t.recovery == "selective-repeat") {
        // What follows the lost packet is not sent again.
        let more = t.middle_lost_ns - t.clean_ns;
        assert!((t.round_trip_ns - 4_000..t.round_trip_ns + 1_000).contains(&more), "{t:?}");
        assert!(t.last_lost_ns >= t.clean_ns + t.ack_timeout_ns - t.round_trip_ns, "{t:?}");
    }
}

/// The stages of each loss, in the result, for both ways to recover.
#[test]
fn stages_of_a_recovery() {
    for recovery in ["go-back-n", "selective-repeat"] {
        let s = load(
            "loss-cliff.toml",
            &[
                "run.duration=5ms",
                "link.delay=5us",
                &format!("flow.single.recovery=\"{recovery}\""),
                "flow.single.ack_timeout=5",
                "impair=[{flow=\"single\", class=\"data\", loss=\"1e-3\"}]",
            ],
        );
        let result = simulate(&s, true).unwrap().result;
        assert!(result.passed(), "{:?}", result.reasons);
        let r = result.flows[0].recovery.as_ref().unwrap();
        let stage = |name: &str| r.stages_ns[name];
        assert_eq!(r.mode, recovery);
        assert!(r.resent > 5 && stage("gap_to_closed").count > 5, "{r:?}");
        // The NAK leaves when the gap is seen, or when the packet before it has left.
        assert!(stage("gap_to_nak").max < 100, "{r:?}");
        // Half a round trip for the NAK, half for what is sent again.
        let closed = stage("gap_to_closed");
        assert!(closed.p50 >= 10_000 && closed.p50 < 12_000, "{r:?}");
        // And half for the answer.
        let recovered = stage("nak_to_recovered");
        assert!(recovered.p50 >= 10_000 && recovered.p50 < 12_500, "{r:?}");
        assert!(stage("nak_to_resend").max < 1_000, "{r:?}");
        if recovery == "selective-repeat" {
            assert_eq!((r.in_vain, r.timeouts, stage("gap_to_closed").count), (0, 0, r.resent), "{r:?}");
        }
        let table = result.to_string();
        assert!(table.contains(recovery) && table.contains("gap to closed"), "{table}");
    }
}

#[test]
fn the_same_sweep_gives_the_same_files() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/loss-cliff.toml");
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in &dirs {
        let out = Command::new(env!("CARGO_BIN_EXE_rocegen"))
            .args(["sim", file, "--quiet", "--duration", "2ms", "--json"])
            .args(["--set", "cliff.loss=[0, 1e-3]", "--set", "cliff.round_trip=[\"10us\"]"])
            .arg("--out")
            .arg(dir.path())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(out.stderr.is_empty());
        let object: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&object["schema"], &object["verdict"]), (&"rocegen-cliff-1".into(), &"pass".into()));
        assert_eq!(object["points"].as_array().unwrap().len(), 8);
    }
    for name in ["cliff.json", "cliff.csv", "cliff.txt", "cliff.svg", "scenario.toml"] {
        let [a, b] = [0, 1].map(|i| std::fs::read(dirs[i].path().join(name)).unwrap());
        assert!(!a.is_empty() && a == b, "{name}");
    }
    let svg = std::fs::read_to_string(dirs[0].path().join("cliff.svg")).unwrap();
    for words in ["path MTU 1024", "path MTU 4096", "round trip 10us", "closed form"] {
        assert!(svg.contains(words), "{words}");
    }
}

#[test]
fn a_slow_link_drops_what_does_not_fit() {
    let changes = ["run.duration=2ms", "link.rate=40Gbps", "link.queue=100kB", "impair=[]", "expect=[]"];
    let s = load("impaired-loopback.toml", &changes);
    let judged = simulate(&s, true).unwrap();
    assert!(judged.result.passed(), "{:?}", judged.result.reasons);
    let sum =
        |value: fn(&roce_gen::report::FlowResult) -> f64| judged.result.flows.iter().map(value).sum::<f64>();
    let l1 = sum(|f| f.l1_gbps);
    // Both directions; what is sent twice is not in it.
    assert!(l1 > 20.0 && l1 < 80.0, "{l1}");
    assert!(judged.run.ports.iter().all(|p| p.tail_dropped > 0));
}

#[test]
fn what_virtual_time_has_no_cable_for() {
    let s = load("mixed-verbs.toml", &["run.duration=1ms"]);
    assert!(simulate(&s, true).unwrap().result.passed());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/hosts/client.toml");
    let out = Command::new(env!("CARGO_BIN_EXE_rocegen")).args(["sim", file, "-q"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(error.contains("in virtual time a port is one end of a ring"), "{error}");
}

/// Datagrams that are lost stay lost; the others are whole, and every PSN and frame is accounted
/// for.
#[test]
fn datagrams_in_virtual_time() {
    let s = load("datagrams.toml", &["run.duration=5ms", "run.warmup=0ms"]);
    let clean = simulate(&s, true).unwrap().result;
    assert!(clean.passed(), "{:?}", clean.reasons);
    for f in &clean.flows {
        assert!(f.messages > 1000 && f.messages_lost == 0, "{}: {}", f.name, f.messages);
        assert_eq!(f.messages_verified, f.messages);
    }
    let faults = ["run.seed=3", "impair=[{ flow = \"ud\", loss = \"1%\" }]"];
    let s =
        load("datagrams.toml", &[&["run.duration=5ms", "run.warmup=0ms", "expect=[]"][..], &faults].concat());
    let lossy = simulate(&s, true).unwrap().result;
    let [ud, imm] = &lossy.flows[..] else { panic!("two flows") };
    assert!(ud.messages_lost > 10, "{}", ud.messages_lost);
    assert_eq!((imm.messages_lost, imm.verify_errors), (0, 0), "the other flow has no faults");
    assert!(lossy.balanced, "{:?}", lossy.reasons);
}

/// Without a connection that keeps order, what comes twice or late is no wrong payload, and what comes
/// late was not lost.
#[test]
fn doubled_and_overtaken_messages_are_right() {
    let faults =
        |flow: &str| format!("impair=[{{ flow = \"{flow}\", duplicate = \"2%\", reorder = \"2%\" }}]");
    let short = ["run.duration=5ms", "run.warmup=0ms", "run.seed=3", "expect=[]"];
    let ud = load("datagrams.toml", &[&short[..], &[&faults("ud")]].concat());
    let ud = simulate(&ud, true).unwrap().result;
    let flow = &ud.flows[0];
    assert_eq!((flow.verify_errors, flow.messages_lost), (0, 0), "{:?}", flow.messages_received);
    let doubled = flow.messages_received.unwrap() - flow.messages;
    assert!(doubled > 10 && doubled < flow.messages / 20, "{doubled} of {}", flow.messages);
    assert!(ud.balanced, "{:?}", ud.reasons);
    for verb in ["send", "send_imm", "write", "write_imm"] {
        let changes =
            [&faults("single"), "flow.single.transport=uc", "flow.single.rate=5Gbps"].map(str::to_string);
        let changes = changes.iter().map(String::as_str).chain(short);
        let verb_of = format!("flow.single.verb={verb}");
        let changes: Vec<&str> =
            changes.chain(["flow.single.size=3000", "flow.single.mtu=1024", &verb_of]).collect();
        let uc = simulate(&load("loopback.toml", &changes), true).unwrap().result;
        let flow = &uc.flows[0];
        assert_eq!(flow.verify_errors, 0, "{verb}: {} of {}", flow.messages_lost, flow.messages);
        assert!(flow.messages_verified > flow.messages / 2, "{verb}: {} right", flow.messages_verified);
        assert!(uc.balanced, "{:?}", uc.reasons);
    }
}

/// A shared queue that runs dry delays messages and loses none; credits never let it come to that.
#[test]
fn receive_queues_in_virtual_time() {
    let short = ["run.duration=5ms", "run.warmup=0ms"];
    let run = |more: &[&str]| {
        let judged = simulate(&load("receive-queues.toml", &[&short[..], more].concat()), true).unwrap();
        assert!(judged.result.passed(), "{:?}", judged.result.reasons);
        judged.result.flows
    };
    let rnr = |f: &FlowResult| f.counters["rnr_naks_sent"];
    let enough = run(&[]);
    assert_eq!((rnr(&enough[0]), rnr(&enough[1])), (0, 0));
    let dry = run(&["flow.shared.srq=1", "flow.shared.rate=unlimited"]);
    assert!(rnr(&dry[0]) > 10, "{}", rnr(&dry[0]));
    assert_eq!(dry[0].messages_verified, dry[0].messages);
    assert!(dry[1].messages > 100);
}

/// The same file over live rings: other times, other losses, the same agreement.
#[test]
fn live_rings_with_faults() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/impaired-loopback.toml");
    let out = Command::new(env!("CARGO_BIN_EXE_rocegen"))
        .args(["run", file, "-q", "--json", "--no-huge", "--duration", "2s", "--set", "run.share_cores=true"])
        .output()
        .unwrap();
    let object: serde_json::Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)));
    // Where something else had the core for a second, timers ran out: that is not what is tested.
    let away =
        object["workers"].as_array().unwrap().iter().filter_map(|w| w["longest_turn_ns"].as_u64()).max();
    if away.is_some_and(|ns| ns < 500_000_000) {
        assert_eq!(out.status.code(), Some(0), "{}", object["reasons"]);
    }
    let agreement = object["impairment"]["agreement"].as_array().unwrap();
    assert!(agreement.iter().all(|a| a["agree"] == true), "{agreement:?}");
    assert!(object["impairment"]["rules"][0]["injected"].as_u64().unwrap() > 0);
}

/// One flow reacts to marks, the other, marked as well, does not; nothing is sent twice.
#[test]
fn c08_flows_choose_their_congestion_control() {
    let short = ["run.duration=500ms", "run.warmup=20ms"];
    let judged = simulate(&load("../gen/tests/data/two-controls.toml", &short), true).unwrap();
    assert!(judged.result.passed(), "{:?}", judged.result.reasons);
    let flow = |name: &str| judged.result.flows.iter().find(|f| f.name == name).unwrap();
    let (reacts, steady) = (flow("reacts"), flow("steady"));
    assert_eq!((reacts.cc, steady.cc), ("dcqcn", "none"));
    let dcqcn = reacts.dcqcn.as_ref().unwrap();
    assert!(dcqcn.cuts > 100 && dcqcn.limited_qps == 1 && dcqcn.alpha > 0.01, "{dcqcn:?}");
    assert!(dcqcn.rate_gbps <= dcqcn.target_gbps && dcqcn.target_gbps < 50.0, "{dcqcn:?}");
    assert!(steady.dcqcn.is_none() && steady.counters["np_cnp_sent"] == steady.counters["rp_cnp_ignored"]);
    assert!((steady.l1_gbps - 1.0).abs() < 0.0015, "{}", steady.l1_gbps);
    // 4202 bytes at 1 Gb/s.
    let gap = steady.packet_gap_ns.as_ref().unwrap();
    assert!(gap.mean.abs_diff(33_424) < 40 && gap.p50.abs_diff(33_424) < 2100, "{gap:?}");
    // p^3 = RAI / (K R^2) x (1/B + 1/(T R))^2 in packets of 4202 bytes: 24.1 Gb/s at 0.3 % of marks.
    assert!((20.0..29.0).contains(&reacts.l1_gbps), "{}", reacts.l1_gbps);
    // Unmarked, it takes what the line has.
    let clean = [&short[..], &["impair=[]", "expect=[]"]].concat();
    let judged = simulate(&load("../gen/tests/data/two-controls.toml", &clean), true).unwrap();
    assert!(judged.result.flows[0].l1_gbps > 95.0, "{}", judged.result.flows[0].l1_gbps);
    assert_eq!(judged.result.flows[0].dcqcn.as_ref().unwrap().cuts, 0);
}

/// A link of a quarter of the ports' rate whose queue marks: the sender settles at what it takes.
#[test]
fn a_sender_settles_at_a_bottleneck_that_marks() {
    let short = ["run.duration=200ms", "run.warmup=50ms"];
    let judged = simulate(&load("dcqcn-loopback.toml", &short), true).unwrap();
    assert!(judged.result.passed(), "{:?}", judged.result.reasons);
    let flow = &judged.result.flows[0];
    assert_eq!(flow.counters["np_cnp_sent"], flow.counters["rp_cnp_handled"]);
    assert!((9.5..=10.0).contains(&flow.l1_gbps), "{}", flow.l1_gbps);
}

/// RoCEv1 over a rough line: nothing is lost for good, and every frame is one.
#[test]
fn rocev1_survives_loss() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/rocev1.toml");
    let mut text = std::fs::read_to_string(file).unwrap();
    text = text.replace("retransmits = \"== 0\"", "retransmits = \"> 0\"").replace("5s", "5ms");
    text += "[[impair]]\nflow = \"write\"\nloss = \"1%\"\nduplicate = \"1%\"\ncorrupt = \"1%\"\n";
    text += "[[impair]]\nflow = \"read\"\nloss = \"1%\"\n[[impair]]\nflow = \"send\"\nloss = \"1%\"\n";
    let patient =
        ["write", "read", "send"].map(|f| format!("flow.{f}.ack_timeout=8").parse::<Override>().unwrap());
    let s = Scenario::parse(Path::new("rocev1.toml"), &text, &patient).unwrap_or_else(|e| panic!("{e}"));
    let judged = simulate(&s, true).unwrap();
    assert!(judged.result.passed(), "{:?}", judged.result.reasons);
    for flow in &judged.result.flows {
        assert!(flow.messages_verified > 10, "{}: {}", flow.name, flow.messages_verified);
    }
    for port in &judged.result.ports {
        assert!(!port.rx_dropped.contains_key("non_roce"), "{:?}", port.rx_dropped);
    }
    // 64 KiB at the largest path MTU: 16 packets, the GRH being 12 bytes longer than IPv4 and UDP.
    let plan = roce_gen::plan::FlowPlan::of(&s, &s.flows[0]);
    assert_eq!((plan.packets, plan.middle.unwrap().l2), (16, 14 + 40 + 12 + 4096 + 4));
}

/// Four queue pairs of one port at 250 Mb/s each, one packet in twenty of the third one's lost.
#[test]
fn l14_loss_on_one_queue_pair_leaves_the_others_alone() {
    let run = |lossy: bool| {
        let mut text = "[run]\nduration = \"20ms\"\nseed = 3\nline_rate = \"10Gbps\"\n".to_owned();
        for (port, ip) in [("a", "198.18.0.1"), ("b", "198.18.0.2")] {
            text += &format!("[[port]]\nname = \"{port}\"\ndevice = \"ring:0\"\nip = \"{ip}\"\n");
        }
        for flow in 0..4 {
            text += &format!(
                "[[flow]]\nname = \"f{flow}\"\nfrom = \"a\"\nto = \"b\"\nverb = \"write\"\nsize = 4096\n"
            );
            text += "mtu = 1024\nqps = 1\ndepth = 8\nrate = \"250Mbps\"\nack_timeout = 6\n";
        }
        if lossy {
            text += "[[impair]]\nflow = \"f2\"\nloss = \"5%\"\n";
        }
        let s = Scenario::parse(Path::new("l14.toml"), &text, &[]).unwrap_or_else(|e| panic!("{e}"));
        simulate(&s, true).unwrap().result.flows
    };
    let (clean, lossy) = (run(false), run(true));
    assert!(lossy[2].retransmits > 5, "{}", lossy[2].retransmits);
    for flow in [0, 1, 3] {
        assert_eq!(lossy[flow].retransmits, 0, "f{flow}");
        let rates = (lossy[flow].message_rate, clean[flow].message_rate);
        assert!((rates.0 / rates.1 - 1.0).abs() < 0.01, "f{flow}: {rates:?}");
        let p99 = |of: &[roce_gen::report::FlowResult]| of[flow].latency_ns.as_ref().unwrap().p99;
        assert!(p99(&lossy) <= 2 * p99(&clean), "f{flow}: {} {}", p99(&lossy), p99(&clean));
    }
}
