//! `rocegen perftest`: the other side of the perftest programs, in their own words.
//!
//! Two sides meet over TCP, tell each other their queue pairs in lock step, and measure.  Sizes,
//! counts and directions are not told: they must be the same on both command lines.

mod data;
mod line;
mod options;
mod session;
mod table;
pub mod wire;
mod words;

pub use data::Measured;
pub use line::Line;
pub use options::{AtomicKind, Operation, PerftestArgs, Tool};
pub use session::{Outcome, run};
pub use table::{Micros, Row};

use crate::station;
use anyhow::Result;
use std::process::ExitCode;

/// Runs one test on a DPDK port.
///
/// # Errors
/// An [`EnvironmentError`](crate::run::EnvironmentError): no port, no peer, or a request failed.
pub fn perftest(args: &PerftestArgs) -> Result<ExitCode> {
    station::on_port(&args.station, |station, give_up| {
        let outcome = run(station, args, give_up)?;
        Ok(if args.json { serde_json::to_string_pretty(&outcome)? + "\n" } else { String::new() })
    })
}
