//! `rocegen report`: the page of a result again, or two results side by side.

use super::compare::Comparison;
use super::{html, print, print_progress};
use crate::cli::ReportArgs;
use crate::run::EnvironmentError;
use anyhow::Result;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a path leads to: a result, a sweep or a search, and the folder that it is in.
fn load(path: &Path) -> Result<(Value, PathBuf), EnvironmentError> {
    let file = match path.is_dir() {
        true => ["result.json", "sweep.json", "search.json"]
            .map(|n| path.join(n))
            .into_iter()
            .find(|f| f.exists()),
        false => Some(path.to_owned()),
    };
    let wrong = |what: String| EnvironmentError(format!("{}: {what}", path.display()));
    let file = file.ok_or_else(|| wrong("no result.json, sweep.json or search.json in there".to_owned()))?;
    let text = fs::read_to_string(&file).map_err(|e| wrong(e.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|e| wrong(format!("no JSON: {e}")))?;
    let schema = html::word(&value, "/schema");
    if !matches!(schema, "rocegen-result-1" | "rocegen-sweep-1" | "rocegen-search-1") {
        return Err(wrong("no result, sweep or search of rocegen".to_owned()));
    }
    Ok((value, file.parent().unwrap_or(Path::new(".")).to_owned()))
}

/// Writes the page of a result, or compares two.
///
/// # Errors
/// An [`EnvironmentError`]: something cannot be read or written.
pub fn report(args: &ReportArgs) -> Result<ExitCode> {
    let (a, folder) = load(&args.a)?;
    let put = |dir: &Path, page: &str| {
        let path = dir.join("report.html");
        fs::create_dir_all(dir)
            .and_then(|()| fs::write(&path, page))
            .map(|()| path.clone())
            .map_err(|e| EnvironmentError(format!("cannot write {}: {e}", path.display())))
    };
    let Some(b) = &args.b else {
        let scenario = fs::read_to_string(folder.join("scenario.toml")).unwrap_or_default();
        let page = match html::word(&a, "/schema") {
            "rocegen-sweep-1" => html::sweep_page(&a, &scenario),
            "rocegen-search-1" => html::search_page(&a, &scenario),
            _ => html::page(&a, &scenario),
        };
        let path = put(args.out.as_deref().unwrap_or(&folder), &page)?;
        print_progress(&format!("{} is written", path.display()));
        return Ok(ExitCode::SUCCESS);
    };
    let (b, _) = load(b)?;
    let names =
        [Some(&args.a), args.b.as_ref()].map(|p| p.map_or(String::new(), |p| p.display().to_string()));
    let comparison = Comparison::of(names, &a, &b);
    if let Some(dir) = &args.out {
        put(dir, &html::compare_page(&comparison))?;
    }
    print(&comparison.to_string())?;
    Ok(ExitCode::SUCCESS)
}
