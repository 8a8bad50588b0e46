//! `rocegen udaddy`: the client of librdmacm's udaddy.
//!
//! It asks for the queue pair of a datagram service, sends there, and waits for as many answers.  Its own queue
//! pair's number is in the immediate data.

use crate::run::EnvironmentError;
use crate::station::{self, Manager, Station, StationArgs, UdShape, parse_mtu};
use anyhow::Result;
use clap::Args;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Mtu};
use roce_engine::verbs::{
    CompletionStatus, CqEntry, Datagram, GRH_LEN, Pd, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode,
};
use roce_engine::wire::Gid;
use std::net::IpAddr;
use std::process::ExitCode;

const PD: Pd = Pd(1);
/// How long the service may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// The Q_Key of librdmacm's datagram queue pairs.
pub(crate) const QKEY: u32 = 0x0123_4567;

/// `rocegen udaddy`.
#[derive(Args, Clone, Debug)]
pub struct UdaddyArgs {
    /// The server, by an address of its RDMA port
    pub server: IpAddr,
    /// The port to use.
    #[command(flatten)]
    pub station: StationArgs,
    /// The server's port, of those for datagrams
    #[arg(short, long, default_value_t = 7174)]
    pub port: u16,
    /// Messages each way
    #[arg(short = 'C', long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub messages: u32,
    /// Bytes of a message, at most the path MTU
    #[arg(short = 'S', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub size: u32,
    /// Path MTU
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    pub mtu: Mtu,
}

/// Exchanges datagrams with a server on a DPDK port.
///
/// # Errors
/// An [`EnvironmentError`]: no port, no server, or datagrams that did not come.
pub fn udaddy(args: &UdaddyArgs) -> Result<ExitCode> {
    station::on_port(&args.station, |station, _| {
        run(station, args)?;
        Ok(format!("{} datagrams of {} bytes each way\n", args.messages, args.size))
    })
}

/// Asks, sends, and waits for the answers.
///
/// # Errors
/// As [`udaddy`].
pub fn run<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    args: &UdaddyArgs,
) -> Result<(), EnvironmentError> {
    let fail = |e: String| EnvironmentError(format!("{}: {e}", args.server));
    if args.size as usize > args.mtu.bytes() {
        return Err(fail(format!("a datagram is one packet: -S {} is more than -m {}", args.size, args.mtu)));
    }
    let mut manager = Manager::new(station, 1);
    let there = manager.ask(station, (args.server, args.port), PATIENCE)?;
    let mac = station.resolve(args.server)?;
    let own = station.host().source_for(args.server).map(Gid::from).unwrap_or_default();
    let slot = u64::from(GRH_LEN + args.size);
    let region = station.register(PD, (u64::from(args.messages) * slot + u64::from(args.size)) as usize)?;
    let shape =
        UdShape { pd: PD, own, mtu: args.mtu, qkey: QKEY, sends: args.messages, receives: args.messages };
    let qpn = station.create_ud(&shape)?;
    let ah = station.handle(qpn, (mac, own, args.server.into()))?;
    for n in 0..u64::from(args.messages) {
        let sge = Sge { addr: region.va + n * slot, len: slot as u32, lkey: region.key };
        match station.endpoint().post_recv(qpn, RecvWr { wr_id: n, sge }) {
            Some(Ok(())) => {}
            other => return Err(fail(format!("{other:?}"))),
        }
    }
    let addr = region.va + u64::from(args.messages) * slot;
    let to = Datagram { ah, qpn: there.qpn, qkey: there.qkey, imm: Some(qpn.get()) };
    let flags = SendFlags { signaled: true, ..SendFlags::default() };
    for n in 0..u64::from(args.messages) {
        let sge = Sge { addr, len: args.size, lkey: region.key };
        let wr = SendWr { wr_id: n, op: SendOp::Datagram(to), sge, flags };
        match station.endpoint().post_send(qpn, wr) {
            Some(Ok(())) => {}
            other => return Err(fail(format!("{other:?}"))),
        }
    }
    let (mut came, mut end) = (0, station.turn() + PATIENCE);
    while came < args.messages {
        while let Some(entry) = station.pop() {
            let CqEntry::Completion(done) = entry else { continue };
            if done.status != CompletionStatus::Success {
                return Err(fail(format!("a request ended with {}", done.status.name())));
            }
            if done.opcode != WcOpcode::Recv {
                continue;
            }
            if done.byte_len != slot as u32 {
                let text = format!("an answer of {} bytes, not {}", done.byte_len - GRH_LEN, args.size);
                return Err(fail(format!("{text}; is its -S the same?")));
            }
            came += 1;
            end = station.now() + PATIENCE;
        }
        if station.is_interrupted() {
            return Err(fail("interrupted".into()));
        }
        if station.idle_turn() >= end {
            return Err(fail(format!(
                "{came} of {} datagrams were answered, then nothing for {PATIENCE}; some may be lost, or its -C is another",
                args.messages
            )));
        }
    }
    Ok(())
}
