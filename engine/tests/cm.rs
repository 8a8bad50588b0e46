//! Connection management: the messages against recordings and vectors, and two agents against
//! each other over a path that loses and repeats.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use pcap_file::pcap::PcapReader;
use roce_engine::cm::{
    Accept, Agent, AgentConfig, CallError, CmaHeader, CommId, Connect, Event, MAD_LEN, Mad, Message, MraOf,
    Outgoing, Peer, PortSpace, RejReason, Rep, Req, Rtu, Service, ServiceId, SidrRep, SidrStatus,
};
use roce_engine::units::{Duration, Instant, Mtu, Psn, Qpn};
use roce_engine::wire::{Gid, MacAddr, Opcode, classify};
use std::fs::File;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Every MAD of a recording.
fn recorded(name: &str) -> Vec<Vec<u8>> {
    let file = File::open(data("captures").join(name).with_extension("pcap")).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let mut mads = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let Ok(packet) = classify(&frame.data) else { continue };
        if packet.bth.opcode == Opcode::UD_SEND_ONLY && packet.bth.dest_qp == Qpn::GSI {
            mads.push(packet.payload().to_vec());
        }
    }
    mads
}

#[test]
fn messages_of_linux_are_read_and_written_byte_for_byte() {
    let mut seen = Vec::new();
    for file in ["cm_rping", "cm_ucmatose", "cm_write_2501", "cm_read_2501", "cm_reject", "cm_udaddy"] {
        for bytes in recorded(file) {
            let mad = Mad::parse(&bytes).unwrap();
            let message = Message::of(&mad).unwrap();
            let again = message.mad(mad.tid).emit();
            if let Message::Rej(_) = message {
                // What else Linux puts into a refusal has no use.
                assert_eq!(again[..24 + 12], bytes[..24 + 12]);
            } else {
                assert_eq!(again, bytes[..], "{file}: {message:?}");
            }
            seen.push(mad.attribute as u16);
            if let Message::Req(req) = message {
                let header = CmaHeader::parse(req.private.first_chunk().unwrap()).unwrap();
                assert_eq!(header.gids(), (req.path.local, req.path.remote));
                assert_eq!((req.transport, req.mtu, req.pkey), (Service::Rc, Mtu::B1024, 0xFFFF));
                assert!(req.service.port_in(PortSpace::Tcp).is_some());
            }
            if let Message::SidrReq(req) = message {
                let header = CmaHeader::parse(req.private.first_chunk().unwrap()).unwrap();
                assert_eq!(header.dst.to_string(), "198.18.0.9");
                assert_eq!((req.service, req.pkey), (ServiceId::new(PortSpace::Udp, 7174), 0xFFFF));
            }
            if let Message::SidrRep(rep) = message {
                assert_eq!((rep.status, rep.qkey, rep.qpn.get()), (SidrStatus::Valid, 0x0123_4567, 0x1F));
            }
        }
    }
    for attribute in [0x10, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18] {
        assert!(seen.contains(&attribute), "{attribute:#x}");
    }
}

/// A REQ tells the called side where to begin, a REP the caller.
#[test]
fn first_packets_begin_where_the_other_side_was_told() {
    let file = File::open(data("captures/cm_rping.pcap")).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let (mut told, mut begun) = (Vec::new(), Vec::new());
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let Ok(packet) = classify(&frame.data) else { continue };
        if packet.bth.dest_qp == Qpn::GSI {
            match Message::of(&Mad::parse(packet.payload()).unwrap()).unwrap() {
                // Who is told, and where it is to begin.
                Message::Req(m) => told.push((packet.dst(), m.psn)),
                Message::Rep(m) => told.push((packet.dst(), m.psn)),
                _ => {}
            }
        } else if !packet.info.is_response() && begun.iter().all(|(from, _)| *from != packet.src()) {
            begun.push((packet.src(), packet.bth.psn));
        }
    }
    assert_eq!(told.len(), 2);
    for first in told {
        assert!(begun.contains(&first), "{first:?} {begun:?}");
    }
}

#[test]
fn messages_of_the_vectors() {
    let text = std::fs::read_to_string(data("cm-mad-vectors.json")).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut n = 0;
    for (name, hex) in vectors.as_object().unwrap() {
        let Some(hex) = hex.as_str().filter(|h| h.len() == 2 * MAD_LEN) else { continue };
        let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..MAD_LEN).map(byte).collect();
        let mad = Mad::parse(&bytes).unwrap();
        let message = Message::of(&mad).unwrap();
        assert_eq!(message.mad(mad.tid).emit(), bytes[..], "{name}");
        match message {
            Message::Req(req) => {
                assert_eq!(req.service, ServiceId::new(PortSpace::Tcp, 7174));
                assert_eq!((req.qpn.get(), req.psn.get()), (0x12, 0x12_3456));
                assert_eq!((req.path.flow_label, req.path.hop_limit), (0x5B758, 64));
                assert_eq!((req.retry_count, req.rnr_retry, req.max_cm_retries), (7, 7, 15));
            }
            Message::Rep(rep) => {
                assert_eq!((rep.qpn.get(), rep.psn.get(), rep.rnr_retry), (0xAB, 0x65_4321, 7));
            }
            Message::Rej(rej) => assert_eq!(rej.reason, RejReason::INVALID_SERVICE_ID),
            Message::Mra(mra) => assert_eq!((mra.of, mra.service_timeout), (MraOf::Req, 24)),
            Message::Dreq(dreq) => assert_eq!(dreq.qpn.get(), 0xAB),
            _ => {}
        }
        n += 1;
    }
    assert_eq!(n, 7);
}

#[test]
fn fields_out_of_range_are_named() {
    let mut bytes = Message::Req(a_req()).mad(1).emit();
    bytes[24 + 50] = 0x67;
    let error = Message::of(&Mad::parse(&bytes).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "field path_mtu of the Req holds 6, which does not exist");
}

fn a_req() -> Req {
    let mut agent = agent(1);
    agent.connect(Instant::ZERO, &call()).unwrap();
    match said(&agent.poll_transmit().unwrap()) {
        Message::Req(req) => req,
        other => panic!("{other:?}"),
    }
}

const TIMEOUT: Duration = Duration::from_millis(500);

fn agent(guid: u64) -> Agent {
    Agent::new(AgentConfig {
        guid,
        secret: (guid << 40) | (guid * 0x1000),
        timeout: TIMEOUT,
        retries: 5,
        time_wait: Duration::from_secs(1),
        max_connections: 4,
    })
}

fn gid(n: u8) -> Gid {
    Gid::from([198, 18, 0, n])
}

/// Side `to` as side `own` sees it.
fn peer(own: u8, to: u8) -> Peer {
    Peer { mac: MacAddr([2, 0, 0, 0, 0, to]), gid: gid(to), own: gid(own) }
}

/// Side 1 calls side 2.
fn call() -> Connect {
    Connect {
        to: peer(1, 2),
        service: ServiceId::new(PortSpace::Tcp, 7174),
        qpn: Qpn::new(0x12),
        psn: Psn::new(7),
        mtu: Mtu::B1024,
        responder_resources: 1,
        initiator_depth: 2,
        retry_count: 7,
        rnr_retry: 7,
        ack_timeout: 14,
        traffic_class: 0,
        hop_limit: 64,
        private: [3; 92],
    }
}

fn accept() -> Accept {
    Accept {
        qpn: Qpn::new(0x34),
        psn: Psn::new(9),
        responder_resources: 2,
        initiator_depth: 1,
        rnr_retry: 7,
        private: [4; 196],
    }
}

fn said(out: &Outgoing) -> Message {
    Message::of(&out.mad).unwrap()
}

/// Two agents, and what is between them.
struct Pair {
    now: Instant,
    a: Agent,
    b: Agent,
    /// Names of the messages that were sent, in order.
    log: Vec<String>,
}

impl Pair {
    fn new() -> Pair {
        Pair { now: Instant::ZERO, a: agent(1), b: agent(2), log: Vec::new() }
    }

    /// Carries messages until none is left; those that `lose` says are lost.
    fn carry(&mut self, mut lose: impl FnMut(&Message) -> bool) {
        loop {
            let (from_a, from_b) = (self.a.poll_transmit(), self.b.poll_transmit());
            if from_a.is_none() && from_b.is_none() {
                return;
            }
            for (out, to, from, name) in
                [(from_a, &mut self.b, peer(2, 1), "a"), (from_b, &mut self.a, peer(1, 2), "b")]
            {
                let Some(out) = out else { continue };
                let message = said(&out);
                let word = format!("{message:?}");
                let lost = lose(&message);
                self.log.push(format!(
                    "{name} {}{}",
                    word.split('(').next().unwrap(),
                    if lost { " lost" } else { "" }
                ));
                if !lost {
                    to.on_message(self.now, from, out.mad.tid, &message);
                }
            }
        }
    }

    fn later(&mut self, by: Duration) {
        self.now += by;
        self.a.on_deadline(self.now);
        self.b.on_deadline(self.now);
    }

    /// Connected; the two names.
    fn connected() -> (Pair, CommId, CommId) {
        let mut pair = Pair::new();
        let a = pair.a.connect(pair.now, &call()).unwrap();
        pair.carry(|_| false);
        let b = requested(&mut pair.b);
        pair.b.accept(pair.now, b, &accept()).unwrap();
        pair.carry(|_| false);
        assert!(matches!(pair.a.poll_event(), Some(Event::Replied { id, .. }) if id == a));
        pair.a.ready(a).unwrap();
        pair.carry(|_| false);
        assert_eq!(pair.b.poll_event(), Some(Event::Established { id: b }));
        (pair, a, b)
    }
}

fn requested(agent: &mut Agent) -> CommId {
    match agent.poll_event() {
        Some(Event::Requested { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_from_request_to_time_wait() {
    let (mut pair, a, b) = Pair::connected();
    assert_eq!((pair.a.next_deadline(), pair.b.next_deadline()), (None, None));
    pair.a.disconnect(pair.now, a).unwrap();
    pair.carry(|_| false);
    assert_eq!(pair.b.poll_event(), Some(Event::Disconnected { id: b, by_peer: true }));
    assert_eq!(pair.a.poll_event(), Some(Event::Disconnected { id: a, by_peer: false }));
    assert_eq!(pair.log, ["a Req", "b Rep", "a Rtu", "a Dreq", "b Drep"]);
    assert_eq!((pair.a.len(), pair.b.len()), (1, 1));
    pair.later(Duration::from_secs(1));
    assert!(pair.a.is_empty() && pair.b.is_empty());
}

#[test]
fn what_the_other_side_needs_is_told() {
    let mut pair = Pair::new();
    pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    let Some(Event::Requested { id, from, req }) = pair.b.poll_event() else { panic!() };
    assert_eq!(from, peer(2, 1));
    assert_eq!((req.qpn, req.psn, req.mtu), (Qpn::new(0x12), Psn::new(7), Mtu::B1024));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 2));
    assert_eq!((req.private[91], req.path.ack_timeout), (3, 14));
    pair.b.accept(pair.now, id, &accept()).unwrap();
    pair.carry(|_| false);
    let Some(Event::Replied { rep, .. }) = pair.a.poll_event() else { panic!() };
    assert_eq!((rep.qpn, rep.psn), (Qpn::new(0x34), Psn::new(9)));
    assert_eq!((rep.responder_resources, rep.initiator_depth, rep.private[195]), (2, 1, 4));
}

#[test]
fn each_lost_message_is_sent_again() {
    let mut pair = Pair::new();
    let mut lost = Vec::new();
    // Each kind is lost the first time.
    let mut lose = move |m: &Message| {
        let kind = core::mem::discriminant(m);
        let first = !lost.contains(&kind);
        lost.push(kind);
        first
    };
    let a = pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(&mut lose);
    pair.later(TIMEOUT);
    pair.carry(&mut lose);
    let b = requested(&mut pair.b);
    pair.b.accept(pair.now, b, &accept()).unwrap();
    pair.carry(&mut lose);
    pair.later(TIMEOUT);
    pair.carry(&mut lose);
    assert!(matches!(pair.a.poll_event(), Some(Event::Replied { .. })));
    pair.a.ready(a).unwrap();
    pair.carry(&mut lose);
    pair.later(TIMEOUT);
    pair.carry(&mut lose);
    assert_eq!(pair.b.poll_event(), Some(Event::Established { id: b }));
    pair.b.disconnect(pair.now, b).unwrap();
    pair.carry(&mut lose);
    pair.later(TIMEOUT);
    pair.carry(&mut lose);
    pair.later(TIMEOUT);
    pair.carry(&mut lose);
    assert_eq!(pair.b.poll_event(), Some(Event::Disconnected { id: b, by_peer: false }));
    assert_eq!(pair.a.poll_event(), Some(Event::Disconnected { id: a, by_peer: true }));
    assert_eq!(pair.a.poll_event(), None, "once");
    // Both the caller's and the called side's timers repeat while the reply is lost.
    assert_eq!(
        pair.log,
        [
            "a Req lost",
            "a Req",
            "b Rep lost",
            "a Req",
            "b Rep",
            "b Rep",
            "a Rtu lost",
            "b Rep",
            "a Rtu",
            "b Dreq lost",
            "b Dreq",
            "a Drep lost",
            "b Dreq",
            "a Drep",
        ],
    );
}

#[test]
fn a_request_that_is_thought_about_is_not_answered_twice() {
    let mut pair = Pair::new();
    pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    let b = requested(&mut pair.b);
    pair.later(TIMEOUT);
    pair.carry(|_| false);
    assert_eq!(pair.log, ["a Req", "a Req", "b Mra"]);
    assert_eq!(pair.b.poll_event(), None);
    // After the MRA the caller is patient: 4.096 us x 2^20 and its own timeout.
    pair.later(Duration::from_secs(4));
    pair.carry(|_| false);
    assert_eq!(pair.log.len(), 3);
    pair.b.accept(pair.now, b, &accept()).unwrap();
    pair.carry(|_| false);
    assert!(matches!(pair.a.poll_event(), Some(Event::Replied { .. })));
}

#[test]
fn data_that_overtakes_the_word_establishes() {
    let mut pair = Pair::new();
    let a = pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    let b = requested(&mut pair.b);
    pair.b.accept(pair.now, b, &accept()).unwrap();
    pair.carry(|_| false);
    pair.a.poll_event();
    pair.a.ready(a).unwrap();
    pair.carry(|m| matches!(m, Message::Rtu(_)));
    pair.b.traffic_came(b);
    assert_eq!(pair.b.poll_event(), Some(Event::Established { id: b }));
    assert_eq!(pair.b.next_deadline(), None);
    pair.b.traffic_came(b);
    assert_eq!(pair.b.poll_event(), None);
}

#[test]
fn refusals_say_why() {
    let mut pair = Pair::new();
    let a = pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    let b = requested(&mut pair.b);
    pair.b.reject(b, RejReason::INVALID_SERVICE_ID).unwrap();
    pair.carry(|_| false);
    assert_eq!(pair.a.poll_event(), Some(Event::Refused { id: a, reason: RejReason::INVALID_SERVICE_ID }));
    assert!(pair.a.is_empty() && pair.b.is_empty());
    assert_eq!(pair.b.reject(b, RejReason::CONSUMER), Err(CallError::State));

    // The caller may refuse an answer.
    let a = pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    let b = requested(&mut pair.b);
    pair.b.accept(pair.now, b, &accept()).unwrap();
    pair.carry(|_| false);
    assert!(matches!(pair.a.poll_event(), Some(Event::Replied { .. })));
    pair.a.reject(a, RejReason::CONSUMER).unwrap();
    pair.carry(|_| false);
    assert_eq!(pair.b.poll_event(), Some(Event::Refused { id: b, reason: RejReason::CONSUMER }));

    // No room, and an address that is not this side's.
    for _ in 0..4 {
        pair.a.ask_sidr(pair.now, peer(1, 2), ServiceId(1), [0; 92]).unwrap();
    }
    assert_eq!(pair.a.connect(pair.now, &call()), Err(CallError::TooMany(4)));
    let mut b = agent(2);
    let mut req = a_req();
    b.on_message(Instant::ZERO, peer(3, 1), 1, &Message::Req(req));
    let Message::Rej(rej) = said(&b.poll_transmit().unwrap()) else { panic!() };
    assert_eq!((rej.reason, rej.of, rej.remote_id), (RejReason::INVALID_GID, MraOf::Req, req.local_id));
    for n in 0..5 {
        (req.local_id, req.qpn) = (100 + n, Qpn::new(100 + n));
        b.on_message(Instant::ZERO, peer(2, 1), 1, &Message::Req(req));
    }
    let Message::Rej(rej) = said(&b.poll_transmit().unwrap()) else { panic!() };
    assert_eq!((rej.reason, rej.remote_id), (RejReason::NO_RESOURCES, 104));
}

#[test]
fn a_queue_pair_that_the_peer_has_forgotten_is_stale() {
    let (mut pair, _, b) = Pair::connected();
    // The peer starts anew, and its next connection has the same queue pair number.
    pair.a = Agent::new(AgentConfig {
        guid: 1,
        secret: (99 << 40) | 99,
        timeout: TIMEOUT,
        retries: 5,
        time_wait: TIMEOUT,
        max_connections: 4,
    });
    let a = pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    assert_eq!(pair.a.poll_event(), Some(Event::Refused { id: a, reason: RejReason::STALE }));
    assert_eq!(pair.b.poll_event(), Some(Event::Disconnected { id: b, by_peer: true }));
    pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    requested(&mut pair.b);
}

#[test]
fn silence_ends_a_call_after_all_retries() {
    let mut pair = Pair::new();
    let a = pair.a.connect(pair.now, &call()).unwrap();
    for _ in 0..6 {
        assert_eq!(pair.a.poll_event(), None);
        pair.carry(|_| true);
        pair.later(TIMEOUT);
    }
    assert_eq!(pair.a.poll_event(), Some(Event::TimedOut { id: a }));
    assert_eq!(pair.log, ["a Req lost"; 6]);

    // The called side tells the caller that it has given up.
    let mut pair = Pair::new();
    pair.a.connect(pair.now, &call()).unwrap();
    pair.carry(|_| false);
    let b = requested(&mut pair.b);
    pair.b.accept(pair.now, b, &accept()).unwrap();
    for _ in 0..6 {
        pair.carry(|_| true);
        pair.later(TIMEOUT);
    }
    assert_eq!(pair.b.poll_event(), Some(Event::TimedOut { id: b }));
    let rej = pair.b.poll_transmit().map(|out| said(&out));
    assert!(matches!(rej, Some(Message::Rej(r)) if r.reason == RejReason::TIMEOUT), "{rej:?}");

    // A peer that does not answer a DREQ is gone.
    let (mut pair, a, _) = Pair::connected();
    pair.a.disconnect(pair.now, a).unwrap();
    for _ in 0..6 {
        pair.carry(|_| true);
        pair.later(TIMEOUT);
    }
    assert_eq!(pair.a.poll_event(), Some(Event::Disconnected { id: a, by_peer: false }));
}

#[test]
fn names_that_nobody_knows() {
    let mut a = agent(1);
    let (from, tid) = (peer(1, 2), 77);
    let Message::Dreq(mut dreq) = dreq_of_vectors() else { panic!() };
    dreq.remote_id = 5;
    a.on_message(Instant::ZERO, from, tid, &Message::Dreq(dreq));
    let out = a.poll_transmit().unwrap();
    let Message::Drep(drep) = said(&out) else { panic!() };
    assert_eq!((out.mad.tid, drep.local_id, drep.remote_id), (tid, 5, dreq.local_id));
    let rep = Rep {
        local_id: 8,
        remote_id: 9,
        qkey: 0,
        qpn: Qpn::new(4),
        psn: Psn::new(0),
        responder_resources: 0,
        initiator_depth: 0,
        ack_delay: 0,
        failover: 0,
        flow_control: false,
        rnr_retry: 0,
        srq: false,
        ca_guid: 1,
        private: [0; 196],
    };
    a.on_message(Instant::ZERO, from, tid, &Message::Rep(rep));
    let Message::Rej(rej) = said(&a.poll_transmit().unwrap()) else { panic!() };
    assert_eq!((rej.of, rej.reason, rej.remote_id), (MraOf::Rep, RejReason::INVALID_COMM_ID, 8));
    // Others are no business of anybody.
    a.on_message(Instant::ZERO, from, tid, &Message::Rtu(Rtu { local_id: 1, remote_id: 2 }));
    assert!(a.poll_transmit().is_none() && a.poll_event().is_none() && a.is_empty());
}

fn dreq_of_vectors() -> Message {
    let (mut pair, a, _) = Pair::connected();
    pair.a.disconnect(pair.now, a).unwrap();
    said(&pair.a.poll_transmit().unwrap())
}

#[test]
fn a_disconnect_with_another_queue_pair_is_ignored() {
    let (mut pair, _, b) = Pair::connected();
    let Message::Dreq(mut dreq) = dreq_of_vectors() else { panic!() };
    dreq.qpn = Qpn::new(0x35);
    pair.b.on_message(pair.now, peer(2, 1), 1, &Message::Dreq(dreq));
    assert!(pair.b.poll_transmit().is_none() && pair.b.poll_event().is_none());
    dreq.qpn = Qpn::new(0x34);
    pair.b.on_message(pair.now, peer(2, 1), 1, &Message::Dreq(dreq));
    assert_eq!(pair.b.poll_event(), Some(Event::Disconnected { id: b, by_peer: true }));
}

#[test]
fn both_sides_disconnect_at_once() {
    let (mut pair, a, b) = Pair::connected();
    pair.a.disconnect(pair.now, a).unwrap();
    pair.b.disconnect(pair.now, b).unwrap();
    pair.carry(|_| false);
    assert!(matches!(pair.a.poll_event(), Some(Event::Disconnected { .. })));
    assert!(matches!(pair.b.poll_event(), Some(Event::Disconnected { .. })));
    assert_eq!((pair.a.poll_event(), pair.b.poll_event()), (None, None));
}

#[test]
fn a_datagram_service_is_asked_for() {
    let mut pair = Pair::new();
    let service = ServiceId::new(PortSpace::Udp, 7174);
    let a = pair.a.ask_sidr(pair.now, peer(1, 2), service, [1; 92]).unwrap();
    pair.carry(|_| true);
    pair.later(TIMEOUT);
    pair.carry(|_| false);
    let Some(Event::SidrRequested { from, tid, req }) = pair.b.poll_event() else { panic!() };
    assert_eq!((req.service, req.private), (service, [1; 92]));
    let rep = SidrRep {
        request_id: req.request_id,
        status: SidrStatus::Valid,
        qpn: Qpn::new(0x77),
        service,
        qkey: 0x0123_4567,
    };
    pair.b.reply_sidr(from, tid, rep);
    pair.carry(|_| false);
    assert_eq!(pair.a.poll_event(), Some(Event::SidrReplied { id: a, rep }));
    assert!(pair.a.is_empty());
}

/// Whatever is lost and doubled, both sides come to the same end, and nothing stays behind.
#[test]
fn any_loss_and_doubling() {
    for seed in 0..2000u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut draw = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut pair = Pair::new();
        let a = pair.a.connect(pair.now, &call()).unwrap();
        let (mut up_a, mut up_b, mut down_a, mut down_b, mut gave_up) = (false, false, false, false, false);
        for _ in 0..200 {
            pair.carry(|_| draw(10) < 3);
            for event in std::iter::from_fn(|| pair.a.poll_event()).collect::<Vec<_>>() {
                match event {
                    Event::Replied { id, .. } => {
                        pair.a.ready(id).unwrap();
                        up_a = true;
                    }
                    Event::Disconnected { .. } => down_a = true,
                    Event::TimedOut { .. } | Event::Refused { .. } => gave_up = true,
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            for event in std::iter::from_fn(|| pair.b.poll_event()).collect::<Vec<_>>() {
                match event {
                    Event::Requested { id, .. } => pair.b.accept(pair.now, id, &accept()).unwrap(),
                    Event::Established { id } => {
                        up_b = true;
                        if draw(2) == 0 {
                            pair.b.disconnect(pair.now, id).unwrap();
                        } else {
                            let _ = pair.a.disconnect(pair.now, a);
                        }
                    }
                    Event::Disconnected { .. } => down_b = true,
                    Event::TimedOut { .. } | Event::Refused { .. } => gave_up = true,
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            pair.later(Duration::from_millis(100 + draw(500)));
        }
        assert!(pair.b.is_empty(), "seed {seed}: {:?}", pair.b);
        assert!(gave_up || (up_a && up_b && down_b), "seed {seed}: {:?}", pair.log);
        assert!(gave_up || down_a || !pair.a.is_empty(), "seed {seed}");
    }
}
