//! The transport: queue pairs as pure state machines.
//!
//! A [`QueuePair`] is driven by five calls and does nothing by itself:
//! [`QueuePair::post_send`], [`QueuePair::post_recv`], [`QueuePair::on_packet`],
//! [`QueuePair::poll_transmit`] and [`QueuePair::on_deadline`] (with
//! [`QueuePair::next_deadline`] to know when).

mod completer;
mod counters;
mod credits;
mod psn_set;
mod qp;
mod reorder;
mod requester;
mod responder;
mod response;
mod retry;
mod segment;
mod selective;
mod shared;
mod stages;
mod uc;
mod ud;

pub use counters::QpCounters;
pub use qp::{Hold, QpConfig, QueuePair, Recovery, Sent, Transmit, Verdict};
pub use stages::{Spans, Stage, StageLog, Stages};
