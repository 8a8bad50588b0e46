//! Latencies as an HdrHistogram log, which the tools of HdrHistogram read.

use super::Interval;
use crate::config::Scenario;
use anyhow::{Result, anyhow};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use roce_engine::units::{Duration, Instant};
use std::io::Write;
use std::time::UNIX_EPOCH;

/// Writes the histogram of each flow in each interval; values are nanoseconds, the tag is the
/// flow's name, times are seconds since the start of the log.
pub(super) fn write<W: Write>(
    out: &mut W,
    s: &Scenario,
    intervals: &[Interval],
    origin_ns: u64,
) -> Result<()> {
    let start = intervals.first().map_or(Instant::ZERO, |i| i.from);
    let wall = |at: Instant| UNIX_EPOCH + std::time::Duration::from_nanos(origin_ns + at.as_nanos());
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment("rocegen latencies, in nanoseconds; the tag is the flow")
        .with_start_time(wall(start))
        .with_base_time(wall(start))
        .with_max_value_divisor(1.0);
    let mut log = builder.begin_log_with(out, &mut serializer)?;
    for interval in intervals {
        for (flow, latency) in s.flows.iter().zip(&interval.latency) {
            let tag = Tag::new(&flow.name).ok_or_else(|| anyhow!("flow name {:?} is no tag", flow.name))?;
            let span: Duration = interval.to.since(interval.from);
            log.write_histogram(
                latency.histogram(),
                interval.from.since(start).into(),
                span.into(),
                Some(tag),
            )
            .map_err(|e| anyhow!("{e:?}"))?;
        }
    }
    Ok(())
}
