//! Messages learnt from recorded frames.

use super::records::Record;
use crate::config::Verb;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use roce_engine::units::Psn;
use roce_engine::wire::{Class, Gid, Kind, classify_headers, classify_rocev1};
use std::collections::HashMap;

/// One direction of a connection: source, destination and destination queue pair.
type Stream = (Gid, Gid, u32);

/// What is known of a stream.
#[derive(Debug, Default)]
struct Seen {
    /// Its number among those between its two ends.
    number: u32,
    /// The last packet that was new.
    last: Option<Psn>,
    /// The message that has begun: when, and its bytes so far, all of them for WRITE.
    open: Option<(u64, u64)>,
}

/// The messages of a pcap or pcapng file.
///
/// A packet that was seen already, because it was sent again or recorded at both ends, counts once.
pub(super) fn messages(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let mut streams: HashMap<Stream, Seen> = HashMap::new();
    let mut between: HashMap<(Gid, Gid), u32> = HashMap::new();
    let mut records = Vec::new();
    frames(bytes, |at, frame, len| {
        let packet = classify_headers(frame, len, None).or_else(|_| classify_rocev1(frame, None));
        let Ok(p) = packet else { return };
        let verb = match (p.info.kind, p.info.imm) {
            (Kind::Write, false) => Verb::Write,
            (Kind::Write, true) => Verb::WriteImm,
            (Kind::Send, false) => Verb::Send,
            (Kind::Send, true) => Verb::SendImm,
            (Kind::ReadRequest, _) => Verb::Read,
            _ => return,
        };
        if !matches!(p.info.class, Class::Rc | Class::Uc | Class::Ud) {
            return;
        }
        let (src, dst) = (p.src(), p.dst());
        let seen = streams.entry((src, dst, p.bth.dest_qp.get())).or_insert_with(|| {
            let number = between.entry((src, dst)).or_default();
            *number += 1;
            Seen { number: *number - 1, ..Seen::default() }
        });
        if seen.last.is_some_and(|last| !last.is_before(p.bth.psn)) {
            return;
        }
        seen.last = Some(p.bth.psn);
        if p.info.position.starts() {
            let announced = p.reth().map_or(0, |r| u64::from(r.len));
            seen.open = Some((at, announced));
        }
        let Some((began, size)) = &mut seen.open else { return };
        if p.info.kind == Kind::Send {
            // As the headers say, also where a recording has only those.
            *size += p.payload_len() as u64;
        }
        if p.info.position.ends() {
            records.push(Record {
                at: *began,
                from: src.to_string(),
                to: dst.to_string(),
                verb,
                size: *size,
                priority: None,
                connection: Some(seen.number),
            });
            seen.open = None;
        }
    })?;
    Ok(records)
}

/// Calls `each` with the time in nanoseconds, the bytes and the length of every frame of a file.
fn frames(bytes: &[u8], mut each: impl FnMut(u64, &[u8], usize)) -> Result<(), String> {
    const PCAPNG: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
    if !bytes.starts_with(&PCAPNG) {
        let mut reader = PcapReader::new(bytes).map_err(|e| format!("neither pcap nor pcapng: {e}"))?;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.map_err(|e| format!("not a whole pcap file: {e}"))?;
            each(packet.timestamp.as_nanos() as u64, &packet.data, packet.orig_len as usize);
        }
        return Ok(());
    }
    let mut reader = PcapNgReader::new(bytes).map_err(|e| format!("not a pcapng file: {e}"))?;
    let mut units: Vec<f64> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(|e| format!("not a whole pcapng file: {e}"))? {
            Block::InterfaceDescription(interface) => {
                let resolution = interface.options.iter().find_map(|o| match o {
                    InterfaceDescriptionOption::IfTsResol(r) => Some(*r),
                    _ => None,
                });
                units.push(unit_ns(resolution.unwrap_or(6)));
            }
            Block::EnhancedPacket(p) => {
                // The reader takes every unit for a nanosecond.
                let unit = units.get(p.interface_id as usize).copied().unwrap_or(1e3);
                let at = (p.timestamp.as_nanos() as f64 * unit).round() as u64;
                let at = if unit == 1.0 { p.timestamp.as_nanos() as u64 } else { at };
                each(at, &p.data, p.original_len as usize);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Nanoseconds of a unit of time: the low seven bits are a power of ten, or of two with the high bit.
fn unit_ns(resolution: u8) -> f64 {
    let power = i32::from(resolution & 0x7F);
    1e9 * if resolution & 0x80 == 0 { 10f64.powi(-power) } else { 2f64.powi(-power) }
}
