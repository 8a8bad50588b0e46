//! The page of a search for a rate, from its JSON.

use super::chart::{Axis, Chart, Kind, Series};
use super::tables::section;
use super::text::{Cell, Form, count, esc, float, list, number, table, time, whole, word};
use super::{end_of, head_of, tile};
use serde_json::Value;
use std::fmt::Write;

/// The page of a search; `scenario` is the text of the scenario file.
pub fn search_page(search: &Value, scenario: &str) -> String {
    let name = word(search, "/scenario").rsplit('/').next().unwrap_or_default();
    let unit = word(search, "/unit");
    let mut out = head_of(&format!("{name}: the rate that holds"));
    let _ = writeln!(
        out,
        "<header><div class=\"top\"><div><p class=\"kicker\">rocegen search, {}</p><h1>{}</h1></div></div>\
         <p class=\"lede\">The highest rate of flow {} {}.</p></header>",
        match word(search, "/mode") {
            "sim" => "in virtual time",
            _ => "on ports",
        },
        esc(name),
        esc(word(search, "/flow")),
        esc(&condition(search)),
    );
    tiles(&mut out, search, unit);
    let charts = [steps(search, unit), latency(search, unit), lost(search, unit), reached(search, unit)];
    let charts: String = charts.iter().flatten().filter_map(Chart::html).collect();
    if !charts.is_empty() {
        out += &section("Charts", &format!("<div class=\"charts\">\n{charts}</div>\n"));
    }
    out += &section("Trials", &rows(search, unit));
    if !scenario.is_empty() {
        out += &section("Scenario", &format!("<pre>{}</pre>\n", esc(scenario.trim_end())));
    }
    end_of(&mut out, "All figures of this page are in search.json.");
    out
}

/// What must hold, in words.
fn condition(search: &Value) -> String {
    match word(search, "/until").split_once('<') {
        Some((figure, bound)) => {
            format!("at which nothing fails and {figure} of the latency is below {bound}")
        }
        None => "at which nothing is lost".to_owned(),
    }
}

fn tiles(out: &mut String, search: &Value, unit: &str) {
    let trials = list(search, "/trials");
    let best = trials.iter().rev().find(|t| t["asked"] == search["found"] && t["holds"] == true);
    out.push_str("<div class=\"tiles\">");
    match float(search, "/found") {
        Some(found) => tile(out, "Holds", &number(found), unit, "the highest that does"),
        None => tile(out, "Holds", "none", "", "not even the lowest rate"),
    }
    match float(search, "/failed") {
        Some(failed) => tile(out, "Does not hold", &number(failed), unit, "the lowest that does not"),
        None => tile(out, "Does not hold", "none", "", "not even the highest rate fails"),
    }
    if let Some(goodput) = best.and_then(|t| float(t, "/figures/goodput_gbps")) {
        tile(out, "Goodput", &number(goodput), "Gb/s", "at the rate that holds");
    }
    for (name, key) in [("Median latency", "p50"), ("p99 latency", "p99")] {
        if let Some(ns) = best.and_then(|t| float(t, &format!("/figures/latency_{key}_ns"))) {
            let text = time(ns);
            let (value, unit) = text.split_once('\u{a0}').unwrap_or((&text, ""));
            tile(out, name, value, unit, "at the rate that holds");
        }
    }
    tile(out, "Trials", &trials.len().to_string(), "", "");
    out.push_str("</div>\n");
}

/// A figure of the trials, by whether they hold.
fn split(search: &Value, point: impl Fn(usize, &Value) -> Option<(f64, f64)>) -> Vec<Series> {
    let kinds = [("holds", 1, false, true), ("does not", 4, true, false)];
    let series = kinds.map(|(name, colour, dashed, holds)| {
        let trials = list(search, "/trials").iter().enumerate();
        let points = trials.filter(|(_, t)| t["holds"] == holds).filter_map(|(i, t)| point(i, t));
        let mut points: Vec<_> = points.map(|(x, y)| (x, Some(y))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: name.to_owned(), colour, kind: Kind::Marked, dashed, points, spread: Vec::new() }
    });
    series.into_iter().filter(|s| !s.points.is_empty()).collect()
}

/// How the search closed in.
fn steps(search: &Value, unit: &str) -> Option<Chart> {
    let series = split(search, |i, t| Some((i as f64 + 1.0, float(t, "/asked")?)));
    let trials = list(search, "/trials").len();
    let mut x = Axis::linear("trial", Form::Plain);
    x.labels = (1..=trials).map(|n| (n as f64, n.to_string())).collect();
    Some(Chart {
        title: "Rates that were tried".to_owned(),
        note: "one trial after the other: what holds is a bound from below, what does not one from above"
            .to_owned(),
        x,
        y: Axis::linear(unit, Form::Plain).from(0.0),
        series,
        reference: float(search, "/found").map(|f| (f, format!("{} {unit} holds", number(f)))),
        full: true,
    })
}

/// Latencies against the rate.
fn latency(search: &Value, unit: &str) -> Option<Chart> {
    let line = |key: &str, colour, dashed| {
        let point = |t: &Value| {
            let ns = float(t, &format!("/figures/latency_{key}_ns")).filter(|ns| *ns > 0.0)?;
            Some((float(t, "/asked")?, Some(ns)))
        };
        let mut points: Vec<_> = list(search, "/trials").iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = key.replace("p99_9", "p99.9");
        Series { name, colour, kind: Kind::Marked, dashed, points, spread: Vec::new() }
    };
    let bound = float(search, "/bound_ns").map(|ns| (ns, format!("bound {}", time(ns))));
    let asked = match word(search, "/until").split('<').next() {
        Some("max") => Some("max"),
        Some("p99.9") => Some("p99_9"),
        _ => None,
    };
    let mut series = vec![line("p99", 0, false), line("p50", 2, true)];
    series.extend(asked.map(|key| line(key, 4, false)));
    series.retain(|s| !s.points.is_empty());
    Some(Chart {
        title: "Latency against rate".to_owned(),
        note: "of the slowest flow, at each rate that was asked for".to_owned(),
        x: Axis::linear(&format!("rate asked for, {unit}"), Form::Plain),
        y: Axis::log("latency", Form::Time),
        series,
        reference: bound,
        full: false,
    })
}

/// What was lost against the rate; nothing where nothing was.
fn lost(search: &Value, unit: &str) -> Option<Chart> {
    if list(search, "/trials").iter().all(|t| whole(t, "/lost") == 0) {
        return None;
    }
    Some(Chart {
        title: "Lost against rate".to_owned(),
        note: "packets and messages that were lost, sent again or failed".to_owned(),
        x: Axis::linear(&format!("rate asked for, {unit}"), Form::Plain),
        y: Axis::linear("lost", Form::Plain).from(0.0),
        series: split(search, |_, t| Some((float(t, "/asked")?, whole(t, "/lost") as f64))),
        reference: None,
        full: false,
    })
}

/// What was had of what was asked for.
fn reached(search: &Value, unit: &str) -> Option<Chart> {
    Some(Chart {
        title: "Rate that was had".to_owned(),
        note: "of what was asked for; a rate that is missed by more than 2 % does not hold".to_owned(),
        x: Axis::linear(&format!("rate asked for, {unit}"), Form::Plain).from(0.0),
        y: Axis::linear(&format!("had, {unit}"), Form::Plain).from(0.0),
        series: split(search, |_, t| Some((float(t, "/asked")?, float(t, "/got")?))),
        reference: None,
        full: false,
    })
}

fn rows(search: &Value, unit: &str) -> String {
    let row = |(i, t): (usize, &Value)| {
        let said = match t["holds"].as_bool() {
            Some(true) => "<span class=\"ok\">\u{2713} holds</span>".to_owned(),
            _ => format!("<span class=\"no\">\u{2717} does not</span>: {}", esc(word(t, "/why"))),
        };
        let number = Cell::Figure((i + 1).to_string());
        let report = match t["folder"].as_str() {
            Some(folder) => format!("<a href=\"{}/report.html\">report</a>", esc(folder)),
            None => String::new(),
        };
        vec![
            number,
            Cell::figure(float(t, "/asked"), Form::Plain),
            Cell::figure(float(t, "/got"), Form::Plain),
            Cell::figure(float(t, "/figures/goodput_gbps"), Form::Plain),
            Cell::figure(float(t, "/figures/latency_p50_ns"), Form::Time),
            Cell::figure(float(t, "/figures/latency_p99_ns"), Form::Time),
            Cell::Figure(count(whole(t, "/lost"))),
            Cell::Html(said),
            Cell::Html(report),
        ]
    };
    let head = ["trial", "asked", "had", "goodput Gb/s", "p50", "p99", "lost", "", ""];
    let rows: Vec<_> = list(search, "/trials").iter().enumerate().map(row).collect();
    let said = format!("<p class=\"quiet\">Rates are in {}.</p>", esc(unit));
    table("", &head, &rows) + &said
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trial(asked: f64, holds: bool, lost: u64) -> Value {
        json!({"asked": asked, "got": asked, "lost": lost, "holds": holds, "folder": "01",
            "why": if holds { Value::Null } else { json!("3 <lost>") },
            "figures": {"goodput_gbps": asked * 0.9, "latency_p50_ns": 1e3, "latency_p99_ns": 5e3}})
    }

    #[test]
    fn the_page_has_what_the_search_has() {
        let search = json!({"scenario": "a/x.toml", "mode": "sim", "flow": "f", "until": "loss", "unit": "%",
            "found": 40.0, "failed": 41.0,
            "trials": [trial(100.0, false, 3), trial(1.0, true, 0), trial(40.0, true, 0), trial(41.0, false, 1)]});
        let page = search_page(&search, "[run]\n");
        for want in [
            "x.toml",
            "in virtual time",
            "the highest that does",
            "Rates that were tried",
            "Lost against rate",
            "Latency against rate",
            "3 &lt;lost&gt;",
            "01/report.html",
            "nothing is lost",
        ] {
            assert!(page.contains(want), "{want}");
        }
        assert!(!page.contains("<lost>"));
    }

    #[test]
    fn a_search_that_found_nothing_is_a_page_still() {
        for search in [
            json!({"until": "p99<20us", "bound_ns": 20000, "found": null, "failed": 1.0, "unit": "Gbps",
                "trials": [trial(1.0, false, 0)]}),
            json!({"trials": []}),
            Value::Null,
        ] {
            let page = search_page(&search, "");
            assert!(page.contains("</html>") && !page.contains("NaN"), "{search}");
        }
    }
}
