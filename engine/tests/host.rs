//! A port as a host on its network: ARP, neighbour discovery, echo, management datagrams.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use roce_engine::cm::MAD_LEN;
use roce_engine::io::MonotonicClock;
use roce_engine::io::{Clock, mem};
use roce_engine::net::{Datagram, Host, HostConfig, Resolution, Subnet};
use roce_engine::transport::Verdict;
use roce_engine::units::{Duration, Instant, Qpn};
use roce_engine::verbs::{Completion, QpEvent};
use roce_engine::wire::{DropReason, Gid, MacAddr, Parts, classify};
use roce_engine::worker::{Application, Endpoint, EndpointConfig, Flow, Load, Worker};
use std::net::IpAddr;

const NOW: Instant = Instant::from_nanos(1_000_000);

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn config(n: u8) -> HostConfig {
    let subnets = [format!("198.18.0.{n}/24"), format!("2001:2::{n}/64")];
    HostConfig {
        mac: mac(n),
        addresses: subnets.iter().map(|a| a.parse().unwrap()).collect(),
        management: true,
        ..HostConfig::default()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Frames that wait in a host.
fn frames(host: &mut Host) -> Vec<Vec<u8>> {
    let mut buf = [0; 2048];
    std::iter::from_fn(|| host.poll_transmit(&mut buf).map(|len| buf[..len].to_vec())).collect()
}

/// Carries what `from` says to `to`; what became of the frames.
fn carry(from: &mut Host, to: &mut Host) -> Vec<Verdict> {
    frames(from).iter().map(|f| to.on_frame(NOW, f, None)).collect()
}

#[test]
fn neighbours_find_each_other() {
    for (theirs, vlan) in
        [("198.18.0.2", None), ("2001:2::2", None), ("198.18.0.2", Some(7)), ("2001:2::2", Some(7))]
    {
        let mut a = Host::new(HostConfig { vlan, ..config(1) });
        let mut b = Host::new(HostConfig { vlan, ..config(2) });
        assert_eq!(a.resolve(NOW, ip(theirs)), Resolution::Asked);
        assert_eq!(carry(&mut a, &mut b), [Verdict::Answered], "{theirs} {vlan:?}");
        let answers = frames(&mut b);
        assert!(answers.iter().all(|f| f.len() >= 60));
        for answer in answers {
            assert_eq!(a.on_frame(NOW, &answer, None), Verdict::Delivered);
        }
        assert_eq!(a.resolve(NOW, ip(theirs)), Resolution::Known(mac(2)));
        // Who was asked has learned as well.
        let own = if theirs.contains(':') { "2001:2::1" } else { "198.18.0.1" };
        assert_eq!(b.resolve(NOW, ip(own)), Resolution::Known(mac(1)));
        assert!(!a.has_output() && !b.has_output());
    }
}

#[test]
fn other_addresses_and_other_vlans_are_not_answered() {
    let mut a = Host::new(config(1));
    a.resolve(NOW, ip("198.18.0.3"));
    a.resolve(NOW, ip("2001:2::3"));
    let questions = frames(&mut a);
    for vlan in [None, Some(7)] {
        let mut b = Host::new(HostConfig { vlan, ..config(2) });
        for question in &questions {
            assert_eq!(b.on_frame(NOW, question, None), Verdict::Dropped(DropReason::NonRoce));
        }
        assert!(!b.has_output());
    }
    a.resolve(NOW, ip("198.18.0.2"));
    let mut tagged = Host::new(HostConfig { vlan: Some(7), ..config(2) });
    assert_eq!(carry(&mut a, &mut tagged), [Verdict::Dropped(DropReason::NonRoce)]);
}

#[test]
fn questions_are_repeated_until_they_are_given_up() {
    let mut a = Host::new(config(1));
    let mut now = NOW;
    a.resolve(now, ip("198.18.0.2"));
    let mut asked = frames(&mut a).len();
    while let Some(at) = a.next_deadline() {
        now = at;
        a.on_deadline(now);
        asked += frames(&mut a).len();
    }
    assert_eq!((asked, now.since(NOW)), (8, Duration::from_secs(2)));
    assert_eq!(a.resolve(now, ip("198.18.0.2")), Resolution::Absent);
}

#[test]
fn others_are_reached_by_the_router_or_not_at_all() {
    let mut a = Host::new(config(1));
    assert_eq!(a.resolve(NOW, ip("198.19.5.5")), Resolution::Absent);
    let gateways = vec![ip("198.18.0.254"), ip("2001:2::fe")];
    let fixed = vec![(ip("198.18.0.254"), mac(0xFE)), (ip("10.0.0.1"), mac(0x0A))];
    let mut a = Host::new(HostConfig { gateways, neighbours: fixed, ..config(1) });
    assert_eq!(a.resolve(NOW, ip("198.19.5.5")), Resolution::Known(mac(0xFE)));
    assert_eq!(a.resolve(NOW, ip("10.0.0.1")), Resolution::Known(mac(0x0A)));
    assert_eq!(a.resolve(NOW, ip("2001:3::1")), Resolution::Asked);
    let mut router = Host::new(HostConfig {
        mac: mac(0xFE),
        addresses: vec!["2001:2::fe/64".parse().unwrap()],
        ..HostConfig::default()
    });
    carry(&mut a, &mut router);
    carry(&mut router, &mut a);
    assert_eq!(a.resolve(NOW, ip("2001:3::1")), Resolution::Known(mac(0xFE)));
}

#[test]
fn at_start_everybody_is_told() {
    let mut a = Host::new(config(1));
    let mut b = Host::new(config(2));
    let mut mute = Host::new(config(2));
    for own in ["198.18.0.1", "2001:2::1"] {
        b.resolve(NOW, ip(own));
    }
    frames(&mut b);
    a.announce();
    let told = frames(&mut a);
    assert_eq!(told.len(), 2);
    for frame in &told {
        assert_eq!(b.on_frame(NOW, frame, None), Verdict::Delivered);
        // Nobody remembers strangers that call out.
        assert_eq!(mute.on_frame(NOW, frame, None), Verdict::Dropped(DropReason::NonRoce));
    }
    for own in ["198.18.0.1", "2001:2::1"] {
        assert_eq!(b.resolve(NOW, ip(own)), Resolution::Known(mac(1)));
    }
}

/// Echo requests of Linux's ping: 56 bytes over IPv4, 8 over IPv6.
#[test]
fn echo_is_answered() {
    let v4 = "020000000002020000000001080045000054a1b240004001\
              0cee\
              c6120001c6120002\
              0800\
              0000\
              12340001\
              000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637";
    let mut frame = hex(v4);
    let header = ones_sum(&frame[14..34]);
    let checksum = fix(&frame[24..26], header);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    let message = ones_sum(&frame[34..]);
    frame[36..38].copy_from_slice(&(!message).to_be_bytes());
    let mut b = Host::new(config(2));
    assert_eq!(b.on_frame(NOW, &frame, None), Verdict::Answered);
    let answer = frames(&mut b).pop().unwrap();
    assert_eq!((&answer[..6], &answer[6..12]), (&mac(1).0[..], &mac(2).0[..]));
    assert_eq!(
        (answer[23], &answer[26..30], &answer[30..34]),
        (1, &[198, 18, 0, 2][..], &[198, 18, 0, 1][..])
    );
    assert_eq!((answer[34], &answer[38..98]), (0, &frame[38..98]), "reply with the same data");
    assert_eq!((ones_sum(&answer[14..34]), ones_sum(&answer[34..98])), (0xFFFF, 0xFFFF));
    // With a wrong checksum, to another address, in pieces: nothing.
    for at in [40, 33, 20] {
        let mut wrong = frame.clone();
        wrong[at] ^= 0x20;
        assert_eq!(b.on_frame(NOW, &wrong, None), Verdict::Dropped(DropReason::NonRoce), "{at}");
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn ones_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += (u32::from(pair[0]) << 8) + pair.get(1).map_or(0, |b| u32::from(*b));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The checksum that makes a header right whose sum with `old` in its place is `sum`.
fn fix(old: &[u8], sum: u16) -> u16 {
    let old = u32::from(u16::from_be_bytes([old[0], old[1]]));
    let rest = (u32::from(sum) + 0xFFFF - old) % 0xFFFF;
    !(rest as u16)
}

#[test]
fn management_datagrams() {
    let mut a = Host::new(config(1));
    let mut b = Host::new(HostConfig { vlan: None, ..config(2) });
    let what = Datagram {
        mac: mac(2),
        remote: Gid::from(ip("198.18.0.2")),
        local: Gid::from(ip("198.18.0.1")),
        mad: core::array::from_fn(|i| i as u8),
    };
    assert!(a.send_management(&what));
    let frame = frames(&mut a).pop().unwrap();
    assert_eq!(frame.len(), 14 + 20 + 8 + 12 + 8 + MAD_LEN + 4);
    let packet = classify(&frame).unwrap();
    assert!(packet.verify_icrc());
    assert_eq!((packet.bth.dest_qp, packet.deth().unwrap().src_qp), (Qpn::GSI, Qpn::GSI));
    assert_eq!(b.on_management(&packet), Verdict::Delivered);
    let got = b.pop_management().unwrap();
    assert_eq!((got.mac, got.remote, got.local, got.mad), (mac(1), what.local, what.remote, what.mad));
    assert_eq!(b.pop_management(), None);

    let with = |change: &dyn Fn(&mut Parts)| {
        let mut parts = Parts::of(&packet).unwrap();
        change(&mut parts);
        parts.sealed().emit()
    };
    let cases: [(DropReason, Vec<u8>); 3] = [
        (DropReason::QkeyMismatch, with(&|p| p.deth.as_mut().unwrap().qkey = 1)),
        (DropReason::PkeyMismatch, with(&|p| p.bth.pkey = 0x8001)),
        (DropReason::LengthError, with(&|p| p.payload.truncate(252))),
    ];
    for (reason, frame) in cases {
        assert_eq!(b.on_management(&classify(&frame).unwrap()), Verdict::Dropped(reason));
    }
    let mut other = Host::new(config(3));
    assert_eq!(other.on_management(&packet), Verdict::Dropped(DropReason::WrongAddress));
    let mut none = Host::new(HostConfig { management: false, ..config(2) });
    assert_eq!(none.on_management(&packet), Verdict::Dropped(DropReason::NoQp));
    assert!(!none.send_management(&what));
    let taken = (0..1000).filter(|_| b.on_management(&packet) == Verdict::Delivered).count();
    assert_eq!(taken, 256, "nobody reads");
}

#[test]
fn subnets() {
    let near: Subnet = "198.18.0.1/15".parse().unwrap();
    assert!(near.contains(ip("198.19.255.255")) && !near.contains(ip("198.20.0.0")));
    assert!(!near.contains(ip("2001:2::1")));
    let all: Subnet = "198.18.0.1/0".parse().unwrap();
    assert!(all.contains(ip("8.8.8.8")));
    let six: Subnet = "2001:2::1/128".parse().unwrap();
    assert!(six.contains(ip("2001:2::1")) && !six.contains(ip("2001:2::2")));
    for wrong in ["198.18.0.1", "198.18.0.1/33", "224.0.0.1/4", "0.0.0.0/8", "x/8"] {
        assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
    }
}

struct Nothing;

impl Application<mem::MemPort> for Nothing {
    type Command = ();
    fn on_command(&mut self, _: Instant, _: &mut [Endpoint<mem::MemPort>], _: &Load, _: ()) -> Flow {
        Flow::Stop
    }
    fn on_completion(&mut self, _: Instant, _: usize, _: &mut Endpoint<mem::MemPort>, _: &Completion) {}
    fn on_event(&mut self, _: Instant, _: usize, _: &mut Endpoint<mem::MemPort>, _: Qpn, _: QpEvent) {}
    fn on_turn(&mut self, _: Instant, _: &mut [Endpoint<mem::MemPort>]) -> bool {
        false
    }
}

#[test]
fn endpoints_are_hosts() {
    let (a, b) = mem::pair(64, 2048);
    let endpoint = |port, n| {
        let mut endpoint =
            Endpoint::new(port, EndpointConfig { workers: 1, ..EndpointConfig::default() }, None);
        endpoint.set_host(Host::new(config(n)));
        endpoint
    };
    let mut worker = Worker::new(vec![endpoint(a, 1), endpoint(b, 2)], Nothing);
    let mut clock = MonotonicClock::new();
    let mut turn = |worker: &mut Worker<mem::MemPort, Nothing>| {
        worker.turn(clock.now());
    };
    let now = Instant::ZERO;
    let resolve = |worker: &mut Worker<mem::MemPort, Nothing>| {
        worker.endpoints_mut()[0].host_mut().unwrap().resolve(now, ip("198.18.0.2"))
    };
    assert_eq!(resolve(&mut worker), Resolution::Asked);
    assert_eq!(worker.next_wake(), Some(Instant::ZERO), "a question waits to be sent");
    for _ in 0..4 {
        turn(&mut worker);
    }
    assert_eq!(resolve(&mut worker), Resolution::Known(mac(2)));
    let datagram = Datagram {
        mac: mac(2),
        remote: Gid::from(ip("2001:2::2")),
        local: Gid::from(ip("2001:2::1")),
        mad: [7; MAD_LEN],
    };
    assert!(worker.endpoints_mut()[0].host_mut().unwrap().send_management(&datagram));
    turn(&mut worker);
    turn(&mut worker);
    let got = worker.endpoints_mut()[1].host_mut().unwrap().pop_management().unwrap();
    assert_eq!((got.mac, got.mad), (mac(1), datagram.mad));
    for endpoint in worker.endpoints() {
        assert!(endpoint.counters().is_balanced(), "{:?}", endpoint.counters());
    }
    let [a, b] = worker.endpoints() else { panic!() };
    assert_eq!((a.counters().tx_packets, a.counters().delivered), (2, 1));
    assert_eq!((b.counters().tx_packets, b.counters().answered, b.counters().delivered), (1, 1, 1));
}
