//! What a frame takes to go through a pair of DPDK rings, with nothing done to it: taken from the
//! pool, sent, received, given back.  Prints one JSON object a line.
//!
//! ```console
//! $ cargo bench -p dpdk-ffi --bench hop
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark may fail, and reads the clock"
)]

use arrayvec::ArrayVec;
use dpdk_ffi::{
    Eal, EalConfig, Hugepages, Mbuf, Mempool, Port, PortConfig, RxQueue, TxQueue, free_bulk, ring_pair,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Burst = ArrayVec<Mbuf, 32>;

/// How often each thing is measured, and for how long each time.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(60);
/// Bytes of a frame; none of them is touched.
const FRAME: usize = 60;

fn main() {
    let config = EalConfig { hugepages: Hugepages::Never, memory_mib: 64, ..EalConfig::default() };
    let eal = Eal::init(&config).unwrap();
    let pool = Mempool::create(&eal, "hop", 4096, 128, 2048, None, None).unwrap();
    let (a, b) = ring_pair(&eal, "hop", 1, 256, None).unwrap();
    let open = |id| {
        let mut port =
            Port::configure(&eal, id, &PortConfig::default(), std::slice::from_ref(&pool)).unwrap();
        port.start().unwrap();
        port
    };
    let (mut a, mut b) = (open(a), open(b));
    let (_, mut tx) = a.take_queue(0).unwrap();
    let (mut rx, _) = b.take_queue(0).unwrap();
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let pin = |index: usize| cores.get(index).is_some_and(|c| core_affinity::set_for_current(*c));

    pin(0);
    let token = eal.register_thread().unwrap();
    say("ring hop, one core", (0..ROUNDS).map(|_| alone(&pool, &mut tx, &mut rx)).collect());
    drop(token);

    if cores.len() < 2 {
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicU64::new(0));
    let receiver = {
        let (eal, stop, taken, core) = (eal.clone(), stop.clone(), taken.clone(), cores[1]);
        std::thread::spawn(move || {
            core_affinity::set_for_current(core);
            let _token = eal.register_thread().unwrap();
            let mut burst = Burst::new();
            while !stop.load(Ordering::Relaxed) {
                let n = rx.recv(&mut burst);
                taken.fetch_add(n as u64, Ordering::Relaxed);
                free_bulk(&mut burst);
            }
        })
    };
    let sender = {
        let (eal, stop, pool, core) = (eal.clone(), stop.clone(), pool.clone(), cores[0]);
        std::thread::spawn(move || {
            core_affinity::set_for_current(core);
            let _token = eal.register_thread().unwrap();
            let mut burst = Burst::new();
            while !stop.load(Ordering::Relaxed) {
                fill(&pool, &mut burst);
                tx.send(&mut burst);
            }
        })
    };
    let rounds = (0..ROUNDS).map(|_| {
        let (from, began) = (taken.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(ROUND);
        began.elapsed().as_nanos() as f64 / (taken.load(Ordering::Relaxed) - from).max(1) as f64
    });
    let rounds = rounds.collect();
    stop.store(true, Ordering::Relaxed);
    receiver.join().unwrap();
    sender.join().unwrap();
    say("ring hop, two cores", rounds);
}

/// Nanoseconds a frame when one core does all of it.
fn alone(pool: &Mempool, tx: &mut TxQueue, rx: &mut RxQueue) -> f64 {
    let (mut out, mut back) = (Burst::new(), Burst::new());
    let (mut frames, began) = (0, Instant::now());
    while began.elapsed() < ROUND {
        for _ in 0..64 {
            fill(pool, &mut out);
            tx.send(&mut out);
            frames += rx.recv(&mut back) as u64;
            free_bulk(&mut back);
        }
    }
    began.elapsed().as_nanos() as f64 / frames.max(1) as f64
}

fn fill(pool: &Mempool, burst: &mut Burst) {
    let from = burst.len();
    pool.alloc_bulk(burst, 32 - from);
    for frame in &mut burst[from..] {
        frame.set_len(FRAME);
    }
}

/// The best round, and the median.
fn say(what: &str, mut ns: Vec<f64>) {
    ns.sort_by(f64::total_cmp);
    println!(
        "{{\"what\": \"{what}\", \"bytes\": {FRAME}, \"ns\": {:.3}, \"median_ns\": {:.3}}}",
        ns[0],
        ns[ns.len() / 2]
    );
}
