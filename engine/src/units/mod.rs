//! Newtypes that carry units: time, rate, and the 24-bit numbers of the transport.

mod mtu;
mod octaves;
mod rate;
mod serial;
mod time;

pub use mtu::Mtu;
pub use octaves::{bucket_of, buckets, middle_of};
pub use rate::Rate;
pub use serial::{Msn, Psn, Qpn};
pub use time::{Duration, Instant};
