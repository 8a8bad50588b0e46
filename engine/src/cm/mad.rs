//! The management datagram: its header, and fields within its data.

/// Bytes of a MAD.
pub const MAD_LEN: usize = 256;
/// Bytes of its header.
const HEADER: usize = 24;
/// Bytes of its data: a message.
pub(super) const DATA: usize = MAD_LEN - HEADER;

const BASE_VERSION: u8 = 1;
/// Communication management.
const CLASS_CM: u8 = 7;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// What kind of message a MAD carries.  The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Attribute {
    /// Request for a connection.
    Req = 0x10,
    /// A message was received, its answer takes time.
    Mra = 0x11,
    /// Refusal.
    Rej = 0x12,
    /// Reply to a request.
    Rep = 0x13,
    /// Ready to use.
    Rtu = 0x14,
    /// Request to disconnect.
    Dreq = 0x15,
    /// Reply to that.
    Drep = 0x16,
    /// Request for the queue pair of a datagram service.
    SidrReq = 0x17,
    /// Reply to that.
    SidrRep = 0x18,
}

impl Attribute {
    const ALL: [Attribute; 9] = [
        Attribute::Req,
        Attribute::Mra,
        Attribute::Rej,
        Attribute::Rep,
        Attribute::Rtu,
        Attribute::Dreq,
        Attribute::Drep,
        Attribute::SidrReq,
        Attribute::SidrRep,
    ];

    fn from_wire(value: u16) -> Option<Attribute> {
        Attribute::ALL.into_iter().find(|a| *a as u16 == value)
    }
}

/// Why a datagram to QP 1 is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MadError {
    /// Not 256 bytes.
    #[error("a management datagram has 256 bytes, not {0}")]
    Length(usize),
    /// Another version of the header or of the class.
    #[error("unknown version {base}, class version {class}")]
    Version {
        /// Of the header.
        base: u8,
        /// Of the class.
        class: u8,
    },
    /// Another class than communication management, or another method than sending.
    #[error("management class {class:#04x}, method {method:#04x} is not served")]
    Class {
        /// The class.
        class: u8,
        /// The method.
        method: u8,
    },
    /// An attribute that is not a message of [`Attribute`].
    #[error("unknown attribute {0:#06x}")]
    Attribute(u16),
    /// A field holds a value that does not exist.
    #[error("field {field} of the {attribute:?} holds {value}, which does not exist")]
    Field {
        /// The message.
        attribute: Attribute,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
}

/// A management datagram of the class communication management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mad {
    /// The transaction: an answer has that of what it answers.
    pub tid: u64,
    /// What it carries.
    pub attribute: Attribute,
    /// The message.
    pub(super) data: Data,
}

impl Mad {
    /// From the payload of a datagram to QP 1.
    ///
    /// # Errors
    /// [`MadError`]; nobody answers such a datagram.
    pub fn parse(bytes: &[u8]) -> Result<Mad, MadError> {
        let bytes: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| MadError::Length(bytes.len()))?;
        let header = Data::of(bytes);
        let (base, class, version, method) = (bytes[0], bytes[1], bytes[2], bytes[3]);
        if base != BASE_VERSION {
            return Err(MadError::Version { base, class: version });
        }
        if class != CLASS_CM || method != METHOD_SEND {
            return Err(MadError::Class { class, method });
        }
        if version != CLASS_VERSION {
            return Err(MadError::Version { base, class: version });
        }
        let attribute = header.u16(16);
        let attribute = Attribute::from_wire(attribute).ok_or(MadError::Attribute(attribute))?;
        Ok(Mad { tid: header.u64(8), attribute, data: Data::of(&bytes[HEADER..]) })
    }

    /// The payload of the datagram.
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let mut out = [0; MAD_LEN];
        out[..4].copy_from_slice(&[BASE_VERSION, CLASS_CM, CLASS_VERSION, METHOD_SEND]);
        out[8..16].copy_from_slice(&self.tid.to_be_bytes());
        out[16..18].copy_from_slice(&(self.attribute as u16).to_be_bytes());
        out[HEADER..].copy_from_slice(&self.data.0);
        out
    }
}

/// The data of a MAD, with its fields at their offsets: big endian, in whole bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Data(pub(super) [u8; DATA]);

impl core::fmt::Debug for Data {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("[..]")
    }
}

impl Data {
    pub(super) const ZERO: Data = Data([0; DATA]);

    /// Of the first bytes of `bytes`, at least [`DATA`] of them.
    fn of(bytes: &[u8]) -> Data {
        let mut data = Data::ZERO;
        data.0.copy_from_slice(&bytes[..DATA]);
        data
    }

    pub(super) fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[at..at + N]);
        field
    }

    pub(super) fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }

    pub(super) fn u24(&self, at: usize) -> u32 {
        let [a, b, c] = self.bytes(at);
        u32::from_be_bytes([0, a, b, c])
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn put24(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_be_bytes()[1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let good = Mad { tid: 7, attribute: Attribute::Rtu, data: Data::ZERO };
        let bytes = good.emit();
        assert_eq!(Mad::parse(&bytes), Ok(good));
        let with = |at: usize, value: u8| {
            let mut bytes = bytes;
            bytes[at] = value;
            Mad::parse(&bytes).unwrap_err()
        };
        assert_eq!(Mad::parse(&bytes[..255]), Err(MadError::Length(255)));
        assert_eq!(with(0, 2), MadError::Version { base: 2, class: 2 });
        assert_eq!(with(1, 4), MadError::Class { class: 4, method: 3 });
        assert_eq!(with(2, 1), MadError::Version { base: 1, class: 1 });
        assert_eq!(with(3, 1), MadError::Class { class: 7, method: 1 });
        assert_eq!(with(17, 0x19), MadError::Attribute(0x19));
    }
}
