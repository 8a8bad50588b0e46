//! What the equations say in closed form.

use roce_engine::cc::{Algorithm, DcqcnParams, Preset, ReactionPoint};
use roce_engine::units::{Duration, Instant, Rate};

const LINE: Rate = Rate::from_gbps(100);

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn paper() -> DcqcnParams {
    Preset::Sigcomm15.params(LINE)
}

fn gbps(point: &ReactionPoint, at: Instant) -> (f64, f64) {
    let state = point.state(at);
    (state.rate.as_gbps(), state.target.as_gbps())
}

#[test]
fn alpha_decays_by_a_constant_share() {
    for (name, preset) in Preset::ALL {
        // Increases are put off: at the line rate there is no limiter and no alpha.
        let params = DcqcnParams { rpg_time_reset: 131_071, rpg_byte_reset: 0, ..preset.params(LINE) };
        let mut point = ReactionPoint::new(params, LINE);
        point.on_cnp(us(0));
        let first = if params.algorithm == Algorithm::Sigcomm15 {
            1.0
        } else {
            f64::from(params.initial_alpha_value) / 1024.0
        };
        let keep = f64::from(params.dce_tcp_g) / 1024.0;
        for k in [1, 2, 12, 100, 1000] {
            let at = us(u64::from(params.dce_tcp_rtt) * k);
            let want = (first * keep.powi(k as i32)).max(f64::from(params.min_alpha_value) / 1024.0);
            let got = point.state(at).alpha;
            assert!((got - want).abs() <= want * 1e-9, "{name} after {k} updates: {got} not {want}");
        }
        // An hour later it is gone, and asking did not take an hour.
        let floor = f64::from(params.min_alpha_value) / 1024.0;
        let state = point.state(us(3_600_000_000));
        assert!(state.alpha == floor || !state.active, "{name}: {state:?}");
    }
}

#[test]
fn alpha_rises_to_one_when_every_update_sees_a_cnp() {
    let params = DcqcnParams { initial_alpha_value: 1, ..DcqcnParams::NVIDIA };
    let mut point = ReactionPoint::new(params, LINE);
    point.on_cnp(us(0));
    for k in 1..=400u64 {
        point.on_cnp(us(k));
        let want = 1.0 - (1023.0 / 1024.0) * (1019.0f64 / 1024.0).powi(k as i32);
        let got = point.state(us(k)).alpha;
        assert!((got - want).abs() < 1e-9, "{k}: {got} not {want}");
    }
}

#[test]
fn full_alpha_halves_the_rate() {
    let mut point = ReactionPoint::new(paper(), LINE);
    for n in 0..8u32 {
        point.on_cnp(us(50 * u64::from(n)));
        let want = 100.0 / f64::from(2u32 << n);
        let (rate, target) = gbps(&point, us(50 * u64::from(n)));
        assert!((rate - want).abs() < 1e-6 && (target - 2.0 * want).abs() < 1e-6, "{n}: {rate} {target}");
    }
}

#[test]
fn a_cut_after_k_idle_updates_takes_the_alpha_that_is_left() {
    for k in [0, 1, 5, 40] {
        let params = DcqcnParams { rpg_time_reset: 131_071, rpg_byte_reset: 0, ..paper() };
        let mut point = ReactionPoint::new(params, LINE);
        point.on_cnp(us(0));
        let at = us(55 * k + 54);
        point.on_cnp(at);
        let alpha = (255.0f64 / 256.0).powi(k as i32);
        let want = 50.0 * (1.0 - alpha / 2.0);
        let (rate, target) = gbps(&point, at);
        assert!((rate - want).abs() < 1e-6, "{k}: {rate} not {want}");
        assert!((target - 50.0).abs() < 1e-6);
        let alpha = point.state(at).alpha;
        let want = (255.0f64 / 256.0).powi(k as i32 + 1) + 1.0 / 256.0;
        assert!((alpha - want).abs() < 1e-9, "{k}: alpha {alpha} not {want}");
    }
}

#[test]
fn recovery_halves_the_way_to_the_target() {
    // Case: one CNP at 10 Gb/s, no byte counter, increases every 300 us, five steps.
    let line = Rate::from_gbps(10);
    let params = DcqcnParams { rpg_time_reset: 300, rpg_byte_reset: 0, ..paper() };
    let mut point = ReactionPoint::new(params, line);
    point.on_cnp(us(0));
    let rates: Vec<f64> = (1..=6).map(|k| gbps(&point, us(300 * k)).0).collect();
    assert_eq!(rates, [7.5, 8.75, 9.375, 9.6875, 9.84375, 9.921875]);
    for k in 0..200 {
        let (rate, target) = gbps(&point, us(300 * k));
        assert!(rate <= target && target <= 10.0, "{k}: {rate} {target}");
    }
    // From there to the top and no further: then nothing is limited any more.
    let state = point.state(us(300 * 200));
    assert_eq!((state.rate, state.target, state.active), (line, line, false));
}

#[test]
fn rpg_gd_ten_takes_all_of_alpha() {
    let params = DcqcnParams { rpg_gd: 10, rpg_min_dec_fac: 0, ..DcqcnParams::NVIDIA };
    let mut point = ReactionPoint::new(params, LINE);
    point.on_cnp(us(0));
    let alpha = 1023.0 / 1024.0 * (1019.0f64 / 1024.0).powi(4);
    let (rate, _) = gbps(&point, us(4));
    assert!((rate - 100.0 * (1.0 - alpha)).abs() < 1e-6, "{rate}");
    // No cut goes below the share that a cut must leave.
    let mut point = ReactionPoint::new(DcqcnParams { rpg_min_dec_fac: 70, ..params }, LINE);
    point.on_cnp(us(0));
    assert_eq!(gbps(&point, us(4)).0, 70.0);
}

#[test]
fn a_period_has_one_cut_however_many_cnps() {
    let mut point = ReactionPoint::new(DcqcnParams::NVIDIA, LINE);
    for ns in [0, 100, 900, 3999] {
        point.on_cnp(Instant::from_nanos(ns));
    }
    assert_eq!(point.state(us(3)).cuts, 0);
    assert_eq!(point.state(us(4)).cuts, 1);
    assert_eq!(point.state(us(8)).cuts, 1);
    // The same for the published algorithm, where a period is set.
    let mut point = ReactionPoint::new(DcqcnParams { rate_reduce_monitor_period: 4, ..paper() }, LINE);
    for ns in [0, 100, 900, 3999] {
        point.on_cnp(Instant::from_nanos(ns));
    }
    assert_eq!(point.state(us(4)).cuts, 1);
    point.on_cnp(us(4));
    assert_eq!(point.state(us(4)).cuts, 2);
}

#[test]
fn the_first_cnp_can_set_the_rate() {
    for params in [DcqcnParams::NVIDIA, paper()] {
        let params = DcqcnParams { rate_to_set_on_first_cnp: 20_000, ..params };
        let mut point = ReactionPoint::new(params, LINE);
        point.on_cnp(us(7));
        assert_eq!(gbps(&point, us(7)), (20.0, 20.0));
        point.on_cnp(us(100));
        assert!(gbps(&point, us(110)).0 < 20.0);
    }
}

#[test]
fn losses_count_where_slow_restart_is_on() {
    let mut point = ReactionPoint::new(paper(), LINE);
    point.on_loss(us(1));
    assert!(!point.state(us(1)).active);
    let mut point = ReactionPoint::new(DcqcnParams { slow_restart: true, ..paper() }, LINE);
    point.on_loss(us(1));
    assert_eq!(gbps(&point, us(1)), (50.0, 100.0));
}

/// When the timers are looked at does not matter.
#[test]
fn asking_changes_nothing() {
    for (name, preset) in Preset::ALL {
        let params = preset.params(LINE);
        let mut rarely = ReactionPoint::new(params, LINE);
        let mut often = rarely.clone();
        let mut t = 0;
        for step in 0..300u64 {
            let next = t + 1 + (step * step * 7919) % 90_000;
            for ns in (t..next).step_by(777) {
                let _ = often.hold(Instant::from_nanos(ns));
            }
            t = next;
            let now = Instant::from_nanos(t);
            if step % 3 == 0 {
                rarely.on_cnp(now);
                often.on_cnp(now);
            }
            assert_eq!(rarely.state(now), often.state(now), "{name} at {now:?}");
        }
    }
}

/// Packets sent in a second at a rate that DCQCN holds.
#[test]
fn the_limiter_keeps_the_rate() {
    for mbps in [100, 1_000, 25_000, 98_000] {
        let params = DcqcnParams {
            rate_to_set_on_first_cnp: mbps,
            rpg_max_rate: mbps,
            rpg_byte_reset: 0,
            algorithm: Algorithm::Hpcc,
            ..Preset::Hpcc.params(LINE)
        };
        let params = DcqcnParams { rpg_min_rate: mbps, ..params };
        let mut point = ReactionPoint::new(params, LINE);
        point.on_cnp(us(0));
        let (mut now, mut packets) = (Instant::ZERO, 0u64);
        // A poll loop that looks about once a microsecond.
        while now < us(1_000_000) {
            match point.hold(now) {
                Some(until) => now = Instant::from_nanos(until.as_nanos().max(now.as_nanos() + 900)),
                None => {
                    point.on_sent(now, 4202);
                    packets += 1;
                }
            }
        }
        let want = f64::from(mbps) * 1e6 / (4202.0 * 8.0);
        assert!((packets as f64 - want).abs() <= want * 0.001 + 1.0, "{mbps} Mb/s: {packets} not {want}");
    }
}

#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    let params = DcqcnParams { rpg_byte_reset: 0, ..paper() };
    let mut point = ReactionPoint::new(params, LINE);
    for n in 0..9 {
        point.on_cnp(us(1000 + n));
    }
    // 195.3125 Mb/s: a packet of 4202 bytes takes 172.1 us, of which lateness pays for half and 4 us.
    let bits = 4202.0 * 8.0;
    let rate = 195_312_500.0;
    point.on_sent(us(1010), 4202);
    let debt = bits - (bits / 2.0 + 4.096e-6 * rate) - 10e-6 * rate;
    // Half the rate, but not below 100 Mb/s: what is not paid for yet takes longer.
    point.on_cnp(us(1020));
    assert_eq!(point.state(us(1020)).rate, Rate::from_bps(100_000_000));
    let free = (1_020_000..).step_by(10).map(Instant::from_nanos);
    let free = free.take(100_000).find(|t| point.clone().hold(*t).is_none()).unwrap();
    // Two increases come in between: to 147.65625 Mb/s at 1075 us, to 171.484375 Mb/s at 1130 us.
    let after = (debt - 55e-6 * 100e6 - 55e-6 * 147_656_250.0) / 171_484_375.0 * 1e9;
    let want = 1_130_000.0 + after;
    assert!((free.as_nanos() as f64 - want).abs() <= 20.0, "{free:?} not {want}");
}
