//! What the fuzz targets do with their bytes, and what must hold whatever the bytes are.
//!
//! The targets of `engine/fuzz` find new inputs; `engine/tests/fuzz_corpus.rs` replays the ones that
//! are kept in `engine/fuzz/corpus`.  Both use this module.
#![allow(dead_code, missing_docs, unreachable_pub, missing_debug_implementations, clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
pub mod common;
pub mod frame;
pub mod machine;
pub mod requester;
pub mod responder;

/// The bytes of an input, taken from the front.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// The next byte; `None` at the end of the input.
    pub fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte, 0 behind the end.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn long(&mut self) -> u32 {
        u32::from(self.word()) | u32::from(self.word()) << 16
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }
}
