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

fn main() {
    let table = [
        ("write 1MiB mtu 4096", false, 1 << 20, Mtu::B4096, 16, 1),
        ("write 1MiB mtu 1024", false, 1 << 20, Mtu::B1024, 16, 1),
        ("read  1MiB mtu 4096", true, 1 << 20, Mtu::B4096, 16, 1),
        ("write 64B  1 qp", false, 64, Mtu::B1024, 128, 1),
        ("write 64B  16 qps", false, 64, Mtu::B1024, 8, 16),
        ("write 64B  256 qps", false, 64, Mtu::B1024, 1, 256),
        ("write 64B  4096 qps", false, 64, Mtu::B1024, 1, 4096),
    ];
    let only = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    for (name, read, size, mtu, depth, qps) in table {
        if only.as_ref().is_some_and(|o| !name.contains(o.as_str())) {
            continue;
        }
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
}
