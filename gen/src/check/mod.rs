//! `rocegen check`: what a run would do, without starting anything.

mod report;
mod text;

pub use report::Report;

use crate::config::{Override, Scenario, ScenarioError, validate_cores};
use crate::machine;
use crate::plan::Memory;
use std::path::Path;

/// Reads a scenario, checks that this machine has the cores and the memory for it, and reports what
/// it would do.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check(file: &Path, changes: &[Override]) -> Result<Report, ScenarioError> {
    let scenario = Scenario::load(file, changes)?;
    let cores = validate_cores(&scenario, &machine::available_cores())?;
    let memory = Memory::of(&scenario);
    let available = machine::available_memory();
    if let Some(available) = available {
        memory.check(&scenario, available)?;
    }
    Ok(Report::new(&scenario, &cores, &memory, available))
}
