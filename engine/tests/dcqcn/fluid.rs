//! The fluid model: its fixed points, and a queue that real reaction points share.

use roce_engine::cc::{DcqcnParams, Preset, ReactionPoint};
use roce_engine::units::{Instant, Rate};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    fluid_fixed_points: Points,
}

#[derive(Deserialize)]
struct Points {
    rows: Vec<Row>,
}

#[allow(non_snake_case, reason = "the names in the file")]
#[derive(Clone, Debug, Deserialize)]
struct Row {
    C_bps: f64,
    N: u32,
    Kmin_B: f64,
    Kmax_B: f64,
    Pmax: f64,
    p: f64,
    alpha: f64,
    rate_bps: f64,
    target_minus_rate_bps: f64,
    queue_B: f64,
}

/// Bytes of a packet of the model.
const PACKET: f64 = 1000.0;
/// Time between CNPs of a queue pair, in seconds.
const TAU: f64 = 50e-6;

fn rows() -> Vec<Row> {
    let file: File = serde_json::from_str(include_str!("../data/dcqcn-traces.json")).unwrap();
    file.fluid_fixed_points.rows
}

fn within(name: &str, got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= want * share, "{name}: {got} not {want}");
}

/// The knobs of the preset put into the equations have the fixed points of the table.
#[test]
fn the_preset_has_the_fixed_points_of_the_model() {
    for row in rows() {
        let k = Preset::Sigcomm15.params(Rate::from_bps(row.C_bps as u64));
        let packets = row.C_bps / 8.0 / PACKET;
        let rate = packets / f64::from(row.N);
        let increase = f64::from(k.rpg_ai_rate) * 1e6 / 8.0 / PACKET;
        let bytes = f64::from(k.rpg_byte_reset) * 64.0 / PACKET;
        let timer = f64::from(k.rpg_time_reset) * 1e-6 * rate;
        let f = f64::from(k.rpg_threshold);
        let parts = |p: f64| {
            let hit = |n: f64| 1.0 - (1.0 - p).powf(n);
            let per = |n: f64| p / ((1.0 - p).powf(-n) - 1.0);
            let alpha = hit(f64::from(k.dce_tcp_rtt) * 1e-6 * rate);
            let (a, b, d) = (hit(TAU * rate), per(bytes), per(timer));
            let (c, e) = (b * (1.0 - p).powf(f * bytes), d * (1.0 - p).powf(f * timer));
            let gap = TAU * increase * rate * (c + e) / a;
            (alpha, gap, rate * alpha * a / TAU - gap * rate * (b + d))
        };
        let (mut low, mut high) = (1e-7, 0.5);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if parts(middle).2 < 0.0 { low = middle } else { high = middle }
        }
        let (alpha, gap, _) = parts(low);
        within("p", low, row.p, 0.05);
        within("alpha", alpha, row.alpha, 0.05);
        within("rate", rate * PACKET * 8.0, row.rate_bps, 0.05);
        within("target - rate", gap * PACKET * 8.0, row.target_minus_rate_bps, 0.05);
        within("queue", row.Kmin_B + low / row.Pmax * (row.Kmax_B - row.Kmin_B), row.queue_B, 0.05);
    }
}

/// Reaction points that share a marking queue, packet by packet.  Each has its share of the line
/// within 5 %, and the line is full.  The model leaves out how rates spread about their mean: alpha
/// and queue come out a little higher than there.
#[test]
fn a_shared_queue_settles_near_the_fixed_point() {
    for row in rows().iter().filter(|row| row.C_bps == 40e9) {
        let got = share(row, 0.8);
        within("all rates", got.rates.iter().sum(), row.C_bps, 0.01);
        for rate in &got.rates {
            within("rate", *rate, row.rate_bps, 0.05);
        }
        within("alpha", got.alpha, row.alpha, 0.15);
        within("queue", got.queue, row.queue_B, 0.3);
    }
}

struct Settled {
    rates: Vec<f64>,
    alpha: f64,
    queue: f64,
}

/// `seconds` of `N` senders that always have something to send; the first quarter does not count.
fn share(row: &Row, seconds: f64) -> Settled {
    const STEP_NS: u64 = 100;
    const DELAY_NS: u64 = 4000;
    let line = Rate::from_bps(row.C_bps as u64);
    let params = DcqcnParams { rpg_min_rate: 1, ..Preset::Sigcomm15.params(line) };
    let n = row.N as usize;
    let mut points: Vec<_> = (0..n).map(|_| ReactionPoint::new(params, line)).collect();
    let mut notified = vec![0u64; n];
    let mut cnps: Vec<(u64, usize)> = Vec::new();
    let (mut queue, mut random, mut samples) = (0.0f64, 5u64, 0.0);
    let mut sum = Settled { rates: vec![0.0; n], alpha: 0.0, queue: 0.0 };
    let end = (seconds * 1e9) as u64;
    for t in (0..end).step_by(STEP_NS as usize) {
        let now = Instant::from_nanos(t);
        cnps.retain(|&(at, i)| {
            if at <= t {
                points[i].on_cnp(now);
            }
            at > t
        });
        let share = (queue - row.Kmin_B) / (row.Kmax_B - row.Kmin_B);
        let p = if share > 1.0 { 1.0 } else { (share * row.Pmax).max(0.0) };
        let counts = t >= end / 4;
        for i in 0..n {
            // Unlimited, it sends at the line rate.
            while points[i].hold(now).is_none() && (points[i].state(now).active || t % 200 == 0) {
                points[i].on_sent(now, PACKET as u64);
                queue += PACKET;
                if counts {
                    sum.rates[i] += PACKET * 8.0 / (seconds * 0.75);
                }
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = (random >> 11) as f64 / (1u64 << 53) as f64;
                if draw < p && (notified[i] == 0 || t >= notified[i] + (TAU * 1e9) as u64) {
                    notified[i] = t;
                    cnps.push((t + DELAY_NS, i));
                }
                if !points[i].state(now).active {
                    break;
                }
            }
        }
        queue = (queue - row.C_bps / 8e9 * STEP_NS as f64).max(0.0);
        if counts && t % 5000 == 0 {
            samples += 1.0;
            sum.queue += queue;
            sum.alpha += points.iter().map(|p| p.state(now).alpha).sum::<f64>() / n as f64;
        }
    }
    sum.queue /= samples;
    sum.alpha /= samples;
    sum
}
