//! `[dcqcn]` and `[notification]`: how senders react to congestion, and how receivers tell of it.

use super::error::ScenarioError;
use super::limits::Range;
use super::quantity::parse_duration;
use super::read::Table;
use roce_engine::cc::{Algorithm, CnpKey, DcqcnParams, KNOBS, Knob, NotificationConfig, Preset};
use roce_engine::units::{Duration, Rate};

/// `[dcqcn]`: the reaction point of every flow with `cc = "dcqcn"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    /// Where the knobs come from that are not set.
    pub preset: Preset,
    algorithm: Option<Algorithm>,
    knobs: Vec<(usize, u32)>,
    flags: [Option<bool>; FLAGS.len()],
}

/// Knobs that are true or false.
const FLAGS: [&str; 4] =
    ["clamp_tgt_rate", "clamp_tgt_rate_after_time_inc", "full_fast_recovery", "slow_restart"];

impl Dcqcn {
    /// A preset as it is.
    pub fn new(preset: Preset) -> Dcqcn {
        Dcqcn { preset, algorithm: None, knobs: Vec::new(), flags: [None; FLAGS.len()] }
    }

    /// The knobs on a port of this line rate.
    pub fn params(&self, line: Rate) -> DcqcnParams {
        let mut params = self.preset.params(line);
        params.algorithm = self.algorithm.unwrap_or(params.algorithm);
        for (knob, value) in &self.knobs {
            (KNOBS[*knob].set)(&mut params, *value);
        }
        let targets = [
            &mut params.clamp_tgt_rate,
            &mut params.clamp_tgt_rate_after_time_inc,
            &mut params.full_fast_recovery,
            &mut params.slow_restart,
        ];
        for (target, flag) in targets.into_iter().zip(self.flags) {
            *target = flag.unwrap_or(*target);
        }
        params
    }
}

pub(super) fn read_dcqcn(t: &Table<'_>) -> Result<Dcqcn, ScenarioError> {
    let mut dcqcn = Dcqcn::new(t.word("preset", &Preset::ALL)?.unwrap_or(Preset::Nvidia));
    dcqcn.algorithm = t.word("algorithm", &Algorithm::ALL)?;
    for (i, knob) in KNOBS.iter().enumerate() {
        dcqcn.knobs.extend(read_knob(t, knob)?.map(|value| (i, value)));
    }
    for (flag, name) in dcqcn.flags.iter_mut().zip(FLAGS) {
        *flag = t.flag(name)?;
    }
    // What does not fit together does so at no line rate.
    dcqcn.params(Rate::from_gbps(100)).check().map_err(|e| t.fail(e))?;
    Ok(dcqcn)
}

fn read_knob(t: &Table<'_>, knob: &Knob) -> Result<Option<u32>, ScenarioError> {
    let range = Range { min: knob.range.0.into(), max: knob.range.1.into() };
    let value = t.integer_in(knob.name, range);
    value.map_err(|_| t.error(knob.name, format_args!("must be {range} ({})", knob.unit)))
}

/// What holds without a `[notification]`: CNPs at the interval of the preset.
pub(super) fn default_notification(preset: Preset) -> NotificationConfig {
    NotificationConfig {
        min_time_between_cnps: preset.min_time_between_cnps(),
        ..NotificationConfig::default()
    }
}

/// `None` when nobody is told of marks.
pub(super) fn read_notification(
    t: &Table<'_>,
    preset: Preset,
) -> Result<Option<NotificationConfig>, ScenarioError> {
    let default = default_notification(preset);
    let interval = t.parse("min_time_between_cnps", parse_duration)?;
    if interval.is_some_and(|i| i > Duration::from_micros(131_071)) {
        return Err(t.error("min_time_between_cnps", "must be at most 131071us"));
    }
    let config = NotificationConfig {
        key: t.word("key", &CnpKey::ALL)?.unwrap_or(default.key),
        min_time_between_cnps: interval.unwrap_or(default.min_time_between_cnps),
        cnp_dscp: t.integer("cnp_dscp")?.unwrap_or(default.cnp_dscp),
        cnp_802p_prio: t.integer("cnp_802p_prio")?.unwrap_or(default.cnp_802p_prio),
        cnp_with_nak: t.flag("cnp_with_nak")?.unwrap_or(default.cnp_with_nak),
    };
    if config.key == CnpKey::None && t.has("min_time_between_cnps") {
        let text = "key \"none\" answers every mark: there is no time in between";
        return Err(t.clash("key", "min_time_between_cnps", text));
    }
    Ok(t.flag("enabled")?.unwrap_or(true).then_some(config))
}

#[cfg(test)]
mod tests {
    use crate::config::limits;
    use crate::config::{Control, Scenario};
    use roce_engine::cc::{Algorithm, CnpKey, KNOBS, Preset};
    use roce_engine::units::{Duration, Rate};
    use std::path::Path;

    fn parse(flow: &str, more: &str) -> Result<Scenario, String> {
        let text = format!(
            r#"run = {{ duration = "1s", line_rate = "100Gbps" }}
port = [
  {{ name = "a", device = "ring:0", ip = "198.18.0.1" }},
  {{ name = "b", device = "ring:0", ip = "198.18.0.2" }},
]
flow = [{{ name = "f", from = "a", to = "b", verb = "write", size = 8{flow} }}]
{more}
"#
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).map_err(|e| e.to_string())
    }

    #[test]
    fn every_knob_is_a_key() {
        for knob in KNOBS {
            assert!(limits::DCQCN.contains(&knob.name), "{}", knob.name);
            let s = parse("", &format!("[dcqcn]\n{} = {}", knob.name, knob.range.1));
            let text = match s {
                Ok(s) => {
                    let params = s.dcqcn.unwrap().params(Rate::from_gbps(100));
                    assert_eq!((knob.get)(&params), knob.range.1);
                    continue;
                }
                Err(e) => e,
            };
            assert!(knob.name == "rpg_min_rate" || text.contains(knob.name), "{text}");
        }
        let error = parse("", "[dcqcn]\ndce_tcp_g = 1024").unwrap_err();
        insta::assert_snapshot!(error, @r#"x.toml:8: [dcqcn]: key "dce_tcp_g": 1024: must be a whole number from 0 to 1023 (1/1024)"#);
        let error = parse("", "[dcqcn]\nrpg_max_rate = 5\nrpg_min_rate = 6").unwrap_err();
        insta::assert_snapshot!(error, @"x.toml:7: [dcqcn]: rpg_min_rate: 6 Mb/s is more than rpg_max_rate, 5 Mb/s");
    }

    #[test]
    fn presets_and_flags() {
        let s = parse("", "[dcqcn]\npreset = \"hpcc-paper\"\nslow_restart = true\nalgorithm = \"nvidia\"")
            .unwrap();
        let dcqcn = s.dcqcn.as_ref().unwrap();
        let params = dcqcn.params(Rate::from_gbps(200));
        assert_eq!((dcqcn.preset, params.algorithm), (Preset::HpccPaper, Algorithm::Nvidia));
        assert!(params.slow_restart && !params.clamp_tgt_rate);
        assert_eq!((params.rpg_ai_rate, params.rpg_time_reset), (40, 55));
        let error = parse("", "[dcqcn]\npreset = \"nvida\"").unwrap_err();
        insta::assert_snapshot!(error, @r#"x.toml:8: [dcqcn]: key "preset": "nvida": must be one of "nvidia", "sigcomm15", "hpcc", "hpcc-paper", "keysight", "spirent"; did you mean "nvidia"?"#);
    }

    #[test]
    fn flows_choose() {
        let cc = |flow, more| parse(flow, more).map(|s| (s.flows[0].cc, s.flows[0].tos));
        assert_eq!(cc("", ""), Ok((Control::None, 0)));
        // What is under control carries ECT(0), or nobody could mark it.
        assert_eq!(cc("", "[dcqcn]"), Ok((Control::Dcqcn, 2)));
        assert_eq!(cc(", ecn = false", "[dcqcn]"), Ok((Control::Dcqcn, 0)));
        assert_eq!(cc(", cc = \"none\"", "[dcqcn]"), Ok((Control::None, 0)));
        assert_eq!(cc(", cc = \"dcqcn\", dscp = 26", ""), Ok((Control::Dcqcn, 0x6A)));
    }

    #[test]
    fn notification() {
        let s = parse("", "").unwrap();
        let n = s.notification.unwrap();
        assert_eq!((n.key, n.cnp_tos(), n.cnp_802p_prio), (CnpKey::Qp, 0xC0, 6));
        assert_eq!(n.min_time_between_cnps, Duration::from_micros(4));
        let n = parse("", "[dcqcn]\npreset = \"sigcomm15\"").unwrap().notification.unwrap();
        assert_eq!(n.min_time_between_cnps, Duration::from_micros(50));
        let n = parse("", "[notification]\nkey = \"port\"\nmin_time_between_cnps = \"7us\"\ncnp_dscp = 46");
        let n = n.unwrap().notification.unwrap();
        assert_eq!(
            (n.key, n.min_time_between_cnps, n.cnp_dscp),
            (CnpKey::Port, Duration::from_micros(7), 46)
        );
        assert!(parse("", "[notification]\nenabled = false").unwrap().notification.is_none());
        let error = parse("", "[notification]\ncnp_802p_prio = 8").unwrap_err();
        insta::assert_snapshot!(error, @r#"x.toml:8: [notification]: key "cnp_802p_prio": 8: must be a whole number from 0 to 7"#);
    }
}
