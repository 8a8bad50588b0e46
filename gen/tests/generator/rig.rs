//! Two workers joined in memory, and what happens to frames on the way.

use arrayvec::ArrayVec;
use roce_engine::io::mem::{self, MemFrame, MemPort};
use roce_engine::io::{BURST, Caps, FrameMut, PacketIo};
use roce_engine::transport::{QpConfig, Recovery};
use roce_engine::units::{Duration, Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::{Access, InitAttrs, Pd, QpType, RtrAttrs, RtsAttrs, Transition};
use roce_engine::wire::{Encapsulation, Gid, MacAddr, Route, classify};
use roce_engine::worker::{Endpoint, EndpointConfig, Worker};
use roce_gen::config::Verb;
use roce_gen::measure::{FlowSample, Latency, Sample};
use roce_gen::plan::{Frames, Message};
use roce_gen::workload::{
    Arrivals, Buffers, Command, Generator, Lane, LaneSpec, Places, SharedReceives, Side, Traffic,
};
use rtrb::{Consumer, RingBuffer};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const PD: Pd = Pd(1);
pub(crate) const MTU: usize = 1024;

/// What happens to a frame that was not lost on the wire, as far as its iCRC can tell.
pub(crate) enum Fate {
    Pass,
    Drop,
    /// Changed; its iCRC is made right again.
    Changed,
}

/// Decides over each frame that a port sends.
pub(crate) type Judge = Box<dyn FnMut(&mut Seen<'_>) -> Fate>;

/// A frame on its way.
pub(crate) struct Seen<'a> {
    pub(crate) name: &'static str,
    /// Offset of the headers after the BTH, and of the payload, and its length.
    pub(crate) extension: usize,
    pub(crate) payload: usize,
    pub(crate) len: usize,
    pub(crate) bytes: &'a mut [u8],
}

pub(crate) struct Tampered {
    inner: MemPort,
    judge: Option<Judge>,
}

impl std::fmt::Debug for Tampered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tampered")
    }
}

impl PacketIo for Tampered {
    type Rx = MemFrame;
    type Tx = MemFrame;

    fn recv(&mut self, out: &mut ArrayVec<MemFrame, BURST>) -> usize {
        self.inner.recv(out)
    }

    fn alloc(&mut self, reach: usize) -> Option<MemFrame> {
        self.inner.alloc(reach)
    }

    fn send(&mut self, batch: &mut ArrayVec<MemFrame, BURST>) -> usize {
        let Some(judge) = &mut self.judge else { return self.inner.send(batch) };
        let sent = batch.len();
        batch.retain(|frame| {
            let len = FrameMut::bytes(frame).len();
            let bytes = &mut frame.buf()[..len];
            let p = classify(bytes).unwrap();
            let (name, payload_len) = (p.info.name, p.payload().len());
            let trailer = p.trailer().len() + 4;
            let payload = len - trailer - p.pad().len() - payload_len;
            let mut seen = Seen { name, extension: 14 + 20 + 8 + 12, payload, len: payload_len, bytes };
            match judge(&mut seen) {
                Fate::Pass => true,
                Fate::Drop => false,
                Fate::Changed => {
                    let icrc = classify(bytes).unwrap().icrc_computed();
                    bytes[len - trailer..len - trailer + 4].copy_from_slice(&icrc);
                    assert!(classify(bytes).unwrap().verify_icrc());
                    true
                }
            }
        });
        let left = batch.len();
        assert_eq!(self.inner.send(batch), left, "room for all");
        sent
    }

    fn release(&mut self, frames: &mut ArrayVec<MemFrame, BURST>) {
        self.inner.release(frames);
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }
}

/// A flow of the tests.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) verb: Verb,
    pub(crate) uc: bool,
    /// Receive requests that it puts into the queue that all such flows share.
    pub(crate) srq: Option<u32>,
    pub(crate) size: u32,
    pub(crate) depth: u32,
    pub(crate) messages: Option<u64>,
    pub(crate) arrivals: Arrivals,
}

impl Spec {
    pub(crate) fn new(verb: Verb) -> Spec {
        Spec {
            verb,
            uc: false,
            srq: None,
            size: 3001,
            depth: 4,
            messages: Some(50),
            arrivals: Arrivals::CLOSED,
        }
    }

    /// As in a run, who receives from an unreliable connection has room for two bursts.
    fn depth(&self, sender: bool) -> u32 {
        if self.uc && !sender { self.depth.max(2 * BURST as u32) } else { self.depth }
    }
}

/// A sending and a receiving worker.
pub(crate) struct Rig {
    pub(crate) workers: [Worker<Tampered, Generator>; 2],
    pub(crate) answers: [Consumer<Box<Sample>>; 2],
    pub(crate) finished: Arc<AtomicUsize>,
    pub(crate) flows: usize,
    pub(crate) now: u64,
}

/// Workers for `specs`, of whose frames `judges` decide over those of the sender and of the receiver.
pub(crate) fn rig(specs: &[Spec], judges: [Option<Judge>; 2]) -> Rig {
    let finished = Arc::new(AtomicUsize::new(0));
    let (a, b) = mem::pair(1024, 4400);
    let mut ends = Vec::new();
    for (secret, (inner, judge)) in [a, b].into_iter().zip(judges).enumerate() {
        let config = EndpointConfig { secret: secret as u64 + 1, ..EndpointConfig::default() };
        ends.push(Endpoint::new(Tampered { inner, judge }, config, None));
    }
    let (answers_a, from_a) = RingBuffer::new(4);
    let (answers_b, from_b) = RingBuffer::new(4);
    let mut apps = [answers_a, answers_b]
        .map(|answers| Generator::new(vec![0], answers, Arc::clone(&finished), Latency::sized()));
    let srqn = ends[1].create_srq(specs.iter().filter_map(|s| s.srq).sum());
    for (flow, spec) in specs.iter().enumerate() {
        let sides = [Side::Sender, Side::Receiver];
        let mut halves = Vec::new();
        for (end, side) in ends.iter_mut().zip(sides) {
            let sender = side == Side::Sender;
            let config = QpConfig {
                qpn: Qpn::new(0),
                ty: if spec.uc { QpType::Uc } else { QpType::Rc },
                pd: PD,
                max_send_wr: if sender { spec.depth(sender) } else { 0 },
                max_recv_wr: if sender { 0 } else { spec.depth(sender) },
                srq: spec.srq.filter(|_| !sender).map(|_| srqn),
                credits: false,
                window: 256,
                ack_interval: 4,
                recovery: Recovery::GoBackN,
            };
            let qpn = end.create_qp(config).unwrap();
            let slots = Buffers::slots(spec.depth(sender), true, spec.verb == Verb::Read && !sender);
            let stride = Buffers::stride(spec.size, true);
            let region = end.memory_mut().register(PD, (slots * stride) as usize, Access::ALL).unwrap();
            halves.push((qpn, Places::one(Buffers { va: region.va, key: region.key, slots, stride })));
        }
        for (i, side) in sides.into_iter().enumerate() {
            let host = |i: usize| Ipv4Addr::new(198, 18, 0, 1 + i as u8);
            let mac = |i: usize| MacAddr([2, 0, 0, 0, 0, 1 + i as u8]);
            let ((qpn, local), (peer, remote)) = (halves[i], halves[1 - i]);
            let route = Route {
                src_mac: mac(i),
                dst_mac: mac(1 - i),
                vlan: None,
                src: Gid::from(host(i)),
                dst: Gid::from(host(1 - i)),
                tos: 0,
                hop_limit: 64,
                flow_label: 0,
                sport: 0xC000,
            };
            let psn = Psn::new(0xFF_FFF0);
            for step in [
                Transition::Init(InitAttrs { access: Access::ALL, pkey: 0xFFFF }),
                Transition::Rtr(Box::new(RtrAttrs {
                    route,
                    mtu: Mtu::B1024,
                    dest_qpn: peer,
                    rq_psn: psn,
                    max_dest_rd_atomic: 4,
                    min_rnr_timer: 1,
                })),
                Transition::Rts(RtsAttrs {
                    sq_psn: psn,
                    timeout: 10,
                    retry_cnt: 7,
                    rnr_retry: 7,
                    max_rd_atomic: 4,
                }),
            ] {
                ends[i].modify_qp(qpn, step).unwrap().unwrap();
            }
            apps[i].add(Lane::new(LaneSpec {
                flow,
                index: 0,
                endpoint: 0,
                qpn,
                side,
                qps: 1,
                per_qp: false,
                traffic: Arc::new(Traffic::fixed(spec.verb, spec.size)),
                script: None,
                frames: Arc::from([frames(spec)]),
                ideal: None,
                unreliable: spec.uc,
                seed: 77 + flow as u64,
                mtu: Mtu::B1024,
                depth: spec.depth(side == Side::Sender),
                verify: true,
                messages: spec.messages,
                steps: None,
                arrivals: spec.arrivals,
                start: Duration::ZERO,
                local,
                remote,
                front: 0,
                datagram: None,
                shared: spec
                    .srq
                    .filter(|_| side == Side::Receiver)
                    .map(|entries| SharedReceives { srqn, entries }),
            }));
        }
    }
    let mut workers = ends.into_iter().zip(apps).map(|(end, app)| Worker::new(vec![end], app));
    let mut workers = [workers.next().unwrap(), workers.next().unwrap()];
    for worker in &mut workers {
        let (app, endpoints) = worker.parts_mut();
        app.prepare(endpoints);
    }
    Rig { workers, answers: [from_a, from_b], finished, flows: specs.len(), now: 0 }
}

/// What a flow's messages come to on the wire.
pub(crate) fn frames(spec: &Spec) -> Frames {
    let (verb, size, mtu) = (spec.verb, spec.size, Mtu::B1024);
    Frames::new(Message { verb, size, mtu, encapsulation: Encapsulation::Ipv4, vlan: false, datagram: false })
}

impl Rig {
    pub(crate) fn start(&mut self) -> &mut Rig {
        let now = Instant::from_nanos(self.now);
        for worker in &mut self.workers {
            worker.command(now, Command::Start);
        }
        self
    }

    pub(crate) fn turns(&mut self, count: u64, ns: u64) {
        for _ in 0..count {
            self.now += ns;
            for worker in &mut self.workers {
                worker.turn(Instant::from_nanos(self.now));
            }
        }
    }

    /// Runs all messages to their end.
    pub(crate) fn run(&mut self) -> &mut Rig {
        self.start();
        for _ in 0..100_000 {
            if self.finished.load(Ordering::Acquire) == 2 {
                // What needs no answer is still on its way.
                self.turns(10, 1000);
                return self;
            }
            self.turns(1, 1000);
        }
        panic!("it does not end");
    }

    /// Asks the workers, whose samples are put together.
    pub(crate) fn ask(&mut self, ask: fn(Box<Sample>) -> Command) -> Vec<FlowSample> {
        let mut sum: Vec<_> = (0..self.flows).map(|f| FlowSample::new(f, Latency::default())).collect();
        let now = Instant::from_nanos(self.now);
        for (worker, answers) in self.workers.iter_mut().zip(&mut self.answers) {
            let blank = Box::new(worker.app().blank(&Latency::sized()));
            worker.command(now, ask(blank));
            let sample = answers.pop().unwrap();
            assert!(sample.ports[0].counters.is_balanced());
            for more in &sample.flows {
                let to = &mut sum[more.flow];
                to.stats.add(&more.stats);
                to.latency.add(&more.latency);
                to.detail.add(&more.detail, true);
            }
        }
        sum
    }

    pub(crate) fn finish(&mut self) -> FlowSample {
        let mut flows = self.ask(Command::Finish);
        assert!(flows.iter().all(|f| f.stats.is_balanced()), "{flows:?}");
        flows.remove(0)
    }
}
