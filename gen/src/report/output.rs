//! Where a result goes: standard output, a directory, a recording.

use super::{Judged, hdr};
use crate::cli::RunArgs;
use crate::config::Scenario;
use crate::run::EnvironmentError;
use anyhow::{Context, Result};
use roce_engine::io::pcap;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

/// The places that a run's result goes to.
#[derive(Debug)]
pub struct Outputs {
    json: bool,
    directory: Option<PathBuf>,
    recording: Option<(PathBuf, File)>,
}

impl Outputs {
    /// Makes sure of the places before the run.
    ///
    /// # Errors
    /// An [`EnvironmentError`]: a file or directory cannot be written.
    pub fn prepare(args: &RunArgs) -> Result<Outputs> {
        if let Some(dir) = &args.out {
            fs::create_dir_all(dir).map_err(|e| EnvironmentError(format!("--out {}: {e}", dir.display())))?;
        }
        let recording = match &args.pcap.file {
            None => None,
            Some(path) => {
                let file = File::create(path)
                    .map_err(|e| EnvironmentError(format!("--pcap {}: {e}", path.display())))?;
                Some((path.clone(), file))
            }
        };
        Ok(Outputs { json: args.json, directory: args.out.clone(), recording })
    }

    /// Writes everything.
    pub fn write(self, scenario: &Scenario, judged: &Judged) -> Result<()> {
        let json = serde_json::to_string_pretty(&judged.result)? + "\n";
        if let Some(dir) = &self.directory {
            let put = |name: &str, bytes: &[u8]| {
                let path = dir.join(name);
                fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
            };
            put("result.json", json.as_bytes())?;
            put("scenario.toml", scenario.text.as_bytes())?;
            let mut log = Vec::new();
            hdr::write(&mut log, scenario, &judged.run.intervals, judged.run.origin_ns)?;
            put("latency.hlog", &log)?;
        }
        if let Some((path, file)) = self.recording {
            let ports: Vec<_> = judged.run.captures.iter().map(|(n, c)| (n.as_str(), c)).collect();
            pcap::write_pcapng(BufWriter::new(file), &ports, judged.run.origin_ns)
                .with_context(|| format!("cannot write {}", path.display()))?;
            for (name, capture) in &judged.run.captures {
                if capture.missed() != 0 {
                    log::warn!(
                        "--pcap: port \"{name}\": {} frames kept, {} more were not; raise --pcap-count",
                        capture.len(),
                        capture.missed()
                    );
                }
            }
        }
        print(&if self.json { json } else { judged.result.to_string() })
    }
}

/// Writes to standard output; a reader that has gone, as in `| head`, is no error.
pub fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
