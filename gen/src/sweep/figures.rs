//! The figures of a run that sweeps, searches and comparisons look at.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How the figures of flows become one of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    Sum,
    Least,
    Most,
}

/// A figure: its name, where a flow has it, and how flows come together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) together: Together,
}

const fn figure(name: &'static str, place: &'static str, together: Together) -> Figure {
    Figure { name, place, together }
}

/// All of them.
pub(crate) const FIGURES: [Figure; 17] = [
    figure("goodput_gbps", "/goodput_gbps", Together::Sum),
    figure("l2_gbps", "/l2_gbps", Together::Sum),
    figure("l1_gbps", "/l1_gbps", Together::Sum),
    figure("line_rate_pct", "/line_rate_pct", Together::Least),
    figure("min_window_gbps", "/min_window_gbps", Together::Least),
    figure("message_rate", "/message_rate", Together::Sum),
    figure("packet_rate", "/packet_rate", Together::Sum),
    figure("latency_mean_ns", "/latency_ns/mean", Together::Most),
    figure("latency_p50_ns", "/latency_ns/p50", Together::Most),
    figure("latency_p99_ns", "/latency_ns/p99", Together::Most),
    figure("latency_p99_9_ns", "/latency_ns/p99_9", Together::Most),
    figure("latency_max_ns", "/latency_ns/max", Together::Most),
    figure("messages_failed", "/messages_failed", Together::Sum),
    figure("messages_lost", "/messages_lost", Together::Sum),
    figure("retransmits", "/retransmits", Together::Sum),
    figure("cnps", "/counters/rp_cnp_handled", Together::Sum),
    figure("timeouts", "/counters/local_ack_timeout_err", Together::Sum),
];

/// The figures of a run, by name; those that it has.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    /// Those of a result.
    pub(crate) fn of(result: &Value) -> Figures {
        let flows = result.pointer("/flows").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let value = |f: &Figure| {
            let all = flows.iter().filter_map(|flow| flow.pointer(f.place)?.as_f64());
            let one = match f.together {
                Together::Sum => all.reduce(|a, b| a + b),
                Together::Least => all.reduce(f64::min),
                Together::Most => all.reduce(f64::max),
            };
            Some((f.name, one?))
        };
        Figures(FIGURES.iter().filter_map(value).collect())
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// What several runs came to.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Statistics {
    /// Runs.
    pub count: u32,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The standard deviation of the sample over the mean, in per cent; `null` for a single run, and where
    /// the mean is 0.
    pub cv_pct: Option<f64>,
}

impl Statistics {
    /// Of each figure that any of the runs has.
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Figures>) -> BTreeMap<&'static str, Statistics> {
        let mut values: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for run in runs {
            for (name, x) in &run.0 {
                values.entry(name).or_default().push(*x);
            }
        }
        values.into_iter().map(|(name, v)| (name, Statistics::of_values(&v))).collect()
    }

    /// Of values, of which there is at least one.
    pub(crate) fn of_values(values: &[f64]) -> Statistics {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        let known = values.len() > 1 && mean != 0.0;
        Statistics {
            count: values.len() as u32,
            mean,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            cv_pct: known.then(|| (squares / (n - 1.0)).sqrt() / mean.abs() * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flows_come_together() {
        let result = json!({"flows": [
            {"goodput_gbps": 3.0, "line_rate_pct": 30.0, "latency_ns": {"p99": 70}},
            {"goodput_gbps": 4.5, "line_rate_pct": 45.0, "latency_ns": {"p99": 60}},
        ]});
        let f = Figures::of(&result);
        assert_eq!((f.get("goodput_gbps"), f.get("line_rate_pct")), (Some(7.5), Some(30.0)));
        assert_eq!((f.get("latency_p99_ns"), f.get("retransmits")), (Some(70.0), None));
        assert_eq!(Figures::of(&json!(null)), Figures::default());
    }

    #[test]
    fn spread() {
        let s = Statistics::of_values(&[9.0, 10.0, 11.0]);
        assert_eq!((s.count, s.mean, s.min, s.max), (3, 10.0, 9.0, 11.0));
        assert!((s.cv_pct.unwrap() - 10.0).abs() < 1e-9, "the deviation of a sample: n - 1");
        assert_eq!(Statistics::of_values(&[5.0]).cv_pct, None);
        assert_eq!(Statistics::of_values(&[0.0, 0.0]).cv_pct, None);
    }
}
