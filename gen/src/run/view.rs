//! What is known of a run at one moment: the samples of all workers together.

use super::connect::Outcome;
use crate::config::{Flow, Scenario};
use crate::measure::{Detail, FlowStats, Latency, PortSample, Sample};
use roce_engine::cc::{Gaps, PauseCounters};
use roce_engine::transport::Stages;
use roce_engine::units::Instant;
use roce_engine::worker::EndpointCounters;

/// What is told of flows beyond their latencies, since measuring began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// By flow.
    pub(super) flows: Vec<Detail>,
    /// By collective: how long an iteration took a rank.
    pub(crate) collectives: Vec<Latency>,
}

impl Gathered {
    /// Adds what happened since the view before, `within` the span of the measurement or after it.
    pub(crate) fn add(&mut self, view: &View, within: bool) {
        self.flows.resize_with(view.details.len(), Detail::default);
        for (sum, more) in self.flows.iter_mut().zip(&view.details) {
            sum.add(more, within);
        }
        self.collectives.resize_with(view.collectives.len(), Latency::default);
        for (sum, more) in self.collectives.iter_mut().zip(&view.collectives).filter(|_| within) {
            sum.add(more);
        }
    }
}

/// All that is known at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// By flow: counts, and the times of the worker that sends.
    pub(crate) flows: Vec<FlowStats>,
    /// By flow: latencies since the view before.
    pub(crate) latency: Vec<Latency>,
    /// By flow: what is told apart further, since the view before.
    details: Vec<Detail>,
    /// By collective: how long an iteration took a rank, since the view before.
    collectives: Vec<Latency>,
    /// By flow: gaps between packets with data, since the start.
    pub(crate) gaps: Vec<Gaps>,
    /// By flow: recoveries since the start.
    pub(crate) stages: Vec<Stages>,
    pub(crate) ports: Vec<EndpointCounters>,
    /// By port: pauses, where this program does flow control.
    pub(crate) pauses: Vec<Option<PauseCounters>>,
    pub(crate) cq_overflow: u64,
    pub(crate) workers: Vec<(usize, roce_engine::worker::Load)>,
    pub(crate) at: Instant,
    /// When the first worker counted; `at` is when the last one did.
    pub(crate) earliest: Instant,
    pub(crate) idle: bool,
}

impl View {
    /// Of nobody yet.
    pub(crate) fn empty(s: &Scenario) -> View {
        View {
            flows: vec![FlowStats::default(); s.flows.len()],
            latency: vec![Latency::default(); s.flows.len()],
            details: vec![Detail::default(); s.flows.len()],
            collectives: vec![Latency::default(); s.collectives.len()],
            gaps: vec![Gaps::default(); s.flows.len()],
            stages: vec![Stages::default(); s.flows.len()],
            ports: vec![EndpointCounters::default(); s.ports.len()],
            pauses: vec![None; s.ports.len()],
            cq_overflow: 0,
            workers: Vec::new(),
            at: Instant::ZERO,
            earliest: Instant::FAR,
            idle: true,
        }
    }

    /// Adds what a worker says.
    pub(crate) fn add(&mut self, core: usize, sample: &Sample) {
        let known = self.flows.len();
        for more in sample.flows.iter().filter(|f| f.flow < known) {
            self.flows[more.flow].add(&more.stats);
            self.latency[more.flow].add(&more.latency);
            self.details[more.flow].add(&more.detail, true);
            self.gaps[more.flow].add(&more.gaps);
            self.stages[more.flow].add(&more.stages);
        }
        for more in &sample.collectives {
            self.collectives[more.collective].add(&more.time);
        }
        for PortSample { port, counters, cq_overflow, pauses } in &sample.ports {
            self.ports[*port].add(counters);
            if let Some(more) = pauses {
                self.pauses[*port].get_or_insert_default().add(more);
            }
            self.cq_overflow += cq_overflow;
        }
        self.workers.push((core, sample.load));
        self.at = self.at.max(sample.at);
        self.earliest = self.earliest.min(sample.at);
        self.idle &= sample.idle;
    }

    /// What a side tells the other at the end.
    pub(super) fn outcome(&self, s: &Scenario) -> Outcome {
        let told = |(f, s): (&Flow, &FlowStats)| (f.name.clone(), s.received, s.verified, s.verify_errors);
        Outcome { flows: s.flows.iter().zip(&self.flows).map(told).collect() }
    }
}

pub(crate) fn add_latency(sum: &mut [Latency], view: &View) {
    for (sum, more) in sum.iter_mut().zip(&view.latency) {
        sum.add(more);
    }
}
