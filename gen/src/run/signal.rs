//! Ctrl-C: the first ends the run in good order, the second at once.

use super::live::give_back;
use anyhow::{Context, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a shell reports for a program that SIGINT ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Interrupts seen so far.
#[derive(Clone, Debug)]
pub(crate) struct Signals(Arc<AtomicU32>);

impl Signals {
    /// Takes SIGINT and SIGTERM over.
    pub(crate) fn install() -> Result<Signals> {
        let seen = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&seen);
        ctrlc::set_handler(move || {
            if counter.fetch_add(1, Ordering::SeqCst) > 0 {
                give_back();
                std::process::exit(i32::from(INTERRUPTED));
            }
        })
        .context("cannot take over SIGINT")?;
        Ok(Signals(seen))
    }

    /// Ends the run as one Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.0.fetch_max(1, Ordering::SeqCst);
    }

    /// How a program ends: what goes wrong after an interrupt is the interrupt's doing.
    pub(crate) fn exit_code(&self, outcome: Result<ExitCode>) -> Result<ExitCode> {
        match outcome {
            Err(error) if self.interrupted() => {
                log::warn!("{error:#}");
                Ok(ExitCode::from(INTERRUPTED))
            }
            other => other,
        }
    }

    /// Whether the run is to end.
    pub(crate) fn interrupted(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}
