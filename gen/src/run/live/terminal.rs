//! The terminal that a run is watched on: taken for the view, and given back whatever happens.
//!
//! What others say on standard error meanwhile - the log, DPDK, a panic - goes to memory, so that it garbles
//! nothing, and comes out when the terminal is given back.

use rustix::fs::{MemfdFlags, Mode, OFlags, fcntl_setfl, ftruncate, memfd_create};
use rustix::process::getpgrp;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr, ttyname,
};
use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The other screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// More than so many bytes said meanwhile are not kept.
const MOST_SAID: u64 = 4 << 20;
/// The end of what was said, to look for the last lines in.
const TAIL: u64 = 4096;

/// What must be put back.
struct Taken {
    /// What standard error was.
    stderr: OwnedFd,
    /// How the terminal of standard input was set, where it has been changed.
    modes: Option<Termios>,
    /// What was said meanwhile.
    said: File,
}

/// Whoever ends the process gives the terminal back first.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

fn taken() -> MutexGuard<'static, Option<Taken>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the terminal back, if it is taken, and says what was said meanwhile.
pub(in crate::run) fn give_back() {
    let Some(Taken { stderr: before, modes, said }) = taken().take() else { return };
    // Nothing is left to do when the terminal is gone.
    let _ = write_all(&before, LEAVE);
    if let Some(modes) = modes {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
    }
    let _ = rustix::stdio::dup2_stderr(&before);
    let mut text = vec![0; length(&said) as usize];
    if said.read_exact_at(&mut text, 0).is_ok() {
        let _ = stderr().write_all(&text);
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let n = rustix::io::retry_on_intr(|| rustix::io::write(to, bytes))?;
        bytes = &bytes[n..];
    }
    Ok(())
}

fn length(said: &File) -> u64 {
    said.metadata().map_or(0, |m| m.len())
}

/// Whether standard error is a terminal that can be drawn on, and no others have just now.
pub(in crate::run) fn is_possible() -> bool {
    let drawable = std::env::var("TERM").is_ok_and(|t| !t.is_empty() && t != "dumb");
    drawable && stderr().is_terminal() && in_front(stderr())
}

/// A terminal that is taken.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Not blocking: a terminal that is slow holds nobody up.
    out: File,
    /// What it has not taken yet.
    rest: Vec<u8>,
    /// Whether keys are read.
    pub(super) keys: bool,
}

impl Terminal {
    /// Takes the terminal, where there is one.
    pub(super) fn take() -> Option<Terminal> {
        if !is_possible() {
            return None;
        }
        // A description of its own: standard error is shared with the shell and must stay as it is.
        let name = ttyname(stderr(), Vec::new()).ok()?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let out = rustix::fs::open(name, flags, Mode::empty()).ok()?;
        let said = memfd_create("said", MemfdFlags::CLOEXEC).ok()?;
        fcntl_setfl(&said, OFlags::APPEND).ok()?;
        let before = rustix::io::fcntl_dupfd_cloexec(stderr(), 3).ok()?;
        rustix::stdio::dup2_stderr(&said).ok()?;
        let mut place = taken();
        let modes = (stdin().is_terminal() && in_front(stdin())).then(keys_at_once).flatten();
        let keys = modes.is_some();
        let mut terminal = Terminal { out: out.into(), rest: ENTER.to_vec(), keys };
        terminal.flush();
        *place = Some(Taken { stderr: before, modes, said: said.into() });
        drop(place);
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                usual(info);
            }));
        });
        Some(terminal)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.out) {
            Ok(size) if size.ws_col != 0 && size.ws_row != 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// Whether it has taken all so far.
    pub(super) fn is_ready(&mut self) -> bool {
        // Held meanwhile: nothing is drawn on a terminal that was given back.
        let place = taken();
        if place.is_some() {
            self.flush();
        }
        place.is_some() && self.rest.is_empty()
    }

    /// Draws.
    pub(super) fn draw(&mut self, bytes: &[u8]) {
        let place = taken();
        if place.is_some() {
            self.rest.extend_from_slice(bytes);
            self.flush();
        }
    }

    fn flush(&mut self) {
        while !self.rest.is_empty() {
            match self.out.write(&self.rest) {
                Ok(n) if n != 0 => drop(self.rest.drain(..n)),
                _ => return,
            }
        }
    }

    /// What was typed since the last time.
    pub(super) fn typed(&self, into: &mut [u8]) -> usize {
        if !self.keys {
            return 0;
        }
        rustix::io::read(stdin(), into).unwrap_or(0)
    }

    /// The last lines that others have said.
    pub(super) fn said(&self, lines: usize) -> Vec<String> {
        let place = taken();
        let Some(Taken { said, .. }) = place.as_ref() else { return Vec::new() };
        let length = length(said);
        let mut text = vec![0; length.min(TAIL) as usize];
        let from = length - text.len() as u64;
        if said.read_exact_at(&mut text, from).is_err() {
            return Vec::new();
        }
        if length > MOST_SAID {
            let _ = ftruncate(said, 0);
            let mut said = said;
            let _ = writeln!(
                said,
                "[... more than {} MiB were said meanwhile: what came before is gone]",
                MOST_SAID >> 20
            );
        }
        let text = String::from_utf8_lossy(&text);
        // The first line of a tail has lost its beginning.
        let mut all: Vec<&str> = text.lines().skip(usize::from(from != 0)).collect();
        let last = all.split_off(all.len().saturating_sub(lines));
        last.into_iter().map(str::to_owned).collect()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether this process is in the terminal's foreground; one in the background would be stopped.
fn in_front(terminal: impl std::os::fd::AsFd) -> bool {
    // A terminal that is not the one of the session stops nobody.
    tcgetpgrp(terminal).map_or(true, |group| group == getpgrp())
}

/// Keys come at once and are not echoed.  Ctrl-C stays a signal: it works when nobody reads keys.
fn keys_at_once() -> Option<Termios> {
    let before = tcgetattr(stdin()).ok()?;
    let mut modes = before.clone();
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    // Output that is held back, or a run that is stopped, would leave the terminal as it is.
    modes.input_modes.remove(InputModes::IXON);
    for code in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
        modes.special_codes[code] = 0;
    }
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin(), OptionalActions::Now, &modes).ok()?;
    Some(before)
}
