//! `[[expect]]`: what must hold at the end.

use super::error::{ScenarioError, suggest};
use super::model::{Expect, Flow, Op};
use super::quantity::{parse_bit_rate, parse_duration, parse_number, parse_per_second, parse_size};
use super::read::{Table, Value};
use super::source::{KeyPath, Seg, Source};
use roce_engine::transport::QpCounters;
use roce_engine::wire::DropReason;
use toml::de::DeValue;

/// The metrics of a result that an expectation may name; `counters.NAME` is one as well.
pub const METRICS: [&str; 31] = [
    "line_rate_pct",
    "goodput_gbps",
    "l1_gbps",
    "l2_gbps",
    "min_window_gbps",
    "message_rate",
    "packet_rate",
    "messages",
    "messages_failed",
    "bytes",
    "elapsed",
    "verify_errors",
    "retransmits",
    "latency_min",
    "latency_mean",
    "latency_p50",
    "latency_p90",
    "latency_p95",
    "latency_p99",
    "latency_p99_9",
    "latency_p99_99",
    "latency_p99_999",
    "latency_max",
    "latency_count",
    "messages_overdue",
    "post_delay_p50",
    "post_delay_p99",
    "size_ks",
    "slowdown_p99",
    "jain",
    "max_min_ratio",
];

/// Counters of ports besides the reasons for which they drop frames.
const PORT_COUNTERS: [&str; 4] = ["rx_packets", "tx_packets", "delivered", "answered"];

/// Counters of the fabric.
const FABRIC_COUNTERS: [&str; 3] = ["fabric_dropped", "fabric_marked", "fabric_pauses"];

/// Reads one table, which holds any number of expectations.
pub(super) fn read_expect(
    source: &Source,
    t: &Table<'_>,
    flows: &[Flow],
    out: &mut Vec<Expect>,
) -> Result<(), ScenarioError> {
    let flow = match t.text("flow")? {
        Some(name) => Some(flows.iter().position(|f| called(f, name)).ok_or_else(|| {
            let mut names: Vec<_> =
                flows.iter().map(|f| f.group.as_deref().unwrap_or(f.name.as_str())).collect();
            names.dedup();
            let hint = match suggest(name, names.iter().copied()) {
                hint if hint.is_empty() => format!("; there are \"{}\"", names.join("\", \"")),
                hint => hint,
            };
            t.error("flow", format_args!("no such flow{hint}"))
        })?),
        None => None,
    };
    let of = flow.map(|first| {
        let named = t.text("flow").ok().flatten().unwrap_or_default();
        (first, flows[first..].iter().take_while(|f| called(f, named)).count())
    });
    let before = out.len();
    for key in t.keys().filter(|k| *k != "flow") {
        let Some(value) = t.get(key) else { continue };
        if key == "counters" {
            read_counters(source, t, of, value, out)?;
            continue;
        }
        if !METRICS.contains(&key) {
            let hint = match suggest(key, METRICS) {
                hint if hint.is_empty() => {
                    format!("; a counter is written counters.{} = \"== 0\"", key.escape_debug())
                }
                hint => hint,
            };
            let text = format!("unknown metric \"{}\" in [[expect]]{hint}", key.escape_debug());
            return Err(ScenarioError { place: t.place(key), text });
        }
        let (op, value, text) = t.need(key, t.parse(key, |text| comparison(key, text))?)?;
        out.push(expect(of, key.to_owned(), (op, value, text), t.path_of(key)));
    }
    if out.len() == before {
        return Err(t.fail("expects nothing: name a metric, as in messages_failed = \"== 0\""));
    }
    Ok(())
}

fn read_counters(
    source: &Source,
    t: &Table<'_>,
    of: Option<(usize, usize)>,
    value: &Value<'_>,
    out: &mut Vec<Expect>,
) -> Result<(), ScenarioError> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err(t.error("counters", "write counters.out_of_sequence = \"== 0\""));
    };
    let counters = Table::any(source, table, t.path_of("counters"), "[[expect]] counters");
    for key in counters.keys() {
        check_counter(key, of.is_some())
            .map_err(|text| ScenarioError { place: counters.place(key), text })?;
        let metric = format!("counters.{key}");
        let parsed = counters.parse(key, |text| comparison(&metric, text))?;
        out.push(expect(of, metric, counters.need(key, parsed)?, counters.path_of(key)));
    }
    Ok(())
}

/// Whether it has this name, or is one of the flows of a table that has.
fn called(flow: &Flow, name: &str) -> bool {
    flow.name == name || flow.group.as_deref() == Some(name)
}

fn expect(
    of: Option<(usize, usize)>,
    metric: String,
    (op, value, text): (Op, f64, String),
    path: KeyPath,
) -> Expect {
    Expect { flow: of.map(|o| o.0), flows: of.map_or(0, |o| o.1), metric, op, value, text, path }
}

/// That there is such a counter, for a flow or for the whole run.
fn check_counter(name: &str, of_flow: bool) -> Result<(), String> {
    let of_ports = || DropReason::ALL.iter().map(|r| r.name()).chain(PORT_COUNTERS).chain(FABRIC_COUNTERS);
    if QpCounters::NAMES.contains(&name) {
        Ok(())
    } else if !of_ports().any(|n| n == name) {
        let hint = suggest(name, QpCounters::NAMES.iter().copied().chain(of_ports()));
        Err(format!("unknown counter \"{}\" in [[expect]]{hint}", name.escape_debug()))
    } else if of_flow {
        Err(format!("counter \"{name}\" is one of ports: leave \"flow\" out of this [[expect]]"))
    } else {
        Ok(())
    }
}

/// An operator and a value in the unit of the metric.
fn comparison(metric: &str, text: &str) -> Result<(Op, f64, String), String> {
    const OPS: [(&str, Op); 6] =
        [(">=", Op::Ge), ("<=", Op::Le), ("==", Op::Eq), ("!=", Op::Ne), (">", Op::Gt), ("<", Op::Lt)];
    let trimmed = text.trim();
    let Some((sign, op, rest)) =
        OPS.iter().find_map(|&(sign, op)| Some((sign, op, trimmed.strip_prefix(sign)?.trim())))
    else {
        return Err(match trimmed.starts_with('=') {
            true => format!("equality is written \"=={}\"", &trimmed[1..]),
            false => format!(
                "a comparison is missing; write \"== {trimmed}\", \">= {trimmed}\" or another of <= != > <"
            ),
        });
    };
    let value = value(metric, rest).map_err(|e| format!("\"{rest}\": {e}"))?;
    Ok((op, value, format!("{sign} {rest}")))
}

fn value(metric: &str, text: &str) -> Result<f64, String> {
    match metric {
        "line_rate_pct" => {
            let number = text.strip_suffix('%').map_or(text, str::trim_end);
            parse_number(number).map_err(|_| "write 98 or 98%".to_owned())
        }
        "goodput_gbps" | "l1_gbps" | "l2_gbps" | "min_window_gbps" => match parse_number(text) {
            Ok(gbps) => Ok(gbps),
            Err(_) => parse_bit_rate(text)
                .map(|r| r.as_gbps())
                .map_err(|_| "write 92.5, which is Gb/s, or \"92.5Gbps\"".to_owned()),
        },
        "message_rate" | "packet_rate" => parse_per_second(text),
        "elapsed" => parse_duration(text).map(|d| d.as_nanos() as f64),
        "bytes" => parse_size(text).map(|n| n as f64),
        "latency_count" => parse_number(text),
        _ if metric.starts_with("latency_") || metric.starts_with("post_delay_") => {
            parse_duration(text).map(|d| d.as_nanos() as f64)
        }
        _ => parse_number(text).map_err(|_| "write a number, as in \"== 0\"".to_owned()),
    }
}

impl Expect {
    /// The index of the `[[expect]]` it was written in.
    pub fn table(&self) -> usize {
        match self.path.get(1) {
            Some(Seg::Index(i)) => *i,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_unit_of_their_metric() {
        for (metric, text, want) in [
            ("line_rate_pct", ">= 98", (Op::Ge, 98.0)),
            ("line_rate_pct", ">=98 %", (Op::Ge, 98.0)),
            ("goodput_gbps", "> 92.5", (Op::Gt, 92.5)),
            ("l1_gbps", ">= 98Gbps", (Op::Ge, 98.0)),
            ("message_rate", ">= 1Mpps", (Op::Ge, 1e6)),
            ("packet_rate", ">= 5000", (Op::Ge, 5000.0)),
            ("messages_failed", "== 0", (Op::Eq, 0.0)),
            ("messages", "!= 7", (Op::Ne, 7.0)),
            ("latency_p99", "<= 10us", (Op::Le, 10_000.0)),
            ("latency_max", "< 1.5 ms", (Op::Lt, 1_500_000.0)),
            ("latency_count", "> 100", (Op::Gt, 100.0)),
            ("elapsed", "<= 2s", (Op::Le, 2e9)),
            ("bytes", ">= 1MiB", (Op::Ge, 1_048_576.0)),
            ("counters.out_of_sequence", "== 0", (Op::Eq, 0.0)),
        ] {
            let got = comparison(metric, text).map(|(op, value, _)| (op, value));
            assert_eq!(got, Ok(want), "{metric} {text}");
        }
        assert_eq!(comparison("messages", ">=5").map(|c| c.2), Ok(">= 5".into()));
    }

    #[test]
    fn what_is_no_comparison() {
        let error = |metric, text| comparison(metric, text).unwrap_err();
        insta::assert_snapshot!(error("messages", "5"), @r#"a comparison is missing; write "== 5", ">= 5" or another of <= != > <"#);
        insta::assert_snapshot!(error("messages", "= 5"), @r#"equality is written "== 5""#);
        insta::assert_snapshot!(error("messages", ">= many"), @r#""many": write a number, as in "== 0""#);
        insta::assert_snapshot!(error("latency_p99", "<= 10"), @r#""10": a duration needs a unit; write "10s", "500ms", "20us", "100ns", "1m" or "2h""#);
        insta::assert_snapshot!(error("l1_gbps", ">= 9x"), @r#""9x": write 92.5, which is Gb/s, or "92.5Gbps""#);
        insta::assert_snapshot!(error("line_rate_pct", ">= "), @r#""": write 98 or 98%"#);
    }

    #[test]
    fn comparisons() {
        assert!(Op::Ge.holds(2.0, 2.0) && !Op::Gt.holds(2.0, 2.0) && Op::Le.holds(2.0, 2.0));
        assert!(Op::Eq.holds(0.0, 0.0) && Op::Ne.holds(1.0, 0.0) && Op::Lt.holds(1.0, 2.0));
        for op in [Op::Ge, Op::Le, Op::Eq, Op::Ne, Op::Gt, Op::Lt] {
            assert!(!op.holds(f64::NAN, 0.0));
        }
    }
}
