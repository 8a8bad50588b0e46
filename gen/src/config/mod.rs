//! Scenario files: from TOML text and `--set` options to a [`Scenario`] that is right in itself.
//!
//! ```text
//! text --(set)--> effective text --(read)--> Scenario --(validate)--> Scenario with warnings
//! ```
//!
//! A value is parsed once, here, into a type that carries its unit.  The first thing that is wrong
//! ends it with a [`ScenarioError`]: one line that names the file and line, or the option, that
//! set the value, the key, what was there and what would be right.

mod congestion;
mod cores;
mod dial;
mod error;
mod expect;
mod fabric;
mod flow;
mod impair;
mod limits;
mod model;
mod pattern;
mod pfc;
mod quantity;
mod read;
pub mod reference;
mod replay;
mod sections;
mod set;
mod source;
mod traffic;
mod validate;

#[cfg(test)]
mod tests;

pub use congestion::Dcqcn;
pub(crate) use cores::ranges;
pub use cores::validate_cores;
pub(crate) use dial::no_machines;
pub use error::{Place, ScenarioError};
pub use expect::METRICS;
pub(crate) use flow::KnownLink;
pub use model::{
    Arrival, Cliff, Collective, Connect, Control, Device, Dial, DialBy, Expect, Fabric, Flow, FlowRate,
    Hugepages, IcrcCheck, Impair, Layer, Link, Op, Port, Recovery, Roce, Role, Run, Scenario, Steps, Storm,
    Transport, Verb,
};
pub use pfc::Pfc;
pub use quantity::{parse_bit_rate, parse_duration, parse_flow_rate, parse_size};
pub use set::Override;
#[cfg(test)]
pub(crate) use validate::overhead;

use read::Table;
use roce_engine::cc::Preset;
use source::{Seg, Source};
use std::io::ErrorKind;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The sections of a scenario and the keys that each may have; those of `expect` besides `flow` and
/// `counters` are [`METRICS`].
pub fn keys() -> [(&'static str, &'static [&'static str]); 14] {
    [
        ("run", limits::RUN),
        ("port", limits::PORT),
        ("port.pfc", limits::PFC),
        ("flow", limits::FLOW),
        ("replay", limits::REPLAY),
        ("expect", limits::EXPECT),
        ("connect", limits::CONNECT),
        ("impair", limits::IMPAIR),
        ("link", limits::LINK),
        ("fabric", limits::FABRIC),
        ("storm", limits::STORM),
        ("cliff", limits::CLIFF),
        ("dcqcn", limits::DCQCN),
        ("notification", limits::NOTIFICATION),
    ]
}

/// The seed of a scenario that has none, where nothing is left to chance.
pub const SEED: u64 = 1;

impl Scenario {
    /// Reads `file`, applies `changes` in order and checks the result.
    pub fn load(file: &Path, changes: &[Override]) -> Result<Scenario, ScenarioError> {
        let text = std::fs::read_to_string(file).map_err(|e| {
            let text = match e.kind() {
                ErrorKind::NotFound => "no such file".to_owned(),
                ErrorKind::PermissionDenied => "no right to read it".to_owned(),
                ErrorKind::IsADirectory => "a directory, not a scenario file".to_owned(),
                _ => format!("cannot be read: {e}"),
            };
            ScenarioError { place: Place::File(file.display().to_string()), text }
        })?;
        Scenario::parse(file, &text, changes)
    }

    /// As [`Scenario::load`], from text; errors call it `file`.
    pub fn parse(file: &Path, text: &str, changes: &[Override]) -> Result<Scenario, ScenarioError> {
        let mut source = Source::new(file, text);
        // The file must be TOML on its own, so that its errors have its lines.
        DeTable::parse(text).map_err(|e| source.syntax_error(&e))?;
        let effective = set::apply(&mut source, changes)?;
        let document = DeTable::parse(&effective).map_err(|e| source.syntax_error(&e))?;
        let mut scenario = read(&source, document.get_ref(), &effective, file)?;
        scenario.warnings = validate::validate(&scenario)?;
        scenario.warnings.extend(crate::plan::overload(&scenario));
        Ok(scenario)
    }
}

fn read(source: &Source, root: &DeTable<'_>, text: &str, file: &Path) -> Result<Scenario, ScenarioError> {
    let root = Table::open(source, root, Vec::new(), "the scenario", &limits::SECTIONS)?;
    let run = match one(source, &root, "run", limits::RUN)? {
        Some(table) => sections::read_run(&table)?,
        None => sections::default_run(),
    };
    let connect = one(source, &root, "connect", limits::CONNECT)?.as_ref().map(sections::read_connect);
    let fabric = one(source, &root, "fabric", limits::FABRIC)?.as_ref().map(fabric::read_fabric);
    let fabric = fabric.transpose()?;
    let mut ports: Vec<Port> = many(source, &root, "port", Some(limits::PORT))?
        .iter()
        .map(sections::read_port)
        .collect::<Result<_, _>>()?;
    let dcqcn = one(source, &root, "dcqcn", limits::DCQCN)?;
    let dcqcn = dcqcn.as_ref().map(congestion::read_dcqcn).transpose()?;
    let control = if dcqcn.is_some() { Control::Dcqcn } else { Control::None };
    let preset = dcqcn.as_ref().map_or(Preset::Nvidia, |d| d.preset);
    let notification = match one(source, &root, "notification", limits::NOTIFICATION)? {
        Some(table) => congestion::read_notification(&table, preset)?,
        None => Some(congestion::default_notification(preset)),
    };
    let link = one(source, &root, "link", limits::LINK)?.as_ref().map(impair::read_link).transpose()?;
    if let Some(fabric) = &fabric {
        if let Some(key) = ["port", "link"].into_iter().find(|k| root.has(k)) {
            let text = format!("a [fabric] has ports and cables of its own: take \"{key}\" out");
            return Err(ScenarioError { place: root.place(key), text });
        }
        ports = fabric::ports_of(fabric);
    }
    let path = link.and_then(|link| {
        let rate = link.rate.or(run.line_rate)?;
        Some(flow::KnownLink { rate, round_trip: link.delay + link.delay })
    });
    let tables = many(source, &root, "flow", Some(limits::FLOW))?;
    dial::add_peers(&tables, &mut ports)?;
    let mut flows: Vec<Flow> = Vec::new();
    let around = flow::Around { ports: &ports, control, path, seed: run.seed.unwrap_or(SEED) };
    let mut collectives = Vec::new();
    for (table, t) in tables.iter().enumerate() {
        flow::read_flows(t, table, around, &mut flows, &mut collectives)?;
    }
    if let Some(table) = one(source, &root, "replay", &limits::replay())? {
        replay::read_replay(&table, around, &mut flows)?;
    }
    let mut expects = Vec::new();
    for table in many(source, &root, "expect", None)? {
        expect::read_expect(source, &table, &flows, &mut expects)?;
    }
    let impairs = many(source, &root, "impair", Some(limits::IMPAIR))?
        .iter()
        .map(|t| impair::read_impair(t, &flows))
        .collect::<Result<_, _>>()?;
    let storms = many(source, &root, "storm", Some(limits::STORM))?
        .iter()
        .map(|t| fabric::read_storm(t, &ports, fabric.as_ref()))
        .collect::<Result<_, _>>()?;
    let cliff = one(source, &root, "cliff", limits::CLIFF)?.as_ref().map(impair::read_cliff);
    Ok(Scenario {
        file: file.to_owned(),
        run,
        ports,
        flows,
        collectives,
        expects,
        connect: connect.transpose()?,
        impairs,
        link: link.unwrap_or_else(impair::default_link),
        fabric,
        storms,
        cliff: cliff.transpose()?,
        dcqcn,
        notification,
        text: text.to_owned(),
        warnings: Vec::new(),
        source: source.clone(),
    })
}

/// The section `[name]`.
fn one<'a>(
    source: &'a Source,
    root: &Table<'a>,
    name: &str,
    keys: &[&str],
) -> Result<Option<Table<'a>>, ScenarioError> {
    match root.get(name).map(Spanned::get_ref) {
        None => Ok(None),
        Some(DeValue::Table(table)) => {
            Table::open(source, table, root.path_of(name), &format!("[{name}]"), keys).map(Some)
        }
        Some(_) => Err(ScenarioError {
            place: root.place(name),
            text: format!("\"{name}\" is one section: write [{name}], once"),
        }),
    }
}

/// The sections `[[name]]`; all keys of theirs are taken where `keys` is left out.
fn many<'a>(
    source: &'a Source,
    root: &Table<'a>,
    name: &str,
    keys: Option<&[&str]>,
) -> Result<Vec<Table<'a>>, ScenarioError> {
    let Some(value) = root.get(name) else { return Ok(Vec::new()) };
    let wrong = || ScenarioError {
        place: root.place(name),
        text: format!("there may be several of \"{name}\": write [[{name}]], with two brackets"),
    };
    let DeValue::Array(list) = value.get_ref() else { return Err(wrong()) };
    let open = |(i, item): (usize, &'a Spanned<DeValue<'a>>)| {
        let DeValue::Table(table) = item.get_ref() else { return Err(wrong()) };
        let mut path = root.path_of(name);
        path.push(Seg::Index(i));
        match keys {
            Some(keys) => Table::open(source, table, path, &format!("[[{name}]]"), keys),
            None => Ok(Table::any(source, table, path, &format!("[[{name}]]"))),
        }
    };
    list.iter().enumerate().map(open).collect()
}
