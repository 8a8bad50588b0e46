//! What a worker tells of its flows at even times, without being asked.

use super::Generator;
use crate::measure::{Reading, Spread, Subject, Tick};
use roce_engine::io::PacketIo;
use roce_engine::units::{Duration, Instant};
use roce_engine::worker::Endpoint;
use rtrb::Producer;

/// When a generator tells, and where.
#[derive(Debug)]
pub(super) struct Watch {
    every: Duration,
    /// When it is next due.
    next: Instant,
    out: Option<Producer<Tick>>,
    /// By lane: latencies since the start; empty where queue pairs are not told apart.
    lanes: Vec<(Spread, u64)>,
    /// By flow of the generator: a place to add up in.
    sums: Vec<Reading>,
}

impl Default for Watch {
    /// Never.
    fn default() -> Watch {
        Watch { every: Duration::ZERO, next: Instant::FAR, out: None, lanes: Vec::new(), sums: Vec::new() }
    }
}

impl Watch {
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    #[inline]
    pub(super) fn note(&mut self, lane: u32, latency: Duration) {
        if let Some((spread, completed)) = self.lanes.get_mut(lane as usize) {
            spread.note(latency);
            *completed += 1;
        }
    }
}

impl Generator {
    /// Tells each queue pair apart in readings.  To be called when all lanes are there.
    pub fn tell_queue_pairs_apart(&mut self) {
        self.watch.lanes = vec![Default::default(); self.lanes.len()];
    }

    /// Tells `out` every so often, by the clock.  To be called when all lanes are there.
    pub fn watch(&mut self, every: Duration, out: Producer<Tick>) {
        self.watch.every = every;
        self.watch.next = Instant::ZERO;
        self.watch.sums = vec![Reading::default(); self.flows.len()];
        self.watch.out = Some(out);
    }

    /// How many ticks a moment takes.
    pub fn ticks(&self) -> usize {
        self.flows.len() + self.watch.lanes.len()
    }

    /// Tells what there is; what finds no room is told next time.
    #[cold]
    pub(super) fn tell<I: PacketIo>(&mut self, now: Instant, endpoints: &[Endpoint<I>]) {
        let number = now.as_nanos() / self.watch.every.as_nanos().max(1);
        self.watch.next = Instant::from_nanos((number + 1) * self.watch.every.as_nanos());
        let ticks = self.ticks();
        let Some(mut out) = self.watch.out.take() else { return };
        let mut sums = std::mem::take(&mut self.watch.sums);
        if out.slots() >= ticks {
            self.readings(now, number, endpoints, &mut sums, |tick| drop(out.push(tick)));
        }
        self.watch.sums = sums;
        self.watch.out = Some(out);
    }

    /// What is known of all flows, and of all queue pairs where those are told apart.
    pub fn read<I: PacketIo>(
        &self,
        now: Instant,
        number: u64,
        endpoints: &[Endpoint<I>],
        out: impl FnMut(Tick),
    ) {
        let mut sums = vec![Reading::default(); self.flows.len()];
        self.readings(now, number, endpoints, &mut sums, out);
    }

    fn readings<I: PacketIo>(
        &self,
        at: Instant,
        number: u64,
        endpoints: &[Endpoint<I>],
        sums: &mut [Reading],
        mut out: impl FnMut(Tick),
    ) {
        for (sum, flow) in sums.iter_mut().zip(&self.flows) {
            *sum = Reading { completed: flow.stats.completed, ..Reading::default() };
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            let Some(qp) = endpoints[lane.endpoint()].qp(lane.qpn()) else { continue };
            let rate = qp.rate_control().state(at).filter(|_| lane.sends_data());
            let mut reading = Reading::of(&qp.counters(), rate.map(|state| state.rate.bps() as f64));
            if lane.sends_data() {
                // What comes back to the sender of the data is no payload of the flow.
                reading.bytes = 0;
            }
            sums[lane.flow()].add(&reading);
            if let Some((spread, completed)) = self.watch.lanes.get(index) {
                reading.completed = *completed;
                let subject = Subject { flow: lane.flow_of_scenario() as u32, qp: Some(lane.index()) };
                let side = usize::from(!lane.is_sender());
                out(Tick { number, at, subject, side, last: false, reading, spread: spread.clone() });
            }
        }
        let last = self.flows.len().saturating_sub(1);
        for (f, (reading, flow)) in sums.iter().zip(&self.flows).enumerate() {
            let subject = Subject { flow: flow.flow as u32, qp: None };
            let spread = self.spreads[f].clone();
            out(Tick { number, at, subject, side: 0, last: f == last, reading: *reading, spread });
        }
    }
}
