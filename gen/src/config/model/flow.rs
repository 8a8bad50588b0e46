//! A flow, and what it is made of.

use crate::workload::{Script, Traffic};
use roce_engine::units::{Duration, Mtu, Psn, Rate};
use std::fmt;
use std::sync::Arc;

/// `[[flow]]`: one kind of message between two ports, over one or more queue pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Unique among flows.
    pub name: String,
    /// The name of its table, where that stands for several flows.
    pub group: Option<String>,
    /// The number of its table.
    pub(crate) table: usize,
    /// What its messages wait for, where it is part of a collective.
    pub steps: Option<Arc<Steps>>,
    /// By queue pair: its messages and their times, where they come from a recording.
    pub scripts: Option<Arc<Vec<Arc<Script>>>>,
    /// Index of the port that posts the work requests.
    pub from: usize,
    /// Index of the other port.
    pub to: usize,
    /// How the other port is met, where it is another machine's.
    pub dial: Option<Dial>,
    /// What is posted: of its first kind of message, where there are several.
    pub verb: Verb,
    /// The kinds of its messages and their sizes.
    pub traffic: Arc<Traffic>,
    /// When they are due.
    pub arrival: Arrival,
    /// Reliable or unreliable connection, or datagrams.
    pub transport: Transport,
    /// Bytes of a message, the largest where they differ, 0..=2^31.
    pub size: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Work requests outstanding on each queue pair.
    pub depth: u32,
    /// How long after the others it begins.
    pub start: Duration,
    /// Path MTU.
    pub mtu: Mtu,
    /// What the whole flow, all its queue pairs together, is paced to.
    pub rate: FlowRate,
    /// How much is due, where messages are due by the clock and `rate` does not say it.
    pub load: Option<FlowRate>,
    /// Whether the result tells queue pairs apart.
    pub per_qp: bool,
    /// What a message takes at least, whatever its size, for the slowdown.
    pub base_rtt: Option<Duration>,
    /// The most packets a paced flow sends back to back.
    pub burst: u32,
    /// Messages that each queue pair sends; no bound when left out.
    pub messages: Option<u64>,
    /// Whether the side that gets the payload checks every byte.
    pub verify: bool,
    /// The traffic class byte: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// The priority of its VLAN tags, 0..=7.
    pub pcp: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// An ACK is missed after 4.096 us x 2^this; 0 is never.
    pub ack_timeout: u8,
    /// Times that a request is repeated after a timeout or a sequence NAK, 0..=7.
    pub retry_cnt: u8,
    /// Times that a request is repeated after a receiver was not ready; 7 is for ever.
    pub rnr_retry: u8,
    /// Code of the wait that a receiver asks for when it is not ready, 0..=31.
    pub min_rnr_timer: u8,
    /// READ requests outstanding on a queue pair, 1..=128.
    pub max_rd_atomic: u8,
    /// The most packets the responder answers with one ACK.
    pub ack_interval: u32,
    /// The most unacknowledged packets of a queue pair.
    pub window: u32,
    /// First PSN of every queue pair; random when left out.
    pub psn: Option<Psn>,
    /// What its queue pairs do about congestion.
    pub cc: Control,
    /// Receive requests that all receiving queue pairs share; each has its own when left out.
    pub srq: Option<u32>,
    /// Whether end-to-end credits are in force.
    pub credits: bool,
    /// How what is lost is sent again.
    pub recovery: Recovery,
    /// Under selective repeat, where few packets are under way, an ACK is missed after 4.096 us x
    /// 2^this; 0 takes `ack_timeout`.
    pub ack_timeout_low: u8,
}

/// How a flow meets a machine that knows nothing of the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// In which words.
    pub by: DialBy,
    /// Where its kernel is met: its address or its name; that of the flow's other port when left out.
    pub oob: Option<String>,
    /// The TCP port there, or the service of the connection manager.
    pub service: u16,
}

/// In which words another machine is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialBy {
    /// perftest's, over TCP between the kernels.
    Perftest,
    /// Those of the connection manager, then perftest's `-R`.
    Cm,
}

/// A flow that is part of a collective goes by steps: the messages of a step are posted when those that
/// it waits for have come to the port that the flow starts at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Index of the collective.
    pub collective: usize,
    /// Messages of a step on each queue pair.
    pub pieces: u64,
    /// By step of an iteration: flows, and how many steps of theirs in the iteration must have come.
    pub waits: Vec<Vec<(usize, u64)>>,
}

impl Steps {
    /// Messages of an iteration on each queue pair.
    pub fn messages(&self) -> u64 {
        self.waits.len() as u64 * self.pieces
    }
}

/// Ports that exchange parts of a buffer that each of them has, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The name of its table.
    pub name: String,
    /// What it does, as scenario files spell it.
    pub pattern: &'static str,
    /// Its ports.
    pub ranks: usize,
    /// Bytes of the buffer of a rank.
    pub bytes: u64,
    /// Iterations that it ends after.
    pub iterations: Option<u64>,
    /// Steps of an iteration.
    pub steps: usize,
    /// What bus bandwidth is to algorithm bandwidth, as a fraction.
    pub factor: (u64, u64),
}

impl Flow {
    /// The index of the port that sends the payload: the other end for READ.
    pub fn data_from(&self) -> usize {
        if self.reads_only() { self.to } else { self.from }
    }

    /// Whether all payload comes from the other end.
    pub fn reads_only(&self) -> bool {
        !self.traffic.has(|v| v != Verb::Read)
    }

    /// Whether any message uses up a receive request.
    pub fn takes_recv(&self) -> bool {
        self.traffic.has(Verb::takes_recv)
    }

    /// Its verb, or that there are several.
    pub fn verb_name(&self) -> &'static str {
        if self.traffic.has(|v| v != self.verb) { "mixed" } else { self.verb.as_str() }
    }

    /// How much it asks for: what is due, else what it is paced to.
    pub fn asked_rate(&self) -> FlowRate {
        self.load.unwrap_or(self.rate)
    }

    /// How much is due by the clock, where anything is.
    pub fn open_rate(&self) -> Option<FlowRate> {
        match (self.load, self.rate) {
            (None, rate @ FlowRate::Messages(_)) => Some(rate),
            (load, _) => load,
        }
    }
}

/// When the messages of a flow are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// As soon as there is room, but not sooner after a message has ended than this.
    Closed {
        /// The time between the end of a message and the next one in its place.
        think: Duration,
    },
    /// At even times.
    Constant,
    /// At random times, as those of a Poisson process.
    Poisson,
    /// At even times while on.
    OnOff {
        /// How long messages are due.
        on: Duration,
        /// How long none is.
        off: Duration,
    },
}

/// What is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm,
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm,
    /// RDMA READ.
    Read,
}

impl Verb {
    /// All of them, in the order in which messages name them.
    pub const ALL: [Verb; 5] = [Verb::Write, Verb::WriteImm, Verb::Send, Verb::SendImm, Verb::Read];

    /// As scenario files and results spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Write => "write",
            Verb::WriteImm => "write_imm",
            Verb::Send => "send",
            Verb::SendImm => "send_imm",
            Verb::Read => "read",
        }
    }

    /// Whether the last packet carries immediate data.
    pub const fn has_imm(self) -> bool {
        matches!(self, Verb::WriteImm | Verb::SendImm)
    }

    /// Whether a message uses up a receive request at the other end.
    pub const fn takes_recv(self) -> bool {
        matches!(self, Verb::Send | Verb::SendImm | Verb::WriteImm)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What queue pairs do about congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Control {
    /// Nothing.
    #[default]
    None,
    /// DCQCN.
    Dcqcn,
    /// Slower at a loss, as TCP.
    Aimd,
}

impl Control {
    /// As scenario files and results spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Control::None => "none",
            Control::Dcqcn => "dcqcn",
            Control::Aimd => "aimd",
        }
    }
}

/// The service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
}

impl Transport {
    /// Whether messages are acknowledged, and none goes missing.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Transport::Rc)
    }

    /// As scenario files and results spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transport::Rc => "rc",
            Transport::Uc => "uc",
            Transport::Ud => "ud",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a flow is paced to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowRate {
    /// Not paced.
    Unlimited,
    /// A share of the line rate at L1, above 0 and at most 100.
    Percent(f64),
    /// Bits per second, counted at a layer.
    Bits {
        /// How many.
        rate: Rate,
        /// What is counted.
        layer: Layer,
    },
    /// Packets with payload per second.
    Packets(f64),
    /// Messages per second.
    Messages(f64),
}

/// What a rate in bits per second counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// The frame, its FCS (4 B), preamble (8 B) and gap (12 B).
    #[default]
    L1,
    /// The frame without its FCS.
    L2,
    /// Payload.
    Goodput,
}

impl Layer {
    /// As scenario files spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Layer::L1 => "l1",
            Layer::L2 => "l2",
            Layer::Goodput => "goodput",
        }
    }
}

/// How what is lost is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Everything from the lost packet on.
    GoBackN,
    /// Only what is missing; both ends must be this program.
    SelectiveRepeat,
}

impl Recovery {
    /// All of them, in the order of columns.
    pub const ALL: [Recovery; 2] = [Recovery::GoBackN, Recovery::SelectiveRepeat];

    /// As scenario files and results spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Recovery::GoBackN => "go-back-n",
            Recovery::SelectiveRepeat => "selective-repeat",
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
