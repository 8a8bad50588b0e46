//! The reference of scenarios says what the reader reads.

use jsonschema::Validator;
use roce_gen::config::Scenario;
use roce_gen::config::reference::{sections, table};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each table of keys in `docs/scenario.md` is what is made of the keys that the reader knows.
#[test]
fn the_tables_of_the_reference_are_made_from_the_keys() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenario.md"));
    let committed = fs::read_to_string(path).expect("the reference");
    let mut made = committed.clone();
    for (section, keys) in sections() {
        let begin = format!("<!-- keys: {section} -->\n");
        let from = made.find(&begin).unwrap_or_else(|| panic!("no table of {section}")) + begin.len();
        let to = from + made[from..].find("<!-- end -->").expect("an end");
        made.replace_range(from..to, &table(keys));
    }
    assert_eq!(made.matches("<!-- keys: ").count(), sections().len());
    if std::env::var_os("ROCEGEN_WRITE").is_some() {
        fs::write(path, &made).expect("writable");
    }
    let differ = made.lines().zip(committed.lines()).find(|(made, committed)| made != committed);
    if let Some((made, committed)) = differ {
        panic!("docs/scenario.md has\n{committed}\nand the keys say\n{made}\nROCEGEN_WRITE=1 writes it anew");
    }
    assert_eq!(made, committed, "ROCEGEN_WRITE=1 writes it anew");
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// What the command prints.
fn rocegen(args: &[&str]) -> Value {
    let ended =
        Command::new(env!("CARGO_BIN_EXE_rocegen")).args(args).current_dir(root()).output().expect("starts");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}\n{said}"))
}

/// The schema that the command prints, which must be one.
fn schema(of: &str) -> Validator {
    let schema = rocegen(&["schema", of]);
    jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("{of}: {e}"))
}

fn refused(schema: &Validator, value: &Value) -> Vec<String> {
    schema.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn json(toml: &str) -> Value {
    let value: toml::Value = toml::from_str(toml).expect("TOML");
    serde_json::to_value(value).expect("JSON")
}

#[test]
fn shipped_scenarios_are_as_the_schema_says() {
    let schema = schema("scenario");
    let mut files: Vec<PathBuf> = Vec::new();
    for dir in ["configs", "configs/hosts"] {
        let entries = fs::read_dir(root().join(dir)).expect("the folder").flatten().map(|e| e.path());
        files.extend(entries.filter(|p| p.extension().is_some_and(|e| e == "toml")));
    }
    assert!(files.len() > 15);
    for file in files {
        let wrong = refused(&schema, &json(&fs::read_to_string(&file).unwrap()));
        assert!(wrong.is_empty(), "{}: {wrong:#?}", file.display());
    }
}

/// What the reader refuses for its form the schema refuses too.
#[test]
fn the_schema_and_the_reader_refuse_the_same() {
    let schema = schema("scenario");
    let right = fs::read_to_string(root().join("configs/loopback.toml")).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(right.contains(from), "{from}");
        right.replacen(from, to, 1)
    };
    for wrong in [
        changed("qps = 1", "qps = 0"),
        changed("qps = 1", "qps = \"1\""),
        changed("qps = 1", "qpss = 1"),
        changed("mtu = 4096", "mtu = 4000"),
        changed("verify = true", "verify = 1"),
        changed("verb = \"write\"", "verb = \"wriet\""),
        changed("verb = \"write\"", "verb = \"write\"\nack_timeout = 32"),
        changed("duration = \"10s\"", "duration = 10"),
        changed("size = \"1MiB\"", "size = \"1M\""),
        changed("[run]", "[runs]"),
        changed("name = \"single\"", "name = \"a b\""),
        changed("messages_failed = \"== 0\"", "messages_fialed = \"== 0\""),
        changed("messages_failed = \"== 0\"", "messages_failed = \"0\""),
    ] {
        assert!(Scenario::parse(Path::new("x.toml"), &wrong, &[]).is_err(), "{wrong}");
        assert!(!schema.is_valid(&json(&wrong)), "{wrong}");
    }
}

#[test]
fn results_are_as_the_schema_says() {
    let schema = schema("result");
    for args in [
        &["sim", "configs/loopback.toml", "--duration", "1ms", "--set", "run.warmup=100us"][..],
        &["sim", "configs/dcqcn-two-flows.toml"],
        &["sim", "configs/impaired-loopback.toml", "--duration", "5ms"],
        &[
            "sim",
            "configs/mixed-verbs.toml",
            "--duration",
            "1ms",
            "--set",
            "run.window=100us",
            "--set",
            "run.warmup=0s",
        ],
    ] {
        let mut result = rocegen(&[args, &["--json", "--quiet"]].concat());
        assert_eq!(refused(&schema, &result), [""; 0], "{args:?}");
        result["flows"][0].as_object_mut().unwrap().remove("goodput_gbps");
        assert!(!schema.is_valid(&result), "a flow has a goodput");
    }
    let sweep =
        rocegen(&["sim", "configs/loopback.toml", "--duration", "1ms", "--json", "--quiet", "--repeat", "2"]);
    assert_eq!(refused(&self::schema("sweep"), &sweep), [""; 0]);
}
