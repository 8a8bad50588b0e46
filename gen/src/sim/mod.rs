//! `rocegen sim`: the same scenario in virtual time.

mod build;
mod chart;
mod cliff;
mod world;

pub use cliff::{Cliff, Point, Tail};
pub use world::simulate;

use crate::cli::SimArgs;
use crate::config::Scenario;
use crate::plan::Memory;
use crate::report::{self, Outputs};
use crate::{machine, run::EnvironmentError};
use anyhow::Result;
use std::process::ExitCode;

/// The seed of a scenario that has none: nothing is left to chance in virtual time.
pub const SEED: u64 = 1;

/// Simulates a scenario and reports; the exit code is the verdict.
///
/// # Errors
/// A [`crate::config::ScenarioError`] or an [`EnvironmentError`]: nothing was simulated.
pub fn sim(args: &SimArgs, quiet: bool) -> Result<ExitCode> {
    let scenario = Scenario::load(&args.scenario.file, &args.overrides())?;
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
        let judged = simulate(&scenario, quiet)?;
        outputs.write(&scenario, &judged)?;
        return Ok(judged.exit_code());
    };
    let cliff = Cliff::of(&scenario, sweep, quiet)?;
    if let Some(dir) = &args.out {
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text)
                .map_err(|e| EnvironmentError(format!("cannot write {}: {e}", path.display())))
        };
        put("cliff.json", &(serde_json::to_string_pretty(&cliff)? + "\n"))?;
        put("cliff.csv", &cliff.csv())?;
        put("cliff.txt", &cliff.to_string())?;
        put("cliff.svg", &chart::draw(&cliff)?)?;
        put("scenario.toml", &scenario.text)?;
    }
    let text = if args.json { serde_json::to_string_pretty(&cliff)? + "\n" } else { cliff.to_string() };
    report::print(&text)?;
    Ok(if cliff.passed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
