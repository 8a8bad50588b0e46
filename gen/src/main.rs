//! The `rocegen` command.

use anyhow::Result;
use clap::Parser;
use log::LevelFilter;
use roce_gen::check;
use roce_gen::cli::{self, Cli, Command};
use roce_gen::config::ScenarioError;
use roce_gen::perftest::{self, PerftestArgs};
use roce_gen::report::{print, report};
use roce_gen::rping;
use roce_gen::run;
use roce_gen::search;
use roce_gen::serve;
use roce_gen::sim;
use roce_gen::ucmatose;
use roce_gen::udaddy;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = cli.verbosity.level();
    env_logger::Builder::new().filter_level(level).format_target(false).init();
    match dispatch(cli.command, level) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to do when standard error is gone.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(if error.is::<ScenarioError>() { 2 } else { 3 })
        }
    }
}

fn dispatch(command: Command, level: LevelFilter) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args, level == LevelFilter::Error),
        Command::Sim(args) => sim::sim(&args, level == LevelFilter::Error),
        Command::Search(args) => search::search(&args, level == LevelFilter::Error),
        Command::Report(args) => report(&args),
        Command::Check(args) => {
            let report = check::check(&args.scenario.file, &args.scenario.set)?;
            let text = match args.json {
                true => serde_json::to_string_pretty(&report)? + "\n",
                false => report.to_string(),
            };
            print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Schema(args) => said(&cli::schema(&args)?),
        Command::Completions(args) => said(&cli::completions(&args)?),
        Command::Man(args) => said(&cli::man(&args)?),
        Command::Perftest(args) => perftest::perftest(&PerftestArgs::of(args.words)),
        Command::Serve(args) => serve::serve(&args),
        Command::Rping(args) => rping::rping(&args),
        Command::Ucmatose(args) => ucmatose::ucmatose(&args),
        Command::Udaddy(args) => udaddy::udaddy(&args),
        Command::Ports(args) => {
            print(&run::list_ports(&args, level >= LevelFilter::Debug)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn said(text: &str) -> Result<ExitCode> {
    print(text)?;
    Ok(ExitCode::SUCCESS)
}
