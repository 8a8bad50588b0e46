//! How rates and queues went, sampled at even times.

use roce_engine::units::Instant;
use std::fmt::Write;

/// The time series of a run in virtual time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// When samples were taken.
    pub times: Vec<Instant>,
    /// By queue pair.
    pub rates: Vec<RateSeries>,
    /// By port of a switch.
    pub queues: Vec<QueueSeries>,
}

/// A queue pair's part of a [`Series`].
#[derive(Clone, Debug)]
pub struct RateSeries {
    /// The flow.
    pub flow: String,
    /// Index of the queue pair in the flow.
    pub qp: u32,
    /// By sample: payload bytes that had come to the other end.
    pub bytes: Vec<u64>,
    /// By sample: what congestion control had come to; empty where there is none.
    pub control: Vec<ControlState>,
}

/// The congestion control of a queue pair at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlState {
    /// The rate at L1.
    pub rate_gbps: f64,
    /// What it recovers to.
    pub target_gbps: f64,
    /// The estimate of congestion.
    pub alpha: f64,
    /// Notifications taken so far.
    pub cnps: u64,
}

/// A port's part of a [`Series`].
#[derive(Clone, Debug)]
pub struct QueueSeries {
    /// The switch, and what the port leads to.
    pub name: String,
    /// What changed, and with which sample.
    pub changes: Vec<(u32, QueueState)>,
}

/// The queues of a port at one moment, all priorities together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Bytes that wait.
    pub bytes: u64,
    /// Frames marked so far.
    pub marked: u64,
    /// Frames dropped so far.
    pub dropped: u64,
    /// Pauses that it asked for so far.
    pub pauses: u64,
    /// It may not send now.
    pub paused: bool,
}

impl RateSeries {
    /// Goodput in Gb/s in the span that ends with sample `i`; `None` for the first.
    pub fn goodput_gbps(&self, times: &[Instant], i: usize) -> Option<f64> {
        let before = i.checked_sub(1)?;
        let ns = times[i].since(times[before]).as_nanos();
        (ns != 0).then(|| (self.bytes[i] - self.bytes[before]) as f64 * 8.0 / ns as f64)
    }
}

impl QueueSeries {
    /// Notes sample `number`, if anything has changed.
    pub fn note(&mut self, number: u32, state: QueueState) {
        if self.changes.last().map(|(_, last)| *last).unwrap_or_default() != state {
            self.changes.push((number, state));
        }
    }

    /// The most bytes that waited when a sample was taken.
    pub fn peak(&self) -> u64 {
        self.changes.iter().map(|(_, state)| state.bytes).max().unwrap_or(0)
    }
}

impl Series {
    /// The rates as a table for programs.
    pub fn rates_csv(&self) -> String {
        let mut out = String::from("time_us,flow,qp,goodput_gbps,rate_gbps,target_gbps,alpha,cnps\n");
        for i in 1..self.times.len() {
            for r in &self.rates {
                let Some(rate) = r.goodput_gbps(&self.times, i) else { continue };
                let _ = write!(out, "{},{},{},{rate:.4}", us(self.times[i]), r.flow, r.qp);
                let _ = match r.control.get(i) {
                    Some(c) => {
                        writeln!(out, ",{:.4},{:.4},{:.6},{}", c.rate_gbps, c.target_gbps, c.alpha, c.cnps)
                    }
                    None => writeln!(out, ",,,,"),
                };
            }
        }
        out
    }

    /// The queues as a table for programs: a line where something has changed.
    pub fn queues_csv(&self) -> String {
        let mut out = String::from("time_us,port,bytes,marked,dropped,pauses,paused\n");
        for q in &self.queues {
            for (i, s) in &q.changes {
                let _ = writeln!(
                    out,
                    "{},{},{},{},{},{},{}",
                    us(self.times[*i as usize]),
                    q.name,
                    s.bytes,
                    s.marked,
                    s.dropped,
                    s.pauses,
                    u8::from(s.paused)
                );
            }
        }
        out
    }
}

fn us(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_and_queues_are_changes() {
        let times = [0, 10_000, 20_000].map(Instant::from_nanos).to_vec();
        let bytes = vec![0, 125_000, 187_500];
        let mut rates = vec![RateSeries { flow: "f".into(), qp: 3, bytes, control: Vec::new() }];
        let control = ControlState { rate_gbps: 50.0, target_gbps: 100.0, alpha: 0.25, cnps: 7 };
        rates.push(RateSeries { flow: "g".into(), qp: 0, bytes: vec![0; 3], control: vec![control; 3] });
        let mut queue = QueueSeries { name: "a -> b".into(), changes: Vec::new() };
        for (number, bytes) in [(0, 0), (1, 700), (2, 700)] {
            queue.note(number, QueueState { bytes, ..QueueState::default() });
        }
        let series = Series { times, rates, queues: vec![queue] };
        let want = [
            "time_us,flow,qp,goodput_gbps,rate_gbps,target_gbps,alpha,cnps",
            "10,f,3,100.0000,,,,",
            "10,g,0,0.0000,50.0000,100.0000,0.250000,7",
            "20,f,3,50.0000,,,,",
            "20,g,0,0.0000,50.0000,100.0000,0.250000,7",
        ];
        assert_eq!(series.rates_csv().lines().collect::<Vec<_>>(), want);
        assert_eq!(
            series.queues_csv(),
            "time_us,port,bytes,marked,dropped,pauses,paused\n10,a -> b,700,0,0,0,0\n"
        );
        assert_eq!(series.queues[0].peak(), 700);
    }
}
