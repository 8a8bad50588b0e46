//! A whole test: meet, exchange, measure, report, part.

use super::data::{self, Measured, Side};
use super::line::Line;
use super::options::{Operation, PerftestArgs, Tool};
use super::table::{self, Row};
use super::wire::Key;
use crate::report::print;
use crate::run::EnvironmentError;
use crate::station::{Link, QpShape, Station};
use anyhow::Result;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Mtu};
use roce_engine::verbs::Pd;
use roce_engine::wire::Gid;
use serde::Serialize;
use std::net::SocketAddr;

/// The protection domain of a test.
const PD: Pd = Pd(1);

/// What a test came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What kind of object this is.
    pub schema: &'static str,
    /// perftest's name of the test.
    pub tool: String,
    /// Whether this side was the server.
    pub server: bool,
    /// The path MTU that was agreed.
    pub mtu: usize,
    /// Queue pairs.
    pub qps: u32,
    /// One for each size.
    pub rows: Vec<Row>,
}

/// Runs one test with the peer; prints perftest's table unless told otherwise.
///
/// # Errors
/// [`EnvironmentError`]: the peer is not there, speaks otherwise, or a request failed.
pub fn run<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    args: &PerftestArgs,
    give_up: &dyn Fn() -> bool,
) -> Result<Outcome> {
    let addresses = station.host().addresses().to_vec();
    let own = addresses.get(args.gid_index).ok_or_else(|| {
        EnvironmentError(format!("--gid-index {}: there are {} addresses", args.gid_index, addresses.len()))
    })?;
    let own = Gid::from(own.ip());
    let patience = Duration::from_secs(args.patience.into());
    let mut line = match args.server {
        Some(ip) if args.rdma_cm => {
            Line::dial(station, (ip, args.port), (args.mtu, args.station.window), patience)?
        }
        Some(ip) => Line::call(station, &[SocketAddr::new(ip, args.port)], patience)?,
        None => Line::wait(station, SocketAddr::new(args.oob, args.port), patience, give_up)?,
    };
    let mtu = line.greet(station, args.mtu)?;
    let test = Test::meet(station, args, &mut line, own, mtu)?;
    let outcome = test.measure(station, &mut line, give_up)?;
    if args.tool != Tool::WriteLat {
        line.close(station);
    }
    Ok(outcome)
}

/// A test whose queue pairs are connected.
struct Test<'a> {
    args: &'a PerftestArgs,
    side: Side,
    /// Our key of the first queue pair: repeated, it is a barrier.
    first: Key,
    mtu: Mtu,
    server: bool,
}

impl<'a> Test<'a> {
    /// Makes the queue pairs, tells and hears of them, connects them.
    fn meet<I: PacketIo, C: Clock>(
        station: &mut Station<I, C>,
        args: &'a PerftestArgs,
        line: &mut Line,
        own: Gid,
        mtu: Mtu,
    ) -> Result<Test<'a>> {
        let largest = args.sizes().into_iter().max().unwrap_or(0);
        let (part, qps) = (Side::part_for(largest), args.qps as usize);
        let region = station.register(PD, 2 * qps * part as usize)?;
        let shape =
            QpShape { pd: PD, sends: args.tx_depth, receives: args.rx_depth, window: args.station.window };
        let mut side = Side { qpns: Vec::new(), theirs: Vec::new(), region, part };
        for _ in 0..qps {
            side.qpns.push(station.create_qp(&shape)?);
        }
        let keys: Vec<Key> = (0..qps)
            .map(|q| Key {
                out_reads: args.out_reads().into(),
                qpn: side.qpns[q],
                psn: station.random_psn(),
                rkey: region.key.0,
                vaddr: side.receive_at(q),
                gid: own,
            })
            .collect();
        let server = args.server.is_none();
        let depth = if args.out_reads() > 1 { args.out_reads() } else { 0 };
        line.connect(station, &keys, depth, |station, answer| answer.link(station))?;
        if matches!(args.tool, Tool::WriteLat | Tool::ReadLat | Tool::AtomicLat) {
            line.swap_key(station, &keys[0])?;
        }
        side.theirs = line.swap_keys(station, &keys)?;
        for (ours, theirs) in keys.iter().zip(&side.theirs).filter(|_| !line.is_dialed()) {
            let mac = station.resolve(theirs.gid.to_ip())?;
            let depth = theirs.out_reads.min(u32::from(args.outs)).min(128) as u8;
            let link = Link {
                mac,
                own,
                peer: theirs.gid,
                mtu,
                dest_qpn: theirs.qpn,
                rq_psn: theirs.psn,
                sq_psn: ours.psn,
                rd_atomic: [args.out_reads(), depth],
                tos: args.tos,
                timeout: args.qp_timeout,
                retries: [7, 7],
            };
            station.connect(ours.qpn, &link)?;
        }
        if args.operation() == Operation::Send {
            line.swap_key(station, &keys[0])?;
        }
        let test = Test { args, side, first: keys[0], mtu, server };
        // Who receives is ready before the other side goes on.
        if test.receives() {
            for q in 0..qps {
                for n in 0..u64::from(args.rx_depth) {
                    test.side.post_recv(station, q, n)?;
                }
            }
        }
        line.swap_keys(station, &keys)?;
        Ok(test)
    }

    fn measure<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        line: &mut Line,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        let (args, sends) = (self.args, self.args.operation() == Operation::Send);
        self.say(&table::head(args, self.mtu))?;
        let mut rows = Vec::new();
        if !sends {
            self.barrier(station, line)?;
        }
        for size in args.sizes() {
            if sends || self.both_ways() {
                self.barrier(station, line)?;
            }
            let Some(measured) = self.one(station, size)? else { break };
            if args.tool == Tool::SendBw && args.all {
                self.barrier(station, line)?;
            }
            let mut row = Row::of(args, &measured);
            if self.both_ways() && args.duration.is_none() {
                let theirs = line.swap_rates(station, &row)?;
                row.add(&theirs);
            }
            self.say(&table::line(args, &row))?;
            rows.push(row);
        }
        if !sends && !args.bidirectional && !args.tool.is_latency() {
            self.wait_for_word(station, line, give_up)?;
            self.barrier(station, line)?;
            let own = rows.last().copied().unwrap_or_default();
            let told = line.swap_rates(station, &own)?;
            if self.server {
                self.say(&table::line(args, &told))?;
                rows.push(told);
            }
        } else {
            self.wait_for_word(station, line, give_up)?;
        }
        if args.tool != Tool::WriteLat {
            self.barrier(station, line)?;
        }
        self.say(&table::foot(args, &rows))?;
        Ok(Outcome {
            schema: "rocegen-perftest-1",
            tool: args.tool.name(),
            server: self.server,
            mtu: self.mtu.bytes(),
            qps: args.qps,
            rows,
        })
    }

    /// Our part of one measurement; none for a side that only answers.
    fn one<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        size: u32,
    ) -> Result<Option<Measured>, EnvironmentError> {
        let (args, side) = (self.args, &self.side);
        let sends = !self.server || args.bidirectional;
        let measured = match args.tool {
            // The server's first WRITE tells the client that it is there; a SEND is the client's.
            Tool::WriteLat => data::ping_pong(station, side, args, size, self.server)?,
            Tool::SendLat => data::ping_pong(station, side, args, size, !self.server)?,
            _ if !sends && !self.receives() => return Ok(None),
            Tool::ReadLat | Tool::AtomicLat => data::one_by_one(station, side, args, size)?,
            _ => data::bandwidth(station, side, args, size, sends, self.receives())?,
        };
        Ok(Some(measured))
    }

    fn barrier<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        line: &mut Line,
    ) -> Result<(), EnvironmentError> {
        line.swap_key(station, &self.first).map(|_| ())
    }

    /// A server that only answers waits as long as the client measures.
    fn wait_for_word<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        line: &mut Line,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), EnvironmentError> {
        while self.server && self.args.tool != Tool::WriteLat && !line.has_word() {
            for _ in 0..16 {
                station.idle_turn();
            }
            if give_up() {
                return Err(EnvironmentError("interrupted while the client measures".into()));
            }
        }
        Ok(())
    }

    fn both_ways(&self) -> bool {
        self.args.bidirectional && !self.args.tool.is_latency()
    }

    /// Whether the peer's messages take receive requests of ours.
    fn receives(&self) -> bool {
        let args = self.args;
        args.tool == Tool::SendLat || args.tool == Tool::SendBw && (self.server || args.bidirectional)
    }

    fn say(&self, text: &str) -> Result<()> {
        if self.args.json { Ok(()) } else { print(text) }
    }
}
