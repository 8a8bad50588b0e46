//! `--metrics`: what a run is doing, as Prometheus reads it.
//!
//! The control thread answers between two looks at its workers: no thread, no lock, and a reader that is slow
//! waits alone.

use super::view::View;
use crate::config::Scenario;
use crate::plan::Rates;
use roce_engine::transport::QpCounters;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Readers that are answered at a time.
const AT_ONCE: usize = 1;
/// How long one may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_millis(50);
/// So many writes an answer may take, each as long as that.
const MOST_WRITES: usize = 4;

/// The place where readers ask.
#[derive(Debug)]
pub(super) struct Metrics {
    listener: TcpListener,
    text: String,
}

impl Metrics {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Metrics> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Metrics { listener, text: text_of_build() })
    }

    /// What is told from now on.
    pub(super) fn set(&mut self, s: &Scenario, before: &View, now: &View) {
        self.text = text_of_build() + &text(s, before, now);
    }

    /// Answers those who wait.
    pub(super) fn serve(&self) {
        for _ in 0..AT_ONCE {
            let Ok((stream, _)) = self.listener.accept() else { return };
            // One that is gone is no concern of the run.
            let _ = self.answer(stream);
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = [0; 1024];
        let n = stream.read(&mut request)?;
        let path = String::from_utf8_lossy(&request[..n]);
        let path = path.split_whitespace().nth(1).unwrap_or_default();
        let (status, kind, body) = match path.split('?').next().unwrap_or_default() {
            "/metrics" => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", self.text.as_str()),
            _ => ("404 Not Found", "text/plain", "rocegen answers at /metrics\n"),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let all = head + body;
        let mut rest = all.as_bytes();
        // The run goes on: who takes it in drops gets no more than that.
        for _ in 0..MOST_WRITES {
            match stream.write(rest)? {
                n if n == rest.len() => return Ok(()),
                n => rest = &rest[n..],
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

fn text_of_build() -> String {
    format!(
        "# HELP rocegen_build_info The version that runs.\n# TYPE rocegen_build_info gauge\n\
         rocegen_build_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// A metric and its samples.
struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl<'a> Family<'a> {
    fn new(out: &'a mut String, name: &'static str, kind: &str, help: &str) -> Family<'a> {
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { out, name }
    }

    fn sample(&mut self, label: &str, of: &str, value: f64) {
        let _ = writeln!(self.out, "{}{{{label}=\"{of}\"}} {value}", self.name);
    }
}

fn text(s: &Scenario, before: &View, now: &View) -> String {
    let mut out = String::new();
    let span = now.at.since(before.at);
    // Names of flows and ports have no character that a label would have to escape.
    let count = |out: &mut String, name, help: &str, of: &dyn Fn(usize) -> u64| {
        let mut family = Family::new(out, name, "counter", help);
        for (f, flow) in s.flows.iter().enumerate() {
            family.sample("flow", &flow.name, of(f) as f64);
        }
    };
    let sum = |f: usize, of: fn(&QpCounters) -> u64| now.flows[f].counters.iter().map(of).sum::<u64>();
    let flows = &now.flows;
    count(&mut out, "rocegen_flow_messages_total", "Messages completed.", &|f| flows[f].completed);
    count(&mut out, "rocegen_flow_messages_failed_total", "Messages that ended in error.", &|f| {
        flows[f].failed
    });
    count(&mut out, "rocegen_flow_retransmits_total", "Packets sent again.", &|f| sum(f, |c| c.retransmits));
    count(&mut out, "rocegen_flow_cnps_handled_total", "CNPs that were acted on.", &|f| {
        sum(f, |c| c.rp_cnp_handled)
    });
    count(&mut out, "rocegen_flow_naks_total", "Sequence NAKs received.", &|f| sum(f, |c| c.packet_seq_err));
    count(&mut out, "rocegen_flow_timeouts_total", "Ack timeouts.", &|f| sum(f, |c| c.local_ack_timeout_err));
    let rates: Vec<Rates> =
        (0..s.flows.len()).map(|f| Rates::between(&before.flows[f], &now.flows[f], span)).collect();
    for (name, help, of) in [
        (
            "rocegen_flow_goodput_bytes_per_second",
            "Payload in the last interval.",
            (|r| r.goodput_bps / 8.0) as fn(&Rates) -> f64,
        ),
        ("rocegen_flow_l1_bytes_per_second", "Line use in the last interval.", |r| r.l1_bps / 8.0),
        ("rocegen_flow_messages_per_second", "Messages in the last interval.", |r| r.messages),
    ] {
        let mut family = Family::new(&mut out, name, "gauge", help);
        for (flow, rates) in s.flows.iter().zip(&rates) {
            family.sample("flow", &flow.name, of(rates));
        }
    }
    for (name, help, percent) in [
        ("rocegen_flow_latency_p50_seconds", "Median latency in the last interval.", 50.0),
        ("rocegen_flow_latency_p99_seconds", "99th percentile of the latency in the last interval.", 99.0),
    ] {
        let mut family = Family::new(&mut out, name, "gauge", help);
        for (flow, latency) in s.flows.iter().zip(&now.latency) {
            if let Some(ns) = latency.percentile_ns(percent) {
                family.sample("flow", &flow.name, ns as f64 / 1e9);
            }
        }
    }
    let local = || s.ports.iter().enumerate().filter(|(_, p)| p.is_local());
    for (name, help, of) in [
        (
            "rocegen_port_rx_frames_total",
            "Frames received.",
            (|c| c.rx_packets) as fn(&roce_engine::worker::EndpointCounters) -> u64,
        ),
        ("rocegen_port_tx_frames_total", "Frames sent.", |c| c.tx_packets),
        ("rocegen_port_rx_dropped_total", "Frames received and dropped, for any reason.", |c| {
            c.dropped_total()
        }),
    ] {
        let mut family = Family::new(&mut out, name, "counter", help);
        for (i, port) in local() {
            family.sample("port", &port.name, of(&now.ports[i]) as f64);
        }
    }
    let mut busy = Family::new(
        &mut out,
        "rocegen_worker_busy_ratio",
        "gauge",
        "Share of the last interval in which a worker had something to do.",
    );
    for ((core, after), (_, before)) in now.workers.iter().zip(&before.workers) {
        busy.sample("core", &core.to_string(), after.busy_since(before));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(metrics: &Metrics, path: &str) -> String {
        let mut stream = TcpStream::connect(metrics.listener.local_addr().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        metrics.serve();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn who_asks_is_answered_and_who_is_silent_is_not_waited_for() {
        let metrics = Metrics::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(ask(&metrics, "/metrics").contains("rocegen_build_info{version="));
        assert!(ask(&metrics, "/").starts_with("HTTP/1.1 404"));
        let _silent = TcpStream::connect(metrics.listener.local_addr().unwrap()).unwrap();
        // A reader that says nothing holds nobody up for ever.
        metrics.serve();
        assert!(ask(&metrics, "/metrics").starts_with("HTTP/1.1 200"));
    }
}
