//! Two results side by side, and which of their differences are more than noise.

use super::html::{list, word};
use serde_json::Value;
use std::fmt::{self, Write};

/// Parts that a run is cut into to learn how much it varies by itself.
const PARTS: usize = 20;
/// A run with fewer tells nothing of that.
const LEAST_PARTS: usize = 4;

/// How sure it is that a difference is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The runs vary as much by themselves.
    Noise,
    /// More than that.
    Real,
    /// Nothing is known of how much the figure varies.
    Unknown,
    /// There is none.
    Same,
}

impl Judgement {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Noise => "noise",
            Judgement::Real => "differs",
            Judgement::Unknown => "not judged",
            Judgement::Same => "same",
        }
    }
}

/// A figure of a flow in two runs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The flow; all together in repeats.
    pub flow: String,
    /// The figure.
    pub figure: &'static str,
    /// Whether it is a time in nanoseconds.
    pub is_time: bool,
    /// In the one and in the other.
    pub values: (f64, f64),
    /// What to think of it.
    pub judgement: Judgement,
}

/// What two results differ in.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What each is called.
    pub names: [String; 2],
    /// Their verdicts.
    pub verdicts: [String; 2],
    /// By flow and figure.
    pub differences: Vec<Difference>,
    /// Flows that only one of them has, and which.
    pub alone: Vec<(String, usize)>,
    /// How it was judged, one sentence each.
    pub how: Vec<String>,
}

/// What is compared: name, place in a flow, place in a line of the timeline if it has one, and whether it is a time.
const FIGURES: [(&str, &str, &str, bool); 12] = [
    ("goodput_gbps", "/goodput_gbps", "/goodput_gbps", false),
    ("l1_gbps", "/l1_gbps", "/goodput_gbps", false),
    ("message_rate", "/message_rate", "/goodput_gbps", false),
    ("min_window_gbps", "/min_window_gbps", "", false),
    ("latency_p50", "/latency_ns/p50", "/p50_ns", true),
    ("latency_p99", "/latency_ns/p99", "/p99_ns", true),
    ("latency_p99_9", "/latency_ns/p99_9", "", true),
    ("latency_max", "/latency_ns/max", "", true),
    ("messages_failed", "/messages_failed", COUNT, false),
    ("retransmits", "/retransmits", COUNT, false),
    ("cnps", "/counters/rp_cnp_handled", COUNT, false),
    ("timeouts", "/counters/local_ack_timeout_err", COUNT, false),
];

/// A count of events, which vary by the root of their number.
const COUNT: &str = "count";

impl Comparison {
    /// Of two results, or of two sweeps that repeat one point.
    pub fn of(names: [String; 2], a: &Value, b: &Value) -> Comparison {
        let mut all = Comparison {
            names,
            verdicts: [a, b].map(|v| word(v, "/verdict").to_owned()),
            differences: Vec::new(),
            alone: Vec::new(),
            how: Vec::new(),
        };
        match (repeats(a), repeats(b)) {
            (Some(a), Some(b)) => all.repeats(a, b),
            _ => all.runs(a, b),
        }
        all
    }

    fn runs(&mut self, a: &Value, b: &Value) {
        let flow =
            |of: &'_ Value, name: &str| list(of, "/flows").iter().find(|f| word(f, "/name") == name).cloned();
        for mine in list(a, "/flows") {
            let name = word(mine, "/name");
            let Some(other) = flow(b, name) else {
                self.alone.push((name.to_owned(), 0));
                continue;
            };
            for (figure, place, series, is_time) in FIGURES {
                let value = |v: &Value| v.pointer(place).and_then(Value::as_f64);
                let (Some(x), Some(y)) = (value(mine), value(&other)) else { continue };
                if x == 0.0 && y == 0.0 {
                    continue;
                }
                let judgement = match series {
                    _ if x == y => Judgement::Same,
                    "" => Judgement::Unknown,
                    COUNT => by_count(x, y),
                    series => by_parts(x, y, &parts(a, name, series), &parts(b, name, series)),
                };
                self.differences.push(Difference {
                    flow: name.to_owned(),
                    figure,
                    is_time,
                    values: (x, y),
                    judgement,
                });
            }
        }
        for theirs in list(b, "/flows") {
            if flow(a, word(theirs, "/name")).is_none() {
                self.alone.push((word(theirs, "/name").to_owned(), 1));
            }
        }
        self.how = vec![
            format!(
                "Rates, p50 and p99: each run is cut into up to {PARTS} parts of its timeline; the means of these \
                 parts say how much it varies by itself. A difference is more than noise where Welch's t-test calls \
                 it so at 95 %."
            ),
            "Counts of events vary by the root of their number: a difference beyond two of those is more than noise."
                .to_owned(),
            "Of single figures, such as a maximum, it is not known how much they vary: repeat the runs (--repeat 5 \
             --out DIR) and compare the folders."
                .to_owned(),
        ];
    }

    fn repeats(&mut self, a: &Value, b: &Value) {
        for figure in crate::sweep::FIGURES {
            let values = |point: &Value| -> Vec<f64> {
                let place = format!("/figures/{}", figure.name);
                list(point, "/runs").iter().filter_map(|r| r.pointer(&place)?.as_f64()).collect()
            };
            let (x, y) = (values(a), values(b));
            if x.is_empty() || y.is_empty() || x.iter().chain(&y).all(|v| *v == 0.0) {
                continue;
            }
            let (mx, my) = (mean(&x), mean(&y));
            let judgement = if mx == my { Judgement::Same } else { welch(&x, &y) };
            self.differences.push(Difference {
                flow: "all flows".to_owned(),
                figure: figure.name.strip_suffix("_ns").unwrap_or(figure.name),
                is_time: figure.name.ends_with("_ns"),
                values: (mx, my),
                judgement,
            });
        }
        self.how = vec![format!(
            "Means of {} and {} runs. A difference is more than noise where Welch's t-test over the runs calls it so \
             at 95 %.",
            list(a, "/runs").len(),
            list(b, "/runs").len()
        )];
    }
}

/// The point of a sweep that has only one, run several times.
fn repeats(v: &Value) -> Option<&Value> {
    match list(v, "/points") {
        [point] if list(point, "/runs").len() > 1 => Some(point),
        _ => None,
    }
}

/// The means of parts of a line of the timeline.
fn parts(result: &Value, flow: &str, series: &str) -> Vec<f64> {
    let line = list(result, "/timeline/lines").iter().find(|l| word(l, "/name") == flow);
    let values: Vec<f64> =
        line.map_or(&[][..], |l| list(l, series)).iter().filter_map(Value::as_f64).collect();
    let parts = PARTS.min(values.len());
    if parts < LEAST_PARTS {
        return Vec::new();
    }
    (0..parts).map(|i| mean(&values[i * values.len() / parts..(i + 1) * values.len() / parts])).collect()
}

/// Two figures, and the parts of the runs, whose means lie about them: relative spreads are those of the figures.
fn by_parts(x: f64, y: f64, a: &[f64], b: &[f64]) -> Judgement {
    let scaled = |figure: f64, parts: &[f64]| -> Vec<f64> {
        let m = mean(parts);
        parts.iter().map(|p| if m > 0.0 { p / m * figure } else { *p }).collect()
    };
    if a.is_empty() || b.is_empty() {
        return Judgement::Unknown;
    }
    welch(&scaled(x, a), &scaled(y, b))
}

fn by_count(x: f64, y: f64) -> Judgement {
    if (x - y).abs() > 2.0 * (x + y).sqrt() { Judgement::Real } else { Judgement::Noise }
}

/// Welch's test that two means differ, at 95 %.
fn welch(a: &[f64], b: &[f64]) -> Judgement {
    if a.len() < 2 || b.len() < 2 {
        return Judgement::Unknown;
    }
    let part = |v: &[f64]| variance(v) / v.len() as f64;
    let (va, vb) = (part(a), part(b));
    let (difference, error) = ((mean(a) - mean(b)).abs(), (va + vb).sqrt());
    if error == 0.0 {
        return if difference == 0.0 { Judgement::Same } else { Judgement::Real };
    }
    let freedom = (va + vb).powi(2)
        / (va * va / (a.len() - 1) as f64 + vb * vb / (b.len() - 1) as f64).max(f64::MIN_POSITIVE);
    if difference / error > critical(freedom) { Judgement::Real } else { Judgement::Noise }
}

/// What Student's t exceeds in one case of twenty, on both sides together.
fn critical(freedom: f64) -> f64 {
    const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom.floor() as usize {
        0 => T[0],
        n @ 1..=10 => T[n - 1],
        // Right to 1 %.
        n => 1.96 + 2.6 / n as f64,
    }
}

fn mean(v: &[f64]) -> f64 {
    v.iter().sum::<f64>() / v.len().max(1) as f64
}

fn variance(v: &[f64]) -> f64 {
    let m = mean(v);
    v.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (v.len() - 1) as f64
}

impl Difference {
    /// By how much the second is larger, in per cent of the first.
    pub fn change_pct(&self) -> Option<f64> {
        (self.values.0 != 0.0).then(|| (self.values.1 / self.values.0 - 1.0) * 100.0)
    }
}

/// For a terminal.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, (name, verdict)) in ["A", "B"].iter().zip(self.names.iter().zip(&self.verdicts)) {
            writeln!(f, "{letter}  {name}  {verdict}")?;
        }
        writeln!(f, "\n{:<16} {:<16} {:>14} {:>14} {:>10}", "flow", "figure", "A", "B", "B - A")?;
        for d in &self.differences {
            let form = |x: f64| match d.is_time {
                true => roce_engine::units::Duration::from_nanos(x as u64).to_string(),
                false if x.fract() == 0.0 => format!("{x}"),
                false => format!("{x:.3}"),
            };
            let mut line = String::new();
            let change = d.change_pct().map_or("-".to_owned(), |p| format!("{p:+.2} %"));
            let (a, b) = (form(d.values.0), form(d.values.1));
            write!(
                line,
                "{:<16} {:<16} {a:>14} {b:>14} {change:>10}  {}",
                d.flow,
                d.figure,
                d.judgement.word()
            )?;
            writeln!(f, "{line}")?;
        }
        for (flow, which) in &self.alone {
            writeln!(f, "{flow:<16} only in {}", ["A", "B"][*which])?;
        }
        writeln!(f)?;
        self.how.iter().try_for_each(|how| writeln!(f, "{how}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run of 40 spans whose goodput wavers by so much.
    fn run(goodput: f64, wavers: f64, retransmits: u64) -> Value {
        let line: Vec<f64> = (0..40).map(|i| goodput + wavers * f64::from(i * 7919 % 13 - 6) / 6.0).collect();
        json!({"verdict": "pass", "flows": [{"name": "f", "goodput_gbps": goodput, "retransmits": retransmits}],
            "timeline": {"lines": [{"name": "f", "goodput_gbps": line}]}})
    }

    fn judged(a: &Value, b: &Value, figure: &str) -> Judgement {
        let c = Comparison::of(["a".into(), "b".into()], a, b);
        c.differences.iter().find(|d| d.figure == figure).unwrap().judgement
    }

    #[test]
    fn what_a_run_does_by_itself_is_noise() {
        assert_eq!(judged(&run(10.0, 3.0, 0), &run(10.2, 3.0, 0), "goodput_gbps"), Judgement::Noise);
        assert_eq!(judged(&run(10.0, 0.1, 0), &run(10.2, 0.1, 0), "goodput_gbps"), Judgement::Real);
        assert_eq!(judged(&run(10.0, 3.0, 0), &run(20.0, 3.0, 0), "goodput_gbps"), Judgement::Real);
        assert_eq!(judged(&run(10.0, 3.0, 0), &run(10.0, 3.0, 0), "goodput_gbps"), Judgement::Same);
    }

    #[test]
    fn events_vary_by_the_root_of_their_number() {
        assert_eq!(judged(&run(1.0, 0.0, 100), &run(1.0, 0.0, 120), "retransmits"), Judgement::Noise);
        assert_eq!(judged(&run(1.0, 0.0, 100), &run(1.0, 0.0, 150), "retransmits"), Judgement::Real);
    }

    #[test]
    fn repeats_are_judged_by_their_spread() {
        let sweep = |values: &[f64]| {
            let runs: Vec<Value> = values.iter().map(|v| json!({"figures": {"latency_p99_ns": v}})).collect();
            json!({"verdict": "pass", "points": [{"runs": runs}]})
        };
        let a = sweep(&[100.0, 110.0, 90.0, 105.0]);
        assert_eq!(judged(&a, &sweep(&[108.0, 95.0, 112.0, 99.0]), "latency_p99"), Judgement::Noise);
        assert_eq!(judged(&a, &sweep(&[150.0, 160.0, 149.0]), "latency_p99"), Judgement::Real);
    }

    #[test]
    fn flows_of_only_one_are_named() {
        let other = json!({"verdict": "fail", "flows": [{"name": "g", "goodput_gbps": 1.0}]});
        let c = Comparison::of(["a".into(), "b".into()], &run(1.0, 0.0, 0), &other);
        assert_eq!(c.alone, [("f".to_owned(), 0), ("g".to_owned(), 1)]);
        assert!(c.to_string().contains("only in B"));
    }

    #[test]
    fn students_t() {
        for (freedom, want) in [(1.0, 12.706), (12.0, 2.179), (30.0, 2.042), (1e6, 1.96)] {
            assert!((critical(freedom) / want - 1.0).abs() < 0.011, "{freedom}");
        }
    }
}
