//! The Internet checksum (RFC 1071).

/// The ones' complement sum of `bytes` as big-endian 16-bit words, an odd last byte padded with
/// zero, not folded and not complemented.  At most 2^48 bytes.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    // A 32-bit word adds the same as its two halves, modulo 2^16 - 1.
    let mut total: u64 = words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(last));
    total
}

/// The sum reduced to 16 bits.
#[inline]
pub(crate) fn fold(mut total: u64) -> u16 {
    total = (total & 0xFFFF_FFFF) + (total >> 32);
    total = (total & 0xFFFF) + ((total >> 16) & 0xFFFF) + (total >> 32);
    total = (total & 0xFFFF) + (total >> 16);
    total = (total & 0xFFFF) + (total >> 16);
    total as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_the_book(bytes: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u32::from(b));
            total = (total & 0xFFFF) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn equals_the_definition() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * i * 31 + 255) as u8).collect();
        for end in 0..bytes.len() {
            assert_eq!(fold(sum(&bytes[..end])), by_the_book(&bytes[..end]), "{end} bytes");
        }
        assert_eq!(fold(sum(&[0xFF; 1 << 17])), 0xFFFF);
        assert_eq!(fold(u64::MAX), 0xFFFF);
    }

    #[test]
    fn rfc1071_example() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7])), 0xDDF2);
    }
}
