//! The result of collectives: time, and bandwidth as nccl-tests reports it.

use super::Finished;
use crate::config::{Collective, Scenario};
use crate::measure::Latency;
use roce_engine::units::Duration;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The result of a collective.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CollectiveResult {
    /// The table of the scenario.
    pub name: String,
    /// What it did: `all-reduce`, `halving-doubling`, `all-gather`, `reduce-scatter` or `all-to-all`.
    pub pattern: &'static str,
    /// Ports that took part.
    pub ranks: usize,
    /// Bytes of the buffer of a rank.
    pub bytes: u64,
    /// Steps of an iteration.
    pub steps: usize,
    /// Iterations that ended in the measured span, in the mean of the ranks.
    pub iterations: f64,
    /// How long an iteration took a rank in the mean, in nanoseconds: from when it had all of the one
    /// before until it had all of this one.
    pub time_mean_ns: f64,
    /// The shortest.
    pub time_min_ns: u64,
    /// The median.
    pub time_p50_ns: u64,
    /// 99 %.
    pub time_p99_ns: u64,
    /// The longest.
    pub time_max_ns: u64,
    /// `bytes` by the mean time.
    pub algorithm_gbps: f64,
    /// What bus bandwidth is to algorithm bandwidth.
    pub bus_factor: f64,
    /// `algorithm_gbps` times `bus_factor`: comparable to the rate of the ports whatever their number.
    pub bus_gbps: f64,
}

impl CollectiveResult {
    /// Those of a run.
    pub(super) fn all(s: &Scenario, run: &Finished) -> Vec<CollectiveResult> {
        let of = |(c, time): (&Collective, &Latency)| CollectiveResult::of(c, time);
        s.collectives.iter().zip(&run.collectives).filter_map(of).collect()
    }

    fn of(c: &Collective, time: &Latency) -> Option<CollectiveResult> {
        let mean = time.mean_ns()?;
        let algorithm_gbps = c.bytes as f64 * 8.0 / mean;
        let bus_factor = c.factor.0 as f64 / c.factor.1 as f64;
        Some(CollectiveResult {
            name: c.name.clone(),
            pattern: c.pattern,
            ranks: c.ranks,
            bytes: c.bytes,
            steps: c.steps,
            iterations: time.count() as f64 / c.ranks as f64,
            time_mean_ns: mean,
            time_min_ns: time.min_ns()?,
            time_p50_ns: time.percentile_ns(50.0)?,
            time_p99_ns: time.percentile_ns(99.0)?,
            time_max_ns: time.max_ns()?,
            algorithm_gbps,
            bus_factor,
            bus_gbps: algorithm_gbps * bus_factor,
        })
    }
}

/// The lines of the table.
pub(super) fn write(f: &mut fmt::Formatter<'_>, all: &[CollectiveResult]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "{:<14} {:<16} {:>6} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "collective",
        "pattern",
        "ranks",
        "bytes",
        "iterations",
        "mean",
        "min",
        "p99",
        "max",
        "alg Gb/s",
        "bus Gb/s"
    )?;
    for c in all {
        write!(f, "{:<14} {:<16} {:>6} {:>12} {:>10.1}", c.name, c.pattern, c.ranks, c.bytes, c.iterations)?;
        for ns in [c.time_mean_ns.round() as u64, c.time_min_ns, c.time_p99_ns, c.time_max_ns] {
            write!(f, " {:>10}", Duration::from_nanos(ns).to_string())?;
        }
        writeln!(f, " {:>10.3} {:>10.3}", c.algorithm_gbps, c.bus_gbps)?;
    }
    writeln!(f)
}
