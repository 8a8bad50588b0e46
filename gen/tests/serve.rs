//! The service against clients of this project: perftest's exchange over loopback, rping by the
//! connection manager, data over ports in memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use clap::Parser;
use roce_engine::cm::{CommId, RejReason};
use roce_engine::io::MonotonicClock;
use roce_engine::io::mem::{self, MemPort};
use roce_engine::net::{Host, HostConfig};
use roce_engine::units::{Duration, Mtu, Rate};
use roce_engine::verbs::Pd;
use roce_engine::wire::MacAddr;
use roce_engine::worker::{Endpoint, EndpointConfig};
use roce_gen::cli::{Cli, Command};
use roce_gen::perftest::{self, PerftestArgs};
use roce_gen::rping::{self, RpingArgs};
use roce_gen::serve::{Limits, Ports, Server};
use roce_gen::station::{Call, Manager, QpShape, Station};
use roce_gen::{ucmatose, udaddy};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type MemStation = Station<MemPort, MonotonicClock>;

const LIMITS: Limits = Limits {
    qps: 8,
    memory: 3 << 20,
    memory_per_peer: 1 << 20,
    window: 64,
    qp_rate: None,
    idle: Duration::from_secs(3),
};
const PORTS: Ports = Ports { perftest: 18515, rping: 7174, ucmatose: 7471, udaddy: 7174 };

fn station(port: MemPort, n: u8) -> MemStation {
    let config = EndpointConfig { workers: 1, secret: 77 * u64::from(n), ..EndpointConfig::default() };
    let host = Host::new(HostConfig {
        mac: MacAddr([2, 0, 0, 0, 0, n]),
        addresses: [format!("198.18.0.{n}/24"), format!("2001:2::{n}/64")].map(|a| a.parse().unwrap()).into(),
        management: true,
        ..HostConfig::default()
    });
    Station::new(Endpoint::new(port, config, None), host, MonotonicClock::new(), u64::from(n))
}

/// A service at 198.18.0.1 while `client`, at 198.18.0.2, uses it; the client is told where it
/// listens, and how many peers there are.
fn served<T>(limits: Limits, client: impl FnOnce(&mut MemStation, SocketAddr, &AtomicUsize) -> T) -> T {
    let (a, b) = mem::pair(256, 4400);
    let (over, peers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (told, at) = std::sync::mpsc::channel();
    let thread = std::thread::spawn({
        let (over, peers) = (Arc::clone(&over), Arc::clone(&peers));
        move || {
            let mut station = station(a, 1);
            let mut server = Server::new(&mut station, limits, PORTS);
            told.send(server.listen("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
            while !over.load(Ordering::Acquire) {
                server.turn();
                peers.store(server.peers(), Ordering::Release);
            }
            server.end();
            assert!(station.counters().is_balanced(), "{:?}", station.counters());
        }
    });
    let outcome = client(&mut station(b, 2), at.recv().unwrap(), &peers);
    over.store(true, Ordering::Release);
    thread.join().unwrap();
    outcome
}

fn perftest_args(line: &str, at: SocketAddr) -> PerftestArgs {
    let line = format!(
        "perftest {line} -d net_null0 --ip 198.18.0.2/24 --patience 20 --json -p {} {}",
        at.port(),
        at.ip()
    );
    PerftestArgs::try_parse_from(line.split_whitespace()).unwrap()
}

fn rping_args(line: &str) -> RpingArgs {
    let line = format!("rocegen rping -d net_null0 --ip 198.18.0.2/24 {line}");
    match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
        Command::Rping(args) => args,
        other => panic!("{other:?}"),
    }
}

/// Turns until `done` says so.
fn until(station: &mut MemStation, what: &str, mut done: impl FnMut(&mut MemStation) -> bool) {
    let end = station.turn() + Duration::from_secs(20);
    while !done(station) {
        assert!(station.idle_turn() < end, "{what}");
    }
}

#[test]
fn perftest_clients_one_after_the_other() {
    served(LIMITS, |station, at, peers| {
        for line in [
            "ib_write_bw -n 300 -q 4 -t 8",
            "ib_read_bw -n 100 -m 4096",
            "ib_send_bw -n 300 -q 2",
            "ib_write_bw -D 1",
        ] {
            let outcome = perftest::run(station, &perftest_args(line, at), &|| false).unwrap();
            assert!(outcome.rows[0].iterations >= 50 && outcome.rows[0].average > 0.0, "{line}");
            until(station, "what a client had is taken back", |_| peers.load(Ordering::Acquire) == 0);
        }
        let outcome = perftest::run(station, &perftest_args("ib_read_lat -n 50", at), &|| false).unwrap();
        assert!(outcome.rows[0].latency.is_some_and(|l| l.p50 > 0.0));
    });
}

#[test]
fn answers_keep_to_the_rate() {
    let slow = Limits { qp_rate: Some(Rate::from_bps(200_000_000)), ..LIMITS };
    served(slow, |station, at, _| {
        for (line, qps) in [
            ("ib_read_bw -n 100 -s 65536 --report_gbits", 1.0),
            ("ib_read_bw -n 100 -s 65536 -q 2 --report_gbits", 2.0),
        ] {
            let outcome = perftest::run(station, &perftest_args(line, at), &|| false).unwrap();
            let gbps = outcome.rows[0].average;
            assert!(gbps > 0.0 && gbps < 0.2 * qps * 1.02, "{line}: {gbps} Gb/s");
        }
    });
}

#[test]
fn a_client_that_dies_leaves_nothing_behind() {
    served(LIMITS, |station, at, peers| {
        let mut args = perftest_args("ib_write_bw -D 5", at);
        args.patience = 1;
        // A name may have several addresses, and nobody listens at the first.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut line = perftest::Line::call(station, &[closed, at], Duration::from_secs(5)).unwrap();
        line.greet(station, Mtu::B1024).unwrap();
        let key = perftest::wire::Key {
            out_reads: 1,
            qpn: roce_engine::units::Qpn::new(5),
            psn: roce_engine::units::Psn::new(5),
            rkey: 1,
            vaddr: 1,
            gid: roce_engine::wire::Gid::from([198, 18, 0, 2]),
        };
        line.swap_key(station, &key).unwrap();
        until(station, "it has come", |_| peers.load(Ordering::Acquire) == 1);
        drop(line);
        until(station, "it is gone", |_| peers.load(Ordering::Acquire) == 0);
        // One that talks nonsense is shown the door.
        let mut stranger = TcpStream::connect(at).unwrap();
        std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n").unwrap();
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut stranger, &mut rest).unwrap();
        assert!(rest.is_empty());
        // And the service goes on.
        perftest::run(station, &perftest_args("ib_write_bw -n 50", at), &|| false).unwrap();
    });
}

#[test]
fn those_who_say_nothing_keep_nobody_out() {
    served(LIMITS, |station, at, _| {
        let is_gone = |mute: &mut TcpStream| matches!(mute.read(&mut [0]), Ok(0) | Err(_));
        let mut first = TcpStream::connect(at).unwrap();
        first.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut others: Vec<_> = (0..64).map(|_| TcpStream::connect(at).unwrap()).collect();
        // One too many: there is no need to wait.
        let begun = station.turn();
        assert!(is_gone(&mut first));
        assert!(station.turn().since(begun) < LIMITS.idle, "made room");
        perftest::run(station, &perftest_args("ib_write_bw -n 50", at), &|| false).unwrap();
        // The others have their time, and no more.
        for mute in &mut others {
            mute.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            assert_eq!(mute.read(&mut [0]).unwrap(), 0);
        }
    });
}

#[test]
fn a_client_takes_no_calls() {
    let (a, b) = mem::pair(256, 4400);
    let (mut called, mut caller) = (station(a, 1), station(b, 2));
    let over = Arc::new(AtomicBool::new(false));
    let client = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let mut manager = Manager::new(&mut called, 1);
            while !over.load(Ordering::Acquire) {
                assert!(manager.pump(&mut called).is_none());
                called.turn();
            }
            assert!(manager.agent().is_empty(), "none of its places is taken");
        }
    });
    let mut manager = Manager::new(&mut caller, 8);
    for _ in 0..3 {
        assert_eq!(call(&mut caller, &mut manager, 7174), Err(RejReason::INVALID_SERVICE_ID));
    }
    let asked = manager.ask(&mut caller, ("198.18.0.1".parse().unwrap(), 7174), Duration::from_secs(20));
    assert_eq!(asked.unwrap_err().to_string(), "198.18.0.1: nobody listens on port 7174 for datagrams");
    over.store(true, Ordering::Release);
    client.join().unwrap();
}

#[test]
fn limits_hold_for_all_peers_together() {
    served(LIMITS, |station, at, _| {
        let error =
            perftest::run(station, &perftest_args("ib_write_bw -q 9 -n 50", at), &|| false).unwrap_err();
        assert!(error.to_string().contains("closed the connection"), "{error}");
        perftest::run(station, &perftest_args("ib_write_bw -q 8 -n 50", at), &|| false).unwrap();
    });
    let tight = Limits { memory: 1 << 19, ..LIMITS };
    served(tight, |station, at, _| {
        let error = perftest::run(station, &perftest_args("ib_write_bw -n 50", at), &|| false).unwrap_err();
        assert!(error.to_string().contains("closed the connection"), "{error}");
        let error = rping::run(station, &rping_args("-a 198.18.0.1"), &|| false).unwrap_err();
        assert_eq!(error.to_string(), "198.18.0.1: refused: no resources available (reason 3)");
    });
}

#[test]
fn pings_come_back_over_both_versions_of_ip() {
    served(LIMITS, |station, _, peers| {
        for line in
            ["-a 198.18.0.1 -C 20 -S 4000 -m 4096", "-a 2001:2::1 -C 5 -S 26", "-a 198.18.0.1 -C 2 -S 65535"]
        {
            let args = rping_args(line);
            assert_eq!(rping::run(station, &args, &|| false).unwrap(), args.count, "{line}");
            until(station, "it is gone", |_| peers.load(Ordering::Acquire) == 0);
        }
        let error = rping::run(station, &rping_args("-a 198.18.0.1 -p 9999"), &|| false).unwrap_err();
        let want = "198.18.0.1: refused: nobody listens on this service (reason 8)";
        assert_eq!(error.to_string(), want);
    });
}

#[test]
fn messages_and_datagrams_are_exchanged() {
    let server = |line: &str| {
        let line = format!("rocegen {line} -d net_null0 --ip 198.18.0.2/24");
        Cli::try_parse_from(line.split_whitespace()).unwrap().command
    };
    served(LIMITS, |station, _, peers| {
        for line in ["ucmatose 198.18.0.1", "ucmatose 2001:2::1 -c 3"] {
            let Command::Ucmatose(args) = server(line) else { panic!() };
            ucmatose::run(station, &args).unwrap();
            until(station, "it is gone", |_| peers.load(Ordering::Acquire) == 0);
        }
        let udaddy = |station: &mut MemStation, line: &str| {
            let Command::Udaddy(args) = server(line) else { panic!() };
            udaddy::run(station, &args).map_err(|e| e.to_string())
        };
        for line in
            ["udaddy 198.18.0.1", "udaddy 2001:2::1 -C 200 -S 4096 -m 4096", "udaddy 198.18.0.1 -C 100 -S 1"]
        {
            udaddy(station, line).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        let error = udaddy(station, "udaddy 198.18.0.1 -p 9999").unwrap_err();
        assert_eq!(error, "198.18.0.1: nobody listens on port 9999 for datagrams");
        let error = udaddy(station, "udaddy 198.18.0.1 -S 1025").unwrap_err();
        assert_eq!(error, "198.18.0.1: a datagram is one packet: -S 1025 is more than -m 1024");
        let Command::Ucmatose(args) = server("ucmatose 198.18.0.1 -p 9999") else { panic!() };
        let error = ucmatose::run(station, &args).unwrap_err().to_string();
        assert_eq!(error, "198.18.0.1: refused: nobody listens on this service (reason 8)");
        let Command::Ucmatose(args) = server("ucmatose 198.18.0.1 -C 20") else { panic!() };
        let began = station.turn();
        let error = ucmatose::run(station, &args).unwrap_err().to_string();
        assert!(error.contains("the server has ended what there was"), "{error}");
        assert!(station.turn().since(began) < Duration::from_secs(15), "it waits for what cannot come");
        let Command::Ucmatose(args) = server("ucmatose 198.18.0.1 -S 99") else { panic!() };
        let error = ucmatose::run(station, &args).unwrap_err().to_string();
        assert!(error.starts_with("198.18.0.1: a request ended with LOC_LEN_ERR"), "{error}");
    });
}

/// Calls a port; the connection.
fn call(station: &mut MemStation, manager: &mut Manager, port: u16) -> Result<CommId, RejReason> {
    let shape = QpShape { pd: Pd(9), sends: 4, receives: 4, window: 64 };
    let qpn = station.create_qp(&shape).unwrap();
    let to = "198.18.0.1".parse().unwrap();
    let call = Call { to, port, qpn, rd_atomic: [0, 0], mtu: Mtu::B1024 };
    let answer = manager.dial(station, &call, Duration::from_secs(20)).unwrap()?;
    answer.link(station).unwrap();
    manager.ready(answer.id).unwrap();
    let _ = manager.pump(station);
    station.turn();
    Ok(answer.id)
}

#[test]
fn many_connections_and_a_silent_peer() {
    // Long enough that nobody who is to stay is parted with on a machine that is busy.
    let limits = Limits { idle: Duration::from_secs(8), ..LIMITS };
    served(limits, |station, _, peers| {
        let mut manager = Manager::new(station, 64);
        for _ in 0..3 {
            call(station, &mut manager, PORTS.rping).unwrap();
        }
        assert_eq!(call(station, &mut manager, PORTS.rping), Err(RejReason::NO_RESOURCES));
        until(station, "all have come", |_| peers.load(Ordering::Acquire) == 3);
        // They say nothing, and what they had is given to others.
        until(station, "all are gone", |station| {
            while manager.pump(station).is_some() {}
            peers.load(Ordering::Acquire) == 0
        });
        call(station, &mut manager, PORTS.rping).unwrap();
        // A peer's first connection to perftest's port is for words, the others share its memory.
        call(station, &mut manager, PORTS.perftest).unwrap();
        for _ in 0..4 {
            call(station, &mut manager, PORTS.perftest).unwrap();
        }
        until(station, "two peers", |_| peers.load(Ordering::Acquire) == 2);
        call(station, &mut manager, PORTS.perftest).unwrap();
        call(station, &mut manager, PORTS.perftest).unwrap();
        assert_eq!(call(station, &mut manager, PORTS.perftest), Err(RejReason::NO_QP));
    });
}
