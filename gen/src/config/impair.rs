//! `[[impair]]`, `[link]` and `[cliff]`: what goes wrong, where, and how much of it.

use super::error::{ScenarioError, suggest};
use super::fabric::read_marking;
use super::limits;
use super::model::{Cliff, Flow, Impair, Link, Recovery};
use super::quantity::{parse_bit_rate, parse_duration, parse_share, parse_size};
use super::read::Table;
use roce_engine::fabric::{Action, Chance, PacketClass, Rule, Way};
use roce_engine::units::{Duration, Mtu};
use roce_engine::wire::Opcode;

/// Packets that overtake a reordered one, and the longest that it waits for them.
const PACKETS: u32 = 3;
const HOLD: Duration = Duration::from_micros(100);

/// Reads one table, which may stand for several rules.
pub(super) fn read_impair(t: &Table<'_>, flows: &[Flow]) -> Result<Impair, ScenarioError> {
    let base = read_subject(t, flows)?;
    let packets: u32 = t.integer("packets")?.unwrap_or(PACKETS);
    let reorder = Action::Reorder { packets, at_most: t.duration("hold")?.unwrap_or(HOLD) };
    let delay = t.duration("delay")?.map(Action::Delay);
    let corrupt = Action::Corrupt(t.integer("bit")?);
    let mut rules = Vec::new();
    if t.has("action") {
        let words = [
            ("drop", Some(Action::Drop)),
            ("duplicate", Some(Action::Duplicate)),
            ("reorder", Some(reorder)),
            ("delay", delay),
            ("corrupt", Some(corrupt)),
            ("mark_ce", Some(Action::MarkCe)),
        ];
        for key in limits::SHARES.iter().filter(|k| **k != "chance") {
            if t.has(key) {
                let text = "a table has one \"action\", or shares of several; write another [[impair]]";
                return Err(t.clash("action", key, text));
            }
        }
        let Some(action) = t.need("action", t.word("action", &words)?)? else {
            return Err(t.fail("action \"delay\" needs the key \"delay\", as in delay = \"10us\""));
        };
        let chance = t.parse("chance", parse_share)?.map_or(Chance::ALWAYS, Chance::new);
        rules.push(Rule { chance, action, ..base });
    } else {
        if t.has("chance") {
            return Err(t.error("chance", "belongs to an \"action\""));
        }
        let shares = [
            ("loss", Action::Drop),
            ("duplicate", Action::Duplicate),
            ("reorder", reorder),
            ("corrupt", corrupt),
            ("mark_ce", Action::MarkCe),
        ];
        for (key, action) in shares {
            if let Some(share) = t.parse(key, parse_share)? {
                rules.push(Rule { chance: Chance::new(share), action, ..base });
            }
        }
        rules.extend(delay.map(|action| Rule { action, ..base }));
    }
    if rules.is_empty() {
        return Err(t.fail("does nothing: write loss = \"0.1%\" or action = \"drop\""));
    }
    let has = |wanted: fn(&Action) -> bool| rules.iter().any(|r| wanted(&r.action));
    for (key, used) in [
        ("packets", has(|a| matches!(a, Action::Reorder { .. }))),
        ("hold", has(|a| matches!(a, Action::Reorder { .. }))),
        ("delay", has(|a| matches!(a, Action::Delay(_)))),
        ("bit", has(|a| matches!(a, Action::Corrupt(_)))),
    ] {
        if t.has(key) && !used {
            return Err(t.error(key, "belongs to another action"));
        }
    }
    Ok(Impair { rules })
}

/// The packets that a table is about.
fn read_subject(t: &Table<'_>, flows: &[Flow]) -> Result<Rule, ScenarioError> {
    const WAYS: [(&str, Way); 3] = [("data", Way::Forward), ("ack", Way::Backward), ("both", Way::Both)];
    const CLASSES: [(&str, PacketClass); 3] =
        [("any", PacketClass::Any), ("data", PacketClass::Data), ("ack", PacketClass::Ack)];
    let flow = match t.text("flow")? {
        None => None,
        Some(name) => Some(flows.iter().position(|f| f.name == name).ok_or_else(|| {
            t.error(
                "flow",
                format_args!("no such flow{}", suggest(name, flows.iter().map(|f| f.name.as_str()))),
            )
        })?),
    };
    let qp: Option<u32> = t.integer("qp")?;
    let qps = flow.map_or_else(|| flows.iter().map(|f| f.qps).max().unwrap_or(0), |f| flows[f].qps);
    if qp.is_some_and(|qp| qp >= qps) {
        return Err(t.error("qp", format_args!("there are {qps} queue pairs, the first is 0")));
    }
    let opcode = t.parse("opcode", |name| {
        let found = (0..=u8::MAX).map(Opcode).find(|o| o.info().is_some_and(|i| i.name == name));
        found.ok_or_else(|| {
            let names = (0..=u8::MAX).filter_map(|o| Opcode(o).info()).map(|i| i.name);
            format!("no such opcode{}", suggest(name, names))
        })
    })?;
    let psn: Option<u32> = t.integer("psn")?;
    // Whoever names a packet of a flow means one with payload, not its acknowledgement.
    let usual = if psn.is_some() { Way::Forward } else { Way::Both };
    Ok(Rule {
        flow: flow.map(|f| f as u32),
        qp,
        way: t.word("direction", &WAYS)?.unwrap_or(usual),
        class: t.word("class", &CLASSES)?.unwrap_or_default(),
        opcode,
        psn: psn.map(i64::from),
        pass: t.integer("pass")?,
        ..Rule::always(Action::Drop)
    })
}

/// What holds without a `[link]`.
pub(super) fn default_link() -> Link {
    Link { rate: None, delay: Duration::from_micros(1), queue_bytes: 1 << 20, marking: None }
}

pub(super) fn read_link(t: &Table<'_>) -> Result<Link, ScenarioError> {
    let default = default_link();
    let rate = t.parse("rate", parse_bit_rate)?;
    let marking = read_marking(t)?;
    if marking.is_some() && rate.is_none() {
        return Err(t.error("ecn_kmin", "belongs to a link that is slower than its ports: give its rate"));
    }
    Ok(Link {
        rate,
        delay: t.duration("delay")?.unwrap_or(default.delay),
        queue_bytes: t.parse("queue", parse_size)?.unwrap_or(default.queue_bytes),
        marking,
    })
}

pub(super) fn read_cliff(t: &Table<'_>) -> Result<Cliff, ScenarioError> {
    let mtu = |text: &str| {
        let known = text.parse().ok().and_then(Mtu::from_bytes);
        known.ok_or_else(|| "a path MTU is one of 256, 512, 1024, 2048, 4096".to_owned())
    };
    let recovery = |text: &str| {
        let known = Recovery::ALL.into_iter().find(|r| r.as_str() == text);
        known.ok_or_else(|| {
            format!("a recovery is one of \"{}\"", Recovery::ALL.map(Recovery::as_str).join("\", \""))
        })
    };
    let cliff = Cliff {
        loss: t.need("loss", t.list("loss", parse_share)?)?,
        mtu: t.need("mtu", t.list("mtu", mtu)?)?,
        round_trip: t.need("round_trip", t.list("round_trip", parse_duration)?)?,
        recovery: t.list("recovery", recovery)?.unwrap_or_else(|| Recovery::ALL.to_vec()),
    };
    if cliff.round_trip.iter().any(|rtt| *rtt < Duration::from_micros(1)) {
        return Err(t.error("round_trip", "must be at least 1us each"));
    }
    if cliff.loss.iter().any(|p| *p > 0.5) {
        return Err(t.error("loss", "must be at most 50% each"));
    }
    Ok(cliff)
}

#[cfg(test)]
mod tests {
    use crate::config::Scenario;
    use roce_engine::fabric::{Action, Chance, Way};
    use std::path::Path;

    fn parse(more: &str) -> Result<Scenario, String> {
        let text = format!(
            r#"run = {{ duration = "1s", line_rate = "100Gbps" }}
port = [
  {{ name = "a", device = "ring:0", ip = "198.18.0.1" }},
  {{ name = "b", device = "ring:0", ip = "198.18.0.2" }},
]
flow = [{{ name = "f", from = "a", to = "b", verb = "write", size = 8, qps = 2 }}]
{more}
"#
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).map_err(|e| e.to_string())
    }

    #[test]
    fn a_named_packet() {
        let s = parse("[[impair]]\nflow = \"f\"\nqp = 1\npsn = 5\npass = 1\naction = \"drop\"").unwrap();
        let rule = s.rules().next().unwrap();
        assert_eq!((rule.flow, rule.qp, rule.psn, rule.pass), (Some(0), Some(1), Some(5), Some(1)));
        assert_eq!((rule.way, rule.action, rule.chance), (Way::Forward, Action::Drop, Chance::ALWAYS));
    }

    #[test]
    fn shares_are_rules() {
        let s = parse("[[impair]]\nloss = \"1%\"\nduplicate = \"1e-3\"\nreorder = 0.001\ndelay = \"2us\"")
            .unwrap();
        let rules: Vec<_> = s.rules().map(|r| (r.action.kind().as_str(), r.chance)).collect();
        let share = |name, p| (name, Chance::new(p));
        assert_eq!(
            rules,
            [
                share("drop", 0.01),
                share("duplicate", 1e-3),
                share("reorder", 1e-3),
                ("delay", Chance::ALWAYS)
            ]
        );
        assert!(s.rules().all(|r| r.way == Way::Both));
    }

    #[test]
    fn what_is_wrong() {
        let error = |more: &str| parse(more).unwrap_err();
        insta::assert_snapshot!(error("[[impair]]\nflow = \"f\""), @r#"x.toml:7: [[impair]] number 1: does nothing: write loss = "0.1%" or action = "drop""#);
        insta::assert_snapshot!(error("[[impair]]\nlos = \"1%\""), @r#"x.toml:8: unknown key "los" in [[impair]]; did you mean "loss"?"#);
        insta::assert_snapshot!(error("[[impair]]\nloss = \"101%\""), @r#"x.toml:8: [[impair]] number 1: key "loss": "101%": more than 100 %"#);
        insta::assert_snapshot!(error("[[impair]]\nqp = 2\nloss = \"1%\""), @r#"x.toml:8: [[impair]] number 1: key "qp": 2: there are 2 queue pairs, the first is 0"#);
        insta::assert_snapshot!(error("[[impair]]\naction = \"delay\""), @r#"x.toml:7: [[impair]] number 1: action "delay" needs the key "delay", as in delay = "10us""#);
        insta::assert_snapshot!(error("[[impair]]\naction = \"drop\"\nloss = \"1%\""), @r#"x.toml:9: [[impair]] number 1: keys "action" (line 8) and "loss": a table has one "action", or shares of several; write another [[impair]]"#);
        insta::assert_snapshot!(error("[[impair]]\nloss = \"1%\"\nbit = 3"), @r#"x.toml:9: [[impair]] number 1: key "bit": 3: belongs to another action"#);
        insta::assert_snapshot!(error("[cliff]\nloss = [0]\nmtu = [1000]\nround_trip = [\"10us\"]"), @r#"x.toml:9: [cliff]: key "mtu": [1000]: a path MTU is one of 256, 512, 1024, 2048, 4096"#);
        insta::assert_snapshot!(error("[cliff]\nloss = 0\nmtu = [1024]\nround_trip = [\"10us\"]"), @r#"x.toml:8: [cliff]: key "loss": 0: must be a list with at least one element"#);
    }
}
