//! The opcode table against `data/opcodes.csv`, which was transcribed on its own.

use roce_engine::wire::{Class, Opcode, OpcodeInfo, PayloadRule, Position};

#[test]
fn every_row() {
    let mut seen = 0;
    for line in include_str!("data/opcodes.csv").lines().skip(1) {
        let info = Opcode(value(line)).info().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(row(info), line);
        seen += 1;
    }
    assert_eq!(seen, 63);
}

#[test]
fn all_others_are_reserved_or_reliable_datagrams() {
    let listed: Vec<u8> = include_str!("data/opcodes.csv").lines().skip(1).map(value).collect();
    for op in (0..=u8::MAX).filter(|op| !listed.contains(op)) {
        let info = Opcode(op).info();
        assert!(info.is_none_or(|info| info.class == Class::Rd), "{info:?}");
    }
}

/// A reliable datagram opcode is its reliable connected twin with RDETH, and DETH in requests.
#[test]
fn reliable_datagrams() {
    for op in 0..0x15 {
        let (rd, rc) = (Opcode(0x40 + op).info().unwrap(), Opcode(op).info().unwrap());
        let more = if rc.is_response() { 4 } else { 12 };
        assert_eq!(rd.header_len, rc.header_len + more, "{rd:?}");
        assert_eq!((rd.kind, rd.position, rd.payload), (rc.kind, rc.position, rc.payload));
        assert_eq!((rd.name, rd.rdeth), (&*rc.name.replacen("RC_", "RD_", 1), true));
    }
    assert_eq!(Opcode(0x55).info().unwrap().header_len, 24);
}

fn value(line: &str) -> u8 {
    u8::from_str_radix(&line[2..4], 16).expect("two hexadecimal digits")
}

/// The row of the file that says the same.
fn row(info: &OpcodeInfo) -> String {
    let is_cnp = info.opcode == Opcode::CNP;
    let direction = match info.is_response() {
        _ if is_cnp => "-",
        true => "resp",
        false => "req",
    };
    let position = match info.position {
        Position::First => "First",
        Position::Middle => "Middle",
        Position::Last => "Last",
        Position::Only => "Only",
    };
    let headers: Vec<_> = [
        (info.xrceth, "XRCETH"),
        (info.deth, "DETH"),
        (info.feth, "FETH"),
        (info.reth, "RETH"),
        (info.atomic, "AtomicETH"),
        (info.aeth, "AETH"),
        (info.atomic_ack, "AtomicAckETH"),
        (info.imm, "ImmDt"),
        (info.ieth, "IETH"),
        (is_cnp, "16 reserved"),
    ]
    .into_iter()
    .filter_map(|(has, name)| has.then_some(name))
    .collect();
    let headers = if headers.is_empty() { "-".to_string() } else { headers.join("+") };
    let payload = match info.payload {
        PayloadRule::None => "none",
        PayloadRule::Exactly8 => "=8",
        PayloadRule::ExactMtu => "=PMTU",
        PayloadRule::OneToMtu => "1..PMTU",
        PayloadRule::ZeroToMtu => "0..PMTU",
    };
    let is_write_imm = info.name.contains("WRITE") && info.imm;
    let recv = match (info.takes_recv, info.completes_recv) {
        (false, false) => "-",
        (true, false) => "takes",
        (false, true) => "completes",
        (true, true) if is_write_imm => "takes+completes (len 0)",
        (true, true) => "takes+completes",
    };
    let (op, name, len) = (info.opcode.0, info.name, info.header_len);
    format!("{op:#04x},{name},{direction},{position},{headers},{len},{payload},{recv}")
}
