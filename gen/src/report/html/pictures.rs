//! The pictures of a page, from the result's JSON.

use super::chart::{Axis, Bar, Chart, Kind, Series, bars};
use super::text::{Form, float, list, number, percentile, time, whole, word};
use serde_json::Value;

/// Lines that a picture has room for.
const LINES: usize = 8;

/// The pictures that the result has something for, in order.
pub(super) fn all(result: &Value) -> Vec<String> {
    let over_time = Over::of(result);
    let timed = over_time.as_ref();
    [
        timed.and_then(|o| o.throughput(result)),
        percentiles(result),
        timed.and_then(Over::latency),
        completions(result),
        timed.and_then(Over::rates),
        timed.and_then(|o| o.events("CNPs", "congestion notifications that came back to the sender", "cnps")),
        timed.and_then(|o| {
            o.events("NAKs", "negative acknowledgements that came back, RNR NAKs included", "naks")
        }),
        timed.and_then(|o| o.events("Sent again", "packets sent again", "retransmits")),
        queues(result),
        pauses(result),
        stages(result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The result over time.
struct Over<'v> {
    /// The middle of each span, in a unit that suits.
    at: Vec<f64>,
    unit: &'static str,
    /// The length of most spans, in words.
    step: String,
    lines: Vec<&'v Value>,
    /// Lines that are not drawn.
    more: usize,
}

impl<'v> Over<'v> {
    fn of(result: &'v Value) -> Option<Over<'v>> {
        let ends: Vec<f64> = list(result, "/timeline/ends_s").iter().filter_map(Value::as_f64).collect();
        let (scale, unit) = suited(*ends.last()?);
        let begin =
            |i: usize| if i == 0 { 2.0 * ends[0] - ends.get(1).unwrap_or(&ends[0]) } else { ends[i - 1] };
        let at = ends.iter().enumerate().map(|(i, end)| (begin(i).max(0.0) + end) / 2.0 * scale).collect();
        let mut spans: Vec<f64> = ends.windows(2).map(|w| w[1] - w[0]).collect();
        spans.sort_by(f64::total_cmp);
        let step = spans.get(spans.len() / 2).map_or(String::new(), |s| time(s * 1e9));
        let mut lines: Vec<&Value> = list(result, "/timeline/lines").iter().collect();
        let sum = |l: &Value| list(l, "/goodput_gbps").iter().filter_map(Value::as_f64).sum::<f64>();
        let more = lines.len().saturating_sub(LINES);
        if more != 0 {
            lines.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
            lines.truncate(LINES);
        }
        Some(Over { at, unit, step, lines, more })
    }

    fn series(&self, line: &Value, index: usize, key: &str, kind: Kind) -> Series {
        let values = list(line, &format!("/{key}"));
        let points = self.at.iter().zip(values).map(|(x, y)| (*x, y.as_f64())).collect();
        Series {
            name: word(line, "/name").to_owned(),
            colour: index,
            kind,
            dashed: false,
            points,
            spread: Vec::new(),
        }
    }

    fn note(&self, what: &str) -> String {
        let more = match self.more {
            0 => String::new(),
            n => format!("; {n} more flows are not drawn"),
        };
        format!("{what}, in spans of {}{more}", self.step)
    }

    fn axis(&self) -> Axis {
        Axis::linear(&format!("time, {}", self.unit), Form::Plain).from(0.0)
    }

    fn throughput(&self, result: &Value) -> Option<String> {
        let series: Vec<Series> = self
            .lines
            .iter()
            .enumerate()
            .map(|(i, l)| self.series(l, i, "goodput_gbps", Kind::Line))
            .collect();
        let most = series.iter().flat_map(|s| &s.points).filter_map(|p| p.1).fold(0.0, f64::max);
        let line = list(result, "/flows").iter().find_map(|f| float(f, "/line_rate_gbps"));
        // Only where it is near what was reached: else it flattens the picture.
        let line = line.filter(|l| most > 0.4 * l && most < 1.1 * l);
        let mut y = Axis::linear("Gb/s", Form::Plain).from(0.0);
        if let Some(line) = line {
            y = y.to(line.max(most));
        }
        Chart {
            title: "Throughput over time".to_owned(),
            note: self.note("goodput, the payload that arrived"),
            x: self.axis(),
            y,
            series,
            reference: line.map(|l| (l, format!("line rate {} Gb/s", number(l)))),
            full: true,
        }
        .html()
    }

    fn latency(&self) -> Option<String> {
        let mut series = Vec::new();
        // Two lines for each of many flows are a thicket.
        let keys: &[(&str, &str, bool)] = match self.lines.len() {
            1 | 2 => &[("p99_ns", "p99", false), ("p50_ns", "p50", true)],
            _ => &[("p99_ns", "p99", false)],
        };
        for (i, line) in self.lines.iter().enumerate() {
            for &(key, name, dashed) in keys {
                let mut s = self.series(line, i, key, Kind::Line);
                s.name = if self.lines.len() == 1 { name.to_owned() } else { format!("{} {name}", s.name) };
                s.dashed = dashed;
                series.push(s);
            }
        }
        let note = self.note("of the messages that ended in each span, right to 1/16");
        Chart {
            title: "Latency over time".to_owned(),
            note,
            x: self.axis(),
            y: Axis::log("latency", Form::Time),
            series,
            reference: None,
            full: false,
        }
        .html()
    }

    fn rates(&self) -> Option<String> {
        let limited = self.lines.iter().enumerate().filter(|(_, l)| l.pointer("/rate_gbps").is_some());
        Chart {
            title: "Rate that DCQCN allows".to_owned(),
            note: self.note("at L1, all queue pairs of a flow together"),
            x: self.axis(),
            y: Axis::linear("Gb/s", Form::Plain).from(0.0),
            series: limited.map(|(i, l)| self.series(l, i, "rate_gbps", Kind::Line)).collect(),
            reference: None,
            full: false,
        }
        .html()
    }

    /// Counts by span, those of all flows together.
    fn events(&self, title: &str, what: &str, key: &str) -> Option<String> {
        let mut sums = vec![0.0; self.at.len()];
        for line in &self.lines {
            for (sum, n) in sums.iter_mut().zip(list(line, &format!("/{key}"))) {
                *sum += n.as_f64().unwrap_or(0.0);
            }
        }
        if sums.iter().all(|n| *n == 0.0) {
            return None;
        }
        let points = self.at.iter().zip(&sums).map(|(x, y)| (*x, Some(*y))).collect();
        let colour = if key == "cnps" { 2 } else { 4 };
        Chart {
            title: format!("{title} over time"),
            note: self.note(&format!("{what}, all flows")),
            x: self.axis(),
            y: Axis::linear("in each span", Form::Plain).from(0.0),
            series: vec![Series {
                name: title.to_owned(),
                colour,
                kind: Kind::Bars,
                dashed: false,
                points,
                spread: Vec::new(),
            }],
            reference: None,
            full: false,
        }
        .html()
    }
}

/// Latency against percentile, both logarithmic.
fn percentiles(result: &Value) -> Option<String> {
    let flows: Vec<&Value> =
        list(result, "/flows").iter().filter(|f| !list(f, "/latency_spread").is_empty()).collect();
    let mut shown = flows.clone();
    let p99 = |f: &Value| whole(f, "/latency_ns/p99");
    if shown.len() > LINES {
        // The worst are what one looks for.
        shown.sort_by_key(|f| std::cmp::Reverse(p99(f)));
        shown.truncate(LINES);
    }
    let series: Vec<Series> = shown
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let pair = |p: &Value| Some((p.get(0)?.as_f64()?, p.get(1)?.as_f64()?));
            let mut points: Vec<(f64, Option<f64>)> = list(f, "/latency_spread")
                .iter()
                .filter_map(pair)
                .map(|(p, ns)| (nines(p), Some(ns.max(1.0))))
                .collect();
            // The longest stands for the share that is one message.
            if let (Some(max), count @ 1..) = (float(f, "/latency_ns/max"), whole(f, "/latency_ns/count")) {
                let last = (count as f64).log10().max(points.last().map_or(0.0, |p| p.0) + 0.02);
                points.push((last, Some(max.max(1.0))));
            }
            Series {
                name: word(f, "/name").to_owned(),
                colour: i,
                kind: Kind::Line,
                dashed: false,
                points,
                spread: Vec::new(),
            }
        })
        .collect();
    let end = series.iter().filter_map(|s| s.points.last()).map(|p| p.0).fold(1.0, f64::max);
    let mut note =
        "each message recorded; every step to the right is a tenth of the messages before it".to_owned();
    if flows.len() > shown.len() {
        note += &format!("; the {} flows with the highest p99 of {}", shown.len(), flows.len());
    }
    Chart {
        title: "Latency by percentile".to_owned(),
        note,
        x: Axis::linear("share of messages that took no longer", Form::Nines).from(0.0).to(end * 1.02),
        y: Axis::log("latency", Form::Time),
        series,
        reference: None,
        full: false,
    }
    .html()
}

/// 99 % is 2.
fn nines(percent: f64) -> f64 {
    -((100.0 - percent).max(1e-9) / 100.0).log10()
}

/// Completion times by size, of flows whose messages differ in size.
fn completions(result: &Value) -> Option<String> {
    let flows: Vec<&Value> =
        list(result, "/flows").iter().filter(|f| list(f, "/by_size").len() > 1).take(LINES / 2).collect();
    // Without a line rate there is no ideal.
    let ideal = flows.iter().any(|f| f.pointer("/by_size/0/slowdown").is_some());
    let keys = match ideal {
        true => [("/slowdown/p99", "p99", false), ("/slowdown/p50", "p50", true)],
        false => [("/time_p99_ns", "p99", false), ("/time_p50_ns", "p50", true)],
    };
    let mut series = Vec::new();
    for (colour, flow) in flows.iter().enumerate() {
        for (place, name, dashed) in keys {
            let point = |b: &Value| Some((float(b, "/to_bytes")?.max(1.0), float(b, place)));
            let points: Vec<_> = list(flow, "/by_size").iter().filter_map(point).collect();
            let name = format!("{} {name}", word(flow, "/name"));
            series.push(Series { name, colour, kind: Kind::Marked, dashed, points, spread: Vec::new() });
        }
    }
    let note = match ideal {
        true => "slowdown: the time that messages took, as a multiple of the ideal",
        false => "the time from when a message was due to its completion",
    };
    Chart {
        title: "Flow completion by size".to_owned(),
        note: note.to_owned(),
        x: Axis::log("size of the message", Form::Bytes),
        y: if ideal { Axis::log("slowdown", Form::Plain) } else { Axis::log("time", Form::Time) },
        series,
        reference: ideal.then(|| (1.0, "ideal".to_owned())),
        full: false,
    }
    .html()
}

/// What seconds are multiplied with, and the unit that they have then.
fn suited(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s >= 1.5 => (1.0, "s"),
        s if s >= 1.5e-3 => (1e3, "ms"),
        _ => (1e6, "\u{b5}s"),
    }
}

/// The ends of the spans in which queues were looked at, and their unit.
fn looks(result: &Value) -> Option<(Vec<f64>, &'static str)> {
    let ends: Vec<f64> = list(result, "/fabric/queues/ends_s").iter().filter_map(Value::as_f64).collect();
    let (scale, unit) = suited(*ends.last()?);
    Some((ends.into_iter().map(|end| end * scale).collect(), unit))
}

/// The longest queues of switches over time.
fn queues(result: &Value) -> Option<String> {
    let (at, unit) = looks(result)?;
    let line = |(colour, line): (usize, &Value)| Series {
        name: format!("{} \u{2192} {}", word(line, "/name"), word(line, "/to")),
        colour,
        kind: Kind::Line,
        dashed: false,
        points: at.iter().zip(list(line, "/bytes")).map(|(x, y)| (*x, y.as_f64().map(|b| b / 1e3))).collect(),
        spread: Vec::new(),
    };
    let series: Vec<Series> =
        list(result, "/fabric/queues/lines").iter().take(LINES).enumerate().map(line).collect();
    Chart {
        title: "Queues of switches".to_owned(),
        note: "bytes that waited when they were looked at; the ports with the longest queues".to_owned(),
        x: Axis::linear(&format!("time, {unit}"), Form::Plain).from(0.0),
        y: Axis::linear("kB", Form::Plain).from(0.0),
        series,
        reference: None,
        full: false,
    }
    .html()
}

/// Pauses over time, where there were any.
fn pauses(result: &Value) -> Option<String> {
    let (at, unit) = looks(result)?;
    let counts = list(result, "/fabric/queues/pauses");
    if counts.iter().all(|n| n.as_u64() == Some(0)) {
        return None;
    }
    let points = at.iter().zip(counts).map(|(x, y)| (*x, y.as_f64())).collect();
    let name = "Pauses over time".to_owned();
    Chart {
        title: name.clone(),
        note: "pauses of priorities that ports asked their peers for, all ports together".to_owned(),
        x: Axis::linear(&format!("time, {unit}"), Form::Plain).from(0.0),
        y: Axis::linear("in each span", Form::Plain).from(0.0),
        series: vec![Series { name, colour: 3, kind: Kind::Bars, dashed: false, points, spread: Vec::new() }],
        reference: None,
        full: false,
    }
    .html()
}

/// The stages of recovery of the flow that lost most.
fn stages(result: &Value) -> Option<String> {
    let lost = list(result, "/flows").iter().filter(|f| f.pointer("/recovery/stages_ns").is_some());
    let flow = lost.max_by_key(|f| whole(f, "/recovery/resent"))?;
    let mut all: Vec<Bar> = flow
        .pointer("/recovery/stages_ns")?
        .as_object()?
        .iter()
        .map(|(name, s)| Bar {
            name: name.replace('_', " "),
            count: whole(s, "/count"),
            p50: float(s, "/p50").unwrap_or(0.0),
            p99: float(s, "/p99").unwrap_or(0.0),
            max: float(s, "/max").unwrap_or(0.0),
        })
        .collect();
    all.sort_by(|a, b| a.p50.total_cmp(&b.p50));
    let note = format!(
        "flow {}: median (dot), {} (thick) and longest (thin); {}, {} packets sent again",
        word(flow, "/name"),
        percentile(99.0),
        word(flow, "/recovery/mode"),
        number(float(flow, "/recovery/resent").unwrap_or(0.0))
    );
    bars("Stages of recovery", &note, &all)
}
