//! What the command line says of itself: schemas, completions, manual pages.

use super::{Cli, CompletionsArgs, ManArgs, SchemaArgs, SchemaOf};
use crate::config::reference::scenario_schema;
use crate::config::{Place, ScenarioError};
use crate::report::RunResult;
use crate::search::Search;
use crate::sweep::Sweep;
use anyhow::Result;
use clap::CommandFactory;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The JSON Schema that is asked for.
pub fn schema(args: &SchemaArgs) -> Result<String> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema: Value = match args.of {
        SchemaOf::Scenario => scenario_schema(),
        SchemaOf::Result => settings.into_generator().into_root_schema_for::<RunResult>().into(),
        SchemaOf::Sweep => settings.into_generator().into_root_schema_for::<Sweep>().into(),
        SchemaOf::Search => settings.into_generator().into_root_schema_for::<Search>().into(),
    };
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// A script for a shell.
pub fn completions(args: &CompletionsArgs) -> Result<String> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rocegen", &mut out);
    Ok(String::from_utf8(out)?)
}

/// A page for man.
///
/// # Errors
/// There is no such command.
pub fn man(args: &ManArgs) -> Result<String> {
    let mut all = Cli::command();
    all.build();
    let (command, title) = match &args.command {
        None => (all, "rocegen".to_owned()),
        Some(name) => match all.find_subcommand(name) {
            Some(found) => (found.clone(), format!("rocegen-{name}")),
            None => {
                let known: Vec<_> = all.get_subcommands().map(|c| c.get_name().to_owned()).collect();
                let text = format!("\"{name}\": there are {}", known.join(", "));
                return Err(ScenarioError { place: Place::Option("man".to_owned()), text }.into());
            }
        },
    };
    let mut out = Vec::new();
    clap_mangen::Man::new(command).title(title).section("1").render(&mut out)?;
    Ok(String::from_utf8(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages() {
        let page = |name: Option<&str>| man(&ManArgs { command: name.map(str::to_owned) });
        let whole = page(None).unwrap();
        assert!(whole.contains(".TH rocegen 1") && whole.contains("rocegen\\-sim(1)"), "{whole}");
        let run = page(Some("run")).unwrap();
        assert!(run.contains("\\-\\-sweep") && run.contains(".TH rocegen-run 1"), "{run}");
        assert!(page(Some("runn")).unwrap_err().to_string().contains("there are run, sim"));
    }

    #[test]
    fn completions_know_options() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let script = completions(&CompletionsArgs { shell }).unwrap();
            assert!(script.contains("sweep") && script.contains("pcap-snap"), "{shell}");
        }
    }
}
