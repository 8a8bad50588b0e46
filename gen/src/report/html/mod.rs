//! `report.html`: the result as one page that needs nothing else.
//!
//! It is made of the result's JSON, so that any `result.json` can be turned into it later.

mod chart;
mod compare;
mod pictures;
mod search;
mod sweep;
mod tables;
mod text;

pub use compare::compare_page;
pub use search::search_page;
use serde_json::Value;
use std::fmt::Write;
pub use sweep::{sweep_page, sweep_picture};
pub(crate) use text::{list, word, words};

use text::{count, esc, float, number, time, whole};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Flows of which it is said what limited them.
const LIMITS: usize = 8;

/// The page of a result; `scenario` is the text of the scenario file as it was run.
pub fn page(result: &Value, scenario: &str) -> String {
    let name = word(result, "/scenario").rsplit('/').next().unwrap_or_default();
    let mut out = head_of(&format!("{name}: {}", word(result, "/verdict")));
    header(&mut out, result, name, scenario);
    callouts(&mut out, result);
    tiles(&mut out, result);
    let pictures = pictures::all(result);
    if !pictures.is_empty() {
        out += &tables::section("Charts", &format!("<div class=\"charts\">\n{}</div>\n", pictures.concat()));
    }
    out += &tables::flows(result);
    out += &tables::asked(result);
    out += &tables::sizes(result);
    out += &tables::collectives(result);
    out += &tables::expectations(result);
    out += &tables::workers(result);
    out += &tables::fabric(result);
    out += &tables::flow_control(result);
    out += &tables::ports(result);
    out += &tables::counters(result);
    environment(&mut out, result);
    if !scenario.is_empty() {
        out += &tables::section("Scenario", &format!("<pre>{}</pre>\n", esc(scenario.trim_end())));
    }
    end_of(&mut out, "All figures of this page are in result.json.");
    out
}

/// The beginning of a page.
fn head_of(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n<link rel=\"icon\" \
         href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        esc(title)
    )
}

fn end_of(out: &mut String, said: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        out,
        "<footer>rocegen {version}. {}</footer>\n</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        esc(said)
    );
}

/// The verdict, with a sign that needs no colour.
fn verdict_of(verdict: &str) -> String {
    let mark = match verdict {
        "pass" => "M3 10l5 5 9-11",
        "fail" => "M4 4l12 12M16 4L4 16",
        _ => "M6 4v12M14 4v12",
    };
    let verdict = esc(verdict);
    format!(
        "<div class=\"verdict {verdict}\"><svg viewBox=\"0 0 20 20\" aria-hidden=\"true\"><path d=\"{mark}\"/></svg>\
         {verdict}</div>"
    )
}

fn header(out: &mut String, result: &Value, name: &str, scenario: &str) {
    let _ = write!(
        out,
        "<header><div class=\"top\"><div><p class=\"kicker\">rocegen {}</p><h1>{}</h1></div>{}</div>",
        if is_virtual(result) { "sim" } else { "run" },
        esc(name),
        verdict_of(word(result, "/verdict"))
    );
    let lede = said_first(scenario);
    if !lede.is_empty() {
        let _ = write!(out, "<p class=\"lede\">{}</p>", esc(&lede));
    }
    out.push_str("</header>\n");
}

/// The first paragraph of comment of a scenario.
fn said_first(scenario: &str) -> String {
    let lines = scenario.lines().map_while(|l| l.strip_prefix('#')).map(str::trim);
    let lines: Vec<&str> = lines.take_while(|l| !l.is_empty()).collect();
    lines.join(" ")
}

fn is_virtual(result: &Value) -> bool {
    word(result, "/environment/clock/source") == "virtual"
}

/// Why it failed, and what limited it.
fn callouts(out: &mut String, result: &Value) {
    let mut said = |class: &str, title: &str, sentences: &[String]| {
        if !sentences.is_empty() {
            let _ =
                write!(out, "<div class=\"callouts\"><div class=\"callout {class}\"><h2>{title}</h2><ul>");
            for s in sentences {
                let _ = write!(out, "<li>{}</li>", esc(s));
            }
            out.push_str("</ul></div></div>\n");
        }
    };
    said("fail", "Why it failed", &words(result, "/reasons"));
    let by_hand: Vec<String> = result.get("by_hand").iter().map(|b| word(b, "/text").to_owned()).collect();
    said("limit", "What somebody did at the keyboard", &by_hand);
    let limits = list(result, "/limits");
    let limits: Vec<String> = limits
        .iter()
        .take(LIMITS)
        .map(|l| match l.as_str() {
            Some(text) => text.to_owned(),
            None if limits.len() == 1 => word(l, "/text").to_owned(),
            None => format!("{}: {}", word(l, "/flow"), word(l, "/text")),
        })
        .collect();
    said("limit", "What limited this run", &limits);
}

/// One of the figures at the top.
fn tile(out: &mut String, name: &str, value: &str, unit: &str, note: &str) {
    let [name, value, unit, note] = [name, value, unit, note].map(esc);
    let _ = write!(
        out,
        "<div class=\"tile\"><span>{name}</span><b>{value}<small> {unit}</small></b><em>{note}</em></div>"
    );
}

/// The figures that one looks for first.
fn tiles(out: &mut String, result: &Value) {
    let flows = list(result, "/flows");
    let sum = |p: &str| flows.iter().filter_map(|f| float(f, p)).sum::<f64>();
    let (of, worst) = match flows.len() {
        1 => (String::new(), ""),
        n => (format!("{n} flows"), "worst flow"),
    };
    out.push_str("<div class=\"tiles\">");
    tile(out, "Goodput", &number(sum("/goodput_gbps")), "Gb/s", &of);
    let share = flows.first().and_then(|f| float(f, "/line_rate_pct")).filter(|_| flows.len() == 1);
    let note = share.map_or(of, |s| format!("{} % of line rate", number(s)));
    tile(out, "On the wire, L1", &number(sum("/l1_gbps")), "Gb/s", &note);
    let measured = format!("{} measured", count(sum("/messages") as u64));
    tile(out, "Messages", &number(sum("/message_rate")), "per s", &measured);
    for (name, p) in [("Median latency", "/latency_ns/p50"), ("p99 latency", "/latency_ns/p99")] {
        if let Some(ns) = flows.iter().filter_map(|f| float(f, p)).reduce(f64::max) {
            let text = time(ns);
            let (value, unit) = text.split_once('\u{a0}').unwrap_or((&text, ""));
            tile(out, name, value, unit, worst);
        }
    }
    if let Some(least) = flows.iter().filter_map(|f| float(f, "/min_window_gbps")).reduce(f64::min) {
        tile(out, "Smallest window", &number(least), "Gb/s", worst);
    }
    tile(out, "Failed", &number(sum("/messages_failed") + sum("/verify_errors")), "", "messages");
    let (sent, resent) = (sum("/counters/tx_data_packets"), sum("/retransmits"));
    let share = match resent > 0.0 && sent > 0.0 {
        true => format!("packets, {} %", number(resent / sent * 100.0)),
        false => "packets".to_owned(),
    };
    tile(out, "Sent again", &number(resent), "", &share);
    out.push_str("</div>\n");
}

fn environment(out: &mut String, result: &Value) {
    let drift = float(result, "/environment/clock/drift_ppm");
    let clock = format!(
        "{}, {} Hz{}",
        word(result, "/environment/clock/source"),
        count(whole(result, "/environment/clock/hz")),
        drift
            .filter(|_| !is_virtual(result))
            .map_or(String::new(), |d| format!(", {d} ppm ahead of CLOCK_MONOTONIC at the end"))
    );
    let span = list(result, "/flows").iter().filter_map(|f| float(f, "/elapsed_s")).fold(0.0, f64::max);
    let text = |p: &str| word(result, p).to_owned();
    let mut facts = vec![
        ("scenario file", text("/scenario")),
        ("seed", count(whole(result, "/seed")).replace('\u{202f}', "")),
        ("measured for", time(span * 1e9)),
        ("rocegen", text("/environment/rocegen")),
    ];
    if !is_virtual(result) {
        facts.push(("DPDK", text("/environment/dpdk")));
        facts.push((
            "processor",
            format!("{}, {} cores", text("/environment/cpu"), whole(result, "/environment/cores")),
        ));
        facts.push(("kernel", text("/environment/kernel")));
        facts.push(("memory", text("/environment/memory")));
    }
    facts.push(("clock", clock));
    facts.push((
        "totals",
        if result["balanced"].as_bool() == Some(true) {
            "balance: every frame and message has one fate".to_owned()
        } else {
            "do not balance".to_owned()
        },
    ));
    let mut list = String::from("<div class=\"card\"><dl class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(list, "<dt>{}</dt><dd>{}</dd>", esc(name), esc(&value));
    }
    list.push_str("</dl></div>\n");
    *out += &tables::section("Environment", &list);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result() -> Value {
        json!({
            "verdict": "fail", "scenario": "configs/<x>.toml", "seed": 7, "balanced": true,
            "reasons": ["flow \"a\": 2 messages failed"], "limits": [{"flow": "a", "by": "receiver_core", "text": "core 1 was busy"}],
            "environment": {"rocegen": "0.1.0", "clock": {"source": "tsc", "hz": 1000}},
            "flows": [{
                "name": "a", "verb": "write", "size_bytes": 4096, "qps": 1, "goodput_gbps": 9.5, "elapsed_s": 1.0,
                "latency_ns": {"count": 1000, "p50": 900, "p99": 5000, "max": 8000},
                "latency_spread": [[0.0, 100], [50.0, 900], [99.0, 5000]],
                "counters": {"retransmits": 3, "acks_sent": 0},
                "recovery": {"mode": "go-back-n", "resent": 3,
                    "stages_ns": {"gap_closed": {"count": 3, "p50": 1000, "p99": 2000, "max": 3000}}},
            }],
            "timeline": {"ends_s": [0.5, 1.0], "lines": [{
                "name": "a", "goodput_gbps": [9.0, 10.0], "p50_ns": [900, null], "p99_ns": [5000, null],
                "cnps": [0, 4], "naks": [0, 0], "retransmits": [3, 0], "rate_gbps": [9.0, 8.0],
            }]},
            "by_hand": {"text": "paused for 2 s of the measured time"},
            "fabric": {"queues": {"ends_s": [0.5, 1.0], "pauses": [0, 7],
                "lines": [{"name": "s<1>", "to": "h", "bytes": [0, 5000]}]}},
            "ports": [{"name": "a", "flow_control": {"kind": "pfc", "by": "software",
                "priorities": {"3": {"rx_xoff": 5, "tx_xoff": 6, "pauses": 4, "paused_ns": 9000, "storms": 0}}}}],
        })
    }

    #[test]
    fn the_page_has_what_the_result_has() {
        let page = page(&result(), "# What it shows,\n# in two lines.\n\n[run]\n");
        for title in [
            "Throughput over time",
            "Latency by percentile",
            "Latency over time",
            "Rate that DCQCN allows",
            "CNPs over time",
            "Sent again over time",
            "Stages of recovery",
            "Queues of switches",
            "Pauses over time",
            "Pauses",
            "What somebody did at the keyboard",
            "Why it failed",
            "What limited this run",
            "Counters that are not zero",
            "Scenario",
        ] {
            assert!(page.contains(&format!(">{title}<")), "no {title}");
        }
        assert!(page.contains("<p class=\"lede\">What it shows, in two lines.</p>"));
        assert!(!page.contains("NAKs over time") && !page.contains("acks_sent"), "nothing of what was not");
        assert!(page.contains("core 1 was busy") && page.contains("pfc by software"));
        assert!(!page.contains("<x>") && !page.contains("s<1>"), "names are text");
    }

    #[test]
    fn a_page_loads_nothing() {
        let page = page(&result(), "");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn a_result_without_anything_is_a_page_still() {
        let page = page(&json!({"verdict": "interrupted"}), "");
        assert!(page.contains("interrupted") && !page.contains("NaN"));
        assert!(!page.contains("<figure"));
    }
}
