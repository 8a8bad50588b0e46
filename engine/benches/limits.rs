//! What one core of this machine can do at most with the two things that every packet needs: a
//! CRC-32 over its bytes and a copy of its payload.  Prints one JSON object a line.
//!
//! ```console
//! $ cargo bench -p roce-engine --bench limits
//! ```
//!
//! The buffers are those of a flow that writes messages of 1 MiB: pieces of packet size, one
//! after the other, of 1 MiB that stays in the caches.  `scripts/bench` sets these numbers beside
//! those of `rocegen run`.
#![allow(missing_docs, reason = "a program")]

use roce_engine::io::{Clock, MonotonicClock};
use roce_engine::units::Duration;
use std::hint::black_box;

/// Bytes that are walked through.
const AREA: usize = 1 << 20;
/// How often each thing is measured, and for how long each time.
const ROUNDS: usize = 25;
const ROUND: Duration = Duration::from_millis(20);

fn main() {
    let source = pattern();
    let mut sink = vec![0u8; AREA];
    for bytes in [4096, 1024] {
        say("crc32", bytes, measure(|| crc(&source, bytes)));
        say("copy", bytes, measure(|| copy(&source, &mut sink, bytes)));
        say("copy+crc32", bytes, measure(|| copy_and_crc(&source, &mut sink, bytes)));
    }
}

/// Any bytes that are not all equal.
fn pattern() -> Vec<u8> {
    (0..AREA as u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect()
}

/// The CRC of every piece of `bytes` bytes.
fn crc(source: &[u8], bytes: usize) {
    for piece in source.chunks_exact(bytes) {
        black_box(sum(black_box(piece)));
    }
}

/// A copy of every piece.
fn copy(source: &[u8], sink: &mut [u8], bytes: usize) {
    for (from, to) in source.chunks_exact(bytes).zip(sink.chunks_exact_mut(bytes)) {
        to.copy_from_slice(black_box(from));
        black_box(&to);
    }
}

/// A copy of every piece, and the CRC of the copy: what sending a packet takes at the least, and
/// receiving it.
fn copy_and_crc(source: &[u8], sink: &mut [u8], bytes: usize) {
    for (from, to) in source.chunks_exact(bytes).zip(sink.chunks_exact_mut(bytes)) {
        to.copy_from_slice(black_box(from));
        black_box(sum(black_box(to)));
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes);
    hasher.finalize()
}

/// Nanoseconds that `pass`, one walk through [`AREA`], takes: the shortest round and the median
/// of all.
fn measure(mut pass: impl FnMut()) -> (f64, f64) {
    let mut clock = MonotonicClock::new();
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = clock.now();
            let mut passes = 0u32;
            loop {
                pass();
                passes += 1;
                let span = clock.now().since(start);
                if span >= ROUND {
                    break span.as_nanos() as f64 / f64::from(passes);
                }
            }
        })
        // The first one warms up.
        .skip(1)
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[0], rounds[ROUNDS / 2])
}

/// Prints a result; `best` and `median` are nanoseconds of a walk.
fn say(what: &str, bytes: usize, (best, median): (f64, f64)) {
    let ns = best * bytes as f64 / AREA as f64;
    let gbps = |walk: f64| AREA as f64 * 8.0 / walk;
    println!(
        r#"{{"what":"{what}","bytes":{bytes},"ns":{ns:.1},"gbps":{:.1},"median_gbps":{:.1}}}"#,
        gbps(best),
        gbps(median)
    );
}
