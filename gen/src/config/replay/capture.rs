//! Messages learnt from recorded frames.

use super::records::Record;
use crate::config::Verb;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use roce_engine::units::Psn;
use roce_engine::wire::{Class, Kind, OpcodeInfo, classify_headers, classify_rocev1};
use std::collections::BTreeMap;

/// One direction of a connection: source, destination and destination queue pair.
type Stream = (String, String, u32);

/// What is known of a stream.
#[derive(Debug)]
struct Seen {
    /// Its number among those between its two ends.
    number: u32,
    /// The packet seen last, and its place: counted through, where packet numbers go round.
    last: (Psn, i64),
    /// By place: each packet as it was seen first.
    packets: BTreeMap<i64, Piece>,
}

/// A packet of a message.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u64,
    info: &'static OpcodeInfo,
    /// Bytes of payload, and of the whole message where it says so.
    payload: u64,
    announced: Option<u64>,
}

/// The messages of a pcap or pcapng file, in the order in which they began.
///
/// A packet that was seen already, because it was sent again or recorded at both ends, counts once;
/// one that was lost and sent again has its place.  A READ that was asked again from its middle is
/// another request, and counts as one.
pub(super) fn messages(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let mut streams: BTreeMap<Stream, Seen> = BTreeMap::new();
    let mut between: BTreeMap<(String, String), u32> = BTreeMap::new();
    frames(bytes, |at, frame, len| {
        let packet = classify_headers(frame, len, None).or_else(|_| classify_rocev1(frame, None));
        let Ok(p) = packet else { return };
        let request = matches!(p.info.kind, Kind::Send | Kind::Write | Kind::ReadRequest);
        if !request || !matches!(p.info.class, Class::Rc | Class::Uc | Class::Ud) {
            return;
        }
        let ends = (p.src().to_string(), p.dst().to_string());
        let stream = (ends.0.clone(), ends.1.clone(), p.bth.dest_qp.get());
        let seen = streams.entry(stream).or_insert_with(|| {
            let number = between.entry(ends).or_default();
            *number += 1;
            Seen { number: *number - 1, last: (p.bth.psn, 0), packets: BTreeMap::new() }
        });
        let (last, place) = seen.last;
        let place = place + i64::from(last.distance_to(p.bth.psn));
        seen.last = (p.bth.psn, place);
        let announced = p.reth().map(|r| u64::from(r.len));
        seen.packets.entry(place).or_insert(Piece {
            at,
            info: p.info,
            // As the headers say, also where a recording has only those.
            payload: p.payload_len() as u64,
            announced,
        });
    })?;
    let mut records = Vec::new();
    for ((from, to, _), seen) in streams {
        // The message that has begun: its first packet, the place of its last one so far, its bytes.
        let mut open: Option<(Piece, i64, u64)> = None;
        for (place, piece) in seen.packets {
            if piece.info.position.starts() {
                open = Some((piece, place - 1, 0));
            }
            // Of a message that was not recorded whole nobody knows how long it was.
            let Some((first, _, sum)) = open.filter(|(_, before, _)| before + 1 == place) else {
                open = None;
                continue;
            };
            let sum = sum + piece.payload;
            open = Some((first, place, sum));
            if piece.info.position.ends() {
                records.push(Record {
                    at: first.at,
                    from: from.clone(),
                    to: to.clone(),
                    verb: verb(piece.info),
                    size: first.announced.unwrap_or(sum),
                    priority: None,
                    connection: Some(seen.number),
                });
                open = None;
            }
        }
    }
    records.sort_by_key(|r| r.at);
    Ok(records)
}

/// What the last packet of a message says it was.
fn verb(last: &OpcodeInfo) -> Verb {
    match (last.kind, last.imm) {
        (Kind::ReadRequest, _) => Verb::Read,
        (Kind::Write, false) => Verb::Write,
        (Kind::Write, true) => Verb::WriteImm,
        (_, false) => Verb::Send,
        (_, true) => Verb::SendImm,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(name: &str) -> String {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/data/captures/");
        let bytes = std::fs::read(format!("{dir}{name}.pcap")).unwrap();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let records = messages(&bytes).unwrap();
        assert!(records.is_sorted_by_key(|r| r.at), "as they began");
        for r in records {
            let text = format!("{} {} -> {}#{} {}", r.verb, r.from, r.to, r.connection.unwrap(), r.size);
            *counts.entry(text).or_default() += 1;
        }
        counts.iter().map(|(text, n)| format!("{n} x {text}")).collect::<Vec<_>>().join(", ")
    }

    /// What other programs sent is learnt whole, whatever the verb, and once where it was sent again.
    #[test]
    fn messages_of_recordings() {
        insta::assert_snapshot!(learnt("rc_send_2501"), @"20 x send 198.18.0.3 -> 198.18.0.2#0 2501");
        insta::assert_snapshot!(learnt("rc_write_2501_ipv6"), @"20 x write 2001:2::3 -> 2001:2::2#0 2501");
        insta::assert_snapshot!(learnt("rc_read_2501"), @"20 x read 198.18.0.3 -> 198.18.0.2#0 2501");
        insta::assert_snapshot!(learnt("rc_send_2qp"), @"30 x send 198.18.0.3 -> 198.18.0.2#0 64, 30 x send 198.18.0.3 -> 198.18.0.2#1 64");
        insta::assert_snapshot!(learnt("ud_send_1021"), @"60 x send 198.18.0.3 -> 198.18.0.2#0 1021");
        insta::assert_snapshot!(learnt("loss_write_request"), @"100 x write 198.18.0.3 -> 198.18.0.2#0 1024");
    }

    #[test]
    fn what_is_no_recording() {
        assert!(messages(b"time,from,to").unwrap_err().starts_with("neither pcap nor pcapng"));
        assert!(messages(&[0x0A, 0x0D, 0x0D, 0x0A, 1]).unwrap_err().starts_with("not a pcapng file"));
        assert_eq!((unit_ns(6), unit_ns(9), unit_ns(0x80 | 10)), (1e3, 1.0, 1e9 / 1024.0));
    }
}
