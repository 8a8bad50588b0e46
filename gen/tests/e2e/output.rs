//! What `--out` leaves: the result, the scenario, and histograms that others read.

use crate::common::{Folder, Machine, flow, int, list, python_with, ring_pair, root, run};
use serde_json::Value;
use std::fs;
use std::process::Command;

fn scenario(run: &str) -> String {
    let keys = "size = 3000\nmtu = 1024\nqps = 2\nverify = true";
    ring_pair(run, &["write", "send", "read"].map(|verb| flow(verb, verb, keys)).concat())
}

#[test]
fn result_and_scenario() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let file = folder.write("x.toml", &scenario("duration = \"100ms\""));
    let out = folder.path("deep/er");
    let ended =
        run(["run", &file, "--json", "--out", &out, "--set", "flow.send.size=77", "--set", "run.seed=9"]);
    ended.result(0);
    assert_eq!(fs::read_to_string(format!("{out}/result.json")).unwrap(), ended.stdout);
    let mut names: Vec<_> =
        fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let all = ["intervals.csv", "latency.hlog", "report.html", "result.json", "scenario.toml"];
    assert_eq!(names, all);

    // What was kept is what was run, and runs again, into the same place.
    let kept = format!("{out}/scenario.toml");
    assert!(fs::read_to_string(&kept).unwrap().contains("size = 77 # --set"));
    let again = run(["run", &kept, "--json", "--out", &out]).result(0);
    assert_eq!(int(&again, "/flows/1/size_bytes"), 77);
    assert_eq!(int(&again, "/seed"), 9);
}

/// H12, H13.
#[test]
fn another_library_reads_the_histograms() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let run_keys = "duration = \"400ms\"\nwarmup = \"50ms\"\ninterval = \"50ms\"\ndrain = \"30s\"";
    let file = folder.write("x.toml", &scenario(run_keys));
    let out = folder.path("out");
    let before = now();
    let result = run(["run", &file, "--json", "--out", &out]).result(0);
    let Some(python) = python_with("hdrh") else { return };
    let script = root().join("gen/tests/data/read_hlog.py");
    let read = Command::new(python).arg(script).arg(format!("{out}/latency.hlog")).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let read: Value = serde_json::from_slice(&read.stdout).unwrap();

    let start = read["start_s"].as_f64().unwrap();
    assert!((before - 1.0..=now()).contains(&start), "{before} {start}");
    for flow in list(&result, "/flows") {
        let name = flow["name"].as_str().unwrap();
        let sum = &read["tags"][name];
        let latency = &flow["latency_ns"];
        assert_eq!(int(sum, "/count"), int(flow, "/messages"), "{name}");
        // A histogram keeps three digits, the result has the ends exactly.
        let near = |got: f64, want: f64| (got - want).abs() <= want * 0.001 + 1.0;
        for key in ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"] {
            let (got, want) = (int(sum, &format!("/{key}")) as f64, int(latency, &format!("/{key}")) as f64);
            assert!(near(got, want), "{name} {key}: {got} in the log, {want} in the result");
        }
        assert!(near(sum["mean"].as_f64().unwrap(), latency["mean"].as_f64().unwrap()), "{name}");
        // One after the other, without a gap.
        let spans = list(sum, "/intervals");
        assert!(spans.len() >= 3, "{spans:?}");
        let mut at = 0.0;
        for span in spans {
            let [from, to] = [0, 1].map(|i| span[i].as_f64().unwrap());
            assert!((from - at).abs() < 0.002 && to >= from, "{name}: {spans:?}");
            at = to;
        }
        assert!(at >= 0.4);
        let counts: u64 = spans.iter().map(|s| s[2].as_u64().unwrap()).sum();
        assert_eq!(counts, int(flow, "/messages"), "the intervals add up");
    }
}

fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}
