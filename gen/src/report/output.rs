//! Where a result goes: standard output, a directory, a recording.

use super::{Judged, hdr};
use crate::cli::RunArgs;
use crate::config::Scenario;
use crate::run::EnvironmentError;
use anyhow::{Context, Result};
use roce_engine::io::pcap;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The places that a run's result goes to.
#[derive(Debug)]
pub struct Outputs {
    json: bool,
    directory: Option<PathBuf>,
    recording: Option<Recording>,
}

/// A file for recorded frames.
#[derive(Debug)]
struct Recording {
    path: PathBuf,
    file: File,
    /// Whether it is of use: a new one is not until something was written.
    keep: bool,
}

impl Recording {
    fn create(path: &Path) -> io::Result<Recording> {
        let keep = path.exists();
        Ok(Recording { path: path.to_owned(), file: File::create(path)?, keep })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Outputs {
    /// Makes sure of the places before the run.
    ///
    /// # Errors
    /// An [`EnvironmentError`]: a file or directory cannot be written.
    pub fn prepare(args: &RunArgs) -> Result<Outputs> {
        let outputs = Outputs::for_sim(args.json, args.out.as_deref())?;
        let recording = match &args.pcap.file {
            None => None,
            Some(path) => Some(
                Recording::create(path)
                    .map_err(|e| EnvironmentError(format!("--pcap {}: {e}", path.display())))?,
            ),
        };
        Ok(Outputs { recording, ..outputs })
    }

    /// Those of a run without ports to record from.
    ///
    /// # Errors
    /// An [`EnvironmentError`]: the directory cannot be written.
    pub fn for_sim(json: bool, out: Option<&Path>) -> Result<Outputs> {
        if let Some(dir) = out {
            // A directory that is there need not be writable.
            let probe = dir.join(format!(".rocegen-{}", std::process::id()));
            fs::create_dir_all(dir)
                .and_then(|()| File::create_new(&probe))
                .and_then(|_| fs::remove_file(&probe))
                .map_err(|e| EnvironmentError(format!("--out {}: {e}", dir.display())))?;
        }
        Ok(Outputs { json, directory: out.map(Path::to_owned), recording: None })
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
            let page = super::html::page(&serde_json::to_value(&judged.result)?, &scenario.text);
            put("report.html", page.as_bytes())?;
            let mut log = Vec::new();
            hdr::write(&mut log, scenario, &judged.run.intervals, judged.run.origin_ns)?;
            put("latency.hlog", &log)?;
            if !judged.run.injected.is_empty() {
                put("impair.log", super::injected::log(scenario, &judged.run.injected).as_bytes())?;
            }
        }
        if let Some(mut recording) = self.recording {
            recording.keep = true;
            let mut out = BufWriter::new(&recording.file);
            let ports: Vec<_> = judged.run.captures.iter().map(|(n, c)| (n.as_str(), c)).collect();
            pcap::write_pcapng(&mut out, &ports, judged.run.origin_ns)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(out.flush()?))
                .with_context(|| format!("cannot write {}", recording.path.display()))?;
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
        for flow in judged.result.flows.iter().filter(|f| f.messages == 0 && f.messages_warmup != 0) {
            log::warn!("flow \"{}\": nothing was measured: all its messages ended in the warm-up", flow.name);
        }
        print(&if self.json { json } else { judged.result.to_string() })
    }
}

/// Writes a line to standard error.
pub(crate) fn print_progress(line: &str) {
    // Nothing is left to do when standard error is gone.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes to standard output; a reader that has gone, as in `| head`, is no error.
pub fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
