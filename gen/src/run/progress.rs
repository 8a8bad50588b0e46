//! What is said while a run goes on: a line each interval and flow.

use crate::config::Scenario;
use crate::measure::{FlowStats, Latency};
use crate::plan::Rates;
use roce_engine::units::Duration;
use std::io::{Write, stderr};

/// More flows than that are summed up.
const MANY: usize = 32;

/// The voice of a run.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) silent: bool,
}

impl Progress {
    /// Says what happened in an interval.
    pub(crate) fn interval(
        &self,
        s: &Scenario,
        at: Duration,
        span: Duration,
        flows: &[(FlowStats, FlowStats, Latency)],
    ) {
        if self.silent {
            return;
        }
        if s.flows.len() > MANY {
            let sum = |stats: fn(&(FlowStats, FlowStats, Latency)) -> &FlowStats| {
                flows.iter().map(|f| stats(f).completed).sum::<u64>()
            };
            let messages = (sum(|f| &f.1) - sum(|f| &f.0)) as f64 / span.as_secs_f64().max(1e-9);
            let line = format!("{:>7.1}s {} flows  {messages:>12.0} msg/s", at.as_secs_f64(), s.flows.len());
            return self.say(&line);
        }
        for (flow, (before, now, latency)) in s.flows.iter().zip(flows) {
            let rates = Rates::between(before, now, span);
            let resent = now.counters.iter().map(|c| c.retransmits).sum::<u64>()
                - before.counters.iter().map(|c| c.retransmits).sum::<u64>();
            let p99 = latency
                .percentile_ns(99.0)
                .map_or("-".to_string(), |ns| Duration::from_nanos(ns).to_string());
            let line = format!(
                "{:>7.1}s {:<14} L1 {:>8.3} Gb/s  goodput {:>8.3} Gb/s  {:>12.0} msg/s  p99 {:>9}  resent {}",
                at.as_secs_f64(),
                flow.name,
                rates.l1_bps / 1e9,
                rates.goodput_bps / 1e9,
                rates.messages,
                p99,
                resent,
            );
            self.say(&line);
        }
    }

    /// Says a line.
    pub(crate) fn say(&self, line: &str) {
        if !self.silent {
            // Nothing is left to do when standard error is gone.
            let _ = writeln!(stderr(), "{line}");
        }
    }
}
