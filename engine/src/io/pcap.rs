//! A port that records what passes, for pcapng readers.

use super::{BURST, Caps, Clock, Frame, FrameMut, PacketIo};
use crate::units::{Duration, Instant};
use crate::wire::{Piece, Tail};
use arrayvec::ArrayVec;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::io::Write;

/// Which frames are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that the port sent.
    Tx,
    /// Those that it received.
    Rx,
    /// All.
    Both,
}

/// The bounds of a recording.
#[derive(Clone, Copy, Debug)]
pub struct CaptureLimits {
    /// Bytes kept of a frame.
    pub snap_len: usize,
    /// Frames kept of a port.
    pub count: usize,
    /// Which.
    pub direction: Direction,
}

/// The recorded frames of one port.
#[derive(Debug)]
pub struct Capture {
    limits: CaptureLimits,
    records: Vec<Record>,
    bytes: Vec<u8>,
    missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    at: Instant,
    sent: bool,
    len: u32,
    from: usize,
    kept: u32,
}

impl Capture {
    fn new(limits: CaptureLimits) -> Capture {
        Capture { limits, records: Vec::new(), bytes: Vec::new(), missed: 0 }
    }

    fn record(&mut self, at: Instant, sent: bool, pieces: &[&[u8]]) {
        if self.records.len() >= self.limits.count {
            self.missed += 1;
            return;
        }
        let from = self.bytes.len();
        let mut room = self.limits.snap_len;
        for piece in pieces {
            let kept = piece.len().min(room);
            self.bytes.extend_from_slice(&piece[..kept]);
            room -= kept;
        }
        let len = pieces.iter().map(|p| p.len() as u32).sum();
        self.records.push(Record { at, sent, len, from, kept: (self.bytes.len() - from) as u32 });
    }

    /// Frames kept.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none was kept.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Frames that passed after the count was reached.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// Records the frames of a port; the port works as before, slower.
///
/// It has a clock of its own: the one reading of a turn may be from before a frame was sent that
/// the turn receives.
#[derive(Debug)]
pub struct Recorded<I, C> {
    inner: I,
    clock: C,
    capture: Option<Capture>,
}

impl<I, C> Recorded<I, C> {
    /// Wraps `inner`; with no limits nothing is recorded.
    pub fn new(inner: I, limits: Option<CaptureLimits>, clock: C) -> Recorded<I, C> {
        Recorded { inner, clock, capture: limits.map(Capture::new) }
    }

    /// The port itself.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    /// Ends the recording.
    pub fn take_capture(&mut self) -> Option<Capture> {
        self.capture.take()
    }
}

impl<I: PacketIo, C: Clock> PacketIo for Recorded<I, C> {
    type Rx = I::Rx;
    type Tx = I::Tx;

    #[inline]
    fn recv(&mut self, out: &mut ArrayVec<I::Rx, BURST>) -> usize {
        let before = out.len();
        let n = self.inner.recv(out);
        if let Some(capture) = &mut self.capture {
            if n != 0 && capture.limits.direction != Direction::Tx {
                let now = self.clock.now();
                for frame in &out[before..] {
                    match frame.rest() {
                        None => capture.record(now, false, &[frame.bytes()]),
                        Some([payload, tail]) => capture.record(now, false, &[frame.bytes(), payload, tail]),
                    }
                }
            }
        }
        n
    }

    #[inline]
    fn alloc(&mut self, reach: usize) -> Option<I::Tx> {
        self.inner.alloc(reach)
    }

    #[inline(always)]
    fn attach(&mut self, frame: &mut I::Tx, head: &[u8], piece: &Piece<'_>, tail: Tail) -> bool {
        // What is sent is recorded in one piece.
        let recorded = self.capture.as_ref().is_some_and(|c| c.limits.direction != Direction::Rx);
        !recorded && self.inner.attach(frame, head, piece, tail)
    }

    #[inline]
    fn send(&mut self, batch: &mut ArrayVec<I::Tx, BURST>) -> usize {
        let Some(capture) = &mut self.capture else { return self.inner.send(batch) };
        if capture.limits.direction == Direction::Rx {
            return self.inner.send(batch);
        }
        // What the port takes is known only afterwards, when the frames are gone: note all,
        // then forget the tail that stayed.
        let (records, bytes, missed) = (capture.records.len(), capture.bytes.len(), capture.missed);
        let now = self.clock.now();
        for frame in batch.iter() {
            capture.record(now, true, &[frame.bytes()]);
        }
        let n = self.inner.send(batch);
        let noted = capture.records.len() - records;
        if noted > n {
            let end = capture.records.get(records + n).map_or(bytes, |r| r.from);
            capture.records.truncate(records + n);
            capture.bytes.truncate(end);
        }
        capture.missed = missed + (n - noted.min(n)) as u64;
        n
    }

    #[inline]
    fn release(&mut self, frames: &mut ArrayVec<I::Rx, BURST>) {
        self.inner.release(frames);
    }

    #[inline]
    fn fetch<T>(what: &T) {
        I::fetch(what);
    }

    #[inline]
    fn fetch_frame(frame: &I::Rx) {
        I::fetch_frame(frame);
    }

    #[inline]
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn patience(&self) -> Option<Duration> {
        self.inner.patience()
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        self.inner.set_now(now);
    }
}

/// Writes the recordings of several ports as one pcapng file, an interface for each, in the
/// order of time.  `epoch_ns` is the wall-clock time of the run's origin.
pub fn write_pcapng<W: Write>(out: W, ports: &[(&str, &Capture)], epoch_ns: u64) -> Result<(), PcapError> {
    let mut writer = PcapNgWriter::new(out)?;
    for (name, capture) in ports {
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: capture.limits.snap_len.min(u32::MAX as usize) as u32,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(*name)),
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        })?;
    }
    let mut order: Vec<(Instant, usize, usize)> = Vec::new();
    for (port, (_, capture)) in ports.iter().enumerate() {
        order.extend(capture.records.iter().enumerate().map(|(i, r)| (r.at, port, i)));
    }
    order.sort_by_key(|(at, port, i)| (*at, !ports[*port].1.records[*i].sent, *port, *i));
    for (_, port, i) in order {
        let capture = ports[port].1;
        let record = &capture.records[i];
        let direction = if record.sent { 2 } else { 1 };
        writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: port as u32,
            timestamp: std::time::Duration::from_nanos(epoch_ns + record.at.as_nanos()),
            original_len: record.len,
            data: Cow::Borrowed(&capture.bytes[record.from..record.from + record.kept as usize]),
            options: vec![EnhancedPacketOption::Flags(direction)],
        })?;
    }
    Ok(())
}
