//! The tables of a page.

use super::text::{Cell, Form, bytes, count, esc, float, list, table, whole, word};
use serde_json::Value;
use std::collections::BTreeSet;

/// More rows than that help nobody; what is left out is said.
const ROWS: usize = 64;
/// Counters stand side by side for so many flows, else as a sum.
const SIDE_BY_SIDE: usize = 5;

/// Rates and latencies of all flows.
pub(super) fn flows(result: &Value) -> String {
    let flows = list(result, "/flows");
    let head = [
        "flow",
        "verb",
        "size",
        "QPs",
        "goodput Gb/s",
        "L2",
        "L1",
        "line %",
        "messages/s",
        "p50",
        "p99",
        "p99.99",
        "max",
        "failed",
        "resent",
    ];
    let row = |f: &Value| {
        let figure = |p: &str, form| Cell::figure(float(f, p), form);
        vec![
            Cell::Text(word(f, "/name").to_owned()),
            Cell::Text(word(f, "/verb").replace('_', " ")),
            figure("/size_bytes", Form::Bytes),
            figure("/qps", Form::Plain),
            figure("/goodput_gbps", Form::Plain),
            figure("/l2_gbps", Form::Plain),
            figure("/l1_gbps", Form::Plain),
            figure("/line_rate_pct", Form::Plain),
            figure("/message_rate", Form::Plain),
            figure("/latency_ns/p50", Form::Time),
            figure("/latency_ns/p99", Form::Time),
            figure("/latency_ns/p99_99", Form::Time),
            figure("/latency_ns/max", Form::Time),
            figure("/messages_failed", Form::Plain),
            figure("/retransmits", Form::Plain),
        ]
    };
    let rows: Vec<_> = flows.iter().take(ROWS).map(row).collect();
    section("Flows", &(table("flows", &head, &rows) + &left_out(flows.len(), "flows")))
}

/// What flows asked for, and what they got.
pub(super) fn asked(result: &Value) -> String {
    let row = |f: &Value| {
        let kept = f["rate_kept"].as_bool()?;
        let said = if kept {
            "<span class=\"ok\">\u{2713} kept</span>"
        } else {
            "<span class=\"no\">\u{2717} not kept</span>"
        };
        Some(vec![
            Cell::Text(word(f, "/name").to_owned()),
            Cell::Text(word(f, "/rate_unit").replace('_', " ")),
            Cell::figure(float(f, "/rate_asked"), Form::Plain),
            Cell::figure(float(f, "/rate_got"), Form::Plain),
            Cell::Html(format!("{said} {}", esc(word(f, "/why")))),
        ])
    };
    let rows: Vec<_> = list(result, "/flows").iter().filter_map(row).take(ROWS).collect();
    match rows.is_empty() {
        true => String::new(),
        false => section("Rates asked for", &table("", &["flow", "of", "asked", "got", ""], &rows)),
    }
}

/// How long messages took, by size.
pub(super) fn sizes(result: &Value) -> String {
    let mut rows = Vec::new();
    for flow in list(result, "/flows") {
        for bin in list(flow, "/by_size") {
            let figure = |p: &str, form| Cell::figure(float(bin, p), form);
            rows.push(vec![
                Cell::Text(word(flow, "/name").to_owned()),
                figure("/from_bytes", Form::Bytes),
                figure("/to_bytes", Form::Bytes),
                Cell::Figure(count(whole(bin, "/messages"))),
                figure("/time_p50_ns", Form::Time),
                figure("/time_p99_ns", Form::Time),
                figure("/slowdown/mean", Form::Plain),
                figure("/slowdown/p50", Form::Plain),
                figure("/slowdown/p99", Form::Plain),
            ]);
        }
    }
    let more = left_out(rows.len(), "sizes");
    rows.truncate(ROWS);
    let head = ["flow", "from", "to", "messages", "time p50", "p99", "slowdown mean", "p50", "p99"];
    match rows.is_empty() {
        true => String::new(),
        false => section("Completion by size", &(table("", &head, &rows) + &more)),
    }
}

/// Collectives and their bandwidth.
pub(super) fn collectives(result: &Value) -> String {
    let row = |c: &Value| {
        let figure = |p: &str, form| Cell::figure(float(c, p), form);
        vec![
            Cell::Text(word(c, "/name").to_owned()),
            Cell::Text(word(c, "/pattern").to_owned()),
            figure("/ranks", Form::Plain),
            figure("/bytes", Form::Bytes),
            figure("/iterations", Form::Plain),
            figure("/time_mean_ns", Form::Time),
            figure("/time_p99_ns", Form::Time),
            figure("/algorithm_gbps", Form::Plain),
            figure("/bus_gbps", Form::Plain),
        ]
    };
    let rows: Vec<_> = list(result, "/collectives").iter().map(row).collect();
    let head = [
        "collective",
        "pattern",
        "ranks",
        "buffer",
        "iterations",
        "time",
        "p99",
        "algorithm Gb/s",
        "bus Gb/s",
    ];
    match rows.is_empty() {
        true => String::new(),
        false => section("Collectives", &table("", &head, &rows)),
    }
}

/// What was expected.
pub(super) fn expectations(result: &Value) -> String {
    let all = list(result, "/expectations");
    if all.is_empty() {
        return String::new();
    }
    let row = |e: &Value| {
        let pass = e["pass"].as_bool().unwrap_or(false);
        let metric = word(e, "/metric");
        let form = if metric.starts_with("latency_") && metric != "latency_count" {
            Form::Time
        } else {
            Form::Plain
        };
        let mark = if pass {
            "<span class=\"ok\">\u{2713} holds</span>"
        } else {
            "<span class=\"no\">\u{2717} fails</span>"
        };
        vec![
            Cell::Text(e["flow"].as_str().unwrap_or("whole run").to_owned()),
            Cell::Text(metric.to_owned()),
            Cell::Text(word(e, "/want").to_owned()),
            Cell::figure(e["got"].as_f64(), form),
            Cell::Html(mark.to_owned()),
        ]
    };
    // Those that fail come first.
    let (mut rows, held): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|e| !e["pass"].as_bool().unwrap_or(false));
    rows.extend(held);
    let rows: Vec<_> = rows.into_iter().take(ROWS).map(row).collect();
    let head = ["of", "metric", "wanted", "got", ""];
    section("Expectations", &(table("", &head, &rows) + &left_out(all.len(), "expectations")))
}

/// Counters of queue pairs that are not zero.
pub(super) fn counters(result: &Value) -> String {
    let flows = list(result, "/flows");
    let of = |f: &Value, name: &str| whole(f, &format!("/counters/{name}"));
    let names: BTreeSet<&str> = flows
        .iter()
        .filter_map(|f| f["counters"].as_object())
        .flatten()
        .filter(|(_, n)| n.as_u64() != Some(0))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut out = String::new();
    if !names.is_empty() {
        let apart = flows.len() <= SIDE_BY_SIDE;
        let mut head = vec!["counter"];
        head.extend(if apart { flows.iter().map(|f| word(f, "/name")).collect() } else { vec!["all flows"] });
        let rows: Vec<_> = names
            .into_iter()
            .map(|name| {
                let mut row = vec![Cell::Text(name.to_owned())];
                if apart {
                    row.extend(flows.iter().map(|f| Cell::Figure(count(of(f, name)))));
                } else {
                    row.push(Cell::Figure(count(flows.iter().map(|f| of(f, name)).sum())));
                }
                row
            })
            .collect();
        out += &table("", &head, &rows);
    }
    section("Counters that are not zero", &out)
}

/// Ports, and why they dropped frames.
pub(super) fn ports(result: &Value) -> String {
    let ports = list(result, "/ports");
    let row = |p: &Value| {
        let figure = |key: &str| Cell::Figure(count(whole(p, key)));
        let mut dropped: Vec<String> = p["rx_dropped"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(reason, n)| format!("{reason} {}", count(n.as_u64().unwrap_or(0))))
            .collect();
        for key in ["tail_dropped", "tx_dropped", "rx_missed"] {
            match whole(p, &format!("/{key}")) {
                0 => {}
                n => dropped.push(format!("{key} {}", count(n))),
            }
        }
        vec![
            Cell::Text(word(p, "/name").to_owned()),
            Cell::Text(word(p, "/device").to_owned()),
            figure("/tx_packets"),
            figure("/rx_packets"),
            figure("/delivered"),
            figure("/answered"),
            Cell::Text(if dropped.is_empty() { "\u{2013}".to_owned() } else { dropped.join(", ") }),
        ]
    };
    let rows: Vec<_> = ports.iter().take(ROWS).map(row).collect();
    let head = ["port", "device", "sent", "received", "delivered", "answered", "dropped"];
    section("Ports", &(table("", &head, &rows) + &left_out(ports.len(), "ports")))
}

/// Pauses of ports that do flow control.
pub(super) fn flow_control(result: &Value) -> String {
    let mut rows = Vec::new();
    for port in list(result, "/ports") {
        let control = &port["flow_control"];
        for (priority, p) in control["priorities"].as_object().into_iter().flatten() {
            let n = |key: &str| Cell::Figure(count(whole(p, key)));
            rows.push(vec![
                Cell::Text(word(port, "/name").to_owned()),
                Cell::Text(format!("{} by {}", word(control, "/kind"), word(control, "/by"))),
                Cell::Figure(priority.clone()),
                n("/rx_xoff"),
                n("/tx_xoff"),
                n("/pauses"),
                Cell::figure(float(p, "/paused_ns"), Form::Time),
                n("/storms"),
            ]);
        }
    }
    let more = left_out(rows.len(), "priorities");
    rows.truncate(ROWS);
    let head =
        ["port", "flow control", "priority", "pauses received", "sent", "times paused", "paused", "storms"];
    match rows.is_empty() {
        true => String::new(),
        false => section("Pauses", &(table("", &head, &rows) + &more)),
    }
}

/// How busy the workers were.
pub(super) fn workers(result: &Value) -> String {
    let workers = list(result, "/workers");
    // In virtual time nobody is busy.
    if workers.is_empty() || result.pointer("/environment/clock/source") == Some(&Value::from("virtual")) {
        return String::new();
    }
    let row = |w: &Value| {
        vec![
            Cell::Text(format!("core {}", whole(w, "/core"))),
            Cell::figure(float(w, "/busy_pct"), Form::Plain),
            Cell::Figure(count(whole(w, "/turns"))),
            Cell::figure(float(w, "/longest_turn_ns"), Form::Time),
        ]
    };
    let rows: Vec<_> = workers.iter().map(row).collect();
    section("Workers", &table("", &["worker", "busy %", "turns", "longest turn"], &rows))
}

/// The busiest ports of switches.
pub(super) fn fabric(result: &Value) -> String {
    let mut ports: Vec<&Value> = list(result, "/fabric/ports").iter().collect();
    if ports.is_empty() {
        return String::new();
    }
    ports.sort_by_key(|p| std::cmp::Reverse(whole(p, "/queue_peak_bytes")));
    let row = |p: &&Value| {
        let n = |key: &str| Cell::Figure(count(whole(p, key)));
        let dropped: u64 = ["tail_dropped", "headroom_dropped", "watchdog_dropped", "no_route"]
            .iter()
            .map(|key| whole(p, &format!("/{key}")))
            .sum();
        vec![
            Cell::Text(format!("{} \u{2192} {}", word(p, "/name"), word(p, "/to"))),
            Cell::figure(float(p, "/use_pct"), Form::Plain),
            n("/tx_packets"),
            Cell::Figure(bytes(whole(p, "/queue_peak_bytes") as f64)),
            n("/marked"),
            Cell::Figure(count(dropped)),
            n("/pauses_sent"),
            Cell::figure(float(p, "/paused_us").map(|us| us * 1e3), Form::Time),
        ]
    };
    let rows: Vec<_> = ports.iter().take(16).map(row).collect();
    let head = ["port", "use %", "sent", "longest queue", "marked", "dropped", "pauses asked for", "paused"];
    let said = format!(
        "<p class=\"quiet\">Topology {} with {}; the {} ports with the longest queues, of {}.</p>",
        esc(word(result, "/fabric/topology")),
        match list(result, "/fabric/switches").len() {
            1 => "one switch".to_owned(),
            n => format!("{n} switches"),
        },
        rows.len(),
        ports.len()
    );
    section("Switches", &(table("", &head, &rows) + &said))
}

/// A heading and what is below; nothing where there is nothing.
pub(super) fn section(title: &str, body: &str) -> String {
    match body {
        "" => String::new(),
        _ => format!("<section><h2>{}</h2>\n{body}</section>\n", esc(title)),
    }
}

fn left_out(all: usize, what: &str) -> String {
    match all.saturating_sub(ROWS) {
        0 => String::new(),
        n => format!("<p class=\"quiet\">{n} more {what} are in result.json.</p>"),
    }
}
