//! What messages a `[[flow]]` has, and when they are due: `size`, `sizes`, `mix`, `arrival`, `load`.

use super::error::ScenarioError;
use super::model::{Arrival, FlowRate, Layer, Verb};
use super::quantity::{parse_flow_rate, parse_number, parse_size};
use super::read::{Table, Value, show};
use crate::workload::{Kind, Sizes, Traffic};
use roce_engine::units::Duration;
use toml::de::DeValue;

/// The largest message.
const LARGEST: u64 = 1 << 31;

/// Reads `verb` with `size` or `sizes`, or the tables of a mix of several.
/// Messages have `size` bytes where that is known already.
pub(super) fn read_traffic(t: &Table<'_>, size: Option<u32>) -> Result<Traffic, ScenarioError> {
    let mix = t.many_below("mix", "[[flow.mix]]", &["verb", "size", "sizes", "weight"])?;
    let Some(mix) = mix else {
        let (verb, sizes) = (read_verb(t)?, size.map_or_else(|| read_sizes(t), |s| Ok(Sizes::Fixed(s)))?);
        return Ok(Traffic::new(vec![Kind { verb, sizes, share: 1.0 }]));
    };
    if let Some(key) = ["verb", "size", "sizes"].into_iter().find(|k| t.has(k)) {
        return Err(t.clash("mix", key, format_args!("each [[flow.mix]] has a \"{key}\" of its own")));
    }
    let kind = |t: &Table<'_>| {
        let share = t.parse("weight", parse_number)?.unwrap_or(1.0);
        if share <= 0.0 {
            return Err(t.error("weight", "must be more than zero"));
        }
        Ok(Kind { verb: read_verb(t)?, sizes: read_sizes(t)?, share })
    };
    Ok(Traffic::new(mix.iter().map(kind).collect::<Result<_, _>>()?))
}

fn read_verb(t: &Table<'_>) -> Result<Verb, ScenarioError> {
    t.need("verb", t.word("verb", &Verb::ALL.map(|v| (v.as_str(), v)))?)
}

fn read_sizes(t: &Table<'_>) -> Result<Sizes, ScenarioError> {
    const FORM: &str = "one of uniform = [\"1KiB\", \"64KiB\"], list = [[\"64B\", 70], [\"1MiB\", 30]] and \
                        cdf = \"workloads/websearch.txt\"";
    let Some(sizes) = t.below("sizes", "sizes", &["uniform", "list", "cdf"])? else {
        let size = t.need("size", t.size("size")?)?;
        let small = u32::try_from(size).ok().filter(|_| size <= LARGEST);
        return small.map(Sizes::Fixed).ok_or_else(|| t.error("size", TOO_LARGE));
    };
    if t.has("size") {
        return Err(t.clash("size", "sizes", "messages have one size or several"));
    }
    match ["uniform", "list", "cdf"].map(|key| sizes.has(key)) {
        [true, false, false] => {
            let bounds = sizes.list("uniform", parse_message_size)?.unwrap_or_default();
            match bounds[..] {
                [min, max] if min <= max => Ok(Sizes::Uniform { min, max }),
                _ => Err(sizes.error("uniform", "must be the smallest and the largest size")),
            }
        }
        [false, true, false] => read_list(&sizes),
        [false, false, true] => read_cdf(&sizes),
        _ => Err(t.error("sizes", FORM)),
    }
}

const TOO_LARGE: &str = "more than 2GiB (2147483648 bytes), the most that a message can have";

fn parse_message_size(text: &str) -> Result<u32, String> {
    let size = parse_size(text)?;
    u32::try_from(size).ok().filter(|_| size <= LARGEST).ok_or_else(|| TOO_LARGE.to_owned())
}

/// A list of sizes and weights; weights become shares, added up.
fn read_list(t: &Table<'_>) -> Result<Sizes, ScenarioError> {
    const FORM: &str = "must be a list of sizes with their weights, as in [[\"64B\", 70], [\"1MiB\", 30]]";
    let wrong = || t.error("list", FORM);
    let items = match t.get("list").map(|v| v.get_ref()) {
        Some(DeValue::Array(items)) if !items.is_empty() => items,
        _ => return Err(wrong()),
    };
    let text = |v: &Value<'_>| match v.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(n) => Some(n.as_str().to_owned()),
        DeValue::Float(n) => Some(n.as_str().to_owned()),
        _ => None,
    };
    let mut list = Vec::new();
    let mut sum = 0.0;
    for item in items.iter() {
        let DeValue::Array(pair) = item.get_ref() else { return Err(wrong()) };
        let (Some(size), Some(weight), 2) =
            (pair.first().and_then(text), pair.get(1).and_then(text), pair.len())
        else {
            return Err(wrong());
        };
        let shown = |e: String| t.error("list", format_args!("{}: {e}", show(item)));
        let size = parse_message_size(&size).map_err(shown)?;
        sum += parse_number(&weight).map_err(|_| shown("a weight is a number".to_owned()))?;
        list.push((size, sum));
    }
    if sum <= 0.0 {
        return Err(t.error("list", "no size has a weight"));
    }
    list.iter_mut().for_each(|(_, up_to)| *up_to /= sum);
    Ok(Sizes::List(list))
}

fn read_cdf(t: &Table<'_>) -> Result<Sizes, ScenarioError> {
    let file = t.need("cdf", t.text("cdf")?)?;
    let text = t.read_beside("cdf", file)?;
    let points = parse_cdf(&text).map_err(|e| t.error("cdf", e))?;
    Ok(Sizes::Cdf { file: file.to_owned(), points })
}

/// Lines "bytes cumulative-per-cent", as the traffic generator of the HPCC simulator reads them.
fn parse_cdf(text: &str) -> Result<Vec<(u32, f64)>, String> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let at = |what: &str| format!("line {}: {what}", i + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let number = |word: Option<&str>| word?.parse::<f64>().ok().filter(|n| n.is_finite());
        let (Some(bytes), Some(percent), None) = (number(words.next()), number(words.next()), words.next())
        else {
            return Err(at("not a size in bytes and a cumulative share in per cent, as in \"10000 15\""));
        };
        if !(0.0..=LARGEST as f64).contains(&bytes) {
            return Err(at("a size is from 0 to 2147483648 bytes"));
        }
        let point = (bytes.round() as u32, percent / 100.0);
        if points.last().is_some_and(|last| last.0 > point.0 || last.1 > point.1) {
            return Err(at("sizes and shares rise from line to line"));
        }
        if !(0.0..=1.0).contains(&point.1) {
            return Err(at("a share is from 0 to 100 per cent"));
        }
        points.push(point);
    }
    match points.last() {
        Some((_, share)) if (share - 1.0).abs() < 1e-9 => {}
        _ => return Err("the last line must have 100 per cent".to_owned()),
    }
    Ok(points)
}

/// Reads `arrival` and what goes with it; `rate` is what the flow is paced to.
pub(super) fn read_arrival(
    t: &Table<'_>,
    rate: FlowRate,
) -> Result<(Arrival, Option<FlowRate>), ScenarioError> {
    const WORDS: [&str; 4] = ["closed", "constant", "poisson", "on-off"];
    let word = t.word("arrival", &WORDS.map(|w| (w, w)))?;
    let load = t.parse("load", |text| match parse_flow_rate(text, Layer::L1)? {
        FlowRate::Packets(_) | FlowRate::Unlimited => {
            Err("write a share of the line rate, as in \"60%\", bits per second or messages per second"
                .into())
        }
        load => Ok(load),
    })?;
    let by_rate = matches!(rate, FlowRate::Messages(_));
    if load.is_some() && by_rate {
        return Err(t.clash("rate", "load", "both say how many messages are due"));
    }
    let open = load.is_some() || by_rate;
    let word = word.unwrap_or(if open { "constant" } else { "closed" });
    if word == "closed" && open {
        let other = if by_rate { "rate" } else { "load" };
        return Err(t.clash("arrival", other, "in a closed loop nothing is due by the clock"));
    }
    if word != "closed" && !open {
        let text = "how many messages? Add load = \"60%\", or rate = \"20kmsg/s\"";
        return Err(t.error("arrival", text));
    }
    let positive = |key: &str| match t.duration(key)? {
        Some(Duration::ZERO) => Err(t.error(key, "must be longer than zero")),
        other => Ok(other),
    };
    for (key, to) in [("think_time", "closed"), ("on", "on-off"), ("off", "on-off")] {
        if t.has(key) && word != to {
            return Err(t.error(key, format_args!("belongs to arrival = \"{to}\"")));
        }
    }
    let arrival = match word {
        "constant" => Arrival::Constant,
        "poisson" => Arrival::Poisson,
        "on-off" => {
            Arrival::OnOff { on: t.need("on", positive("on")?)?, off: t.need("off", positive("off")?)? }
        }
        _ => Arrival::Closed { think: t.duration("think_time")?.unwrap_or(Duration::ZERO) },
    };
    Ok((arrival, load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flow, Scenario};
    use std::path::Path;

    fn parse(flow: &str) -> Result<Flow, String> {
        let text = format!(
            "run = {{ duration = \"1ms\", line_rate = \"100Gbps\" }}\n\
             port = [{{ name = \"a\", device = \"ring:0\", ip = \"198.18.0.1\" }}, \
             {{ name = \"b\", device = \"ring:0\", ip = \"198.18.0.2\" }}]\n\
             [[flow]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
        );
        let s = Scenario::parse(Path::new("x.toml"), &text, &[]).map_err(|e| e.to_string())?;
        Ok(s.flows[0].clone())
    }

    #[test]
    fn sizes_and_mixes() {
        let flow = parse("verb = \"write\"\nsizes = { uniform = [\"1KiB\", 4096] }").unwrap();
        assert_eq!((flow.size, flow.traffic.bounds()), (4096, (1024, 4096)));
        let flow = parse("verb = \"send\"\nsizes = { list = [[64, 70], [\"1MiB\", 30]] }").unwrap();
        assert_eq!(flow.traffic.kinds()[0].sizes, Sizes::List(vec![(64, 0.7), (1 << 20, 1.0)]));
        let mix =
            "[[flow.mix]]\nverb = \"write\"\nsize = 100\nweight = 3\n[[flow.mix]]\nverb = \"read\"\nsize = 8";
        let flow = parse(mix).unwrap();
        assert_eq!((flow.verb_name(), flow.size, flow.reads_only()), ("mixed", 100, false));
        assert_eq!(flow.traffic.kinds().iter().map(|k| k.share).collect::<Vec<_>>(), [0.75, 0.25]);
    }

    #[test]
    fn arrivals() {
        let of = |keys: &str| {
            let flow = parse(&format!("verb = \"write\"\nsize = 8\n{keys}")).unwrap();
            (flow.arrival, flow.open_rate())
        };
        let ms = Duration::from_millis;
        assert_eq!(of(""), (Arrival::Closed { think: Duration::ZERO }, None));
        assert_eq!(of("think_time = \"1ms\""), (Arrival::Closed { think: ms(1) }, None));
        assert_eq!(of("rate = \"5kmsg/s\""), (Arrival::Constant, Some(FlowRate::Messages(5e3))));
        assert_eq!(of("rate = \"98%\""), (Arrival::Closed { think: Duration::ZERO }, None));
        let poisson = "arrival = \"poisson\"\nload = \"60%\"\nrate = \"70%\"";
        assert_eq!(of(poisson), (Arrival::Poisson, Some(FlowRate::Percent(60.0))));
        let bursts = "arrival = \"on-off\"\non = \"1ms\"\noff = \"9ms\"\nload = \"5kmsg/s\"";
        assert_eq!(of(bursts), (Arrival::OnOff { on: ms(1), off: ms(9) }, Some(FlowRate::Messages(5e3))));
    }

    #[test]
    fn distributions() {
        let points = parse_cdf("# bytes, per cent\n0 0\n\n10000 15\n2e4 100\n").unwrap();
        assert_eq!(points, [(0, 0.0), (10_000, 0.15), (20_000, 1.0)]);
        let error = |text: &str| parse_cdf(text).unwrap_err();
        insta::assert_snapshot!(error("0 0\n10 x"), @r#"line 2: not a size in bytes and a cumulative share in per cent, as in "10000 15""#);
        insta::assert_snapshot!(error("0 0\n10 50\n5 100"), @"line 3: sizes and shares rise from line to line");
        insta::assert_snapshot!(error("0 0\n10 99"), @"the last line must have 100 per cent");
        insta::assert_snapshot!(error("5000000000 100"), @"line 1: a size is from 0 to 2147483648 bytes");
    }

    #[test]
    fn what_is_wrong() {
        let error = |keys: &str| parse(&format!("verb = \"write\"\n{keys}")).unwrap_err();
        insta::assert_snapshot!(error("sizes = { uniform = [9, 8] }"), @r#"x.toml:8: sizes: key "uniform": [9, 8]: must be the smallest and the largest size"#);
        insta::assert_snapshot!(error("sizes = { list = [[9]] }"), @r#"x.toml:8: sizes: key "list": [[9]]: must be a list of sizes with their weights, as in [["64B", 70], ["1MiB", 30]]"#);
        insta::assert_snapshot!(error("sizes = { cdf = \"nowhere.txt\" }"), @r#"x.toml:8: sizes: key "cdf": "nowhere.txt": no such file: nowhere.txt"#);
        insta::assert_snapshot!(error("sizes = { unifrom = [1, 2] }"), @r#"x.toml:8: unknown key "unifrom" in sizes; did you mean "uniform"?"#);
        insta::assert_snapshot!(error("size = 8\narrival = \"poisson\""), @r#"x.toml:9: flow "x": key "arrival": "poisson": how many messages? Add load = "60%", or rate = "20kmsg/s""#);
        insta::assert_snapshot!(error("size = 8\nload = \"5Mpps\""), @r#"x.toml:9: flow "x": key "load": "5Mpps": write a share of the line rate, as in "60%", bits per second or messages per second"#);
        insta::assert_snapshot!(error("size = 8\nload = \"5%\"\nthink_time = \"1us\""), @r#"x.toml:10: flow "x": key "think_time": "1us": belongs to arrival = "closed""#);
        insta::assert_snapshot!(error("size = 8\n[[flow.mix]]\nverb = \"send\"\nsize = 8"), @r#"x.toml:9: flow "x": keys "verb" (line 7) and "mix": each [[flow.mix]] has a "verb" of its own"#);
    }
}
