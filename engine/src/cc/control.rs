//! The congestion control of a queue pair.

use super::{Aimd, DcqcnState, Pacer, ReactionPoint};
use crate::units::Instant;
use crate::wire::L1_OVERHEAD;

/// What a queue pair does about congestion.
#[derive(Clone, Debug, Default)]
pub enum RateControl {
    /// Nothing: it sends as fast as its pacer and the port allow.
    #[default]
    Fixed,
    /// Nothing, but neither requests nor responses with data go faster than this.
    Limited(Box<Pacer>),
    /// DCQCN.
    Dcqcn(Box<ReactionPoint>),
    /// As TCP does: slower when something is lost.
    Aimd(Box<Aimd>),
}

impl RateControl {
    /// A congestion notification came; whether it was acted on.
    pub fn on_cnp(&mut self, now: Instant) -> bool {
        match self {
            RateControl::Fixed | RateControl::Limited(_) | RateControl::Aimd(_) => false,
            RateControl::Dcqcn(point) => {
                point.on_cnp(now);
                true
            }
        }
    }

    /// A sequence NAK came, or no answer in time.
    pub fn on_loss(&mut self, now: Instant) {
        match self {
            RateControl::Fixed | RateControl::Limited(_) => {}
            RateControl::Dcqcn(point) => point.on_loss(now),
            RateControl::Aimd(aimd) => aimd.on_loss(now),
        }
    }

    /// When to ask again, if nothing may be sent at `now`.
    #[inline(always)]
    pub fn hold(&mut self, now: Instant) -> Option<Instant> {
        if let RateControl::Fixed = self { None } else { self.hold_back(now) }
    }

    fn hold_back(&mut self, now: Instant) -> Option<Instant> {
        match self {
            RateControl::Fixed => None,
            RateControl::Limited(pacer) => (!pacer.may_send(now)).then(|| pacer.next_at()),
            RateControl::Dcqcn(point) => point.hold(now),
            RateControl::Aimd(aimd) => aimd.hold(now),
        }
    }

    /// A frame of `bytes`, counted at L1, with so much payload leaves.
    #[inline(always)]
    pub fn on_sent(&mut self, now: Instant, bytes: u64, payload: u32) {
        if !matches!(self, RateControl::Fixed) {
            self.account(now, bytes, payload);
        }
    }

    fn account(&mut self, now: Instant, bytes: u64, payload: u32) {
        match self {
            RateControl::Fixed => {}
            RateControl::Limited(pacer) => {
                pacer.sent(now, 1, bytes.saturating_sub(L1_OVERHEAD as u64), u64::from(payload));
            }
            RateControl::Dcqcn(point) => point.on_sent(now, point.spacing().bytes(bytes, payload)),
            RateControl::Aimd(aimd) => aimd.on_sent(now, bytes),
        }
    }

    /// What DCQCN has come to at `now`.
    pub fn state(&self, now: Instant) -> Option<DcqcnState> {
        match self {
            RateControl::Fixed | RateControl::Limited(_) | RateControl::Aimd(_) => None,
            RateControl::Dcqcn(point) => Some(point.state(now)),
        }
    }
}
