//! Recordings, judged by tshark (fields, order) and scapy (iCRC): neither shares code with us.

use crate::common::{Folder, Machine, flow, int, list, python_with, ring_pair, root, run, tool, two_ports};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A frame as tshark reads it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// Number of the port in the recording; 0 in a file that has no such numbers.
    pub(crate) interface: u32,
    /// Nanoseconds since 1970.
    pub(crate) at: u64,
    pub(crate) len: usize,
    pub(crate) kept: usize,
    /// 1 received, 2 sent.
    pub(crate) direction: u32,
    pub(crate) vlan: Option<(u32, u32)>,
    pub(crate) src: String,
    pub(crate) hops: u32,
    pub(crate) opcode: u8,
    pub(crate) dest_qp: u32,
    pub(crate) psn: u32,
    pub(crate) ack_req: bool,
    pub(crate) pad: usize,
    pub(crate) syndrome: Option<u8>,
    pub(crate) dma_len: Option<u32>,
    pub(crate) imm: Option<u32>,
}

const FIELDS: [&str; 20] = [
    "frame.interface_id",
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "frame.packet_flags_direction",
    "vlan.id",
    "vlan.priority",
    "ip.src",
    "ipv6.src",
    "ip.ttl",
    "ipv6.hlim",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.bth.a",
    "infiniband.bth.padcnt",
    "infiniband.aeth.syndrome",
    "infiniband.reth.dmalen",
    "infiniband.immdt",
    "infiniband.bth.p_key",
];

/// Every frame of a recording, all of which must be well-formed RoCEv2; `None` without tshark.
pub(crate) fn frames(file: &str) -> Option<Vec<Frame>> {
    // Short SENDs look like broken RPC-over-RDMA to it.
    let mut args = vec!["-r", file, "--disable-protocol", "rpcordma", "-o", "ip.check_checksum:TRUE"];
    let faults = tool("tshark", &[&args[..], &["-Y", "_ws.malformed || ip.checksum.status == 0"]].concat())?;
    assert_eq!(faults, "", "malformed, or a wrong checksum");
    args.extend(["-T", "fields", "-E", "occurrence=f"]);
    args.extend(FIELDS.iter().flat_map(|f| ["-e", f]));
    let rows = tool("tshark", &args)?;
    Some(rows.lines().map(frame).collect())
}

fn frame(row: &str) -> Frame {
    let cells: Vec<&str> = row.split('\t').collect();
    assert_eq!(cells.len(), FIELDS.len(), "{row}");
    let [
        interface,
        at,
        len,
        kept,
        direction,
        vid,
        pcp,
        src4,
        src6,
        ttl,
        hlim,
        opcode,
        qp,
        psn,
        a,
        pad,
        aeth,
        dma,
        imm,
        pkey,
    ] = *cells.first_chunk().unwrap();
    let number = |text: &str| -> Option<u32> {
        match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let due = |text: &str| number(text).unwrap_or_else(|| panic!("no number where one is due: {row}"));
    assert_eq!(due(pkey), 0xFFFF, "{row}");
    let (seconds, nanos) = at.split_once('.').unwrap();
    assert_eq!(nanos.len(), 9, "{at}");
    Frame {
        interface: number(interface).unwrap_or(0),
        at: seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanos.parse::<u64>().unwrap(),
        len: due(len) as usize,
        kept: due(kept) as usize,
        direction: number(direction).unwrap_or(0),
        vlan: number(vid).zip(number(pcp)),
        src: format!("{src4}{src6}"),
        hops: number(ttl).or(number(hlim)).unwrap(),
        opcode: due(opcode) as u8,
        dest_qp: due(qp),
        psn: due(psn),
        ack_req: ["1", "True"].contains(&a),
        pad: due(pad) as usize,
        syndrome: number(aeth).map(|s| s as u8),
        dma_len: number(dma),
        imm: u32::from_str_radix(&imm.replace(':', ""), 16).ok().filter(|_| !imm.is_empty()),
    }
}

/// The iCRCs of a recording by scapy: right, wrong, cut short.
fn icrcs(file: &str) -> Option<(usize, usize, usize)> {
    let python = python_with("scapy.contrib.roce")?;
    let script = root().join("gen/tests/data/check_icrc.py");
    let out = Command::new(python).arg(script).arg(file).output().expect("python");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(int(&found, "/other"), 0, "{file}");
    let wrong = list(&found, "/wrong").len();
    Some((int(&found, "/right") as usize, wrong, int(&found, "/short") as usize))
}

/// A flow of the recordings below.
#[derive(Clone, Debug)]
struct Spec {
    verb: &'static str,
    rc: bool,
    size: usize,
    /// The first PSN of both sides.
    psn: u32,
}

const MTU: usize = 1024;
const MESSAGES: u32 = 3;

impl Spec {
    fn name(&self) -> String {
        format!("{}-{}-{}", self.verb, if self.rc { "rc" } else { "uc" }, self.size)
    }

    fn toml(&self, more: &str) -> String {
        let keys =
            format!("size = {}\nmtu = {MTU}\nmessages = {MESSAGES}\npsn = {}\n{more}", self.size, self.psn);
        let text = flow(&self.name(), self.verb, &keys);
        if self.rc {
            text + "verify = true\n"
        } else {
            text.replace("ack_timeout = 20", "transport = \"uc\"")
        }
    }

    fn packets(&self) -> u32 {
        (self.size.div_ceil(MTU) as u32).max(1)
    }

    /// Payload of packet `i` of a message.
    fn payload(&self, i: u32) -> usize {
        if i + 1 < self.packets() { MTU } else { self.size - MTU * i as usize }
    }

    /// Opcode and PSN of each request, in order.
    fn requests(&self) -> Vec<(u8, u32)> {
        let (n, base) = (self.packets(), if self.rc { 0x00 } else { 0x20 });
        let [first, middle, last, only] = match self.verb {
            "send" => [0x00, 0x01, 0x02, 0x04],
            "send_imm" => [0x00, 0x01, 0x03, 0x05],
            "write" => [0x06, 0x07, 0x08, 0x0A],
            "write_imm" => [0x06, 0x07, 0x09, 0x0B],
            _ => {
                // A READ takes the PSNs of its response.
                return (0..MESSAGES).map(|m| (0x0C, self.psn_at(m * n))).collect();
            }
        };
        let opcode = |i: u32| match (i, n) {
            (_, 1) => only,
            (0, _) => first,
            (i, n) if i + 1 == n => last,
            _ => middle,
        };
        (0..MESSAGES * n).map(|i| (base + opcode(i % n), self.psn_at(i))).collect()
    }

    /// Opcode and PSN of each response with data.
    fn responses(&self) -> Vec<(u8, u32)> {
        let n = self.packets();
        let opcode = |i: u32| match (i, n) {
            (_, 1) => 0x10,
            (0, _) => 0x0D,
            (i, n) if i + 1 == n => 0x0F,
            _ => 0x0E,
        };
        (0..MESSAGES * n).map(|i| (opcode(i % n), self.psn_at(i))).collect()
    }

    fn psn_at(&self, i: u32) -> u32 {
        (self.psn + i) & 0xFF_FFFF
    }
}

/// Every verb over both transports, in one packet and in several, with odd lengths.
fn every_verb() -> Vec<Spec> {
    let mut specs = Vec::new();
    for (size, at) in [(2501, 0), (3, 1), (0, 2)] {
        for rc in [true, false] {
            for verb in ["write", "write_imm", "send", "send_imm", "read"] {
                if verb != "read" || rc {
                    // Each flow has its own PSNs; the first wraps round.
                    let psn = if specs.is_empty() { 0xFF_FFFB } else { 0x1000 * specs.len() as u32 + at };
                    specs.push(Spec { verb, rc, size, psn });
                }
            }
        }
    }
    specs
}

/// Judges what `a` sent, or `b`, over all flows.
fn judge_requests(spec: &Spec, sent: &[&Frame], v6: bool, vlan: bool) {
    let got: Vec<(u8, u32)> = sent.iter().map(|f| (f.opcode, f.psn)).collect();
    assert_eq!(got, spec.requests(), "{}", spec.name());
    let headers = 14 + usize::from(vlan) * 4 + if v6 { 40 } else { 20 } + 8 + 12 + 4;
    let n = if spec.verb == "read" { 1 } else { spec.packets() };
    for (i, f) in sent.iter().enumerate() {
        let (place, message) = (i as u32 % n, i as u32 / n);
        let payload = if spec.verb == "read" { 0 } else { spec.payload(place) };
        let begins = place == 0 && spec.verb != "send" && spec.verb != "send_imm";
        let imm = place + 1 == n && spec.verb.ends_with("_imm");
        assert_eq!(f.dma_len, begins.then_some(spec.size as u32), "{}: {f:?}", spec.name());
        assert_eq!(f.imm, imm.then_some(message), "{}: {f:?}", spec.name());
        assert_eq!(f.pad, payload.wrapping_neg() & 3, "{}: {f:?}", spec.name());
        let len = headers + payload + f.pad + 16 * usize::from(begins) + 4 * usize::from(imm);
        assert_eq!(f.len, len.max(60), "{}: {f:?}", spec.name());
    }
    // Somebody must answer the last one, and nobody an unreliable one.
    assert!(spec.verb == "read" || sent.last().unwrap().ack_req == spec.rc, "{}", spec.name());
}

fn judge_answers(spec: &Spec, answers: &[&Frame]) {
    if !spec.rc {
        assert!(answers.is_empty(), "{}: {answers:?}", spec.name());
        return;
    }
    if spec.verb == "read" {
        let got: Vec<(u8, u32)> = answers.iter().map(|f| (f.opcode, f.psn)).collect();
        assert_eq!(got, spec.responses(), "{}", spec.name());
        return;
    }
    let offset = |f: &Frame| f.psn.wrapping_sub(spec.psn) & 0xFF_FFFF;
    let acked: Vec<u32> = answers.iter().map(|f| offset(f)).collect();
    assert!(acked.is_sorted(), "{}: {acked:?}", spec.name());
    assert_eq!(acked.last(), Some(&(MESSAGES * spec.packets() - 1)), "{}", spec.name());
    for f in answers {
        assert!(f.opcode == 0x11 && f.syndrome.is_some_and(|s| s < 0x20), "an ACK: {f:?}");
    }
}

/// Records every verb and judges each frame.
fn every_verb_is_recorded(v6: bool, vlan: bool) {
    let _machine = Machine::take();
    let specs = every_verb();
    let flows: String = specs.iter().map(|s| s.toml(if vlan { "pcp = 3" } else { "" })).collect();
    let more = if vlan { "vlan = 100" } else { "" };
    let (ip_a, ip_b) = if v6 { ("2001:2::1", "2001:2::2") } else { ("198.18.0.1", "198.18.0.2") };
    let scenario = two_ports("seed = 5", ("ring:0", ip_a, more), ("ring:0", ip_b, more), &flows);
    let folder = Folder::new();
    let file = folder.write("x.toml", &scenario);
    let pcap = folder.path("x.pcapng");
    let before = now();
    let result = run(["run", &file, "--json", "--pcap", &pcap]).result(0);
    let after = now();

    let Some(all) = frames(&pcap) else { return };
    let ports = list(&result, "/ports");
    for (i, port) in ports.iter().enumerate() {
        for (direction, count) in [(2, "/tx_packets"), (1, "/rx_packets")] {
            let n = all.iter().filter(|f| f.interface == i as u32 && f.direction == direction).count();
            assert_eq!(n as u64, int(port, count), "every frame is recorded");
        }
    }
    let of = |interface: u32, direction: u32| -> Vec<&Frame> {
        all.iter().filter(|f| f.interface == interface && f.direction == direction).collect()
    };
    let (sent, answered) = (of(0, 2), of(1, 2));
    for f in &all {
        assert_eq!((f.kept, f.hops), (f.len, 64));
        assert_eq!(f.vlan, vlan.then_some((100, 3)));
    }
    assert!(sent.iter().all(|f| f.src == ip_a) && answered.iter().all(|f| f.src == ip_b));
    for spec in &specs {
        let own = |f: &&&Frame| f.psn.wrapping_sub(spec.psn) & 0xFF_FFFF < MESSAGES * spec.packets();
        let requests: Vec<&Frame> = sent.iter().filter(own).copied().collect();
        let answers: Vec<&Frame> = answered.iter().filter(own).copied().collect();
        judge_requests(spec, &requests, v6, vlan);
        judge_answers(spec, &answers);
        assert!(requests.iter().all(|f| f.dest_qp == requests[0].dest_qp && f.dest_qp > 1));
    }

    // What one sent, the other received, in order and not before.
    for (from, to) in [(0, 1), (1, 0)] {
        let (out, back) = (of(from, 2), of(to, 1));
        assert_eq!(out.len(), back.len());
        for (o, i) in out.iter().zip(back) {
            assert_eq!((o.dest_qp, o.psn, o.opcode, o.len), (i.dest_qp, i.psn, i.opcode, i.len));
            assert!(o.at <= i.at, "received {} ns before it was sent", o.at - i.at);
        }
    }
    assert!(all.iter().map(|f| f.at).is_sorted());
    assert!(all.iter().all(|f| (before..=after).contains(&f.at)), "{before}..{after}: {:?}", all[0]);
    assert!(all.iter().any(|f| f.at % 1000 != 0), "nanoseconds");

    if let Some(found) = icrcs(&pcap) {
        assert_eq!(found, (all.len(), 0, 0));
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

#[test]
fn every_verb_over_ipv4() {
    every_verb_is_recorded(false, false);
}

#[test]
fn every_verb_over_ipv6() {
    every_verb_is_recorded(true, false);
}

#[test]
fn every_verb_over_tagged_ipv4() {
    every_verb_is_recorded(false, true);
}

#[test]
fn every_verb_over_tagged_ipv6() {
    every_verb_is_recorded(true, true);
}

/// The judges must be able to say no.
#[test]
fn a_flipped_bit_is_found() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let pcap = folder.path("x.pcap");
    let device = format!("net_pcap0,tx_pcap={pcap}");
    let file = folder.write("x.toml", &into_a_file(&device, &every_verb()));
    run(["run", &file, "--json"]).result(0);
    let Some(before) = icrcs(&pcap) else { return };
    assert_eq!((before.1, before.2), (0, 0));
    let mut bytes = std::fs::read(&pcap).unwrap();
    // In the payload of the first frame: 24 B of file and 16 B of frame header, then Ethernet.
    bytes[24 + 16 + 14 + 20 + 8 + 12 + 100] ^= 0x10;
    std::fs::write(&pcap, bytes).unwrap();
    assert_eq!(icrcs(&pcap), Some((before.0 - 1, 1, 0)));
}

/// All unreliable flows to nobody, through a port that writes a capture file.
fn into_a_file(device: &str, specs: &[Spec]) -> String {
    let flows: String = specs.iter().filter(|s| !s.rc).map(|s| s.toml("")).collect();
    let nobody = ("none", "198.18.0.2", "mac = \"02:00:00:00:00:02\"");
    two_ports("seed = 5", (device, "198.18.0.1", ""), nobody, &flows)
}

#[test]
fn a_pcap_port_writes_what_it_sends() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let pcap = folder.path("x.pcap");
    let specs: Vec<Spec> = every_verb().into_iter().filter(|s| !s.rc).collect();
    let file = folder.write("x.toml", &into_a_file(&format!("net_pcap0,tx_pcap={pcap}"), &specs));
    let (before, result) = (now(), run(["run", &file, "--json"]).result(0));
    let Some(all) = frames(&pcap) else { return };
    assert_eq!(all.len() as u64, int(&result, "/ports/0/tx_packets"));
    for spec in &specs {
        let own = |f: &&Frame| f.psn.wrapping_sub(spec.psn) & 0xFF_FFFF < MESSAGES * spec.packets();
        judge_requests(spec, &all.iter().filter(own).collect::<Vec<_>>(), false, false);
    }
    let span = before..before + Duration::from_secs(120).as_nanos() as u64;
    assert!(all.iter().all(|f| span.contains(&f.at)));
    if let Some(found) = icrcs(&pcap) {
        assert_eq!(found, (all.len(), 0, 0));
    }

    // Read back by a port, every frame is for a queue pair that is not there.
    let device = format!("net_pcap0,rx_pcap={pcap},tx_pcap={}", folder.path("y.pcap"));
    let again = folder.write("y.toml", &into_a_file(&device, &specs[..1]).replace("seed = 5", "seed = 6"));
    let result =
        run(["run", &again, "--json", "--set", "run.warmup=100ms", "--set", "run.duration=100ms"]).result(0);
    assert_eq!(int(&result, "/ports/0/rx_packets"), all.len() as u64);
    assert_eq!(int(&result, "/ports/0/rx_dropped/no_qp"), all.len() as u64);
}

#[test]
fn a_recording_is_bounded_as_told() {
    let _machine = Machine::take();
    let folder = Folder::new();
    let keys = format!("size = 2000\nmtu = {MTU}\nmessages = 20");
    let file = folder.write("x.toml", &ring_pair("", &flow("f", "write", &keys)));
    let pcap = folder.path("x.pcapng");
    let record = |more: &[&str]| {
        let ended = run([&["run", &file, "--json", "--pcap", &pcap][..], more].concat());
        ended.result(0);
        let found = frames(&pcap)?;
        Some((found, ended.stderr))
    };
    let Some((all, _)) = record(&[]) else { return };
    assert!(all.iter().any(|f| f.direction == 1) && all.iter().any(|f| f.direction == 2));
    assert_eq!(all.iter().filter(|f| f.interface == 0 && f.direction == 2).count(), 40);

    let (short, _) = record(&["--pcap-snap", "90"]).unwrap();
    assert!(short.iter().all(|f| f.kept == f.len.min(90)), "{short:?}");
    assert_eq!(short.iter().map(|f| f.len).max(), Some(14 + 20 + 8 + 12 + 16 + MTU + 4));
    let cut = short.iter().filter(|f| f.len > 90).count();
    if let Some(found) = icrcs(&pcap) {
        assert_eq!(found, (short.len() - cut, 0, cut));
    }

    let (few, notes) = record(&["--pcap-count", "7"]).unwrap();
    let of = |list: &[Frame], port| list.iter().filter(|f| f.interface == port).count();
    assert_eq!(of(&few, 1), 7, "b has at least 40 to record");
    assert!(of(&few, 0) == 7, "and so has a");
    assert!(notes.contains("7 frames kept") && notes.contains("--pcap-count"), "{notes}");

    let (sent, _) = record(&["--pcap-direction", "tx"]).unwrap();
    assert!(sent.iter().all(|f| f.direction == 2) && of(&sent, 0) == 40 && of(&sent, 1) > 0);
    let (received, _) = record(&["--pcap-direction", "rx"]).unwrap();
    assert!(received.iter().all(|f| f.direction == 1) && of(&received, 1) == 40 && of(&received, 0) > 0);
}

/// Payload that is always the same is sent without a copy, with a CRC that is known beforehand: what
/// arrives has the same bytes and lengths as if it were not.
#[test]
fn constant_payload_arrives_whole() {
    const BIG: usize = 4096;
    let _machine = Machine::take();
    let folder = Folder::new();
    let pcap = folder.path("x.pcapng");
    for verb in ["write", "send", "read"] {
        let keys = format!("size = {}\nmtu = {BIG}\nmessages = 20", 5 * BIG + 999);
        let file = folder.write("x.toml", &ring_pair("", &flow("f", verb, &keys)));
        let record = ["run", &file, "--json", "--pcap", &pcap, "--pcap-direction", "rx"];
        let result = run(record).result(0);
        assert_eq!((int(&result, "/flows/0/messages"), int(&result, "/flows/0/retransmits")), (20, 0));
        let Some(all) = frames(&pcap) else { return };
        let full = |f: &&Frame| f.len >= 14 + 20 + 8 + 12 + BIG + 4;
        assert_eq!(all.iter().filter(full).count(), 20 * 5, "{verb}");
        let last = 14 + 20 + 8 + 12 + 1000 + 4;
        assert_eq!(
            all.iter().filter(|f| f.pad == 1 && [last, last + 4].contains(&f.len)).count(),
            20,
            "{verb}"
        );
        if let Some(found) = icrcs(&pcap) {
            assert_eq!(found, (all.len(), 0, 0), "{verb}");
        }
        let bytes: u64 = all.iter().map(|f| f.len as u64).sum();
        assert_eq!(bytes, int(&result, "/ports/0/rx_bytes") + int(&result, "/ports/1/rx_bytes"));
    }
}
