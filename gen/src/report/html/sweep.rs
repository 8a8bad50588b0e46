//! The page and the picture of a sweep, from its JSON.

use super::chart::{Axis, Chart, Kind, Series, picture};
use super::tables::section;
use super::text::{Cell, Form, esc, float, list, percentile, table, whole, word};
use super::{end_of, head_of, verdict_of};
use crate::config::{parse_bit_rate, parse_duration, parse_size};
use serde_json::Value;
use std::fmt::Write;

/// What is drawn of each point: name, figure, how it is written, whether on a logarithmic axis.
const DRAWN: [(&str, &str, &str, Form, bool); 3] = [
    ("Goodput", "goodput_gbps", "Gb/s", Form::Plain, false),
    ("Messages", "message_rate", "per second", Form::Plain, true),
    ("Latency, p99", "latency_p99_ns", "latency", Form::Time, true),
];

/// The page of a sweep; `scenario` is the text of the scenario file.
pub fn sweep_page(sweep: &Value, scenario: &str) -> String {
    let name = word(sweep, "/scenario").rsplit('/').next().unwrap_or_default();
    let verdict = word(sweep, "/verdict");
    let mut out = head_of(&format!("{name}, swept: {verdict}"));
    let points = list(sweep, "/points");
    let axes: Vec<String> = list(sweep, "/axes")
        .iter()
        .map(|a| {
            let values: Vec<&str> = list(a, "/values").iter().filter_map(Value::as_str).collect();
            format!("{} = {}", word(a, "/key"), values.join(", "))
        })
        .collect();
    let repeat = whole(sweep, "/repeat");
    let _ = writeln!(
        out,
        "<header><div class=\"top\"><div><p class=\"kicker\">rocegen {}, {} points{}</p><h1>{}</h1></div>{}</div>\
         <p class=\"lede\">{}</p></header>",
        esc(word(sweep, "/mode")),
        points.len(),
        if repeat > 1 { format!(", {repeat} runs of each") } else { String::new() },
        esc(name),
        verdict_of(verdict),
        esc(&axes.join("; "))
    );
    let charts: Vec<String> = charts(sweep).iter().filter_map(Chart::html).collect();
    if !charts.is_empty() {
        out += &section("Charts", &format!("<div class=\"charts\">\n{}</div>\n", charts.concat()));
    }
    out += &section("Points", &rows(sweep));
    if !scenario.is_empty() {
        out += &section("Scenario", &format!("<pre>{}</pre>\n", esc(scenario.trim_end())));
    }
    end_of(&mut out, "All figures of this page are in sweep.json and sweep.csv.");
    out
}

/// The picture of a sweep; `None` where there is nothing to draw.
pub fn sweep_picture(sweep: &Value) -> Option<String> {
    let name = word(sweep, "/scenario").rsplit('/').next().unwrap_or_default();
    picture(&format!("{name}, {} points", list(sweep, "/points").len()), &charts(sweep))
}

fn rows(sweep: &Value) -> String {
    let axes = list(sweep, "/axes");
    let repeated = whole(sweep, "/repeat") > 1;
    let mut head: Vec<&str> = axes.iter().map(|a| word(a, "/key")).collect();
    head.extend(["goodput Gb/s", "L1 Gb/s", "messages/s", "p50", "p99"]);
    if repeated {
        head.extend(["goodput least", "most", "cv"]);
    }
    head.extend(["failed", "resent", "runs"]);
    let row = |p: &Value| {
        let value = |key: &str, what: &str| float(p, &format!("/figures/{key}/{what}"));
        let figure = |key: &str, form| Cell::figure(value(key, "mean"), form);
        let mut cells: Vec<Cell> = list(p, "/values")
            .iter()
            .map(|v| Cell::Text(v.as_str().unwrap_or_default().to_owned()))
            .collect();
        cells.extend([
            figure("goodput_gbps", Form::Plain),
            figure("l1_gbps", Form::Plain),
            figure("message_rate", Form::Plain),
            figure("latency_p50_ns", Form::Time),
            figure("latency_p99_ns", Form::Time),
        ]);
        if repeated {
            cells.push(Cell::figure(value("goodput_gbps", "min"), Form::Plain));
            cells.push(Cell::figure(value("goodput_gbps", "max"), Form::Plain));
            cells.push(Cell::Figure(
                value("goodput_gbps", "cv_pct").map_or("\u{2013}".to_owned(), percentile),
            ));
        }
        cells.extend([figure("messages_failed", Form::Plain), figure("retransmits", Form::Plain)]);
        cells.push(Cell::Html(list(p, "/runs").iter().map(run).collect::<Vec<_>>().join(" ")));
        cells
    };
    table("flows", &head, &list(sweep, "/points").iter().map(row).collect::<Vec<_>>())
}

/// The verdict of a run, and the way to its page.
fn run(run: &Value) -> String {
    let verdict = word(run, "/verdict");
    let class = if verdict == "pass" { "ok" } else { "no" };
    let said = format!("<span class=\"{class}\">{}</span>", esc(verdict));
    match run["folder"].as_str() {
        Some(folder) => format!("<a href=\"{}/report.html\">{said}</a>", esc(folder)),
        None => said,
    }
}

/// A chart for each figure that is drawn: over the first axis, a line for each combination of the others.
fn charts(sweep: &Value) -> Vec<Chart> {
    let axes = list(sweep, "/axes");
    let Some(first) = axes.first() else { return Vec::new() };
    let values: Vec<&str> = list(first, "/values").iter().filter_map(Value::as_str).collect();
    if values.len() < 2 {
        return Vec::new();
    }
    let x = along(word(first, "/key"), &values);
    DRAWN.iter().map(|drawn| chart(sweep, &x, &values, drawn)).collect()
}

/// The axis of a key: by size where its values are numbers, else one beside the other.
fn along(key: &str, values: &[&str]) -> Axis {
    let numbers: Option<Vec<f64>> = values.iter().map(|v| quantity(v)).collect();
    let (places, log) = match numbers {
        Some(n) if n.iter().all(|x| *x > 0.0) => {
            let (low, high) = n.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(*x), h.max(*x)));
            let log = high / low >= 8.0;
            (n, log)
        }
        Some(n) => (n, false),
        None => ((0..values.len()).map(|i| i as f64).collect(), false),
    };
    let labels = places.into_iter().zip(values.iter().map(|v| (*v).to_owned())).collect();
    let mut axis = if log { Axis::log(key, Form::Plain) } else { Axis::linear(key, Form::Plain) };
    axis.labels = labels;
    axis
}

/// What a value comes to, in whatever unit it has.
fn quantity(text: &str) -> Option<f64> {
    let text = text.trim_matches('"');
    let number = || text.trim_end_matches('%').trim().parse::<f64>().ok();
    let size = || parse_size(text).ok().map(|b| b as f64);
    let rate = || parse_bit_rate(text).ok().map(|r| r.bps() as f64);
    let time = || parse_duration(text).ok().map(|d| d.as_nanos() as f64);
    number().or_else(size).or_else(rate).or_else(time).filter(|x| x.is_finite())
}

fn chart(
    sweep: &Value,
    x: &Axis,
    values: &[&str],
    (name, key, unit, form, log): &(&str, &str, &str, Form, bool),
) -> Chart {
    let axes = list(sweep, "/axes");
    let mut series: Vec<Series> = Vec::new();
    for point in list(sweep, "/points") {
        let at: Vec<&str> = list(point, "/values").iter().filter_map(Value::as_str).collect();
        let Some(place) = at.first().and_then(|v| values.iter().position(|w| w == v)) else { continue };
        let rest: Vec<String> = axes
            .iter()
            .zip(&at)
            .skip(1)
            .map(|(a, v)| format!("{} {v}", word(a, "/key").rsplit('.').next().unwrap_or_default()))
            .collect();
        let rest = rest.join(", ");
        let index = series.iter().position(|s| s.name == rest).unwrap_or_else(|| {
            let colour = series.len();
            series.push(Series {
                name: rest,
                colour,
                kind: Kind::Marked,
                dashed: false,
                points: Vec::new(),
                spread: Vec::new(),
            });
            series.len() - 1
        });
        let x = x.labels[place].0;
        let figure = |what: &str| float(point, &format!("/figures/{key}/{what}"));
        series[index].points.push((x, figure("mean")));
        if let (Some(min), Some(max)) = (figure("min"), figure("max")) {
            if whole(sweep, "/repeat") > 1 {
                series[index].spread.push((x, min, max));
            }
        }
    }
    for s in &mut series {
        s.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let repeated =
        if whole(sweep, "/repeat") > 1 { "mean of the runs, from the least to the most" } else { "" };
    Chart {
        title: (*name).to_owned(),
        note: repeated.to_owned(),
        x: x.clone(),
        y: if *log { Axis::log(unit, *form) } else { Axis::linear(unit, *form).from(0.0) },
        series,
        reference: None,
        full: false,
    }
}
