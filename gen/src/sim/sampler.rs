//! Takes the samples of the time series.

use super::build::Built;
use super::fabric::Named;
use crate::config::Scenario;
use crate::measure::{ControlState, QueueSeries, QueueState, RateSeries, Series};
use crate::run::setup::QpPair;
use roce_engine::fabric::Priority;
use roce_engine::units::{Duration, Instant, Qpn};

/// Queue pairs of which a series is kept: the first ones.
const RATES: usize = 1024;

/// The sampler of a run.
#[derive(Debug)]
pub(super) struct Sampler {
    every: Duration,
    /// When the next sample is due.
    next: Instant,
    /// By series: the host and the queue pair that payload leaves from, and where it arrives.
    ends: Vec<[(usize, Qpn); 2]>,
    series: Series,
}

impl Sampler {
    /// One that has taken no sample; `None` where the scenario wants none.
    pub(super) fn new(s: &Scenario, built: &Built, ports: &[Named]) -> Option<Sampler> {
        let every = s.fabric.as_ref()?.sample?;
        let pairs = || built.pairs.iter().take(RATES);
        let ends = |p: &QpPair| {
            let [from, to] = [p.from, p.to].map(|((host, _), qpn)| (host, qpn));
            if s.flows[p.flow].reads_only() { [to, from] } else { [from, to] }
        };
        let rate = |p: &QpPair| RateSeries {
            flow: s.flows[p.flow].name.clone(),
            qp: p.qp,
            bytes: Vec::new(),
            control: Vec::new(),
        };
        let queue = |p: &Named| QueueSeries { name: format!("{} -> {}", p.name, p.to), changes: Vec::new() };
        Some(Sampler {
            every,
            next: Instant::ZERO,
            ends: pairs().map(ends).collect(),
            series: Series {
                times: Vec::new(),
                rates: pairs().map(rate).collect(),
                queues: ports.iter().map(queue).collect(),
            },
        })
    }

    /// When the next sample is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Takes a sample if one is due.
    pub(super) fn sample(&mut self, built: &Built, ports: &[Named]) {
        let now = built.world.now();
        if now < self.next {
            return;
        }
        self.next = now + self.every;
        let number = self.series.times.len() as u32;
        self.series.times.push(now);
        let qp = |(host, qpn): (usize, Qpn)| built.world.host(built.hosts[host].id).endpoints()[0].qp(qpn);
        for ([source, sink], rate) in self.ends.iter().zip(&mut self.series.rates) {
            rate.bytes.push(qp(*sink).map_or(0, |qp| qp.counters().rx_payload_bytes));
            let source = qp(*source);
            if let Some((qp, state)) = source.and_then(|qp| Some((qp, qp.rate_control().state(now)?))) {
                rate.control.push(ControlState {
                    rate_gbps: state.rate.as_gbps(),
                    target_gbps: state.target.as_gbps(),
                    alpha: state.alpha,
                    cnps: qp.counters().rp_cnp_handled,
                });
            }
        }
        let net = built.world.net();
        for (port, queue) in ports.iter().zip(&mut self.series.queues) {
            let counters = net.counters(port.port).priorities;
            queue.note(
                number,
                QueueState {
                    bytes: Priority::ALL.iter().map(|p| net.queued(port.port, *p)).sum(),
                    marked: counters.iter().map(|c| c.marked).sum(),
                    dropped: counters.iter().map(|c| c.dropped()).sum(),
                    pauses: counters.iter().map(|c| c.pauses_sent).sum(),
                    paused: net.is_paused(port.port),
                },
            );
        }
    }

    pub(super) fn end(self) -> Series {
        self.series
    }
}
