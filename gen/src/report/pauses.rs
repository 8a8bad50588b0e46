//! Link-level flow control in the result.

use super::PortMeasure;
use crate::config::Scenario;
use roce_engine::cc::{PauseCounters, PauseKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What flow control of a port did.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FlowControlResult {
    /// Who obeys pauses and sends them: `software`, this program, or `nic`.
    pub by: &'static str,
    /// `pfc` or `link`.
    pub kind: &'static str,
    /// Lossless priorities.
    pub lossless: Vec<u8>,
    /// Frames of the other kind, which are not obeyed.
    pub rx_other_kind: u64,
    /// By priority, as far as anything happened; empty where the NIC does it.
    pub priorities: BTreeMap<u8, PriorityResult>,
}

/// Pauses of one priority.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct PriorityResult {
    /// Frames received that pause.
    pub rx_xoff: u64,
    /// Frames received that end a pause.
    pub rx_xon: u64,
    /// Frames sent that pause.
    pub tx_xoff: u64,
    /// Frames sent that end a pause.
    pub tx_xon: u64,
    /// Pauses that were obeyed.
    pub pauses: u64,
    /// How long they lasted in all.
    pub paused_ns: u64,
    /// Storms that the watchdog saw.
    pub storms: u64,
}

impl FlowControlResult {
    pub(super) fn of(s: &Scenario, m: &PortMeasure) -> Option<FlowControlResult> {
        let pfc = s.ports.iter().find(|p| p.name == m.name)?.pfc.as_ref()?;
        let c = m.pauses.unwrap_or_default();
        let all = (0..8u8).map(|p| (p, PriorityResult::of(&c, usize::from(p))));
        Some(FlowControlResult {
            by: if pfc.nic { "nic" } else { "software" },
            kind: match pfc.kind {
                PauseKind::Pfc => "pfc",
                PauseKind::Link => "link",
            },
            lossless: (0..8).filter(|p| pfc.lossless >> p & 1 == 1).collect(),
            rx_other_kind: c.rx_other_kind,
            priorities: all.filter(|(_, r)| r.rx_xoff + r.rx_xon + r.tx_xoff + r.tx_xon != 0).collect(),
        })
    }
}

impl PriorityResult {
    fn of(c: &PauseCounters, p: usize) -> PriorityResult {
        PriorityResult {
            rx_xoff: c.rx_xoff[p],
            rx_xon: c.rx_xon[p],
            tx_xoff: c.tx_xoff[p],
            tx_xon: c.tx_xon[p],
            pauses: c.pauses[p],
            paused_ns: c.paused_ns[p],
            storms: c.storms[p],
        }
    }
}

/// One line for each priority.
impl fmt::Display for FlowControlResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.priorities.is_empty() {
            return writeln!(f, "     {} by {}: no pauses seen", self.kind, self.by);
        }
        for (p, r) in &self.priorities {
            write!(f, "     {} by {}, priority {p}:", self.kind, self.by)?;
            write!(f, " xoff rx {} tx {}, xon rx {} tx {},", r.rx_xoff, r.tx_xoff, r.rx_xon, r.tx_xon)?;
            write!(f, " paused {} times, {:.3} ms", r.pauses, r.paused_ns as f64 / 1e6)?;
            writeln!(f, "{}", if r.storms == 0 { String::new() } else { format!(", {} storms", r.storms) })?;
        }
        Ok(())
    }
}
