//! Searching for a rate, and comparing results, in virtual time.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn rocegen(args: &[&str]) -> Output {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    Command::new(env!("CARGO_BIN_EXE_rocegen")).args(args).current_dir(root).output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Messages of one packet over a link that carries 40 % of what the ports do.
const SLOW: [&str; 8] = [
    "configs/loopback.toml",
    "--set=run.warmup=50us",
    "--set=flow.single.size=4096",
    "--set=flow.single.depth=512",
    "--set=link.rate=40Gbps",
    "--set=link.delay=1us",
    "--set=link.queue=100kB",
    "--set=expect=[]",
];

#[test]
fn the_rate_of_the_link_is_found() {
    let args =
        [&["search", "--sim", "--trial=400us", "--resolution=2", "--json", "--quiet"], &SLOW[..]].concat();
    let ended = rocegen(&args);
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), ""), "{}", text(&ended.stdout));
    let search: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let (found, failed) = (search["found"].as_f64().unwrap(), search["failed"].as_f64().unwrap());
    assert!((36.0..=41.0).contains(&found) && failed > found, "{found} {failed}");
    assert!((failed - found) / failed <= 0.02);
    let first = &search["trials"][0];
    assert_eq!((first["asked"].as_f64(), first["holds"].as_bool()), (Some(100.0), Some(false)));
}

/// What `--out` leaves: the page, what it is made of, and the reports of the trials that it leads to.
#[test]
fn the_page_of_a_search() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let search = [
        "search",
        "--sim",
        "--trial=300us",
        "--resolution=10",
        "--until=p99<30us",
        "--min=100kmsg/s",
        "--max=3000kmsg/s",
        "--quiet",
        "--out",
        out,
    ];
    let ended = rocegen(&[&search[..], &SLOW[..]].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let read = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let kept: Value = serde_json::from_str(&read("search.json")).unwrap();
    let schema: Value = serde_json::from_slice(&rocegen(&["schema", "search"]).stdout).unwrap();
    let wrong: Vec<_> =
        jsonschema::validator_for(&schema).unwrap().iter_errors(&kept).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!((kept["mode"].as_str(), kept["bound_ns"].as_u64()), (Some("sim"), Some(30_000)));
    let page = read("report.html");
    assert!(page.contains("below 30us") && page.contains("bound 30"), "what had to hold");
    for trial in kept["trials"].as_array().unwrap() {
        let report = format!("{}/report.html", trial["folder"].as_str().unwrap());
        assert!(page.contains(&report) && !read(&report).is_empty(), "{report}");
    }
    assert!(page.matches("<figure").count() >= 3, "{page}");
    std::fs::remove_file(folder.path().join("report.html")).unwrap();
    assert_eq!(rocegen(&["report", out]).status.code(), Some(0));
    assert_eq!(read("report.html"), page, "made again it is the same");
}

#[test]
fn what_is_wrong_is_said_before_the_first_trial() {
    let wrong = |more: &[&str], want: &str| {
        let ended = rocegen(&[&["search", "--sim", "configs/mixed-verbs.toml"], more].concat());
        assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(2), ""), "{more:?}");
        assert!(text(&ended.stderr).contains(want), "{}", text(&ended.stderr));
    };
    wrong(&[], "--flow: which one?");
    wrong(&["--flow", "nobody"], "no flow");
    wrong(&["--flow", "write", "--min", "1Gbps"], "must have the unit of --min");
    wrong(&["--flow", "write", "--until", "p98<1us"], "write loss");
}

#[test]
fn two_results_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |name: &str, more: &[&str]| {
        let base = ["sim", "--duration=2ms", "--quiet", "--out"];
        let place = place(name);
        let ended = rocegen(&[&base[..], &[place.as_str()], &SLOW[..], more].concat());
        assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    };
    run("a", &["--set=flow.single.rate=10%"]);
    run("b", &["--set=flow.single.rate=20%"]);
    let (a, b, out) = (place("a"), place("b"), place("out"));
    let ended = rocegen(&["report", &a, &b, "--out", &out]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let table = text(&ended.stdout);
    let line = |figure: &str| table.lines().find(|l| l.contains(figure)).unwrap_or_else(|| panic!("{table}"));
    assert!(line("goodput_gbps").ends_with("differs"), "{table}");
    assert!(table.contains("Welch"), "how it was judged");
    let page = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("side by side") && page.contains("differs"));

    let same = rocegen(&["report", &a, &a]);
    assert!(!text(&same.stdout).contains("differs"), "{}", text(&same.stdout));

    // The page of a result is what it was.
    let before = std::fs::read_to_string(folder.path().join("a/report.html")).unwrap();
    std::fs::remove_file(folder.path().join("a/report.html")).unwrap();
    assert_eq!(rocegen(&["report", &a]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(folder.path().join("a/report.html")).unwrap(), before);
    let gone = rocegen(&["report", &place("nothing")]);
    assert_eq!(gone.status.code(), Some(3));
}
