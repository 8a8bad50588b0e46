//! What limited a flow is told, one cause after the other.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use roce_gen::config::{Override, Scenario};
use roce_gen::sim::simulate;
use std::path::Path;

/// The cause and the sentence for one flow over 100 Gb/s, with these keys changed.
fn limit(changes: &[&str]) -> (&'static str, String) {
    let short = [
        "run.duration=2ms",
        "run.warmup=1ms",
        "flow.single.verify=false",
        "flow.single.size=64KiB",
        "expect=[]",
    ];
    let changes: Vec<Override> = short.iter().chain(changes).map(|c| c.parse().unwrap()).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/loopback.toml");
    let s = Scenario::load(&file, &changes).unwrap_or_else(|e| panic!("{e}"));
    let result = simulate(&s, true).unwrap().result;
    let limit = &result.limits[0];
    assert_eq!((result.limits.len(), limit.flow.as_str()), (1, "single"));
    assert!(result.to_string().contains(&limit.text), "{result}");
    (limit.by, limit.text.clone())
}

#[test]
fn each_cause_is_named() {
    let cases: [(&str, &[&str], &str); 6] = [
        ("pacing", &["flow.single.rate=10Gbps"], "10.000 Gb/s at L1 are asked for"),
        ("window_full", &["flow.single.window=4", "link.delay=20us"], "4 packets unacknowledged"),
        (
            "max_rd_atomic",
            &["flow.single.verb=read", "flow.single.max_rd_atomic=1", "link.delay=20us"],
            "READs outstanding: 1;",
        ),
        (
            "depth",
            &["flow.single.depth=1", "link.delay=20us"],
            "depth: 1 messages on each of 1 queue pairs, each takes",
        ),
        (
            "loss",
            &["impair=[{flow=\"single\",loss=\"1%\"}]", "flow.single.ack_timeout=8"],
            "of the packets were sent again",
        ),
        ("line_rate", &[], "the line: "),
    ];
    for (by, changes, text) in cases {
        let got = limit(changes);
        assert_eq!(got.0, by, "{changes:?}: {}", got.1);
        assert!(got.1.contains(text), "{changes:?}: {}", got.1);
    }
}

#[test]
fn congestion_control_is_named() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/dcqcn-two-flows.toml");
    let changes = ["run.duration=5ms", "expect=[]"].map(|c| c.parse().unwrap());
    let s = Scenario::load(&file, &changes).unwrap_or_else(|e| panic!("{e}"));
    let result = simulate(&s, true).unwrap().result;
    assert!(result.limits.iter().all(|l| l.by == "congestion_control"), "{:?}", result.limits);
    assert_eq!(result.limits.len(), result.flows.len());
}
