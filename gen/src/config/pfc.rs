//! `[port.pfc]`: link-level flow control of a port.

use super::error::ScenarioError;
use super::limits::{self, Range};
use super::model::Device;
use super::quantity::{parse_bit_rate, parse_duration, parse_size};
use super::read::Table;
use roce_engine::cc::{Lag, PauseConfig, PauseKind, PriorityMap, Storm, Watchdog};
use roce_engine::io::dpdk::FlowControl;
use roce_engine::units::{Duration, Rate};
use roce_engine::wire::MacAddr;

/// Flow control as a scenario has it: without the port's speed and address.
#[derive(Clone, Debug, PartialEq)]
pub struct Pfc {
    /// Whether the NIC does it; else this program.
    pub nic: bool,
    /// Its frames.
    pub kind: PauseKind,
    /// Lossless priorities: bit n is priority n.
    pub lossless: u8,
    /// From DSCP or tag to priority.
    pub map: PriorityMap,
    obey: bool,
    quanta: u16,
    lag: Option<Lag>,
    storm: Option<Storm>,
    watchdog: Option<Watchdog>,
}

impl Pfc {
    /// What a NIC is told: to do it, or to leave it to this program.
    pub fn of_the_nic(&self) -> FlowControl {
        match (self.nic, self.kind) {
            (false, _) => FlowControl::None,
            (true, PauseKind::Link) => FlowControl::Link,
            (true, PauseKind::Pfc) => FlowControl::Priorities { mask: self.lossless, quanta: self.quanta },
        }
    }

    /// For a port of this speed and address, where this program does it.
    pub fn config(&self, speed: Rate, mac: MacAddr) -> Option<PauseConfig> {
        (!self.nic).then_some(PauseConfig {
            kind: self.kind,
            lossless: self.lossless,
            obey: self.obey,
            speed,
            mac,
            quanta: self.quanta,
            lag: self.lag,
            storm: self.storm,
            watchdog: self.watchdog,
        })
    }
}

/// Detection and restoration times that switches take.
const DETECTION: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
const RESTORATION: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Reads the table of a port with this device and so many cores.
pub(super) fn read_pfc(t: &Table<'_>, device: &Device, cores: usize) -> Result<Pfc, ScenarioError> {
    const KINDS: [(&str, PauseKind); 2] = [("pfc", PauseKind::Pfc), ("link", PauseKind::Link)];
    let kind = t.word("kind", &KINDS)?.unwrap_or_default();
    let card = matches!(device, Device::Pci(_));
    let nic = t.word("by", &[("software", false), ("nic", true)])?.unwrap_or(card);
    if nic && !card {
        return Err(t.error("by", format_args!("{device} is no NIC: write \"software\" or leave it out")));
    }
    if !nic && cores > 1 {
        let text = "pause frames reach one core of a port only: give the port one core";
        return Err(t.fail(text));
    }
    let lossless = priorities(t, "priorities")?.unwrap_or(1 << 3);
    let pfc = Pfc {
        nic,
        kind,
        lossless,
        map: read_map(t)?,
        obey: t.flag("obey")?.unwrap_or(true),
        quanta: t.integer_in("quanta", Range { min: 1, max: 65_535 })?.unwrap_or(u16::MAX),
        lag: read_lag(t)?,
        storm: read_storm(t, lossless)?,
        watchdog: read_watchdog(t)?,
    };
    let software = ["obey", "drain", "storm_period", "watchdog"];
    if let Some(key) = software.into_iter().find(|k| nic && t.has(k)) {
        return Err(t.error(key, "the NIC does flow control: this needs by = \"software\""));
    }
    Ok(pfc)
}

/// A list of priorities as a mask.
fn priorities(t: &Table<'_>, key: &str) -> Result<Option<u8>, ScenarioError> {
    let one = |text: &str| match text.parse::<u8>() {
        Ok(p) if p < 8 => Ok(1u8 << p),
        _ => Err("a priority is 0 to 7, as in [3]".to_owned()),
    };
    Ok(t.list(key, one)?.map(|list| list.into_iter().fold(0, |mask, bit| mask | bit)))
}

fn read_map(t: &Table<'_>) -> Result<PriorityMap, ScenarioError> {
    let by_tag = t.word("trust", &[("dscp", false), ("pcp", true)])?.unwrap_or(false);
    let entry = |text: &str| -> Result<(usize, u8), String> {
        let parsed = text.split_once('=').and_then(|(dscp, priority)| {
            Some((dscp.trim().parse::<usize>().ok()?, priority.trim().parse::<u8>().ok()?))
        });
        parsed
            .filter(|(dscp, priority)| *dscp < 64 && *priority < 8)
            .ok_or_else(|| "write DSCP=PRIORITY, 0 to 63 and 0 to 7, as in [\"26=3\", \"48=6\"]".to_owned())
    };
    let entries = t.list("dscp_map", entry)?;
    match (by_tag, entries, PriorityMap::default()) {
        (true, Some(_), _) => Err(t.clash("trust", "dscp_map", "by \"pcp\" no DSCP is looked at")),
        (true, None, _) => Ok(PriorityMap::Pcp),
        (false, entries, PriorityMap::Dscp(mut map)) => {
            for (dscp, priority) in entries.unwrap_or_default() {
                map[dscp] = priority;
            }
            Ok(PriorityMap::Dscp(map))
        }
        (false, _, map) => Ok(map),
    }
}

/// A receiver that falls behind.
fn read_lag(t: &Table<'_>) -> Result<Option<Lag>, ScenarioError> {
    let Some(drain) = t.parse("drain", parse_bit_rate)? else {
        let lone = ["xoff", "xon"].into_iter().find(|k| t.has(k));
        return match lone {
            Some(key) => {
                Err(t.error(key, "belongs to \"drain\", the rate at which the receiver takes bytes"))
            }
            None => Ok(None),
        };
    };
    let xoff = t.parse("xoff", parse_size)?.unwrap_or(100_000);
    let xon = t.parse("xon", parse_size)?.unwrap_or(xoff / 2);
    if xon == 0 || xon >= xoff {
        return Err(t.clash("xoff", "xon", "xon must be at least 1 byte and less than xoff"));
    }
    Ok(Some(Lag { drain, xoff, xon }))
}

fn read_storm(t: &Table<'_>, lossless: u8) -> Result<Option<Storm>, ScenarioError> {
    let Some(period) = t.duration("storm_period")? else {
        let lone = ["storm_priorities", "storm_from", "storm_length"].into_iter().find(|k| t.has(k));
        return match lone {
            Some(key) => Err(t.error(key, "belongs to \"storm_period\", the time between two pause frames")),
            None => Ok(None),
        };
    };
    if period < Duration::from_micros(1) {
        return Err(t.error("storm_period", "must be at least 1us"));
    }
    Ok(Some(Storm {
        priorities: priorities(t, "storm_priorities")?.unwrap_or(lossless),
        from: t.duration("storm_from")?.unwrap_or(Duration::ZERO),
        length: t.duration("storm_length")?.unwrap_or(Duration::from_secs(3600)),
        period,
    }))
}

fn read_watchdog(t: &Table<'_>) -> Result<Option<Watchdog>, ScenarioError> {
    let words = [("off", None), ("alert", Some(false)), ("forward", Some(true))];
    let Some(forward) = t.word("watchdog", &words)?.flatten() else {
        let lone = ["detection", "restoration"].into_iter().find(|k| t.has(k));
        return match lone {
            Some(key) => Err(t.error(key, "belongs to watchdog = \"alert\" or \"forward\"")),
            None => Ok(None),
        };
    };
    let time = |key: &str, (min, max): (Duration, Duration)| {
        let time = t.parse(key, parse_duration)?.unwrap_or(Duration::from_millis(200));
        match time >= min && time <= max {
            true => Ok(time),
            false => Err(t.error(key, format_args!("must be from {min} to {max}"))),
        }
    };
    let detection = time("detection", DETECTION)?;
    Ok(Some(Watchdog { detection, restoration: time("restoration", RESTORATION)?, forward }))
}

/// The keys of the table.
pub(super) const KEYS: &[&str] = limits::PFC;

#[cfg(test)]
mod tests {
    use crate::config::Scenario;
    use roce_engine::cc::{Lag, PauseKind, Watchdog};
    use roce_engine::units::{Duration, Rate};
    use roce_engine::wire::MacAddr;
    use std::path::Path;

    fn parse(device: &str, pfc: &str) -> Result<Scenario, String> {
        let text = format!(
            r#"run = {{ duration = "1s", line_rate = "100Gbps" }}
flow = [{{ name = "f", from = "a", to = "b", verb = "write", size = 8 }}]
[[port]]
name = "a"
device = "{device}"
ip = "198.18.0.1"
[port.pfc]
{pfc}
[[port]]
name = "b"
device = "{device}"
ip = "198.18.0.2"
"#
        );
        let text = if device.starts_with("ring") {
            text
        } else {
            text.replacen(device, "net_null0", 2).replacen("net_null0", device, 1).replacen(
                "net_null0",
                "net_null1",
                1,
            )
        };
        Scenario::parse(Path::new("x.toml"), &text, &[]).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults() {
        let s = parse("ring:0", "").unwrap();
        let pfc = s.ports[0].pfc.as_ref().unwrap();
        assert!(!pfc.nic && s.ports[1].pfc.is_none());
        let c = pfc.config(Rate::from_gbps(100), MacAddr::default()).unwrap();
        assert_eq!((c.kind, c.lossless, c.obey, c.quanta), (PauseKind::Pfc, 8, true, u16::MAX));
        assert!(c.lag.is_none() && c.storm.is_none() && c.watchdog.is_none());
        assert_eq!((pfc.map.of(26 << 2, None), pfc.map.of(48 << 2, None)), (3, 6));
    }

    #[test]
    fn every_key() {
        let s = parse(
            "ring:0",
            r#"kind = "link"
by = "software"
priorities = [3, 4]
dscp_map = ["10=4", "11 = 5"]
obey = false
quanta = 1000
drain = "5Gbps"
xoff = "64KiB"
xon = "32KiB"
storm_priorities = [4]
storm_from = "1ms"
storm_length = "2ms"
storm_period = "100us"
watchdog = "forward"
detection = "100ms"
restoration = "60s""#,
        );
        let pfc = s.unwrap().ports[0].pfc.clone().unwrap();
        let c = pfc.config(Rate::from_gbps(100), MacAddr::default()).unwrap();
        assert_eq!((c.kind, c.lossless, c.obey, c.quanta), (PauseKind::Link, 0x18, false, 1000));
        assert_eq!(c.lag, Some(Lag { drain: Rate::from_gbps(5), xoff: 65_536, xon: 32_768 }));
        assert_eq!(c.storm.map(|s| (s.priorities, s.period)), Some((16, Duration::from_micros(100))));
        let dog = Watchdog {
            detection: Duration::from_millis(100),
            restoration: Duration::from_secs(60),
            forward: true,
        };
        assert_eq!(c.watchdog, Some(dog));
        assert_eq!((pfc.map.of(10 << 2, None), pfc.map.of(11 << 2, None)), (4, 5));
    }

    #[test]
    fn mistakes() {
        for (pfc, want) in [
            ("priorities = [8]", "\"priorities\": [8]: a priority is 0 to 7, as in [3]"),
            ("dscp_map = [\"64=1\"]", "write DSCP=PRIORITY, 0 to 63 and 0 to 7"),
            ("trust = \"pcp\"\ndscp_map = [\"6=1\"]", "by \"pcp\" no DSCP is looked at"),
            ("xoff = 5", "belongs to \"drain\""),
            ("drain = \"1Gbps\"\nxoff = 5\nxon = 5", "xon must be at least 1 byte and less than xoff"),
            ("watchdog = \"alert\"\ndetection = \"99ms\"", "must be from 100ms to 5s"),
            ("by = \"nic\"", "ring:0 is no NIC"),
            ("prioritys = [3]", "unknown key \"prioritys\" in [port.pfc]; did you mean \"priorities\"?"),
        ] {
            let error = parse("ring:0", pfc).unwrap_err();
            assert!(error.starts_with("x.toml:") && error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_nic_does_it_itself() {
        let s = parse("0000:3b:00.0", "priorities = [3]").unwrap();
        let pfc = s.ports[0].pfc.as_ref().unwrap();
        assert!(pfc.nic && pfc.config(Rate::from_gbps(100), MacAddr::default()).is_none());
        let error = parse("0000:3b:00.0", "drain = \"1Gbps\"").unwrap_err();
        assert!(error.contains("\"drain\""), "{error}");
        assert!(parse("0000:3b:00.0", "by = \"software\"\ndrain = \"1Gbps\"").is_ok());
    }
}
