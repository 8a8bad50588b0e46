//! Numbers with units, as people write them: durations, sizes and rates.
//!
//! Every parser says in its error what would have been right; the caller adds where.

use super::model::{FlowRate, Layer};
use roce_engine::units::{Duration, Rate};

/// `10s`, `500ms`, `20us`, `1.5m`, `2h`; a bare number is refused.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const FORMS: &str = "write \"10s\", \"500ms\", \"20us\", \"100ns\", \"1m\" or \"2h\"";
    let (number, unit) = split(text).ok_or_else(|| format!("not a duration; {FORMS}"))?;
    let nanos = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(format!("a duration needs a unit; {FORMS}")),
        _ => return Err(format!("\"{unit}\" is no unit of time; {FORMS}")),
    };
    match number.times(nanos) {
        // The clock counts nanoseconds in 64 bits; a year leaves room for every sum.
        Some(ns) if ns <= 366 * 86_400 * 1_000_000_000 => Ok(Duration::from_nanos(ns)),
        _ => Err("longer than a year".to_owned()),
    }
}

/// `64`, `64B`, `4kB` (4000), `64KiB`, `1MiB`, `2GiB`: whole bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const FORMS: &str = "write 64, \"64B\", \"4kB\" (4000), \"64KiB\", \"1MiB\" or \"2GiB\"";
    let (number, unit) = split(text).ok_or_else(|| format!("not a size in bytes; {FORMS}"))?;
    let bytes = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "k" | "K" | "KB" => return Err("1000 or 1024 bytes? Write \"kB\" or \"KiB\"".to_owned()),
        "m" | "M" => return Err("1000000 or 1048576 bytes? Write \"MB\" or \"MiB\"".to_owned()),
        "g" | "G" => return Err("10^9 or 2^30 bytes? Write \"GB\" or \"GiB\"".to_owned()),
        _ => return Err(format!("\"{unit}\" is no unit of size; {FORMS}")),
    };
    if !number.is_whole_times(bytes) {
        return Err("not a whole number of bytes".to_owned());
    }
    number.times(bytes).ok_or_else(|| "more than 2^64 bytes".to_owned())
}

/// `10G`, `10Gbps`, `10Gb/s`, `10Gibps`, `1.25GB/s`: bits per second.
pub fn parse_bit_rate(text: &str) -> Result<Rate, String> {
    const FORMS: &str = "write \"100Gbps\", \"2.5Gbps\" or \"1.25GB/s\"";
    match parse_any_rate(text) {
        Some(AnyRate::Bits(rate)) => positive(rate),
        Some(AnyRate::TooFast) => Err(TOO_FAST.to_owned()),
        Some(AnyRate::Bare) => Err(format!("a bare number is not a rate; {FORMS}")),
        _ => Err(format!("not a rate in bits per second; {FORMS}")),
    }
}

/// A rate of a flow; one in bits per second is counted at `layer`.
///
/// The forms are those of [`parse_bit_rate`], `98%`, `1Mpps`, `20kmsg/s` and `unlimited`.
pub fn parse_flow_rate(text: &str, layer: Layer) -> Result<FlowRate, String> {
    const FORMS: &str = "write \"98%\", \"10Gbps\", \"5Mpps\" or \"20kmsg/s\"";
    if text == "unlimited" {
        return Ok(FlowRate::Unlimited);
    }
    match parse_any_rate(text) {
        Some(AnyRate::Bits(rate)) => Ok(FlowRate::Bits { rate: positive(rate)?, layer }),
        Some(AnyRate::Percent(p)) if p > 100.0 => Err("more than 100 % of line rate".to_owned()),
        Some(AnyRate::Percent(p)) => Ok(FlowRate::Percent(positive(p)?)),
        Some(AnyRate::Packets(n)) => Ok(FlowRate::Packets(positive(n)?)),
        Some(AnyRate::Messages(n)) => Ok(FlowRate::Messages(positive(n)?)),
        Some(AnyRate::TooFast) => Err(TOO_FAST.to_owned()),
        Some(AnyRate::Bare) => Err(format!("a bare number is not a rate; {FORMS}")),
        None if text.starts_with('-') => Err(format!("a rate is more than zero; {FORMS}")),
        None => Err(format!("not a rate; {FORMS}")),
    }
}

/// A share of packets: `0.1%`, `0.001` or `1e-3`, from 0 to 1.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    const FORMS: &str = "write \"0.1%\", \"0.001\" or \"1e-3\"";
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 0.01),
        None => (text, 1.0),
    };
    let plain = number.starts_with(|c: char| c.is_ascii_digit());
    match number.parse::<f64>().ok().filter(|n| plain && n.is_finite()) {
        None => Err(format!("not a share; {FORMS}")),
        Some(n) if n * factor > 1.0 => Err("more than 100 %".to_owned()),
        Some(n) => Ok(n * factor),
    }
}

/// Events per second: `1M`, `20k`, `1Mpps`, `20kmsg/s` or a bare number, for expectations.
pub(super) fn parse_per_second(text: &str) -> Result<f64, String> {
    match parse_any_rate(text) {
        Some(AnyRate::Packets(n) | AnyRate::Messages(n)) => Ok(n),
        _ => parse_number(text).map_err(|_| "write 5000, \"1Mpps\" or \"20kmsg/s\"".to_owned()),
    }
}

/// A plain number that is not negative: `98`, `0.5`.
pub(super) fn parse_number(text: &str) -> Result<f64, String> {
    match split(text) {
        Some((number, "")) => Ok(number.as_f64()),
        _ => Err("not a number".to_owned()),
    }
}

const TOO_FAST: &str = "faster than 10 Tb/s or 10 G a second";

/// What a rate counts, by its unit.
enum AnyRate {
    Bits(Rate),
    Percent(f64),
    Packets(f64),
    Messages(f64),
    Bare,
    TooFast,
}

fn parse_any_rate(text: &str) -> Option<AnyRate> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return Some(AnyRate::Bare);
    }
    if unit == "%" {
        return Some(AnyRate::Percent(number.as_f64()));
    }
    let (factor, base) = prefix(unit);
    let bits = match base {
        // "10G" alone is bits, as on the label of a port; "10k" alone would be anything.
        "" if matches!(unit, "M" | "G" | "T") => 1,
        "bps" | "b/s" | "bit/s" => 1,
        "Bps" | "B/s" => 8,
        "pps" | "packets/s" => return Some(per_second(number, factor, AnyRate::Packets)),
        "msg/s" | "msgs/s" | "messages/s" => return Some(per_second(number, factor, AnyRate::Messages)),
        _ => return None,
    };
    match number.times(factor * bits) {
        Some(bps) if bps <= 10_000_000_000_000 => Some(AnyRate::Bits(Rate::from_bps(bps))),
        _ => Some(AnyRate::TooFast),
    }
}

fn per_second(number: Number, factor: u64, make: fn(f64) -> AnyRate) -> AnyRate {
    let n = number.as_f64() * factor as f64;
    if n <= 1e10 { make(n) } else { AnyRate::TooFast }
}

fn positive<T: PartialOrd + Zero>(value: T) -> Result<T, String> {
    if value > T::zero() { Ok(value) } else { Err("a rate is more than zero".to_owned()) }
}

trait Zero {
    fn zero() -> Self;
}

impl Zero for f64 {
    fn zero() -> f64 {
        0.0
    }
}

impl Zero for Rate {
    fn zero() -> Rate {
        Rate::from_bps(0)
    }
}

/// The factor of a unit's prefix, and the rest.
fn prefix(unit: &str) -> (u64, &str) {
    const PREFIXES: [(&str, u64); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("K", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
    ];
    PREFIXES.iter().find_map(|&(p, factor)| Some((factor, unit.strip_prefix(p)?))).unwrap_or((1, unit))
}

/// A decimal number, exact: `digits / 10^scale`.
#[derive(Clone, Copy)]
struct Number {
    digits: u64,
    scale: u32,
}

impl Number {
    /// `self * unit`, rounded; `None` past 64 bits.
    fn times(self, unit: u64) -> Option<u64> {
        let divisor = 10u128.pow(self.scale);
        let exact = u128::from(self.digits) * u128::from(unit);
        u64::try_from((exact + divisor / 2) / divisor).ok()
    }

    fn is_whole_times(self, unit: u64) -> bool {
        (u128::from(self.digits) * u128::from(unit)).is_multiple_of(10u128.pow(self.scale))
    }

    fn as_f64(self) -> f64 {
        self.digits as f64 / 10f64.powi(self.scale as i32)
    }
}

/// The number at the start and the unit after it, which one space may part.
fn split(text: &str) -> Option<(Number, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = if unit.len() > 1 { unit.strip_prefix(' ').unwrap_or(unit) } else { unit };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let dangling = number.contains('.') && fraction.is_empty();
    if whole.is_empty() || dangling || fraction.len() > 18 {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((Number { digits, scale: fraction.len() as u32 }, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bps(text: &str) -> Result<u64, String> {
        parse_bit_rate(text).map(Rate::bps)
    }

    #[test]
    fn bit_rates() {
        for (text, want) in [
            ("10G", 10_000_000_000),
            ("10Gbps", 10_000_000_000),
            ("10 Gbps", 10_000_000_000),
            ("10Gb/s", 10_000_000_000),
            ("10Gbit/s", 10_000_000_000),
            ("10Gibps", 10_737_418_240),
            ("1.25GB/s", 10_000_000_000),
            ("1.25GBps", 10_000_000_000),
            ("2.5Gbps", 2_500_000_000),
            ("100M", 100_000_000),
            ("0.4Tbps", 400_000_000_000),
            ("64kbps", 64_000),
            ("800bps", 800),
        ] {
            assert_eq!(bps(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_bit_rate() {
        for text in
            ["10", "0", "-1G", "10 Gb ps", "10  Gbps", "", "G", "10g", "10k", "1e9bps", "1.G", "50%", "5pps"]
        {
            assert!(bps(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(bps("10").unwrap_err(), @r#"a bare number is not a rate; write "100Gbps", "2.5Gbps" or "1.25GB/s""#);
        insta::assert_snapshot!(bps("0Gbps").unwrap_err(), @"a rate is more than zero");
        insta::assert_snapshot!(bps("11Tbps").unwrap_err(), @"faster than 10 Tb/s or 10 G a second");
        insta::assert_snapshot!(bps("99999999999999999Tbps").unwrap_err(), @"faster than 10 Tb/s or 10 G a second");
    }

    #[test]
    fn flow_rates() {
        let rate = |text| parse_flow_rate(text, Layer::L2);
        assert_eq!(rate("98%"), Ok(FlowRate::Percent(98.0)));
        assert_eq!(rate("0.5 %"), Ok(FlowRate::Percent(0.5)));
        assert_eq!(rate("100%"), Ok(FlowRate::Percent(100.0)));
        assert_eq!(rate("10Gbps"), Ok(FlowRate::Bits { rate: Rate::from_gbps(10), layer: Layer::L2 }));
        assert_eq!(rate("1Mpps"), Ok(FlowRate::Packets(1e6)));
        assert_eq!(rate("5000pps"), Ok(FlowRate::Packets(5000.0)));
        assert_eq!(rate("0.1pps"), Ok(FlowRate::Packets(0.1)));
        assert_eq!(rate("20kmsg/s"), Ok(FlowRate::Messages(20_000.0)));
        assert_eq!(rate("unlimited"), Ok(FlowRate::Unlimited));
    }

    #[test]
    fn what_is_no_flow_rate() {
        let error = |text| parse_flow_rate(text, Layer::L1).unwrap_err();
        insta::assert_snapshot!(error("98"), @r#"a bare number is not a rate; write "98%", "10Gbps", "5Mpps" or "20kmsg/s""#);
        insta::assert_snapshot!(error("-1G"), @r#"a rate is more than zero; write "98%", "10Gbps", "5Mpps" or "20kmsg/s""#);
        insta::assert_snapshot!(error("10 Gb ps"), @r#"not a rate; write "98%", "10Gbps", "5Mpps" or "20kmsg/s""#);
        insta::assert_snapshot!(error("0%"), @"a rate is more than zero");
        insta::assert_snapshot!(error("0.0pps"), @"a rate is more than zero");
        insta::assert_snapshot!(error("101%"), @"more than 100 % of line rate");
        insta::assert_snapshot!(error("20Gpps"), @"faster than 10 Tb/s or 10 G a second");
    }

    #[test]
    fn shares() {
        for (text, want) in [("0", 0.0), ("0.1%", 0.001), ("1e-6", 1e-6), ("50 %", 0.5), ("1", 1.0)] {
            assert!((parse_share(text).unwrap() - want).abs() < 1e-15, "{text}");
        }
        for text in ["", "%", "-1%", "2", "101%", "inf", "nan", ".5", "1 in 10"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, want) in [
            ("10s", 10_000_000_000),
            ("500ms", 500_000_000),
            ("1m", 60_000_000_000),
            ("1.5 min", 90_000_000_000),
            ("20us", 20_000),
            ("20\u{b5}s", 20_000),
            ("7ns", 7),
            ("2h", 7_200_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(want)), "{text}");
        }
        for text in
            ["", "s", "-1s", "1.s", ".5s", "1 0s", "10 ", "1e3s", "1d", "9999999h", "99999999999999999999s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(parse_duration("10").unwrap_err(), @r#"a duration needs a unit; write "10s", "500ms", "20us", "100ns", "1m" or "2h""#);
        insta::assert_snapshot!(parse_duration("10sec").unwrap_err(), @r#""sec" is no unit of time; write "10s", "500ms", "20us", "100ns", "1m" or "2h""#);
        insta::assert_snapshot!(parse_duration("9999h").unwrap_err(), @"longer than a year");
    }

    #[test]
    fn sizes() {
        for (text, want) in [
            ("64", 64),
            ("0", 0),
            ("64B", 64),
            ("4kB", 4_000),
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            ("1.5 MiB", 3 << 19),
            ("2GiB", 1 << 31),
            ("1GB", 1_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(want), "{text}");
        }
        for text in ["", "4x", "-1", "0x", "1e99", " 4 ", "1.5", "0.3KiB", "99999999999999999999", "1TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(parse_size("64K").unwrap_err(), @r#"1000 or 1024 bytes? Write "kB" or "KiB""#);
        insta::assert_snapshot!(parse_size("4x").unwrap_err(), @r#""x" is no unit of size; write 64, "64B", "4kB" (4000), "64KiB", "1MiB" or "2GiB""#);
        insta::assert_snapshot!(parse_size("1.5B").unwrap_err(), @"not a whole number of bytes");
        insta::assert_snapshot!(parse_size("99999999999999GiB").unwrap_err(), @"more than 2^64 bytes");
    }
}
