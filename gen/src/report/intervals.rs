//! `intervals.csv`: what each flow did, span by span, written as the run goes on.

use super::payload;
use crate::config::Scenario;
use crate::measure::Row;
use roce_engine::units::Instant;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The name of the file.
const NAME: &str = "intervals.csv";

/// The columns.
const HEADER: &str = "from_s,to_s,flow,qp,goodput_gbps,messages,latency_p50_us,latency_p99_us,cnps,naks,\
                      retransmits,timeouts,rate_gbps\n";

/// A table that grows a line for each flow and span; memory it takes none.
#[derive(Debug)]
pub(crate) struct Intervals {
    out: BufWriter<File>,
    began: Instant,
    /// The first thing that went wrong.
    failed: Option<io::Error>,
}

impl Intervals {
    /// In this directory.
    pub(crate) fn create(dir: &Path) -> io::Result<Intervals> {
        let mut out = BufWriter::new(File::create(dir.join(NAME))?);
        out.write_all(HEADER.as_bytes())?;
        Ok(Intervals { out, began: Instant::ZERO, failed: None })
    }

    /// Times count from here.
    pub(crate) fn begin(&mut self, at: Instant) {
        self.began = at;
    }

    /// Writes a line.
    pub(crate) fn note(&mut self, s: &Scenario, row: &Row) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(self.line(s, row).as_bytes()).err();
        }
    }

    fn line(&self, s: &Scenario, row: &Row) -> String {
        // The first span may begin before measuring does.
        let at = |t: Instant| (t.as_nanos() as f64 - self.began.as_nanos() as f64) / 1e9;
        let flow = row.subject.flow as usize;
        let c = &row.spell.counts;
        let gbps = payload(s, flow, &row.spell) * 8.0 / row.to.since(row.from).as_nanos().max(1) as f64;
        let us = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{:.3}", ns as f64 / 1e3));
        format!(
            "{:.6},{:.6},{},{},{gbps:.4},{},{},{},{},{},{},{},{}\n",
            at(row.from),
            at(row.to),
            s.flows[flow].name,
            row.subject.qp.map_or(String::new(), |qp| qp.to_string()),
            c.completed,
            us(row.spell.p50),
            us(row.spell.p99),
            c.cnps,
            c.naks,
            c.retransmits,
            c.timeouts,
            c.rate_bps.map_or(String::new(), |bps| format!("{:.4}", bps / 1e9)),
        )
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first one of the file's.
    pub(crate) fn close(mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }
}
