//! Every frame of the recordings in `data/captures`: classified, verified, counted, and put
//! together again.  The expected counts come from a script of their own.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use pcap_file::pcap::PcapReader;
use roce_engine::wire::{AethKind, NakCode, Opcode, Packet, Parts, classify};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

/// File, frames in it, and how many of them go to UDP port 4791.
const FILES: [(&str, usize, usize); 34] = [
    ("cm_read_2501", 154, 154),
    ("cm_reject", 2, 2),
    ("cm_rping", 125, 125),
    ("cm_ucmatose", 45, 45),
    ("cm_udaddy", 6, 6),
    ("cm_write_2501", 154, 154),
    ("duplicate_read", 155, 102),
    ("duplicate_write", 203, 154),
    ("loss_acks", 137, 98),
    ("loss_read_response", 185, 146),
    ("loss_send_request", 235, 205),
    ("loss_write_ingress", 271, 230),
    ("loss_write_request", 276, 237),
    ("mtu4096_send_9001", 53, 24),
    ("mtu4096_write_9001", 63, 24),
    ("rc_atomic_cas", 159, 120),
    ("rc_atomic_fadd", 159, 120),
    ("rc_read_2501", 121, 80),
    ("rc_read_64", 159, 120),
    ("rc_send_2501", 109, 80),
    ("rc_send_2501_ipv6", 109, 80),
    ("rc_send_2qp", 155, 120),
    ("rc_send_64", 151, 120),
    ("rc_send_lat_8", 269, 240),
    ("rc_write_2501", 119, 80),
    ("rc_write_2501_ipv6", 119, 80),
    ("rc_write_64", 161, 120),
    ("rc_write_lat_8", 265, 240),
    ("rnr_send", 397, 368),
    ("rxe61-basic", 416, 191),
    ("rxe61-conformance", 452, 178),
    ("uc_send_2501", 89, 60),
    ("ud_send_1021", 89, 60),
    ("ud_send_64", 89, 60),
];

#[test]
fn every_frame_is_accounted_for() {
    let mut reasons = Counts::new();
    let mut good = 0;
    for (file, frames, roce) in FILES {
        let tally = Tally::of(file);
        assert_eq!(tally.frames, frames, "{file}");
        let non_roce = tally.dropped.get("non_roce").copied().unwrap_or(0);
        assert_eq!(tally.frames - non_roce, roce, "{file}");
        if file != "rxe61-conformance" {
            assert_eq!(tally.good, roce, "{file}: {:?}", tally.dropped);
        }
        good += tally.good;
        for (reason, n) in tally.dropped {
            *reasons.entry(reason).or_default() += n;
        }
    }
    assert_eq!(good, 4219);
    let injected = [("bad_tver", 1), ("rx_icrc_errors", 1), ("udp_checksum", 1), ("unknown_opcode", 1)];
    assert_eq!(reasons, counts(&[&injected[..], &[("non_roce", 1428)]].concat()));
    assert_eq!(
        std::fs::read_dir(folder()).unwrap().count(),
        FILES.len(),
        "a recording is not in the list above"
    );
}

/// The frames that were broken on purpose are in one file.
#[test]
fn the_injected_frames() {
    let tally = Tally::of("rxe61-conformance");
    assert_eq!(tally.good, 174);
    assert_eq!(
        tally.dropped,
        counts(&[
            ("bad_tver", 1),
            ("non_roce", 274),
            ("rx_icrc_errors", 1),
            ("udp_checksum", 1),
            ("unknown_opcode", 1)
        ])
    );
    let (mut tagged, mut trailers, mut notifications, mut marked) = (0, 0, 0, 0);
    good("rxe61-conformance", |packet| {
        if let Some(vlan) = packet.vlan {
            assert_eq!(vlan.tci(), 100);
            tagged += 1;
        }
        trailers += usize::from(!packet.trailer().is_empty());
        notifications += usize::from(packet.bth.opcode == Opcode::CNP);
        // One SEND has all of byte 4 set, and MigReq.
        if packet.bth.fecn {
            assert_eq!(packet.info.name, "RC_SEND_ONLY");
            assert!(packet.bth.becn && packet.bth.resv6 == 0x3F && packet.bth.migreq);
            marked += 1;
        }
    });
    assert_eq!((tagged, trailers, notifications, marked), (10, 2, 1, 1));
}

#[test]
fn every_packet_is_put_together_again() {
    let mut packets = 0;
    for (file, ..) in FILES {
        good(file, |packet| {
            let parts = Parts::of(packet).unwrap();
            assert!(parts.emit() == packet.frame(), "{file}: {packet:?}");
            assert!(parts.clone().sealed() == parts, "{file}: {packet:?}");
            packets += 1;
        });
    }
    assert_eq!(packets, 4219);
}

#[test]
fn opcodes_per_file() {
    let cases: [(&str, &[(&str, usize)]); 16] = [
        ("rc_send_64", &[("RC_SEND_ONLY", 60), ("RC_ACKNOWLEDGE", 60)]),
        (
            "rc_send_2501",
            &[("RC_SEND_FIRST", 20), ("RC_SEND_MIDDLE", 20), ("RC_SEND_LAST", 20), ("RC_ACKNOWLEDGE", 20)],
        ),
        ("rc_send_lat_8", &[("RC_SEND_ONLY", 120), ("RC_ACKNOWLEDGE", 120)]),
        ("rc_write_64", &[("RC_WRITE_ONLY", 60), ("RC_ACKNOWLEDGE", 60)]),
        (
            "rc_write_2501_ipv6",
            &[("RC_WRITE_FIRST", 20), ("RC_WRITE_MIDDLE", 20), ("RC_WRITE_LAST", 20), ("RC_ACKNOWLEDGE", 20)],
        ),
        ("rc_read_64", &[("RC_READ_REQUEST", 60), ("RC_READ_RESP_ONLY", 60)]),
        (
            "rc_read_2501",
            &[
                ("RC_READ_REQUEST", 20),
                ("RC_READ_RESP_FIRST", 20),
                ("RC_READ_RESP_MIDDLE", 20),
                ("RC_READ_RESP_LAST", 20),
            ],
        ),
        ("rc_atomic_cas", &[("RC_COMPARE_SWAP", 60), ("RC_ATOMIC_ACK", 60)]),
        ("rc_atomic_fadd", &[("RC_FETCH_ADD", 60), ("RC_ATOMIC_ACK", 60)]),
        ("uc_send_2501", &[("UC_SEND_FIRST", 20), ("UC_SEND_MIDDLE", 20), ("UC_SEND_LAST", 20)]),
        ("ud_send_64", &[("UD_SEND_ONLY", 60)]),
        ("ud_send_1021", &[("UD_SEND_ONLY", 60)]),
        ("loss_write_request", &[("RC_WRITE_ONLY", 130), ("RC_ACKNOWLEDGE", 107)]),
        ("loss_write_ingress", &[("RC_WRITE_ONLY", 124), ("RC_ACKNOWLEDGE", 106)]),
        (
            "loss_read_response",
            &[
                ("RC_READ_REQUEST", 39),
                ("RC_READ_RESP_FIRST", 32),
                ("RC_READ_RESP_MIDDLE", 36),
                ("RC_READ_RESP_LAST", 39),
            ],
        ),
        ("rnr_send", &[("RC_SEND_ONLY", 292), ("RC_ACKNOWLEDGE", 76)]),
    ];
    for (file, want) in cases {
        assert_eq!(Tally::of(file).opcodes, counts(want), "{file}");
    }
}

#[test]
fn acknowledgements_per_file() {
    for (file, acks, sequence_naks, rnr_naks) in [
        ("loss_write_request", 100, 7, 0),
        ("loss_send_request", 32, 5, 0),
        ("loss_write_ingress", 100, 6, 0),
        ("loss_acks", 43, 2, 0),
        ("rnr_send", 40, 18, 18),
    ] {
        let mut seen = (0, 0, 0);
        good(file, |packet| match packet.aeth().map(|aeth| aeth.syndrome.kind()) {
            Some(AethKind::Ack { credits: 31 }) => seen.0 += 1,
            Some(AethKind::Nak(NakCode::PsnSequence)) => seen.1 += 1,
            Some(AethKind::RnrNak { timer: 12 }) => seen.2 += 1,
            Some(other) => panic!("{file}: {other:?}"),
            None => {}
        });
        assert_eq!(seen, (acks, sequence_naks, rnr_naks), "{file}");
    }
}

/// Payload without pad, keys and addresses, where the tool's options say what they must be.
#[test]
fn contents() {
    good("ud_send_1021", |packet| {
        assert_eq!((packet.payload().len(), packet.bth.pad), (1021, 3));
        assert_eq!(packet.deth().unwrap().qkey, 0x1111_1111);
    });
    good("rc_send_2501_ipv6", |packet| {
        assert!(packet.is_ipv6);
        let ends = [packet.src(), packet.dst()].map(|gid| gid.to_string());
        assert!(ends.contains(&"2001:2::2".to_string()) && ends.contains(&"2001:2::3".to_string()));
    });
    good("rc_write_2501", |packet| {
        let len = match packet.info.name {
            "RC_WRITE_FIRST" => {
                assert_eq!(packet.reth().unwrap().len, 2501);
                1024
            }
            "RC_WRITE_MIDDLE" => 1024,
            "RC_WRITE_LAST" => 453,
            _ => 0,
        };
        assert_eq!(packet.payload().len(), len);
        assert!(packet.info.payload.allows(len, 1024) && packet.pad_is_consistent());
    });
    good("cm_reject", |packet| {
        assert_eq!((packet.deth().unwrap().qkey, packet.payload().len()), (0x8001_0000, 256));
    });
}

type Counts = BTreeMap<String, usize>;

fn counts(list: &[(&str, usize)]) -> Counts {
    list.iter().map(|&(name, n)| (name.to_string(), n)).collect()
}

#[derive(Default)]
struct Tally {
    frames: usize,
    good: usize,
    opcodes: Counts,
    dropped: Counts,
}

impl Tally {
    fn of(file: &str) -> Tally {
        let mut tally = Tally::default();
        for frame in frames(file) {
            tally.frames += 1;
            match classify(&frame) {
                Ok(packet) if packet.verify_icrc() => {
                    tally.good += 1;
                    *tally.opcodes.entry(packet.info.name.to_string()).or_default() += 1;
                }
                Ok(_) => *tally.dropped.entry("rx_icrc_errors".to_string()).or_default() += 1,
                Err(reason) => *tally.dropped.entry(reason.name().to_string()).or_default() += 1,
            }
        }
        tally
    }
}

/// Calls `look` with each packet of `file` that is right in everything.
fn good(file: &str, mut look: impl FnMut(&Packet<'_>)) {
    for frame in frames(file) {
        if let Ok(packet) = classify(&frame)
            && packet.verify_icrc()
        {
            look(&packet);
        }
    }
}

fn frames(file: &str) -> Vec<Vec<u8>> {
    let path = folder().join(format!("{file}.pcap"));
    let mut reader = PcapReader::new(File::open(path).unwrap()).unwrap();
    std::iter::from_fn(|| Some(reader.next_packet()?.unwrap().data.into_owned())).collect()
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", "captures"].iter().collect()
}
