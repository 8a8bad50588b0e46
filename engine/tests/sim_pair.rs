//! Two hosts in virtual time over a line on which things go wrong.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use roce_engine::cc::{NotificationConfig, Preset, RateControl, ReactionPoint};
use roce_engine::fabric::{
    Action, BufferSpec, Cable, Chance, Framing, Impairment, Network, Node, PacketClass, PortId, Rule,
    Service, Station, Stream, SwitchSpec, Way,
};
use roce_engine::sim::{HostId, PortRef, SimPort, World};
use roce_engine::transport::{QpConfig, Recovery};
use roce_engine::units::{Duration, Instant, Mtu, Psn, Qpn, Rate};
use roce_engine::verbs::*;
use roce_engine::wire::{Gid, MacAddr, Route};
use roce_engine::worker::{Application, Endpoint, EndpointConfig, Flow, Load, Worker};
use std::net::Ipv4Addr;

const PD: Pd = Pd(1);
const SIZE: u32 = 5001;
const SLOTS: u64 = 64;
const STRIDE: u64 = 8192;
const FIRST: [u32; 2] = [0xFF_FFF0, 0x10];

/// Notes what completes; posts the next message when one does.
#[derive(Debug, Default)]
struct App {
    qpn: Qpn,
    to_post: Vec<SendWr>,
    depth: usize,
    sent: Vec<Completion>,
    received: Vec<Completion>,
    written: Vec<(u64, u32)>,
    failed: Vec<Completion>,
}

impl App {
    fn post(&mut self, endpoint: &mut Endpoint<SimPort>) {
        while endpoint.qp(self.qpn).is_some_and(|qp| (qp.outstanding() as usize) < self.depth) {
            let Some(wr) = self.to_post.pop() else { return };
            endpoint.post_send(self.qpn, wr).unwrap().unwrap();
        }
    }
}

impl Application<SimPort> for App {
    type Command = ();

    fn on_command(&mut self, _: Instant, e: &mut [Endpoint<SimPort>], _: &Load, (): ()) -> Flow {
        self.post(&mut e[0]);
        Flow::Continue
    }

    fn on_completion(&mut self, _: Instant, _: usize, e: &mut Endpoint<SimPort>, done: &Completion) {
        match done.status {
            CompletionStatus::Success
                if matches!(done.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm) =>
            {
                self.received.push(*done);
            }
            CompletionStatus::Success => self.sent.push(*done),
            _ => self.failed.push(*done),
        }
        self.post(e);
    }

    fn on_event(&mut self, _: Instant, _: usize, _: &mut Endpoint<SimPort>, _: Qpn, event: QpEvent) {
        if let QpEvent::WriteExecuted { va, len } = event {
            self.written.push((va, len));
        }
    }

    fn on_turn(&mut self, _: Instant, _: &mut [Endpoint<SimPort>]) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
}

const VERBS: [Verb; 6] = [Verb::Send, Verb::SendImm, Verb::Write, Verb::WriteImm, Verb::Read, Verb::FetchAdd];

/// What the `n`th message holds at `i`.
fn byte(n: u64, i: u64) -> u8 {
    (n.wrapping_mul(0x9E37_79B9).wrapping_add(i.wrapping_mul(251)) >> 3) as u8
}

fn gid(host: u8) -> Gid {
    Gid::from(Ipv4Addr::new(198, 18, 0, host))
}

struct Pair {
    world: World<App>,
    hosts: [HostId; 2],
    /// The network's ports, by host.
    ports: [PortId; 2],
    regions: [MemoryRegion; 2],
}

fn cable(gbps: u64, delay: Duration) -> Cable {
    Cable { rate: Rate::from_gbps(gbps), delay, framing: Framing::ETHERNET }
}

/// Two hosts with a connected queue pair each, `messages` to go from the first to the second.
fn pair(verb: Verb, messages: u64, rules: &[Rule], seed: u64) -> Pair {
    let mut net = Network::default();
    let ports = net.join(Node::Host, Node::Host, &cable(100, Duration::from_micros(5)));
    pair_over(net, ports, false, verb, messages, rules, seed)
}

/// The same over a network, where things go wrong on the cables behind `judged`.
fn pair_over(
    net: Network<roce_engine::sim::SimFrame>,
    judged: [PortId; 2],
    headers_only: bool,
    verb: Verb,
    messages: u64,
    rules: &[Rule],
    seed: u64,
) -> Pair {
    let ports = [0, 1].map(|s| net.port_of(Station(s)));
    let mut world = World::new(net);
    let mut ends = [0, 1u64].map(|secret| {
        let notification = Some(NotificationConfig::default());
        let config = EndpointConfig { secret, workers: 1, notification, ..EndpointConfig::default() };
        let port = if headers_only { SimPort::headers_only(2048, None) } else { SimPort::new(2048, None) };
        Endpoint::new(port, config, None)
    });
    let regions =
        ends.each_mut().map(|e| e.memory_mut().register(PD, (SLOTS * STRIDE) as usize, Access::ALL).unwrap());
    let qpns = ends.each_mut().map(|e| {
        let config = QpConfig {
            qpn: Qpn::new(0),
            ty: QpType::Rc,
            pd: PD,
            max_send_wr: 64,
            max_recv_wr: messages as u32 + 1,
            srq: None,
            credits: false,
            window: 256,
            ack_interval: 4,
            recovery: Recovery::GoBackN,
        };
        e.create_qp(config).unwrap()
    });
    for (i, e) in ends.iter_mut().enumerate() {
        let (own, other) = (1 + i as u8, 2 - i as u8);
        let route = Route {
            src_mac: MacAddr([2, 0, 0, 0, 0, own]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, other]),
            vlan: None,
            src: gid(own),
            dst: gid(other),
            tos: 2,
            hop_limit: 64,
            flow_label: 0,
            sport: 0xC000,
        };
        for step in [
            Transition::Init(InitAttrs { access: Access::ALL, pkey: 0xFFFF }),
            Transition::Rtr(Box::new(RtrAttrs {
                route,
                mtu: Mtu::B1024,
                dest_qpn: qpns[1 - i],
                rq_psn: Psn::new(FIRST[1 - i]),
                max_dest_rd_atomic: 8,
                min_rnr_timer: 1,
            })),
            Transition::Rts(RtsAttrs {
                sq_psn: Psn::new(FIRST[i]),
                timeout: 6,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: 8,
            }),
        ] {
            e.modify_qp(qpns[i], step).unwrap().unwrap();
        }
    }
    let fill = |e: &mut Endpoint<SimPort>, region: &MemoryRegion| {
        e.memory_mut()
            .fill(region.key, |bytes| {
                for (slot, buffer) in bytes.chunks_exact_mut(STRIDE as usize).enumerate() {
                    buffer.iter_mut().enumerate().for_each(|(i, b)| *b = byte(slot as u64, i as u64));
                }
            })
            .unwrap();
    };
    let source = usize::from(verb == Verb::Read);
    fill(&mut ends[source], &regions[source]);
    for n in 0..messages {
        let sge = Sge { addr: regions[1].va + n % SLOTS * STRIDE, len: SIZE, lkey: regions[1].key };
        if matches!(verb, Verb::Send | Verb::SendImm | Verb::WriteImm) {
            ends[1].post_recv(qpns[1], RecvWr { wr_id: n, sge }).unwrap().unwrap();
        }
    }
    let to_post = (0..messages).rev().map(|n| {
        let at = n % SLOTS * STRIDE;
        let (raddr, rkey) = (regions[1].va + at, regions[1].key);
        let (op, len) = match verb {
            Verb::Send => (SendOp::Send, SIZE),
            Verb::SendImm => (SendOp::SendImm(n as u32), SIZE),
            Verb::Write => (SendOp::Write { raddr, rkey }, SIZE),
            Verb::WriteImm => (SendOp::WriteImm { raddr, rkey, imm: n as u32 }, SIZE),
            Verb::Read => (SendOp::Read { raddr, rkey }, SIZE),
            Verb::FetchAdd => (SendOp::FetchAdd { raddr: regions[1].va, rkey, add: 3 }, 8),
        };
        let sge = Sge { addr: regions[0].va + at, len, lkey: regions[0].key };
        SendWr { wr_id: n, op, sge, flags: SendFlags { signaled: true, ..SendFlags::default() } }
    });
    let mut to_post = Some(to_post.collect());
    let apps = [0, 1].map(|i| App {
        qpn: qpns[i],
        to_post: to_post.take().unwrap_or_default(),
        depth: 32,
        ..App::default()
    });
    let [a, b] = ends;
    let [app_a, app_b] = apps;
    let hosts = [world.add_host(Worker::new(vec![a], app_a)), world.add_host(Worker::new(vec![b], app_b))];
    for (i, host) in hosts.into_iter().enumerate() {
        world.attach(PortRef { host, endpoint: 0 }, Station(i as u32), gid(i as u8 + 1));
    }
    for (to, port) in [(1, judged[0]), (0, judged[1])] {
        let stream = Stream {
            dest: gid(to as u8 + 1),
            dest_qpn: qpns[to],
            flow: 0,
            qp: 0,
            backward: to == 0,
            first_request: Psn::new(FIRST[1 - to]),
            first_response: Psn::new(FIRST[to]),
            window: 256,
        };
        if !rules.is_empty() {
            world.impair(port, Impairment::new(seed, rules.to_vec(), vec![stream], 1 << 16));
        }
    }
    Pair { world, hosts, ports, regions }
}

impl Pair {
    /// Runs until nothing happens any more; at most a minute of its time.
    fn run(&mut self) -> &mut Pair {
        self.world.command(self.hosts[0], ());
        while self.world.now() < Instant::from_nanos(60_000_000_000) && self.world.step() {}
        self
    }

    fn app(&self, host: usize) -> &App {
        self.world.host(self.hosts[host]).app()
    }

    fn log(&self) -> String {
        self.ports
            .into_iter()
            .flat_map(|port| self.world.impairment(port).unwrap().log().events())
            .map(|e| format!("{} {e}\n", e.at.as_nanos()))
            .collect()
    }

    fn memory(&self, host: usize, slot: u64, len: u32) -> &[u8] {
        let memory = self.world.host(self.hosts[host]).endpoints()[0].memory();
        let region = &self.regions[host];
        memory.local(region.key, region.va + slot * STRIDE, len).unwrap()
    }

    /// Every message completed once, in order, and its bytes are where they belong.
    fn check(&self, verb: Verb, messages: u64) {
        let (a, b) = (self.app(0), self.app(1));
        assert!(a.failed.is_empty() && b.failed.is_empty(), "{verb:?}: {:?} {:?}", a.failed, b.failed);
        let ids = |list: &[Completion]| list.iter().map(|c| c.wr_id).collect::<Vec<_>>();
        let all: Vec<u64> = (0..messages).collect();
        assert_eq!(ids(&a.sent), all, "{verb:?}");
        match verb {
            Verb::Send | Verb::SendImm | Verb::WriteImm => assert_eq!(ids(&b.received), all, "{verb:?}"),
            Verb::Write => assert_eq!(b.written.len() as u64, messages),
            Verb::Read => assert!(b.received.is_empty()),
            Verb::FetchAdd => {
                let sum = self.memory(1, 0, 8);
                assert_eq!(u64::from_ne_bytes(sum.try_into().unwrap()), 3 * messages);
                for n in messages.saturating_sub(SLOTS)..messages {
                    let before = self.memory(0, n % SLOTS, 8);
                    assert_eq!(u64::from_ne_bytes(before.try_into().unwrap()), 3 * n, "executed once each");
                }
                return;
            }
        }
        if matches!(verb, Verb::SendImm | Verb::WriteImm) {
            assert!(b.received.iter().all(|c| c.imm == Some(c.wr_id as u32)));
        }
        let sink = usize::from(verb != Verb::Read);
        for slot in 0..SLOTS.min(messages) {
            let bytes = self.memory(sink, slot, SIZE + 8);
            let right = |(i, b): (usize, &u8)| *b == if i < SIZE as usize { byte(slot, i as u64) } else { 0 };
            assert!(bytes.iter().enumerate().all(right), "{verb:?} slot {slot}");
        }
        self.check_counts();
    }

    /// Nothing is left on the way, and each frame had one fate.
    fn check_counts(&self) {
        for (host, port) in [(1, self.ports[0]), (0, self.ports[1])] {
            let c = self.world.host(self.hosts[host]).endpoints()[0].counters();
            let sent = self.world.net().counters(port).tx_packets;
            let (l, held) = self.world.judged(port);
            assert!(c.is_balanced());
            assert_eq!(held, 0);
            assert_eq!(c.rx_packets, sent - l.dropped + l.duplicated);
            assert_eq!(l.passed, l.judged - l.dropped + l.duplicated);
        }
        assert_eq!(self.world.net().totals().inside, 0);
    }
}

fn rough() -> Vec<Rule> {
    let chance = |p, action| Rule { chance: Chance::new(p), ..Rule::always(action) };
    vec![
        chance(0.02, Action::Drop),
        chance(0.01, Action::Duplicate),
        chance(0.01, Action::Reorder { packets: 3, at_most: Duration::from_micros(20) }),
        chance(0.01, Action::Delay(Duration::from_micros(7))),
        chance(0.005, Action::Corrupt(None)),
        chance(0.01, Action::MarkCe),
    ]
}

#[test]
fn every_verb_exactly_once_over_a_rough_line() {
    for verb in VERBS {
        for seed in 0..20 {
            let mut p = pair(verb, 200, &rough(), seed);
            p.run().check(verb, 200);
            let injected = |kind: Action| -> u64 {
                p.ports.iter().map(|l| p.world.impairment(*l).unwrap().injected_of(kind.kind())).sum()
            };
            let wrong: u64 = p
                .hosts
                .iter()
                .map(|h| {
                    let c = p.world.host(*h).endpoints()[0].counters();
                    c.dropped[roce_engine::wire::DropReason::Icrc as usize]
                })
                .sum();
            assert_eq!(wrong, injected(Action::Corrupt(None)), "{verb:?} seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let run = |seed| {
        let mut p = pair(Verb::Write, 300, &rough(), seed);
        p.run();
        let ports = p.hosts.map(|h| p.world.host(h).endpoints()[0].counters().clone());
        (p.log(), p.world.now(), p.world.packets(), ports)
    };
    let first = run(5);
    assert!(first.0.lines().count() > 50);
    assert_eq!(first, run(5));
    assert_ne!(first.0, run(6).0);
}

#[test]
fn a_named_packet_is_dropped_once_and_resent_after_one_round_trip() {
    let rule = Rule { psn: Some(10), pass: Some(1), way: Way::Forward, ..Rule::always(Action::Drop) };
    let mut p = pair(Verb::Write, 20, &[rule], 1);
    p.run().check(Verb::Write, 20);
    let log = p.log();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.ends_with("qp 0 forth psn 10 pass 1 RC_WRITE_FIRST drop rule 0\n"), "{log}");
    let sender = p.world.host(p.hosts[0]).endpoints()[0].qp(p.app(0).qpn).unwrap().counters();
    assert_eq!((sender.packet_seq_err, sender.local_ack_timeout_err), (1, 0));
    // 100 packets at 88.5 ns, two round trips of 10 us: one for the NAK, one for the last ACK.
    let us = p.world.now().as_nanos() / 1000;
    assert!((20..40).contains(&us) || us > 250, "{us} us");
}

#[test]
fn a_lost_last_packet_waits_for_the_timer() {
    let clean = pair(Verb::Write, 1, &[], 1).run().app(0).sent.len();
    assert_eq!(clean, 1);
    let rule = Rule { psn: Some(4), pass: Some(1), way: Way::Forward, ..Rule::always(Action::Drop) };
    let mut p = pair(Verb::Write, 1, &[rule], 1);
    p.world.command(p.hosts[0], ());
    // 4.096 us x 2^6.
    p.world.run_until(Instant::from_nanos(262_000));
    assert_eq!(p.app(0).sent.len(), 0);
    p.world.run_until(Instant::from_nanos(262_144 + 2048 + 20_000));
    p.check(Verb::Write, 1);
    let c = p.world.host(p.hosts[0]).endpoints()[0].qp(p.app(0).qpn).unwrap().counters();
    assert_eq!((c.local_ack_timeout_err, c.retransmits), (1, 1), "the others were acknowledged");
}

/// One message after another at the line's rate, to the nanosecond.
#[test]
fn a_clean_line_is_full() {
    let mut p = pair(Verb::Write, 2000, &[], 1);
    p.world.command(p.hosts[0], ());
    p.world.run_until(Instant::from_nanos(500_000));
    let offered = p.world.net().counters(p.ports[0]).tx_packets;
    // A message: four packets of 1024 + 82 bytes (the first with 16 more), one of 905 + 3 + 82.
    let message = f64::from(16 + 4 * (1024 + 82) + 908 + 82) * 0.08;
    let want = 500_000.0 / message * 5.0;
    // The window of 256 packets is more than the 113 of a round trip.
    assert!((offered as f64 - want).abs() < 20.0, "{offered} not {want}");
}

/// A switch with a slow port to the second host, and a queue of 100 kB there.
fn bottleneck(headers_only: bool) -> Pair {
    let mut net = Network::default();
    let buffer = BufferSpec {
        total: u64::MAX >> 1,
        reserve: 0,
        resume_offset: 0,
        alpha_log2: 0,
        lossy_alpha_log2: 0,
        queue_limit: Some(100_000),
    };
    let switch = net.add_switch(SwitchSpec {
        buffer,
        lossless: 0,
        headroom: None,
        max_frame: 2048,
        service: Service::default(),
        marking: None,
        seed: 0,
        watchdog: None,
    });
    let [_, a] = net.join(Node::Host, Node::Switch(switch), &cable(100, Duration::ZERO));
    let [_, b] = net.join(Node::Host, Node::Switch(switch), &cable(40, Duration::from_micros(5)));
    net.set_route(switch, Station(0), &[a]);
    net.set_route(switch, Station(1), &[b]);
    pair_over(net, [a, b], headers_only, Verb::Send, 500, &[], 1)
}

/// Where a slower cable follows, its queue fills and overflows, and everything still arrives.
#[test]
fn a_bottleneck_drops_from_the_tail() {
    let mut p = bottleneck(false);
    p.run();
    assert_eq!(p.app(1).received.len(), 500);
    assert!(p.app(0).failed.is_empty());
    let slow = p.world.net().peer(p.ports[1]);
    let c = p.world.net().counters(slow).priorities[0];
    assert!(c.tail_dropped > 0 && c.peak <= 100_000, "{c:?}");
    let totals = p.world.net().totals();
    assert_eq!((totals.sent, totals.inside), (totals.delivered + totals.dropped, 0));
}

/// Frames without payload take the same ways at the same times as frames with it.
#[test]
fn headers_alone_do_the_same() {
    let facts = |p: &mut Pair| {
        p.run();
        let done = (p.app(0).sent.len(), p.app(1).received.len(), p.app(0).failed.len());
        let ports = p.hosts.map(|h| p.world.host(h).endpoints()[0].counters().clone());
        let qps = [0, 1].map(|i| {
            let endpoint = &p.world.host(p.hosts[i]).endpoints()[0];
            endpoint.qp(p.app(i).qpn).unwrap().counters()
        });
        (done, ports, qps, p.world.now(), p.world.net().totals())
    };
    let bottlenecks = [true, false].map(|hollow| facts(&mut bottleneck(hollow)));
    assert_eq!(bottlenecks[0], bottlenecks[1]);
    for verb in VERBS {
        let [hollow, whole] = [true, false].map(|hollow| {
            let mut net = Network::default();
            let ports = net.join(Node::Host, Node::Host, &cable(100, Duration::from_micros(5)));
            facts(&mut pair_over(net, ports, hollow, verb, 200, &[], 3))
        });
        assert_eq!(hollow, whole, "{verb:?}");
        assert_eq!((hollow.0.0, hollow.0.2), (200, 0));
    }
}

/// Marks on the way out, CNPs on the way back, a lower rate, and no packet sent twice.
#[test]
fn marks_slow_the_sender_down() {
    for verb in [Verb::Write, Verb::Read] {
        let data = if verb == Verb::Read { Way::Backward } else { Way::Forward };
        let marks = Rule {
            way: data,
            class: PacketClass::Data,
            chance: Chance::new(0.01),
            ..Rule::always(Action::MarkCe)
        };
        let line = Rate::from_gbps(100);
        let mut took = Vec::new();
        for controlled in [false, true] {
            let mut p = pair(verb, 4000, &[marks], 3);
            // Whoever sends the data reacts.
            let host = usize::from(verb == Verb::Read);
            let qpn = p.app(host).qpn;
            if controlled {
                let point = ReactionPoint::new(Preset::Nvidia.params(line), line);
                p.world.with(p.hosts[host], |w| {
                    let qp = w.endpoints_mut()[0].qp_mut(qpn).unwrap();
                    qp.set_rate_control(RateControl::Dcqcn(Box::new(point)));
                });
            }
            p.run().check(verb, 4000);
            let [sender, receiver] = [host, 1 - host].map(|h| {
                let worker = p.world.host(p.hosts[h]);
                worker.endpoints()[0].qp(worker.app().qpn).unwrap().counters()
            });
            assert!(receiver.np_ecn_marked_roce_packets > 100, "{verb:?}: {receiver:?}");
            assert!(receiver.np_cnp_sent > 100, "{verb:?}: {receiver:?}");
            let answered = (sender.rp_cnp_handled, sender.rp_cnp_ignored);
            let sent = receiver.np_cnp_sent;
            assert_eq!(answered, if controlled { (sent, 0) } else { (0, sent) }, "{verb:?}");
            assert_eq!((sender.retransmits, receiver.retransmits), (0, 0), "{verb:?}");
            let now = p.world.now();
            let state = p.world.host(p.hosts[host]).endpoints()[0].qp(qpn).unwrap().rate_control().state(now);
            assert_eq!(state.is_some_and(|s| s.cuts > 50), controlled, "{verb:?}: {state:?}");
            took.push(now.as_nanos());
        }
        assert!(2 * took[1] > 3 * took[0], "{verb:?}: {took:?} ns");
    }
}
