//! The opcode table: every fact about an opcode in one place.

use super::{AtomicAckEth, AtomicEth, Bth, Deth, Feth, Ieth, ImmDt, Rdeth, Reth, Xrceth};
use core::fmt;

/// The first byte of a BTH.  Any value can be held; [`Opcode::info`] tells which are defined.
///
/// Prints as its name, such as `RC_SEND_FIRST`, or as a number when it has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// The facts; `None` for a reserved value.
    ///
    /// Reliable datagram opcodes have facts too, so that tools can name them, but never make a
    /// valid packet: see [`super::classify`].
    #[inline]
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        TABLE[self.0 as usize].as_ref()
    }

    /// The transport, from the top three bits.
    #[inline]
    pub const fn class(self) -> Class {
        match self.0 >> 5 {
            0 => Class::Rc,
            1 => Class::Uc,
            2 => Class::Rd,
            3 => Class::Ud,
            4 => Class::Cnp,
            5 => Class::Xrc,
            _ => Class::Vendor,
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.pad(info.name),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The transport of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Reliable connected.
    Rc,
    /// Unreliable connected.
    Uc,
    /// Reliable datagram: not used on RoCE.
    Rd,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification.
    Cnp,
    /// Extended reliable connected.
    Xrc,
    /// 0xC0 and above: reserved, or the manufacturer's own.
    Vendor,
}

/// The operation of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response; answers FLUSH and ATOMIC WRITE too.
    ReadResponse,
    /// ACK, NAK or RNR NAK.
    Acknowledge,
    /// The answer to an atomic.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// FLUSH.
    Flush,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// Congestion notification packet.
    Cnp,
    /// RESYNC of reliable datagrams.
    Resync,
}

/// The place of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Position {
    /// First or only.
    #[inline]
    pub const fn starts(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// Last or only.
    #[inline]
    pub const fn ends(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }
}

/// How much payload a packet may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// No payload.
    None,
    /// Eight bytes.
    Exactly8,
    /// The path MTU, so no pad.
    ExactMtu,
    /// 1 to the path MTU.
    OneToMtu,
    /// 0 to the path MTU.
    ZeroToMtu,
}

impl PayloadRule {
    /// Whether `len` payload bytes are right at a path MTU of `mtu` bytes.
    #[inline]
    pub const fn allows(self, len: usize, mtu: usize) -> bool {
        match self {
            PayloadRule::None => len == 0,
            PayloadRule::Exactly8 => len == 8,
            PayloadRule::ExactMtu => len == mtu,
            PayloadRule::OneToMtu => len >= 1 && len <= mtu,
            PayloadRule::ZeroToMtu => len <= mtu,
        }
    }
}

/// The facts about an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Its name, such as `RC_SEND_FIRST`.
    pub name: &'static str,
    /// Its transport.
    pub class: Class,
    /// Its operation.
    pub kind: Kind,
    /// Its place in the message.
    pub position: Position,
    /// Carries a RETH.
    pub reth: bool,
    /// Carries an AETH.
    pub aeth: bool,
    /// Carries immediate data.
    pub imm: bool,
    /// Carries an IETH.
    pub ieth: bool,
    /// Carries an AtomicETH.
    pub atomic: bool,
    /// Carries an AtomicAckETH.
    pub atomic_ack: bool,
    /// Carries a DETH.
    pub deth: bool,
    /// Carries an XRCETH.
    pub xrceth: bool,
    /// Carries an RDETH.
    pub rdeth: bool,
    /// Carries a FETH.
    pub feth: bool,
    /// Bytes of BTH and extension headers; a CNP's 16 reserved bytes count as such.
    pub header_len: u8,
    /// Payload that it may carry.
    pub payload: PayloadRule,
    /// Takes a receive work request.
    pub takes_recv: bool,
    /// Completes a receive work request.
    pub completes_recv: bool,
}

impl OpcodeInfo {
    /// Whether the packet goes to the requester half of a QP.  False for a CNP.
    #[inline]
    pub const fn is_response(&self) -> bool {
        matches!(self.kind, Kind::ReadResponse | Kind::Acknowledge | Kind::AtomicAcknowledge)
    }

    /// Offset of the DETH from the BTH, if there is one.
    #[inline]
    pub(super) const fn deth_at(&self) -> usize {
        Bth::LEN + self.rdeth as usize * Rdeth::LEN
    }

    /// Offset of the FETH from the BTH, if there is one.
    #[inline]
    pub(super) const fn feth_at(&self) -> usize {
        Bth::LEN + (self.rdeth | self.xrceth) as usize * Xrceth::LEN + self.deth as usize * Deth::LEN
    }

    /// Offset of RETH, AtomicETH or AETH from the BTH, if there is one.
    #[inline]
    pub(super) const fn main_at(&self) -> usize {
        self.feth_at() + self.feth as usize * Feth::LEN
    }
}

const RETH: u16 = 1;
const AETH: u16 = 1 << 1;
const IMM: u16 = 1 << 2;
const IETH: u16 = 1 << 3;
const ATOMIC: u16 = 1 << 4;
const ATOMIC_ACK: u16 = 1 << 5;
const DETH: u16 = 1 << 6;
const XRCETH: u16 = 1 << 7;
const RDETH: u16 = 1 << 8;
const FETH: u16 = 1 << 9;
const CNP16: u16 = 1 << 10;

/// Bytes of each header, in the order of the bits above.
const LENGTHS: [usize; 11] = [
    Reth::LEN,
    super::Aeth::LEN,
    ImmDt::LEN,
    Ieth::LEN,
    AtomicEth::LEN,
    AtomicAckEth::LEN,
    Deth::LEN,
    Xrceth::LEN,
    Rdeth::LEN,
    Feth::LEN,
    super::CNP_RESERVED,
];

const TAKES: u8 = 1;
const COMPLETES: u8 = 2;

const fn row(
    value: u8,
    name: &'static str,
    kind: Kind,
    position: Position,
    headers: u16,
    payload: PayloadRule,
    recv: u8,
) -> OpcodeInfo {
    let mut header_len = Bth::LEN;
    let mut bit = 0;
    while bit < LENGTHS.len() {
        if headers & 1 << bit != 0 {
            header_len += LENGTHS[bit];
        }
        bit += 1;
    }
    OpcodeInfo {
        opcode: Opcode(value),
        name,
        class: Opcode(value).class(),
        kind,
        position,
        reth: headers & RETH != 0,
        aeth: headers & AETH != 0,
        imm: headers & IMM != 0,
        ieth: headers & IETH != 0,
        atomic: headers & ATOMIC != 0,
        atomic_ack: headers & ATOMIC_ACK != 0,
        deth: headers & DETH != 0,
        xrceth: headers & XRCETH != 0,
        rdeth: headers & RDETH != 0,
        feth: headers & FETH != 0,
        header_len: header_len as u8,
        payload,
        takes_recv: recv & TAKES != 0,
        completes_recv: recv & COMPLETES != 0,
    }
}

macro_rules! opcodes {
    ($($value:literal $name:ident: $kind:ident $position:ident [$($header:ident)*] $payload:ident [$($recv:ident)*];)*) => {
        impl Opcode {
            $(
                #[doc = concat!("`", stringify!($name), "`, ", stringify!($value), ".")]
                pub const $name: Opcode = Opcode($value);
            )*
        }

        static TABLE: [Option<OpcodeInfo>; 256] = {
            let mut table = [None; 256];
            $(
                table[$value] = Some(row(
                    $value,
                    stringify!($name),
                    Kind::$kind,
                    Position::$position,
                    0 $(| $header)*,
                    PayloadRule::$payload,
                    0 $(| $recv)*,
                ));
            )*
            table
        };
    };
}

opcodes! {
    0x00 RC_SEND_FIRST: Send First [] ExactMtu [TAKES];
    0x01 RC_SEND_MIDDLE: Send Middle [] ExactMtu [];
    0x02 RC_SEND_LAST: Send Last [] OneToMtu [COMPLETES];
    0x03 RC_SEND_LAST_IMM: Send Last [IMM] OneToMtu [COMPLETES];
    0x04 RC_SEND_ONLY: Send Only [] ZeroToMtu [TAKES COMPLETES];
    0x05 RC_SEND_ONLY_IMM: Send Only [IMM] ZeroToMtu [TAKES COMPLETES];
    0x06 RC_WRITE_FIRST: Write First [RETH] ExactMtu [];
    0x07 RC_WRITE_MIDDLE: Write Middle [] ExactMtu [];
    0x08 RC_WRITE_LAST: Write Last [] OneToMtu [];
    0x09 RC_WRITE_LAST_IMM: Write Last [IMM] OneToMtu [TAKES COMPLETES];
    0x0A RC_WRITE_ONLY: Write Only [RETH] ZeroToMtu [];
    0x0B RC_WRITE_ONLY_IMM: Write Only [RETH IMM] ZeroToMtu [TAKES COMPLETES];
    0x0C RC_READ_REQUEST: ReadRequest Only [RETH] None [];
    0x0D RC_READ_RESP_FIRST: ReadResponse First [AETH] ExactMtu [];
    0x0E RC_READ_RESP_MIDDLE: ReadResponse Middle [] ExactMtu [];
    0x0F RC_READ_RESP_LAST: ReadResponse Last [AETH] OneToMtu [];
    0x10 RC_READ_RESP_ONLY: ReadResponse Only [AETH] ZeroToMtu [];
    0x11 RC_ACKNOWLEDGE: Acknowledge Only [AETH] None [];
    0x12 RC_ATOMIC_ACK: AtomicAcknowledge Only [AETH ATOMIC_ACK] None [];
    0x13 RC_COMPARE_SWAP: CompareSwap Only [ATOMIC] None [];
    0x14 RC_FETCH_ADD: FetchAdd Only [ATOMIC] None [];
    0x16 RC_SEND_LAST_INV: Send Last [IETH] OneToMtu [COMPLETES];
    0x17 RC_SEND_ONLY_INV: Send Only [IETH] ZeroToMtu [TAKES COMPLETES];
    0x1C RC_FLUSH: Flush Only [FETH RETH] None [];
    0x1D RC_ATOMIC_WRITE: AtomicWrite Only [RETH] Exactly8 [];
    0x20 UC_SEND_FIRST: Send First [] ExactMtu [TAKES];
    0x21 UC_SEND_MIDDLE: Send Middle [] ExactMtu [];
    0x22 UC_SEND_LAST: Send Last [] OneToMtu [COMPLETES];
    0x23 UC_SEND_LAST_IMM: Send Last [IMM] OneToMtu [COMPLETES];
    0x24 UC_SEND_ONLY: Send Only [] ZeroToMtu [TAKES COMPLETES];
    0x25 UC_SEND_ONLY_IMM: Send Only [IMM] ZeroToMtu [TAKES COMPLETES];
    0x26 UC_WRITE_FIRST: Write First [RETH] ExactMtu [];
    0x27 UC_WRITE_MIDDLE: Write Middle [] ExactMtu [];
    0x28 UC_WRITE_LAST: Write Last [] OneToMtu [];
    0x29 UC_WRITE_LAST_IMM: Write Last [IMM] OneToMtu [TAKES COMPLETES];
    0x2A UC_WRITE_ONLY: Write Only [RETH] ZeroToMtu [];
    0x2B UC_WRITE_ONLY_IMM: Write Only [RETH IMM] ZeroToMtu [TAKES COMPLETES];
    0x40 RD_SEND_FIRST: Send First [RDETH DETH] ExactMtu [TAKES];
    0x41 RD_SEND_MIDDLE: Send Middle [RDETH DETH] ExactMtu [];
    0x42 RD_SEND_LAST: Send Last [RDETH DETH] OneToMtu [COMPLETES];
    0x43 RD_SEND_LAST_IMM: Send Last [RDETH DETH IMM] OneToMtu [COMPLETES];
    0x44 RD_SEND_ONLY: Send Only [RDETH DETH] ZeroToMtu [TAKES COMPLETES];
    0x45 RD_SEND_ONLY_IMM: Send Only [RDETH DETH IMM] ZeroToMtu [TAKES COMPLETES];
    0x46 RD_WRITE_FIRST: Write First [RDETH DETH RETH] ExactMtu [];
    0x47 RD_WRITE_MIDDLE: Write Middle [RDETH DETH] ExactMtu [];
    0x48 RD_WRITE_LAST: Write Last [RDETH DETH] OneToMtu [];
    0x49 RD_WRITE_LAST_IMM: Write Last [RDETH DETH IMM] OneToMtu [TAKES COMPLETES];
    0x4A RD_WRITE_ONLY: Write Only [RDETH DETH RETH] ZeroToMtu [];
    0x4B RD_WRITE_ONLY_IMM: Write Only [RDETH DETH RETH IMM] ZeroToMtu [TAKES COMPLETES];
    0x4C RD_READ_REQUEST: ReadRequest Only [RDETH DETH RETH] None [];
    0x4D RD_READ_RESP_FIRST: ReadResponse First [RDETH AETH] ExactMtu [];
    0x4E RD_READ_RESP_MIDDLE: ReadResponse Middle [RDETH] ExactMtu [];
    0x4F RD_READ_RESP_LAST: ReadResponse Last [RDETH AETH] OneToMtu [];
    0x50 RD_READ_RESP_ONLY: ReadResponse Only [RDETH AETH] ZeroToMtu [];
    0x51 RD_ACKNOWLEDGE: Acknowledge Only [RDETH AETH] None [];
    0x52 RD_ATOMIC_ACK: AtomicAcknowledge Only [RDETH AETH ATOMIC_ACK] None [];
    0x53 RD_COMPARE_SWAP: CompareSwap Only [RDETH DETH ATOMIC] None [];
    0x54 RD_FETCH_ADD: FetchAdd Only [RDETH DETH ATOMIC] None [];
    0x55 RD_RESYNC: Resync Only [RDETH DETH] None [];
    0x64 UD_SEND_ONLY: Send Only [DETH] ZeroToMtu [TAKES COMPLETES];
    0x65 UD_SEND_ONLY_IMM: Send Only [DETH IMM] ZeroToMtu [TAKES COMPLETES];
    0x81 CNP: Cnp Only [CNP16] None [];
    0xA0 XRC_SEND_FIRST: Send First [XRCETH] ExactMtu [TAKES];
    0xA1 XRC_SEND_MIDDLE: Send Middle [XRCETH] ExactMtu [];
    0xA2 XRC_SEND_LAST: Send Last [XRCETH] OneToMtu [COMPLETES];
    0xA3 XRC_SEND_LAST_IMM: Send Last [XRCETH IMM] OneToMtu [COMPLETES];
    0xA4 XRC_SEND_ONLY: Send Only [XRCETH] ZeroToMtu [TAKES COMPLETES];
    0xA5 XRC_SEND_ONLY_IMM: Send Only [XRCETH IMM] ZeroToMtu [TAKES COMPLETES];
    0xA6 XRC_WRITE_FIRST: Write First [XRCETH RETH] ExactMtu [];
    0xA7 XRC_WRITE_MIDDLE: Write Middle [XRCETH] ExactMtu [];
    0xA8 XRC_WRITE_LAST: Write Last [XRCETH] OneToMtu [];
    0xA9 XRC_WRITE_LAST_IMM: Write Last [XRCETH IMM] OneToMtu [TAKES COMPLETES];
    0xAA XRC_WRITE_ONLY: Write Only [XRCETH RETH] ZeroToMtu [];
    0xAB XRC_WRITE_ONLY_IMM: Write Only [XRCETH RETH IMM] ZeroToMtu [TAKES COMPLETES];
    0xAC XRC_READ_REQUEST: ReadRequest Only [XRCETH RETH] None [];
    0xAD XRC_READ_RESP_FIRST: ReadResponse First [AETH] ExactMtu [];
    0xAE XRC_READ_RESP_MIDDLE: ReadResponse Middle [] ExactMtu [];
    0xAF XRC_READ_RESP_LAST: ReadResponse Last [AETH] OneToMtu [];
    0xB0 XRC_READ_RESP_ONLY: ReadResponse Only [AETH] ZeroToMtu [];
    0xB1 XRC_ACKNOWLEDGE: Acknowledge Only [AETH] None [];
    0xB2 XRC_ATOMIC_ACK: AtomicAcknowledge Only [AETH ATOMIC_ACK] None [];
    0xB3 XRC_COMPARE_SWAP: CompareSwap Only [XRCETH ATOMIC] None [];
    0xB4 XRC_FETCH_ADD: FetchAdd Only [XRCETH ATOMIC] None [];
    0xB6 XRC_SEND_LAST_INV: Send Last [XRCETH IETH] OneToMtu [COMPLETES];
    0xB7 XRC_SEND_ONLY_INV: Send Only [XRCETH IETH] ZeroToMtu [TAKES COMPLETES];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let classes: Vec<_> = (0..8u8).map(|top| Opcode(top << 5).class()).collect();
        use Class::*;
        assert_eq!(classes, [Rc, Uc, Rd, Ud, Cnp, Xrc, Vendor, Vendor]);
        assert_eq!(Opcode::CNP.class(), Cnp);
        assert_eq!(Opcode(0xFF).class(), Vendor);
    }

    #[test]
    fn names() {
        assert_eq!(format!("{} {:?}", Opcode(0x00), Opcode(0x15)), "RC_SEND_FIRST 0x15");
        assert_eq!(format!("{:>6}", Opcode::CNP), "   CNP");
    }

    #[test]
    fn reserved_values_have_no_facts() {
        for value in
            [0x15, 0x18, 0x1B, 0x1E, 0x1F, 0x2C, 0x3F, 0x56, 0x60, 0x66, 0x80, 0x82, 0xB5, 0xC0, 0xFF]
        {
            assert_eq!(Opcode(value).info(), None, "{value:#04x}");
        }
        assert_eq!(TABLE.iter().flatten().filter(|info| info.class != Class::Rd).count(), 63);
        assert_eq!(TABLE.iter().flatten().filter(|info| info.class == Class::Rd).count(), 22);
    }

    #[test]
    fn no_header_is_longer_than_planned() {
        for info in TABLE.iter().flatten().filter(|info| info.class != Class::Rd) {
            let room = super::super::MAX_HEADERS - 14 - 4 - 40 - 8;
            assert!(usize::from(info.header_len) <= room, "{}", info.name);
        }
    }

    #[test]
    fn payload_rules() {
        let allowed = |rule: PayloadRule| [0, 1, 8, 255, 256, 257].map(|len| rule.allows(len, 256));
        assert_eq!(allowed(PayloadRule::None), [true, false, false, false, false, false]);
        assert_eq!(allowed(PayloadRule::Exactly8), [false, false, true, false, false, false]);
        assert_eq!(allowed(PayloadRule::ExactMtu), [false, false, false, false, true, false]);
        assert_eq!(allowed(PayloadRule::OneToMtu), [false, true, true, true, true, false]);
        assert_eq!(allowed(PayloadRule::ZeroToMtu), [true, true, true, true, true, false]);
    }
}
