//! The traffic generator behind the `rocegen` command.
//!
//! A run begins as a scenario file: [`config`] turns it into a [`config::Scenario`] whose values
//! carry their units and have passed every check that needs no machine.  [`plan`] works out what
//! the scenario puts on the wire, [`machine`] what this computer has to offer, and [`check`] prints
//! both without starting anything.  [`run`] starts it: ports, workers and queue pairs; [`workload`]
//! posts and checks messages on the workers, [`measure`] is what they count, [`report`] what is said
//! in the end.  [`sim`] runs it in virtual time instead, [`sweep`] many times with other
//! values, [`search`] until it knows which rate still holds.  [`station`] is a port for what
//! talks to programs that are not rocegen: [`perftest`], [`rping`], [`ucmatose`], [`udaddy`], [`serve`].  [`cli`] holds the command line.
#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod config;
pub mod machine;
pub mod measure;
pub mod perftest;
pub mod plan;
mod random;
pub mod report;
pub mod rping;
pub mod run;
pub mod search;
pub mod serve;
pub mod sim;
pub mod station;
pub mod sweep;
pub mod ucmatose;
pub mod udaddy;
pub mod workload;
