//! From what is known at the ends of the phases to what is measured of flows and ports.

use super::connect::Outcome;
use super::setup::PortFacts;
use super::view::{Gathered, View};
use crate::config::{Device, Scenario};
use crate::measure::{Collector, Latency};
use crate::report::{FlowMeasure, Interval, PortMeasure};
use roce_engine::io::dpdk::OpenPort;
use roce_engine::io::link::LinkCounters;
use roce_engine::units::Instant;

/// Adds the smallest rates over a window.
pub(crate) fn note_windows(flows: &mut [FlowMeasure], collector: &Collector) {
    for (f, flow) in flows.iter_mut().enumerate() {
        flow.min_window_gbps = collector.smallest_gbps(f);
    }
}

pub(crate) fn flow_measures(
    s: &Scenario,
    facts: &[PortFacts],
    (base, end, last): (&View, &View, &View),
    intervals: &[Interval],
    gathered: &Gathered,
    theirs: Option<&Outcome>,
) -> Vec<FlowMeasure> {
    s.flows
        .iter()
        .enumerate()
        .map(|(f, flow)| {
            let mut latency = Latency::default();
            for interval in intervals {
                latency.add(&interval.latency[f]);
            }
            // A flow that sent all its messages was at work until the last of them.
            let counted = flow.messages.is_some() && end.flows[f].outstanding == 0;
            // By the clock of the workers that send; a flow that comes from elsewhere has none here.
            let sampled = |view: &View| match view.flows[f].sampled {
                Instant::ZERO => view.at,
                at => at,
            };
            let until = if counted { end.flows[f].last.min(sampled(end)) } else { sampled(end) };
            let remote = s.ports[flow.to].device == Device::Remote;
            let told = theirs.filter(|_| remote).and_then(|o| o.flows.iter().find(|t| t.0 == flow.name));
            FlowMeasure {
                base: base.flows[f],
                end: end.flows[f],
                last: last.flows[f],
                elapsed: until.since(sampled(base)),
                latency,
                detail: gathered.flows.get(f).cloned().unwrap_or_default(),
                origin: base.at,
                gaps: end.gaps[f].since(&base.gaps[f]),
                stages: last.stages[f].clone(),
                line_rate: facts[flow.data_from()].line_rate,
                min_window_gbps: None,
                peer: told.map(|(_, received, verified, wrong)| (*received, *verified, *wrong)),
            }
        })
        .collect()
}

pub(super) fn port_measures(
    s: &Scenario,
    open: &[(usize, OpenPort)],
    last: &View,
    links: &[(usize, LinkCounters)],
) -> Vec<PortMeasure> {
    let lost =
        |index| links.iter().filter(|(port, _)| *port == index).map(|(_, link)| link.tail_dropped).sum();
    open.iter()
        .map(|(index, port)| PortMeasure {
            name: s.ports[*index].name.clone(),
            device: s.ports[*index].device.to_string(),
            driver: port.info().driver.clone(),
            offloads: port.offloads(),
            counters: last.ports[*index].clone(),
            driver_stats: port.stats(),
            tail_dropped: lost(*index),
            pauses: last.pauses[*index],
        })
        .collect()
}
