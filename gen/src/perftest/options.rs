//! The command line of `rocegen perftest`: perftest's own options, as far as they matter here.

use crate::station::{StationArgs, parse_mtu};
use clap::{Parser, ValueEnum};
use roce_engine::units::Mtu;
use std::ffi::OsString;
use std::net::IpAddr;

/// perftest's buffer of messages: small ones go round in it.
pub(super) const CYCLE: u32 = 4096;
/// perftest's largest size with `-a`: 2^23.
const LARGEST_SHIFT: u32 = 23;

/// Which of perftest's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// Bandwidth of RDMA WRITE.
    #[value(name = "ib_write_bw")]
    WriteBw,
    /// Bandwidth of RDMA READ.
    #[value(name = "ib_read_bw")]
    ReadBw,
    /// Bandwidth of SEND.
    #[value(name = "ib_send_bw")]
    SendBw,
    /// Bandwidth of atomics.
    #[value(name = "ib_atomic_bw")]
    AtomicBw,
    /// Latency of RDMA WRITE, there and back.
    #[value(name = "ib_write_lat")]
    WriteLat,
    /// Latency of RDMA READ.
    #[value(name = "ib_read_lat")]
    ReadLat,
    /// Latency of SEND, there and back.
    #[value(name = "ib_send_lat")]
    SendLat,
    /// Latency of atomics.
    #[value(name = "ib_atomic_lat")]
    AtomicLat,
}

/// What is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND.
    Send,
    /// Fetch and add, or compare and swap.
    Atomic(AtomicKind),
}

/// Which atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AtomicKind {
    /// Fetch and add.
    #[default]
    #[value(name = "FETCH_AND_ADD")]
    FetchAdd,
    /// Compare and swap.
    #[value(name = "CMP_AND_SWAP")]
    CompareSwap,
}

/// Measures against a perftest program of another machine.
///
/// Exit code: 0 measured, 2 the command line is wrong, 3 no port, no peer, or a request failed, 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "rocegen perftest", version, max_term_width = 100, verbatim_doc_comment)]
pub struct PerftestArgs {
    /// What to measure
    pub tool: Tool,
    /// The server, by an address of its kernel; without one, this side is the server
    pub server: Option<IpAddr>,
    /// The port to measure on.
    #[command(flatten)]
    pub station: StationArgs,
    /// The address of this side's kernel at which a client is waited for
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub oob: IpAddr,
    /// TCP port of the exchange
    #[arg(short, long, default_value_t = 18515)]
    pub port: u16,
    /// Bytes of a message; 65536, for latencies 2
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=1 << 23), conflicts_with = "all")]
    pub size: Option<u32>,
    /// All sizes from 2 to 2^23
    #[arg(short, long)]
    pub all: bool,
    /// Messages of each queue pair; 1000, for ib_write_bw 5000
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(5..=100_000_000))]
    pub iters: Option<u64>,
    /// Seconds to measure, instead of a number of messages
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with_all = ["iters", "all"],
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub duration: Option<u32>,
    /// Queue pairs
    #[arg(short, long = "qp", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub qps: u32,
    /// Path MTU
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    pub mtu: Mtu,
    /// Send requests outstanding on a queue pair
    #[arg(short, long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub tx_depth: u32,
    /// Receive requests posted on a queue pair
    #[arg(short, long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub rx_depth: u32,
    /// Both sides send
    #[arg(short, long)]
    pub bidirectional: bool,
    /// Connect by the connection manager; the server is named by an address of its RDMA port
    #[arg(short = 'R', long = "rdma_cm", requires = "server")]
    pub rdma_cm: bool,
    /// Which of the addresses to measure on, counted from 0
    #[arg(short = 'x', long = "gid-index", default_value_t = 0)]
    pub gid_index: usize,
    /// READs or atomics outstanding on a queue pair
    #[arg(short, long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=128))]
    pub outs: u8,
    /// Which atomic
    #[arg(short = 'A', long = "atomic_type", value_enum, default_value_t)]
    pub atomic: AtomicKind,
    /// Ack timeout: 4.096 us x 2^N
    #[arg(short = 'u', long = "qp-timeout", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(0..=31))]
    pub qp_timeout: u8,
    /// Traffic class
    #[arg(short = 'T', long = "tos", default_value_t = 0)]
    pub tos: u8,
    /// Gb/s instead of MB/s
    #[arg(long = "report_gbits")]
    pub report_gbits: bool,
    /// Seconds that the other side may be silent
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub patience: u32,
    /// Print the result as one JSON object, and nothing else, on standard output
    #[arg(long)]
    pub json: bool,
}

impl Tool {
    /// perftest's name of it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it measures how long one message takes.
    pub const fn is_latency(self) -> bool {
        matches!(self, Tool::WriteLat | Tool::ReadLat | Tool::SendLat | Tool::AtomicLat)
    }

    /// Whether one side answers the other's message with its own.
    pub const fn is_ping_pong(self) -> bool {
        matches!(self, Tool::WriteLat | Tool::SendLat)
    }
}

impl PerftestArgs {
    /// From the words after `rocegen perftest`; a wrong one ends the process.
    pub fn of(words: Vec<OsString>) -> PerftestArgs {
        PerftestArgs::parse_from(std::iter::once("rocegen perftest".into()).chain(words))
    }

    /// What is posted.
    pub const fn operation(&self) -> Operation {
        match self.tool {
            Tool::WriteBw | Tool::WriteLat => Operation::Write,
            Tool::ReadBw | Tool::ReadLat => Operation::Read,
            Tool::SendBw | Tool::SendLat => Operation::Send,
            Tool::AtomicBw | Tool::AtomicLat => Operation::Atomic(self.atomic),
        }
    }

    /// The sizes to measure, ascending.
    pub fn sizes(&self) -> Vec<u32> {
        if matches!(self.operation(), Operation::Atomic(_)) {
            return vec![8];
        }
        if self.all {
            return (1..=LARGEST_SHIFT).map(|shift| 1 << shift).collect();
        }
        vec![self.size.unwrap_or(if self.tool.is_latency() { 2 } else { 65_536 })]
    }

    /// Messages of each queue pair.
    pub fn iterations(&self) -> u64 {
        self.iters.unwrap_or(if self.tool == Tool::WriteBw { 5000 } else { 1000 })
    }

    /// READs or atomics that this side answers at once.
    pub fn out_reads(&self) -> u8 {
        match self.operation() {
            Operation::Read | Operation::Atomic(_) => self.outs,
            Operation::Write | Operation::Send => 1,
        }
    }
}
