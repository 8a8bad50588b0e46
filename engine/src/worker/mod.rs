//! The poll loop: one turn at a time, run to completion.

mod counters;
mod endpoint;
mod table;
mod turn;
mod wheel;

pub use counters::EndpointCounters;
pub use endpoint::{CreateError, Crossing, Endpoint, EndpointConfig, IcrcCheck, crossings};
pub use turn::{Application, Flow, Load, Worker};
pub use wheel::TimerWheel;
