//! Sweeps and repeats, in virtual time.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn rocegen(args: &[&str]) -> Output {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    Command::new(env!("CARGO_BIN_EXE_rocegen")).args(args).current_dir(root).output().expect("it starts")
}

const SIM: [&str; 6] = ["sim", "configs/loopback.toml", "--duration", "300us", "--set", "run.warmup=100us"];

fn sim(more: &[&str]) -> Output {
    rocegen(&[&SIM[..], more].concat())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn every_combination_is_a_row_a_folder_and_a_point() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ended = sim(&[
        "--sweep",
        "flow.single.size=64,1KiB,64KiB,1MiB",
        "--sweep",
        "flow.single.qps=1,16",
        "--out",
        out,
    ]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let table = text(&ended.stdout);
    let rows: Vec<&str> =
        table.lines().filter(|l| l.ends_with("pass") && !l.starts_with("verdict")).collect();
    assert_eq!(rows.len(), 8, "{table}");
    assert!(table.starts_with("size  "), "{table}");
    assert!(rows[0].starts_with("64 ") && rows[7].starts_with("1MiB"), "{table}");
    assert_eq!(text(&ended.stderr).lines().count(), 8, "a line for each run");

    let sweep: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("sweep.json")).unwrap()).unwrap();
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 8);
    let goodput = |i: usize| points[i]["figures"]["goodput_gbps"]["mean"].as_f64().unwrap();
    assert!(goodput(0) < goodput(2) && goodput(2) < goodput(4), "larger messages carry more");
    // What was swept is what was run.
    for point in points {
        let folder = folder.path().join(point["runs"][0]["folder"].as_str().unwrap());
        let result: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("result.json")).unwrap()).unwrap();
        assert_eq!(result["flows"][0]["qps"].to_string(), point["values"][1].as_str().unwrap());
        let scenario = fs::read_to_string(folder.join("scenario.toml")).unwrap();
        assert!(scenario.contains(&format!("{} # --set", point["values"][1].as_str().unwrap())));
        assert!(folder.join("report.html").exists());
    }
    let csv = fs::read_to_string(folder.path().join("sweep.csv")).unwrap();
    assert_eq!(csv.lines().count(), 9);
    assert!(csv.starts_with("flow.single.size,flow.single.qps,run,verdict,goodput_gbps,"));
    let picture = fs::read_to_string(folder.path().join("sweep.svg")).unwrap();
    assert!(
        picture.matches("<circle").count() >= 20 && picture.contains(">qps 16<"),
        "three charts of up to eight points"
    );
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("href=\"08/report.html\"") && page.contains("Latency, p99"));
}

#[test]
fn repeats_of_one_seed_do_not_differ() {
    let ended = sim(&["--repeat", "3", "--set", "run.seed=5", "--json", "--quiet"]);
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), ""));
    let sweep: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let point = &sweep["points"][0];
    assert_eq!(point["runs"].as_array().unwrap().len(), 3);
    let goodput = &point["figures"]["goodput_gbps"];
    assert_eq!((goodput["count"].as_u64(), goodput["cv_pct"].as_f64()), (Some(3), Some(0.0)));
    assert_eq!(goodput["min"], goodput["max"]);
}

#[test]
fn a_run_that_fails_is_named() {
    let ended = sim(&["--set", "expect.0.messages=>= 1000000", "--sweep", "flow.single.depth=1,2", "-q"]);
    assert_eq!(ended.status.code(), Some(1));
    let table = text(&ended.stdout);
    assert!(table.contains("messages is") && table.contains("verdict: fail"), "{table}");
}

#[test]
fn nothing_is_run_when_a_point_is_wrong() {
    let wrong = |more: &[&str], want: &str| {
        let ended = sim(more);
        assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(2), ""), "{more:?}");
        assert!(text(&ended.stderr).contains(want), "{}", text(&ended.stderr));
        assert_eq!(text(&ended.stderr).lines().count(), 1, "{}", text(&ended.stderr));
    };
    wrong(
        &["--sweep", "flow.single.size=64,4x"],
        "--sweep flow.single.size=4x: flow \"single\": key \"size\"",
    );
    wrong(&["--sweep", "flow.single.siez=64"], "did you mean \"size\"?");
    let cliff = rocegen(&["sim", "configs/loss-cliff.toml", "--repeat", "2"]);
    assert_eq!(cliff.status.code(), Some(2));
    assert!(text(&cliff.stderr).contains("a sweep of its own"), "{}", text(&cliff.stderr));
}
