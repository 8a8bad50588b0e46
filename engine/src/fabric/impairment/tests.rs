use super::super::edit;
use super::super::rule::{Chance, PacketClass, Way};
use super::super::stream::tests::frame;
use super::*;
use crate::units::{Duration, Qpn};
use crate::wire::{Opcode, classify};
use std::net::IpAddr;

const FIRST: u32 = 0xFF_FF00;

fn stream(backward: bool) -> Stream {
    Stream {
        dest: Gid::from("198.18.0.2".parse::<IpAddr>().unwrap()),
        dest_qpn: Qpn::new(0x11),
        flow: 0,
        qp: 3,
        backward,
        first_request: Psn::new(FIRST),
        first_response: Psn::new(FIRST),
        window: 1024,
    }
}

fn judge(rules: Vec<Rule>) -> Impairment {
    Impairment::new(7, rules, vec![stream(false)], 10_000)
}

/// The `n`th data packet.
fn data(n: u32) -> Vec<u8> {
    frame(false, 0, Opcode::RC_SEND_ONLY, FIRST + n, 64)
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn chance(p: f64, action: Action) -> Rule {
    Rule { chance: Chance::new(p), ..Rule::always(action) }
}

#[test]
fn a_packet_by_flow_qp_psn_and_pass() {
    let rule = Rule {
        flow: Some(0),
        qp: Some(3),
        psn: Some(300),
        pass: Some(2),
        way: Way::Forward,
        ..Rule::always(Action::Drop)
    };
    let mut i = judge(vec![rule]);
    let mut dropped = Vec::new();
    for round in 1..=3 {
        // Past the wrap of the 24 bits.
        for n in 290..310 {
            if i.judge(at(n.into()), &data(n)).drop {
                dropped.push((round, n));
            }
        }
    }
    assert_eq!(dropped, [(2, 300)]);
    assert_eq!(i.log().events().len(), 1);
    assert_eq!(i.log().events()[0].to_string(), "qp 3 forth psn 300 pass 2 RC_SEND_ONLY drop rule 0");
    let misses = [
        Rule { flow: Some(1), ..rule },
        Rule { qp: Some(2), ..rule },
        Rule { way: Way::Backward, ..rule },
        Rule { class: PacketClass::Ack, ..rule },
        Rule { opcode: Some(Opcode::RC_SEND_FIRST), ..rule },
    ];
    let mut i = judge(misses.to_vec());
    assert!((0..4).all(|_| i.judge(at(0), &data(300)).is_plain()));
}

#[test]
fn requests_and_responses_have_passes_of_their_own() {
    let mut i = judge(vec![Rule { psn: Some(5), pass: Some(1), ..Rule::always(Action::Drop) }]);
    assert!(i.judge(at(0), &data(5)).drop);
    assert!(i.judge(at(0), &frame(false, 0, Opcode::RC_ACKNOWLEDGE, FIRST + 5, 4)).drop);
    assert!(!i.judge(at(0), &data(5)).drop);
}

#[test]
fn l06_drops_and_duplicates_are_counted_exactly() {
    let on = |psn: i64, action| Rule { psn: Some(psn), ..Rule::always(action) };
    let drops: Vec<Rule> = (0..10).map(|k| on(7 + 90 * k, Action::Drop)).collect();
    let doubles: Vec<Rule> = (0..10).map(|k| on(40 + 90 * k, Action::Duplicate)).collect();
    let in_turn = drops.iter().zip(&doubles).flat_map(|(a, b)| [*a, *b]).collect();
    let behind = doubles.iter().chain(&drops).copied().collect();
    for rules in [[drops.clone(), doubles.clone()].concat(), in_turn, behind] {
        let mut i = judge(rules);
        let (mut lost, mut doubled, mut out) = (0, 0, 0);
        for n in 0..1000 {
            let fate = i.judge(at(0), &data(n));
            lost += u64::from(fate.drop);
            doubled += u64::from(fate.duplicate);
            out += u64::from(!fate.drop) + u64::from(fate.duplicate);
        }
        assert_eq!((lost, doubled, out), (10, 10, 1000));
        assert_eq!((i.injected_of(ActionKind::Drop), i.injected_of(ActionKind::Duplicate)), (10, 10));
    }
}

#[test]
fn a_packet_that_is_dropped_is_not_also_doubled() {
    let rules = vec![Rule::always(Action::Duplicate), Rule { psn: Some(1), ..Rule::always(Action::Drop) }];
    let mut i = judge(rules);
    let fates: Vec<(bool, bool)> = (0..3)
        .map(|n| {
            let f = i.judge(at(0), &data(n));
            (f.drop, f.duplicate)
        })
        .collect();
    assert_eq!(fates, [(false, true), (true, false), (false, true)]);
    assert_eq!(i.injected(), [2, 1]);
}

#[test]
fn chance_depends_on_the_packet_and_not_on_the_order() {
    let rules = vec![chance(0.1, Action::Drop), chance(0.1, Action::Duplicate)];
    let forth: Vec<Fate> = {
        let mut i = judge(rules.clone());
        (0..2000).map(|n| i.judge(at(n.into()), &data(n))).collect()
    };
    let mut back: Vec<Fate> = {
        let mut i = judge(rules.clone());
        (0..2000).rev().map(|n| i.judge(at(9), &data(n))).collect()
    };
    back.reverse();
    assert_eq!(forth, back);
    let lost = forth.iter().filter(|f| f.drop).count();
    assert!((150..250).contains(&lost), "{lost}");
    // Another pass, another draw: nothing is lost for ever.
    let mut i = judge(rules.clone());
    assert!((0..2000).all(|n| (0..12).any(|_| !i.judge(at(0), &data(n)).drop)));
    let mut other = Impairment::new(8, rules, vec![stream(false)], 0);
    assert_ne!(forth, (0..2000).map(|n| other.judge(at(0), &data(n))).collect::<Vec<_>>());
    assert_eq!(other.log().missed(), other.injected().iter().sum::<u64>());
}

#[test]
fn chances_are_kept() {
    for p in [1e-3, 0.01, 0.3] {
        let mut i = judge(vec![chance(p, Action::Drop)]);
        let n = 200_000u32;
        for k in 0..n {
            let bytes = frame(false, 0, Opcode::RC_SEND_ONLY, FIRST + k, 0);
            i.judge(at(0), &bytes);
        }
        let (got, want) = (i.injected()[0] as f64, f64::from(n) * p);
        assert!((got - want).abs() < 5.0 * want.sqrt(), "{p}: {got}");
    }
}

#[test]
fn flipped_bits_make_the_icrc_wrong() {
    let mut i = judge(vec![Rule::always(Action::Corrupt(None))]);
    for n in 0..2000 {
        for opcode in [Opcode::RC_SEND_ONLY, Opcode::RC_ACKNOWLEDGE] {
            let mut bytes = frame(
                false,
                0,
                opcode,
                FIRST + n,
                if opcode == Opcode::RC_ACKNOWLEDGE { 4 } else { n as usize % 8 * 4 },
            );
            let fate = i.judge(at(0), &bytes);
            edit::flip(&mut bytes, fate.flip.unwrap());
            assert!(!classify(&bytes).unwrap().verify_icrc(), "{fate:?}");
        }
    }
}

#[test]
fn l04_a_masked_bit_changes_nothing() {
    // Byte 4 of the BTH, bit 0 of it.
    let mut i = judge(vec![Rule::always(Action::Corrupt(Some(32)))]);
    let mut bytes = data(7);
    let fate = i.judge(at(0), &bytes);
    edit::flip(&mut bytes, fate.flip.unwrap());
    let p = classify(&bytes).unwrap();
    assert!(p.verify_icrc() && p.bth.fecn);
}

#[test]
fn delays_and_marks() {
    let rules = vec![
        Rule { psn: Some(0), ..Rule::always(Action::Delay(Duration::from_nanos(50))) },
        Rule {
            psn: Some(1),
            ..Rule::always(Action::Reorder { packets: 3, at_most: Duration::from_nanos(9) })
        },
        Rule { psn: Some(2), ..Rule::always(Action::MarkCe) },
        Rule { psn: Some(2), ..Rule::always(Action::Corrupt(None)) },
    ];
    let mut i = judge(rules);
    assert_eq!(i.longest_hold(), Duration::from_nanos(50));
    assert_eq!(i.judge(at(7), &data(0)).hold, Some(Release { after: 0, at: at(57) }));
    assert_eq!(i.judge(at(7), &data(1)).hold, Some(Release { after: 3, at: at(16) }));
    let both = i.judge(at(7), &data(2));
    assert!(both.mark_ce && both.flip.is_none());
    assert_eq!(i.injected(), [1, 1, 1, 0]);
}

#[test]
fn what_is_not_ours_goes_on() {
    let mut i = judge(vec![Rule { flow: Some(0), ..Rule::always(Action::Drop) }]);
    assert!(i.judge(at(0), &[0; 60]).is_plain());
    assert!(i.judge(at(0), b"short").is_plain());
    // Another destination: the packets of no flow have one place, behind all streams.
    let fate = i.judge(at(0), &frame(true, 0, Opcode::RC_SEND_ONLY, 1, 8));
    assert!(fate.is_plain());
    assert_eq!((fate.stream, i.judged()), (1, 1));
}
