//! Scenarios with switches, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use roce_gen::config::{Override, Scenario};
use roce_gen::report::{FabricResult, FlowResult, Judged};
use roce_gen::sim::simulate;
use std::path::Path;
use std::process::Command;

fn run(name: &str, changes: &[&str]) -> Judged {
    let changes: Vec<Override> = changes.iter().map(|c| c.parse().unwrap()).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name);
    let s = Scenario::load(&file, &changes).unwrap_or_else(|e| panic!("{e}"));
    simulate(&s, true).unwrap()
}

fn passed(name: &str, changes: &[&str]) -> Judged {
    let judged = run(name, changes);
    assert!(judged.result.passed(), "{name} {changes:?}: {:?}", judged.result.reasons);
    judged
}

fn fabric(judged: &Judged) -> &FabricResult {
    judged.result.fabric.as_ref().unwrap()
}

fn goodput<'a>(judged: &'a Judged, table: &'a str) -> impl Iterator<Item = f64> + 'a {
    judged.result.flows.iter().filter(move |f| f.table() == table).map(|f| f.goodput_gbps)
}

/// The longest queue of a switch.
fn longest(judged: &Judged) -> u64 {
    fabric(judged).ports.iter().map(|p| p.queue_peak_bytes).max().unwrap()
}

#[test]
fn dcqcn_shares_a_port_fairly_and_fills_it() {
    let judged = passed("dcqcn-two-flows.toml", &[]);
    let flows = &judged.result.flows;
    assert_eq!(flows.len(), 2);
    assert!(flows.iter().all(|f| f.retransmits == 0));
    let series = judged.run.series.as_ref().unwrap();
    assert_eq!(series.rates.len(), 2);
    assert!(series.rates.iter().all(|r| r.control.last().unwrap().cnps > 10));
    assert!(longest(&judged) < 1_000_000);
}

/// What queues and pauses came to over time fits what ports have counted.
#[test]
fn queues_over_time() {
    let judged = passed("incast-16.toml", &["run.duration=2ms"]);
    let fabric = fabric(&judged);
    let queues = fabric.queues.as_ref().unwrap();
    let (spans, end) = (queues.ends_s.len(), *queues.ends_s.last().unwrap());
    assert!((100..=300).contains(&spans) && (end - 0.002).abs() < 1e-6, "{spans} {end}");
    assert!(queues.ends_s.is_sorted() && queues.pauses.len() == spans);
    let busiest = &queues.lines[0];
    let port = fabric.ports.iter().find(|p| (&p.name, &p.to) == (&busiest.name, &busiest.to)).unwrap();
    let most = *busiest.bytes.iter().max().unwrap();
    assert_eq!(port.queue_peak_bytes, longest(&judged), "the port that all send to");
    assert!(
        most <= port.queue_peak_bytes && most > port.queue_peak_bytes / 10,
        "{most} {}",
        port.queue_peak_bytes
    );
    assert!(queues.lines.iter().all(|l| l.bytes.len() == spans && l.bytes.iter().max() <= Some(&most)));
    let pauses = queues.pauses.iter().sum::<u64>();
    assert!(pauses <= fabric.pauses, "those of the warm-up are not in it: {pauses} {}", fabric.pauses);

    let storm = run("pfc-storm.toml", &[]);
    let queues = storm.result.fabric.as_ref().unwrap().queues.as_ref().unwrap();
    assert!(queues.pauses.iter().sum::<u64>() > 0);
}

/// Flows that begin later take their share from those that were there.
#[test]
fn flows_that_join_get_their_share() {
    let judged = passed("convergence.toml", &["run.warmup=150ms", "run.duration=50ms"]);
    let shares: Vec<f64> = ["first", "second"].iter().flat_map(|t| goodput(&judged, t)).collect();
    let fair = shares.iter().sum::<f64>() / 8.0;
    assert!(shares.len() == 8 && fair > 10.0, "{shares:?}");
    assert!(shares.iter().all(|s| (s / fair - 1.0).abs() < 0.1), "{shares:?}");
    // Before that nothing of them is seen.
    let series = judged.run.series.as_ref().unwrap();
    let at = |ms: u64| series.times.iter().position(|t| t.as_nanos() >= ms * 1_000_000).unwrap();
    let second = series.rates.iter().find(|r| r.flow == "second.0").unwrap();
    assert!(second.bytes[at(50)] == 0 && second.bytes[at(52)] > 0);
}

/// Two priorities of one port share it by their weights; what one loses, and is told, is its own.
#[test]
fn roce_and_tcp_stay_apart() {
    let judged = passed("roce-and-tcp.toml", &[]);
    let port = fabric(&judged).ports.iter().find(|p| p.name == "switch" && p.to == "h4").unwrap();
    let queue = |priority: u8| port.queues.iter().find(|q| q.priority == priority).unwrap();
    let (tcp, roce) = (queue(0), queue(3));
    assert!(tcp.dropped > 0 && tcp.marked == 0, "{tcp:?}");
    assert!(roce.dropped == 0 && roce.marked > 0, "{roce:?}");
    let shares = ["roce", "tcp"].map(|name| goodput(&judged, name).sum::<f64>());
    assert!(shares.iter().all(|s| (40.0..54.0).contains(s)), "{shares:?}");
    // Without the others each has all of the port, and RoCE alone is as it was.
    let alone = passed("roce-and-tcp.toml", &["flow.tcp.rate=1Gbps", "expect=[]"]);
    let both = goodput(&alone, "roce").sum::<f64>();
    assert!(both > 85.0, "{both}");
}

/// Pauses lose nothing, marks keep the queue short, both do both, and neither loses much.
#[test]
fn what_pauses_and_marks_do_for_an_incast() {
    let short = "run.duration=5ms";
    let pauses = passed("incast-16.toml", &[short, "flow.incast.cc=none"]);
    let both = passed("incast-16.toml", &[short]);
    let marks = passed("incast-16.toml", &[short, "fabric.pfc=[]"]);
    let neither = passed("incast-16.toml", &[short, "fabric.pfc=[]", "flow.incast.cc=none"]);
    assert!(fabric(&pauses).dropped == 0 && fabric(&pauses).pauses > 100, "{}", fabric(&pauses));
    assert!(fabric(&both).dropped == 0 && fabric(&both).marked > 100, "{}", fabric(&both));
    assert!(fabric(&both).pauses < fabric(&pauses).pauses);
    assert!(fabric(&marks).pauses == 0 && fabric(&marks).marked > 100);
    assert!(fabric(&neither).dropped > 1000 && fabric(&neither).dropped > 2 * fabric(&marks).dropped);
    let sum = |judged: &Judged| goodput(judged, "incast").sum::<f64>();
    assert!(sum(&pauses) > 97.0, "{}", sum(&pauses));
    let resent = |judged: &Judged| judged.result.flows.iter().map(|f| f.retransmits).sum::<u64>();
    assert!(resent(&pauses) == 0 && resent(&neither) > 1000);
}

#[test]
fn a_victim_waits_with_the_guilty_unless_they_are_slowed_down() {
    let none = ["flow.incast.cc=none", "flow.victim.cc=none"];
    let paused = passed("victim-flow.toml", &none);
    let freed = passed("victim-flow.toml", &[]);
    let victim = |judged: &Judged| goodput(judged, "victim").sum::<f64>();
    // Alone it would have 98 Gb/s; with the guilty it has what one of them has.
    assert!(victim(&paused) < 50.0, "{}", victim(&paused));
    assert!(victim(&freed) > 1.5 * victim(&paused), "{} {}", victim(&freed), victim(&paused));
    assert!(fabric(&paused).pauses > 100);
}

#[test]
fn a_storm_stops_bystanders_until_the_watchdog_bites() {
    let slow = ["fabric.watchdog_detect=10ms", "fabric.watchdog_restore=10ms"];
    let (guarded, stopped) = (passed("pfc-storm.toml", &[]), passed("pfc-storm.toml", &slow));
    let others = |judged: &Judged| goodput(judged, "others").sum::<f64>();
    assert!(others(&guarded) > 1.2 * others(&stopped), "{} {}", others(&guarded), others(&stopped));
    let bitten = |judged: &Judged| fabric(judged).ports.iter().map(|p| p.watchdog_dropped).sum::<u64>();
    assert!(bitten(&guarded) > 0);
    assert_eq!(bitten(&stopped), 0);
}

#[test]
fn more_queue_pairs_use_the_spines_more_evenly() {
    let ratio = |qps: u32| {
        let judged = passed("ecmp-entropy.toml", &[&format!("flow.pairs.qps={qps}")]);
        let trunks = fabric(&judged).ports.iter().filter(|p| p.name == "leaf0" && p.to.starts_with("spine"));
        let used: Vec<f64> = trunks.map(|p| p.use_pct).collect();
        assert_eq!(used.len(), 8);
        let (low, high) = used.iter().fold((f64::MAX, 0.0f64), |(l, h), u| (l.min(*u), h.max(*u)));
        high / low.max(0.1)
    };
    let (few, many) = (ratio(1), ratio(32));
    assert!(few > 3.0 && many < 2.0, "{few} {many}");
}

/// A smaller cluster of the same kind: nothing lost, every rank as fast as the others, and the
/// same to the byte.
#[test]
fn a_cluster_reduces_without_loss_and_always_the_same() {
    let small = [
        "run.duration=200us",
        "run.warmup=100us",
        "fabric.leaves=4",
        "fabric.hosts_per_leaf=4",
        "fabric.spines=2",
        "flow.ring0.among=h[0-7].n0",
        "flow.ring1.among=h[0-7].n1",
    ];
    let judged = passed("cluster-200.toml", &small);
    assert_eq!(judged.result.flows.len(), 16);
    let total = |f: &FlowResult| f.messages + f.messages_warmup;
    let steps: Vec<u64> = judged.result.flows[..8].iter().map(total).collect();
    let (low, high) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
    // Nobody can be further ahead of its predecessor than a step of four messages.
    assert!(*low > 20 && high - low <= 7 * 4, "{steps:?}");
    assert_eq!(fabric(&judged).dropped, 0);
    assert!(fabric(&judged).trunks.unwrap().use_max_pct > 1.0);
    let json = |judged: &Judged| serde_json::to_string(&judged.result).unwrap();
    assert_eq!(json(&judged), json(&passed("cluster-200.toml", &small)));
}

#[test]
fn series_are_written_and_a_fabric_is_not_run_live() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/incast-16.toml");
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in &dirs {
        let out = Command::new(env!("CARGO_BIN_EXE_rocegen"))
            .args(["sim", file, "--quiet", "--duration", "1ms", "--json", "--out"])
            .arg(dir.path())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        let object: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(object["fabric"]["topology"], "single");
        assert_eq!(object["flows"][0]["table"], "incast");
    }
    for name in ["result.json", "rates.csv", "queues.csv", "rates.svg", "queues.svg"] {
        let [a, b] = [0, 1].map(|i| std::fs::read_to_string(dirs[i].path().join(name)).unwrap());
        assert!(a.len() > 200 && a == b, "{name}");
    }
    let queues = std::fs::read_to_string(dirs[0].path().join("queues.csv")).unwrap();
    assert!(queues.contains(",switch -> h16,"), "{queues}");
    let live = Command::new(env!("CARGO_BIN_EXE_rocegen")).args(["run", file, "-q"]).output().unwrap();
    assert_eq!(live.status.code(), Some(2));
    let error = String::from_utf8_lossy(&live.stderr).into_owned();
    assert!(error.contains("exist in virtual time only: rocegen sim"), "{error}");
}
