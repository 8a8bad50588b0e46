//! Ports in memory: everything here runs without rights and hugepages.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arrayvec::ArrayVec;
use dpdk_ffi::{
    ChecksumState, Eal, EalConfig, EalError, Hugepages, Mbuf, Mempool, PoolError, Port, PortConfig,
    PortError, PortId, RxQueue, Supply, TxQueue, free_bulk, ring_mesh, ring_pair, tsc, tsc_hz,
};

type Batch = ArrayVec<Mbuf, 32>;

/// One EAL for the process, one test at a time.
fn eal() -> (MutexGuard<'static, ()>, &'static Eal) {
    static ONE: Mutex<()> = Mutex::new(());
    static EAL: OnceLock<Eal> = OnceLock::new();
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let eal = EAL.get_or_init(|| {
        let cfg = EalConfig { hugepages: Hugepages::Never, memory_mib: 64, ..EalConfig::default() };
        Eal::init(&cfg).expect("EAL")
    });
    (guard, eal)
}

fn pool(eal: &Eal, name: &str, count: u32) -> Mempool {
    Mempool::create(eal, name, count, 64, 2048, None, None).expect("pool")
}

fn started(eal: &Eal, id: PortId, pool: &Mempool) -> Port {
    let mut port =
        Port::configure(eal, id, &PortConfig::default(), std::slice::from_ref(pool)).expect("configure");
    port.start().expect("start");
    port
}

fn pair(eal: &Eal, name: &str, size: u32, pool: &Mempool) -> (Port, Port) {
    let (a, b) = ring_pair(eal, name, 1, size, None).expect("ring pair");
    (started(eal, a, pool), started(eal, b, pool))
}

/// A frame whose length and bytes follow from its number.
fn write(frame: &mut Mbuf, number: u32) {
    let len = 60 + (number as usize * 37) % 1400;
    let room = frame.room_mut();
    room[..4].copy_from_slice(&number.to_be_bytes());
    for (i, byte) in room[4..len].iter_mut().enumerate() {
        *byte = (number as usize).wrapping_mul(31).wrapping_add(i) as u8;
    }
    frame.set_len(len);
}

fn check(frame: &Mbuf, number: u32) {
    let len = 60 + (number as usize * 37) % 1400;
    assert!(frame.is_contiguous());
    assert_eq!((frame.pkt_len(), frame.data().len()), (len, len), "frame {number}");
    assert_eq!(frame.data()[..4], number.to_be_bytes());
    let right = |(i, byte): (usize, &u8)| *byte == (number as usize).wrapping_mul(31).wrapping_add(i) as u8;
    assert!(frame.data()[4..].iter().enumerate().all(right), "bytes of frame {number}");
}

fn send_all(tx: &mut TxQueue, batch: &mut Batch, rx: &mut RxQueue, echo: &mut dyn FnMut(&mut RxQueue)) {
    while !batch.is_empty() {
        tx.send(batch);
        echo(rx);
    }
}

#[test]
fn ten_thousand_frames_there_and_back() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "echo", 2047);
    let (mut a, mut b) = pair(eal, "echo", 256, &pool);
    let (mut a_rx, mut a_tx) = a.take_queue(0).expect("queue");
    let (mut b_rx, mut b_tx) = b.take_queue(0).expect("queue");
    let (mut sent, mut back) = (0u32, 0u32);
    let mut returning = Batch::new();
    while back < 10_000 {
        let mut batch = Batch::new();
        let n = (10_000 - sent).min(32) as usize;
        assert_eq!(pool.alloc_bulk(&mut batch, n), n);
        for frame in &mut batch {
            write(frame, sent);
            sent += 1;
        }
        send_all(&mut a_tx, &mut batch, &mut b_rx, &mut |b_rx| {
            b_rx.recv(&mut returning);
            b_tx.send(&mut returning);
        });
        let mut arrived = Batch::new();
        a_rx.recv(&mut arrived);
        for frame in &arrived {
            check(frame, back);
            assert_eq!(frame.rx_ipv4_checksum(), ChecksumState::Unknown);
            assert_eq!(frame.vlan_stripped(), None);
            back += 1;
        }
        free_bulk(&mut arrived);
        assert!(arrived.is_empty());
    }
    assert_eq!(a.stats().tx_packets, 10_000);
    assert_eq!(b.stats().rx_packets, 10_000);
    drop((a_rx, a_tx, b_rx, b_tx, a, b));
    assert_eq!((pool.available(), pool.in_use()), (2047, 0));
}

#[test]
fn a_full_ring_returns_the_unsent_tail() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "full", 511);
    let (mut a, mut b) = pair(eal, "full", 40, &pool);
    let (_, mut tx) = a.take_queue(0).expect("queue");
    let (mut rx, _) = b.take_queue(0).expect("queue");
    let mut number = 0;
    let mut fill = |batch: &mut Batch| {
        pool.alloc_bulk(batch, 32);
        for frame in batch {
            write(frame, number);
            number += 1;
        }
    };
    let mut batch = Batch::new();
    fill(&mut batch);
    assert_eq!((tx.send(&mut batch), batch.len()), (32, 0));
    fill(&mut batch);
    assert_eq!((tx.send(&mut batch), batch.len()), (8, 24));
    assert_eq!(tx.send(&mut batch), 0);
    for (i, frame) in batch.iter().enumerate() {
        check(frame, 40 + i as u32);
    }
    // recv appends, and takes no more than there is room for.
    let mut out = Batch::new();
    pool.alloc_bulk(&mut out, 2);
    assert_eq!(rx.recv(&mut out), 30);
    check(&out[2], 0);
    check(&out[31], 29);
    assert_eq!(rx.recv(&mut out), 0, "no room");
    assert_eq!((tx.send(&mut batch), batch.len()), (24, 0));
    drop((out, batch));
    assert_eq!(pool.in_use(), 34);
    drop((a, b, tx, rx));
    assert_eq!(pool.available(), pool.count());
}

#[test]
fn frames_under_way_go_back_whichever_side_goes_first() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "orphan", 255);
    for a_first in [true, false] {
        let (mut a, mut b) = pair(eal, "orphan", 64, &pool);
        let ((a_rx, mut a_tx), (b_rx, mut b_tx)) = (a.take_queue(0).unwrap(), b.take_queue(0).unwrap());
        for tx in [&mut a_tx, &mut b_tx] {
            let mut batch = Batch::new();
            pool.alloc_bulk(&mut batch, 10);
            assert_eq!(tx.send(&mut batch), 10);
        }
        assert_eq!(pool.in_use(), 20);
        if a_first {
            drop((a, a_rx, a_tx));
            assert_eq!(pool.in_use(), 10);
            // The ring is still there: sending to nobody is no error.
            let mut batch = Batch::new();
            pool.alloc_bulk(&mut batch, 5);
            assert_eq!(b_tx.send(&mut batch), 5);
            drop((b, b_rx, b_tx));
        } else {
            // A port stays open while one of its queues is there.
            drop((a, b));
            assert_eq!(pool.in_use(), 20);
            drop((b_rx, b_tx, a_rx, a_tx));
        }
        assert_eq!(pool.available(), pool.count());
    }
    assert!(eal.ports().is_empty(), "virtual ports go with their owner");
}

#[test]
fn a_pair_that_nobody_configured_does_not_hold_its_name_for_ever() {
    let (_guard, eal) = eal();
    let (a, b) = ring_pair(eal, "unused", 2, 64, Some(0)).expect("pair");
    let error = ring_pair(eal, "unused", 2, 64, None).expect_err("name is taken").to_string();
    assert!(error.contains("File exists"), "{error}");
    assert!(eal.detach(a).expect_err("of a pair").to_string().contains("ring pair"));
    let pool = pool(eal, "unused", 63);
    drop((started(eal, a, &pool), started(eal, b, &pool)));
    assert!(eal.ports().is_empty());
    for (name, queues, size) in [("", 1, 64), ("x", 0, 64), ("x", 17, 64), ("x", 1, 0), ("a,b", 1, 64)] {
        assert!(matches!(ring_pair(eal, name, queues, size, None), Err(PortError::Ring { .. })), "{name}");
    }
}

#[test]
fn queues_are_given_away_once() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "once", 255);
    let (a, b) = ring_pair(eal, "once", 2, 64, None).expect("pair");
    let cfg = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
    let mut a = Port::configure(eal, a, &cfg, &[pool.clone(), pool.clone()]).expect("configure");
    assert!(a.take_queue(0).is_none(), "not started");
    a.start().expect("start");
    let first = a.take_queue(0).expect("queue 0");
    assert!(a.take_queue(0).is_none() && a.take_queue(2).is_none());
    assert_eq!((first.0.port(), first.0.queue(), first.1.queue()), (a.id(), 0, 0));
    let second = a.take_queue(1).expect("queue 1");
    let text = a.stop().expect_err("queues are out").to_string();
    assert_eq!(text, format!("port `{}` cannot be stopped while its queues are in use", a.info().name));
    drop((first, second));
    a.stop().expect("stop");
    a.start().expect("start again");
    assert!(a.take_queue(0).is_some(), "anew after a stop");
    assert!(matches!(
        Port::configure(eal, a.id(), &cfg, std::slice::from_ref(&pool)),
        Err(PortError::InUse { .. })
    ));
    assert!(matches!(eal.detach(a.id()), Err(EalError::Detach { .. })));
    drop((a, started(eal, b, &pool)));
}

#[test]
fn a_configuration_is_checked_before_it_is_applied() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "checked", 255);
    let (a, b) = ring_pair(eal, "checked", 1, 64, None).expect("pair");
    let with = |cfg: PortConfig, pools: &[Mempool]| Port::configure(eal, a, &cfg, pools).map(|_| ());
    let queues = PortConfig { rx_queues: 2, ..PortConfig::default() };
    assert!(matches!(with(queues, std::slice::from_ref(&pool)), Err(PortError::Queues { max_rx: 1, .. })));
    assert!(matches!(with(PortConfig::default(), &[]), Err(PortError::Pools { .. })));
    let small = PortConfig { mtu: Some(10), ..PortConfig::default() };
    assert!(matches!(
        with(small, std::slice::from_ref(&pool)),
        Err(PortError::MtuUnsupported { wanted: 10, .. })
    ));
    let large = PortConfig { mtu: Some(4200), ..PortConfig::default() };
    let big = Mempool::create(eal, "big", 63, 0, 9000, None, Some("ring_mp_mc")).expect("pool");
    assert_eq!(big.ops(), "ring_mp_mc");
    let port = Port::configure(eal, a, &large, &[big]).expect("the port is free after a refusal");
    assert_eq!(port.mtu(), 4200);
    assert_eq!(port.info().driver, "net_ring");
    assert!(port.info().is_virtual());
    assert!(!port.offload_names().contains(&"scatter"));
    drop(port);
    // One buffer is too small for such a frame: several, as the driver offers that.
    let port = Port::configure(eal, b, &large, std::slice::from_ref(&pool)).expect("scatter");
    assert!(port.offload_names().contains(&"scatter"));
    drop(port);
    let gone = Port::configure(eal, a, &PortConfig::default(), &[pool]).expect_err("closed");
    assert_eq!(gone, PortError::NotFound(a));
}

#[test]
fn links_of_rings_are_up_and_addresses_are_answered() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "link", 255);
    let (mut a, b) = pair(eal, "link", 64, &pool);
    let link = a.wait_link(Duration::from_secs(1)).expect("link");
    assert!(link.up);
    match a.set_mac([2, 0, 0, 0, 0, 7]) {
        Ok(()) => assert_eq!(a.mac(), [2, 0, 0, 0, 0, 7]),
        Err(PortError::Driver { errno, .. }) => assert_eq!(errno, dpdk_ffi::Errno::NOT_SUPPORTED),
        Err(other) => panic!("{other}"),
    }
    let ports = eal.ports();
    assert_eq!(ports.iter().map(|p| p.id).collect::<Vec<_>>(), [a.id(), b.id()]);
    assert!(ports[0].name.contains("link-a"), "{}", ports[0].name);
}

#[test]
fn pools_count_and_refuse() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "count", 100);
    assert_eq!(pool.ops(), "stack");
    let mut all = ArrayVec::<Mbuf, 128>::new();
    assert_eq!(pool.alloc_bulk(&mut all, 70), 70);
    assert_eq!((pool.available(), pool.in_use()), (30, 70));
    assert_eq!(pool.alloc_bulk(&mut all, 40), 30, "what is left");
    assert_eq!(pool.alloc_bulk(&mut all, 1), 0);
    assert!(all.iter().all(|m| m.pkt_len() == 0 && m.room() == 2048));
    all.truncate(10);
    assert_eq!(pool.in_use(), 10);
    free_bulk(&mut all);
    free_bulk(&mut all);
    assert_eq!(pool.in_use(), 0);

    let error = |name: &str, count, room| Mempool::create(eal, name, count, 0, room, None, None).unwrap_err();
    assert!(matches!(error("count", 10, 64), PoolError::Exists { .. }));
    assert!(matches!(error("", 10, 64), PoolError::Name { .. }));
    assert!(matches!(error("a-name-that-is-much-too-long", 10, 64), PoolError::Name { .. }));
    assert!(matches!(error("huge", 1 << 20, 9000), PoolError::OutOfMemory { needed_mib: 9000..10000, .. }));
    assert!(matches!(error("wide", 10, u16::MAX), PoolError::Refused { .. }));
    let ops = Mempool::create(eal, "ops", 10, 0, 64, None, Some("no_such"));
    assert!(matches!(ops, Err(PoolError::Refused { .. })));
    drop(pool);
    drop(self::pool(eal, "count", 10));
}

/// All of a pool, one by one, each empty whatever its last owner did to it.
#[test]
fn a_supply_gives_all_that_its_pool_has() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "supply", 150);
    for round in 0..3 {
        let mut supply = Supply::new(pool.clone());
        for reach in [0, 1082, 100_000] {
            let mut all: Vec<Mbuf> = std::iter::from_fn(|| supply.take(reach)).collect();
            assert_eq!(all.len(), 150, "round {round}");
            for frame in &mut all {
                assert_eq!((frame.pkt_len(), frame.room(), frame.is_contiguous()), (0, 2048, true));
                frame.room_mut()[..100].fill(0xEE);
                frame.set_len(100);
            }
            assert!(supply.take(0).is_none());
        }
        let one = supply.take(0);
        assert_eq!((one.is_some(), pool.in_use()), (true, 64), "it has 63 at hand");
        drop((one, supply));
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn a_frame_that_outlives_its_pool_is_still_whole() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "outlived", 31);
    let mut batch = Batch::new();
    pool.alloc_bulk(&mut batch, 1);
    drop(pool);
    write(&mut batch[0], 7);
    check(&batch[0], 7);
}

#[test]
fn shared_bytes_travel_without_a_copy_and_their_buffers_come_back() {
    let (_guard, eal) = eal();
    let (heads, pieces) = (pool(eal, "heads", 255), pool(eal, "pieces", 255));
    let bytes: Arc<[u8]> = (0..9000u32).map(|i| (i * 7) as u8).collect();
    let shared = pieces.share(&bytes);
    let (mut a, mut b) = pair(eal, "chains", 64, &heads);
    let (_, mut tx) = a.take_queue(0).expect("queue");
    let (mut rx, _) = b.take_queue(0).expect("queue");
    for round in 0..500usize {
        let (mut batch, mut parts) = (Batch::new(), Batch::new());
        assert_eq!((heads.alloc_bulk(&mut batch, 1), pieces.alloc_bulk(&mut parts, 2)), (1, 2));
        let (mut tail, middle) = (parts.pop().expect("a tail"), parts.pop().expect("a middle"));
        assert!(tail.is_contiguous() && tail.room() >= 2048, "what was attached before is gone");
        tail.room_mut()[..4].fill(round as u8);
        tail.set_len(4);
        batch[0].room_mut()[..60].fill(!round as u8);
        batch[0].set_len(60);
        batch[0].chain(middle, &shared, round..round + 4096, tail);
        assert_eq!(tx.send(&mut batch), 1);
        let mut got = Batch::new();
        assert_eq!(rx.recv(&mut got), 1);
        let frame = &got[0];
        assert_eq!((frame.pkt_len(), frame.is_contiguous()), (60 + 4096 + 4, false));
        assert_eq!(frame.data(), [!round as u8; 60]);
        let [middle, tail] = frame.middle_and_tail().expect("three segments");
        assert!(std::ptr::eq(middle, &bytes[round..round + 4096]), "the same bytes, not a copy");
        assert_eq!(tail, [round as u8; 4]);
        free_bulk(&mut got);
    }
    assert_eq!((heads.in_use(), pieces.in_use()), (0, 0));
    // A frame outlives everybody else who knows the bytes.
    let (mut batch, mut parts) = (Batch::new(), Batch::new());
    heads.alloc_bulk(&mut batch, 1);
    pieces.alloc_bulk(&mut parts, 2);
    batch[0].set_len(60);
    let (tail, middle) = (parts.pop().expect("a tail"), parts.pop().expect("a middle"));
    batch[0].chain(middle, &shared, 0..9000, tail);
    drop((shared, bytes, pieces));
    let [middle, _] = batch[0].middle_and_tail().expect("three segments");
    assert!(middle.iter().enumerate().all(|(i, b)| *b == (i as u32 * 7) as u8));
}

#[test]
fn a_pool_does_not_take_the_bytes_of_another() {
    let (_guard, eal) = eal();
    let (one, other) = (pool(eal, "one", 63), pool(eal, "other", 63));
    let shared = other.share(&Arc::from([5u8; 100]));
    let mut parts = Batch::new();
    assert_eq!(one.alloc_bulk(&mut parts, 3), 3);
    let [mut head, middle, tail] = parts.drain(..).collect::<Vec<_>>().try_into().expect("three");
    let chained =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| head.chain(middle, &shared, 0..100, tail)));
    assert!(chained.is_err());
}

#[test]
fn lengths_are_checked() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "lengths", 31);
    let mut batch = Batch::new();
    pool.alloc_bulk(&mut batch, 1);
    let frame = &mut batch[0];
    assert_eq!(frame.room_mut().len(), 2048);
    frame.set_len(2048);
    frame.data_mut()[2047] = 9;
    let mut copy = [0; 3000];
    assert_eq!(frame.copy_to(&mut copy), 2048);
    assert_eq!((copy[2047], frame.copy_to(&mut copy[..5])), (9, 5));
    frame.linearize().expect("one segment is linear");
    let too_long = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| frame.set_len(2049)));
    assert!(too_long.is_err());
    assert_eq!(frame.pkt_len(), 2048);
}

#[test]
fn threads_have_numbers_of_their_own() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "threads", 1023);
    let both_registered = std::sync::Barrier::new(2);
    let worker = || {
        let token = eal.register_thread().expect("register");
        let again = eal.register_thread().expect("register again");
        assert_eq!(token.lcore(), again.lcore());
        both_registered.wait();
        for _ in 0..200 {
            let mut batch = Batch::new();
            assert_eq!(pool.alloc_bulk(&mut batch, 32), 32);
        }
        token.lcore()
    };
    let numbers = std::thread::scope(|s| {
        let (one, two) = (s.spawn(worker), s.spawn(worker));
        [one.join().unwrap(), two.join().unwrap()]
    });
    assert_ne!(numbers[0], numbers[1]);
    assert_eq!(pool.available(), 1023);
    // Nothing stays in a cache that no thread reaches.
    let mut all = ArrayVec::<Mbuf, 1023>::new();
    assert_eq!(pool.alloc_bulk(&mut all, 1023), 1023);
}

#[test]
fn unregistered_threads_may_free_what_others_allocated() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "strangers", 255);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..500 {
                    let mut batch = Batch::new();
                    pool.alloc_bulk(&mut batch, 16);
                    std::thread::scope(|s| s.spawn(move || drop(batch)).join().unwrap());
                }
            });
        }
    });
    assert_eq!(pool.available(), 255);
}

#[test]
fn null_ports_swallow_frames_and_unknown_devices_are_named() {
    let (_guard, eal) = eal();
    let pool = pool(eal, "null", 1023);
    let id = eal.attach("net_null0,no-rx=1").expect("net_null");
    let mut port = started(eal, id, &pool);
    assert_eq!(port.info().driver, "net_null");
    let (mut rx, mut tx) = port.take_queue(0).expect("queue");
    for _ in 0..100 {
        let mut batch = Batch::new();
        assert_eq!(pool.alloc_bulk(&mut batch, 32), 32);
        batch.iter_mut().for_each(|frame| frame.set_len(60));
        assert_eq!((tx.send(&mut batch), batch.len()), (32, 0));
    }
    let mut none = Batch::new();
    assert_eq!(rx.recv(&mut none), 0);
    assert_eq!(port.stats().tx_packets, 3200);
    let twice = eal.attach("net_null0,no-rx=1").expect_err("is there already").to_string();
    assert!(twice.contains("File exists"), "{twice}");
    drop((port, rx, tx));
    assert_eq!(pool.available(), 1023);

    let unused = eal.attach("net_null0").expect("its name is free again");
    eal.detach(unused).expect("detach");
    assert!(eal.detach(unused).is_err());

    let error = eal.attach("net_nosuch0").expect_err("unknown");
    assert!(matches!(error, EalError::DriverNotFound { .. }), "{error:?}");
    assert!(error.to_string().starts_with("device `net_nosuch0`: driver not found"), "{error}");
    assert!(error.is_environment());
    let refused = eal.attach("net_pcap0,rx_pcap=/nonexistent.pcap").expect_err("no file");
    assert!(matches!(refused, EalError::Attach { .. }), "{refused:?}");
    assert!(refused.to_string().contains("/nonexistent.pcap"), "{refused}");
    assert!(!refused.to_string().contains('\n'));
}

#[test]
fn the_clock_runs() {
    let (_guard, _eal) = eal();
    let hz = tsc_hz();
    assert!(hz > 100_000_000, "{hz}");
    let before = tsc();
    std::thread::sleep(Duration::from_millis(20));
    let ms = (tsc() - before) * 1000 / hz;
    assert!((19..500).contains(&ms), "{ms} ms");
}

#[test]
fn there_is_one_eal_in_a_process() {
    let (_guard, _eal) = eal();
    assert_eq!(Eal::init(&EalConfig::default()).expect_err("second"), EalError::AlreadyInitialised);
}

/// Every port of a mesh reaches every other one by the queue that leads there.
#[test]
fn ports_of_a_mesh_reach_each_other() {
    const PORTS: u16 = 4;
    let (_guard, eal) = eal();
    let pool = pool(eal, "mesh", 255);
    let ids = ring_mesh(eal, "mesh", PORTS, 16, None).expect("mesh");
    let queues = PORTS - 1;
    let config = PortConfig { rx_queues: queues, tx_queues: queues, ..PortConfig::default() };
    let pools = vec![pool.clone(); usize::from(queues)];
    let mut ports: Vec<Port> =
        ids.iter().map(|id| Port::configure(eal, *id, &config, &pools).expect("configure")).collect();
    ports.iter_mut().for_each(|p| p.start().expect("start"));
    let mut ends: Vec<Vec<(RxQueue, TxQueue)>> =
        ports.iter_mut().map(|p| (0..queues).map(|q| p.take_queue(q).expect("queue")).collect()).collect();
    // Queue q leads to port q, or one further from the own number on.
    let other = |own: usize, q: usize| if q < own { q } else { q + 1 };
    for (from, queues) in ends.iter_mut().enumerate() {
        for (q, (_, tx)) in queues.iter_mut().enumerate() {
            let mut batch = ArrayVec::<Mbuf, 4>::new();
            assert_eq!(pool.alloc_bulk(&mut batch, 1), 1);
            write(&mut batch[0], (from * 10 + other(from, q)) as u32);
            assert_eq!(tx.send(&mut batch), 1);
        }
    }
    for (to, queues) in ends.iter_mut().enumerate() {
        for (q, (rx, _)) in queues.iter_mut().enumerate() {
            let mut got = ArrayVec::<Mbuf, 4>::new();
            rx.recv(&mut got);
            assert_eq!(got.len(), 1, "port {to} queue {q}");
            check(&got[0], (other(to, q) * 10 + to) as u32);
            free_bulk(&mut got);
        }
    }
    for ports in [1, 17] {
        assert!(matches!(ring_mesh(eal, "odd", ports, 16, None), Err(PortError::Ring { .. })), "{ports}");
    }
}
