//! RoCEv2 protocol engine.
//!
//! The protocol core does no input or output, reads no clock, takes time and
//! randomness as arguments, and allocates nothing once it runs.  Dependencies
//! point one way: [`units`] <- [`wire`] <- [`verbs`], [`transport`], [`cc`] <-
//! [`worker`]; only `io::dpdk` (feature `dpdk`) knows DPDK.
#![forbid(unsafe_code)]

pub mod cc;
pub mod cm;
pub mod fabric;
pub mod io;
pub mod net;
pub mod sim;
pub mod transport;
pub mod units;
pub mod verbs;
pub mod wire;
pub mod worker;
