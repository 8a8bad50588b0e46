//! `rocegen search`: the highest rate that still holds, by bisection as RFC 2544 looks for throughput.

use crate::cli::SearchArgs;
use crate::config::{
    FlowRate, Layer, Override, Place, Scenario, ScenarioError, parse_duration, parse_flow_rate,
};
use crate::report::{html, print, print_progress};
use crate::run::EnvironmentError;
use crate::run::signal::{INTERRUPTED, Signals};
use crate::sweep::{Child, Figures, Mode};
use anyhow::Result;
use roce_engine::units::Duration;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Write};
use std::fs;
use std::process::ExitCode;
use std::str::FromStr;

/// A trial that was asked for a rate has it when it comes this near: messages at the ends of a trial count whole or
/// not at all.
const NEAR: f64 = 0.98;

/// What must hold for a rate to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// Nothing is lost.
    Loss,
    /// Nothing fails, and a percentile of the latency stays below a bound.
    Latency(&'static str, Duration),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        const FORM: &str = "write loss, or p50<20us, p99<20us, p99.9<1ms or max<5ms";
        if text == "loss" {
            return Ok(Until::Loss);
        }
        let (figure, bound) = text.split_once('<').ok_or(FORM)?;
        let figure = match figure.trim() {
            "p50" => "latency_p50_ns",
            "p99" => "latency_p99_ns",
            "p99.9" | "p99_9" => "latency_p99_9_ns",
            "max" => "latency_max_ns",
            _ => return Err(FORM.to_owned()),
        };
        Ok(Until::Latency(figure, parse_duration(bound.trim_start_matches('=').trim())?))
    }
}

/// A rate as it is written: a number and the unit behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct RateText {
    number: f64,
    unit: String,
}

impl FromStr for RateText {
    type Err = String;

    fn from_str(text: &str) -> Result<RateText, String> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number = text[..end].parse::<f64>().ok().filter(|x| *x > 0.0);
        let number = number.ok_or("write a rate, as in 10%, 5Gbps, 1Mpps or 20kmsg/s")?;
        parse_flow_rate(text, crate::config::Layer::L1)?;
        Ok(RateText { number, unit: text[end..].to_owned() })
    }
}

/// A search that has ended.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Search {
    /// `rocegen-search-1`.
    pub schema: &'static str,
    /// The scenario file.
    pub scenario: String,
    /// `run` or `sim`.
    pub mode: &'static str,
    /// The flow that was paced.
    pub flow: String,
    /// What had to hold.
    pub until: String,
    /// The bound of the latency, where that is what had to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// The unit of rates.
    pub unit: String,
    /// The highest rate that held; `null` where none did.
    pub found: Option<f64>,
    /// The lowest that did not; `null` where all did.
    pub failed: Option<f64>,
    /// The trials, in order.
    pub trials: Vec<Trial>,
}

/// A trial at a rate.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Trial {
    /// The rate that was asked for.
    pub asked: f64,
    /// That which was had, in the same unit.
    pub got: Option<f64>,
    /// Packets and messages lost, sent again, or failed.
    pub lost: u64,
    /// Where its report is, below the folder of the search; left out where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its figures.
    pub figures: Figures,
    /// Whether the rate does.
    pub holds: bool,
    /// Why not.
    pub why: Option<String>,
}

/// Searches and reports: 0 when a rate was found, 1 when not.
///
/// # Errors
/// A [`ScenarioError`] or an [`EnvironmentError`].
pub fn search(args: &SearchArgs, quiet: bool) -> Result<ExitCode> {
    let changes = args.overrides();
    let scenario = Scenario::load(&args.scenario.file, &changes)?;
    let flow = subject(&scenario, args.flow.as_deref())?;
    let (low, high) = (&args.min, &args.max);
    let wrong = |option: &str, text: &str| ScenarioError {
        place: Place::Option(option.to_owned()),
        text: text.to_owned(),
    };
    if low.unit != high.unit {
        return Err(wrong("--max", "must have the unit of --min").into());
    }
    if low.number >= high.number {
        return Err(wrong("--max", "must be more than --min").into());
    }
    let rate_of = |x: f64| format!("{}{}", trimmed(x), low.unit);
    let change =
        |x: f64| Override::new(&format!("flow.{flow}.rate"), &rate_of(x), format!("rate {}", rate_of(x)));
    // All that can be wrong is wrong before the first trial.
    let highest = Scenario::load(&args.scenario.file, &with(&changes, change(high.number)))?;
    Scenario::load(&args.scenario.file, &with(&changes, change(low.number)))?;
    let paced = highest.flows.iter().find(|f| f.name == flow || f.group.as_ref() == Some(&flow));
    let layer = match paced.map(|f| f.rate) {
        Some(FlowRate::Bits { layer, .. }) => layer,
        _ => Layer::L1,
    };
    if let Some(dir) = &args.out {
        fs::create_dir_all(dir).map_err(|e| EnvironmentError(format!("--out {}: {e}", dir.display())))?;
    }
    let signals = Signals::install()?;
    let mode = if args.sim { Mode::Sim } else { Mode::Run };
    let mut search = Search {
        schema: "rocegen-search-1",
        scenario: args.scenario.file.display().to_string(),
        mode: mode.word(),
        flow: flow.clone(),
        until: args.until.to_string(),
        bound_ns: match args.until {
            Until::Loss => None,
            Until::Latency(_, bound) => Some(bound.as_nanos()),
        },
        unit: low.unit.clone(),
        found: None,
        failed: None,
        trials: Vec::new(),
    };
    let trial = |number: usize, x: f64| -> Result<Option<Trial>> {
        let changes = with(&changes, change(x));
        let folder = args.out.is_some().then(|| format!("{number:02}"));
        let out = args.out.as_ref().zip(folder.as_ref()).map(|(dir, name)| dir.join(name));
        let child = Child { mode, file: &args.scenario.file, changes: &changes, out: out.as_deref() };
        let ended = child.run();
        if signals.interrupted() {
            return Ok(None);
        }
        let trial = Trial { folder, ..judge(&ended?, &flow, x, (&low.unit, layer), args.until) };
        if !quiet {
            print_progress(&line(&trial, &low.unit));
        }
        Ok(Some(trial))
    };
    let (mut passes, mut fails) = (low.number, high.number);
    let mut next = Some(high.number);
    let mut broken = None;
    while let Some(x) = next {
        let done = match trial(search.trials.len() + 1, x) {
            Ok(Some(done)) => done,
            Ok(None) => return Ok(ExitCode::from(INTERRUPTED)),
            // What was found before is kept.
            Err(e) => {
                broken = Some(e);
                break;
            }
        };
        if done.holds {
            search.found = Some(search.found.map_or(x, |f| f.max(x)));
            passes = passes.max(x);
        } else {
            search.failed = Some(search.failed.map_or(x, |f| f.min(x)));
            fails = fails.min(x);
        }
        search.trials.push(done);
        next = step(&search, low.number, passes, fails, args.resolution / 100.0);
    }
    let json = serde_json::to_string_pretty(&search)? + "\n";
    if let Some(dir) = &args.out {
        let page = html::search_page(&serde_json::to_value(&search)?, &scenario.text);
        for (name, text) in
            [("search.json", &json), ("report.html", &page), ("scenario.toml", &scenario.text)]
        {
            let path = dir.join(name);
            fs::write(&path, text)
                .map_err(|e| EnvironmentError(format!("cannot write {}: {e}", path.display())))?;
        }
    }
    if let Some(e) = broken {
        return Err(e);
    }
    print(&if args.json { json } else { search.to_string() })?;
    Ok(if search.found.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The rate of the next trial, after the highest: the lowest, then halfway between what holds and what does not.
fn step(search: &Search, low: f64, passes: f64, fails: f64, resolution: f64) -> Option<f64> {
    search.failed?;
    if search.found.is_none() {
        // Not even the lowest holds when that was tried.
        return (fails > low).then_some(low);
    }
    (fails - passes > resolution * fails).then_some((passes + fails) / 2.0)
}

/// The flow that is paced, by its name.
fn subject(s: &Scenario, named: Option<&str>) -> Result<String, ScenarioError> {
    let mut tables: Vec<&str> = s.flows.iter().map(|f| f.group.as_deref().unwrap_or(&f.name)).collect();
    tables.dedup();
    let wrong = |text: String| ScenarioError { place: Place::Option("--flow".to_owned()), text };
    match (named, &tables[..]) {
        (Some(name), all) if all.contains(&name) => Ok(name.to_owned()),
        (Some(name), all) => Err(wrong(format!("no flow \"{name}\"; there are {}", all.join(", ")))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, all) => Err(wrong(format!("which one? There are {}", all.join(", ")))),
    }
}

fn with(changes: &[Override], one: Override) -> Vec<Override> {
    let mut all = changes.to_vec();
    all.push(one);
    all
}

/// What came of a trial.
fn judge(result: &Value, flow: &str, asked: f64, (unit, layer): (&str, Layer), until: Until) -> Trial {
    let figures = Figures::of(result);
    let flows: Vec<&Value> = html::list(result, "/flows")
        .iter()
        .filter(|f| html::word(f, "/name") == flow || html::word(f, "/table") == flow)
        .collect();
    let sum = |list: &[&Value], place: &str| -> u64 {
        list.iter().filter_map(|v| v.pointer(place)?.as_u64()).sum()
    };
    let ports: Vec<&Value> = html::list(result, "/ports").iter().collect();
    let dropped: u64 = ports
        .iter()
        .filter_map(|p| p["rx_dropped"].as_object())
        // What others on the network say to each other is no loss.
        .flat_map(|reasons| reasons.iter().filter(|(name, _)| *name != "non_roce"))
        .filter_map(|(_, n)| n.as_u64())
        .sum();
    let lost =
        ["/messages_failed", "/messages_lost", "/retransmits"].iter().map(|p| sum(&flows, p)).sum::<u64>()
            + ["/rx_missed", "/tx_dropped", "/tail_dropped"].iter().map(|p| sum(&ports, p)).sum::<u64>()
            + result.pointer("/fabric/dropped").and_then(Value::as_u64).unwrap_or(0)
            + dropped;
    let failed = sum(&flows, "/messages_failed") + sum(&flows, "/messages_lost");
    // The rate of a table is that of each of its flows: the slowest counts.
    let got = flows.iter().filter_map(|f| in_unit(f, unit, layer)).reduce(f64::min);
    let why = match (until, got) {
        _ if result.is_null() || flows.is_empty() => Some("there was no result".to_owned()),
        (Until::Loss, _) if lost > 0 => Some(format!("{lost} lost, sent again or failed")),
        (Until::Latency(..), _) if failed > 0 => Some(format!("{failed} messages failed")),
        (_, Some(got)) if got < asked * NEAR => Some(format!("only {}{unit} was sent", trimmed(got))),
        (_, None) => Some("nothing was measured".to_owned()),
        (Until::Latency(figure, bound), _) => {
            let of = flows.iter().filter_map(|f| f.pointer(place_of(figure))?.as_u64()).max();
            match of {
                Some(ns) if ns > bound.as_nanos() => Some(format!("latency is {}", Duration::from_nanos(ns))),
                Some(_) => None,
                None => Some("no message was measured".to_owned()),
            }
        }
        (Until::Loss, _) => None,
    };
    Trial { asked, got, lost, folder: None, figures, holds: why.is_none(), why }
}

/// Where a flow has a latency.
fn place_of(figure: &str) -> &'static str {
    match figure {
        "latency_p50_ns" => "/latency_ns/p50",
        "latency_p99_ns" => "/latency_ns/p99",
        "latency_p99_9_ns" => "/latency_ns/p99_9",
        _ => "/latency_ns/max",
    }
}

/// The rate of a flow in the unit of what was asked for.
fn in_unit(flow: &Value, unit: &str, layer: Layer) -> Option<f64> {
    let figure = |place: &str| flow.pointer(place).and_then(Value::as_f64);
    let one = |unit: &str| -> Option<f64> {
        // What one of the unit is.
        let rate = parse_flow_rate(&format!("1{unit}"), layer).ok()?;
        Some(match rate {
            FlowRate::Bits { rate, .. } => rate.bps() as f64 / 1e9,
            FlowRate::Packets(n) | FlowRate::Messages(n) => n,
            _ => 1.0,
        })
    };
    let unit = unit.trim();
    let place = match unit {
        "%" => "/line_rate_pct",
        u if u.ends_with("pps") => "/packet_rate",
        u if u.ends_with("msg/s") => "/message_rate",
        _ => match layer {
            Layer::L1 => "/l1_gbps",
            Layer::L2 => "/l2_gbps",
            Layer::Goodput => "/goodput_gbps",
        },
    };
    Some(figure(place)? / one(unit)?)
}

/// Up to four digits behind the point.
fn trimmed(x: f64) -> String {
    let text = format!("{x:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn line(t: &Trial, unit: &str) -> String {
    let time = |name: &str| {
        t.figures.get(name).map_or("-".to_owned(), |ns| Duration::from_nanos(ns as u64).to_string())
    };
    let mut out = format!(
        "{:>12}  got {:>12}  p99 {:>10}  ",
        format!("{}{unit}", trimmed(t.asked)),
        t.got.map_or("-".to_owned(), |g| format!("{}{unit}", trimmed(g))),
        time("latency_p99_ns")
    );
    let _ = match &t.why {
        None => write!(out, "holds"),
        Some(why) => write!(out, "does not: {why}"),
    };
    out
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Until::Loss => f.write_str("loss"),
            Until::Latency(figure, bound) => {
                let name =
                    figure.trim_start_matches("latency_").trim_end_matches("_ns").replace("99_9", "99.9");
                write!(f, "{name}<{bound}")
            }
        }
    }
}

/// For a terminal.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for t in &self.trials {
            writeln!(f, "{}", line(t, &self.unit))?;
        }
        let rate = |x: f64| format!("{}{}", trimmed(x), self.unit);
        match (self.found, self.failed) {
            (Some(found), Some(failed)) => {
                writeln!(
                    f,
                    "flow \"{}\" until {}: {} holds, {} does not",
                    self.flow,
                    self.until,
                    rate(found),
                    rate(failed)
                )
            }
            (Some(found), None) => {
                writeln!(
                    f,
                    "flow \"{}\" until {}: {} holds, the most that was asked for",
                    self.flow,
                    self.until,
                    rate(found)
                )
            }
            (None, _) => {
                writeln!(f, "flow \"{}\" until {}: not even the lowest rate holds", self.flow, self.until)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_asked_for() {
        assert_eq!("loss".parse(), Ok(Until::Loss));
        assert_eq!("p99<20us".parse(), Ok(Until::Latency("latency_p99_ns", Duration::from_micros(20))));
        assert_eq!("p99.9 <= 1ms".parse::<Until>().unwrap().to_string(), "p99.9<1ms");
        assert!("p98<1us".parse::<Until>().is_err() && "p99<20".parse::<Until>().is_err());
        assert_eq!("5Gbps".parse(), Ok(RateText { number: 5.0, unit: "Gbps".into() }));
        for wrong in ["", "Gbps", "0%", "5", "-1%"] {
            assert!(wrong.parse::<RateText>().is_err(), "{wrong}");
        }
    }

    /// Bisection of a line that carries `limit`; the rates that are tried.
    fn bisect(limit: f64, low: f64, high: f64) -> (Search, Vec<f64>) {
        let mut search = Search {
            schema: "",
            scenario: String::new(),
            mode: "sim",
            bound_ns: None,
            flow: String::new(),
            until: String::new(),
            unit: "%".into(),
            found: None,
            failed: None,
            trials: Vec::new(),
        };
        let (mut passes, mut fails, mut tried) = (low, high, Vec::new());
        let mut next = Some(high);
        while let Some(x) = next {
            tried.push(x);
            if x <= limit {
                search.found = Some(search.found.map_or(x, |f: f64| f.max(x)));
                passes = passes.max(x);
            } else {
                search.failed = Some(search.failed.map_or(x, |f: f64| f.min(x)));
                fails = fails.min(x);
            }
            next = step(&search, low, passes, fails, 0.01);
        }
        (search, tried)
    }

    #[test]
    fn bisection() {
        let (all, tried) = bisect(200.0, 1.0, 100.0);
        assert_eq!((all.found, all.failed, tried.len()), (Some(100.0), None, 1));
        let (none, tried) = bisect(0.5, 1.0, 100.0);
        assert_eq!((none.found, none.failed, tried), (None, Some(1.0), vec![100.0, 1.0]));
        let (some, tried) = bisect(73.0, 1.0, 100.0);
        let (found, failed) = (some.found.unwrap(), some.failed.unwrap());
        assert!(found <= 73.0 && failed > 73.0 && failed - found <= 0.01 * failed, "{found} {failed}");
        assert!(tried.len() <= 10, "{tried:?}");
    }

    #[test]
    fn trials() {
        let result = |l1: f64, resent: u64, p99: u64| json!({"flows": [{"name": "f", "l1_gbps": l1, "retransmits": resent, "latency_ns": {"p99": p99}}]});
        let why = |r: &Value, until| judge(r, "f", 10.0, ("Gbps", Layer::L1), until).why;
        let bound = Until::Latency("latency_p99_ns", Duration::from_nanos(500));
        assert_eq!(why(&result(9.9, 0, 400), Until::Loss), None);
        assert_eq!(why(&result(9.9, 2, 400), Until::Loss).unwrap(), "2 lost, sent again or failed");
        assert_eq!(why(&result(5.0, 0, 400), Until::Loss).unwrap(), "only 5Gbps was sent");
        assert_eq!(why(&result(9.9, 2, 400), bound), None);
        assert_eq!(why(&result(9.9, 0, 501), bound).unwrap(), "latency is 501ns");
        assert_eq!(why(&Value::Null, Until::Loss).unwrap(), "there was no result");
    }
}
