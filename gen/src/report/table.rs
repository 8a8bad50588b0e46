//! The result for a person: verdict first, rates side by side, latency, what went wrong.

use super::collective;
use super::details;
use super::result::{FlowResult, LatencyResult, RunResult};
use roce_engine::units::Duration;
use std::fmt::{self, Write};

/// More flows or ports than that are summed up.
const MANY: usize = 32;

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.environment;
        writeln!(f, "rocegen {}  DPDK {}  {}", e.rocegen, e.dpdk, e.cpu)?;
        writeln!(f, "memory: {}", e.memory)?;
        if e.clock.source != "virtual" {
            let (mhz, ppm) = (e.clock.hz as f64 / 1e6, e.clock.drift_ppm);
            writeln!(f, "clock: {} at {mhz:.3} MHz, {ppm:+.2} ppm against CLOCK_MONOTONIC", e.clock.source)?;
        }
        writeln!(f)?;
        if self.flows.len() > MANY {
            tables(f, &self.flows)?;
        } else {
            rates(f, &self.flows)?;
            writeln!(f)?;
            latencies(f, &self.flows, self.latency_ns)?;
            details::write(f, &self.flows)?;
            recoveries(f, &self.flows)?;
        }
        writeln!(f)?;
        collective::write(f, &self.collectives)?;
        if self.flows.len() <= MANY {
            gaps(f, &self.flows)?;
            reactions(f, &self.flows)?;
        }
        for p in self.ports.iter().filter(|_| self.ports.len() <= MANY) {
            write!(
                f,
                "port {:<10} {:<22} tx {:>12}  rx {:>12}  delivered {}  answered {}",
                p.name, p.device, p.tx_packets, p.rx_packets, p.delivered, p.answered
            )?;
            if let Some(n) = p.tail_dropped {
                write!(f, "  tail_dropped {n}")?;
            }
            for (reason, n) in &p.rx_dropped {
                write!(f, "  {reason} {n}")?;
            }
            if p.tx_dropped != 0 {
                write!(f, "  tx_dropped {}", p.tx_dropped)?;
            }
            writeln!(f)?;
            if let Some(flow_control) = &p.flow_control {
                write!(f, "{flow_control}")?;
            }
        }
        if let Some(i) = &self.impairment {
            write!(f, "{i}")?;
        }
        if let Some(fabric) = &self.fabric {
            write!(f, "{fabric}")?;
        }
        if let Some(by_hand) = &self.by_hand {
            writeln!(f, "{by_hand}")?;
        }
        for limit in self.limits.iter().take(MANY) {
            writeln!(f, "{limit}")?;
        }
        for w in self.workers.iter().filter(|_| self.fabric.is_none()) {
            writeln!(
                f,
                "core {:<3} busy {:>5.1} %  turns {}  longest {}",
                w.core,
                w.busy_pct,
                w.turns,
                Duration::from_nanos(w.longest_turn_ns)
            )?;
        }
        writeln!(f)?;
        for e in &self.expectations {
            let of = e.flow.as_deref().unwrap_or("run");
            let got = e.got.map_or("nothing".to_string(), number);
            let mark = if e.pass { "ok  " } else { "FAIL" };
            writeln!(f, "{mark} {of}: {} {} (got {got})", e.metric, e.want)?;
        }
        for reason in &self.reasons {
            writeln!(f, "  {reason}")?;
        }
        writeln!(f, "verdict: {}", self.verdict)
    }
}

/// The flows of each table of the scenario together.
fn tables(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    writeln!(
        f,
        "{:<14} {:>6} {:>12} {:>9} {:>9} {:>9} {:>12} {:>7} {:>7}",
        "flows of", "count", "goodput sum", "least", "mean", "most", "messages", "failed", "resent"
    )?;
    for table in flows.chunk_by(|a, b| a.table() == b.table()) {
        let goodput = || table.iter().map(|r| r.goodput_gbps);
        let sum: f64 = goodput().sum();
        writeln!(
            f,
            "{:<14} {:>6} {:>12.3} {:>9.3} {:>9.3} {:>9.3} {:>12} {:>7} {:>7}",
            table[0].table(),
            table.len(),
            sum,
            goodput().fold(f64::INFINITY, f64::min),
            sum / table.len() as f64,
            goodput().fold(0.0, f64::max),
            table.iter().map(|r| r.messages).sum::<u64>(),
            table.iter().map(|r| r.messages_failed).sum::<u64>(),
            table.iter().map(|r| r.retransmits).sum::<u64>(),
        )?;
    }
    Ok(())
}

fn rates(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    writeln!(
        f,
        "{:<14} {:<9} {:>9} {:>5} {:>9} {:>9} {:>9} {:>7} {:>13} {:>9} {:>7} {:>7}",
        "flow",
        "verb",
        "size",
        "qps",
        "L1 Gb/s",
        "L2 Gb/s",
        "goodput",
        "line %",
        "messages/s",
        "Mpkt/s",
        "failed",
        "resent"
    )?;
    for r in flows {
        let share = r.line_rate_pct.map_or("-".into(), |p| format!("{p:.2}"));
        writeln!(
            f,
            "{:<14} {:<9} {:>9} {:>5} {:>9.3} {:>9.3} {:>9.3} {share:>7} {:>13.0} {:>9.3} {:>7} {:>7}",
            r.name,
            r.verb,
            size(r.size_bytes),
            r.qps,
            r.l1_gbps,
            r.l2_gbps,
            r.goodput_gbps,
            r.message_rate,
            r.packet_rate / 1e6,
            r.messages_failed,
            r.retransmits,
        )?;
    }
    Ok(())
}

fn latencies(f: &mut fmt::Formatter<'_>, flows: &[FlowResult], all: Option<LatencyResult>) -> fmt::Result {
    writeln!(
        f,
        "{:<14} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}  verified",
        "latency", "messages", "min", "p50", "p99", "p99.9", "p99.99", "p99.999", "max", "at"
    )?;
    for r in flows {
        let line = latency_line(&r.name, r.latency_ns);
        let verified = match (r.messages_verified, r.verify_errors) {
            (0, 0) => "off".to_string(),
            (n, 0) => format!("{n} right"),
            (n, wrong) => format!("{wrong} of {n} WRONG"),
        };
        writeln!(f, "{line}  {verified}")?;
    }
    if all.is_some() {
        writeln!(f, "{}", latency_line("all flows", all))?;
    }
    Ok(())
}

fn latency_line(name: &str, latency: Option<LatencyResult>) -> String {
    let mut line = format!("{name:<14} ");
    match latency {
        Some(l) => {
            let _ = write!(line, "{:>12}", l.count);
            for ns in [l.min, l.p50, l.p99, l.p99_9, l.p99_99, l.p99_999, l.max] {
                let _ = write!(line, " {:>10}", Duration::from_nanos(ns).to_string());
            }
            let _ = write!(line, " {:>8.3}s", l.max_at_s);
        }
        None => line += "no samples",
    }
    line
}

/// The time between the packets of a queue pair, where something spaces them.
fn gaps(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.packet_gap_ns.is_none()) {
        return Ok(());
    }
    writeln!(
        f,
        "{:<14} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "packet gap", "gaps", "mean", "p50", "p99", "max"
    )?;
    for r in flows {
        let Some(g) = r.packet_gap_ns else { continue };
        write!(f, "{:<14} {:>12}", r.name, g.count)?;
        for ns in [g.mean, g.p50, g.p99, g.max] {
            write!(f, " {:>10}", Duration::from_nanos(ns).to_string())?;
        }
        writeln!(f)?;
    }
    writeln!(f)
}

/// What congestion control came to, where there was one.
fn reactions(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.dcqcn.is_none()) {
        return Ok(());
    }
    writeln!(
        f,
        "{:<14} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>9} {:>9} {:>9}",
        "dcqcn", "rate Gb/s", "min", "max", "target", "alpha", "limited", "cuts", "CNPs sent", "handled"
    )?;
    for r in flows {
        let Some(d) = r.dcqcn else { continue };
        writeln!(
            f,
            "{:<14} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>7.4} {:>8} {:>9} {:>9} {:>9}",
            r.name,
            d.rate_gbps,
            d.rate_min_gbps,
            d.rate_max_gbps,
            d.target_gbps,
            d.alpha,
            format!("{} of {}", d.limited_qps, r.qps),
            d.cuts,
            r.counters.get("np_cnp_sent").copied().unwrap_or_default(),
            r.counters.get("rp_cnp_handled").copied().unwrap_or_default(),
        )?;
    }
    writeln!(f)
}

/// Of the flows that lost something.
fn recoveries(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    let mut all = flows.iter().filter_map(|r| Some((r, r.recovery.as_ref()?))).peekable();
    if all.peek().is_none() {
        return Ok(());
    }
    writeln!(f)?;
    writeln!(
        f,
        "{:<14} {:<17} {:>9} {:>10} {:>10} {:>10}",
        "recovery", "stage", "times", "p50", "p99", "max"
    )?;
    all.try_for_each(|(r, recovery)| recovery.write(f, &r.name))
}

/// 1 MiB, 64 KiB, 100 B.
pub(super) fn size(bytes: u32) -> String {
    match bytes {
        b if b != 0 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b != 0 && b % (1 << 10) == 0 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

/// Up to three decimals.
fn number(n: f64) -> String {
    let text = format!("{n:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
