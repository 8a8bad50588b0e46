//! The exchange of perftest's two sides: in lock step, a message of known length each way, over the
//! kernel's network or, with `-R`, over a connection of the connection manager's.

use super::table::Row;
use super::wire;
use super::words::Words;
use crate::run::EnvironmentError;
use crate::station::{Answer, Station};
use roce_engine::io::{Clock, PacketIo};
use roce_engine::units::{Duration, Instant, Mtu};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

/// The page size and cache line that this side tells.
const PAGE: u32 = 4096;
const CACHE_LINE: u32 = 64;
/// Turns between two looks at the socket.
const TURNS: usize = 16;
/// How long one call may go unanswered.
const ATTEMPT: std::time::Duration = std::time::Duration::from_millis(500);

/// The line to the other side.
#[derive(Debug)]
pub struct Line {
    carrier: Carrier,
    peer: SocketAddr,
    /// Whether this side came to the other: then it speaks first.
    caller: bool,
    patience: Duration,
}

/// What carries it.
#[derive(Debug)]
enum Carrier {
    Tcp(TcpStream),
    Words(Box<Words>),
}

impl Line {
    /// Calls a server by the connection manager.
    ///
    /// # Errors
    /// It refuses, or does not answer.
    pub fn dial<I: PacketIo, C: Clock>(
        station: &mut Station<I, C>,
        (to, port): (IpAddr, u16),
        (mtu, window): (Mtu, u32),
        patience: Duration,
    ) -> Result<Line, EnvironmentError> {
        let words = Words::call(station, (to, port), (mtu, window), patience)?;
        let carrier = Carrier::Words(Box::new(words));
        Ok(Line { carrier, peer: SocketAddr::new(to, port), caller: true, patience })
    }

    /// Whether queue pairs are connected by the connection manager.
    pub fn is_dialed(&self) -> bool {
        matches!(self.carrier, Carrier::Words(_))
    }

    /// Where queue pairs are connected by the connection manager, calls for those of `keys`; each answer
    /// is given to `take` before the server hears that this side is ready.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn connect<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        keys: &[wire::Key],
        rd_atomic: u8,
        mut take: impl FnMut(&mut Station<I, C>, Answer) -> Result<(), EnvironmentError>,
    ) -> Result<(), EnvironmentError> {
        if !self.is_dialed() {
            return Ok(());
        }
        // The server opens a listener for data when it is asked to.
        self.swap_key(station, &keys[0])?;
        for key in keys {
            let Carrier::Words(words) = &mut self.carrier else { break };
            let answer = words.connect(station, key.qpn, rd_atomic)?;
            take(station, answer.clone())?;
            words.ready(&answer)?;
        }
        self.swap_key(station, &keys[0])?;
        Ok(())
    }

    /// Calls the other side, at one of its addresses after the other, until it answers.
    ///
    /// # Errors
    /// It does not, in time.
    pub fn call<I: PacketIo, C: Clock>(
        station: &mut Station<I, C>,
        to: &[SocketAddr],
        patience: Duration,
    ) -> Result<Line, EnvironmentError> {
        let end = station.turn() + patience;
        for to in to.iter().cycle() {
            match TcpStream::connect_timeout(to, ATTEMPT) {
                Ok(stream) => return Line::new(stream, *to, true, patience),
                Err(e) if station.turn() >= end || station.is_interrupted() => {
                    return Err(EnvironmentError(format!("{to}: {e}; does the server run?")));
                }
                Err(_) => std::thread::sleep(ATTEMPT / 10),
            }
        }
        Err(EnvironmentError("no address".into()))
    }

    /// Waits until the other side comes.
    ///
    /// # Errors
    /// The address is not ours to listen on; `give_up` says so.
    pub fn wait<I: PacketIo, C: Clock>(
        station: &mut Station<I, C>,
        on: SocketAddr,
        patience: Duration,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Line, EnvironmentError> {
        let fail = |e: std::io::Error| EnvironmentError(format!("cannot listen on {on}: {e}"));
        let listener = TcpListener::bind(on).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        loop {
            match listener.accept() {
                Ok((stream, from)) => return Line::new(stream, from, false, patience),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(fail(e)),
            }
            if give_up() {
                return Err(EnvironmentError("interrupted while waiting for a client".into()));
            }
            for _ in 0..TURNS {
                station.idle_turn();
            }
        }
    }

    fn new(
        stream: TcpStream,
        peer: SocketAddr,
        caller: bool,
        patience: Duration,
    ) -> Result<Line, EnvironmentError> {
        let fail = |e: std::io::Error| EnvironmentError(format!("{peer}: {e}"));
        stream.set_nodelay(true).map_err(fail)?;
        stream.set_nonblocking(true).map_err(fail)?;
        Ok(Line { carrier: Carrier::Tcp(stream), peer, caller, patience })
    }

    /// Versions, page sizes, cache lines, and the MTU that both can do.
    ///
    /// # Errors
    /// The peer is gone, or is no perftest.
    pub fn greet<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        mtu: Mtu,
    ) -> Result<Mtu, EnvironmentError> {
        let told = self.swap(station, &wire::version())?;
        wire::parse_version(&told).map_err(|e| self.wrong(&e))?;
        self.swap(station, &PAGE.to_be_bytes())?;
        self.swap(station, &CACHE_LINE.to_be_bytes())?;
        let told = self.swap(station, &wire::mtu(mtu))?;
        let theirs = wire::parse_mtu(&told).map_err(|e| self.wrong(&e))?;
        Ok(mtu.min(theirs))
    }

    /// Tells one key and hears the other side's.
    ///
    /// # Errors
    /// The peer is gone, or what it says is no key.
    pub fn swap_key<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        key: &wire::Key,
    ) -> Result<wire::Key, EnvironmentError> {
        if self.is_dialed() {
            let told = self.swap(station, &key.to_binary())?;
            let told = told.as_array().ok_or_else(|| self.wrong(&"no key of this version of perftest"))?;
            return Ok(wire::Key::from_binary(told));
        }
        let told = self.swap(station, &key.to_text())?;
        wire::Key::from_text(&told).map_err(|e| self.wrong(&e))
    }

    /// Tells all keys and hears as many.
    ///
    /// # Errors
    /// As [`Line::swap_key`].
    pub fn swap_keys<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        keys: &[wire::Key],
    ) -> Result<Vec<wire::Key>, EnvironmentError> {
        keys.iter().map(|key| self.swap_key(station, key)).collect()
    }

    /// Tells our rates and hears the peer's.
    ///
    /// # Errors
    /// As [`Line::swap`].
    pub fn swap_rates<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        own: &Row,
    ) -> Result<Row, EnvironmentError> {
        let size = self.swap(station, &u64::from(own.size).to_be_bytes())?;
        let iterations = self.swap(station, &own.iterations.to_be_bytes())?;
        let mut rates = [0.0; 3];
        for (theirs, ours) in rates.iter_mut().zip([own.peak, own.average, own.message_rate]) {
            *theirs = f64::from_be_bytes(eight(&self.swap(station, &ours.to_be_bytes())?));
        }
        Ok(Row {
            size: u64::from_be_bytes(eight(&size)) as u32,
            iterations: u64::from_be_bytes(eight(&iterations)),
            peak: rates[0],
            average: rates[1],
            message_rate: rates[2],
            latency: None,
        })
    }

    /// Tells `ours` and hears as many bytes.
    ///
    /// # Errors
    /// The peer is gone or silent.
    pub fn swap<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        ours: &[u8],
    ) -> Result<Vec<u8>, EnvironmentError> {
        if self.caller {
            self.say(station, ours)?;
            return self.hear(station, ours.len());
        }
        let theirs = self.hear(station, ours.len())?;
        self.say(station, ours)?;
        Ok(theirs)
    }

    /// Whether the other side has said something, or is gone.
    pub fn has_word(&self) -> bool {
        match &self.carrier {
            Carrier::Tcp(stream) => {
                !matches!(stream.peek(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
            }
            // Only clients dial, and they speak first.
            Carrier::Words(_) => false,
        }
    }

    /// Says the last word and waits until the other side is gone.
    pub fn close<I: PacketIo, C: Clock>(mut self, station: &mut Station<I, C>) {
        if !self.is_dialed() {
            let _ = self.say(station, wire::DONE);
        }
        let mut stream = match self.carrier {
            Carrier::Words(words) => return words.close(station),
            Carrier::Tcp(stream) => stream,
        };
        let end = station.turn() + Duration::from_secs(2);
        let mut rest = [0; 64];
        while station.idle_turn() < end && !station.is_interrupted() {
            match stream.read(&mut rest) {
                Ok(0) => return,
                Err(e) if e.kind() != ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }

    fn say<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        bytes: &[u8],
    ) -> Result<(), EnvironmentError> {
        let end = station.now() + self.patience;
        let mut at = 0;
        while at < bytes.len() {
            let stream = match &mut self.carrier {
                Carrier::Words(words) => return words.say(station, bytes),
                Carrier::Tcp(stream) => stream,
            };
            match stream.write(&bytes[at..]) {
                Ok(n) => at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.pass(station, end)?,
                Err(e) => return Err(self.wrong(&e)),
            }
        }
        Ok(())
    }

    fn hear<I: PacketIo, C: Clock>(
        &mut self,
        station: &mut Station<I, C>,
        len: usize,
    ) -> Result<Vec<u8>, EnvironmentError> {
        let end = station.now() + self.patience;
        let (mut bytes, mut at) = (vec![0; len], 0);
        while at < len {
            let stream = match &mut self.carrier {
                Carrier::Words(words) => {
                    match words.hear(station)? {
                        Some(word) if word.len() == len => return Ok(word),
                        Some(_) => return Err(self.wrong(&"a word of another length")),
                        None => self.pass(station, end)?,
                    }
                    continue;
                }
                Carrier::Tcp(stream) => stream,
            };
            match stream.read(&mut bytes[at..]) {
                Ok(0) => return Err(self.wrong(&"the other side has closed the connection")),
                Ok(n) => at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.pass(station, end)?,
                Err(e) => return Err(self.wrong(&e)),
            }
        }
        Ok(bytes)
    }

    fn pass<I: PacketIo, C: Clock>(
        &self,
        station: &mut Station<I, C>,
        end: Instant,
    ) -> Result<(), EnvironmentError> {
        for _ in 0..TURNS {
            station.idle_turn();
        }
        if station.is_interrupted() {
            return Err(self.wrong(&"interrupted"));
        }
        if station.now() >= end {
            return Err(self.wrong(&"the other side says nothing; are the options of both sides the same?"));
        }
        Ok(())
    }

    fn wrong(&self, what: &dyn std::fmt::Display) -> EnvironmentError {
        EnvironmentError(format!("{}: {what}", self.peer))
    }
}

/// The line hears as many bytes as it says.
fn eight(bytes: &[u8]) -> [u8; wire::RESULT_LEN] {
    let mut out = [0; wire::RESULT_LEN];
    out.copy_from_slice(bytes);
    out
}
