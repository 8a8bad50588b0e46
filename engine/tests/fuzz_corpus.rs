//! Replays the inputs that the fuzz targets of `engine/fuzz` keep.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../fuzz/harness/mod.rs"]
mod harness;

use std::path::Path;

/// Runs `target` on every kept input, and on what is left when its end is cut off.
fn replay(name: &str, target: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "{} inputs in {}", files.len(), dir.display());
    for file in files {
        let input = std::fs::read(&file).unwrap();
        println!("{}", file.display());
        target(&input);
        for end in (0..input.len()).step_by(1 + input.len() / 64) {
            target(&input[..end]);
        }
    }
}

#[test]
fn frames() {
    replay("frame", harness::frame::run);
}

#[test]
fn requests() {
    replay("responder", harness::responder::run);
}

#[test]
fn responses() {
    replay("requester", harness::requester::run);
}
