//! Acknowledge extended transport header, with its credit and RNR timer codes.

use crate::units::{Duration, Msn};
use core::fmt;

/// AETH, 4 bytes: acknowledgement, negative acknowledgement and READ response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// What happened.
    pub syndrome: Syndrome,
    /// Messages that the responder has completed.
    pub msn: Msn,
}

impl Aeth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// From the first four bytes; `None` when there are fewer.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Aeth> {
        let word = u32::from_be_bytes(*bytes.first_chunk()?);
        Some(Aeth { syndrome: Syndrome((word >> 24) as u8), msn: Msn::new(word) })
    }

    /// Writes the first four bytes of `out`; panics when it is shorter.
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8]) {
        let word = u32::from(self.syndrome.0) << 24 | self.msn.get();
        out[..Self::LEN].copy_from_slice(&word.to_be_bytes());
    }
}

/// The first byte of an AETH.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syndrome(pub u8);

/// What a [`Syndrome`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AethKind {
    /// Acknowledged.
    Ack {
        /// Credit code, 0..=31: see [`credits`].
        credits: u8,
    },
    /// Receiver not ready.
    RnrNak {
        /// Timer code, 0..=31: see [`rnr_delay`].
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// No meaning: the packet is ignored.
    Reserved,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// 0: a PSN ahead of the expected one.
    PsnSequence,
    /// 1: unsupported or out of order opcode, wrong length, too many READs.
    InvalidRequest,
    /// 2: the memory key, range or permission does not fit.
    RemoteAccess,
    /// 3: the responder could not carry it out.
    RemoteOperational,
    /// 4: reliable datagrams only.
    InvalidRd,
    /// 5..=31: reserved.
    Reserved(u8),
}

impl NakCode {
    /// The five low bits of the syndrome.
    pub const fn code(self) -> u8 {
        match self {
            NakCode::PsnSequence => 0,
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccess => 2,
            NakCode::RemoteOperational => 3,
            NakCode::InvalidRd => 4,
            NakCode::Reserved(code) => code & 0x1F,
        }
    }
}

impl Syndrome {
    /// ACK without credits: "unlimited".
    pub const ACK_UNLIMITED: Syndrome = Syndrome(0x1F);
    /// NAK: PSN sequence error.
    pub const NAK_PSN_SEQUENCE: Syndrome = Syndrome(0x60);
    /// NAK: invalid request.
    pub const NAK_INVALID_REQUEST: Syndrome = Syndrome(0x61);
    /// NAK: remote access error.
    pub const NAK_REMOTE_ACCESS: Syndrome = Syndrome(0x62);
    /// NAK: remote operational error.
    pub const NAK_REMOTE_OPERATIONAL: Syndrome = Syndrome(0x63);

    /// An ACK with a credit code, of which the low five bits count: see [`credit_code`].
    pub const fn ack(credit_code: u8) -> Syndrome {
        Syndrome(credit_code & 0x1F)
    }

    /// An RNR NAK with a timer code, of which the low five bits count: see [`rnr_delay`].
    pub const fn rnr(timer: u8) -> Syndrome {
        Syndrome(0x20 | timer & 0x1F)
    }

    /// A NAK.
    pub const fn nak(code: NakCode) -> Syndrome {
        Syndrome(0x60 | code.code())
    }

    /// What it says.
    #[inline]
    pub const fn kind(self) -> AethKind {
        let low = self.0 & 0x1F;
        match self.0 >> 5 {
            0 => AethKind::Ack { credits: low },
            1 => AethKind::RnrNak { timer: low },
            3 => AethKind::Nak(match low {
                0 => NakCode::PsnSequence,
                1 => NakCode::InvalidRequest,
                2 => NakCode::RemoteAccess,
                3 => NakCode::RemoteOperational,
                4 => NakCode::InvalidRd,
                _ => NakCode::Reserved(low),
            }),
            _ => AethKind::Reserved,
        }
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Syndrome({:#04x} {:?})", self.0, self.kind())
    }
}

/// The wait that an RNR timer code asks for; the low five bits of `code` count.
///
/// Code 0 is the longest, not the shortest.
pub const fn rnr_delay(code: u8) -> Duration {
    /// In units of 10 us.
    const TABLE: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_nanos(TABLE[(code & 0x1F) as usize] as u64 * 10_000)
}

/// In credits, by code 0..=30.
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

/// The credits of a credit code, 0..=32768; `None` for 31 (credits not in use) and above.
pub const fn credits(code: u8) -> Option<u16> {
    if (code as usize) < CREDITS.len() { Some(CREDITS[code as usize]) } else { None }
}

/// The credit code, 0..=30, of the most credits that are not more than `credits`.
pub fn credit_code(credits: u32) -> u8 {
    CREDITS.partition_point(|&c| u32::from(c) <= credits) as u8 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [0x34, 0xAB, 0xCD, 0xEF];
        let aeth = Aeth::parse(&bytes).unwrap();
        assert_eq!(aeth, Aeth { syndrome: Syndrome::rnr(20), msn: Msn::new(0xABCDEF) });
        let mut out = [0; 4];
        aeth.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Aeth::parse(&bytes[..3]), None);
    }

    #[test]
    fn every_syndrome() {
        for value in 0..=u8::MAX {
            let syndrome = Syndrome(value);
            let want = match value {
                0x00..=0x1F => AethKind::Ack { credits: value },
                0x20..=0x3F => AethKind::RnrNak { timer: value - 0x20 },
                0x60 => AethKind::Nak(NakCode::PsnSequence),
                0x61 => AethKind::Nak(NakCode::InvalidRequest),
                0x62 => AethKind::Nak(NakCode::RemoteAccess),
                0x63 => AethKind::Nak(NakCode::RemoteOperational),
                0x64 => AethKind::Nak(NakCode::InvalidRd),
                0x65..=0x7F => AethKind::Nak(NakCode::Reserved(value - 0x60)),
                _ => AethKind::Reserved,
            };
            assert_eq!(syndrome.kind(), want, "{value:#04x}");
            match syndrome.kind() {
                AethKind::Ack { credits } => assert_eq!(Syndrome::ack(credits), syndrome),
                AethKind::RnrNak { timer } => assert_eq!(Syndrome::rnr(timer), syndrome),
                AethKind::Nak(code) => assert_eq!(Syndrome::nak(code), syndrome),
                AethKind::Reserved => {}
            }
        }
    }

    #[test]
    fn all_rnr_delays() {
        let want_us = [
            655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
            5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760,
            327_680, 491_520,
        ];
        for (code, us) in want_us.into_iter().enumerate() {
            assert_eq!(rnr_delay(code as u8), Duration::from_micros(us), "code {code}");
        }
        assert!((1..32).all(|code| rnr_delay(code) < rnr_delay(0)));
        assert_eq!(rnr_delay(0x34), rnr_delay(0x14));
    }

    #[test]
    fn credit_codes_round_down() {
        for code in 0..31 {
            assert_eq!(credit_code(u32::from(credits(code).unwrap())), code);
        }
        assert_eq!((credits(31), credits(255)), (None, None));
        for (n, code) in [(5, 4), (7, 5), (11, 6), (1023, 19), (32_767, 29), (32_769, 30), (u32::MAX, 30)] {
            assert_eq!(credit_code(n), code, "{n} credits");
        }
    }
}
