//! The table's lines about what was asked, sizes, kinds and queue pairs.

use super::result::FlowResult;
use roce_engine::units::Duration;
use std::fmt;

/// Queue pairs of a flow beyond these are in the JSON only.
const QPS: usize = 32;

pub(super) fn write(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().any(|r| r.latency_kind == "local") {
        writeln!(
            f,
            "latencies of unreliable flows end when the last packet has left; the others are round trips"
        )?;
    }
    asked(f, flows)?;
    delays(f, flows)?;
    sizes(f, flows)?;
    kinds(f, flows)?;
    by_size(f, flows)?;
    queue_pairs(f, flows)
}

/// The flows that did not get what they asked for.
fn asked(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    for r in flows {
        let Some(a) = r.detail.asked.as_ref().filter(|a| !a.rate_kept) else { continue };
        let why = a.why.as_deref().unwrap_or("");
        let rate = |rate: f64| if rate < 1e3 { format!("{rate:.3}") } else { format!("{rate:.0}") };
        let (asked, got) = (rate(a.rate_asked), rate(a.rate_got));
        writeln!(f, "flow \"{}\" asked for {} {asked} and got {got}: {why}", r.name, a.rate_unit)?;
    }
    Ok(())
}

/// How late messages were posted that were due by the clock.
fn delays(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.detail.post_delay_ns.is_none()) {
        return Ok(());
    }
    writeln!(f)?;
    writeln!(
        f,
        "{:<14} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "posted late by", "messages", "p50", "p99", "max", "no room", "overdue"
    )?;
    for r in flows {
        let Some(d) = r.detail.post_delay_ns else { continue };
        write!(f, "{:<14} {:>12}", r.name, d.count)?;
        for ns in [d.p50, d.p99, d.max] {
            write!(f, " {:>10}", Duration::from_nanos(ns).to_string())?;
        }
        let waited = r.detail.messages_waited.unwrap_or(0);
        writeln!(f, " {waited:>10} {:>10}", r.messages_overdue)?;
    }
    Ok(())
}

fn sizes(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.detail.sizes.is_none()) {
        return Ok(());
    }
    writeln!(f)?;
    writeln!(
        f,
        "{:<14} {:>12} {:>12} {:>12} {:>10} {:>10} {:>12} {:>8}  asked",
        "sizes in bytes", "messages", "mean", "mean asked", "p50", "p99", "max", "KS"
    )?;
    for r in flows {
        let Some(s) = &r.detail.sizes else { continue };
        writeln!(
            f,
            "{:<14} {:>12} {:>12.0} {:>12.0} {:>10} {:>10} {:>12} {:>8.4}  {}",
            r.name, s.count, s.mean, s.mean_asked, s.p50, s.p99, s.max, s.ks_distance, s.asked
        )?;
    }
    Ok(())
}

fn kinds(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.detail.mix.is_empty()) {
        return Ok(());
    }
    writeln!(f)?;
    writeln!(f, "{:<14} {:<9} {:>9} {:>12} {:>16}  sizes", "mix", "verb", "asked %", "messages", "bytes")?;
    for (r, k) in flows.iter().flat_map(|r| r.detail.mix.iter().map(move |k| (r, k))) {
        writeln!(
            f,
            "{:<14} {:<9} {:>9.3} {:>12} {:>16}  {}",
            r.name, k.verb, k.share_pct, k.messages, k.bytes, k.sizes
        )?;
    }
    Ok(())
}

fn by_size(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.detail.by_size.is_empty()) {
        return Ok(());
    }
    writeln!(f)?;
    writeln!(
        f,
        "{:<14} {:>12} {:>12} {:>10} {:>10} {:>10} {:>10}  slowdown p50 {:>8} {:>8}",
        "by size", "up to bytes", "messages", "p50", "p95", "p99", "max", "p99", "max"
    )?;
    for (r, b) in flows.iter().flat_map(|r| r.detail.by_size.iter().map(move |b| (r, b))) {
        write!(f, "{:<14} {:>12} {:>12}", r.name, b.to_bytes, b.messages)?;
        for ns in [b.time_p50_ns, b.time_p95_ns, b.time_p99_ns, b.time_max_ns] {
            write!(f, " {:>10}", Duration::from_nanos(ns).to_string())?;
        }
        match b.slowdown {
            Some(s) => writeln!(f, "  {:>12.2} {:>8.2} {:>8.2}", s.p50, s.p99, s.max)?,
            None => writeln!(f)?,
        }
    }
    Ok(())
}

fn queue_pairs(f: &mut fmt::Formatter<'_>, flows: &[FlowResult]) -> fmt::Result {
    if flows.iter().all(|r| r.detail.queue_pairs.is_empty()) {
        return Ok(());
    }
    writeln!(f)?;
    writeln!(
        f,
        "{:<14} {:>6} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "queue pairs", "qp", "messages", "goodput", "p50", "p99", "max"
    )?;
    for r in flows {
        for q in r.detail.queue_pairs.iter().take(QPS) {
            write!(f, "{:<14} {:>6} {:>12} {:>10.3}", r.name, q.qp, q.messages, q.goodput_gbps)?;
            for ns in q.latency_ns.iter().flat_map(|l| [l.p50, l.p99, l.max]) {
                write!(f, " {:>10}", Duration::from_nanos(ns).to_string())?;
            }
            writeln!(f)?;
        }
        if let Some(more) = r.detail.queue_pairs.len().checked_sub(QPS).filter(|n| *n != 0) {
            writeln!(f, "{:<14} and {more} more", r.name)?;
        }
    }
    Ok(())
}
