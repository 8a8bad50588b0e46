//! How what was lost came to its end: counts, and how long the stages took.

use crate::config::Flow;
use crate::measure::FlowStats;
use roce_engine::transport::{Spans, Stage, Stages};
use roce_engine::units::Duration;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The recoveries of a flow since the start, as its ends in this process saw them.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RecoveryResult {
    /// `go-back-n` or `selective-repeat`.
    pub mode: &'static str,
    /// Packets sent again.
    pub resent: u64,
    /// Packets that came although they had come before: sent again in vain, or doubled on the way.
    pub in_vain: u64,
    /// Times that the timer ran out.
    pub timeouts: u64,
    /// By stage, in nanoseconds; stages that did not occur are left out.
    pub stages_ns: BTreeMap<&'static str, StageResult>,
}

/// How long a stage took, in nanoseconds; percentiles are up to an eighth too long.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct StageResult {
    /// Times that it was passed.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl RecoveryResult {
    /// `None` when nothing was lost and nothing came twice.
    pub(super) fn of(flow: &Flow, stats: &FlowStats, stages: &Stages) -> Option<RecoveryResult> {
        let mut c = stats.counters[0];
        c.add(&stats.counters[1]);
        let in_vain = c.duplicate_request + c.duplicate_response;
        if stages.is_empty() && c.retransmits == 0 && in_vain == 0 && c.local_ack_timeout_err == 0 {
            return None;
        }
        let passed = |stage: Stage| Some((stage.name(), StageResult::of(stages.of(stage))?));
        Some(RecoveryResult {
            mode: flow.recovery.as_str(),
            resent: c.retransmits,
            in_vain,
            timeouts: c.local_ack_timeout_err,
            stages_ns: Stage::ALL.into_iter().filter_map(passed).collect(),
        })
    }

    /// The lines of the table, the first one after the flow's name.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, flow: &str) -> fmt::Result {
        writeln!(
            f,
            "{:<14} {:<17} {:>9} resent  {:>7} in vain  {:>5} timeouts",
            flow, self.mode, self.resent, self.in_vain, self.timeouts
        )?;
        for stage in Stage::ALL {
            let Some(s) = self.stages_ns.get(stage.name()) else { continue };
            let [p50, p99, max] = [s.p50, s.p99, s.max].map(|ns| Duration::from_nanos(ns).to_string());
            writeln!(
                f,
                "{:<14} {:<17} {:>9} {p50:>10} {p99:>10} {max:>10}",
                "",
                stage.name().replace('_', " "),
                s.count
            )?;
        }
        Ok(())
    }
}

impl StageResult {
    fn of(spans: &Spans) -> Option<StageResult> {
        let p = |percent| spans.percentile(percent).map(Duration::as_nanos);
        Some(StageResult { count: spans.count(), p50: p(50.0)?, p99: p(99.0)?, max: spans.max().as_nanos() })
    }
}
