use super::*;
use crate::fabric::hash::FlowHash;
use crate::fabric::packet::Label;
use crate::fabric::topology::{Neighbour, Parts, Plan, Topology};
use proptest::prelude::*;
use std::collections::HashMap;

const RATE: Rate = Rate::from_gbps(100);
const LOSSLESS: Priority = Priority::ALL[3];
const LOSSY: Priority = Priority::ALL[0];
const FRAME: u32 = 1048;
const FOR_EVER: u64 = u64::MAX;

fn cable() -> Cable {
    Cable { rate: RATE, delay: Duration::from_micros(1), framing: Framing::ETHERNET }
}

fn switch() -> SwitchSpec {
    SwitchSpec {
        buffer: BufferSpec {
            total: 32 << 20,
            reserve: 4096,
            resume_offset: 3000,
            alpha_log2: -3,
            lossy_alpha_log2: 0,
            queue_limit: None,
        },
        lossless: LOSSLESS.bit(),
        headroom: None,
        max_frame: 4200,
        service: Service::default(),
        marking: None,
        seed: 7,
        watchdog: None,
    }
}

fn build(topology: Topology, switch: SwitchSpec) -> (Network<u64>, Plan) {
    let mut net = Network::default();
    let parts = Parts { edge: cable(), trunk: cable(), switch, same_seed: false };
    let plan = topology.build(&mut net, &parts);
    (net, plan)
}

fn label(from: u32, to: u32, priority: Priority, len: u32) -> Label {
    let gid = |n: u32| std::net::Ipv4Addr::from(0x0A00_0000 + n).into();
    let hash = FlowHash::of(gid(from), gid(to), 17, 0xC000, 4791);
    Label { to: Station(to), hash, len, priority, ect: true, ce: false }
}

/// Hosts that send as fast as their port takes, each `left` packets to another.
struct Senders {
    left: Vec<u64>,
    label: Vec<Label>,
    sent: u64,
}

impl Senders {
    fn fill(&mut self, net: &mut Network<u64>, station: Station) {
        let i = station.0 as usize;
        while self.left[i] != 0 && net.backlog(net.port_of(station)) < 2 {
            self.left[i] -= 1;
            self.sent += 1;
            net.send(station, self.label[i], self.sent);
        }
    }

    /// Runs until `end`; what came, by station, with its mark.
    fn run(&mut self, net: &mut Network<u64>, end: u64) -> HashMap<u32, Vec<(u64, bool)>> {
        let mut came: HashMap<u32, Vec<(u64, bool)>> = HashMap::new();
        for i in 0..self.left.len() {
            self.fill(net, Station(i as u32));
        }
        while let Some(what) = net.next(end) {
            match what {
                Occurrence::Arrived { station, label, freight } => {
                    assert_eq!(label.to, station);
                    came.entry(station.0).or_default().push((freight, label.ce));
                }
                Occurrence::Sent { station } => self.fill(net, station),
                other => panic!("{other:?}"),
            }
        }
        came
    }
}

/// `n` hosts send to the last one.
fn incast(n: u32, packets: u64, priority: Priority) -> Senders {
    let label = (0..=n).map(|i| label(i, n, priority, FRAME)).collect();
    let left = (0..=n).map(|i| if i < n { packets } else { 0 }).collect();
    Senders { left, label, sent: 0 }
}

fn ms(n: u64) -> u64 {
    n * 1_000_000_000
}

#[test]
fn a_packet_takes_as_long_as_its_bytes_and_its_way() {
    let spine = Topology::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 1, nics: 1 };
    for (topology, hops) in [(Topology::Direct, 1), (Topology::Single { hosts: 2 }, 2), (spine, 4)] {
        let (mut net, _) = build(topology, switch());
        net.send(Station(0), label(0, 1, LOSSLESS, FRAME), 9);
        assert!(matches!(net.next(FOR_EVER), Some(Occurrence::Sent { station: Station(0) })));
        let Some(Occurrence::Arrived { station: Station(1), freight: 9, .. }) = net.next(FOR_EVER) else {
            panic!("{topology:?}");
        };
        assert_eq!(net.now_ps(), hops * (1_000_000 + 80 * 1072));
        let totals = net.totals();
        assert_eq!((totals.sent, totals.delivered, totals.inside, totals.events), (1, 1, 0, hops));
    }
}

/// With a buffer of B, n senders and 1/8 of what is free, the queue stays where n ports use
/// (B - (n + 1) (headroom + reserve)) / (8 + n) each.
#[test]
fn pauses_hold_an_incast_at_its_plateau_and_lose_nothing() {
    for n in [2u32, 8, 16] {
        let spec = SwitchSpec { headroom: Some(37_500), ..switch() };
        let (mut net, plan) = build(Topology::Single { hosts: n + 1 }, spec);
        let mut senders = incast(n, 60_000 / u64::from(n), LOSSLESS);
        let mut came = senders.run(&mut net, ms(2));
        let egress = plan.ports.iter().find(|p| p.to == Neighbour::Station(Station(n))).unwrap().port;
        let queue = net.queued(egress, LOSSLESS) as f64;
        let each = ((32 << 20) - (u64::from(n) + 1) * (37_500 + 4096)) as f64 / f64::from(8 + n);
        let want = f64::from(n) * (each + 4096.0);
        assert!((queue / want - 1.0).abs() < 0.02, "{n}: {queue} not {want}");
        came.extend(senders.run(&mut net, FOR_EVER));
        let totals = net.totals();
        assert_eq!((totals.dropped, totals.inside), (0, 0));
        assert_eq!(totals.delivered, totals.sent);
        let pauses = |p: &crate::fabric::topology::SwitchPort| net.counters(p.port).priorities[3].pauses_sent;
        assert!(plan.ports.iter().map(pauses).sum::<u64>() > u64::from(n));
        let stopped: Duration = (0..n).map(|i| net.paused(net.port_of(Station(i)), LOSSLESS)).max().unwrap();
        assert!(stopped > Duration::from_micros(100), "{stopped}");
    }
}

/// The smallest headroom that is called enough is enough, and half of it is not.
#[test]
fn headroom_is_what_keeps_it_lossless() {
    let run = |headroom: Option<u64>| {
        let mut spec = SwitchSpec { headroom, max_frame: FRAME, ..switch() };
        // So small that the threshold falls to nothing.
        spec.buffer.total = 17 * (cable().headroom(FRAME) + 4096) + 10_000;
        let (mut net, _) = build(Topology::Single { hosts: 17 }, spec);
        incast(16, 500, LOSSLESS).run(&mut net, FOR_EVER);
        net.totals().dropped
    };
    assert_eq!(run(None), 0);
    assert!(run(Some(cable().headroom(FRAME) / 2)) > 0);
}

#[test]
fn without_pauses_an_incast_overflows() {
    let (mut net, plan) = build(Topology::Single { hosts: 9 }, SwitchSpec { lossless: 0, ..switch() });
    let mut senders = incast(8, 10_000, LOSSLESS);
    let came = senders.run(&mut net, FOR_EVER);
    let totals = net.totals();
    assert!(totals.dropped > 10_000 && totals.inside == 0);
    assert_eq!(totals.sent, totals.delivered + totals.dropped);
    assert_eq!(came[&8].len() as u64, totals.delivered);
    let dropped = |p: &crate::fabric::topology::SwitchPort| net.counters(p.port).priorities[3].tail_dropped;
    assert_eq!(plan.ports.iter().map(dropped).sum::<u64>(), totals.dropped);
    assert!(net.buffer(plan.switches[0].1).1 <= 32 << 20);
}

#[test]
fn packets_are_marked_as_the_queue_has_it() {
    let marking =
        Marking { kmin: 1 << 20, kmax: 1 << 20, pmax: 1.0, reference: None, priorities: LOSSLESS.bit() };
    let (mut net, _) =
        build(Topology::Single { hosts: 3 }, SwitchSpec { marking: Some(marking), ..switch() });
    let came = incast(2, 4000, LOSSLESS).run(&mut net, FOR_EVER);
    let marks: Vec<bool> = came[&2].iter().map(|(_, ce)| *ce).collect();
    // The queue grows by one packet for each that leaves.
    let first = marks.iter().position(|ce| *ce).unwrap() as u64;
    assert!((first * u64::from(FRAME)).abs_diff(1 << 20) < 4 * u64::from(FRAME), "{first}");
    let last = marks.iter().rposition(|ce| *ce).unwrap();
    assert!(marks[first as usize..=last].iter().all(|ce| *ce), "one threshold: no gaps");
    assert!((marks.len() - last) as u64 * u64::from(FRAME) < (1 << 20) + 4000);
    // Thresholds go with the rate of the port.
    assert_eq!(
        Marking { reference: Some(Rate::from_gbps(25)), ..marking }.at(RATE),
        Red::new(4 << 20, 4 << 20, 1.0)
    );
}

#[test]
fn strict_goes_first_and_weights_share_the_rest() {
    let mut weights = [1; 8];
    weights[6] = 0;
    weights[3] = 3;
    let service = Service { weights };
    let (mut net, plan) =
        build(Topology::Single { hosts: 4 }, SwitchSpec { service, lossless: 0, ..switch() });
    let priorities = [LOSSY, LOSSLESS, Priority::ALL[6]];
    let label = (0..3).map(|i| label(i as u32, 3, priorities[i], [9000, 1000, 2000][i])).collect();
    let mut senders = Senders { left: vec![100_000, 100_000, 600, 0], label, sent: 0 };
    let egress = plan.ports[3].port;
    senders.run(&mut net, ms(1) / 10);
    let strict = net.counters(egress).priorities;
    assert!(strict[6].tx_packets > 590 || strict[0].tx_packets + strict[3].tx_packets < 20, "{strict:?}");
    let early = net.counters(egress).priorities.map(|p| p.tx_packets);
    senders.run(&mut net, ms(1));
    let late = net.counters(egress).priorities.map(|p| p.tx_packets);
    let bytes = |i: usize, len: u64| ((late[i] - early[i]) * len) as f64;
    let ratio = bytes(3, 1000) / bytes(0, 9000);
    assert!((ratio / 3.0 - 1.0).abs() < 0.03, "{ratio}");
}

/// A station that never reads stops its switch, which stops the sender; the watchdog ends it.
#[test]
fn a_storm_spreads_and_the_watchdog_ends_it() {
    for dog in [false, true] {
        let watchdog = dog
            .then_some(Watchdog { detect: Duration::from_micros(500), restore: Duration::from_micros(500) });
        let mut spec = SwitchSpec { watchdog, ..switch() };
        spec.buffer.total = 2 << 20;
        let (mut net, plan) = build(Topology::Dumbbell { left: 2, right: 2 }, spec);
        // 0 -> 2, which is stuck; 1 -> 3, the victim: both cross the trunk.
        let label = vec![
            label(0, 2, LOSSLESS, FRAME),
            label(1, 3, LOSSLESS, FRAME),
            label(2, 0, LOSSLESS, FRAME),
            label(3, 1, LOSSLESS, FRAME),
        ];
        let mut senders = Senders { left: vec![1 << 40, 1 << 40, 0, 0], label, sent: 0 };
        net.assert_pause(Station(2), LOSSLESS, true);
        let stuck = senders.run(&mut net, ms(2));
        let victim = stuck.get(&3).map_or(0, Vec::len);
        assert!(stuck.get(&2).is_none_or(|v| v.len() < 12), "what was under way");
        // Alone the victim would have had half of the trunk: 11,600 packets.
        assert_eq!(victim > 8_000, dog, "{victim}");
        net.assert_pause(Station(2), LOSSLESS, false);
        let after = senders.run(&mut net, ms(4));
        assert!(after[&2].len() > 5_000 && after[&3].len() > 5_000);
        let port = plan.ports.iter().find(|p| p.to == Neighbour::Station(Station(2))).unwrap().port;
        let dropped = net.counters(port).priorities[3].watchdog_dropped;
        assert_eq!(dropped > 0, dog);
        assert_eq!(net.totals().dropped, dropped);
        let paused = net.paused(port, LOSSLESS).as_nanos();
        assert!(paused.abs_diff(2_000_000) < 5_000, "renewed until the storm was over: {paused}");
    }
}

#[test]
fn flows_spread_over_the_spines_and_stay_on_theirs() {
    let topology = Topology::LeafSpine { leaves: 4, spines: 4, hosts_per_leaf: 8, nics: 2 };
    assert_eq!(topology.stations(), 32);
    let (mut net, plan) = build(topology, switch());
    // The two NICs of host 9 are on the third and fourth leaf.
    let leaf_of = |s: u32| plan.ports.iter().find(|p| p.to == Neighbour::Station(Station(s))).unwrap().switch;
    assert_eq!([0, 1, 14, 15, 16, 18, 19].map(leaf_of), [0, 1, 0, 1, 2, 2, 3]);
    let labels = (0..32).map(|i| label(i, (i + 16) % 32, LOSSLESS, FRAME)).collect();
    let mut senders = Senders { left: vec![200; 32], label: labels, sent: 0 };
    let came = senders.run(&mut net, FOR_EVER);
    assert_eq!(came.len(), 32);
    assert!(came.values().all(|list| list.len() == 200 && list.is_sorted()), "nothing overtakes");
    let up = |p: &&crate::fabric::topology::SwitchPort| p.switch < 4 && matches!(p.to, Neighbour::Switch(_));
    let used = plan.ports.iter().filter(up).filter(|p| net.counters(p.port).tx_packets > 0).count();
    assert!(used >= 8, "{used} of 16 ways up");
    assert!(plan.ports.iter().filter(up).all(|p| net.counters(p.port).tx_packets.is_multiple_of(200)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever is sent, where to, how long and of which priority: each packet has one fate, none
    /// overtakes another of its flow, lossless ones are never lost, and no buffer runs over.
    #[test]
    fn every_packet_has_one_fate(
        shape in 0u8..3,
        total in 1u64..5,
        alpha in -4i8..3,
        flows in prop::collection::vec((0u32..8, 0u32..8, 0u8..8, 64u32..4200, 1u64..400), 1..20),
    ) {
        let topology = match shape {
            0 => Topology::Single { hosts: 8 },
            1 => Topology::Dumbbell { left: 4, right: 4 },
            _ => Topology::LeafSpine { leaves: 4, spines: 3, hosts_per_leaf: 2, nics: 1 },
        };
        let mut spec = SwitchSpec { lossless: 0b1010, service: Service { weights: [1, 2, 3, 4, 0, 0, 0, 0] }, ..switch() };
        spec.buffer.total = 512 * 1024 + total * 64 * 1024;
        spec.buffer.alpha_log2 = alpha;
        let (mut net, plan) = build(topology, spec);
        let mut fresh = 0;
        let mut last: HashMap<(u32, u32, u8), u64> = HashMap::new();
        let mut lossless = 0u64;
        for (from, to, priority, len, count) in &flows {
            let priority = Priority::new(*priority).unwrap();
            for _ in 0..*count {
                fresh += 1;
                // The freight tells where from, and the order.
                net.send(Station(*from), label(*from, *to, priority, *len), fresh << 8 | u64::from(*from));
                lossless += u64::from(priority.bit() & 0b1010 != 0);
            }
        }
        while let Some(what) = net.next(FOR_EVER) {
            if let Occurrence::Arrived { station, label, freight } = what {
                let order = last.insert((freight as u32 & 0xFF, station.0, label.priority.get()), freight);
                prop_assert!(order.is_none_or(|before| before < freight));
                lossless -= u64::from(label.priority.bit() & 0b1010 != 0);
            }
            let t = net.totals();
            prop_assert_eq!(t.sent, t.delivered + t.dropped + t.inside);
        }
        prop_assert_eq!(net.totals().inside, 0);
        prop_assert_eq!(lossless, 0, "lost");
        for (_, id) in &plan.switches {
            let (used, peak) = net.buffer(*id);
            prop_assert!(used == 0 && peak <= spec.buffer.total);
        }
    }
}
