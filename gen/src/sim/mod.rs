//! `rocegen sim`: the same scenario in virtual time.

mod build;
mod chart;
mod cliff;
mod fabric;
mod pages;
mod plot;
mod sampler;
mod world;

pub use cliff::{Cliff, Point, Tail};
pub use world::simulate;

use crate::cli::SimArgs;
use crate::config::Scenario;
use crate::plan::Memory;
use crate::report::{self, Outputs};
use crate::sweep::{self, Job};
use crate::{machine, run::EnvironmentError};
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;

/// Simulates a scenario and reports; the exit code is the verdict.
///
/// # Errors
/// A [`crate::config::ScenarioError`] or an [`EnvironmentError`]: nothing was simulated.
pub fn sim(args: &SimArgs, quiet: bool) -> Result<ExitCode> {
    if args.sweep.is_wanted() {
        return sweep::sweep(&Job {
            mode: sweep::Mode::Sim,
            file: &args.scenario.file,
            changes: &args.overrides(),
            args: &args.sweep,
            out: args.out.as_deref(),
            json: args.json,
            quiet,
        });
    }
    let scenario = Scenario::load(&args.scenario.file, &args.overrides())?;
    pages::ask_for_large(&scenario, &args.scenario.file);
    if let Some(available) = machine::available_memory()
        && !build::headers_only(&scenario)
    {
        Memory::of(&scenario).check(&scenario, available)?;
    }
    for warning in &scenario.warnings {
        log::warn!("{warning}");
    }
    let outputs = Outputs::for_sim(args.json, args.out.as_deref())?;
    let Some(sweep) = &scenario.cliff else {
        let judged = world::simulate_into(&scenario, quiet, args.out.as_deref())?;
        if let (Some(dir), Some(series)) = (&args.out, &judged.run.series) {
            put(dir, "rates.csv", &series.rates_csv())?;
            put(dir, "queues.csv", &series.queues_csv())?;
            put(dir, "rates.svg", &plot::rates(series)?)?;
            put(dir, "queues.svg", &plot::queues(series)?)?;
        }
        if let (Some(dir), Some(fabric)) = (&args.out, &judged.result.fabric)
            && let Some(svg) = plot::trunks(fabric)?
        {
            put(dir, "trunks.svg", &svg)?;
        }
        outputs.write(&scenario, &judged)?;
        return Ok(judged.exit_code());
    };
    let cliff = Cliff::of(&scenario, sweep, quiet)?;
    if let Some(dir) = &args.out {
        put(dir, "cliff.json", &(serde_json::to_string_pretty(&cliff)? + "\n"))?;
        put(dir, "cliff.csv", &cliff.csv())?;
        put(dir, "cliff.txt", &cliff.to_string())?;
        put(dir, "cliff.svg", &chart::draw(&cliff)?)?;
        put(dir, "scenario.toml", &scenario.text)?;
    }
    let text = if args.json { serde_json::to_string_pretty(&cliff)? + "\n" } else { cliff.to_string() };
    report::print(&text)?;
    Ok(if cliff.passed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn put(dir: &Path, name: &str, text: &str) -> Result<(), EnvironmentError> {
    let path = dir.join(name);
    std::fs::write(&path, text).map_err(|e| EnvironmentError(format!("cannot write {}: {e}", path.display())))
}
