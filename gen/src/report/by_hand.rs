//! What somebody did to a run while it went.

use super::Finished;
use roce_engine::units::Instant;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// So many acts are named in a line.
const NAMED: usize = 8;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing is posted any more.
    Pause,
    /// It goes on.
    GoOn,
    /// The rate is so much of the scenario's, in per cent.
    Rate(u32),
}

/// What was done, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervention {
    /// When.
    pub at: Instant,
    /// What.
    pub act: Act,
}

/// What somebody did at the keyboard while the run went.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ByHandResult {
    /// Seconds of the measured span in which the run was paused.
    pub paused_s: f64,
    /// The lowest rate in the measured span, in per cent of the scenario's.
    pub rate_pct_min: u32,
    /// The highest.
    pub rate_pct_max: u32,
    /// One after the other.
    pub acts: Vec<ActResult>,
    /// The same as a sentence.
    pub text: String,
}

/// One thing that was done.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct ActResult {
    /// When, in seconds since measuring began; below 0 in the warm-up.
    pub at_s: f64,
    /// `pause`, `go_on` or `rate`.
    pub act: &'static str,
    /// The rate from then on, in per cent of the scenario's.
    pub rate_pct: u32,
}

impl ByHandResult {
    /// `None` when nobody did anything.  Measuring went from `begin` on.
    pub(super) fn of(run: &Finished, begin: Instant) -> Option<ByHandResult> {
        if run.by_hand.is_empty() {
            return None;
        }
        // The last interval is the drain.
        let end = run.intervals.last().map_or(begin, |drain| drain.from);
        Some(ByHandResult::between(&run.by_hand, begin, end))
    }

    fn between(done: &[Intervention], begin: Instant, end: Instant) -> ByHandResult {
        let mut result = ByHandResult {
            paused_s: 0.0,
            rate_pct_min: 100,
            rate_pct_max: 100,
            acts: Vec::new(),
            text: String::new(),
        };
        let (mut rate, mut paused) = (100, None);
        let mut rates = None;
        for Intervention { at, act } in done {
            let word = match act {
                Act::Pause => {
                    paused = Some(*at);
                    "pause"
                }
                Act::GoOn => {
                    if let Some(since) = paused.take() {
                        result.paused_s += within(since, *at, begin, end);
                    }
                    "go_on"
                }
                Act::Rate(to) => {
                    // What there was until then counts if it was measured.
                    if *at > begin && rates.is_none() {
                        rates = Some((rate, rate));
                    }
                    rate = *to;
                    if *at > begin && *at < end {
                        rates = rates.map(|(a, b)| (rate.min(a), rate.max(b)));
                    }
                    "rate"
                }
            };
            let at_s = at.as_nanos() as f64 - begin.as_nanos() as f64;
            result.acts.push(ActResult { at_s: (at_s / 1e6).round() / 1e3, act: word, rate_pct: rate });
        }
        if let Some(since) = paused {
            result.paused_s += within(since, end, begin, end);
        }
        result.paused_s = (result.paused_s * 1e3).round() / 1e3;
        (result.rate_pct_min, result.rate_pct_max) = rates.unwrap_or((rate, rate));
        result.text = result.sentence();
        result
    }
}

/// Seconds from `a` to `b` that lie between `begin` and `end`.
fn within(a: Instant, b: Instant, begin: Instant, end: Instant) -> f64 {
    b.min(end).since(a.max(begin)).as_secs_f64()
}

impl ByHandResult {
    /// What kept flows from more, if this did: `notable` is the share of the span, in per cent, that counts.
    pub(super) fn limit(&self, elapsed_s: f64, notable: f64) -> Option<String> {
        let paused = self.paused_s >= elapsed_s * notable / 100.0;
        (paused || self.rate_pct_min < 100).then(|| format!("somebody at the keyboard: {}", self.sentence()))
    }

    fn sentence(&self) -> String {
        let mut said = format!("paused for {} s of the measured time", self.paused_s);
        match (self.rate_pct_min, self.rate_pct_max) {
            (100, 100) => {}
            (a, b) if a == b => said += &format!(", rate {a} %"),
            (a, b) => said += &format!(", rate {a} to {b} %"),
        }
        let act = |act: &ActResult| match act.act {
            "rate" => format!("{} % at {} s", act.rate_pct, act.at_s),
            "pause" => format!("paused at {} s", act.at_s),
            _ => format!("on at {} s", act.at_s),
        };
        let acts: Vec<String> = self.acts.iter().take(NAMED).map(act).collect();
        said += &format!(": {}", acts.join(", "));
        match self.acts.len().saturating_sub(NAMED) {
            0 => {}
            more => said += &format!(", and {more} more"),
        }
        said
    }
}

impl fmt::Display for ByHandResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by hand: {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(done: &[(u64, Act)]) -> ByHandResult {
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let done: Vec<_> = done.iter().map(|(s, act)| Intervention { at: at(*s), act: *act }).collect();
        ByHandResult::between(&done, at(10), at(20))
    }

    #[test]
    fn only_what_was_measured_counts() {
        let both = |r: &ByHandResult| (r.paused_s, r.rate_pct_min, r.rate_pct_max);
        assert_eq!(both(&of(&[(12, Act::Pause), (15, Act::GoOn), (18, Act::Pause)])), (5.0, 100, 100));
        assert_eq!(both(&of(&[(8, Act::Pause), (11, Act::GoOn), (25, Act::Pause)])), (1.0, 100, 100));
        assert_eq!(
            both(&of(&[(12, Act::Rate(90)), (13, Act::Rate(80)), (14, Act::Rate(110))])),
            (0.0, 80, 110)
        );
        assert_eq!(both(&of(&[(5, Act::Rate(90)), (6, Act::Rate(50))])), (0.0, 50, 50), "in the warm-up");
        assert_eq!(both(&of(&[(5, Act::Rate(90)), (12, Act::Rate(95))])), (0.0, 90, 95));
        assert_eq!(both(&of(&[(21, Act::Rate(90))])), (0.0, 100, 100), "in the drain");
    }

    #[test]
    fn it_reads_as_a_line() {
        let result = of(&[(9, Act::Rate(90)), (12, Act::Pause), (15, Act::GoOn)]);
        assert_eq!(
            result.to_string(),
            "by hand: paused for 3 s of the measured time, rate 90 %: 90 % at -1 s, paused at 2 s, on at 5 s"
        );
        let many: Vec<_> = (0..12).map(|i| (11, Act::Rate(90 + i))).collect();
        assert_eq!(of(&[(11, Act::Rate(120))]).limit(10.0, 5.0), None, "nobody was held back");
        assert!(of(&[(11, Act::Pause), (12, Act::GoOn)]).limit(10.0, 5.0).is_some());
        assert_eq!(of(&[(11, Act::Pause), (12, Act::GoOn)]).limit(100.0, 5.0), None);
        assert!(of(&[(11, Act::Rate(90))]).limit(10.0, 5.0).is_some());
        assert!(of(&many).to_string().ends_with(", 97 % at 1 s, and 4 more"));
    }
}
