//! `--sweep` and `--repeat`: one scenario at many points, one run after the other.
//!
//! Every run is a process of its own: DPDK starts once in the life of a process, and a run that dies takes
//! nothing with it.

mod args;
mod child;
mod figures;
mod table;

pub use args::{Axis, SweepArgs};
pub(crate) use child::Child;
pub use child::Mode;
pub(crate) use figures::{FIGURES, Figures};

use crate::config::{Override, Place, Scenario, ScenarioError};
use crate::report::{self, html, print_progress};
use crate::run::EnvironmentError;
use crate::run::signal::{INTERRUPTED, Signals};
use anyhow::Result;
use figures::Statistics;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A sweep that has ended.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Sweep {
    /// `rocegen-sweep-1`.
    pub schema: &'static str,
    /// `pass` when all runs passed, `fail`, or `interrupted`.
    pub verdict: &'static str,
    /// `run` or `sim`.
    pub mode: &'static str,
    /// The scenario file.
    pub scenario: String,
    /// What was varied.
    pub axes: Vec<AxisResult>,
    /// Runs at each point.
    pub repeat: u32,
    /// The points, the last axis varying fastest.
    pub points: Vec<Point>,
}

/// A key and the values that it had.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AxisResult {
    /// The key.
    pub key: String,
    /// Its values, as given.
    pub values: Vec<String>,
}

/// A point and its runs.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Point {
    /// By axis: the value.
    pub values: Vec<String>,
    /// The runs.
    pub runs: Vec<Run>,
    /// By figure: what the runs came to, those without it left out.
    pub figures: std::collections::BTreeMap<&'static str, Statistics>,
}

/// A run of a point.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Run {
    /// Its verdict.
    pub verdict: String,
    /// Why it failed.
    pub reasons: Vec<String>,
    /// Its folder below the sweep's; `null` without `--out`.
    pub folder: Option<String>,
    /// Its figures.
    pub figures: Figures,
}

/// What to sweep, whichever way.
#[derive(Debug)]
pub struct Job<'a> {
    /// How.
    pub mode: Mode,
    /// The file.
    pub file: &'a Path,
    /// What is changed at all points.
    pub changes: &'a [Override],
    /// What is varied.
    pub args: &'a SweepArgs,
    /// Where everything goes.
    pub out: Option<&'a Path>,
    /// JSON on standard output.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
}

/// Runs a sweep and reports; the exit code is the worst verdict.
///
/// # Errors
/// A [`ScenarioError`] where a point is no scenario: nothing was run.  An [`EnvironmentError`].
pub fn sweep(job: &Job<'_>) -> Result<ExitCode> {
    if job.args.runs().is_none() {
        let place = Place::Option("--sweep".to_owned());
        return Err(ScenarioError { place, text: "more than 10000 runs".to_owned() }.into());
    }
    let points = job.args.points();
    for point in &points {
        let scenario = Scenario::load(job.file, &changes_of(job, point))?;
        if scenario.cliff.is_some() {
            let text = "a [cliff] is a sweep of its own: leave --sweep and --repeat out".to_owned();
            return Err(ScenarioError { place: scenario.place("cliff", None, None), text }.into());
        }
    }
    if let Some(dir) = job.out {
        fs::create_dir_all(dir).map_err(|e| EnvironmentError(format!("--out {}: {e}", dir.display())))?;
    }
    let signals = Signals::install()?;
    let mut sweep = Sweep {
        schema: "rocegen-sweep-1",
        verdict: "pass",
        mode: job.mode.word(),
        scenario: job.file.display().to_string(),
        axes: job.args.axes().map(|a| AxisResult { key: a.key.clone(), values: a.values.clone() }).collect(),
        repeat: job.args.repeat,
        points: Vec::new(),
    };
    let count = points.len();
    for (number, point) in points.into_iter().enumerate() {
        let Some(point) = run_point(job, number, count, point, &signals)? else {
            sweep.verdict = "interrupted";
            break;
        };
        if point.runs.iter().any(|r| r.verdict != "pass") {
            sweep.verdict = "fail";
        }
        sweep.points.push(point);
    }
    let json = serde_json::to_string_pretty(&sweep)? + "\n";
    if let Some(dir) = job.out {
        let value = serde_json::to_value(&sweep)?;
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text)
                .map_err(|e| EnvironmentError(format!("cannot write {}: {e}", path.display())))
        };
        put("sweep.json", &json)?;
        put("sweep.csv", &table::csv(&sweep))?;
        if let Some(svg) = html::sweep_picture(&value) {
            put("sweep.svg", &svg)?;
        }
        put("report.html", &html::sweep_page(&value, &fs::read_to_string(job.file).unwrap_or_default()))?;
    }
    report::print(&if job.json { json } else { table::text(&sweep) })?;
    Ok(match sweep.verdict {
        "pass" => ExitCode::SUCCESS,
        "interrupted" => ExitCode::from(INTERRUPTED),
        _ => ExitCode::from(1),
    })
}

/// All that is changed at a point.
fn changes_of(job: &Job<'_>, point: &[String]) -> Vec<Override> {
    let mut changes = job.changes.to_vec();
    changes.extend(job.args.axes().zip(point).map(|(axis, value)| axis.change(value)));
    changes
}

/// The runs of a point; `None` when the user ended it.
fn run_point(
    job: &Job<'_>,
    number: usize,
    count: usize,
    values: Vec<String>,
    signals: &Signals,
) -> Result<Option<Point>> {
    let changes = changes_of(job, &values);
    let mut runs = Vec::new();
    for repeat in 0..job.args.repeat {
        let folder = job.out.map(|_| folder(number, count, repeat, job.args.repeat));
        let out: Option<PathBuf> = job.out.zip(folder.as_ref()).map(|(dir, f)| dir.join(f));
        let child = Child { mode: job.mode, file: job.file, changes: &changes, out: out.as_deref() };
        let ended = child.run();
        if signals.interrupted() {
            return Ok(None);
        }
        let (result, error) = match ended {
            Ok(result) => (result, None),
            // The first of all: nothing is lost, and the others would fare alike.
            Err(e) if number == 0 && repeat == 0 => return Err(e),
            Err(e) => (serde_json::Value::Null, Some(e.to_string())),
        };
        let figures = Figures::of(&result);
        let run = Run {
            verdict: if error.is_some() {
                "error".to_owned()
            } else {
                html::word(&result, "/verdict").to_owned()
            },
            reasons: html::words(&result, "/reasons").into_iter().chain(error).collect(),
            folder,
            figures,
        };
        if !job.quiet {
            let at: Vec<String> =
                job.args.axes().zip(&values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
            print_progress(&format!(
                "{:>3} of {count}{}  {}  goodput {} Gb/s  {}",
                number + 1,
                if job.args.repeat > 1 { format!(", run {}", repeat + 1) } else { String::new() },
                at.join("  "),
                run.figures.get("goodput_gbps").map_or("-".to_owned(), |g| format!("{g:.3}")),
                run.verdict
            ));
        }
        runs.push(run);
    }
    let figures = Statistics::of(runs.iter().map(|r| &r.figures));
    Ok(Some(Point { values, runs, figures }))
}

/// The name of a run's folder.
fn folder(number: usize, count: usize, repeat: u32, repeats: u32) -> String {
    let width = count.to_string().len().max(2);
    match repeats {
        1 => format!("{:0width$}", number + 1),
        _ => format!("{:0width$}-{}", number + 1, repeat + 1),
    }
}
