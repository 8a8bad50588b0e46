//! `rocegen rping`: the client of rping, by the connection manager.
//!
//! A ping is five messages: the client tells where its data is, the server reads it and says so, the
//! client tells where it wants it back, the server writes it there and says so.

use crate::run::EnvironmentError;
use crate::station::{self, Call, Manager, QpShape, Station, StationArgs, parse_mtu};
use anyhow::Result;
use clap::Args;
use roce_engine::cm::Event;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Mtu, Qpn};
use roce_engine::verbs::{
    CompletionStatus, CqEntry, MemoryRegion, Pd, QpEvent, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode,
};
use std::net::IpAddr;
use std::process::ExitCode;

const PD: Pd = Pd(1);
/// Bytes of a message: address, key, size.
const MESSAGE: u32 = 16;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// `rocegen rping`.
#[derive(Args, Clone, Debug)]
pub struct RpingArgs {
    /// The port to use.
    #[command(flatten)]
    pub station: StationArgs,
    /// The server
    #[arg(short = 'a', long, value_name = "ADDRESS")]
    pub address: IpAddr,
    /// The server's port
    #[arg(short, long, default_value_t = 7174)]
    pub port: u16,
    /// Pings
    #[arg(short = 'C', long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Bytes of a ping
    #[arg(short = 'S', long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(26..=65535))]
    pub size: u32,
    /// Path MTU
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    pub mtu: Mtu,
}

/// Pings a server on a DPDK port.
///
/// # Errors
/// An [`EnvironmentError`]: no port, no server, a refusal, or data that did not come back.
pub fn rping(args: &RpingArgs) -> Result<ExitCode> {
    station::on_port(&args.station, |station, give_up| {
        let pings = run(station, args, give_up)?;
        Ok(format!("{pings} pings of {} bytes came back unchanged\n", args.size))
    })
}

/// Connects, pings and parts; how many pings came back.
///
/// # Errors
/// As [`rping`].
pub fn run<I: PacketIo, C: Clock>(
    station: &mut Station<I, C>,
    args: &RpingArgs,
    give_up: &dyn Fn() -> bool,
) -> Result<u64, EnvironmentError> {
    let mut manager = Manager::new(station, 4);
    let region = station.register(PD, 2 * args.size as usize + 2 * MESSAGE as usize)?;
    let qpn = station.create_qp(&QpShape { pd: PD, sends: 4, receives: 2, window: args.station.window })?;
    let call = Call { to: args.address, port: args.port, qpn, rd_atomic: [1, 1], mtu: args.mtu };
    let mut client = Client { station, manager: &mut manager, region, qpn, size: args.size, give_up };
    client.post_recv()?;
    let answer = client.manager.dial(client.station, &call, PATIENCE)?;
    let answer = answer.map_err(|e| EnvironmentError(format!("{}: refused: {e}", args.address)))?;
    answer.link(client.station)?;
    client.manager.ready(answer.id)?;
    for n in 0..args.count {
        client.ping(n)?;
    }
    let now = client.station.now();
    client.manager.agent().disconnect(now, answer.id).map_err(|e| EnvironmentError(e.to_string()))?;
    client.event()?;
    Ok(args.count)
}

struct Client<'a, I: PacketIo, C> {
    station: &'a mut Station<I, C>,
    manager: &'a mut Manager,
    /// What is sent, what comes back, a message each way.
    region: MemoryRegion,
    qpn: Qpn,
    size: u32,
    give_up: &'a dyn Fn() -> bool,
}

impl<I: PacketIo, C: Clock> Client<'_, I, C> {
    fn ping(&mut self, n: u64) -> Result<(), EnvironmentError> {
        let (source, target, key) = (self.region.va, self.region.va + u64::from(self.size), self.region.key);
        let data = pattern(n, self.size);
        let fail = |e: roce_engine::verbs::AccessError| EnvironmentError(e.to_string());
        let memory = self.station.endpoint().memory_mut();
        memory.local_mut(key, source, self.size).map_err(fail)?.copy_from_slice(&data);
        memory.local_mut(key, target, self.size).map_err(fail)?.fill(0);
        self.tell(source)?;
        self.go_ahead(n)?;
        self.tell(target)?;
        self.go_ahead(n)?;
        let back = self.station.endpoint().memory().local(key, target, self.size).map_err(fail)?;
        match back.iter().zip(&data).position(|(got, want)| got != want) {
            None => Ok(()),
            Some(at) => Err(EnvironmentError(format!("ping {n}: byte {at} of {} is wrong", self.size))),
        }
    }

    /// Tells the server an address of ours.
    fn tell(&mut self, addr: u64) -> Result<(), EnvironmentError> {
        let at = self.region.va + 2 * u64::from(self.size);
        let key = self.region.key;
        let slot = self.station.endpoint().memory_mut().local_mut(key, at, MESSAGE);
        let slot = slot.map_err(|e| EnvironmentError(e.to_string()))?;
        slot[..8].copy_from_slice(&addr.to_be_bytes());
        slot[8..12].copy_from_slice(&key.0.to_be_bytes());
        slot[12..].copy_from_slice(&self.size.to_be_bytes());
        let sge = Sge { addr: at, len: MESSAGE, lkey: key };
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let wr = SendWr { wr_id: 0, op: SendOp::Send, sge, flags };
        match self.station.endpoint().post_send(self.qpn, wr) {
            Some(Ok(())) => Ok(()),
            other => Err(EnvironmentError(format!("queue pair {}: {other:?}", self.qpn))),
        }
    }

    fn post_recv(&mut self) -> Result<(), EnvironmentError> {
        let at = self.region.va + 2 * u64::from(self.size) + u64::from(MESSAGE);
        let sge = Sge { addr: at, len: MESSAGE, lkey: self.region.key };
        match self.station.endpoint().post_recv(self.qpn, RecvWr { wr_id: 0, sge }) {
            Some(Ok(())) => Ok(()),
            other => Err(EnvironmentError(format!("queue pair {}: {other:?}", self.qpn))),
        }
    }

    /// Waits for the server's word.
    fn go_ahead(&mut self, n: u64) -> Result<(), EnvironmentError> {
        let end = self.station.now() + PATIENCE;
        loop {
            self.check(self.station.now() >= end, &format!("ping {n}: the server says nothing"))?;
            self.station.turn();
            if let Some(Event::Disconnected { .. }) = self.manager.pump(self.station) {
                return Err(EnvironmentError(format!("ping {n}: the server has disconnected")));
            }
            while let Some(entry) = self.station.pop() {
                match entry {
                    CqEntry::Completion(done) if done.status != CompletionStatus::Success => {
                        let text = format!("ping {n}: a request ended with {}", done.status.name());
                        return Err(EnvironmentError(text));
                    }
                    CqEntry::Completion(done) if done.opcode == WcOpcode::Recv => return self.post_recv(),
                    CqEntry::Event(_, QpEvent::Fatal(status)) => {
                        return Err(EnvironmentError(format!("ping {n}: {}", status.name())));
                    }
                    _ => {}
                }
            }
        }
    }

    /// What the connection manager says next.
    fn event(&mut self) -> Result<Event, EnvironmentError> {
        let end = self.station.turn() + PATIENCE;
        loop {
            self.check(self.station.now() >= end, "the other side says nothing")?;
            if let Some(event) = self.manager.pump(self.station) {
                return Ok(event);
            }
            self.station.idle_turn();
        }
    }

    fn check(&self, late: bool, what: &str) -> Result<(), EnvironmentError> {
        if (self.give_up)() {
            return Err(EnvironmentError("interrupted".into()));
        }
        if late { Err(EnvironmentError(format!("{what} for {PATIENCE}"))) } else { Ok(()) }
    }
}

/// rping's data: a number, then letters that go round, then a zero byte.
fn pattern(n: u64, size: u32) -> Vec<u8> {
    let mut data = format!("rdma-ping-{n}: ").into_bytes();
    let mut letter = 65 + (n % 58) as u8;
    while data.len() + 1 < size as usize {
        data.push(letter);
        letter = if letter == 122 { 65 } else { letter + 1 };
    }
    data.truncate(size as usize - 1);
    data.push(0);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_ping() {
        assert_eq!(pattern(0, 26), b"rdma-ping-0: ABCDEFGHIJKL\0");
        let long = pattern(57, 64);
        assert_eq!((long.len(), long[13], long[14], long[63]), (64, b' ', b'z', 0));
        assert_eq!(long[15], b'A');
    }
}
