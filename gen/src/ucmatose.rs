//! `rocegen ucmatose`: the client of librdmacm's ucmatose.
//!
//! On every connection the server sends its messages, the client takes them and sends as many; when the server
//! has them, it ends the connections.

use crate::run::EnvironmentError;
use crate::station::{self, Call, Manager, QpShape, Station, StationArgs, parse_mtu};
use anyhow::Result;
use clap::Args;
use roce_engine::cm::{CommId, Event};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Instant, Mtu, Qpn};
use roce_engine::verbs::{
    CompletionStatus, CqEntry, MemoryRegion, Pd, QpEvent, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode,
};
use std::net::IpAddr;
use std::process::ExitCode;

const PD: Pd = Pd(1);
/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a farewell is answered.
const FAREWELL: Duration = Duration::from_millis(100);

/// `rocegen ucmatose`.
#[derive(Args, Clone, Debug)]
pub struct UcmatoseArgs {
    /// The server, by an address of its RDMA port
    pub server: IpAddr,
    /// The port to use.
    #[command(flatten)]
    pub station: StationArgs,
    /// The server's port
    #[arg(short, long, default_value_t = 7471)]
    pub port: u16,
    /// Connections
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub connections: u32,
    /// Messages each way on a connection
    #[arg(short = 'C', long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub messages: u32,
    /// Bytes of a message
    #[arg(short = 'S', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub size: u32,
    /// Path MTU
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    pub mtu: Mtu,
}

/// Exchanges messages with a server on a DPDK port.
///
/// # Errors
/// An [`EnvironmentError`]: no port, no server, a refusal, or messages that did not come.
pub fn ucmatose(args: &UcmatoseArgs) -> Result<ExitCode> {
    station::on_port(&args.station, |station, _| {
        run(station, args)?;
        let UcmatoseArgs { connections, messages, size, .. } = args;
        Ok(format!("{messages} messages of {size} bytes each way on {connections} connections\n"))
    })
}

/// Connects, takes, sends, and waits until the server ends it.
///
/// # Errors
/// As [`ucmatose`].
pub fn run<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    args: &UcmatoseArgs,
) -> Result<(), EnvironmentError> {
    let manager = Manager::new(station, args.connections as usize + 1);
    let region = station.register(PD, 2 * args.size as usize)?;
    let mut client =
        Client { station, manager, region, args, conns: Vec::new(), received: 0, sent: 0, ended: 0 };
    for _ in 0..args.connections {
        client.connect()?;
    }
    let all = u64::from(args.connections) * u64::from(args.messages);
    client.until("messages of the server's", |client| client.received >= all)?;
    for at in 0..client.conns.len() {
        for _ in 0..args.messages {
            client.send(client.conns[at].0)?;
        }
    }
    client.until("acknowledgements", |client| client.sent >= all)?;
    client.until("the end of the connections", |client| client.ended >= args.connections)?;
    // The answer to the last farewell leaves, and once more if it was lost and is asked for soon.
    let end = client.station.turn() + FAREWELL;
    while client.station.idle_turn() < end {
        client.take()?;
    }
    Ok(())
}

struct Client<'a, I: PacketIo, C> {
    station: &'a mut Station<I, C>,
    manager: Manager,
    /// What is sent, and what comes.
    region: MemoryRegion,
    args: &'a UcmatoseArgs,
    conns: Vec<(Qpn, CommId)>,
    received: u64,
    sent: u64,
    ended: u32,
}

impl<I: PacketIo, C: Clock> Client<'_, I, C> {
    fn connect(&mut self) -> Result<(), EnvironmentError> {
        let args = self.args;
        let (depth, window) = (args.messages, args.station.window);
        let qpn = self.station.create_qp(&QpShape { pd: PD, sends: depth, receives: depth, window })?;
        let at = self.region.va + u64::from(args.size);
        for n in 0..u64::from(args.messages) {
            let sge = Sge { addr: at, len: args.size, lkey: self.region.key };
            match self.station.endpoint().post_recv(qpn, RecvWr { wr_id: n, sge }) {
                Some(Ok(())) => {}
                other => return Err(EnvironmentError(format!("queue pair {qpn}: {other:?}"))),
            }
        }
        let call = Call { to: args.server, port: args.port, qpn, rd_atomic: [1, 1], mtu: args.mtu };
        let answer = self.manager.dial(self.station, &call, PATIENCE)?;
        let answer = answer.map_err(|e| EnvironmentError(format!("{}: refused: {e}", args.server)))?;
        answer.link(self.station)?;
        self.manager.ready(answer.id)?;
        self.conns.push((qpn, answer.id));
        Ok(())
    }

    fn send(&mut self, qpn: Qpn) -> Result<(), EnvironmentError> {
        let sge = Sge { addr: self.region.va, len: self.args.size, lkey: self.region.key };
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        match self.station.endpoint().post_send(qpn, SendWr { wr_id: 0, op: SendOp::Send, sge, flags }) {
            Some(Ok(())) => Ok(()),
            other => Err(EnvironmentError(format!("queue pair {qpn}: {other:?}"))),
        }
    }

    /// Turns until `done` says so, as long as something happens now and then.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), EnvironmentError> {
        let fail = |client: &Self, e: &str| {
            let Client { received, sent, ended, .. } = client;
            let server = client.args.server;
            Err(EnvironmentError(format!(
                "{server}: {e} ({received} messages received, {sent} sent, {ended} connections ended); are its -c, -C and -S \
                 the same?"
            )))
        };
        let mut end: Instant = self.station.turn() + PATIENCE;
        while !done(self) {
            if self.ended >= self.args.connections {
                return fail(self, &format!("the server has ended what there was, and {what} did not come"));
            }
            let before = (self.received, self.sent, self.ended);
            self.take()?;
            if before != (self.received, self.sent, self.ended) {
                end = self.station.now() + PATIENCE;
            } else if self.station.is_interrupted() {
                return fail(self, "interrupted");
            } else if self.station.idle_turn() >= end {
                return fail(self, &format!("waited for {PATIENCE} in vain for {what}"));
            }
        }
        Ok(())
    }

    /// Takes what has happened.
    fn take(&mut self) -> Result<(), EnvironmentError> {
        let server = self.args.server;
        while let Some(event) = self.manager.pump(self.station) {
            self.ended += u32::from(matches!(event, Event::Disconnected { .. }));
        }
        while let Some(entry) = self.station.pop() {
            match entry {
                // What was left on a connection that has ended is flushed.
                CqEntry::Completion(done) if done.status != CompletionStatus::Success => {
                    return Err(EnvironmentError(format!(
                        "{server}: a request ended with {}",
                        done.status.name()
                    )));
                }
                CqEntry::Completion(done) if done.opcode == WcOpcode::Recv => {
                    if done.byte_len != self.args.size {
                        let text = format!(
                            "{server}: a message of {} bytes, not {}; is its -S the same?",
                            done.byte_len, self.args.size
                        );
                        return Err(EnvironmentError(text));
                    }
                    self.received += 1;
                }
                CqEntry::Completion(_) => self.sent += 1,
                CqEntry::Event(_, QpEvent::Fatal(status)) => {
                    return Err(EnvironmentError(format!("{server}: {}", status.name())));
                }
                CqEntry::Event(..) => {}
            }
        }
        Ok(())
    }
}
