//! The view of a run on a terminal: drawn by the control thread, between two looks at its workers, from the
//! readings that they send anyway.

mod draw;
mod keys;
mod meter;
mod terminal;

pub(super) use keys::Key;
pub(super) use terminal::{give_back, is_possible};

use super::hands::Hands;
use super::view::View;
use crate::config::Scenario;
use crate::measure::Collector;
use draw::{Line, Scene};
use keys::Keys;
use meter::Meter;
use roce_engine::units::{Duration, Instant};
use terminal::Terminal;

/// The span between two pictures.
pub(super) const FRAME: Duration = Duration::from_millis(200);
/// Lines of what others say.
const SAID: usize = 3;

/// What a run is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Since when.
    pub(super) since: Instant,
    /// How long it takes, if that is known.
    pub(super) total: Option<Duration>,
}

/// The view.
#[derive(Debug)]
pub(super) struct Live {
    terminal: Terminal,
    keys: Keys,
    meter: Meter,
    title: String,
    /// By worker: its core, and how busy it was.
    cores: Vec<(usize, Option<f64>)>,
    /// When the next picture is due.
    due: Instant,
    /// What is on the screen, and the size that it had.
    shown: Vec<Line>,
    size: (usize, usize),
    help: bool,
    colour: bool,
    unicode: bool,
}

impl Live {
    /// Takes the terminal, where there is one.
    pub(super) fn begin(s: &Scenario, cores: impl Iterator<Item = usize>) -> Option<Live> {
        let meter = Meter::new(s);
        Some(Live {
            terminal: Terminal::take()?,
            keys: Keys::default(),
            meter,
            title: s.file.display().to_string(),
            cores: cores.map(|core| (core, None)).collect(),
            due: Instant::ZERO,
            shown: Vec::new(),
            size: (0, 0),
            help: false,
            colour: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            unicode: speaks_utf8(),
        })
    }

    /// What somebody wants, since the last time.
    pub(super) fn typed(&mut self) -> Vec<Key> {
        let mut bytes = [0; 64];
        let count = self.terminal.typed(&mut bytes);
        let mut wanted = Vec::new();
        for key in bytes[..count].iter().filter_map(|b| self.keys.take(*b)) {
            // What is wanted is seen at once.
            self.due = Instant::ZERO;
            match key {
                Key::Help => self.help = !self.help,
                key => wanted.push(key),
            }
        }
        wanted
    }

    /// Bits per second at L1 of each flow.
    pub(super) fn rates(&self, s: &Scenario) -> Vec<f64> {
        self.meter.rates(s)
    }

    /// How busy workers were in an interval.
    pub(super) fn note_interval(&mut self, before: &View, now: &View) {
        for (of, ((_, after), (_, before))) in
            self.cores.iter_mut().zip(now.workers.iter().zip(&before.workers))
        {
            of.1 = Some(after.busy_since(before));
        }
    }

    /// Draws, when it is time to.
    pub(super) fn show(
        &mut self,
        s: &Scenario,
        collector: &Collector,
        hands: &Hands,
        phase: Phase,
        now: Instant,
    ) {
        if now < self.due || !self.terminal.is_ready() {
            return;
        }
        self.due = now + FRAME;
        self.meter.update(s, collector);
        let size = self.terminal.size();
        let (flows, sum) = self.meter.lines(s, Scene::most_flows(size.1));
        let scene = Scene {
            title: self.title.clone(),
            phase: phase.name,
            elapsed: now.since(phase.since),
            total: phase.total,
            flows,
            sum,
            history: self.meter.history().to_vec(),
            cores: self.cores.clone(),
            said: self.terminal.said(SAID),
            paused: hands.paused_for(now),
            percent: hands.percent(),
            note: hands.note(),
            keys: self.terminal.keys,
            help: self.help,
            unicode: self.unicode,
        };
        self.draw(size, scene.lines(size.0, size.1));
    }

    /// Sends what has changed.
    fn draw(&mut self, size: (usize, usize), lines: Vec<Line>) {
        // Terminals that know it show the picture when it is whole.
        let mut out = String::from("\x1b[?2026h");
        if size != self.size {
            out.push_str("\x1b[2J");
            self.shown.clear();
        }
        for (row, line) in lines.iter().enumerate().filter(|(row, line)| self.shown.get(*row) != Some(line)) {
            // The rest of a row is erased first: after its last column there is no place to do it.
            out.push_str(&format!("\x1b[{};1H\x1b[K", row + 1));
            line.write(&mut out, self.colour);
        }
        out.push_str("\x1b[?2026l");
        self.terminal.draw(out.as_bytes());
        (self.shown, self.size) = (lines, size);
    }
}

/// Whether the user's terminal shows more than ASCII, as far as the locale tells.
fn speaks_utf8() -> bool {
    let set =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|v| std::env::var(v).ok().filter(|v| !v.is_empty()));
    set.is_some_and(|v| v.to_ascii_lowercase().replace('-', "").contains("utf8"))
}
