//! The report as text.

use super::report::{FlowReport, PacketReport, RatesReport, Report};
use crate::config::ranges;
use roce_engine::units::Duration;
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.file, self.span())?;
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        writeln!(f)?;
        self.write_ports(f)?;
        for flow in &self.flows {
            writeln!(f)?;
            write_flow(f, flow)?;
        }
        writeln!(f)?;
        let free = match self.memory.available_bytes {
            Some(bytes) => format!(" of {} free", size(bytes)),
            None => String::new(),
        };
        writeln!(f, "buffers  {}{free}", size(self.memory.needed_bytes))?;
        for (i, fault) in self.faults.iter().enumerate() {
            let head = if i == 0 { "faults" } else { "" };
            let about =
                fault.flow.as_deref().map_or("all flows".to_owned(), |name| format!("flow \"{name}\""));
            write!(f, "{head:<7}  {about}: {} {}%", fault.action, percent(fault.probability))?;
            for (key, value) in [("psn", fault.psn), ("pass", fault.pass.map(i64::from))] {
                if let Some(value) = value {
                    write!(f, " of {key} {value}")?;
                }
            }
            writeln!(f, ", direction {}", fault.direction)?;
        }
        for (i, e) in self.expectations.iter().enumerate() {
            let head = if i == 0 { "expects" } else { "" };
            let about = e.flow.as_deref().map_or("all flows".to_owned(), |name| format!("flow \"{name}\""));
            writeln!(f, "{head:<7}  {about}: {} {}", e.metric, e.want)?;
        }
        Ok(())
    }
}

impl Report {
    /// How long it runs.
    fn span(&self) -> String {
        let counted = self.flows.iter().any(|flow| flow.messages.is_some());
        let mut text = match self.run.duration_s {
            Some(s) if counted => {
                format!(
                    "measures for {} (a flow with \"messages\" ends with them if that is sooner)",
                    span(s)
                )
            }
            Some(s) => format!("measures for {}", span(s)),
            None => "measures until all messages are done".to_owned(),
        };
        if self.run.warmup_s > 0.0 {
            text += &format!(", after a warm-up of {}", span(self.run.warmup_s));
        }
        if let Some(connect) = &self.run.connect {
            text += &format!(", with another process ({connect})");
        }
        text
    }

    fn write_ports(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["port", "device", "address", "MTU", "cores"].map(str::to_owned)];
        rows.extend(self.ports.iter().map(|p| {
            let mut address = p.ip.clone();
            if p.rocev1 {
                address += " RoCEv1";
            }
            if let Some(vlan) = p.vlan {
                address += &format!(" VLAN {vlan}");
            }
            let mtu = p.mtu.map_or("-".to_owned(), |m| m.to_string());
            let cores = if p.cores.is_empty() { "-".to_owned() } else { ranges(&p.cores) };
            [p.name.clone(), p.device.clone(), address, mtu, cores]
        }));
        let width: Vec<usize> = (0..5)
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in rows {
            let cells: Vec<_> =
                row.iter().zip(&width).map(|(cell, &width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

fn write_flow(f: &mut fmt::Formatter<'_>, flow: &FlowReport) -> fmt::Result {
    let several =
        |n: u32, what: &str| format!("{} {what}{}", grouped(f64::from(n)), if n == 1 { "" } else { "s" });
    let verb = flow.verb.to_uppercase().replace('_', " with ").replace("IMM", "immediate");
    writeln!(
        f,
        "flow \"{}\": {} -> {}, {verb} of {} over {}, {}, depth {}{}{}",
        flow.name,
        flow.from,
        flow.to,
        exact(flow.size_bytes),
        flow.transport.to_uppercase(),
        several(flow.qps, "queue pair"),
        flow.depth,
        if flow.verify { ", payload checked" } else { "" },
        if flow.cc == "none" { String::new() } else { format!(", {}", flow.cc) },
    )?;
    let row = |f: &mut fmt::Formatter<'_>, head: &str, text: &str| writeln!(f, "  {head:<14}{text}");
    if let Some(sizes) = &flow.sizes {
        row(f, "sizes", sizes)?;
    }
    row(f, "message", &format!("{} at path MTU {}", several(flow.packets_per_message, "packet"), flow.mtu))?;
    row(f, "frames", &frames(flow))?;
    row(
        f,
        "on the wire",
        &format!(
            "{} B at L1, {} B at L2, {} B payload per message",
            grouped(flow.message_l1_bytes as f64),
            grouped(flow.message_l2_bytes as f64),
            grouped(f64::from(flow.size_bytes)),
        ),
    )?;
    row(f, "ceiling", &format!("{:.2} % of line rate, at L1, can be goodput", flow.ceiling_pct))?;
    row(f, "rate", &flow.rate)?;
    if let Some(rates) = &flow.asked {
        row(f, "", &in_all_units(rates))?;
    } else if let Some(rates) = &flow.at_line_rate {
        row(f, "at line rate", &in_all_units(rates))?;
    }
    if let Some(n) = flow.messages {
        row(f, "ends after", &format!("{} messages on each queue pair", grouped(n as f64)))?;
    }
    row(f, "dead peer", &flow.timer)?;
    row(f, "buffers", &size(flow.memory_bytes))
}

fn frames(flow: &FlowReport) -> String {
    let frame = |name: &str, p: &PacketReport| format!("{name} {} B", p.l2_bytes);
    let mut parts = Vec::new();
    match (&flow.middle_packet, &flow.last_packet) {
        (None, None) => parts.push(format!("{} B", flow.first_packet.l2_bytes)),
        (middle, last) => {
            parts.push(frame("first", &flow.first_packet));
            parts.extend(middle.as_ref().map(|p| frame("middle", p)));
            parts.extend(last.as_ref().map(|p| frame("last", p)));
        }
    }
    parts.extend(flow.request_packet.as_ref().map(|p| frame("request", p)));
    format!("{}, without FCS", parts.join(", "))
}

fn in_all_units(r: &RatesReport) -> String {
    let (factor, unit) = match r.l1_gbps {
        1.0.. => (1.0, "Gb/s"),
        1e-3.. => (1e3, "Mb/s"),
        _ => (1e6, "kb/s"),
    };
    format!(
        "L1 {:.3}, L2 {:.3}, goodput {:.3} {unit}; {} packets/s, {} messages/s",
        r.l1_gbps * factor,
        r.l2_gbps * factor,
        r.goodput_gbps * factor,
        grouped(r.packet_rate),
        grouped(r.message_rate)
    )
}

/// A share in per cent, without the dust of binary fractions.
fn percent(share: f64) -> f64 {
    (share * 1e10).round() / 1e8
}

/// Seconds as the scenario would write them.
fn span(seconds: f64) -> String {
    Duration::from_nanos((seconds * 1e9).round() as u64).to_string()
}

/// `1 MiB`, `1000 B`: in the largest binary unit that has at most two decimals.
fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let text = format!("{:.2}", bytes as f64 / unit as f64);
            format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} B"),
    }
}

/// `1 MiB`, `100,003 B`: in the largest binary unit that leaves no fraction.
fn exact(bytes: u32) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{} B", grouped(f64::from(bytes))),
    }
}

/// A count with commas between thousands; small ones with two decimals where they have any.
fn grouped(n: f64) -> String {
    if n < 100.0 && n.fract() != 0.0 {
        return format!("{n:.2}");
    }
    let digits = format!("{n:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let all: Vec<_> = [0.0, 0.1, 7.0, 99.5, 999.0, 1_130_198.9, 2_147_483_648.0].map(grouped).to_vec();
        assert_eq!(all, ["0", "0.10", "7", "99.50", "999", "1,130,199", "2,147,483,648"]);
        let all: Vec<_> = [0, 1023, 1024, 1 << 20, 3 << 19, 2 << 30, 1 << 61].map(size).to_vec();
        assert_eq!(all, ["0 B", "1023 B", "1 KiB", "1 MiB", "1.5 MiB", "2 GiB", "2097152 TiB"]);
        let all: Vec<_> = [0, 1, 1024, 1025, 100_003, 3 << 20, 1 << 31].map(exact).to_vec();
        assert_eq!(all, ["0 B", "1 B", "1 KiB", "1,025 B", "100,003 B", "3 MiB", "2 GiB"]);
        assert_eq!(span(1.5), "1.5s");
    }
}
