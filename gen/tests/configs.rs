//! The scenario files that come with the project, and what the reference says of scenarios.

use roce_gen::config::{Device, METRICS, Scenario, Verb};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn shipped() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in ["configs", "configs/hosts"] {
        let entries = fs::read_dir(root().join(dir)).expect("the folder is there");
        files.extend(
            entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "toml")),
        );
    }
    files.sort();
    files
}

fn load(name: &str) -> Scenario {
    Scenario::load(&root().join("configs").join(name), &[]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_file_is_a_scenario() {
    let files = shipped();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let scenario = Scenario::load(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert!(scenario.warnings.is_empty(), "{}: {:?}", file.display(), scenario.warnings);
        assert!(!scenario.expects.is_empty(), "{} expects nothing", file.display());
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# "), "{} does not say what it shows", file.display());
        let how = ["rocegen run configs/", "rocegen sim configs/"].iter().any(|how| text.contains(how));
        assert!(how, "{} does not say how it is run", file.display());
    }
}

#[test]
fn every_verb_is_mixed() {
    let s = load("mixed-verbs.toml");
    for verb in Verb::ALL {
        assert!(s.flows.iter().any(|f| f.verb == verb && f.verify), "{verb}");
    }
    assert!(s.flows.iter().any(|f| f.from == 0) && s.flows.iter().any(|f| f.from == 1));
    assert!(s.flows.iter().all(|f| f.qps > 1 && f.size % 4 != 0));
}

#[test]
fn the_two_hosts_agree() {
    let (client, server) = (load("hosts/client.toml"), load("hosts/server.toml"));
    assert_eq!(client.flows, server.flows);
    for (c, s) in client.ports.iter().zip(&server.ports) {
        assert_eq!((&c.name, c.ip), (&s.name, s.ip));
        assert_eq!([&c.device, &s.device].iter().filter(|d| ***d == Device::Remote).count(), 1);
    }
    assert_eq!(client.run, server.run);
}

#[test]
fn the_reference_names_every_key() {
    let reference = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    for (section, keys) in roce_gen::config::keys() {
        for key in keys {
            let row = format!("| `{key}` |");
            assert!(reference.contains(&row), "no row for key {key} of {section}");
        }
    }
    for metric in METRICS {
        assert!(reference.contains(&format!("`{metric}`")), "nothing on metric {metric}");
    }
}

#[test]
fn examples_of_the_reference_are_right() {
    let reference = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    let examples: Vec<_> =
        reference.split("```toml\n").skip(1).filter_map(|t| t.split("```").next()).collect();
    let whole: Vec<_> =
        examples.iter().filter(|t| t.contains("[[port]]") && t.contains("[[flow]]")).collect();
    assert!(!whole.is_empty());
    for text in whole {
        Scenario::parse(Path::new("docs/scenario.md"), text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}
