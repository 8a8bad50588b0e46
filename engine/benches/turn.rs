//! The cost of a turn: one worker with both endpoints over a pair of ports in memory.
//!
//! Prints processor time per message and per data packet, both sides together, ACKs included;
//! what other programs do on the machine hardly moves it.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use roce_engine::io::mem::{self, MemPort};
use roce_engine::transport::{QpConfig, Recovery};
use roce_engine::units::{Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::*;
use roce_engine::wire::{Gid, MacAddr, Route};
use roce_engine::worker::{Application, Endpoint, EndpointConfig, Flow, Load, Worker};
use std::net::Ipv4Addr;

const PD: Pd = Pd(1);

/// Keeps each queue pair of endpoint 0 full.
struct Pump {
    sides: Vec<(Qpn, SendWr)>,
    depth: u32,
    started: bool,
    completed: u64,
}

impl Application<MemPort> for Pump {
    type Command = ();

    fn on_command(&mut self, _: Instant, _: &mut [Endpoint<MemPort>], _: &Load, (): ()) -> Flow {
        Flow::Stop
    }

    fn on_completion(
        &mut self,
        _: Instant,
        index: usize,
        endpoint: &mut Endpoint<MemPort>,
        done: &Completion,
    ) {
        assert_eq!(done.status, CompletionStatus::Success);
        if index == 0 {
            self.completed += 1;
            let (qpn, wr) = self.sides[done.wr_id as usize];
            let _ = endpoint.post_send(qpn, wr);
        } else {
            let sge = Sge::default();
            let _ = endpoint.post_recv(done.qpn, RecvWr { wr_id: 0, sge });
        }
    }

    fn on_event(&mut self, _: Instant, _: usize, _: &mut Endpoint<MemPort>, _: Qpn, _: QpEvent) {}

    fn on_turn(&mut self, _: Instant, endpoints: &mut [Endpoint<MemPort>]) -> bool {
        if self.started {
            return false;
        }
        self.started = true;
        for (qpn, wr) in &self.sides {
            for _ in 0..self.depth {
                let _ = endpoints[0].post_send(*qpn, *wr);
            }
        }
        true
    }
}

fn route(from: u8, to: u8) -> Route {
    Route {
        src_mac: MacAddr([2, 0, 0, 0, 0, from]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, to]),
        vlan: None,
        src: Gid::from(Ipv4Addr::new(198, 18, 0, from)),
        dst: Gid::from(Ipv4Addr::new(198, 18, 0, to)),
        tos: 0,
        hop_limit: 64,
        flow_label: 0,
        sport: 0xC000,
    }
}

fn worker(read: bool, size: u32, mtu: Mtu, depth: u32, qps: u32) -> Worker<MemPort, Pump> {
    let (a, b) = mem::pair(256, 4352);
    let mut ends =
        [a, b].map(|io| Endpoint::new(io, EndpointConfig { secret: 7, ..Default::default() }, None));
    let regions = ends.each_mut().map(|e| e.memory_mut().register(PD, size as usize, Access::ALL).unwrap());
    let mut sides = Vec::new();
    for i in 0..qps {
        let config = QpConfig {
            qpn: Qpn::new(0),
            ty: QpType::Rc,
            pd: PD,
            max_send_wr: depth,
            max_recv_wr: 0,
            srq: None,
            credits: false,
            window: 1024,
            ack_interval: 16,
            recovery: Recovery::GoBackN,
        };
        let qpns = ends.each_mut().map(|e| e.create_qp(config).unwrap());
        for side in 0..2 {
            let (me, you) = (1 + side as u8, 2 - side as u8);
            let rtr = RtrAttrs {
                route: route(me, you),
                mtu,
                dest_qpn: qpns[1 - side],
                rq_psn: Psn::new(5),
                max_dest_rd_atomic: 16,
                min_rnr_timer: 1,
            };
            let rts =
                RtsAttrs { sq_psn: Psn::new(5), timeout: 18, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 16 };
            for step in [
                Transition::Init(InitAttrs { access: Access::ALL, pkey: 0xFFFF }),
                Transition::Rtr(Box::new(rtr)),
                Transition::Rts(rts),
            ] {
                ends[side].modify_qp(qpns[side], step).unwrap().unwrap();
            }
        }
        let (raddr, rkey) = (regions[1].va, regions[1].key);
        let op = if read { SendOp::Read { raddr, rkey } } else { SendOp::Write { raddr, rkey } };
        let sge = Sge { addr: regions[0].va, len: size, lkey: regions[0].key };
        let flags = SendFlags { signaled: true, ..Default::default() };
        sides.push((qpns[0], SendWr { wr_id: u64::from(i), op, sge, flags }));
    }
    Worker::new(Vec::from(ends), Pump { sides, depth, started: false, completed: 0 })
}

/// Nanoseconds that this thread has been on a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A kind of traffic: name, READ or WRITE, bytes of a message, path MTU, depth, queue pairs.
type Case = (&'static str, bool, u32, Mtu, u32, u32);

const CASES: [Case; 8] = [
    ("write-1MiB-mtu4096", false, 1 << 20, Mtu::B4096, 16, 1),
    ("write-1MiB-mtu1024", false, 1 << 20, Mtu::B1024, 16, 1),
    ("read-1MiB-mtu4096", true, 1 << 20, Mtu::B4096, 16, 1),
    ("write-64B", false, 64, Mtu::B1024, 128, 1),
    ("write-64B-16qps", false, 64, Mtu::B1024, 8, 16),
    ("write-64B-256qps", false, 64, Mtu::B1024, 1, 256),
    ("write-64B-4096qps", false, 64, Mtu::B1024, 1, 4096),
    ("write-64B-16384qps", false, 64, Mtu::B1024, 1, 16384),
];

/// Without arguments, or with a part of a name: processor time of all cases, or of those.
/// `--messages N NAME` runs one case for so many messages and says how many packets that were: for
/// who counts instructions.
fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--messages", number, name] => count(number.parse().unwrap(), name),
        [name] => CASES.iter().filter(|c| c.0.contains(name)).for_each(time),
        _ => CASES.iter().for_each(time),
    }
}

fn count(messages: u64, name: &str) {
    let (_, read, size, mtu, depth, qps) = *CASES.iter().find(|c| c.0 == name).unwrap();
    let mut worker = worker(read, size, mtu, depth, qps);
    let mut ns = 0;
    while worker.app().completed < messages {
        ns += 500;
        worker.turn(Instant::from_nanos(ns));
    }
    println!("{}", worker.app().completed * u64::from(mtu.packets(size)));
}

fn time(&(name, read, size, mtu, depth, qps): &Case) {
    let mut worker = worker(read, size, mtu, depth, qps);
    let mut ns = 0;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let (cpu, done) = (cpu_ns(), worker.app().completed);
        for _ in 0..20_000 {
            ns += 500;
            worker.turn(Instant::from_nanos(ns));
        }
        let messages = worker.app().completed - done;
        best = best.min((cpu_ns() - cpu) as f64 / messages.max(1) as f64);
    }
    let packets = f64::from(mtu.packets(size));
    println!("{name:<22} {best:>10.1} ns/message {:>8.1} ns/packet", best / packets);
}
