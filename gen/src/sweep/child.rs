//! A run in a process of its own.

use crate::config::{Override, Place, ScenarioError};
use crate::run::EnvironmentError;
use anyhow::{Result, anyhow};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On ports.
    Run,
    /// In virtual time.
    Sim,
}

impl Mode {
    /// The command.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Run => "run",
            Mode::Sim => "sim",
        }
    }
}

/// One run.
#[derive(Debug)]
pub(crate) struct Child<'a> {
    pub(crate) mode: Mode,
    pub(crate) file: &'a Path,
    pub(crate) changes: &'a [Override],
    pub(crate) out: Option<&'a Path>,
}

impl Child<'_> {
    /// Its result; errors are on standard error already.
    pub(crate) fn run(&self) -> Result<Value> {
        let program =
            std::env::current_exe().map_err(|e| EnvironmentError(format!("no way to start again: {e}")))?;
        let mut command = Command::new(program);
        command.arg(self.mode.word()).arg(self.file).args(["--json", "--quiet"]);
        for change in self.changes {
            command.arg("--set").arg(change.to_string());
        }
        if let Some(dir) = self.out {
            command.arg("--out").arg(dir);
        }
        let ended = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| EnvironmentError(format!("cannot start a run: {e}")))?;
        match ended.status.code() {
            Some(0 | 1 | 130) if !ended.stdout.is_empty() => Ok(serde_json::from_slice(&ended.stdout)?),
            // Interrupted before there was anything.
            Some(130) => Ok(Value::Null),
            Some(2) => {
                let text = "a run was refused; see above".to_owned();
                Err(ScenarioError { place: Place::File(self.file.display().to_string()), text }.into())
            }
            Some(code) => {
                Err(EnvironmentError(format!("a run ended with exit code {code}; see above")).into())
            }
            None => Err(anyhow!("a run was killed")),
        }
    }
}
