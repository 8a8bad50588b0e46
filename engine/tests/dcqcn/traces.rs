//! Worked traces: every event of each, step by step.

use roce_engine::cc::{Algorithm, DcqcnParams, Preset, ReactionPoint};
use roce_engine::units::{Instant, Rate};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct File {
    traces: Vec<Trace>,
}

#[derive(Deserialize)]
struct Trace {
    name: String,
    parameters: Value,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    t_ns: u64,
    event: String,
    rate_bps: f64,
    target_bps: f64,
    alpha: f64,
    time_stage: u32,
    #[serde(default)]
    byte_stage: u32,
}

/// The share by which a value may differ.
const TOLERANCE: f64 = 1e-4;

fn trace(name: &str) -> Trace {
    let text = include_str!("../data/dcqcn-traces.json");
    let file: File = serde_json::from_str(text).unwrap();
    file.traces.into_iter().find(|t| t.name == name).unwrap()
}

fn near(got: f64, want: f64) -> bool {
    (got - want).abs() <= want.abs() * TOLERANCE
}

/// Follows a trace.  The sender has always something to send; bytes are told as they leave, and the
/// byte counter must fire within two nanoseconds of when the trace says.
fn follow(name: &str, params: DcqcnParams) {
    let trace = trace(name);
    params.check().unwrap();
    let line = Rate::from_bps(trace.parameters["line_bps"].as_f64().unwrap() as u64);
    let mut point = ReactionPoint::new(params, line);
    let budget = u64::from(params.rpg_byte_reset) * 64;
    let (mut fluid, mut told, mut last) = (0.0, 0, 0);
    let mut checked = 0;
    for group in trace.events.chunk_by(|a, b| a.t_ns == b.t_ns) {
        let (t, now) = (group[0].t_ns, Instant::from_nanos(group[0].t_ns));
        let before = point.state(Instant::from_nanos(t.saturating_sub(1)));
        let bytes_per_ns = before.rate.bps() as f64 / 8e9;
        fluid += bytes_per_ns * (t - last) as f64;
        last = t;
        let is = |what: &str| group.iter().any(|e| e.event == what);
        if is("increase_byte") {
            assert!((fluid - budget as f64).abs() <= 2.0 * bytes_per_ns, "{name} {t}: {fluid} bytes");
            point.on_sent(now, budget - told);
            (fluid, told) = (0.0, 0);
        } else if budget != 0 && before.active {
            assert!(fluid < budget as f64 + 2.0 * bytes_per_ns, "{name} {t}: the byte counter is late");
            let so_far = (fluid as u64).min(budget - 1);
            point.on_sent(Instant::from_nanos(t.saturating_sub(1)), so_far - told);
            told = so_far;
        }
        if is("cnp") {
            point.on_cnp(now);
        }
        let state = point.state(now);
        if state.cuts != before.cuts {
            (fluid, told) = (0.0, 0);
        }
        let want = group.last().unwrap();
        let got = (state.rate.bps() as f64, state.target.bps() as f64, state.alpha);
        assert!(
            near(got.0, want.rate_bps),
            "{name} {t} {}: rate {} not {}",
            want.event,
            got.0,
            want.rate_bps
        );
        assert!(near(got.1, want.target_bps), "{name} {t}: target {} not {}", got.1, want.target_bps);
        // Before the first CNP there is no alpha.
        assert!(!state.active || near(got.2, want.alpha), "{name} {t}: alpha {} not {}", got.2, want.alpha);
        assert_eq!((state.time_stage, state.byte_stage), (want.time_stage, want.byte_stage), "{name} {t}");
        checked += 1;
    }
    assert!(checked > 20, "{name}: {checked} instants");
}

/// The knobs of a trace of the published algorithm.
fn paper(name: &str) -> DcqcnParams {
    let p = trace(name).parameters;
    let params = Preset::Sigcomm15.params(Rate::from_gbps(100));
    // The preset is what the trace was made with.
    let us = |key: &str| (p[key].as_f64().unwrap() / 1e3) as u32;
    let mbps = |key: &str| (p[key].as_f64().unwrap() / 1e6) as u32;
    assert_eq!((params.rpg_time_reset, params.dce_tcp_rtt), (us("T_increase_ns"), us("K_alpha_ns")));
    assert_eq!(f64::from(params.rpg_byte_reset) * 64.0, p["B_bytes"].as_f64().unwrap());
    assert_eq!((params.rpg_ai_rate, params.rpg_hai_rate), (mbps("rai_bps"), mbps("rhai_bps")));
    assert_eq!(
        (params.rpg_min_rate, u64::from(params.rpg_threshold)),
        (mbps("rmin_bps"), p["F"].as_u64().unwrap())
    );
    assert_eq!(1.0 - f64::from(params.dce_tcp_g) / 1024.0, p["g"].as_f64().unwrap());
    params
}

#[test]
fn t1_three_cnps_and_five_steps_of_fast_recovery() {
    follow("T1_paper_3cnp_fr5", paper("T1_paper_3cnp_fr5"));
}

#[test]
fn t1b_three_cnps_and_four_steps_of_fast_recovery() {
    let params = DcqcnParams { full_fast_recovery: false, ..paper("T1b_paper_3cnp_fr4") };
    follow("T1b_paper_3cnp_fr4", params);
}

#[test]
fn t2_twenty_cnps_reach_the_lowest_rate() {
    follow("T2_paper_20cnp_minrate", paper("T2_paper_20cnp_minrate"));
}

#[test]
fn t3_the_byte_counter_and_hyper_increase() {
    follow("T3_paper_2cnp_hyper", paper("T3_paper_2cnp_hyper"));
}

#[test]
fn t4_the_hpcc_simulator() {
    let params = Preset::Hpcc.params(Rate::from_gbps(100));
    let p = trace("T4_hpcc_ns3_mlx_20cnp").parameters;
    assert_eq!(params.algorithm, Algorithm::Hpcc);
    let got = [
        params.dce_tcp_rtt * 1000,
        params.rate_reduce_monitor_period * 1000,
        params.rpg_time_reset * 1000,
        params.rpg_threshold,
        params.rpg_ai_rate * 1_000_000,
        params.rpg_hai_rate * 1_000_000,
        params.rpg_min_rate * 1_000_000,
    ];
    let want = [
        "alpha_update_ns",
        "rate_decrease_check_ns",
        "increase_timer_ns",
        "fast_recovery_times",
        "rai_bps",
        "rhai_bps",
        "rmin_bps",
    ];
    assert_eq!(got, want.map(|key| p[key].as_f64().unwrap() as u32));
    follow("T4_hpcc_ns3_mlx_20cnp", params);
}

#[test]
fn t5_the_knobs_of_nvidia() {
    let params = Preset::Nvidia.params(Rate::from_gbps(100));
    let p = trace("T5_nvidia_knobs_20cnp").parameters;
    for (key, got) in [
        ("dce_tcp_g", params.dce_tcp_g),
        ("dce_tcp_rtt_us", params.dce_tcp_rtt),
        ("rate_reduce_monitor_period_us", params.rate_reduce_monitor_period),
        ("rpg_time_reset_us", params.rpg_time_reset),
        ("rpg_byte_reset_units64B", params.rpg_byte_reset),
        ("rpg_threshold", params.rpg_threshold),
        ("rpg_ai_rate_mbps", params.rpg_ai_rate),
        ("rpg_hai_rate_mbps", params.rpg_hai_rate),
        ("rpg_gd", params.rpg_gd),
        ("rpg_min_dec_fac_pct", params.rpg_min_dec_fac),
        ("rpg_min_rate_mbps", params.rpg_min_rate),
        ("initial_alpha_value", params.initial_alpha_value),
        ("rate_to_set_on_first_cnp", params.rate_to_set_on_first_cnp),
        ("clamp_tgt_rate", params.clamp_tgt_rate.into()),
        ("clamp_tgt_rate_after_time_inc", params.clamp_tgt_rate_after_time_inc.into()),
    ] {
        assert_eq!(p[key].as_u64(), Some(got.into()), "{key}");
    }
    follow("T5_nvidia_knobs_20cnp", params);
}
