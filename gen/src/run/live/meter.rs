//! What the view shows of flows: made of the readings that workers send anyway.

use super::draw::{FlowLine, Sum};
use crate::config::Scenario;
use crate::measure::{Collector, Reading, Spell, Spread};
use crate::plan::Mean;
use crate::report::payload;
use roce_engine::units::{Duration, Instant};

/// Figures are of the last one to two of these.
const HALF: Duration = Duration::from_millis(500);
/// The history has so many values, of so long each: a minute.
const HISTORY: usize = 120;

/// All flows at a moment.
#[derive(Clone, Debug)]
struct Moment {
    at: Instant,
    flows: Vec<(Reading, Spread)>,
}

/// Works rates out.
#[derive(Debug)]
pub(super) struct Meter {
    /// By flow: what a message comes to.
    means: Vec<Mean>,
    /// Two moments: figures count from the first one.
    before: [Option<Moment>; 2],
    now: Option<Moment>,
    /// Bits per second at L1, all flows together, the latest last.
    history: Vec<f64>,
}

impl Meter {
    pub(super) fn new(s: &Scenario) -> Meter {
        let means = s.flows.iter().map(|f| Mean::of(s, f)).collect();
        Meter { means, before: [None, None], now: None, history: Vec::new() }
    }

    /// Takes the latest readings.
    pub(super) fn update(&mut self, s: &Scenario, collector: &Collector) {
        let Some(at) = collector.now() else { return };
        let now = match &mut self.now {
            Some(now) if now.at == at => return,
            Some(now) => now,
            none => none.insert(Moment { at, flows: vec![Default::default(); s.flows.len()] }),
        };
        now.at = at;
        for (flow, latest) in collector.latest() {
            now.flows[flow].clone_from(latest);
        }
        match &self.before[1] {
            None => self.before = [Some(now.clone()), Some(now.clone())],
            Some(last) if at.since(last.at) >= HALF => {
                let span = at.since(last.at).as_secs_f64();
                let means = &self.means;
                let l1 = (0..s.flows.len()).map(|f| bits(means, s, f, &last.flows[f].0, &now.flows[f].0).0);
                self.history.push(l1.sum::<f64>() / span);
                if self.history.len() > HISTORY {
                    self.history.remove(0);
                }
                let next = Some(now.clone());
                self.before.swap(0, 1);
                self.before[1] = next;
            }
            Some(_) => {}
        }
    }

    /// Flows in the order of the scenario, at most `most`: of more the fastest, and all others together.
    pub(super) fn lines(&self, s: &Scenario, most: usize) -> (Vec<FlowLine>, Sum) {
        let (Some(before), Some(now)) = (&self.before[0], &self.now) else { return Default::default() };
        let span = now.at.since(before.at).as_secs_f64().max(1e-9);
        let mut lines: Vec<(usize, FlowLine)> = s
            .flows
            .iter()
            .enumerate()
            .map(|(f, flow)| {
                let (then, latest) = (&before.flows[f].0, &now.flows[f].0);
                let (l1, goodput) = bits(&self.means, s, f, then, latest);
                let line = FlowLine {
                    name: flow.name.clone(),
                    l1_bps: l1 / span,
                    goodput_bps: goodput / span,
                    messages: (latest.completed - then.completed) as f64 / span,
                    cnps: latest.cnps,
                    resent: latest.retransmits,
                    naks: latest.naks,
                    timeouts: latest.timeouts,
                    allowed_bps: latest.rate_bps,
                    troubled: latest.retransmits != then.retransmits || latest.timeouts != then.timeouts,
                    marked: latest.cnps != then.cnps,
                    ..FlowLine::default()
                };
                (f, line)
            })
            .collect();
        let all = lines.iter().fold(FlowLine::default(), |sum, (_, line)| sum.plus(line));
        if lines.len() > most {
            // Stable: flows of one rate stay in order.
            lines.sort_by(|a, b| b.1.l1_bps.total_cmp(&a.1.l1_bps));
            lines.truncate(most);
        }
        let shown = lines.into_iter().map(|(f, line)| {
            let p = |percent| now.flows[f].1.percentile_since(&before.flows[f].1, percent);
            FlowLine { p50: p(50.0), p99: p(99.0), ..line }
        });
        let shown: Vec<_> = shown.collect();
        (shown, Sum { flows: s.flows.len(), all })
    }

    /// Bits per second at L1, all flows together, each half a second.
    pub(super) fn history(&self) -> &[f64] {
        &self.history
    }

    /// Bits per second at L1 of each flow.
    pub(super) fn rates(&self, s: &Scenario) -> Vec<f64> {
        self.lines(s, usize::MAX).0.iter().map(|line| line.l1_bps).collect()
    }
}

/// Bits at L1 and bits of payload between two readings of a flow.
fn bits(means: &[Mean], s: &Scenario, f: usize, before: &Reading, now: &Reading) -> (f64, f64) {
    let spell = Spell::between(before, now, None, None);
    let message = means[f].rates(1.0);
    if message.goodput_bps == 0.0 {
        return (spell.counts.completed as f64 * message.l1_bps, 0.0);
    }
    let goodput = payload(s, f, &spell) * 8.0;
    (goodput * message.l1_bps / message.goodput_bps, goodput)
}
