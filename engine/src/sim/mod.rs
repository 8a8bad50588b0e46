//! Virtual time: hosts that run the same endpoints as live ports do, lines between them, and a
//! clock that jumps from one event to the next.
//!
//! ```text
//! host: Worker<SimPort, _> -- turn --> port's outbox --> line (queue, rate, delay, impairment)
//!   ^                                                      |
//!   +------------------- port's inbox <-- arrival ---------+--> next line
//! ```
//!
//! A [`World`] does nothing by chance and asks no clock: the same hosts, lines and seeds give the
//! same run to the byte.  Once warm it allocates nothing: frames are buffers that travel from port
//! to port, and a line has at most three events pending, however many frames are on it.

mod line;
mod port;
mod queue;
mod world;

pub use line::{Duplex, LineCounters, LineId, LineSpec};
pub use port::{SimFrame, SimPort};
pub use world::{HostId, PortRef, World};
