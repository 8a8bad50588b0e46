//! Buckets of a histogram of nanoseconds: equal parts of each power of two.

/// Buckets for values below 2^36 ns, 69 s, with 2^`part_bits` parts in each power of two; what lies
/// beyond counts in the last one.
pub const fn buckets(part_bits: u32) -> usize {
    (36 - part_bits as usize + 1) << part_bits
}

/// The bucket of a value.
#[inline]
pub fn bucket_of(ns: u64, part_bits: u32) -> usize {
    if ns < 1 << part_bits {
        return ns as usize;
    }
    let octave = ns.ilog2() - part_bits;
    let index = (u64::from(octave) << part_bits) + (ns >> octave);
    (index as usize).min(buckets(part_bits) - 1)
}

/// The middle of a bucket.
pub fn middle_of(index: usize, part_bits: u32) -> u64 {
    let index = index as u64;
    if index < 2 << part_bits {
        return index;
    }
    let octave = (index >> part_bits) - 1;
    let low = (index - (octave << part_bits)) << octave;
    low + ((1 << octave) - 1) / 2
}
