//! A sweep as text and as a table for programs.

use super::{FIGURES, Point, Sweep};
use roce_engine::units::Duration;
use std::fmt::Write;

/// For a terminal: a line for each point.
pub(super) fn text(sweep: &Sweep) -> String {
    let keys: Vec<&str> = sweep.axes.iter().map(|a| short(sweep, &a.key)).collect();
    let repeated = sweep.repeat > 1;
    let mut head: Vec<String> = keys.iter().map(|k| (*k).to_owned()).collect();
    let axes = head.len();
    head.extend(["goodput Gb/s", "L1 Gb/s", "line %", "messages/s", "p50", "p99"].map(str::to_owned));
    if repeated {
        head.extend(["goodput min..max", "cv %", "p99 min..max"].map(str::to_owned));
    }
    head.extend(["failed", "resent", "verdict"].map(str::to_owned));
    let mut rows = vec![head];
    rows.extend(sweep.points.iter().map(|p| line(p, repeated)));
    let columns = rows[0].len();
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut text = String::new();
        for (c, cell) in row.iter().enumerate() {
            let w = widths[c];
            let _ = if c < axes || c == columns - 1 {
                write!(text, "{cell:<w$}  ")
            } else {
                write!(text, "{cell:>w$}  ")
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    for reason in sweep.points.iter().flat_map(|p| &p.runs).flat_map(|r| &r.reasons).take(8) {
        let _ = writeln!(out, "  {reason}");
    }
    let runs: usize = sweep.points.iter().map(|p| p.runs.len()).sum();
    let _ = writeln!(out, "{} points, {runs} runs\nverdict: {}", sweep.points.len(), sweep.verdict);
    out
}

/// The last word of a key, where no other axis has it.
fn short<'a>(sweep: &Sweep, key: &'a str) -> &'a str {
    let last = |k: &'a str| k.rsplit('.').next().unwrap_or(k);
    let unique = sweep.axes.iter().filter(|a| a.key.rsplit('.').next() == Some(last(key))).count() == 1;
    if unique { last(key) } else { key }
}

fn line(p: &Point, repeated: bool) -> Vec<String> {
    let figure = |name: &str| p.figures.get(name);
    let mean =
        |name: &str, places: usize| figure(name).map_or("-".to_owned(), |s| format!("{:.places$}", s.mean));
    let time = |ns: f64| Duration::from_nanos(ns as u64).to_string();
    let latency = |name: &str| figure(name).map_or("-".to_owned(), |s| time(s.mean));
    let mut row = p.values.clone();
    row.extend([
        mean("goodput_gbps", 3),
        mean("l1_gbps", 3),
        mean("line_rate_pct", 2),
        mean("message_rate", 0),
        latency("latency_p50_ns"),
        latency("latency_p99_ns"),
    ]);
    if repeated {
        let spread = |name: &str, form: &dyn Fn(f64) -> String| {
            figure(name).map_or("-".to_owned(), |s| format!("{}..{}", form(s.min), form(s.max)))
        };
        row.push(spread("goodput_gbps", &|x| format!("{x:.3}")));
        row.push(
            figure("goodput_gbps").and_then(|s| s.cv_pct).map_or("-".to_owned(), |cv| format!("{cv:.2}")),
        );
        row.push(spread("latency_p99_ns", &time));
    }
    let passed = p.runs.iter().filter(|r| r.verdict == "pass").count();
    row.extend([mean("messages_failed", 0), mean("retransmits", 0)]);
    row.push(match (passed, p.runs.len()) {
        (n, all) if n == all => "pass".to_owned(),
        (_, 1) => p.runs[0].verdict.clone(),
        (n, all) => format!("{n} of {all} pass"),
    });
    row
}

/// For programs: a line for each run.
pub(super) fn csv(sweep: &Sweep) -> String {
    let quoted = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let mut head: Vec<String> = sweep.axes.iter().map(|a| quoted(&a.key)).collect();
    head.extend(["run", "verdict"].map(str::to_owned));
    head.extend(FIGURES.iter().map(|f| f.name.to_owned()));
    let mut out = head.join(",") + "\n";
    for point in &sweep.points {
        for (number, run) in point.runs.iter().enumerate() {
            let mut row: Vec<String> = point.values.iter().map(|v| quoted(v)).collect();
            row.extend([(number + 1).to_string(), run.verdict.clone()]);
            row.extend(
                FIGURES.iter().map(|f| run.figures.get(f.name).map_or(String::new(), |x| x.to_string())),
            );
            out += &(row.join(",") + "\n");
        }
    }
    out
}
