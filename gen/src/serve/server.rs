//! The service: who has come, what for, and what is to be done next.

use super::apps::{App, Next, Rping};
use super::client::Client;
use super::datagrams::Datagrams;
use super::grants::{GrantId, Grants, post_recv};
use super::{Limits, Ports, say};
use crate::run::EnvironmentError;
use crate::station::{Manager, Station};
use roce_engine::cm::{
    CommId, Event, Peer, PortSpace, RejReason, Req, Service, SidrRep, SidrReq, SidrStatus,
};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Instant, Qpn};
use roce_engine::verbs::{Completion, CompletionStatus, CqEntry, QpEvent, WcOpcode};
use roce_engine::wire::Gid;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// How often the kernel is asked whether somebody has come or said something.
const LOOK: Duration = Duration::from_micros(200);
/// How often silence is looked for.
const ROLL_CALL: Duration = Duration::from_secs(1);

/// A connection of the connection manager's.
#[derive(Debug)]
struct Conn {
    id: CommId,
    grant: GrantId,
    own: Gid,
    app: App,
    /// Whether the grant is this connection's, and ends with it.
    owner: bool,
    begun: bool,
}

/// The service on one station.
#[derive(Debug)]
pub struct Server<'a, I: PacketIo, C> {
    station: &'a mut Station<I, C>,
    manager: Manager,
    grants: Grants,
    ports: Ports,
    listener: Option<TcpListener>,
    /// Whether the last that came could not be let in.
    full: bool,
    idle: Duration,
    clients: Vec<Client>,
    conns: HashMap<Qpn, Conn>,
    datagrams: Datagrams,
    looked: Instant,
    called: Instant,
}

/// Clients over TCP that have not told a queue pair; one more, and the one that came first is shown the door.
const MUTE: usize = 64;
/// Connections that may be ending at any time, at least.
const ENDING: usize = 64;

impl<'a, I: PacketIo, C: Clock> Server<'a, I, C> {
    /// A service without peers.
    pub fn new(station: &'a mut Station<I, C>, limits: Limits, ports: Ports) -> Server<'a, I, C> {
        // Queue pairs are counted by the grants; connections that have ended wait here a while longer.
        let manager = Manager::serving(station, limits.qps.saturating_mul(2).saturating_add(ENDING));
        Server {
            station,
            manager,
            grants: Grants::new(limits),
            ports,
            listener: None,
            full: false,
            idle: limits.idle,
            clients: Vec::new(),
            conns: HashMap::new(),
            datagrams: Datagrams::default(),
            looked: Instant::ZERO,
            called: Instant::ZERO,
        }
    }

    /// Awaits perftest clients at an address of the kernel; the address.
    ///
    /// # Errors
    /// It is not ours, or in use.
    pub fn listen(&mut self, on: SocketAddr) -> Result<SocketAddr, EnvironmentError> {
        let fail = |e: std::io::Error| EnvironmentError(format!("cannot listen on {on}: {e}"));
        let listener = TcpListener::bind(on).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        self.listener = Some(listener);
        Ok(address)
    }

    /// One turn; the time.
    pub fn turn(&mut self) -> Instant {
        let now = self.station.idle_turn();
        while let Some(entry) = self.station.pop() {
            match entry {
                CqEntry::Completion(done) => self.on_completion(&done),
                CqEntry::Event(qpn, QpEvent::Fatal(status)) => self.on_fatal(qpn, status),
                CqEntry::Event(qpn, QpEvent::CommEst) => {
                    if let Some(conn) = self.conns.get(&qpn) {
                        self.manager.agent().traffic_came(conn.id);
                    }
                }
                CqEntry::Event(..) => {}
            }
        }
        while let Some(event) = self.manager.pump(self.station) {
            self.on_event(event);
        }
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            self.look();
        }
        if now.since(self.called) >= ROLL_CALL {
            self.called = now;
            for grant in self.grants.silent(self.station) {
                self.drop_grant(grant, "silent");
            }
            self.drop_mute(now);
        }
        now
    }

    /// Peers that are there.
    pub fn peers(&self) -> usize {
        self.grants.iter().count()
    }

    /// Disconnects everybody and says what was served.
    pub fn end(mut self) {
        let all: Vec<GrantId> = self.grants.iter().map(|(id, _)| id).collect();
        for grant in all {
            self.drop_grant(grant, "ended");
        }
        // What has been said leaves.
        for _ in 0..100 {
            while self.manager.pump(self.station).is_some() {}
            self.station.turn();
        }
        let totals = &self.grants.totals;
        say(&format!(
            "served {} peers: {} bytes taken, {} bytes sent, {} READs, {} atomics; {} datagrams sent back, {} not; {} of {} \
             frames dropped",
            self.grants.served,
            totals.rx_payload_bytes,
            totals.tx_payload_bytes,
            totals.rx_read_requests,
            totals.rx_atomic_requests,
            self.datagrams.answered,
            self.datagrams.strange,
            self.station.counters().dropped_total(),
            self.station.counters().rx_packets,
        ));
    }

    /// Who has come over TCP, and what they say.
    fn look(&mut self) {
        if let Some(listener) = &self.listener {
            let came = match listener.accept() {
                Ok((stream, from)) => Client::new(stream, from, self.looked).map(Some),
                Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(e) => Err(e),
            };
            match came {
                Ok(Some(client)) => {
                    self.full = false;
                    self.clients.push(client);
                }
                Ok(None) => {}
                Err(e) => {
                    // It is tried again and again: said once.
                    if !std::mem::replace(&mut self.full, true) {
                        log::warn!("a client cannot come: {e}");
                    }
                }
            }
        }
        while self.clients.iter().filter(|c| c.grant.is_none()).count() > MUTE {
            let mute = self.clients.iter().enumerate().filter(|(_, c)| c.grant.is_none());
            let Some((first, _)) = mute.min_by_key(|(_, c)| c.since) else { break };
            self.clients.swap_remove(first);
        }
        let mut at = 0;
        while at < self.clients.len() {
            let client = &mut self.clients[at];
            let why = match client.pump(self.station, &mut self.grants) {
                Ok(true) => {
                    at += 1;
                    continue;
                }
                Ok(false) => "gone".to_owned(),
                Err(e) => {
                    say(&format!("{} perftest: refused: {e}", client.peer.ip()));
                    e.to_string()
                }
            };
            let client = self.clients.swap_remove(at);
            if let Some(grant) = client.grant {
                self.grants.close(self.station, grant, &why);
            }
        }
    }

    /// Shows those the door who came long ago and have told no queue pair.
    fn drop_mute(&mut self, now: Instant) {
        let idle = self.idle;
        self.clients.retain(|c| c.grant.is_some() || now.since(c.since) < idle);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Requested { id, from, req } => {
                if let Err(reason) = self.on_request(id, from, &req) {
                    say(&format!("{}: refused: {reason}", from.gid.to_ip()));
                    // A caller that has given up in the meantime needs no answer.
                    let _ = self.manager.agent().reject(id, reason);
                }
            }
            Event::Established { id } => self.begin(id),
            Event::Disconnected { id, .. } => self.drop_conn(id, "gone"),
            Event::TimedOut { id } => self.drop_conn(id, "never ready"),
            Event::Refused { id, reason } => self.drop_conn(id, reason.text()),
            Event::SidrRequested { from, tid, req } => self.on_sidr(from, tid, &req),
            // This side calls nobody.
            Event::Replied { .. } | Event::SidrReplied { .. } => {}
        }
    }

    /// Tells a peer the queue pair of the datagram service, or why not.
    fn on_sidr(&mut self, from: Peer, tid: u64, req: &SidrReq) {
        let port = req.service.port_in(PortSpace::Udp).filter(|p| *p != 0);
        let granted = match port {
            Some(port) if port == self.ports.udaddy => self.datagrams.ask(self.station, from),
            _ => Err(SidrStatus::ServiceNotSupported),
        };
        let peer = from.gid.to_ip();
        let (status, (qpn, qkey)) = match granted {
            Ok(granted) => {
                say(&format!("{peer} udaddy: told queue pair {}", granted.0));
                (SidrStatus::Valid, granted)
            }
            Err(status) => {
                say(&format!("{peer}: refused: datagrams to port {}: {status:?}", port.unwrap_or(0)));
                (status, (Qpn::new(0), 0))
            }
        };
        let rep = SidrRep { request_id: req.request_id, status, qpn, service: req.service, qkey };
        self.manager.agent().reply_sidr(from, tid, rep);
    }

    /// Takes a caller in, or says why not.
    fn on_request(&mut self, id: CommId, from: Peer, req: &Req) -> Result<(), RejReason> {
        if req.transport != Service::Rc {
            return Err(RejReason::INVALID_TRANSPORT);
        }
        let port = req.service.port_in(PortSpace::Tcp).filter(|p| *p != 0);
        let port = port.ok_or(RejReason::INVALID_SERVICE_ID)?;
        let peer = from.gid.to_ip();
        let (app, what) = if port == self.ports.rping {
            (App::Rping(Rping::Source), "rping")
        } else if port == self.ports.ucmatose {
            (App::Ucmatose { sent: 0, received: 0 }, "ucmatose")
        } else if port == self.ports.perftest {
            (App::Control { answers: 0 }, "perftest -R")
        } else {
            return Err(RejReason::INVALID_SERVICE_ID);
        };
        // A peer's first connection to perftest's port is for words, the others for its data.
        let control = self.conns.values().find(|c| {
            matches!(c.app, App::Control { .. })
                && port == self.ports.perftest
                && self.grants.get(c.grant).is_some_and(|g| g.peer == peer)
        });
        let (grant, app, owner) = match control {
            Some(control) => (control.grant, App::Sink, false),
            None => {
                let grant = self.grants.open(self.station, peer, what);
                (grant.map_err(|_| RejReason::NO_RESOURCES)?, app, true)
            }
        };
        let made = self.grants.create_qp(self.station, grant, app.receives());
        let accepted = made.map_err(|_| RejReason::NO_QP).and_then(|qpn| {
            let accepted = self.manager.accept(self.station, (id, from, req), qpn);
            if accepted.is_err() {
                self.grants.destroy_qp(self.station, grant, qpn);
            }
            accepted.map(|()| qpn).map_err(|_| RejReason::CONSUMER)
        });
        match accepted {
            Ok(qpn) => {
                let conn = Conn { id, grant, own: from.own, app, owner, begun: false };
                self.conns.insert(qpn, conn);
                Ok(())
            }
            Err(reason) => {
                if owner {
                    self.grants.close(self.station, grant, reason.text());
                }
                Err(reason)
            }
        }
    }

    fn begin(&mut self, id: CommId) {
        let Some((qpn, conn)) = self.conns.iter_mut().find(|(_, c)| c.id == id) else { return };
        let Some(grant) = self.grants.get(conn.grant) else { return };
        if !conn.begun {
            conn.begun = true;
            conn.app.begin(self.station, grant, *qpn);
        }
    }

    fn on_completion(&mut self, done: &Completion) {
        if self.datagrams.on_completion(self.station, done) {
            return;
        }
        let is_receive = matches!(done.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm);
        let Some(conn) = self.conns.get_mut(&done.qpn) else {
            // A queue pair of a client over TCP.
            if done.status == CompletionStatus::Success && is_receive {
                let owner = self.grants.iter().find(|(_, g)| g.qpns.contains(&done.qpn));
                if let Some((_, grant)) = owner {
                    post_recv(self.station, grant, done.qpn, false, done.wr_id);
                }
            }
            return;
        };
        let Some(grant) = self.grants.get(conn.grant) else { return };
        if done.status != CompletionStatus::Success {
            return;
        }
        let next = if is_receive {
            let next =
                conn.app.receive(self.station, grant, (done.qpn, conn.own), (done.wr_id, done.byte_len));
            post_recv(self.station, grant, done.qpn, conn.app.receives().is_some(), done.wr_id);
            next
        } else {
            conn.app.sent(self.station, grant, done.qpn, done.opcode == WcOpcode::Send);
            Next::Stay
        };
        let id = conn.id;
        match next {
            Next::Stay => {}
            Next::Disconnect => {
                let _ = self.manager.agent().disconnect(self.station.now(), id);
            }
            Next::Broken(why) => {
                say(&format!("{}: {why}", grant.peer));
                let _ = self.manager.agent().disconnect(self.station.now(), id);
            }
        }
    }

    fn on_fatal(&mut self, qpn: Qpn, status: CompletionStatus) {
        let owner = self.grants.iter().find(|(_, g)| g.qpns.contains(&qpn));
        let Some((_, grant)) = owner else { return };
        say(&format!("{} {}: queue pair {qpn} ended with {}", grant.peer, grant.what, status.name()));
        if let Some(conn) = self.conns.get(&qpn) {
            let _ = self.manager.agent().disconnect(self.station.now(), conn.id);
        }
    }

    /// A connection has ended; its peer's memory goes with the first one.
    fn drop_conn(&mut self, id: CommId, why: &str) {
        let Some(qpn) = self.conns.iter().find(|(_, c)| c.id == id).map(|(qpn, _)| *qpn) else { return };
        let Some(conn) = self.conns.remove(&qpn) else { return };
        if conn.owner {
            self.drop_grant(conn.grant, why);
        } else {
            self.grants.destroy_qp(self.station, conn.grant, qpn);
        }
    }

    /// Takes everything back from a peer.
    fn drop_grant(&mut self, grant: GrantId, why: &str) {
        let gone: Vec<Qpn> = self.conns.iter().filter(|(_, c)| c.grant == grant).map(|(q, _)| *q).collect();
        for qpn in gone {
            if let Some(conn) = self.conns.remove(&qpn) {
                // One that has ended already needs no farewell.
                let _ = self.manager.agent().disconnect(self.station.now(), conn.id);
            }
        }
        self.clients.retain(|c| c.grant != Some(grant));
        self.grants.close(self.station, grant, why);
    }
}
