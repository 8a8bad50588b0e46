//! perftest's table, in its own columns, so that what reads perftest's output reads this.

use super::data::Measured;
use super::options::PerftestArgs;
use crate::measure::Latency;
use roce_engine::units::Mtu;
use serde::Serialize;
use std::fmt::Write;

/// The units of `BW` without and with `--report_gbits`.
const MIB: f64 = 1_048_576.0;
const RULE: &str =
    "---------------------------------------------------------------------------------------\n";

/// One line of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: u32,
    /// Messages of each queue pair.
    pub iterations: u64,
    /// The best bandwidth for a while: MiB/s, or Gb/s.
    pub peak: f64,
    /// The bandwidth.
    pub average: f64,
    /// Millions of messages in a second.
    pub message_rate: f64,
    /// Microseconds.
    pub latency: Option<Micros>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Micros {
    pub min: f64,
    pub max: f64,
    pub p50: f64,
    pub mean: f64,
    pub deviation: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
}

impl Row {
    /// From a measurement.
    pub(super) fn of(args: &PerftestArgs, measured: &Measured) -> Row {
        let unit = if args.report_gbits { 1e9 / 8.0 } else { MIB };
        let rate = |messages: u64, seconds: f64| {
            if seconds > 0.0 { messages as f64 * f64::from(measured.size) / unit / seconds } else { 0.0 }
        };
        let seconds = measured.elapsed.as_secs_f64();
        let average = rate(measured.messages, seconds);
        Row {
            size: measured.size,
            iterations: measured.iterations,
            peak: measured.best.map_or(0.0, |(n, d)| rate(n, d.as_secs_f64()).max(average)),
            average,
            message_rate: if seconds > 0.0 { measured.messages as f64 / 1e6 / seconds } else { 0.0 },
            latency: Micros::of(&measured.latency),
        }
    }

    /// Adds what went the other way.
    pub(super) fn add(&mut self, other: &Row) {
        self.peak += other.peak;
        self.average += other.average;
        self.message_rate += other.message_rate;
    }
}

impl Micros {
    fn of(latency: &Latency) -> Option<Micros> {
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |percent| latency.percentile_ns(percent).map_or(0.0, us);
        Some(Micros {
            min: us(latency.min_ns()?),
            max: us(latency.max_ns()?),
            p50: at(50.0),
            mean: latency.mean_ns().unwrap_or(0.0) / 1000.0,
            deviation: latency.histogram().stdev() / 1000.0,
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            p99_99: at(99.99),
        })
    }
}

/// What stands before the first line.
pub(super) fn head(args: &PerftestArgs, mtu: Mtu) -> String {
    let tool = args.tool.name();
    let mut out = format!("{RULE}                    {tool} (rocegen {})\n", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, " Number of qps   : {}", args.qps);
    let _ = writeln!(out, " Connection type : RC");
    let _ = writeln!(out, " TX depth        : {}", args.tx_depth);
    let _ = writeln!(out, " Mtu             : {mtu}[B]");
    let _ = writeln!(out, " Link type       : Ethernet");
    let _ = writeln!(out, " GID index       : {}", args.gid_index);
    out += RULE;
    out += match (args.tool.is_latency(), args.report_gbits) {
        (false, false) => {
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        }
        (false, true) => " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n",
        (true, _) => {
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
             t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n"
        }
    };
    out
}

/// One line.
pub(super) fn line(args: &PerftestArgs, row: &Row) -> String {
    match row.latency.filter(|_| args.tool.is_latency()) {
        Some(l) => format!(
            " {:<7} {:<7}        {:<7.2}        {:<7.2}      {:<7.2}             {:<7.2}        {:<7.2}         \
             {:<7.2}                {:<7.2}\n",
            row.size, row.iterations, l.min, l.max, l.p50, l.mean, l.deviation, l.p99, l.p99_9
        ),
        None => format!(
            " {:<7}    {:<10}       {:<7.2}            {:<7.2}              {:<7.6}\n",
            row.size, row.iterations, row.peak, row.average, row.message_rate
        ),
    }
}

/// What stands after the last line: latencies of messages, which perftest does not tell with bandwidth.
pub(super) fn foot(args: &PerftestArgs, rows: &[Row]) -> String {
    let mut out = RULE.to_owned();
    if args.tool.is_latency() {
        return out;
    }
    for row in rows {
        if let Some(l) = row.latency {
            let _ = writeln!(
                out,
                "# latency of {} B, usec: min {:.2} p50 {:.2} p90 {:.2} p99 {:.2} p99.9 {:.2} p99.99 {:.2} max {:.2}",
                row.size, l.min, l.p50, l.p90, l.p99, l.p99_9, l.p99_99, l.max
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use roce_engine::units::Duration;

    fn args(line: &str) -> PerftestArgs {
        let all = format!("perftest {line} -d net_null0 --ip 198.18.0.1/24");
        PerftestArgs::try_parse_from(all.split_whitespace()).unwrap()
    }

    fn measured(latencies: &[u64]) -> Measured {
        let mut latency = Latency::default();
        for us in latencies {
            latency.record(Duration::from_micros(*us));
        }
        Measured {
            size: 65536,
            iterations: 1000,
            messages: 2000,
            elapsed: Duration::from_millis(500),
            best: Some((128, Duration::from_millis(16))),
            latency,
        }
    }

    /// As scripts do: the words of the last line that begins with a number.
    fn words(text: &str) -> Vec<f64> {
        text.split_whitespace().map(|w| w.parse().unwrap()).collect()
    }

    #[test]
    fn bandwidth_in_both_units() {
        let args_mb = args("ib_write_bw");
        let row = Row::of(&args_mb, &measured(&[10, 20, 30]));
        assert_eq!(words(&line(&args_mb, &row)), [65536.0, 1000.0, 500.0, 250.0, 0.004]);
        assert!(head(&args_mb, Mtu::B1024).ends_with("BW average[MB/sec]   MsgRate[Mpps]\n"));
        let args_gb = args("ib_write_bw --report_gbits");
        let row = Row::of(&args_gb, &measured(&[10]));
        assert_eq!(words(&line(&args_gb, &row)), [65536.0, 1000.0, 4.19, 2.10, 0.004]);
        assert!(foot(&args_gb, &[row]).contains("# latency of 65536 B, usec: min 10.00 p50 10.0"));
    }

    #[test]
    fn latency_in_nine_columns() {
        let args = args("ib_send_lat");
        let row = Row::of(&args, &measured(&[10, 20, 30]));
        let words = words(&line(&args, &row));
        assert_eq!(words.len(), 9);
        assert_eq!(words[..4], [65536.0, 1000.0, 10.0, 30.0]);
        assert!((words[5] - 20.0).abs() < 0.1 && (words[6] - 8.16).abs() < 0.1, "{words:?}");
        assert_eq!(head(&args, Mtu::B1024).lines().last().unwrap().split("[usec]").count(), 8);
    }
}
