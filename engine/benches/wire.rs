//! One packet through the frame code: `classify` and `verify_icrc` on receive, `stamp` and `seal`
//! on transmit.
//!
//! ```console
//! $ cargo bench -p roce-engine --bench wire
//! ```
#![allow(missing_docs, reason = "a program")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use roce_engine::units::{Psn, Qpn};
use roce_engine::wire::{DEFAULT_PKEY, Gid, MacAddr, Opcode, Route, Stamp, Template, classify};
use std::hint::black_box;
use std::net::Ipv4Addr;

const PAYLOADS: [usize; 3] = [64, 1024, 4096];
const STAMP: Stamp = Stamp {
    opcode: Opcode::RC_WRITE_MIDDLE,
    solicited: false,
    ack_req: false,
    pad: 0,
    psn: Psn::new(0x123456),
    tos: None,
};

fn template() -> Template {
    let route = Route {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        src: Gid::from(Ipv4Addr::new(198, 18, 0, 1)),
        dst: Gid::from(Ipv4Addr::new(198, 18, 0, 2)),
        tos: 0,
        hop_limit: 64,
        flow_label: 0,
        sport: 0xC000,
    };
    Template::new(&route, DEFAULT_PKEY, Qpn::new(0x12))
}

/// A whole packet with `payload` bytes in `slot`; its length.
fn build(template: &mut Template, slot: &mut [u8], payload: usize) -> usize {
    template.stamp(slot, &STAMP, payload);
    template.seal(slot, payload)
}

fn transmit(c: &mut Criterion) {
    let mut group = c.benchmark_group("stamp+seal");
    for payload in PAYLOADS {
        let (mut template, mut slot) = (template(), vec![0xA5; payload + 128]);
        group.throughput(Throughput::Bytes(payload as u64));
        group.bench_function(BenchmarkId::from_parameter(payload), |b| {
            b.iter(|| build(&mut template, black_box(&mut slot), payload));
        });
    }
    group.finish();
}

fn receive(c: &mut Criterion) {
    let mut group = c.benchmark_group("classify+verify");
    for payload in PAYLOADS {
        let mut slot = vec![0xA5; payload + 128];
        let len = build(&mut template(), &mut slot, payload);
        let frame = &slot[..len];
        group.throughput(Throughput::Bytes(payload as u64));
        group.bench_function(BenchmarkId::from_parameter(payload), |b| {
            b.iter(|| classify(black_box(frame)).map(|packet| packet.verify_icrc()) == Ok(true));
        });
    }
    group.finish();
}

fn classify_only(c: &mut Criterion) {
    let mut slot = vec![0xA5; 1024 + 128];
    let len = build(&mut template(), &mut slot, 1024);
    c.bench_function("classify", |b| {
        b.iter(|| classify(black_box(&slot[..len])).map(|packet| packet.bth.psn));
    });
}

criterion_group!(benches, transmit, receive, classify_only);
criterion_main!(benches);
