//! Keys, from the bytes that a terminal sends.

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Key {
    /// Pause, or go on.
    Pause,
    /// A higher rate.
    Faster,
    /// A lower rate.
    Slower,
    /// The rate of the scenario.
    Usual,
    /// The end.
    Quit,
    /// What keys there are.
    Help,
}

/// Takes bytes as they come: a key that is several may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Keys {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Plain,
    /// After ESC.
    Escape,
    /// After `ESC [` or `ESC O`: up to a letter.
    Sequence,
}

impl Keys {
    pub(super) fn take(&mut self, byte: u8) -> Option<Key> {
        let state = std::mem::take(&mut self.state);
        if byte == 0x1B {
            self.state = State::Escape;
            return None;
        }
        match (state, byte) {
            (State::Escape, b'[' | b'O') => self.state = State::Sequence,
            (State::Sequence, b'0'..=b'9' | b';') => self.state = State::Sequence,
            (State::Sequence, b'A') => return Some(Key::Faster),
            (State::Sequence, b'B') => return Some(Key::Slower),
            (State::Sequence, _) => {}
            (_, b'p' | b'P' | b' ') => return Some(Key::Pause),
            // Plus without the shift key.
            (_, b'+' | b'=') => return Some(Key::Faster),
            (_, b'-' | b'_') => return Some(Key::Slower),
            (_, b'0') => return Some(Key::Usual),
            (_, b'q' | b'Q') => return Some(Key::Quit),
            (_, b'?' | b'h') => return Some(Key::Help),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_is_none() {
        let of = |bytes: &[u8]| {
            let mut keys = Keys::default();
            bytes.iter().filter_map(|b| keys.take(*b)).collect::<Vec<_>>()
        };
        assert_eq!(of(b"p "), [Key::Pause, Key::Pause]);
        assert_eq!(of(b"+=-0?q"), [Key::Faster, Key::Faster, Key::Slower, Key::Usual, Key::Help, Key::Quit]);
        assert_eq!(of(b"\x1b[A\x1bOB\x1b[1;5A"), [Key::Faster, Key::Slower, Key::Faster], "arrows");
        assert_eq!(of(b"\x1b[C\x1b[3~xyz\r\n\x00\xC3\xBC"), []);
        assert_eq!(of(b"\x1b[15~q"), [Key::Quit], "what is no key of ours takes none with it");
        assert_eq!(of(b"\x1bq"), [Key::Quit]);
    }
}
