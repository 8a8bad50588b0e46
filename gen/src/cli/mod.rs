//! The command line.

mod paper;

pub use paper::{completions, man, schema};

use crate::config::{Override, parse_duration};
use crate::rping::RpingArgs;
use crate::search::{RateText, Until};
use crate::serve::ServeArgs;
use crate::sweep::SweepArgs;
use crate::ucmatose::UcmatoseArgs;
use crate::udaddy::UdaddyArgs;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use log::LevelFilter;
use roce_engine::units::Duration;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// RoCEv2 endpoint and traffic generator.
///
/// A scenario file says what to send between which ports; see docs/scenario.md.
/// Exit code: 0 pass, 1 an expectation or a message failed, 2 the scenario or the
/// command line is wrong, 3 ports, memory or rights are missing.
#[derive(Clone, Debug, Parser)]
#[command(name = "rocegen", version, max_term_width = 100, verbatim_doc_comment)]
pub struct Cli {
    /// How much to say.
    #[command(flatten)]
    pub verbosity: Verbosity,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How much is said on standard error.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Verbosity {
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// No progress and no notes: only results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Verbosity {
    /// The level of the log.
    pub fn level(self) -> LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::Error,
            (_, 0) => LevelFilter::Warn,
            (_, 1) => LevelFilter::Info,
            (_, 2) => LevelFilter::Debug,
            _ => LevelFilter::Trace,
        }
    }
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a scenario
    Run(RunArgs),
    /// Run a scenario in virtual time: no ports, no DPDK, the same result every time
    Sim(SimArgs),
    /// Find the highest rate that still holds, by bisection
    Search(SearchArgs),
    /// Write the page of a result again, or set two results side by side
    Report(ReportArgs),
    /// Say what a scenario would do, without starting anything
    Check(CheckArgs),
    /// List the ports that DPDK sees
    Ports(PortsArgs),
    /// Measure against a perftest program (ib_write_bw and its kin) of another machine
    #[command(disable_help_flag = true)]
    Perftest(Words),
    /// Answer perftest, rping, ucmatose and udaddy of other machines, any number at once
    Serve(ServeArgs),
    /// Ping an rping server of another machine
    Rping(RpingArgs),
    /// Exchange messages with a ucmatose server of another machine
    Ucmatose(UcmatoseArgs),
    /// Exchange datagrams with a udaddy server of another machine
    Udaddy(UdaddyArgs),
    /// Print the JSON Schema of a scenario, a result, a sweep or a search
    Schema(SchemaArgs),
    /// Print what a shell needs to complete options of rocegen
    Completions(CompletionsArgs),
    /// Print a page for man
    Man(ManArgs),
}

/// `rocegen search`.
#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    /// What to run.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// The flow, or table of flows, to pace; the only one when left out
    #[arg(long, value_name = "NAME")]
    pub flow: Option<String>,
    /// The lowest rate, in the unit of all rates: %, Gbps, pps, msg/s
    #[arg(long, value_name = "RATE", default_value = "1%")]
    pub min: RateText,
    /// The highest rate; tried first
    #[arg(long, value_name = "RATE", default_value = "100%")]
    pub max: RateText,
    /// How near to come, in per cent of the rate
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub resolution: f64,
    /// What must hold: loss (nothing is lost), or a bound of latency as in p99<20us
    #[arg(long, value_name = "WHAT", default_value = "loss")]
    pub until: Until,
    /// How long to measure at each rate
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub trial: Duration,
    /// In virtual time
    #[arg(long)]
    pub sim: bool,
    /// Print one JSON object, and nothing else, on standard output
    #[arg(long)]
    pub json: bool,
    /// Write report.html, search.json, and what --out of each trial writes, to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl SearchArgs {
    /// Every change to the scenario, in the order in which they are applied.
    pub fn overrides(&self) -> Vec<Override> {
        let mut changes = self.scenario.set.clone();
        changes.push(duration_override(self.trial));
        changes
    }
}

/// Per cent, more than none and less than half.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    number.filter(|x| (0.01..=50.0).contains(x)).ok_or_else(|| "write 0.01 to 50, in per cent".to_owned())
}

/// `rocegen report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// A result.json, sweep.json or search.json, or the folder that --out wrote
    pub a: PathBuf,
    /// Another one, to set beside it
    pub b: Option<PathBuf>,
    /// Write report.html to this directory; beside the result when there is only one
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `rocegen schema`.
#[derive(Args, Clone, Debug)]
pub struct SchemaArgs {
    /// Of what
    pub of: SchemaOf,
}

/// What has a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// A scenario file, as the JSON that its TOML reads into.
    Scenario,
    /// What --json prints, and result.json.
    Result,
    /// What --sweep with --json prints, and sweep.json.
    Sweep,
    /// What search with --json prints, and search.json.
    Search,
}

/// `rocegen completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `rocegen man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Of this command; of rocegen as a whole when left out
    pub command: Option<String>,
}

/// A command line of its own: perftest's options are not those of the others.
#[derive(Args, Clone, Debug)]
pub struct Words {
    /// The test and its options: see `rocegen perftest --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub words: Vec<OsString>,
}

/// A scenario file and what to change in it.
#[derive(Args, Clone, Debug)]
pub struct ScenarioArgs {
    /// The scenario file
    pub file: PathBuf,
    /// Change a key of the scenario, as in flow.single.size=64KiB; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<Override>,
}

/// `rocegen run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// What to run.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Print the result as one JSON object, and nothing else, on standard output
    #[arg(long)]
    pub json: bool,
    /// Write report.html, result.json, tables, histograms and the scenario to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Tell Prometheus how the run goes, at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["sweep", "repeat"])]
    pub metrics: Option<SocketAddr>,
    /// What to record.
    #[command(flatten)]
    pub pcap: PcapArgs,
    /// How long to measure, instead of the scenario's own duration
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Plain lines, also on a terminal
    #[arg(long)]
    pub no_live: bool,
    /// Take no hugepages, whatever the scenario says
    #[arg(long)]
    pub no_huge: bool,
    /// What to vary.
    #[command(flatten)]
    pub sweep: SweepArgs,
}

impl RunArgs {
    /// Every change to the scenario, in the order in which they are applied.
    pub fn overrides(&self) -> Vec<Override> {
        let mut changes = self.scenario.set.clone();
        changes.extend(self.duration.map(duration_override));
        if self.no_huge {
            changes.push(Override::new("run.hugepages", "\"never\"", "--no-huge".to_owned()));
        }
        changes
    }
}

/// `rocegen sim`.
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Print the result as one JSON object, and nothing else, on standard output
    #[arg(long)]
    pub json: bool,
    /// Write report.html, result.json, tables, histograms and pictures to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How long to measure, in virtual time, instead of the scenario's own duration
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// What to vary.
    #[command(flatten)]
    pub sweep: SweepArgs,
}

impl SimArgs {
    /// Every change to the scenario, in the order in which they are applied.
    pub fn overrides(&self) -> Vec<Override> {
        let mut changes = self.scenario.set.clone();
        changes.extend(self.duration.map(duration_override));
        changes
    }
}

fn duration_override(duration: Duration) -> Override {
    let value = format!("\"{}ns\"", duration.as_nanos());
    Override::new("run.duration", &value, format!("--duration {duration}"))
}

/// What to record of the frames that ports send and receive.
#[derive(Args, Clone, Debug)]
pub struct PcapArgs {
    /// Record frames to this capture file
    #[arg(id = "pcap", long = "pcap", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Bytes kept of each frame
    #[arg(
        long = "pcap-snap",
        value_name = "BYTES",
        default_value_t = 65535,
        requires = "pcap",
        value_parser = clap::value_parser!(u32).range(64..=262_144)
    )]
    pub snap: u32,
    /// Stop recording after this many frames
    #[arg(
        long = "pcap-count",
        value_name = "FRAMES",
        default_value_t = 100_000,
        requires = "pcap",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub count: u64,
    /// Which frames to record
    #[arg(long = "pcap-direction", value_name = "WHICH", default_value = "both", requires = "pcap")]
    pub direction: Direction,
}

/// Which frames of a port are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Those sent and those received.
    Both,
    /// Those sent.
    Tx,
    /// Those received.
    Rx,
}

/// `rocegen check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// What to check.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `rocegen ports`.
#[derive(Args, Clone, Debug)]
pub struct PortsArgs {
    /// Look for PCI devices, which takes rights and binds them to this process
    #[arg(long)]
    pub pci: bool,
    /// Make a virtual device, as in net_tap0,iface=dtap0; repeatable
    #[arg(long, value_name = "ARGS")]
    pub vdev: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(args: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("rocegen").chain(args.split_whitespace()))
    }

    fn run(args: &str) -> RunArgs {
        match parse(args).unwrap().command {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults() {
        let args = run("run x.toml");
        assert_eq!(args.scenario.file, PathBuf::from("x.toml"));
        assert_eq!((args.pcap.snap, args.pcap.count, args.pcap.direction), (65535, 100_000, Direction::Both));
        assert!(!args.json && args.out.is_none() && args.pcap.file.is_none() && args.overrides().is_empty());
    }

    #[test]
    fn short_forms_are_changes_of_the_scenario() {
        let args = run("run x.toml --set flow.a.size=8 --duration 500ms --no-huge --set run.seed=1");
        let want = [
            Override::new("flow.a.size", "8", "--set flow.a.size=8".into()),
            Override::new("run.seed", "1", "--set run.seed=1".into()),
            Override::new("run.duration", "\"500000000ns\"", "--duration 500ms".into()),
            Override::new("run.hugepages", "\"never\"", "--no-huge".into()),
        ];
        assert_eq!(args.overrides(), want);
    }

    #[test]
    fn verbosity() {
        let level = |args: &str| parse(args).unwrap().verbosity.level();
        assert_eq!(level("check x"), LevelFilter::Warn);
        assert_eq!(level("-v check x"), LevelFilter::Info);
        assert_eq!(level("check x -vv"), LevelFilter::Debug);
        assert_eq!(level("run x --quiet"), LevelFilter::Error);
    }

    #[test]
    fn usage_errors() {
        let kind = |args: &str| parse(args).unwrap_err().kind();
        assert_eq!(kind("run"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("run x --set novalue"), ErrorKind::ValueValidation);
        assert_eq!(kind("run x --duration 10"), ErrorKind::ValueValidation);
        assert_eq!(kind("run x --pcap f --pcap-snap 0"), ErrorKind::ValueValidation);
        assert_eq!(kind("run x --pcap-count 5"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("run x --sweep a"), ErrorKind::ValueValidation);
        assert_eq!(kind("sim x --repeat 0"), ErrorKind::ValueValidation);
        assert_eq!(kind("-v -q check x"), ErrorKind::ArgumentConflict);
        assert_eq!(kind("--version"), ErrorKind::DisplayVersion);
    }
}
