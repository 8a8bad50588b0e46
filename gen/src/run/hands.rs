//! What somebody at the keyboard does to a run: pauses, and other rates.

use super::EnvironmentError;
use super::live::Key;
use super::worker::Handle;
use crate::config::{Arrival, Flow, FlowRate, Scenario};
use crate::plan::FlowPlan;
use crate::report::{Act, Intervention};
use crate::workload::{Command, Drive};
use roce_engine::cc::{PaceUnit, Pacer};
use roce_engine::units::{Duration, Instant};

/// Per cent of the scenario's rate: steps, and how far they go.
const STEP: u32 = 10;
const LEAST: u32 = 10;
const MOST: u32 = 200;
/// So long after a start or a pause a flow has the rate that it keeps.
const SETTLED: Duration = Duration::from_secs(2);

/// What a flow that is held to a share of what it had may send at once, after it could not.
const AWAY: Duration = Duration::from_millis(20);

/// How a run is driven.
#[derive(Debug)]
pub(super) struct Hands {
    /// Whether this side sends anything.
    able: bool,
    paused: Option<Instant>,
    percent: u32,
    /// What the workers were told last.
    told: (bool, u32),
    /// By flow: the bits per second at L1 that it had when nobody held it back.
    had: Vec<f64>,
    /// Since when nobody does.
    free: Instant,
    /// What was done.
    pub(super) done: Vec<Intervention>,
    note: Option<String>,
}

impl Hands {
    pub(super) fn new(able: bool, now: Instant) -> Hands {
        let (paused, percent) = (None, 100);
        Hands {
            able,
            paused,
            percent,
            told: (false, 100),
            had: Vec::new(),
            free: now,
            done: Vec::new(),
            note: None,
        }
    }

    /// A key was pressed; `rates` are what the flows have now.
    pub(super) fn press(&mut self, key: Key, now: Instant, rates: impl FnOnce() -> Vec<f64>) {
        if !self.able {
            self.note = Some("this side sends nothing: nothing to drive".to_owned());
            return;
        }
        let was_free = self.is_free();
        match key {
            Key::Pause => self.paused = if self.paused.is_some() { None } else { Some(now) },
            Key::Faster => self.percent = (self.percent + STEP).min(MOST),
            Key::Slower => self.percent = self.percent.saturating_sub(STEP).max(LEAST),
            Key::Usual => self.percent = 100,
            Key::Quit | Key::Help => {}
        }
        if was_free && !self.is_free() && (self.had.is_empty() || now.since(self.free) >= SETTLED) {
            self.had = rates();
        }
        if !was_free && self.is_free() {
            self.free = now;
        }
    }

    /// Whether flows without a rate go as fast as they can.
    fn is_free(&self) -> bool {
        self.paused.is_none() && self.percent >= 100
    }

    /// Tells the workers, if there is anything to tell them and they have room for it.
    pub(super) fn tell(
        &mut self,
        s: &Scenario,
        now: Instant,
        workers: &mut [Handle],
    ) -> Result<(), EnvironmentError> {
        let state = (self.paused.is_some(), self.percent);
        // One that is busy is told at the next look; what comes after must find room, too.
        if state == self.told || workers.iter().any(|w| w.mailbox.slots() < 8) {
            return Ok(());
        }
        let limits: Vec<_> = s.flows.iter().enumerate().map(|(f, flow)| self.limit(s, f, flow)).collect();
        self.note = note(s, self.percent);
        let drive = Drive { paused: state.0, percent: state.1, limits: limits.into() };
        for worker in workers {
            worker.tell(Command::Drive(drive.clone()))?;
        }
        let (paused, percent) = std::mem::replace(&mut self.told, state);
        if percent != state.1 {
            self.done.push(Intervention { at: now, act: Act::Rate(state.1) });
        }
        if paused != state.0 {
            self.done.push(Intervention { at: now, act: if state.0 { Act::Pause } else { Act::GoOn } });
        }
        Ok(())
    }

    /// What paces each queue pair of a flow that the scenario does not pace.
    fn limit(&self, s: &Scenario, f: usize, flow: &Flow) -> Option<Pacer> {
        let had = *self.had.get(f)?;
        if self.percent >= 100 || !is_free(s, flow) {
            return None;
        }
        let each = had * f64::from(self.percent) / 100.0 / f64::from(flow.qps.max(1));
        let plan = FlowPlan::of(s, flow);
        let packet = plan.middle.unwrap_or(plan.first);
        // It is the mean that counts: a worker that was away makes up for it.
        let burst = each * AWAY.as_secs_f64() / (f64::from(packet.l1) * 8.0);
        Pacer::new(PaceUnit::L1, each, flow.burst.max(burst as u32), packet.l2)
    }

    /// For how long the run is paused.
    pub(super) fn paused_for(&self, now: Instant) -> Option<Duration> {
        self.paused.map(|since| now.since(since))
    }

    pub(super) fn percent(&self) -> u32 {
        self.percent
    }

    /// What there is to say about it.
    pub(super) fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

/// Whether nothing but what is outstanding limits a flow, and it is ours.
fn is_free(s: &Scenario, flow: &Flow) -> bool {
    let thinks = matches!(flow.arrival, Arrival::Closed { think } if think != Duration::ZERO);
    let due = flow.open_rate().is_some() || flow.scripts.is_some();
    s.ports[flow.from].is_local() && flow.rate == FlowRate::Unlimited && !due && !thinks
}

fn note(s: &Scenario, percent: u32) -> Option<String> {
    if percent == 100 || !s.flows.iter().any(|f| is_free(s, f)) {
        return None;
    }
    Some(match percent {
        0..100 => format!("flows without a rate: {percent} % of what they had"),
        _ => "flows without a rate: as fast as they can".to_owned(),
    })
}
