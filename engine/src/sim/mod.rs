//! Virtual time: hosts that run the same endpoints as live ports do, a network between them, and a
//! clock that jumps from one event to the next.
//!
//! ```text
//! host: Worker<SimPort, _> -- turn --> port's outbox --> fabric::Network: host's port, switches
//!   ^                                                      |
//!   +------------------- port's inbox <-- (impairment) <---+
//! ```
//!
//! A [`World`] does nothing by chance and asks no clock: the same hosts, network and seeds give the
//! same run to the byte.  Once warm it allocates nothing: frames are buffers that travel from port
//! to port.  On ports that carry headers only a frame is a buffer of [`HEADERS`] bytes and a
//! length.

mod crossing;
mod label;
mod port;
mod world;

pub use crossing::CrossingCounters;
pub use label::FrameSizes;
pub use port::{HEADERS, SimFrame, SimPort};
pub use world::{HostId, PortRef, World};
