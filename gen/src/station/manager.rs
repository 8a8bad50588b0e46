//! Connection management on a station: datagrams in, datagrams out, events.

use super::{Link, Station};
use crate::run::EnvironmentError;
use roce_engine::cm::{
    Accept, Agent, AgentConfig, CmaHeader, CommId, Connect, Event, Mad, Message, Peer, PortSpace, RejReason,
    Rep, Req, ServiceId, SidrRep, SidrStatus,
};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::net::Datagram;
use roce_engine::units::{Duration, Mtu, Psn, Qpn};
use roce_engine::wire::{Gid, MacAddr};
use std::net::IpAddr;

/// Shorter than Linux's own: its peers bear repetitions.
const TIMEOUT: Duration = Duration::from_millis(500);
const RETRIES: u8 = 15;
const TIME_WAIT: Duration = Duration::from_secs(1);
/// READs and atomics outstanding: as many as Linux's software device has.
const DEPTH: u8 = 128;

/// The connections of a station.
#[derive(Debug)]
pub struct Manager {
    agent: Agent,
    /// Whether somebody is there to take calls; else they are refused.
    serves: bool,
    /// Datagrams that were no messages of ours.
    refused: u64,
}

/// A call of this side's.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Who is called.
    pub to: IpAddr,
    /// At which TCP port.
    pub port: u16,
    /// This side's queue pair, in INIT.
    pub qpn: Qpn,
    /// READs and atomics outstanding: those of the peer's, and those of this side.
    pub rd_atomic: [u8; 2],
    /// The path MTU.
    pub mtu: Mtu,
}

/// A call that was accepted.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The connection.
    pub id: CommId,
    call: Call,
    /// The PSN at which the called side was told to begin.
    pub psn: Psn,
    /// What it says.
    pub rep: Box<Rep>,
}

impl Answer {
    /// Connects the queue pair; [`Manager::ready`] tells the called side.
    ///
    /// # Errors
    /// The answer does not fit.
    pub fn link<I: PacketIo, C: Clock>(&self, station: &mut Station<I, C>) -> Result<(), EnvironmentError> {
        let (call, rep) = (&self.call, &self.rep);
        let mac = station.resolve(call.to)?;
        let own = station.host().source_for(call.to).map(Gid::from).unwrap_or_default();
        let link = Link {
            mac,
            own,
            peer: call.to.into(),
            mtu: call.mtu,
            dest_qpn: rep.qpn,
            rq_psn: self.psn,
            sq_psn: rep.psn,
            rd_atomic: [rep.initiator_depth.min(DEPTH), rep.responder_resources.min(DEPTH)],
            tos: 0,
            timeout: 14,
            retries: [7, rep.rnr_retry],
        };
        station.connect(call.qpn, &link)
    }
}

impl Manager {
    /// For calls of this side's, at most `most` at once; whoever calls is refused.
    pub fn new<I: PacketIo, C: Clock>(station: &mut Station<I, C>, most: usize) -> Manager {
        Manager { serves: false, ..Manager::serving(station, most) }
    }

    /// Without connections, at most `most` at once.
    pub fn serving<I: PacketIo, C: Clock>(station: &mut Station<I, C>, most: usize) -> Manager {
        let MacAddr([a, b, c, d, e, f]) = station.host().mac();
        // EUI-64, as hardware has it.
        let guid = u64::from_be_bytes([a ^ 2, b, c, 0xFF, 0xFE, d, e, f]).max(1);
        let config = AgentConfig {
            guid,
            secret: station.random(),
            timeout: TIMEOUT,
            retries: RETRIES,
            time_wait: TIME_WAIT,
            max_connections: most,
        };
        Manager { agent: Agent::new(config), serves: true, refused: 0 }
    }

    /// The state of the connections.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Datagrams that were no messages of ours.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes what has come, sends what is due, and says what has happened.
    pub fn pump<I: PacketIo, C: Clock>(&mut self, station: &mut Station<I, C>) -> Option<Event> {
        let now = station.now();
        while let Some(datagram) = station.host().pop_management() {
            let Datagram { mac, remote, local, mad } = datagram;
            match Mad::parse(&mad).and_then(|mad| Ok((mad.tid, Message::of(&mad)?))) {
                Ok((tid, message)) => {
                    let from = Peer { mac, gid: remote, own: local };
                    self.agent.on_message(now, from, tid, &message);
                }
                Err(e) => {
                    log::debug!("{}: {e}", remote.to_ip());
                    self.refused += 1;
                }
            }
        }
        self.agent.on_deadline(now);
        while let Some(out) = self.agent.poll_transmit() {
            let Peer { mac, gid, own } = out.to;
            let datagram = Datagram { mac, remote: gid, local: own, mad: out.mad.emit() };
            if !station.host().send_management(&datagram) {
                // It is repeated when its time is up.
                log::debug!("no room for a message to {}", gid.to_ip());
            }
        }
        loop {
            match self.agent.poll_event()? {
                Event::Requested { id, .. } if !self.serves => {
                    let _ = self.agent.reject(id, RejReason::INVALID_SERVICE_ID);
                }
                Event::SidrRequested { from, tid, req } if !self.serves => {
                    let (status, qpn) = (SidrStatus::ServiceNotSupported, Qpn::new(0));
                    let (request_id, service) = (req.request_id, req.service);
                    self.agent.reply_sidr(from, tid, SidrRep { request_id, status, qpn, service, qkey: 0 });
                }
                event => return Some(event),
            }
        }
    }

    /// Calls a service; the connection, and the PSN at which the peer is told to begin.
    ///
    /// # Errors
    /// The peer's MAC address is not found.
    pub fn call<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        call: &Call,
    ) -> Result<(CommId, Psn), EnvironmentError> {
        let (to, private) = self.introduction(station, call.to)?;
        let psn = station.random_psn();
        let connect = Connect {
            to,
            service: ServiceId::new(PortSpace::Tcp, call.port),
            qpn: call.qpn,
            psn,
            mtu: call.mtu,
            responder_resources: call.rd_atomic[0],
            initiator_depth: call.rd_atomic[1],
            retry_count: 7,
            rnr_retry: 7,
            ack_timeout: 14,
            traffic_class: 0,
            hop_limit: 64,
            private,
        };
        let id = self.agent.connect(station.now(), &connect).map_err(|e| EnvironmentError(e.to_string()))?;
        Ok((id, psn))
    }

    /// Calls a service and waits for its answer, or the reason for which it refuses.  What else happens
    /// meanwhile is lost.
    ///
    /// # Errors
    /// No answer comes, or the user has had enough.
    pub fn dial<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        call: &Call,
        patience: Duration,
    ) -> Result<Result<Answer, RejReason>, EnvironmentError> {
        let fail = |e: String| EnvironmentError(format!("{}: {e}", call.to));
        let (id, psn) = self.call(station, call)?;
        let end = station.now() + patience;
        loop {
            match self.pump(station) {
                Some(Event::Replied { id: replied, rep }) if replied == id => {
                    return Ok(Ok(Answer { id, call: *call, psn, rep }));
                }
                Some(Event::Refused { id: refused, reason }) if refused == id => return Ok(Err(reason)),
                Some(Event::TimedOut { id: late }) if late == id => return Err(fail("no answer".into())),
                _ if station.is_interrupted() => return Err(fail("interrupted".into())),
                _ if station.idle_turn() >= end => return Err(fail(format!("no answer for {patience}"))),
                _ => {}
            }
        }
    }

    /// Asks for the queue pair of a datagram service, and waits for the answer.
    ///
    /// # Errors
    /// There is none, or no such service.
    pub fn ask<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        (to, port): (IpAddr, u16),
        patience: Duration,
    ) -> Result<SidrRep, EnvironmentError> {
        let fail = |e: String| EnvironmentError(format!("{to}: {e}"));
        let (peer, private) = self.introduction(station, to)?;
        let service = ServiceId::new(PortSpace::Udp, port);
        let asked = self.agent.ask_sidr(station.now(), peer, service, private);
        let id = asked.map_err(|e| fail(e.to_string()))?;
        let end = station.now() + patience;
        loop {
            match self.pump(station) {
                Some(Event::SidrReplied { id: replied, rep }) if replied == id => {
                    return match rep.status {
                        SidrStatus::Valid => Ok(rep),
                        SidrStatus::ServiceNotSupported => {
                            Err(fail(format!("nobody listens on port {port} for datagrams")))
                        }
                        SidrStatus::Rejected => Err(fail("the service refuses".into())),
                        SidrStatus::NoQp => Err(fail("the service has no queue pair left".into())),
                    };
                }
                Some(Event::TimedOut { id: late }) if late == id => return Err(fail("no answer".into())),
                _ if station.is_interrupted() => return Err(fail("interrupted".into())),
                _ if station.idle_turn() >= end => return Err(fail(format!("no answer for {patience}"))),
                _ => {}
            }
        }
    }

    /// Who is called by whom, and the private data that says so.
    fn introduction<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        to: IpAddr,
    ) -> Result<(Peer, [u8; 92]), EnvironmentError> {
        let mac = station.resolve(to)?;
        let own = station.host().source_for(to);
        let own = own.ok_or_else(|| EnvironmentError(format!("no address of ours reaches {to}")))?;
        let header = CmaHeader { port: station.random() as u16 | 0x8000, src: own, dst: to };
        let mut private = [0; 92];
        private[..CmaHeader::LEN].copy_from_slice(&header.emit());
        Ok((Peer { mac, gid: to.into(), own: own.into() }, private))
    }

    /// Tells the called side that this one is ready.
    ///
    /// # Errors
    /// The call is over.
    pub fn ready(&mut self, id: CommId) -> Result<(), EnvironmentError> {
        self.agent.ready(id).map_err(|e| EnvironmentError(e.to_string()))
    }

    /// Connects a queue pair of ours as a caller asks, and accepts the call.
    ///
    /// # Errors
    /// An attribute of the request is out of its range.
    pub fn accept<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        (id, from, req): (CommId, Peer, &Req),
        qpn: Qpn,
    ) -> Result<(), EnvironmentError> {
        let psn = station.random_psn();
        let (theirs, ours) = (req.initiator_depth.min(DEPTH), req.responder_resources.min(DEPTH));
        let link = Link {
            mac: from.mac,
            own: from.own,
            peer: from.gid,
            mtu: req.mtu,
            dest_qpn: req.qpn,
            rq_psn: psn,
            sq_psn: req.psn,
            rd_atomic: [theirs, ours],
            tos: req.path.traffic_class,
            timeout: req.path.ack_timeout.min(31),
            retries: [req.retry_count, req.rnr_retry],
        };
        station.connect(qpn, &link)?;
        let accept = Accept {
            qpn,
            psn,
            responder_resources: theirs,
            initiator_depth: ours,
            rnr_retry: 7,
            private: [0; 196],
        };
        let now = station.now();
        self.agent.accept(now, id, &accept).map_err(|e| EnvironmentError(e.to_string()))
    }
}
