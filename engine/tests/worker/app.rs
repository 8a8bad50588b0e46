//! Queue pairs that send messages and check what they get.

use roce_engine::io::PacketIo;
use roce_engine::transport::{QpConfig, QpCounters, Recovery};
use roce_engine::units::{Instant, Mtu, Psn, Qpn};
use roce_engine::verbs::*;
use roce_engine::wire::{Gid, MacAddr, Route, Vlan};
use roce_engine::worker::{Application, Endpoint, Flow, Load};
use std::net::Ipv4Addr;

pub(crate) const PD: Pd = Pd(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
}

pub(crate) const VERBS: [Verb; 6] =
    [Verb::Send, Verb::SendImm, Verb::Write, Verb::WriteImm, Verb::Read, Verb::FetchAdd];

impl Verb {
    fn takes_recv(self) -> bool {
        matches!(self, Verb::Send | Verb::SendImm | Verb::WriteImm)
    }
}

/// How a pair of queue pairs is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) verb: Verb,
    pub(crate) ty: QpType,
    pub(crate) size: u32,
    pub(crate) depth: u32,
    pub(crate) messages: u64,
    pub(crate) vlan: Option<u16>,
    /// Code of the ack timer.
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            verb: Verb::Write,
            ty: QpType::Rc,
            size: 2501,
            depth: 8,
            messages: 100,
            vlan: None,
            timeout: 10,
            retry_cnt: 7,
        }
    }
}

/// One side of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    pub(crate) spec: Spec,
    /// Index of its endpoint on its worker.
    pub(crate) endpoint: usize,
    pub(crate) qpn: Qpn,
    sends: bool,
    own: MemoryRegion,
    remote: MemoryRegion,
    posted: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) first_failure: Option<CompletionStatus>,
    /// Messages that arrived.
    pub(crate) received: u64,
}

impl Half {
    fn post<I: PacketIo>(&mut self, endpoint: &mut Endpoint<I>) -> bool {
        let s = &self.spec;
        let room = u64::from(s.depth) > self.posted - self.done - self.failed;
        if !self.sends || !room || self.posted == s.messages || self.failed != 0 {
            return false;
        }
        let n = self.posted;
        let at = n % u64::from(s.depth) * u64::from(s.size.next_multiple_of(8));
        let (raddr, rkey) = (self.remote.va + at, self.remote.key);
        let (op, len) = match s.verb {
            Verb::Send => (SendOp::Send, s.size),
            Verb::SendImm => (SendOp::SendImm(n as u32), s.size),
            Verb::Write => (SendOp::Write { raddr, rkey }, s.size),
            Verb::WriteImm => (SendOp::WriteImm { raddr, rkey, imm: n as u32 }, s.size),
            Verb::Read => (SendOp::Read { raddr, rkey }, s.size),
            Verb::FetchAdd => (SendOp::FetchAdd { raddr: self.remote.va, rkey, add: 1 }, 8),
        };
        let sge = Sge { addr: self.own.va + at, len, lkey: self.own.key };
        let wr = SendWr { wr_id: n, op, sge, flags: SendFlags { signaled: true, ..SendFlags::default() } };
        endpoint.post_send(self.qpn, wr).unwrap().unwrap();
        self.posted += 1;
        true
    }

    fn post_recv<I: PacketIo>(&self, slot: u64, endpoint: &mut Endpoint<I>) {
        let size = self.spec.size;
        let addr = self.own.va + slot * u64::from(size.next_multiple_of(8));
        let wr = RecvWr { wr_id: slot, sge: Sge { addr, len: size, lkey: self.own.key } };
        endpoint.post_recv(self.qpn, wr).unwrap().unwrap();
    }

    /// All that one side holds.
    pub(crate) fn memory<'a, I: PacketIo>(&self, endpoint: &'a Endpoint<I>) -> &'a [u8] {
        endpoint.memory().local(self.own.key, self.own.va, self.own.len as u32).unwrap()
    }

    pub(crate) fn counters<I: PacketIo>(&self, endpoint: &Endpoint<I>) -> QpCounters {
        endpoint.qp(self.qpn).unwrap().counters()
    }
}

/// Drives the halves of one worker.
#[derive(Debug, Default)]
pub(crate) struct App {
    pub(crate) halves: Vec<Half>,
    /// How often it was told of a queue pair that is not its own.
    pub(crate) strangers: u64,
}

impl App {
    pub(crate) fn is_through(&self) -> bool {
        self.halves.iter().all(|h| !h.sends || h.failed != 0 || h.done == h.spec.messages)
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.halves.iter().map(|h| h.posted - h.done - h.failed).sum()
    }

    fn half(&mut self, endpoint: usize, qpn: Qpn) -> Option<&mut Half> {
        self.halves.iter_mut().find(|h| (h.endpoint, h.qpn) == (endpoint, qpn))
    }
}

impl<I: PacketIo> Application<I> for App {
    type Command = ();

    fn on_command(&mut self, _: Instant, _: &mut [Endpoint<I>], _: &Load, (): ()) -> Flow {
        Flow::Stop
    }

    fn on_completion(&mut self, _: Instant, index: usize, endpoint: &mut Endpoint<I>, done: &Completion) {
        let Some(half) = self.half(index, done.qpn) else {
            self.strangers += 1;
            return;
        };
        let good = done.status == CompletionStatus::Success;
        match done.opcode {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm if good => {
                if half.spec.verb != Verb::Send && half.spec.ty == QpType::Rc {
                    assert_eq!(done.imm, Some(half.received as u32), "in order, each once");
                }
                half.received += 1;
                half.post_recv(done.wr_id, endpoint);
            }
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => {}
            _ if good => {
                assert_eq!(done.wr_id, half.done, "in order");
                half.done += 1;
            }
            _ => {
                half.failed += 1;
                half.first_failure.get_or_insert(done.status);
            }
        }
    }

    fn on_event(&mut self, _: Instant, index: usize, _: &mut Endpoint<I>, qpn: Qpn, event: QpEvent) {
        if let (QpEvent::WriteExecuted { .. }, Some(half)) = (event, self.half(index, qpn)) {
            // With immediate data there is a completion as well.
            half.received += u64::from(half.spec.verb == Verb::Write);
        }
    }

    fn on_turn(&mut self, _: Instant, endpoints: &mut [Endpoint<I>]) -> bool {
        let mut posted = false;
        for half in &mut self.halves {
            while half.post(&mut endpoints[half.endpoint]) {
                posted = true;
            }
        }
        posted
    }
}

/// Where one side lives: its endpoint, and the index of that on its worker.
pub(crate) struct Place<'a, I: PacketIo> {
    pub(crate) endpoint: &'a mut Endpoint<I>,
    pub(crate) index: usize,
    /// Last byte of its addresses.
    pub(crate) host: u8,
}

/// Makes a connected pair of queue pairs, the first of which sends.
pub(crate) fn connect<I: PacketIo>(spec: Spec, mut from: Place<'_, I>, mut to: Place<'_, I>) -> [Half; 2] {
    let bytes = (spec.depth * spec.size.max(8).next_multiple_of(8)) as usize;
    let make = |place: &mut Place<'_, I>| {
        let region = place.endpoint.memory_mut().register(PD, bytes, Access::ALL).unwrap();
        let config = QpConfig {
            qpn: Qpn::new(0),
            ty: spec.ty,
            pd: PD,
            max_send_wr: spec.depth,
            max_recv_wr: spec.depth,
            srq: None,
            credits: false,
            window: 256,
            ack_interval: 4,
            recovery: Recovery::GoBackN,
        };
        (place.endpoint.create_qp(config).unwrap(), region)
    };
    let sides = [make(&mut from), make(&mut to)];
    let hosts = [from.host, to.host];
    let mut halves = [0, 1].map(|i| Half {
        spec,
        endpoint: 0,
        qpn: sides[i].0,
        sends: i == 0,
        own: sides[i].1,
        remote: sides[1 - i].1,
        posted: 0,
        done: 0,
        failed: 0,
        first_failure: None,
        received: 0,
    });
    for (i, place) in [from, to].into_iter().enumerate() {
        let (own, other) = (hosts[i], hosts[1 - i]);
        let gid = |host| Gid::from(Ipv4Addr::new(198, 18, 0, host));
        let route = Route {
            src_mac: MacAddr([2, 0, 0, 0, 0, own]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, other]),
            vlan: spec.vlan.map(|vid| Vlan { pcp: 3, dei: false, vid }),
            src: gid(own),
            dst: gid(other),
            tos: 0,
            hop_limit: 64,
            flow_label: 0,
            sport: 0xC000,
        };
        let first = [Psn::new(0xFF_FFF0), Psn::new(77)];
        let rtr = RtrAttrs {
            route,
            mtu: Mtu::B1024,
            dest_qpn: sides[1 - i].0,
            rq_psn: first[1 - i],
            max_dest_rd_atomic: 4,
            min_rnr_timer: 1,
        };
        let rts = RtsAttrs {
            sq_psn: first[i],
            timeout: spec.timeout,
            retry_cnt: spec.retry_cnt,
            rnr_retry: 7,
            max_rd_atomic: 4,
        };
        let init = InitAttrs { access: Access::ALL, pkey: 0xFFFF };
        for step in [Transition::Init(init), Transition::Rtr(Box::new(rtr)), Transition::Rts(rts)] {
            place.endpoint.modify_qp(sides[i].0, step).unwrap().unwrap();
        }
        halves[i].endpoint = place.index;
        let source = (i == 0) != (spec.verb == Verb::Read);
        let (size, stride) = (spec.size as usize, spec.size.next_multiple_of(8) as usize);
        let fill = |bytes: &mut [u8]| {
            for (slot, message) in bytes.chunks_exact_mut(stride).enumerate() {
                message[..size]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(n, b)| *b = ((n * 251) >> 3) as u8 ^ slot as u8);
            }
        };
        if source && spec.verb != Verb::FetchAdd {
            place.endpoint.memory_mut().fill(halves[i].own.key, fill).unwrap();
        }
        if i == 1 && spec.verb.takes_recv() {
            for slot in 0..u64::from(spec.depth) {
                halves[i].post_recv(slot, place.endpoint);
            }
        }
    }
    halves
}
