//! Flows to machines that have no scenario: met before the start, parted with after the end, in the words of
//! perftest's clients.

use super::EnvironmentError;
use super::connect::QpInfo;
use super::signal::Signals;
use super::worker::Io;
use crate::config::{Dial, DialBy, Scenario, Verb};
use crate::perftest::wire::Key;
use crate::perftest::{Line, Row};
use crate::plan::Rates;
use crate::report::FlowMeasure;
use crate::station::Station;
use anyhow::Result;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Psn, Qpn};
use roce_engine::worker::Endpoint;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// How long the other machine may be silent.
const PATIENCE: Duration = Duration::from_secs(30);
/// Packets that the connection for words may have under way.
const WINDOW: u32 = 16;

/// A flow and the line to its other end.
#[derive(Debug)]
pub(crate) struct Talk {
    flow: usize,
    /// Index of the port that it leaves from.
    pub(crate) port: usize,
    line: Line,
    /// The key of the first queue pair: repeated, it is a barrier.
    first: Key,
    /// Whether the other end's program is one of SENDs, which has an order of its own.
    sends: bool,
}

/// What the other machine grants a flow.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// By queue pair: its side.
    pub(super) qps: Vec<QpInfo>,
    /// By queue pair: where this side is to begin, if the other one says that.
    pub(super) psns: Vec<Psn>,
    /// READs that it answers at once.
    pub(super) reads: u8,
    /// Its address, where it says that.
    ip: Option<IpAddr>,
}

impl Talk {
    /// Meets the other end of flow `f`, whose queue pairs here are `own`.
    ///
    /// # Errors
    /// It is not there, or cannot do what the flow asks for.
    pub(super) fn meet<I: PacketIo, C: Clock>(
        station: &mut Station<I, C>,
        s: &Scenario,
        f: usize,
        (dial, own): (&Dial, &[QpInfo]),
    ) -> Result<(Talk, Granted)> {
        let flow = &s.flows[f];
        let (from, to) = (s.ports[flow.from].ip, s.ports[flow.to].ip);
        let named = |e: EnvironmentError| EnvironmentError(format!("flow \"{}\": {e}", flow.name));
        let mut line = match dial.by {
            DialBy::Cm => Line::dial(station, (to, dial.service), (flow.mtu, WINDOW), PATIENCE),
            DialBy::Perftest => addresses(dial, to).and_then(|to| Line::call(station, &to, PATIENCE)),
        }
        .map_err(named)?;
        let mtu = line.greet(station, flow.mtu).map_err(named)?;
        if mtu < flow.mtu {
            let text = format_args!("the machine at {to} carries at most {mtu}: write mtu = {mtu}");
            return Err(s.flow_error(f, "mtu", text).into());
        }
        let reads = if flow.traffic.has(|v| v == Verb::Read) { flow.max_rd_atomic } else { 0 };
        let keys: Vec<Key> = own
            .iter()
            .map(|o| Key {
                out_reads: reads.max(1).into(),
                qpn: Qpn::new(o.qpn),
                psn: Psn::new(o.psn),
                rkey: o.rkey,
                vaddr: o.va,
                gid: from.into(),
            })
            .collect();
        let mut talk = Talk { flow: f, port: flow.from, line, first: keys[0], sends: flow.takes_recv() };
        let granted = talk.agree(station, &keys, reads).map_err(named)?;
        if granted.reads == 0 && reads != 0 {
            let text = format_args!("the machine at {to} answers no READs: its program is to be ib_read_bw");
            return Err(s.flow_error(f, "verb", text).into());
        }
        match granted.ip.filter(|ip| *ip != to) {
            Some(ip) => {
                let text =
                    format_args!("the machine there says that its RDMA address is {ip}: write to = \"{ip}\"");
                Err(s.flow_error(f, "to", text).into())
            }
            None => Ok((talk, granted)),
        }
    }

    /// Tells and hears of queue pairs, up to the moment at which the other end awaits data.
    fn agree<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        keys: &[Key],
        reads: u8,
    ) -> Result<Granted, EnvironmentError> {
        let line = &mut self.line;
        let mut answers = Vec::new();
        line.connect(station, keys, reads, |_, answer| {
            answers.push(answer);
            Ok(())
        })?;
        let theirs = line.swap_keys(station, keys)?;
        if self.sends {
            line.swap_key(station, &self.first)?;
        }
        line.swap_keys(station, keys)?;
        line.swap_key(station, &self.first)?;
        let told = theirs.iter().map(|key| key.out_reads.min(128) as u8);
        let answered = answers.iter().map(|a| a.rep.responder_resources);
        let info = |(q, key): (usize, &Key)| {
            // By the connection manager, numbers come with its answers.
            let (qpn, psn) = answers.get(q).map_or((key.qpn, key.psn), |a| (a.rep.qpn, a.psn));
            QpInfo { qpn: qpn.get(), psn: psn.get(), va: key.vaddr, rkey: key.rkey }
        };
        Ok(Granted {
            qps: theirs.iter().enumerate().map(info).collect(),
            psns: answers.iter().map(|a| a.rep.psn).collect(),
            ip: theirs.first().filter(|_| answers.is_empty()).map(|key| key.gid.to_ip()),
            reads: if answers.is_empty() { told.min() } else { answered.min() }.unwrap_or(0),
        })
    }

    /// Tells the other end that this one is through, and what it measured.
    fn part<I: PacketIo, C: Clock>(
        mut self,
        station: &mut Station<I, C>,
        rates: Option<Row>,
    ) -> Result<(), EnvironmentError> {
        station.turn();
        let mut outcome = Ok(());
        if let Some(rates) = rates.filter(|_| !station.is_interrupted()) {
            outcome = self.say_farewell(station, &rates);
        }
        self.line.close(station);
        outcome
    }

    fn say_farewell<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        rates: &Row,
    ) -> Result<(), EnvironmentError> {
        if !self.sends {
            self.line.swap_key(station, &self.first)?;
            self.line.swap_rates(station, rates)?;
        }
        self.line.swap_key(station, &self.first).map(|_| ())
    }
}

/// Parts with all of them, on the endpoints that workers have left; what went wrong first.  Without
/// measures the run has failed.
pub(super) fn part_all<C: Clock + Copy>(
    s: &Scenario,
    talks: Vec<Talk>,
    mut endpoints: Vec<(usize, Endpoint<Io>)>,
    (clock, signals): (C, &Signals),
    measures: Option<&[FlowMeasure]>,
) -> Option<String> {
    let mut wrong = None;
    for talk in talks {
        let Some(at) = endpoints.iter().position(|(port, _)| *port == talk.port) else { continue };
        let (port, endpoint) = endpoints.swap_remove(at);
        let mut station = Station::on(endpoint, clock, 0);
        station.heed(signals);
        let f = talk.flow;
        // Where messages failed, that is what there is to say.
        let through = |m: &&FlowMeasure| m.last.failed + m.last.outstanding == 0;
        let rates = measures.map(|m| &m[f]).filter(through).map(|m| row(s, f, m));
        if let Err(e) = talk.part(&mut station, rates) {
            wrong.get_or_insert(format!("flow \"{}\": at the end: {e}", s.flows[f].name));
        }
        endpoints.extend(station.into_endpoint().map(|endpoint| (port, endpoint)));
    }
    wrong
}

/// What perftest's server prints of its client.
fn row(s: &Scenario, f: usize, m: &FlowMeasure) -> Row {
    let flow = &s.flows[f];
    let rates = Rates::between(&m.base, &m.end, m.elapsed);
    Row {
        size: flow.size,
        iterations: (m.end.completed - m.base.completed) / u64::from(flow.qps),
        peak: 0.0,
        average: rates.goodput_bps / 8.0 / f64::from(1 << 20),
        message_rate: rates.messages / 1e6,
        latency: None,
    }
}

/// Where the other machine's kernel is met.
fn addresses(dial: &Dial, to: IpAddr) -> Result<Vec<SocketAddr>, EnvironmentError> {
    let Some(host) = &dial.oob else { return Ok(vec![SocketAddr::new(to, dial.service)]) };
    let fail = |e: &dyn std::fmt::Display| EnvironmentError(format!("oob = \"{host}\": {e}"));
    let found = (host.as_str(), dial.service).to_socket_addrs().map_err(|e| fail(&e))?;
    Ok(found.collect())
}
