//! A perftest client over TCP, served without knowing what it measures.
//!
//! It speaks first at every step and is answered with a message of the same kind.  A key that was
//! heard before is a barrier; the first of them says how many queue pairs there are, and comes when
//! the client has connected its own.

use super::grants::{GrantId, Grants};
use crate::perftest::wire::{self, Key};
use crate::run::EnvironmentError;
use crate::station::{Link, Station};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Instant, Mtu};
use roce_engine::wire::Gid;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// READs and atomics that are answered at once.
const DEPTH: u8 = 16;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    pub(super) peer: SocketAddr,
    heard: Vec<u8>,
    /// Greetings answered, of four.
    greetings: usize,
    mtu: Mtu,
    /// By queue pair: the client's key, and ours.
    keys: Vec<(Key, Key)>,
    connected: bool,
    /// When it came.
    pub(super) since: Instant,
    pub(super) grant: Option<GrantId>,
}

const GREETINGS: [usize; 4] = [wire::VERSION_LEN, wire::NUMBER_LEN, wire::NUMBER_LEN, wire::MTU_LEN];

impl Client {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, since: Instant) -> std::io::Result<Client> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (heard, keys) = (Vec::new(), Vec::new());
        let mtu = Mtu::B4096;
        Ok(Client { stream, peer, heard, greetings: 0, mtu, keys, connected: false, since, grant: None })
    }

    /// Answers what has come; whether the client is still there.
    ///
    /// # Errors
    /// It speaks otherwise, or there is nothing to grant.
    pub(super) fn pump<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        grants: &mut Grants,
    ) -> Result<bool, EnvironmentError> {
        let mut bytes = [0; 256];
        let fail = |e: std::io::Error| EnvironmentError(e.to_string());
        let there = match self.stream.read(&mut bytes) {
            Ok(n) => {
                self.heard.extend_from_slice(&bytes[..n]);
                n != 0
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => true,
            // How a process ends decides how its connections do.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => false,
            Err(e) => return Err(fail(e)),
        };
        while let Some(len) = self.next_len() {
            let message: Vec<u8> = self.heard.drain(..len).collect();
            if message == wire::DONE {
                // Its last word, after which it waits until this side is gone.
                return Ok(false);
            }
            let answer = self.answer(station, grants, &message)?;
            // A few bytes into an empty buffer: they go at once or not at all.
            self.stream.write_all(&answer).map_err(fail)?;
        }
        Ok(there)
    }

    /// Bytes of the message that has come whole.
    fn next_len(&self) -> Option<usize> {
        let len = match GREETINGS.get(self.greetings) {
            Some(len) => *len,
            None if self.heard.starts_with(b"done") => wire::DONE.len(),
            None if is_key(&self.heard) => wire::KEY_LEN,
            None => wire::RESULT_LEN,
        };
        (self.heard.len() >= len).then_some(len)
    }

    fn answer<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        grants: &mut Grants,
        message: &[u8],
    ) -> Result<Vec<u8>, EnvironmentError> {
        let wrong = |e: wire::WireError| EnvironmentError(e.to_string());
        self.greetings += 1;
        match (self.greetings, message.len()) {
            (1, _) => {
                wire::parse_version(message).map_err(wrong)?;
                Ok(wire::version().to_vec())
            }
            (4, _) => {
                self.mtu = self.mtu.min(wire::parse_mtu(message).map_err(wrong)?);
                Ok(wire::mtu(self.mtu).to_vec())
            }
            (_, wire::KEY_LEN) => {
                let key = Key::from_text(message).map_err(wrong)?;
                Ok(self.on_key(station, grants, &key)?.to_text().to_vec())
            }
            // Page size, cache line, results: ours are the same.
            _ => Ok(message.to_vec()),
        }
    }

    fn on_key<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        grants: &mut Grants,
        key: &Key,
    ) -> Result<Key, EnvironmentError> {
        if let Some((_, ours)) = self.keys.iter().find(|(theirs, _)| theirs.qpn == key.qpn).copied() {
            if !self.connected {
                self.connect(station)?;
            }
            return Ok(ours);
        }
        let grant = match self.grant {
            Some(grant) => grant,
            None => {
                let opened = grants.open(station, key.gid.to_ip(), "perftest");
                let opened = opened.map_err(|e| EnvironmentError(e.to_string()))?;
                self.grant = Some(opened);
                opened
            }
        };
        let qpn = grants.create_qp(station, grant, None)?;
        let own = station.host().source_for(key.gid.to_ip());
        let own = own.ok_or_else(|| EnvironmentError(format!("no address reaches {}", key.gid.to_ip())))?;
        let region = grants.get(grant).map(|g| g.region);
        let region = region.ok_or_else(|| EnvironmentError("the grant is gone".into()))?;
        let ours = Key {
            out_reads: DEPTH.into(),
            qpn,
            psn: station.random_psn(),
            rkey: region.key.0,
            vaddr: region.va,
            gid: own.into(),
        };
        self.keys.push((*key, ours));
        Ok(ours)
    }

    fn connect<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
    ) -> Result<(), EnvironmentError> {
        for (theirs, ours) in &self.keys {
            let link = Link {
                mac: station.resolve(theirs.gid.to_ip())?,
                own: Gid::new(ours.gid.bytes()),
                peer: theirs.gid,
                mtu: self.mtu,
                dest_qpn: theirs.qpn,
                rq_psn: theirs.psn,
                sq_psn: ours.psn,
                rd_atomic: [DEPTH, 1],
                tos: 0,
                timeout: 14,
                retries: [7, 7],
            };
            station.connect(ours.qpn, &link)?;
        }
        self.connected = true;
        Ok(())
    }
}

/// A key begins with four hexadecimal digits and a colon; numbers do not.
fn is_key(heard: &[u8]) -> bool {
    heard.len() >= 5 && heard[..4].iter().all(u8::is_ascii_hexdigit) && heard[4] == b':'
}
