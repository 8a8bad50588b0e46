//! The command from end to end: it runs as a user would run it, and what it says, writes and
//! leaves is judged.  Speed is not: these machines have other work.

// For helpers; in test functions it is allowed anyway.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::disallowed_methods, reason = "tests are on the outside, where time comes from")]

mod capture;
mod common;
mod configs;
mod connect;
mod counts;
mod live;
mod output;
mod peers;
mod refusals;
mod signals;
