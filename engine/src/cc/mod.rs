//! Congestion control and pacing: how fast a queue pair may send.

mod pacer;

pub use pacer::{PaceUnit, Pacer};
