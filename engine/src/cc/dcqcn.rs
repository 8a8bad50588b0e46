//! The reaction point of DCQCN: how fast a queue pair may send after it was told of congestion.

use super::params::{Algorithm, DcqcnParams};
use crate::units::{Duration, Instant, Rate};

/// Alpha 1.0.
const ONE: u64 = 1 << 63;
/// Fractional bits of a rate.
const RATE_BITS: u32 = 16;
/// Lateness that the limiter makes up for, in picoseconds: the poll loop looks once a turn.
const SLACK: u64 = 4_096_000;

/// How packets are spaced, where that is not as a poll loop over Ethernet has it but as another
/// simulator does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spacing {
    /// Bytes that count for a packet beside its payload; those of its frame at L1 when left out.
    pub headers: Option<u32>,
    /// The time of a packet is cut off to whole nanoseconds and begins when the packet leaves: neither
    /// is lateness made up for, nor does a new rate change when the next packet leaves.
    pub whole_ns: bool,
}

impl Spacing {
    #[inline]
    pub(super) fn bytes(self, l1: u64, payload: u32) -> u64 {
        self.headers.map_or(l1, |headers| u64::from(headers) + u64::from(payload))
    }
}

/// The rate of one queue pair under DCQCN.
///
/// Integer fixed point: rates have 16 fractional bits, alpha has 63.  Timers are evaluated when
/// somebody asks, in the order in which they were due, and nothing but the instants at which CNPs
/// came and bytes were sent decides the outcome.  Where several things are due at one instant, a
/// CNP goes first, then alpha, a cut, an increase by time, an increase by bytes.
///
/// Before the first CNP, and again once the rate has reached its maximum, nothing is limited and no
/// timer runs (`hpcc` keeps its state, as its simulator does).
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    params: DcqcnParams,
    spacing: Spacing,
    /// The highest rate.
    max: u64,
    rate: u64,
    target: u64,
    alpha: u64,
    active: bool,
    /// A CNP came since the last update of alpha.
    cnp_seen: bool,
    /// Nanoseconds: the next update of alpha, increase by time, cut; where the periods between cuts
    /// begin.
    alpha_at: u64,
    increase_at: u64,
    cut_at: u64,
    periods_from: u64,
    bytes_left: u64,
    time_stage: u32,
    byte_stage: u32,
    cuts: u64,
    /// Picoseconds: when the next packet may leave.
    next: u64,
}

/// What a reaction point has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcqcnState {
    /// The rate, at L1.
    pub rate: Rate,
    /// What the rate recovers to.
    pub target: Rate,
    /// The estimate of congestion, 0 to 1; 0 while nothing is limited.
    pub alpha: f64,
    /// Whether the rate limits what is sent.
    pub active: bool,
    /// Increases by time since the last cut.
    pub time_stage: u32,
    /// Increases by bytes since the last cut.
    pub byte_stage: u32,
    /// Cuts so far.
    pub cuts: u64,
}

impl ReactionPoint {
    /// A queue pair that sends as fast as `line` allows, counted at L1.  `params` have passed
    /// [`DcqcnParams::check`].
    pub fn new(params: DcqcnParams, line: Rate) -> ReactionPoint {
        let max = match params.rpg_max_rate {
            0 => line,
            mbps => line.min(mega(mbps)),
        };
        let max = fixed(max).max(1 << RATE_BITS);
        ReactionPoint {
            params,
            spacing: Spacing::default(),
            max,
            rate: max,
            target: max,
            alpha: 0,
            active: false,
            cnp_seen: false,
            alpha_at: u64::MAX,
            increase_at: u64::MAX,
            cut_at: u64::MAX,
            periods_from: 0,
            bytes_left: 0,
            time_stage: 0,
            byte_stage: 0,
            cuts: 0,
            next: 0,
        }
    }

    /// The same with packets spaced otherwise.
    #[must_use]
    pub fn spaced(self, spacing: Spacing) -> ReactionPoint {
        ReactionPoint { spacing, ..self }
    }

    #[inline]
    pub(super) fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// What it was made with.
    pub fn params(&self) -> &DcqcnParams {
        &self.params
    }

    /// A congestion notification came.
    pub fn on_cnp(&mut self, now: Instant) {
        let now = now.as_nanos();
        self.advance(now.saturating_sub(1));
        let first = !self.active;
        if first {
            self.activate(now);
        } else {
            self.settle_alpha(now.saturating_sub(1));
            self.cnp_seen = true;
        }
        if self.params.algorithm == Algorithm::Sigcomm15 {
            if first && self.params.rate_to_set_on_first_cnp != 0 {
                self.restart_increase(now);
            } else if first || now >= self.periods_from {
                self.cut(now);
                self.periods_from = now.saturating_add(self.period());
            }
            self.update_alpha(true);
            self.alpha_at = now.saturating_add(self.alpha_period());
            self.cnp_seen = false;
        } else if self.cut_at == u64::MAX {
            self.cut_at = self.border_after(now);
        }
    }

    /// Packets were lost: a sequence NAK, or no answer in time.
    pub fn on_loss(&mut self, now: Instant) {
        if self.params.slow_restart {
            self.on_cnp(now);
        }
    }

    /// Until when nothing may be sent, if that is not over at `now`; or when to ask again, since
    /// the rate may have changed by then.
    #[inline]
    pub fn hold(&mut self, now: Instant) -> Option<Instant> {
        if !self.active {
            return None;
        }
        self.advance(now.as_nanos());
        if !self.active || self.next <= picos(now) {
            return None;
        }
        let change = self.increase_at.min(self.cut_at);
        Some(Instant::from_nanos(self.next.div_ceil(1000).min(change)))
    }

    /// Bytes left, counted at L1.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        if !self.active {
            return;
        }
        self.advance(now.as_nanos());
        if !self.active {
            return;
        }
        let time = self.time_of(bytes);
        if self.spacing.whole_ns {
            self.next = picos(now).saturating_add(time - time % 1000);
        } else {
            let floor = picos(now).saturating_sub(SLACK + time / 2);
            self.next = self.next.max(floor).saturating_add(time);
        }
        self.count_bytes(now.as_nanos(), bytes);
    }

    /// What it has come to at `now`.
    pub fn state(&self, now: Instant) -> DcqcnState {
        let mut then = self.clone();
        then.advance(now.as_nanos());
        then.settle_alpha(now.as_nanos());
        DcqcnState {
            rate: whole(then.rate),
            target: whole(then.target),
            alpha: then.alpha as f64 / ONE as f64,
            active: then.active,
            time_stage: then.time_stage,
            byte_stage: then.byte_stage,
            cuts: then.cuts,
        }
    }

    /// When its rate changes next by itself.
    pub fn next_change(&self) -> Option<Instant> {
        let at = self.increase_at.min(self.cut_at);
        (at != u64::MAX).then(|| Instant::from_nanos(at))
    }

    fn activate(&mut self, now: u64) {
        self.active = true;
        self.alpha = of_1024(self.params.initial_alpha_value);
        self.cnp_seen = false;
        self.alpha_at = now.saturating_add(self.alpha_period());
        // The check of the HPCC simulator runs a nanosecond late.
        self.periods_from = now.saturating_add(u64::from(self.params.algorithm == Algorithm::Hpcc));
        self.next = 0;
        if self.params.rate_to_set_on_first_cnp != 0 {
            let rate = fixed(mega(self.params.rate_to_set_on_first_cnp)).min(self.max);
            self.set_rate(now, rate);
            self.target = self.rate;
        }
    }

    /// Does what is due up to `now`, that included.
    #[inline]
    fn advance(&mut self, now: u64) {
        loop {
            if self.cut_at <= self.increase_at && self.cut_at <= now {
                let at = self.cut_at;
                self.settle_alpha(at);
                self.cut(at);
                self.cut_at = u64::MAX;
            } else if self.increase_at <= now {
                let at = self.increase_at;
                self.increase_at = at.saturating_add(self.increase_period());
                self.time_stage = self.time_stage.saturating_add(1);
                self.increase(at);
            } else {
                return;
            }
        }
    }

    /// Brings alpha up to `now`, that included.
    fn settle_alpha(&mut self, now: u64) {
        let floor = of_1024(self.params.min_alpha_value);
        while self.alpha_at <= now {
            if self.alpha <= floor && !self.cnp_seen {
                // It has reached its lowest value: the updates that are left change nothing.
                let period = self.alpha_period();
                self.alpha_at = self.alpha_at.saturating_add(((now - self.alpha_at) / period + 1) * period);
                return;
            }
            self.alpha_at = self.alpha_at.saturating_add(self.alpha_period());
            let seen = core::mem::take(&mut self.cnp_seen);
            self.update_alpha(seen);
        }
    }

    fn update_alpha(&mut self, seen: bool) {
        let keep = u128::from(self.params.dce_tcp_g);
        let news = if seen { (1024 - keep) * u128::from(ONE) } else { 0 };
        let alpha = ((u128::from(self.alpha) * keep + news) >> 10) as u64;
        self.alpha = alpha.max(of_1024(self.params.min_alpha_value));
    }

    fn cut(&mut self, at: u64) {
        let p = &self.params;
        let increased = self.time_stage != 0 || self.byte_stage != 0;
        if p.clamp_tgt_rate || self.byte_stage != 0 || p.clamp_tgt_rate_after_time_inc && increased {
            self.target = self.rate;
        }
        let share = ONE - (self.alpha >> (p.rpg_gd - 10));
        let by_alpha = ((u128::from(self.rate) * u128::from(share)) >> 63) as u64;
        let least = (u128::from(self.rate) * u128::from(p.rpg_min_dec_fac) / 100) as u64;
        let floor = fixed(mega(p.rpg_min_rate)).min(self.max);
        self.set_rate(at, by_alpha.max(least).max(floor));
        self.cuts += 1;
        self.restart_increase(at);
    }

    fn restart_increase(&mut self, at: u64) {
        self.time_stage = 0;
        self.byte_stage = 0;
        self.increase_at = at.saturating_add(self.increase_period());
        self.bytes_left = self.byte_budget();
    }

    #[inline]
    fn count_bytes(&mut self, now: u64, bytes: u64) {
        if self.bytes_left == 0 {
            // No byte counter, or no cut yet.
            return;
        }
        if bytes < self.bytes_left {
            self.bytes_left -= bytes;
            return;
        }
        self.bytes_left = self.byte_budget();
        self.byte_stage = self.byte_stage.saturating_add(1);
        self.increase(now);
    }

    /// An increase, with its stage counted already.
    fn increase(&mut self, at: u64) {
        let p = self.params;
        let (most, least) = (self.time_stage.max(self.byte_stage), self.time_stage.min(self.byte_stage));
        let f = p.rpg_threshold;
        let (recovers, hyper) = match p.algorithm {
            Algorithm::Sigcomm15 => (most < f + u32::from(p.full_fast_recovery), least.saturating_sub(f)),
            Algorithm::Nvidia => (most < f, (least + 1).saturating_sub(f)),
            Algorithm::Hpcc => (most <= f, u32::from(most > f + 1)),
        };
        if !recovers {
            let step = match hyper {
                0 => fixed(mega(p.rpg_ai_rate)),
                n => fixed(mega(p.rpg_hai_rate)).saturating_mul(u64::from(n)),
            };
            self.target = self.target.saturating_add(step).min(self.max);
        }
        // Rounded up, so that it gets there.
        let rate = self.rate.midpoint(self.target) + ((self.rate ^ self.target) & 1);
        self.set_rate(at, rate.min(self.max));
        if self.rate == self.max && p.algorithm != Algorithm::Hpcc {
            self.active = false;
            self.alpha = 0;
            self.increase_at = u64::MAX;
            self.alpha_at = u64::MAX;
            self.cut_at = u64::MAX;
        }
    }

    /// What was sent and is not paid for yet is paid for at the new rate.
    fn set_rate(&mut self, at: u64, rate: u64) {
        let at = at.saturating_mul(1000);
        if self.next > at && !self.spacing.whole_ns {
            let debt = u128::from(self.next - at) * u128::from(self.rate) / u128::from(rate);
            self.next = at.saturating_add(u64::try_from(debt).unwrap_or(u64::MAX));
        }
        self.rate = rate;
    }

    /// Picoseconds that `bytes` take.
    #[inline]
    fn time_of(&self, bytes: u64) -> u64 {
        let bits = (u128::from(bytes) * 8) << RATE_BITS;
        u64::try_from(bits * 1_000_000_000_000 / u128::from(self.rate)).unwrap_or(u64::MAX)
    }

    /// The first border of a period at `now` or later that is not its beginning.
    fn border_after(&self, now: u64) -> u64 {
        let period = self.period();
        let n = now.saturating_sub(self.periods_from).div_ceil(period).max(1);
        self.periods_from.saturating_add(n.saturating_mul(period))
    }

    fn byte_budget(&self) -> u64 {
        u64::from(self.params.rpg_byte_reset) * 64
    }

    fn period(&self) -> u64 {
        micros(self.params.rate_reduce_monitor_period)
    }

    fn alpha_period(&self) -> u64 {
        micros(self.params.dce_tcp_rtt)
    }

    fn increase_period(&self) -> u64 {
        micros(self.params.rpg_time_reset)
    }
}

fn micros(us: u32) -> u64 {
    Duration::from_micros(u64::from(us)).as_nanos()
}

fn mega(mbps: u32) -> Rate {
    Rate::from_bps(u64::from(mbps) * 1_000_000)
}

fn fixed(rate: Rate) -> u64 {
    rate.bps() << RATE_BITS
}

fn whole(rate: u64) -> Rate {
    Rate::from_bps((rate + (1 << (RATE_BITS - 1))) >> RATE_BITS)
}

/// Alpha from parts of 1024.
fn of_1024(parts: u32) -> u64 {
    u64::from(parts) << 53
}

#[inline]
fn picos(t: Instant) -> u64 {
    t.as_nanos().saturating_mul(1000)
}
