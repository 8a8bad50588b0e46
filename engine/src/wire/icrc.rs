//! The invariant CRC: the last four bytes of every packet.
//!
//! CRC-32 of Ethernet (reflected polynomial 0xEDB88320) over eight bytes of ones, which stand for
//! the absent LRH, and the packet from the first byte of the IP header or GRH to the last pad
//! byte, with the fields that change on the way set to ones:
//!
//! | header | ones |
//! |---|---|
//! | IPv4 | TOS, TTL, header checksum |
//! | IPv6, GRH | traffic class, flow label, hop limit |
//! | UDP | checksum |
//! | BTH | byte 4: FECN, BECN and six reserved bits |
//!
//! The result is stored with its least significant byte first.

use super::{Bth, CrcShift, Ipv4, Ipv6, Udp};
use crc32fast::Hasher;

/// The running CRC after the eight bytes of ones.
const SEED: u32 = 0x2144_DF1C;
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// What precedes the BTH, which decides the fields that count as ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// RoCEv2: IPv4 and UDP, 28 bytes.
    Ipv4,
    /// RoCEv2: IPv6 and UDP, 48 bytes.
    Ipv6,
    /// RoCEv1: GRH, 40 bytes.
    Grh,
}

impl Encapsulation {
    /// Bytes before the BTH.
    pub const fn headers_len(self) -> usize {
        match self {
            Encapsulation::Ipv4 => IPV4_LEN,
            Encapsulation::Ipv6 => IPV6_LEN,
            Encapsulation::Grh => Ipv6::LEN,
        }
    }
}

const IPV4_LEN: usize = Ipv4::LEN + Udp::LEN;
const IPV6_LEN: usize = Ipv6::LEN + Udp::LEN;

/// The four iCRC bytes of `covered`: everything from the IP header or GRH to the last pad byte.
///
/// `None` when `covered` ends before the BTH does.
#[inline]
pub fn compute(encapsulation: Encapsulation, covered: &[u8]) -> Option<[u8; 4]> {
    begin(encapsulation, covered).map(RunningIcrc::finish)
}

/// The iCRC so far: of `covered`, the first bytes from the IP header or GRH on.
///
/// `None` when `covered` ends before the BTH does.
#[inline]
pub fn begin(encapsulation: Encapsulation, covered: &[u8]) -> Option<RunningIcrc> {
    match encapsulation {
        Encapsulation::Ipv4 => {
            let h = covered.first_chunk()?;
            Some(in_place(running_ipv4(h), covered).unwrap_or_else(|| by_copy(h, &ONES_IPV4, covered)))
        }
        Encapsulation::Ipv6 => {
            let h = covered.first_chunk()?;
            Some(in_place(running_ipv6(h), covered).unwrap_or_else(|| by_copy(h, &ONES_IPV6, covered)))
        }
        Encapsulation::Grh => {
            let h = covered.first_chunk::<{ Ipv6::LEN + Bth::LEN }>()?;
            Some(by_copy(h, &ONES_GRH, covered))
        }
    }
}

/// The running CRC of what comes first: the same for all packets of a flow and length.
///
/// It ends some bytes before the BTH, so that what is summed for each packet is a multiple of 16 bytes,
/// which takes the fewest steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcrcPrefix {
    /// Made up for a UDP checksum and a byte 4 of the BTH that lie behind it and are 0.
    crc: u32,
    lead: u8,
}

impl IcrcPrefix {
    /// Bytes before the BTH that are best summed with it and the `len` bytes behind it, a multiple of 4.
    #[inline]
    pub const fn lead_of(len: usize) -> usize {
        4usize.wrapping_sub(len) & 12
    }

    /// Of the `headers` from the IP header or GRH to the byte before the BTH, but for the last `lead` of
    /// them, at most 12 and a multiple of 4.
    ///
    /// `None` when there are fewer than [`Encapsulation::headers_len`].
    pub fn new(encapsulation: Encapsulation, headers: &[u8], lead: usize) -> Option<IcrcPrefix> {
        debug_assert!(lead <= 12 && lead.is_multiple_of(4));
        let with_ones = match encapsulation {
            Encapsulation::Ipv4 => &ones::<IPV4_LEN>(headers.first_chunk()?, &ONES_IPV4)[..],
            Encapsulation::Ipv6 => &ones::<IPV6_LEN>(headers.first_chunk()?, &ONES_IPV6)[..],
            Encapsulation::Grh => &ones::<{ Ipv6::LEN }>(headers.first_chunk()?, &ONES_GRH)[..],
        };
        let mut crc = update(SEED, &with_ones[..with_ones.len() - lead]) ^ flip(lead + 4, 0xFF);
        if lead != 0 && encapsulation != Encapsulation::Grh {
            crc ^= flip(lead - 2, 0xFF) ^ flip(lead - 1, 0xFF);
        }
        Some(IcrcPrefix { crc, lead: lead as u8 })
    }

    /// The four iCRC bytes of a packet of which `body` is what the prefix leaves, to the last pad byte;
    /// panics when it ends before the BTH does.
    #[inline]
    pub fn finish(self, body: &[u8]) -> [u8; 4] {
        self.begin(body).finish()
    }

    /// Begins with `head`, which starts where the prefix ends and has a UDP checksum of 0; panics when it
    /// ends before the BTH does.
    #[inline(always)]
    pub fn begin(self, head: &[u8]) -> RunningIcrc {
        let at = usize::from(self.lead) + 4;
        let crc = if head[at] == 0 { self.crc } else { self.with_bth_byte(at, head[at]) };
        RunningIcrc(update(crc, head))
    }

    /// Made up for in the running CRC: a store into the BTH would stall the wide loads that follow.
    #[cold]
    fn with_bth_byte(self, at: usize, byte_4: u8) -> u32 {
        self.crc ^ flip(at, byte_4)
    }

    /// Writes the iCRC into the last four bytes of `body`, which runs from where the prefix ends to the end
    /// of the iCRC; panics when there is no room for both.
    #[inline]
    pub fn seal(self, body: &mut [u8]) {
        let (covered, icrc) = body.split_last_chunk_mut::<4>().expect("a packet has room for its iCRC");
        *icrc = self.finish(covered);
    }
}

/// An iCRC that is being computed piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningIcrc(u32);

impl RunningIcrc {
    /// Goes on with `bytes`.
    #[inline]
    #[must_use]
    pub fn then(self, bytes: &[u8]) -> RunningIcrc {
        if bytes.is_empty() { self } else { RunningIcrc(update(self.0, bytes)) }
    }

    /// Goes on with bytes that are not looked at: their CRC is `crc`, and `shift` is for their number.
    #[inline(always)]
    #[must_use]
    pub fn then_known(self, crc: u32, shift: &CrcShift) -> RunningIcrc {
        RunningIcrc(shift.apply(self.0) ^ crc)
    }

    /// The four bytes, after the last pad byte.
    #[inline]
    pub fn finish(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

/// Sums a copy of the headers that has its ones, then the rest.
fn by_copy<const N: usize>(h: &[u8; N], mask: &[u8; MASK_LEN], covered: &[u8]) -> RunningIcrc {
    RunningIcrc(update(update(SEED, &ones(h, mask)), &covered[N..]))
}

/// Sums everything as it is, from a running CRC that makes up for the ones.
#[inline(always)]
fn in_place(running: Option<u32>, covered: &[u8]) -> Option<RunningIcrc> {
    running.map(|running| RunningIcrc(update(running, covered)))
}

/// What to start from so that the plain headers sum like those with ones.  `None` in the rare case
/// that the UDP checksum or byte 4 of the BTH is not zero.
///
/// A CRC is linear: flipping bits of a byte does to the result what flipping certain bits of the
/// running value does.  Those bits are found by winding the register back over the bytes before.
#[inline(always)]
fn running_ipv4(h: &[u8; IPV4_LEN + Bth::LEN]) -> Option<u32> {
    const ZEROS: u32 = SEED ^ flip(26, 0xFF) ^ flip(27, 0xFF) ^ flip(IPV4_LEN + 4, 0xFF);
    const TTL: FlipTable = flip_table(8);
    const CHECKSUM: [FlipTable; 2] = [flip_table(10), flip_table(11)];
    if h[26] | h[27] | h[IPV4_LEN + 4] != 0 {
        return None;
    }
    let tos = u32::from(!h[1]) << 8;
    Some(ZEROS ^ tos ^ lookup(&TTL, !h[8]) ^ lookup(&CHECKSUM[0], !h[10]) ^ lookup(&CHECKSUM[1], !h[11]))
}

#[inline(always)]
fn running_ipv6(h: &[u8; IPV6_LEN + Bth::LEN]) -> Option<u32> {
    const ZEROS: u32 = SEED ^ flip(46, 0xFF) ^ flip(47, 0xFF) ^ flip(IPV6_LEN + 4, 0xFF);
    const HOP_LIMIT: FlipTable = flip_table(7);
    if h[46] | h[47] | h[IPV6_LEN + 4] != 0 {
        return None;
    }
    let class_and_label = !u32::from_le_bytes([h[0], h[1], h[2], h[3]]) & 0xFFFF_FF0F;
    Some(ZEROS ^ class_and_label ^ lookup(&HOP_LIMIT, !h[7]))
}

/// What to add to a running CRC so that these bits of the byte at `offset` count as flipped.
const fn flip(offset: usize, bits: u8) -> u32 {
    let mut register = bits as u32;
    let mut step = 0;
    while step < 8 * offset {
        register = if register >> 31 != 0 { (register ^ POLYNOMIAL) << 1 | 1 } else { register << 1 };
        step += 1;
    }
    register
}

/// [`flip`] of one offset, by low and high half of the bits.
type FlipTable = [[u32; 16]; 2];

const fn flip_table(offset: usize) -> FlipTable {
    let mut table = [[0; 16]; 2];
    let mut bits = 0;
    while bits < 16 {
        table[0][bits as usize] = flip(offset, bits);
        table[1][bits as usize] = flip(offset, bits << 4);
        bits += 1;
    }
    table
}

#[inline(always)]
fn lookup(table: &'static FlipTable, bits: u8) -> u32 {
    table[0][usize::from(bits & 0xF)] ^ table[1][usize::from(bits >> 4)]
}

/// The running CRC after `bytes`.
#[inline(always)]
fn update(running: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(running);
    hasher.update(bytes);
    hasher.finalize()
}

/// `head` with the bits of `mask` set: whole registers at a time, not byte by byte.
#[inline(always)]
fn ones<const N: usize>(head: &[u8; N], mask: &[u8; MASK_LEN]) -> [u8; N] {
    core::array::from_fn(|i| head[i] | mask[i])
}

const MASK_LEN: usize = IPV6_LEN + Bth::LEN;

const ONES_IPV4: [u8; MASK_LEN] =
    mask(&[(1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF), (26, 0xFF), (27, 0xFF), (IPV4_LEN + 4, 0xFF)]);
const ONES_IPV6: [u8; MASK_LEN] = mask(&[
    (0, 0x0F),
    (1, 0xFF),
    (2, 0xFF),
    (3, 0xFF),
    (7, 0xFF),
    (46, 0xFF),
    (47, 0xFF),
    (IPV6_LEN + 4, 0xFF),
]);
const ONES_GRH: [u8; MASK_LEN] =
    mask(&[(0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF), (Ipv6::LEN + 4, 0xFF)]);

const fn mask(ones: &[(usize, u8)]) -> [u8; MASK_LEN] {
    let mut mask = [0; MASK_LEN];
    let mut i = 0;
    while i < ones.len() {
        mask[ones[i].0] = ones[i].1;
        i += 1;
    }
    mask
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Bit by bit, straight from the definition.
    fn reference(encapsulation: Encapsulation, covered: &[u8]) -> [u8; 4] {
        let mut bytes = covered.to_vec();
        let bth = match encapsulation {
            Encapsulation::Ipv4 => {
                for at in [1, 8, 10, 11, 26, 27] {
                    bytes[at] = 0xFF;
                }
                28
            }
            Encapsulation::Ipv6 => {
                bytes[0] |= 0x0F;
                for at in [1, 2, 3, 7, 46, 47] {
                    bytes[at] = 0xFF;
                }
                48
            }
            Encapsulation::Grh => {
                bytes[0] |= 0x0F;
                for at in [1, 2, 3, 7] {
                    bytes[at] = 0xFF;
                }
                40
            }
        };
        bytes[bth + 4] = 0xFF;
        let mut register = u32::MAX;
        for byte in [0xFF; 8].into_iter().chain(bytes) {
            register ^= u32::from(byte);
            for _ in 0..8 {
                register = register >> 1 ^ if register & 1 != 0 { 0xEDB8_8320 } else { 0 };
            }
        }
        (!register).to_le_bytes()
    }

    const ALL: [Encapsulation; 3] = [Encapsulation::Ipv4, Encapsulation::Ipv6, Encapsulation::Grh];

    /// Bytes without a pattern, always the same.
    pub(in super::super) fn noise(len: usize) -> Vec<u8> {
        let mut x = 1u32;
        (0..len)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 24) as u8
            })
            .collect()
    }

    #[test]
    fn seed_is_the_crc_of_eight_bytes_of_ones() {
        assert_eq!(update(0, &[0xFF; 8]), SEED);
    }

    #[test]
    fn equals_the_definition() {
        for encapsulation in ALL {
            for len in (encapsulation.headers_len() + Bth::LEN..300).chain([4152, 4200]) {
                let bytes = noise(len);
                let want = reference(encapsulation, &bytes);
                assert_eq!(compute(encapsulation, &bytes), Some(want), "{encapsulation:?} {len}");
                for lead in [0, 4, 8, 12] {
                    let bth_at = encapsulation.headers_len();
                    let prefix = IcrcPrefix::new(encapsulation, &bytes[..bth_at], lead).unwrap();
                    let mut body = bytes[bth_at - lead..].to_vec();
                    if lead != 0 && encapsulation != Encapsulation::Grh {
                        body[lead - 2..lead].fill(0);
                    }
                    assert_eq!(prefix.finish(&body), want, "{encapsulation:?} {len} {lead}");
                }
            }
        }
    }

    #[test]
    fn headers_as_senders_leave_them() {
        for encapsulation in ALL {
            for seed in 0..200 {
                let mut bytes = noise(100 + seed);
                let bth = encapsulation.headers_len();
                bytes.rotate_left(seed);
                bytes[bth + 4] = 0;
                bytes[bth - 2..bth].fill(0);
                assert_eq!(
                    compute(encapsulation, &bytes),
                    Some(reference(encapsulation, &bytes)),
                    "{encapsulation:?} {seed}"
                );
            }
        }
    }

    #[test]
    fn too_short_has_none() {
        for encapsulation in ALL {
            let bytes = noise(encapsulation.headers_len() + Bth::LEN - 1);
            assert_eq!(compute(encapsulation, &bytes), None);
            assert_eq!(IcrcPrefix::new(encapsulation, &bytes[..encapsulation.headers_len() - 1], 0), None);
        }
    }

    #[test]
    fn every_value_of_the_masked_bth_byte() {
        let mut bytes = noise(64);
        let want = compute(Encapsulation::Ipv4, &bytes).unwrap();
        let prefix = IcrcPrefix::new(Encapsulation::Ipv4, &bytes, 0).unwrap();
        for value in 0..=u8::MAX {
            bytes[32] = value;
            assert_eq!(prefix.finish(&bytes[28..]), want, "{value:#04x}");
        }
    }

    #[test]
    fn seal_appends() {
        let mut bytes = noise(68);
        let prefix = IcrcPrefix::new(Encapsulation::Ipv4, &bytes, 0).unwrap();
        prefix.seal(&mut bytes[28..]);
        assert_eq!(bytes[..64], noise(64));
        assert_eq!(bytes[64..], reference(Encapsulation::Ipv4, &noise(64)));
    }
}
