//! The perftest exchange and measurement, both sides against each other: TCP over loopback, data
//! over ports in memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use clap::Parser;
use roce_engine::io::MonotonicClock;
use roce_engine::io::mem::{self, MemPort};
use roce_engine::net::{Host, HostConfig};
use roce_engine::wire::MacAddr;
use roce_engine::worker::{Endpoint, EndpointConfig};
use roce_gen::perftest::{self, Outcome, PerftestArgs};
use roce_gen::station::Station;
use std::net::TcpListener;

fn args(line: &str) -> PerftestArgs {
    let line = format!("perftest {line} -d net_null0 --ip 198.18.0.1/24 --patience 20 --json");
    PerftestArgs::try_parse_from(line.split_whitespace()).unwrap()
}

fn station(port: MemPort, n: u8) -> Station<MemPort, MonotonicClock> {
    let config = EndpointConfig { workers: 1, secret: 77 * u64::from(n), ..EndpointConfig::default() };
    let host = Host::new(HostConfig {
        mac: MacAddr([2, 0, 0, 0, 0, n]),
        addresses: [format!("198.18.0.{n}/24"), format!("2001:2::{n}/64")].map(|a| a.parse().unwrap()).into(),
        management: true,
        ..HostConfig::default()
    });
    Station::new(Endpoint::new(port, config, None), host, MonotonicClock::new(), u64::from(n))
}

/// Server and client of one test.
fn both(options: &str) -> (Outcome, Outcome) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (a, b) = mem::pair(256, 4400);
    let server = args(&format!("{options} -p {port} --oob 127.0.0.1"));
    let client = args(&format!("{options} -p {port} 127.0.0.1"));
    let thread = std::thread::spawn(move || {
        let mut station = station(a, 1);
        let outcome = perftest::run(&mut station, &server, &|| false).unwrap();
        assert!(station.counters().is_balanced(), "{:?}", station.counters());
        outcome
    });
    let mut station = station(b, 2);
    let client = perftest::run(&mut station, &client, &|| false).unwrap();
    // The server may still wait for the last acknowledgement.
    while !thread.is_finished() {
        station.idle_turn();
    }
    assert!(station.counters().is_balanced(), "{:?}", station.counters());
    (thread.join().unwrap(), client)
}

#[test]
fn bandwidth_of_every_operation() {
    for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"] {
        let (server, client) = both(&format!("{tool} -s 20000 -n 300 -q 3 -t 16 -r 32 -m 4096"));
        let row = client.rows[0];
        assert_eq!((client.rows.len(), row.iterations, client.mtu, client.qps), (1, 300, 4096, 3), "{tool}");
        assert!(row.average > 0.0 && row.peak >= row.average && row.message_rate > 0.0, "{row:?}");
        assert!(row.latency.is_some_and(|l| l.min > 0.0 && l.min <= l.p50 && l.p50 <= l.max));
        // The server of a test that only the client measures prints what it was told.
        let told = server.rows[0];
        if tool != "ib_send_bw" {
            assert_eq!((told.size, told.average), (row.size, row.average), "{tool}");
        }
        assert_eq!(told.iterations, 300, "{tool}");
    }
}

#[test]
fn both_directions() {
    for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw"] {
        let (server, client) = both(&format!("{tool} -s 4096 -n 200 -q 2 -b -t 16 -r 64"));
        assert_eq!((server.rows[0].iterations, client.rows[0].iterations), (200, 200), "{tool}");
        // Each adds what the other has measured.
        let (s, c) = (server.rows[0].average, client.rows[0].average);
        assert!((s - c).abs() < 1e-6 * s, "{tool}: {s} {c}");
    }
}

#[test]
fn latency_there_and_back() {
    for tool in ["ib_write_lat", "ib_send_lat", "ib_read_lat", "ib_atomic_lat"] {
        let (server, client) = both(&format!("{tool} -n 300 -x 1"));
        let latency = client.rows[0].latency.unwrap();
        assert_eq!(client.rows[0].iterations, 300, "{tool}");
        assert!(latency.min > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.max, "{latency:?}");
        let ping_pong = tool == "ib_write_lat" || tool == "ib_send_lat";
        assert_eq!(server.rows.len(), usize::from(ping_pong), "{tool}");
    }
}

#[test]
fn all_sizes_and_seconds() {
    let (_, client) = both("ib_send_bw -a -n 10 -t 4 -r 8");
    let sizes: Vec<u32> = client.rows.iter().map(|r| r.size).collect();
    assert_eq!(sizes, (1..=23).map(|n| 1 << n).collect::<Vec<u32>>());
    let (server, client) = both("ib_write_bw -D 1 -s 65536 -t 8");
    assert!(client.rows[0].iterations > 10 && client.rows[0].peak == 0.0, "{:?}", client.rows);
    assert_eq!(server.rows[0].average, client.rows[0].average);
}

#[test]
fn what_is_wrong_is_said() {
    let (port, _) = mem::pair(16, 2048);
    let mut lonely = station(port, 1);
    let run = |station: &mut Station<MemPort, MonotonicClock>, line: &str| {
        perftest::run(station, &args(line), &|| true).unwrap_err().to_string()
    };
    let error = run(&mut lonely, "ib_write_bw -x 2");
    assert_eq!(error, "--gid-index 2: there are 2 addresses");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = run(&mut lonely, &format!("ib_write_bw --oob 127.0.0.1 -p {port}"));
    assert!(error.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")), "{error}");
    // A peer that is no perftest.
    let thread = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad").unwrap();
    });
    let error = run(&mut lonely, &format!("ib_write_bw -p {port} 127.0.0.1"));
    assert!(error.ends_with("perftest version \"HTTP/1.1 400 Bad\"; 5.70 or later is needed"), "{error}");
    thread.join().unwrap();
}
