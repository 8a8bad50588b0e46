//! Expectations: metrics of the result against what the scenario wants.

use super::detail::{jain, max_min_ratio};
use super::fabric::FabricResult;
use super::result::{FlowResult, PortResult};
use crate::config::{Expect, Scenario};
use schemars::JsonSchema;
use serde::Serialize;

/// An expectation and how it came out.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ExpectationResult {
    /// The flow; the whole run when `null`.
    pub flow: Option<String>,
    /// The metric.
    pub metric: String,
    /// What was wanted, as the scenario has it.
    pub want: String,
    /// What came out, in the metric's unit (times in nanoseconds); `null` when there was none.
    pub got: Option<f64>,
    /// Whether it holds.
    pub pass: bool,
}

/// Judges all expectations.
pub(super) fn judge(
    s: &Scenario,
    flows: &[FlowResult],
    ports: &[PortResult],
    fabric: Option<&FabricResult>,
) -> Vec<ExpectationResult> {
    let judge = |e: &Expect| {
        let got = value(e, flows, ports, fabric);
        ExpectationResult {
            flow: s.subject(e).map(str::to_owned),
            metric: e.metric.clone(),
            want: e.text.clone(),
            got,
            pass: got.is_some_and(|got| e.op.holds(got, e.value)),
        }
    };
    s.expects.iter().map(judge).collect()
}

/// The metric of a flow, of the flows of a table, or of the run: counts and rates add up, of percentiles and shares the
/// worst counts.
fn value(
    e: &Expect,
    flows: &[FlowResult],
    ports: &[PortResult],
    fabric: Option<&FabricResult>,
) -> Option<f64> {
    let flows = match e.flow {
        Some(first) => &flows[first..first + e.flows],
        None => flows,
    };
    if let Some(counter) = e.metric.strip_prefix("counters.") {
        if counter.starts_with("fabric_") {
            return Some(fabric?.count(counter)? as f64);
        }
        if !super::result::counter_names().contains(&counter) {
            return Some(ports.iter().map(|p| of_port(p, counter)).sum::<u64>() as f64);
        }
    }
    let goodputs = || flows.iter().map(|f| f.goodput_gbps).collect::<Vec<_>>();
    match e.metric.as_str() {
        "jain" => return jain(&goodputs()),
        "max_min_ratio" => return max_min_ratio(&goodputs()),
        _ => {}
    }
    let all: Vec<f64> = flows.iter().map(|f| of_flow(f, &e.metric)).collect::<Option<_>>()?;
    Some(match e.metric.as_str() {
        "line_rate_pct" | "latency_min" | "min_window_gbps" => all.into_iter().fold(f64::INFINITY, f64::min),
        "size_ks" | "post_delay_p50" | "post_delay_p99" | "slowdown_p99" => {
            all.into_iter().fold(0.0, f64::max)
        }
        m if m.starts_with("latency_") && m != "latency_count" => all.into_iter().fold(0.0, f64::max),
        "elapsed" => all.into_iter().fold(0.0, f64::max),
        _ => all.into_iter().sum(),
    })
}

fn of_flow(f: &FlowResult, metric: &str) -> Option<f64> {
    let count = |n: u64| Some(n as f64);
    if let Some(counter) = metric.strip_prefix("counters.") {
        return f.counters.get(counter).map(|n| *n as f64);
    }
    match metric {
        "line_rate_pct" => f.line_rate_pct,
        "goodput_gbps" => Some(f.goodput_gbps),
        "min_window_gbps" => f.min_window_gbps,
        "l1_gbps" => Some(f.l1_gbps),
        "l2_gbps" => Some(f.l2_gbps),
        "message_rate" => Some(f.message_rate),
        "packet_rate" => Some(f.packet_rate),
        "messages" => count(f.messages),
        "messages_failed" => count(f.messages_failed),
        "bytes" => count(f.bytes),
        "elapsed" => Some(f.elapsed_s * 1e9),
        "verify_errors" => count(f.verify_errors),
        "retransmits" => count(f.retransmits),
        "messages_overdue" => count(f.messages_overdue),
        "size_ks" => f.detail.sizes.as_ref().map(|s| s.ks_distance),
        "post_delay_p50" => count(f.detail.post_delay_ns?.p50),
        "post_delay_p99" => count(f.detail.post_delay_ns?.p99),
        "slowdown_p99" => f.detail.by_size.iter().filter_map(|b| Some(b.slowdown?.p99)).reduce(f64::max),
        "latency_count" => count(f.latency_ns.map_or(0, |l| l.count)),
        _ => {
            let l = f.latency_ns?;
            match metric {
                "latency_min" => count(l.min),
                "latency_mean" => Some(l.mean),
                "latency_p50" => count(l.p50),
                "latency_p90" => count(l.p90),
                "latency_p95" => count(l.p95),
                "latency_p99" => count(l.p99),
                "latency_p99_9" => count(l.p99_9),
                "latency_p99_99" => count(l.p99_99),
                "latency_p99_999" => count(l.p99_999),
                "latency_max" => count(l.max),
                _ => None,
            }
        }
    }
}

fn of_port(p: &PortResult, counter: &str) -> u64 {
    match counter {
        "rx_packets" => p.rx_packets,
        "tx_packets" => p.tx_packets,
        "delivered" => p.delivered,
        "answered" => p.answered,
        reason => p.rx_dropped.get(reason).copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::METRICS;

    /// Every metric that a scenario may name has a value here.
    #[test]
    fn every_metric_is_known() {
        let source = include_str!("expect.rs");
        for metric in METRICS {
            assert!(source.contains(&format!("\"{metric}\" =>")), "{metric}");
        }
    }
}
