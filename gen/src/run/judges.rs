//! From the scenario's faults to a judge for everything that sends.

use super::setup::Sender;
use crate::config::Scenario;
use roce_engine::fabric::{Action, Impairment, Rule, Stream};
use roce_engine::units::Duration;
use std::collections::BTreeMap;

/// Events that are kept of each sender.
const LOG: usize = 1 << 16;

/// A judge for each sender of `streams`; none where the scenario has no faults.
pub(crate) fn judges(
    s: &Scenario,
    seed: u64,
    streams: Vec<(Sender, Stream)>,
) -> BTreeMap<Sender, Impairment> {
    let rules: Vec<Rule> = s.rules().copied().collect();
    let mut by_sender: BTreeMap<Sender, Vec<Stream>> = BTreeMap::new();
    if rules.is_empty() {
        return BTreeMap::new();
    }
    for (sender, stream) in streams {
        by_sender.entry(sender).or_default().push(stream);
    }
    let judge = |(sender, streams)| (sender, Impairment::new(seed, rules.clone(), streams, LOG));
    by_sender.into_iter().map(judge).collect()
}

/// The longest that a fault can hold a frame back.
pub(crate) fn longest_hold(s: &Scenario) -> Duration {
    let hold = |rule: &Rule| match rule.action {
        Action::Reorder { at_most, .. } => at_most,
        Action::Delay(by) => by,
        _ => Duration::ZERO,
    };
    s.rules().map(hold).max().unwrap_or_default()
}
