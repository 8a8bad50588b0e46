//! Congestion control and pacing: how fast a queue pair may send.

mod aimd;
mod control;
mod dcqcn;
mod gaps;
mod notification;
mod pacer;
mod params;
mod pause;
mod priority;

pub use aimd::Aimd;
pub use control::RateControl;
pub use dcqcn::{DcqcnState, ReactionPoint, Spacing};
pub use gaps::Gaps;
pub use notification::{CnpKey, Mark, NotificationConfig, NotificationPoint};
pub use pacer::{PaceUnit, Pacer};
pub use params::{Algorithm, DcqcnParams, KNOBS, Knob, ParamError, Preset};
pub use pause::{Lag, PauseConfig, PauseCounters, PauseKind, PausePoint, Storm, Watchdog};
pub use priority::PriorityMap;
