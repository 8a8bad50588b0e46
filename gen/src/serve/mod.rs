//! `rocegen serve`: answers peers as long as it runs, any number of them at once.
//!
//! A peer comes over TCP (perftest) or by the connection manager (perftest `-R`, rping, ucmatose), is
//! granted queue pairs and memory within limits, and everything is taken back when it goes or dies.  For udaddy,
//! which has no connections, there is one queue pair for all.

mod apps;
mod client;
mod datagrams;
mod grants;
mod server;

pub use server::Server;

use crate::config::{Place, ScenarioError, parse_bit_rate, parse_duration, parse_size};
use crate::report::print;
use crate::run::signal::Signals;
use crate::station::{self, StationArgs};
use anyhow::Result;
use clap::Args;
use roce_engine::units::{Duration, Rate};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

/// `rocegen serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The port to serve on.
    #[command(flatten)]
    pub station: StationArgs,
    /// The address of this machine's kernel at which perftest clients are awaited
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub oob: IpAddr,
    /// Port of perftest, over TCP and for `-R` in the connection manager; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 18515)]
    pub perftest: u16,
    /// Port of rping; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 7174)]
    pub rping: u16,
    /// Port of ucmatose; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 7471)]
    pub ucmatose: u16,
    /// Port of udaddy, for datagrams; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 7174)]
    pub udaddy: u16,
    /// The most queue pairs of all peers together
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub max_qps: usize,
    /// Memory of each peer
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pub peer_memory: u64,
    /// The most memory of all peers together
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub max_memory: u64,
    /// The most that is sent on each queue pair, counted at L1: answers to READs and requests of our own
    #[arg(long, value_name = "RATE", value_parser = parse_bit_rate)]
    pub qp_rate: Option<Rate>,
    /// A peer that sends nothing for so long is gone
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = parse_duration)]
    pub idle: Duration,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
}

/// What peers may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Queue pairs of all.
    pub qps: usize,
    /// Bytes of all.
    pub memory: usize,
    /// Bytes of each.
    pub memory_per_peer: usize,
    /// Packets that a queue pair may have unacknowledged.
    pub window: u32,
    /// The most that is sent on a queue pair, at L1.
    pub qp_rate: Option<Rate>,
    /// A peer that is silent for longer is gone.
    pub idle: Duration,
}

/// The ports that are served; 0 for none.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// perftest.
    pub perftest: u16,
    /// rping.
    pub rping: u16,
    /// ucmatose.
    pub ucmatose: u16,
    /// udaddy, of those for datagrams.
    pub udaddy: u16,
}

/// Serves until a signal comes or the time is over.
///
/// # Errors
/// An [`EnvironmentError`](crate::run::EnvironmentError): no port, no rights, the address is in use.
pub fn serve(args: &ServeArgs) -> Result<ExitCode> {
    args.check()?;
    let signals = Signals::install()?;
    let give_up = || signals.interrupted();
    let mut opened = station::open(&args.station, &give_up)?;
    let limits = Limits {
        qps: args.max_qps,
        memory: args.max_memory as usize,
        memory_per_peer: args.peer_memory as usize,
        window: args.station.window,
        qp_rate: args.qp_rate,
        idle: args.idle,
    };
    let ports =
        Ports { perftest: args.perftest, rping: args.rping, ucmatose: args.ucmatose, udaddy: args.udaddy };
    let end = args.duration.map(|d| opened.station.now() + d);
    let mut server = Server::new(&mut opened.station, limits, ports);
    if args.perftest != 0 {
        server.listen(SocketAddr::new(args.oob, args.perftest))?;
    }
    let addresses: Vec<_> = args.station.addresses.iter().map(ToString::to_string).collect();
    say(&format!("serving on {} at {}", args.station.device, addresses.join(", ")));
    loop {
        let now = server.turn();
        if give_up() || end.is_some_and(|end| now >= end) {
            break;
        }
    }
    server.end();
    opened.close()?;
    Ok(ExitCode::SUCCESS)
}

impl ServeArgs {
    /// That somebody can be served.
    fn check(&self) -> Result<(), ScenarioError> {
        let refuse = |option: String, text: &str| {
            Err(ScenarioError { place: Place::Option(option), text: text.to_owned() })
        };
        let (each, all, least) = (self.peer_memory, self.max_memory, grants::LEAST);
        if each < least {
            return refuse(format!("--peer-memory {each}"), &format!("a peer needs at least {least} bytes"));
        }
        if each > all {
            let text = format!(
                "is more than --max-memory {all}, and nobody would be served: raise that, or lower this"
            );
            return refuse(format!("--peer-memory {each}"), &text);
        }
        if self.max_qps == 0 {
            return refuse("--max-qps 0".into(), "nobody would be served: write at least 1");
        }
        let tcp = [("--perftest", self.perftest), ("--rping", self.rping), ("--ucmatose", self.ucmatose)];
        for (i, (name, port)) in tcp.iter().enumerate().filter(|(_, (_, port))| *port != 0) {
            if let Some((other, _)) = tcp[..i].iter().find(|(_, p)| p == port) {
                let text = format!("is the port of {other} as well: give one of them another, or 0 for none");
                return refuse(format!("{name} {port}"), &text);
            }
        }
        Ok(())
    }
}

/// One line on standard output.
fn say(text: &str) {
    // A reader that is gone does not stop the service.
    let _ = print(&format!("{text}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn limits_under_which_nobody_is_served_are_refused() {
        let check = |more: &str| {
            let line = format!("serve -d net_null0 --ip 198.18.0.9/24 {more}");
            Line::try_parse_from(line.split_whitespace()).unwrap().args.check().map_err(|e| e.to_string())
        };
        for fine in [
            "",
            "--peer-memory 16KiB --max-memory 16KiB --max-qps 1",
            "--rping 0 --ucmatose 0 --udaddy 18515",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (line, text) in [
            ("--peer-memory 8193", "--peer-memory 8193: a peer needs at least 16384 bytes"),
            (
                "--max-memory 1MiB",
                "--peer-memory 16777216: is more than --max-memory 1048576, and nobody would be served: raise that, or lower \
                 this",
            ),
            ("--max-qps 0", "--max-qps 0: nobody would be served: write at least 1"),
            (
                "--ucmatose 7174",
                "--ucmatose 7174: is the port of --rping as well: give one of them another, or 0 for none",
            ),
        ] {
            assert_eq!(check(line), Err(text.to_owned()));
        }
    }
}
