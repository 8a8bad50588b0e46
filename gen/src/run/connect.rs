//! How the two sides of a flow learn each other's queue pairs.
//!
//! Two ports of this process simply know.  A port of another process is met over
//! TCP: each side sends one line of JSON at each step, and waits for the other's.

use super::EnvironmentError;
use crate::config::{Connect, Role};
use roce_engine::io::{Clock, MonotonicClock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Both sides must speak the same.
const PROTOCOL: &str = "rocegen-connect-1";
/// The longest line: 16384 queue pairs of all flows.
const LONGEST_LINE: u64 = 64 << 20;
const GONE: &str = "the other side has closed the connection";
/// How long one call may go unanswered.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long the other side may take to leave.
const LEAVE: Duration = Duration::from_millis(500);
/// How often a wait looks whether it is to go on.
const PAUSE: Duration = Duration::from_millis(50);

/// What one side of a queue pair tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QpInfo {
    /// Its number.
    pub(super) qpn: u32,
    /// The first PSN that it sends.
    pub(super) psn: u32,
    /// Address of its buffers.
    pub(super) va: u64,
    /// Their key.
    pub(super) rkey: u32,
}

/// What one side tells of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlowInfo {
    /// The flow's name.
    pub(super) name: String,
    /// All that both sides must agree on, as text.
    pub(super) agreed: String,
    /// Which port the telling side is.
    pub(super) port: String,
    /// That port's MAC address.
    pub(super) mac: String,
    /// Its queue pairs.
    pub(super) qps: Vec<QpInfo>,
}

#[derive(Serialize, Deserialize)]
struct Hello {
    protocol: String,
    seed: u64,
    flows: Vec<FlowInfo>,
}

/// What a side that only receives tells at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// By flow: name, messages received, verified, wrong.
    pub(super) flows: Vec<(String, u64, u64, u64)>,
}

/// The line to the other process.
pub(super) struct Meeting<'a> {
    stream: BufReader<TcpStream>,
    peer: String,
    /// Whether this side came to the other.
    caller: bool,
    timeout: Duration,
    give_up: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Meeting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meeting").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<'a> Meeting<'a> {
    /// Waits for the other side, or calls it until it answers.
    ///
    /// # Errors
    /// It did not come in time, or the address is not ours to listen on.
    pub(super) fn open(
        connect: &Connect,
        give_up: &'a dyn Fn() -> bool,
    ) -> Result<Meeting<'a>, EnvironmentError> {
        let clock = MonotonicClock::new();
        let timeout = Duration::from_nanos(connect.timeout.as_nanos());
        let (stream, peer) = match &connect.role {
            Role::Listen(address) => {
                let fail =
                    |e: std::io::Error| EnvironmentError(format!("connect: cannot listen on {address}: {e}"));
                let listener = TcpListener::bind(address).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                let stream = wait(clock, timeout, give_up, || match listener.accept() {
                    Ok((stream, from)) => Ok(Some((stream, from.to_string()))),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
                    Err(e) => Err(fail(e)),
                })?;
                let waited = || {
                    EnvironmentError(format!("connect: no peer came to {address} within {}", connect.timeout))
                };
                stream.ok_or_else(waited)?
            }
            Role::Peer(address) => {
                let mut last = String::from("no address");
                let stream = wait(clock, timeout, give_up, || {
                    match address.to_socket_addrs() {
                        Err(e) => last = e.to_string(),
                        Ok(found) => {
                            for to in found {
                                match TcpStream::connect_timeout(&to, ATTEMPT) {
                                    Ok(stream) => return Ok(Some(stream)),
                                    Err(e) => last = e.to_string(),
                                }
                            }
                        }
                    }
                    Ok(None)
                })?;
                let refused = || {
                    EnvironmentError(format!(
                        "connect: no answer from {address} within {}: {last}; is the other rocegen running?",
                        connect.timeout
                    ))
                };
                (stream.ok_or_else(refused)?, address.clone())
            }
        };
        let fail = |e: std::io::Error| EnvironmentError(format!("connect: {peer}: {e}"));
        stream.set_nonblocking(false).map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        stream.set_read_timeout(Some(PAUSE)).map_err(fail)?;
        stream.set_write_timeout(Some(timeout)).map_err(fail)?;
        let caller = matches!(connect.role, Role::Peer(_));
        Ok(Meeting { stream: BufReader::new(stream), peer, caller, timeout, give_up })
    }

    /// Tells the other side our flows and hears its own, and the seed of both: the lower one.
    pub(super) fn exchange(
        &mut self,
        seed: u64,
        flows: Vec<FlowInfo>,
    ) -> Result<(u64, Vec<FlowInfo>), EnvironmentError> {
        let names: Vec<(String, String)> = flows.iter().map(|f| (f.name.clone(), f.agreed.clone())).collect();
        let ours = Hello { protocol: PROTOCOL.into(), seed, flows };
        // One speaks while the other listens: what is said may not fit into the line.
        let hello: Hello = if self.caller {
            self.send("hello", &ours)?;
            self.receive("hello")?
        } else {
            let theirs = self.receive("hello")?;
            self.send("hello", &ours)?;
            theirs
        };
        let wrong = |text: String| Err(EnvironmentError(format!("connect: {}: {text}", self.peer)));
        if hello.protocol != PROTOCOL {
            return wrong(format!(
                "speaks \"{}\", not \"{PROTOCOL}\": use one version on both sides",
                hello.protocol
            ));
        }
        for (name, agreed) in &names {
            match hello.flows.iter().find(|f| f.name == *name) {
                None => return wrong(format!("knows no flow \"{name}\": use one scenario on both sides")),
                Some(f) if f.agreed != *agreed => {
                    return wrong(format!("flow \"{name}\" differs: {} there, {agreed} here", f.agreed));
                }
                Some(_) => {}
            }
        }
        Ok((seed.min(hello.seed), hello.flows))
    }

    /// Waits until both sides are at this step.
    pub(super) fn barrier(&mut self, step: &str) -> Result<(), EnvironmentError> {
        self.say(step)?;
        self.hear(step)
    }

    /// Tells the other side that this one is at this step.
    pub(super) fn say(&mut self, step: &str) -> Result<(), EnvironmentError> {
        self.send(step, &step)
    }

    /// Waits until the other side is at this step.
    pub(super) fn hear(&mut self, step: &str) -> Result<(), EnvironmentError> {
        let answer: String = self.receive(step)?;
        if answer == step {
            return Ok(());
        }
        Err(EnvironmentError(format!("connect: {}: is at \"{answer}\", not at \"{step}\"", self.peer)))
    }

    /// Tells the outcome and hears the other side's.
    pub(super) fn close(&mut self, outcome: &Outcome) -> Result<Outcome, EnvironmentError> {
        self.send("end", outcome)?;
        self.receive("end")
    }

    /// Whether the other side has said something, or is gone.
    pub(super) fn has_word(&mut self) -> bool {
        !matches!(self.peek(), Peek::Silent)
    }

    /// Whether the other side is gone and has said nothing that was not heard.
    pub(super) fn is_closed(&mut self) -> bool {
        matches!(self.peek(), Peek::Closed)
    }

    /// At the end, the side that was called waits until the other one is gone, for a while.
    pub(super) fn let_the_caller_go_first(&mut self) {
        if self.caller {
            return;
        }
        for _ in 0..LEAVE.as_millis() / PAUSE.as_millis() {
            let peek = self.peek();
            std::thread::sleep(PAUSE);
            match peek {
                Peek::Closed => return,
                // What it said and nobody heard does not matter any more.
                Peek::Word => self.stream.consume(self.stream.buffer().len()),
                Peek::Silent => {}
            }
        }
    }

    fn peek(&mut self) -> Peek {
        let _ = self.stream.get_ref().set_nonblocking(true);
        let peek = match self.stream.fill_buf() {
            Ok([]) => Peek::Closed,
            Ok(_) => Peek::Word,
            Err(e) if e.kind() == ErrorKind::WouldBlock => Peek::Silent,
            Err(_) => Peek::Closed,
        };
        let _ = self.stream.get_ref().set_nonblocking(false);
        peek
    }

    fn send(&mut self, step: &str, what: &impl Serialize) -> Result<(), EnvironmentError> {
        let fail = |e: String| EnvironmentError(format!("connect: {}: step \"{step}\": {e}", self.peer));
        let mut line = serde_json::to_vec(what).map_err(|e| fail(e.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|e| fail(told(&e)))
    }

    fn receive<T: DeserializeOwned>(&mut self, step: &str) -> Result<T, EnvironmentError> {
        let fail = |e: String| EnvironmentError(format!("connect: {}: step \"{step}\": {e}", self.peer));
        let mut line = Vec::new();
        let mut clock = MonotonicClock::new();
        let end = clock.now() + self.timeout.into();
        loop {
            let room = LONGEST_LINE.saturating_sub(line.len() as u64);
            match std::io::Read::take(&mut self.stream, room).read_until(b'\n', &mut line) {
                Ok(0) if line.is_empty() => {
                    return Err(fail(GONE.into()));
                }
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(_) => return Err(fail("the other side stopped in mid-sentence".into())),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if (self.give_up)() {
                        return Err(fail("interrupted".into()));
                    }
                    if clock.now() >= end {
                        return Err(fail(format!("the other side is silent for {:?}", self.timeout)));
                    }
                }
                Err(e) => return Err(fail(told(&e))),
            }
        }
        serde_json::from_slice(&line).map_err(|e| fail(format!("not understood: {e}")))
    }
}

/// How a process ends decides how that shows.
fn told(e: &std::io::Error) -> String {
    match e.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => GONE.into(),
        _ => e.to_string(),
    }
}

/// What the line holds.
enum Peek {
    Silent,
    Word,
    Closed,
}

/// Tries until it works, the time is over (`None`) or the user gives up.
fn wait<T>(
    mut clock: impl Clock,
    timeout: Duration,
    give_up: &dyn Fn() -> bool,
    mut attempt: impl FnMut() -> Result<Option<T>, EnvironmentError>,
) -> Result<Option<T>, EnvironmentError> {
    let end = clock.now() + timeout.into();
    loop {
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
        if give_up() {
            return Err(EnvironmentError("connect: interrupted while waiting for the other side".into()));
        }
        if clock.now() >= end {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn both(a: impl FnOnce(Meeting<'_>) + Send + 'static, b: impl FnOnce(Meeting<'_>)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        drop(listener);
        let timeout = roce_engine::units::Duration::from_secs(5);
        let thread = std::thread::spawn(move || {
            let connect = Connect { role: Role::Listen(address), timeout };
            a(Meeting::open(&connect, &|| false).unwrap());
        });
        let connect = Connect { role: Role::Peer(address.to_string()), timeout };
        b(Meeting::open(&connect, &|| false).unwrap());
        thread.join().unwrap();
    }

    fn flow(agreed: &str, qpn: u32) -> FlowInfo {
        FlowInfo {
            name: "f".into(),
            agreed: agreed.into(),
            port: "a".into(),
            mac: "02:00:00:00:00:01".into(),
            qps: vec![QpInfo { qpn, psn: 1, va: 2, rkey: 3 }],
        }
    }

    #[test]
    fn both_sides_hear_each_other() {
        both(
            |mut m| {
                let (seed, flows) = m.exchange(9, vec![flow("x", 1)]).unwrap();
                assert_eq!((seed, flows[0].qps[0].qpn), (4, 2));
                m.barrier("ready").unwrap();
                assert!(!m.is_closed());
                m.close(&Outcome::default()).unwrap();
            },
            |mut m| {
                let (seed, flows) = m.exchange(4, vec![flow("x", 2)]).unwrap();
                assert_eq!((seed, flows[0].qps[0].qpn), (4, 1));
                m.barrier("ready").unwrap();
                let outcome = Outcome { flows: vec![("f".into(), 1, 1, 0)] };
                assert_eq!(m.close(&outcome).unwrap(), Outcome::default());
            },
        );
    }

    #[test]
    fn sides_with_a_lot_to_say_do_not_block_each_other() {
        let many = |qpn| {
            let mut flow = flow("x", qpn);
            flow.qps = vec![QpInfo { qpn, psn: 0xFF_FFFF, va: u64::MAX, rkey: u32::MAX }; 200_000];
            vec![flow]
        };
        both(
            move |mut m| assert_eq!(m.exchange(1, many(1)).unwrap().1[0].qps.len(), 200_000),
            move |mut m| assert_eq!(m.exchange(1, many(2)).unwrap().1[0].qps[199_999].qpn, 1),
        );
    }

    #[test]
    fn a_word_and_an_end_are_told_apart() {
        both(
            |mut m| m.say("drained").unwrap(),
            |mut m| {
                while !m.has_word() {
                    std::thread::sleep(PAUSE);
                }
                assert!(!m.is_closed(), "there is still a word to hear");
                m.hear("drained").unwrap();
                while !m.has_word() {
                    std::thread::sleep(PAUSE);
                }
                assert!(m.is_closed());
            },
        );
    }

    #[test]
    fn a_wait_can_be_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = Connect {
            role: Role::Peer(listener.local_addr().unwrap().to_string()),
            timeout: roce_engine::units::Duration::from_secs(60),
        };
        let asked = std::cell::Cell::new(0);
        let give_up = || asked.replace(asked.get() + 1) > 2;
        let e = Meeting::open(&connect, &give_up).unwrap().barrier("ready").unwrap_err().to_string();
        assert!(e.contains("step \"ready\": interrupted"), "{e}");
    }

    #[test]
    fn f14_each_failure_names_its_step() {
        both(
            |mut m| {
                let e = m.exchange(1, vec![flow("mtu 4096", 1)]).unwrap_err().to_string();
                assert!(e.contains("flow \"f\" differs: mtu 1024 there, mtu 4096 here"), "{e}");
            },
            |mut m| {
                m.exchange(1, vec![flow("mtu 1024", 1)]).unwrap_err();
            },
        );
        both(
            |m| drop(m),
            |mut m| {
                let e = m.exchange(1, vec![]).unwrap_err().to_string();
                assert!(e.contains("step \"hello\""), "{e}");
            },
        );
        let connect = Connect {
            role: Role::Peer("127.0.0.1:1".into()),
            timeout: roce_engine::units::Duration::from_millis(200),
        };
        let e = Meeting::open(&connect, &|| false).unwrap_err().to_string();
        assert!(e.contains("no answer from 127.0.0.1:1 within 200ms"), "{e}");
    }
}
