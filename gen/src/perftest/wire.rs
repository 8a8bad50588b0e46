//! What perftest's two sides tell each other, byte for byte: over TCP, and with `-R` in SENDs.

use roce_engine::units::{Mtu, Psn, Qpn};
use roce_engine::wire::Gid;
use std::fmt::Write;

/// The version that this side announces: late enough for all peers, and before the one from which
/// on parameters are negotiated in a form that depends on how the peer was built.
pub const VERSION: &str = "6.06";
/// Bytes of a version.
pub const VERSION_LEN: usize = 16;
/// Bytes of a number: page size, cache line.
pub const NUMBER_LEN: usize = 4;
/// Bytes of an MTU.
pub const MTU_LEN: usize = 2;
/// Bytes of a key in text.
pub const KEY_LEN: usize = 108;
/// Bytes of a key in binary, as SENDs carry it.
pub const BINARY_KEY_LEN: usize = 56;
/// Bytes of a result: one of five.
pub const RESULT_LEN: usize = 8;
/// The last word, which nobody reads.
pub const DONE: &[u8; 5] = b"done\0";

/// The oldest version that this side understands.
const OLDEST: f64 = 5.7;

/// One side of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// READs and atomics that it answers at once.
    pub out_reads: u32,
    /// Its queue pair.
    pub qpn: Qpn,
    /// The PSN of its first request.
    pub psn: Psn,
    /// The key of its memory.
    pub rkey: u32,
    /// The address of its memory.
    pub vaddr: u64,
    /// Its GID.
    pub gid: Gid,
}

/// What was received is not what perftest says there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not a version, or one that is too old.
    #[error("the peer has perftest version {0:?}; {OLDEST:.2} or later is needed")]
    Version(String),
    /// Not the code of an MTU.
    #[error("the peer's MTU code is {0:?}, not 1 to 5")]
    Mtu(String),
    /// Not a key.
    #[error("the peer's connection data is not understood: {0:?}")]
    Key(String),
}

/// The bytes that announce this side's version.
pub fn version() -> [u8; VERSION_LEN] {
    let mut out = [0; VERSION_LEN];
    out[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
    out
}

/// The peer's version.
///
/// # Errors
/// [`WireError::Version`].
pub fn parse_version(bytes: &[u8]) -> Result<f64, WireError> {
    let text = text(bytes);
    text.parse().ok().filter(|v| *v >= OLDEST).ok_or(WireError::Version(text))
}

/// The bytes of an MTU.
pub fn mtu(mtu: Mtu) -> [u8; MTU_LEN] {
    [b'0' + mtu.code(), 0]
}

/// The peer's MTU.
///
/// # Errors
/// [`WireError::Mtu`].
pub fn parse_mtu(bytes: &[u8]) -> Result<Mtu, WireError> {
    let text = text(bytes);
    let code: Option<u8> = text.parse().ok();
    Mtu::ALL.into_iter().find(|m| Some(m.code()) == code).ok_or(WireError::Mtu(text))
}

impl Key {
    /// As TCP carries it.
    pub fn to_text(&self) -> [u8; KEY_LEN] {
        let mut text = format!(
            "{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:",
            0,
            self.out_reads,
            self.qpn.get(),
            self.psn.get(),
            self.rkey,
            self.vaddr
        );
        for byte in self.gid.bytes() {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}:");
        }
        let _ = write!(text, "{:08x}:", 0);
        let mut out = [0; KEY_LEN];
        out[..text.len()].copy_from_slice(text.as_bytes());
        out
    }

    /// From what TCP carried.
    ///
    /// # Errors
    /// [`WireError::Key`].
    pub fn from_text(bytes: &[u8]) -> Result<Key, WireError> {
        let text = text(bytes);
        Key::fields(&text).ok_or(WireError::Key(text))
    }

    fn fields(text: &str) -> Option<Key> {
        let mut parts = text.strip_suffix(':')?.split(':');
        let mut next = || u64::from_str_radix(parts.next()?, 16).ok();
        let _lid = next()?;
        let (out_reads, qpn, psn, rkey, vaddr) = (next()?, next()?, next()?, next()?, next()?);
        let mut gid = [0; 16];
        for byte in &mut gid {
            *byte = next()?.try_into().ok()?;
        }
        Some(Key {
            out_reads: out_reads.try_into().ok()?,
            qpn: Qpn::new(qpn.try_into().ok()?),
            psn: Psn::new(psn.try_into().ok()?),
            rkey: rkey.try_into().ok()?,
            vaddr,
            gid: Gid::new(gid),
        })
    }

    /// As SENDs carry it.
    pub fn to_binary(&self) -> [u8; BINARY_KEY_LEN] {
        let mut out = [0; BINARY_KEY_LEN];
        let words = [0, self.out_reads, self.qpn.get(), self.psn.get(), self.rkey];
        for (at, word) in words.into_iter().enumerate() {
            out[4 * at..4 * at + 4].copy_from_slice(&word.to_be_bytes());
        }
        out[24..32].copy_from_slice(&self.vaddr.to_be_bytes());
        out[32..48].copy_from_slice(&self.gid.bytes());
        out
    }

    /// From what a SEND carried.
    pub fn from_binary(bytes: &[u8; BINARY_KEY_LEN]) -> Key {
        let word = |at: usize| u32::from_be_bytes(field(bytes, at));
        Key {
            out_reads: word(4),
            qpn: Qpn::new(word(8)),
            psn: Psn::new(word(12)),
            rkey: word(16),
            vaddr: u64::from_be_bytes(field(bytes, 24)),
            gid: Gid::new(field(bytes, 32)),
        }
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            out_reads: 1,
            qpn: Qpn::new(0x11),
            psn: Psn::new(0xAB_CDEF),
            rkey: 0x1234,
            vaddr: 0x7F00_0000_1000,
            gid: Gid::from([10, 0, 0, 1]),
        }
    }

    #[test]
    fn keys_as_perftest_writes_them() {
        let want = "0000:0001:000011:abcdef:00001234:00007f0000001000:\
                    00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01:00000000:\0";
        assert_eq!(key().to_text(), want.as_bytes());
        assert_eq!(Key::from_text(want.as_bytes()), Ok(key()));
        let cut = &want.as_bytes()[..58];
        assert!(matches!(Key::from_text(cut), Err(WireError::Key(_))), "without a GID");
        assert!(Key::from_text(want.replace("abcdef", "xbcdef").as_bytes()).is_err());
        assert!(Key::from_text(&[0xFF; KEY_LEN]).is_err());
    }

    #[test]
    fn keys_in_binary() {
        let bytes = key().to_binary();
        assert_eq!(bytes[8..20], [0, 0, 0, 0x11, 0, 0xAB, 0xCD, 0xEF, 0, 0, 0x12, 0x34]);
        assert_eq!(bytes[24..32], 0x7F00_0000_1000u64.to_be_bytes());
        assert_eq!(Key::from_binary(&bytes), key());
    }

    #[test]
    fn versions_and_mtus() {
        assert_eq!(parse_version(&version()), Ok(6.06));
        assert_eq!(parse_version(b"5.60\0"), Err(WireError::Version("5.60".into())));
        // What a stranger says ends up on a terminal.
        let said = parse_version(b"\x1b[2J\n5.60\0").unwrap_err().to_string();
        assert!(!said.contains(char::is_control), "{said:?}");
        assert!(parse_version(b"\0\0").is_err());
        for m in Mtu::ALL {
            assert_eq!(parse_mtu(&mtu(m)), Ok(m));
        }
        assert_eq!(parse_mtu(b"6\0"), Err(WireError::Mtu("6".into())));
    }
}
