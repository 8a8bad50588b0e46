//! What a lane is made with.

use super::arrivals::Arrivals;
use super::buffers::{Places, SharedReceives, Side};
use super::script::Script;
use super::traffic::Traffic;
use crate::config::Steps;
use crate::plan::Frames;
use roce_engine::units::{Duration, Mtu, Qpn};
use roce_engine::verbs::Datagram;
use std::sync::Arc;

/// What a lane is made with.
#[derive(Clone, Debug)]
pub struct LaneSpec {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Index of the queue pair in the flow.
    pub index: u32,
    /// Index of the endpoint on its worker.
    pub endpoint: usize,
    /// The queue pair.
    pub qpn: Qpn,
    /// Which side.
    pub side: Side,
    /// Queue pairs of the flow.
    pub qps: u32,
    /// Whether latencies are told apart by queue pair.
    pub per_qp: bool,
    /// What is posted.
    pub traffic: Arc<Traffic>,
    /// Its messages and their times, where they come from a recording.
    pub script: Option<Arc<Script>>,
    /// By kind of message: what is on the wire.
    pub frames: Arc<[Frames]>,
    /// How long a message takes where nothing is in its way, if that is known.
    pub ideal: Option<Ideal>,
    /// Messages may go missing.
    pub unreliable: bool,
    /// Seeds payload, kinds and sizes; the same on both sides.
    pub seed: u64,
    /// The path MTU.
    pub mtu: Mtu,
    /// Messages outstanding.
    pub depth: u32,
    /// Check every byte.
    pub verify: bool,
    /// Messages to send.
    pub messages: Option<u64>,
    /// What its messages wait for, where its flow is part of a collective.
    pub steps: Option<Arc<Steps>>,
    /// When messages are due.
    pub arrivals: Arrivals,
    /// How long after the others it begins.
    pub start: Duration,
    /// The buffers of this side.
    pub local: Places,
    /// The buffers of the other side.
    pub remote: Places,
    /// Bytes before the message in a buffer of this side.
    pub front: u32,
    /// Where datagrams go.
    pub datagram: Option<Datagram>,
    /// Receive requests that other lanes may use.
    pub shared: Option<SharedReceives>,
}

/// How long a message takes where nothing is in its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ideal {
    /// Nanoseconds of line time of a byte at L1.
    pub byte_ns: f64,
    /// What it takes whatever its size.
    pub base: Duration,
}

impl Ideal {
    /// The time of `l1` bytes, in nanoseconds.
    pub fn ns(&self, l1: u64) -> f64 {
        l1 as f64 * self.byte_ns + self.base.as_nanos() as f64
    }
}

impl LaneSpec {
    /// Whether its messages are due by the clock.
    pub fn is_open(&self) -> bool {
        self.arrivals.is_open() || self.script.is_some()
    }

    /// How long it thinks between two messages of a closed loop, if it does.
    pub(super) fn thinks(&self) -> Option<Duration> {
        match self.arrivals {
            Arrivals::Closed { think } if think != Duration::ZERO => Some(think),
            _ => None,
        }
    }
}
