//! Messages from text: the flow list of the HPCC simulator, and CSV.

use crate::config::Verb;
use crate::config::quantity::{parse_duration, parse_size};

/// A message of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// When it begins, in nanoseconds by the trace's clock.
    pub(super) at: u64,
    /// Who sends it, as the trace calls it.
    pub(super) from: String,
    /// And to whom.
    pub(super) to: String,
    pub(super) verb: Verb,
    pub(super) size: u64,
    /// Its priority, where the trace tells.
    pub(super) priority: Option<u8>,
    /// Its connection among those between the two, where the trace tells.
    pub(super) connection: Option<u32>,
}

/// A count, and as many lines "source destination priority port bytes start", the start in seconds.
/// What follows is not read.
pub(super) fn hpcc(text: &str) -> Result<Vec<Record>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let count = lines.next().and_then(|(_, l)| l.trim().parse::<usize>().ok());
    let count = count.ok_or("line 1: not the number of flows")?;
    let mut records = Vec::new();
    for (i, line) in lines.take(count) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |what: &str| format!("line {}: {what}", i + 1);
        let [from, to, priority, _, size, start] = words[..] else {
            return Err(at("not \"source destination priority port bytes start\""));
        };
        let priority: Option<u8> = priority.parse().ok().filter(|p| *p < 8);
        records.push(Record {
            at: seconds(start).ok_or_else(|| at("the start is not a number of seconds"))?,
            from: from.to_owned(),
            to: to.to_owned(),
            verb: Verb::Write,
            size: size.parse().map_err(|_| at("not a number of bytes"))?,
            priority: Some(priority.ok_or_else(|| at("a priority is from 0 to 7"))?),
            connection: None,
        });
    }
    if records.len() < count {
        return Err(format!("line 1 tells of {count} flows, and there are {}", records.len()));
    }
    Ok(records)
}

/// Lines "time,from,to,verb,bytes"; the first one may be a heading.
pub(super) fn csv(text: &str) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let at = |what: &str| format!("line {}: {what}", i + 1);
        let [time, from, to, verb, size] = words[..] else {
            return Err(at("not \"time,from,to,verb,bytes\""));
        };
        let when = seconds(time).or_else(|| parse_duration(time).ok().map(|d| d.as_nanos()));
        let Some(when) = when else {
            if records.is_empty() && time.eq_ignore_ascii_case("time") {
                continue;
            }
            return Err(at("the time is neither a number of seconds nor one with a unit"));
        };
        let known = Verb::ALL.into_iter().find(|v| v.as_str() == verb);
        records.push(Record {
            at: when,
            from: from.to_owned(),
            to: to.to_owned(),
            verb: known.ok_or_else(|| at("no verb; write write, write_imm, send, send_imm or read"))?,
            size: parse_size(size).map_err(|e| at(&e))?,
            priority: None,
            connection: None,
        });
    }
    Ok(records)
}

fn seconds(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok().filter(|s: &f64| s.is_finite() && (0.0..1e9).contains(s))?;
    Some((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_lists() {
        let all =
            hpcc("2\n2 1 3 100 200000000 2\n3 1 0 100 5 2.0000015\n\nFirst line: # of flows\n").unwrap();
        let of = |r: &Record| (r.at, r.from.clone(), r.to.clone(), r.size, r.priority);
        assert_eq!(
            all.iter().map(of).collect::<Vec<_>>(),
            [
                (2_000_000_000, "2".into(), "1".into(), 200_000_000, Some(3)),
                (2_000_001_500, "3".into(), "1".into(), 5, Some(0)),
            ]
        );
        insta::assert_snapshot!(hpcc("").unwrap_err(), @"line 1: not the number of flows");
        insta::assert_snapshot!(hpcc("2\n2 1 3 100 5 2").unwrap_err(), @"line 1 tells of 2 flows, and there are 1");
        insta::assert_snapshot!(hpcc("1\n2 1 3 5 2").unwrap_err(), @r#"line 2: not "source destination priority port bytes start""#);
        insta::assert_snapshot!(hpcc("1\n2 1 9 100 5 2").unwrap_err(), @"line 2: a priority is from 0 to 7");
    }

    #[test]
    fn tables() {
        let all =
            csv("time,from,to,verb,bytes\n0.5,a,b,write,64KiB\n# later\n600ms, b, a, read, 8\n").unwrap();
        assert_eq!((all[0].at, all[0].verb, all[0].size), (500_000_000, Verb::Write, 65_536));
        assert_eq!((all[1].at, &*all[1].from, all[1].verb, all[1].size), (600_000_000, "b", Verb::Read, 8));
        insta::assert_snapshot!(csv("0,a,b,8").unwrap_err(), @r#"line 1: not "time,from,to,verb,bytes""#);
        insta::assert_snapshot!(csv("0,a,b,put,8").unwrap_err(), @"line 1: no verb; write write, write_imm, send, send_imm or read");
        insta::assert_snapshot!(csv("0,a,b,write,8\ntime,a,b,write,8").unwrap_err(), @"line 2: the time is neither a number of seconds nor one with a unit");
    }
}
