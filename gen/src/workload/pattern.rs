//! The payload pattern: every 8 bytes tell which message and which place they belong to.

const MESSAGE: u64 = 0x9E37_79B9_7F4A_7C15;
const PLACE: u64 = 0xD134_2543_DE82_EF95;

/// Where the bytes of a message first differ from what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset in the message.
    pub offset: usize,
}

/// The first word of message `number` of the stream `seed`.
#[inline]
fn first_word(seed: u64, number: u64) -> u64 {
    seed.wrapping_add(number.wrapping_mul(MESSAGE))
}

/// Writes message `number` of the stream `seed`.
#[inline]
pub fn fill(bytes: &mut [u8], seed: u64, number: u64) {
    let mut word = first_word(seed, number);
    let mut words = bytes.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(PLACE);
    }
    let tail = words.into_remainder();
    let len = tail.len();
    tail.copy_from_slice(&word.to_le_bytes()[..len]);
}

/// Compares with message `number` of the stream `seed`.
#[inline]
pub fn check(bytes: &[u8], seed: u64, number: u64) -> Result<(), Mismatch> {
    const BLOCK: usize = 64;
    let mut word = first_word(seed, number);
    let mut blocks = bytes.chunks_exact(BLOCK);
    let mut at = 0;
    for block in &mut blocks {
        // Compared as a block, so that it needs no branch per word.
        let mut wrong = 0;
        for chunk in block.chunks_exact(8) {
            let mut got = [0; 8];
            got.copy_from_slice(chunk);
            wrong |= u64::from_le_bytes(got) ^ word;
            word = word.wrapping_add(PLACE);
        }
        if wrong != 0 {
            return Err(find(block, at, seed, number));
        }
        at += BLOCK;
    }
    let tail = blocks.remainder();
    let mut want = [0; BLOCK];
    let want = &mut want[..tail.len()];
    fill_from(want, word);
    if tail == want { Ok(()) } else { Err(find(tail, at, seed, number)) }
}

/// Which message of the stream `seed` these bytes begin; `None` when they are shorter than a word.
pub fn number_of(bytes: &[u8], seed: u64) -> Option<u64> {
    let word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    Some(word.wrapping_sub(seed).wrapping_mul(inverse(MESSAGE)))
}

fn fill_from(bytes: &mut [u8], mut word: u64) {
    for chunk in bytes.chunks_mut(8) {
        let len = chunk.len();
        chunk.copy_from_slice(&word.to_le_bytes()[..len]);
        word = word.wrapping_add(PLACE);
    }
}

#[cold]
fn find(block: &[u8], at: usize, seed: u64, number: u64) -> Mismatch {
    let wrong = block.iter().enumerate().find(|(i, byte)| {
        let place = at + i;
        let word = first_word(seed, number).wrapping_add(((place / 8) as u64).wrapping_mul(PLACE));
        word.to_le_bytes()[place % 8] != **byte
    });
    Mismatch { offset: at + wrong.map_or(0, |(i, _)| i) }
}

/// The inverse of an odd number modulo 2^64, by Newton's method.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut i = 0;
    while i < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        i += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_byte_is_found_where_it_is() {
        for len in [1usize, 7, 8, 9, 63, 64, 65, 1000, 4097] {
            let mut bytes = vec![0; len];
            fill(&mut bytes, 77, 5);
            assert_eq!(check(&bytes, 77, 5), Ok(()));
            for at in [0, len / 3, len / 2, len - 1] {
                bytes[at] ^= 1;
                assert_eq!(check(&bytes, 77, 5), Err(Mismatch { offset: at }), "len {len}");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn another_message_stream_or_place_is_not_taken() {
        let mut bytes = vec![0; 256];
        fill(&mut bytes, 1, 9);
        assert!(check(&bytes, 1, 8).is_err());
        assert!(check(&bytes, 2, 9).is_err());
        bytes.copy_within(64..128, 128);
        assert_eq!(check(&bytes, 1, 9), Err(Mismatch { offset: 128 }));
    }

    #[test]
    fn the_number_can_be_read_back() {
        let mut bytes = vec![0; 8];
        for number in [0, 1, 2, 1 << 40, u64::MAX] {
            fill(&mut bytes, 3, number);
            assert_eq!(number_of(&bytes, 3), Some(number));
        }
        assert_eq!(number_of(&bytes[..7], 3), None);
    }
}
