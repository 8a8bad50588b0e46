//! `rocegen run`: ports, workers, connections, the phases of a run, the result.

mod connect;
pub(crate) mod control;
mod environment;
mod hands;
mod judges;
mod links;
mod live;
pub(crate) mod measures;
mod metrics;
mod ports;
pub(crate) mod progress;
pub(crate) mod setup;
pub(crate) mod signal;
mod talk;
pub(crate) mod view;
mod worker;

pub use environment::{Environment, start_dpdk};
pub(crate) use judges::{judges, longest_hold};
pub use ports::list_ports;

use crate::cli::RunArgs;
use crate::config::{Place, Scenario, ScenarioError, validate_cores};
use crate::machine;
use crate::plan::Memory;
use crate::report;
use crate::sweep::{self, Job};
use anyhow::Result;
use std::process::ExitCode;

/// The machine cannot do what the scenario needs: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EnvironmentError(pub String);

/// Runs a scenario and reports; the exit code is the verdict.
///
/// # Errors
/// A [`crate::config::ScenarioError`] or an [`EnvironmentError`]: nothing was run.
pub fn run(args: &RunArgs, quiet: bool) -> Result<ExitCode> {
    if args.sweep.is_wanted() {
        if args.pcap.file.is_some() {
            let text = "records one run: leave --sweep and --repeat out".to_owned();
            return Err(ScenarioError { place: Place::Option("--pcap".to_owned()), text }.into());
        }
        return sweep::sweep(&Job {
            mode: sweep::Mode::Run,
            file: &args.scenario.file,
            changes: &args.overrides(),
            args: &args.sweep,
            out: args.out.as_deref(),
            json: args.json,
            quiet,
        });
    }
    let scenario = Scenario::load(&args.scenario.file, &args.overrides())?;
    if scenario.fabric.is_some() {
        let text = "[fabric]: hosts and switches exist in virtual time only: rocegen sim".to_owned();
        return Err(ScenarioError { place: scenario.place("fabric", None, None), text }.into());
    }
    if scenario.run.sample.is_some_and(|s| s < control::FINEST) {
        let text = "[run]: key \"sample\": must be at least 1ms outside virtual time".to_owned();
        return Err(ScenarioError { place: scenario.place("run", None, Some("sample")), text }.into());
    }
    let cores = validate_cores(&scenario, &machine::available_cores())?;
    if let Some(available) = machine::available_memory() {
        Memory::of(&scenario).check(&scenario, available)?;
    }
    for warning in &scenario.warnings {
        log::warn!("{warning}");
    }
    let outputs = report::Outputs::prepare(args)?;
    let signals = signal::Signals::install()?;
    match control::run(&scenario, &cores, args, &signals, quiet) {
        Ok(judged) => {
            outputs.write(&scenario, &judged)?;
            Ok(judged.exit_code())
        }
        Err(error) => signals.exit_code(Err(error)),
    }
}
