//! `docs/conformance.md` is true: the code and the tests that it names exist, and no case is missing.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The cases that must have a row each.
const CASES: &[(char, &[u32])] = &[
    ('W', &[1, 3, 5, 6, 8, 10, 11, 13, 15, 16, 18, 20, 21]),
    ('Q', &[1, 3, 4, 6, 8, 9, 11, 13, 14, 16, 18, 19]),
    ('S', &[1, 3, 4, 6, 8, 9, 11, 13, 14, 16, 18, 19, 21]),
    ('L', &[1, 2, 4, 6, 7, 9, 11, 12, 14]),
    ('X', &[1, 2, 4, 6, 7, 9, 11, 12]),
];

/// A row of the ledger.
struct Row {
    line: usize,
    id: String,
    rule: String,
    code: Vec<String>,
    tests: Vec<String>,
    /// The text of the last cell.
    test_cell: String,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let mut rows = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let Some(cells) = line.strip_prefix("| ").and_then(|l| l.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = cells.split(" | ").map(str::trim).collect();
        let [id, rule, code, tests] = cells[..] else { panic!("line {}: not four cells", n + 1) };
        if id == "id" || id.starts_with("--") {
            continue;
        }
        rows.push(Row {
            line: n + 1,
            id: id.to_owned(),
            rule: rule.to_owned(),
            code: names(code),
            tests: names(tests),
            test_cell: tests.to_owned(),
        });
    }
    rows
}

/// What a cell names: pieces between backquotes.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// `path::item` relative to the project, with `engine/` left out.
fn resolve(name: &str) -> (PathBuf, String) {
    let (path, item) = name.split_once("::").unwrap_or((name, ""));
    let inside = ["src/", "tests/", "fuzz/"].iter().any(|dir| path.starts_with(dir));
    let path = if inside { root().join("engine").join(path) } else { root().join(path) };
    (path, item.to_owned())
}

fn source(path: &Path, row: &Row) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("line {}, {}: {}: {e}", row.line, row.id, path.display()))
}

#[test]
fn every_case_has_one_row() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows() {
        *found.entry(row.id).or_default() += 1;
    }
    let doubled: Vec<_> = found.iter().filter(|(_, n)| **n != 1).collect();
    assert!(doubled.is_empty(), "ids that have several rows: {doubled:?}");
    let known: BTreeSet<String> =
        CASES.iter().flat_map(|(group, ids)| ids.iter().map(move |id| format!("{group}{id:02}"))).collect();
    let missing: Vec<_> = known.iter().filter(|id| !found.contains_key(*id)).collect();
    assert!(missing.is_empty(), "cases without a row: {missing:?}");
    let is_case = |id: &String| {
        let (group, number) = id.split_at(1);
        number.len() == 2
            && number.parse::<u32>().is_ok()
            && CASES.iter().any(|(g, _)| group == g.to_string())
    };
    let unknown: Vec<_> = found.keys().filter(|id| is_case(id) && !known.contains(*id)).collect();
    assert!(unknown.is_empty(), "there are no such cases: {unknown:?}");
}

#[test]
fn every_test_that_is_named_exists() {
    let mut named = BTreeSet::new();
    for row in rows() {
        for test in &row.tests {
            let (path, item) = resolve(test);
            let text = source(&path, &row);
            let is_rust = path.extension().is_some_and(|e| e == "rs");
            let exists = if is_rust { has_test(&text, &item) } else { text.contains(&format!("ok {item} ")) };
            assert!(exists, "line {}, {}: there is no test {item} in {}", row.line, row.id, path.display());
            named.insert(test.clone());
        }
        let says_why = row.test_cell.starts_with("none: ") && row.test_cell.len() > 20;
        assert!(!row.tests.is_empty() || says_why, "line {}, {}: no test and no reason", row.line, row.id);
    }
    assert!(named.len() > 100, "{} tests are named", named.len());
}

/// Whether `name` is a test function: the attribute stands before it, other attributes aside.
fn has_test(text: &str, name: &str) -> bool {
    let mut pending = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            pending = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            if pending && rest.split(['(', '<']).next() == Some(name) {
                return true;
            }
            pending = false;
        }
    }
    false
}

#[test]
fn every_piece_of_code_that_is_named_exists() {
    for row in rows() {
        assert!(!row.rule.is_empty(), "line {}, {}: no rule", row.line, row.id);
        assert!(!row.code.is_empty(), "line {}, {}: no code", row.line, row.id);
        for code in &row.code {
            let (path, item) = resolve(code);
            let text = source(&path, &row);
            let kinds = ["fn", "struct", "enum", "const", "trait", "static"];
            let exists = item.is_empty()
                || kinds.iter().any(|kind| defines(&text, kind, &item))
                // A value of an enum, or a row of the opcode table.
                || text.lines().any(|l| l.trim().split([' ', '{', '(', ',']).next() == Some(&item));
            assert!(exists, "line {}, {}: there is no {item} in {}", row.line, row.id, path.display());
        }
    }
}

fn defines(text: &str, kind: &str, item: &str) -> bool {
    let start = format!("{kind} {item}");
    text.match_indices(&start).any(|(at, _)| {
        let after = text[at + start.len()..].chars().next();
        after.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}
