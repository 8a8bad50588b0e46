//! The picture of a run: lines of text for a terminal of any size.

use roce_engine::units::Duration;
use std::fmt::Write as _;

/// With more flows, the first by rate are shown.
pub(super) const MANY: usize = 32;
/// Of a line, for levels from 0 up.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_LEVELS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
/// The most rows of the curve.
const HIGH: usize = 8;
/// A worker that is busy for so much of the time limits the run, most likely.
const BUSY: f64 = 0.9;

/// How text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Alarm,
}

impl Look {
    fn code(self) -> &'static str {
        match self {
            Look::Plain => "",
            Look::Strong => "1",
            Look::Dim => "2",
            Look::Good => "32",
            Look::Warn => "33",
            Look::Alarm => "1;30;43",
        }
    }
}

/// A line: parts of it, each with its look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Look, String)>);

impl Line {
    fn of(look: Look, text: impl Into<String>) -> Line {
        Line(vec![(look, text.into())])
    }

    fn push(&mut self, look: Look, text: impl Into<String>) {
        self.0.push((look, text.into()));
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Puts `right` at the end of a line of `columns`, if there is room.
    fn flush_right(&mut self, columns: usize, right: Line) {
        let gap = columns.saturating_sub(self.width() + right.width());
        if gap > 0 {
            self.push(Look::Plain, " ".repeat(gap));
            self.0.extend(right.0);
        }
    }

    fn cut(&mut self, columns: usize) {
        let mut room = columns;
        for (_, text) in &mut self.0 {
            *text = text.chars().take(room).collect();
            room -= text.chars().count();
        }
    }

    /// As a terminal takes it.
    pub(super) fn write(&self, out: &mut String, colour: bool) {
        for (look, text) in &self.0 {
            match look.code() {
                code if colour && !code.is_empty() => {
                    let _ = write!(out, "\x1b[{code}m{text}\x1b[0m");
                }
                _ => out.push_str(text),
            }
        }
    }
}

/// A flow now.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowLine {
    pub(super) name: String,
    pub(super) l1_bps: f64,
    pub(super) goodput_bps: f64,
    /// A second.
    pub(super) messages: f64,
    pub(super) p50: Option<u64>,
    pub(super) p99: Option<u64>,
    /// Since the start, as the other counts.
    pub(super) cnps: u64,
    pub(super) resent: u64,
    pub(super) naks: u64,
    pub(super) timeouts: u64,
    /// What congestion control allows.
    pub(super) allowed_bps: Option<f64>,
    /// Whether anything was sent again just now.
    pub(super) troubled: bool,
    /// Whether CNPs came just now.
    pub(super) marked: bool,
}

impl FlowLine {
    /// Two together; what cannot be added is left out.
    pub(super) fn plus(self, other: &FlowLine) -> FlowLine {
        FlowLine {
            name: self.name,
            l1_bps: self.l1_bps + other.l1_bps,
            goodput_bps: self.goodput_bps + other.goodput_bps,
            messages: self.messages + other.messages,
            p50: None,
            p99: None,
            cnps: self.cnps + other.cnps,
            resent: self.resent + other.resent,
            naks: self.naks + other.naks,
            timeouts: self.timeouts + other.timeouts,
            allowed_bps: None,
            troubled: self.troubled || other.troubled,
            marked: self.marked || other.marked,
        }
    }
}

/// All flows together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    /// How many there are.
    pub(super) flows: usize,
    pub(super) all: FlowLine,
}

/// All that is to be seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    /// The scenario file.
    pub(super) title: String,
    pub(super) phase: &'static str,
    /// Since the phase began, and how long it takes, if that is known.
    pub(super) elapsed: Duration,
    pub(super) total: Option<Duration>,
    pub(super) flows: Vec<FlowLine>,
    pub(super) sum: Sum,
    /// Bits per second at L1 over the last minute, the latest last.
    pub(super) history: Vec<f64>,
    /// By worker: its core, and the share of the last interval in which it had something to do.
    pub(super) cores: Vec<(usize, Option<f64>)>,
    /// What others say.
    pub(super) said: Vec<String>,
    /// For how long the run is paused.
    pub(super) paused: Option<Duration>,
    /// The rate, in per cent of the scenario's.
    pub(super) percent: u32,
    /// What there is to say about that.
    pub(super) note: Option<String>,
    /// Whether keys are read.
    pub(super) keys: bool,
    pub(super) help: bool,
    /// Whether the terminal knows more than ASCII.
    pub(super) unicode: bool,
}

/// A column of the table of flows.
struct Column {
    head: &'static str,
    width: usize,
    /// The lowest is the last to go where there is no room.
    rank: usize,
    cell: fn(&FlowLine) -> (Look, String),
}

/// The columns, in their order.
const COLUMNS: [Column; 10] = [
    Column { head: "L1 Gb/s", width: 9, rank: 2, cell: |f| (Look::Plain, gbps(f.l1_bps)) },
    Column { head: "goodput", width: 9, rank: 0, cell: |f| (Look::Good, gbps(f.goodput_bps)) },
    Column { head: "msg/s", width: 10, rank: 3, cell: |f| (Look::Plain, format!("{:.0}", f.messages)) },
    Column { head: "p50", width: 9, rank: 5, cell: |f| (Look::Plain, time(f.p50)) },
    Column { head: "p99", width: 9, rank: 1, cell: |f| (Look::Plain, time(f.p99)) },
    Column {
        head: "CNPs",
        width: 9,
        rank: 6,
        cell: |f| (if f.marked { Look::Warn } else { Look::Plain }, f.cnps.to_string()),
    },
    Column { head: "resent", width: 8, rank: 4, cell: |f| (warn(f), f.resent.to_string()) },
    Column { head: "NAKs", width: 8, rank: 7, cell: |f| (warn(f), f.naks.to_string()) },
    Column { head: "timeouts", width: 9, rank: 8, cell: |f| (warn(f), f.timeouts.to_string()) },
    Column {
        head: "allowed",
        width: 9,
        rank: 9,
        cell: |f| (Look::Plain, f.allowed_bps.map_or_else(|| "-".to_owned(), gbps)),
    },
];

fn warn(f: &FlowLine) -> Look {
    if f.troubled { Look::Warn } else { Look::Plain }
}

fn gbps(bps: f64) -> String {
    format!("{:.3}", bps / 1e9)
}

/// A latency, to three digits.
fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    let digits = ns.max(1).ilog10();
    let step = 10u64.pow(digits.saturating_sub(2));
    Duration::from_nanos((ns + step / 2) / step * step).to_string()
}

/// Seconds, and minutes where there are some.
fn span(d: Duration) -> String {
    let s = d.as_secs_f64();
    if s < 60.0 { format!("{s:.1} s") } else { format!("{}:{:02}", s as u64 / 60, s as u64 % 60) }
}

impl Scene {
    /// The flows that a terminal of so many rows has room for, were there more than [`MANY`].
    pub(super) fn most_flows(rows: usize) -> usize {
        rows.saturating_sub(9).clamp(1, MANY)
    }

    /// The lines for a terminal of this size: no more than it has rows, none longer than it has columns.
    pub(super) fn lines(&self, columns: usize, rows: usize) -> Vec<Line> {
        let mut lines = vec![self.head(columns), self.bar(columns)];
        let footer = self.footer(columns);
        let table = if self.help { help() } else { self.table(columns) };
        let mut below = self.workers(columns);
        below.extend(self.said.iter().map(|text| Line::of(Look::Warn, plain(text))));
        // What does not fit goes, from the end, but the keys stay; where there is room, the curve has it.
        let room = rows.saturating_sub(lines.len() + 1);
        let left = room.saturating_sub(table.len() + below.len() + 4);
        let mut curve =
            if left >= 2 { self.curve(columns, left.min(HIGH)) } else { vec![self.spark(columns)] };
        curve.append(&mut below);
        curve.truncate(room.saturating_sub(table.len()).max(room.min(2)));
        let spare = room.saturating_sub(table.len() + curve.len());
        lines.extend((spare > 1).then(Line::default));
        lines.extend(self.fitting(table, room - curve.len()));
        lines.extend((spare > 0).then(Line::default));
        lines.append(&mut curve);
        lines.resize(rows.saturating_sub(1), Line::default());
        lines.push(footer);
        lines.truncate(rows);
        for line in &mut lines {
            line.cut(columns);
        }
        lines
    }

    /// A table that has no room for all its rows says how many are missing, and keeps its last row, the sum.
    fn fitting(&self, mut table: Vec<Line>, room: usize) -> Vec<Line> {
        if table.len() > room && room >= 3 && !self.help && self.sum.flows > 1 {
            let sum = table.pop();
            table.truncate(room - 1);
            table.extend(sum);
        }
        table.truncate(room);
        table
    }

    fn head(&self, columns: usize) -> Line {
        let mut line = Line::of(Look::Strong, "rocegen ");
        line.push(Look::Plain, plain(&self.title));
        let mut right = Line::default();
        if let Some(paused) = self.paused {
            right.push(Look::Alarm, format!(" PAUSED {} ", span(paused)));
        }
        if self.percent != 100 {
            right.push(Look::Plain, " ");
            right.push(Look::Alarm, format!(" rate {} % ", self.percent));
        }
        line.flush_right(columns, right);
        line
    }

    fn bar(&self, columns: usize) -> Line {
        let mut text = format!("{}  {}", self.phase, span(self.elapsed));
        let Some(total) = self.total else { return Line::of(Look::Plain, text) };
        let _ = write!(text, " of {}  ", span(total));
        let width = columns.saturating_sub(text.chars().count()).min(60);
        let part = self.elapsed.as_secs_f64() / total.as_secs_f64().max(1e-9);
        let full = ((width as f64 * part) as usize).min(width);
        let [on, off] = if self.unicode { ["━", "─"] } else { ["#", "."] };
        let mut line = Line::of(Look::Plain, text);
        line.push(Look::Good, on.repeat(full));
        line.push(Look::Dim, off.repeat(width - full));
        line
    }

    /// The flows, below a row of heads; all together last.
    fn table(&self, columns: usize) -> Vec<Line> {
        let name = self.flows.iter().map(|f| f.name.chars().count()).max().unwrap_or(0).clamp(4, 16);
        let name = name.min(columns / 2);
        let mut ranks: Vec<&Column> = COLUMNS.iter().collect();
        ranks.sort_by_key(|c| c.rank);
        let mut left = columns.saturating_sub(name);
        let fit = ranks.iter().take_while(|c| {
            let fits = c.width <= left;
            left = left.saturating_sub(c.width);
            fits
        });
        let least = fit.count();
        let shown: Vec<&Column> = COLUMNS.iter().filter(|c| c.rank < least).collect();
        let row = |f: &FlowLine, look| {
            let mut line =
                Line::of(look, format!("{:<name$}", f.name.chars().take(name).collect::<String>()));
            for column in &shown {
                let (look, text) = (column.cell)(f);
                line.push(look, format!("{text:>width$}", width = column.width));
            }
            line
        };
        let mut heads = format!("{:<name$}", "flow");
        for column in &shown {
            let _ = write!(heads, "{:>width$}", column.head, width = column.width);
        }
        let mut lines = vec![Line::of(Look::Dim, heads)];
        lines.extend(self.flows.iter().map(|f| row(f, Look::Strong)));
        let Sum { flows, all } = &self.sum;
        if *flows > 1 {
            let name = match flows - self.flows.len() {
                0 => "all".to_owned(),
                _ => format!("all {flows}"),
            };
            lines.push(row(&FlowLine { name, ..all.clone() }, Look::Strong));
        }
        lines
    }

    /// The total rate over the last minute, in one line.
    fn spark(&self, columns: usize) -> Line {
        let text = format!("L1 {} Gb/s ", gbps(self.history.last().copied().unwrap_or(0.0)));
        let tail = format!(" most {}", gbps(self.most()));
        let width = columns.saturating_sub(text.len() + tail.len());
        let mut line = Line::of(Look::Plain, text);
        line.push(Look::Good, self.levels(width, 1).concat());
        line.push(Look::Dim, tail);
        line
    }

    /// The same, so many lines high, below a line that says what it is.
    fn curve(&self, columns: usize, rows: usize) -> Vec<Line> {
        let now = gbps(self.history.last().copied().unwrap_or(0.0));
        let mut line = Line::of(Look::Plain, format!("L1 of all flows {now} Gb/s"));
        line.push(Look::Dim, format!("  most in the last minute {}", gbps(self.most())));
        let mut lines = vec![line];
        lines.extend(self.levels(columns, rows).into_iter().map(|row| Line::of(Look::Good, row)));
        lines.push(Line::default());
        lines
    }

    fn most(&self) -> f64 {
        self.history.iter().copied().fold(0.0, f64::max)
    }

    /// The history as a curve, from its top row to the one at the bottom.
    fn levels(&self, columns: usize, rows: usize) -> Vec<String> {
        let levels = if self.unicode { LEVELS } else { PLAIN_LEVELS };
        let join = self.history.len().div_ceil(columns.max(1)).max(1);
        let steps = (levels.len() * rows) as f64;
        let heights = self.history.chunks(join).map(|rates| {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            // Nothing is a line at the bottom.
            ((mean / self.most().max(1.0) * steps).round() as usize).max(1)
        });
        let heights: Vec<usize> = heights.take(columns).collect();
        let row = |row: usize| {
            let level = |height: &usize| match height.saturating_sub(row * levels.len()) {
                0 => ' ',
                above => levels[above.min(levels.len()) - 1],
            };
            heights.iter().map(level).collect::<String>()
        };
        (0..rows).rev().map(row).collect()
    }

    /// Who is busy, two lines at most.
    fn workers(&self, columns: usize) -> Vec<Line> {
        let mut lines = vec![Line::of(Look::Plain, "busy")];
        for (i, (core, busy)) in self.cores.iter().enumerate() {
            let share = busy.map_or_else(|| "  -  ".to_owned(), |b| format!("{:>5.1}", b * 100.0));
            let text = format!("  core {core} {share} %");
            let look = if busy.is_some_and(|b| b >= BUSY) { Look::Warn } else { Look::Plain };
            let full = lines.last().is_none_or(|l| l.width() + text.len() > columns);
            if full && lines.len() == 2 {
                let more = format!("  and {} more", self.cores.len() - i);
                lines.push(Line::of(Look::Plain, format!("    {more}")));
                break;
            }
            if full {
                lines.push(Line::of(Look::Plain, "    "));
            }
            if let Some(line) = lines.last_mut() {
                line.push(look, text);
            }
        }
        lines
    }

    fn footer(&self, columns: usize) -> Line {
        let mut line = Line::default();
        if self.keys {
            let pause = if self.paused.is_some() { "p go on" } else { "p pause" };
            line.push(Look::Dim, format!("{pause}  + - rate  q quit  ? help"));
        } else {
            line.push(Look::Dim, "Ctrl-C quits");
        }
        if let Some(note) = &self.note {
            line.flush_right(columns, Line::of(Look::Warn, format!("  {note}")));
        }
        line
    }
}

/// What others say, without what would move the cursor or set colours.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.as_str().starts_with('[') => {
                // Up to the letter that ends the sequence.
                let _ = chars.by_ref().skip(1).find(|c| ('@'..='~').contains(c));
            }
            c if !c.is_control() => out.push(c),
            _ => {}
        }
    }
    out
}

fn help() -> Vec<Line> {
    let lines = [
        "p, space   pause: nothing is posted, schedules stand still; again: go on",
        "+, up      rate up by 10 % of what the scenario says, to 200 %",
        "-, down    rate down by 10 %, to 10 %; a flow without a rate is held to",
        "           that share of what it had",
        "0          the rate of the scenario again",
        "q, Ctrl-C  end the run in good order; Ctrl-C twice: at once",
        "?          this",
        "",
        "The clock goes on in a pause.  The result says what was done, and when.",
    ];
    lines.into_iter().map(|text| Line::of(Look::Plain, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, l1: f64) -> FlowLine {
        FlowLine {
            name: name.to_owned(),
            l1_bps: l1 * 1e9,
            goodput_bps: l1 * 0.98e9,
            messages: l1 * 117_000.0,
            p50: Some(9_104_321),
            p99: Some(10_990_000),
            cnps: 1_234,
            resent: 17,
            naks: 3,
            timeouts: 1,
            allowed_bps: Some(l1 * 1e9),
            troubled: false,
            marked: true,
        }
    }

    fn scene(flows: usize) -> Scene {
        let all: Vec<_> = (0..flows).map(|i| flow(&format!("flow-{i}"), 12.5 / (i + 1) as f64)).collect();
        let sum = all.iter().fold(FlowLine::default(), |sum, f| sum.plus(f));
        Scene {
            title: "configs/loopback.toml".to_owned(),
            phase: "measuring",
            elapsed: Duration::from_millis(3_200),
            total: Some(Duration::from_secs(10)),
            flows: all.into_iter().take(MANY).collect(),
            sum: Sum { flows, all: sum },
            history: (0..40).map(|i| f64::from(i) * 0.5e9).collect(),
            cores: vec![(0, Some(0.971)), (1, None)],
            said: vec!["[WARN] a thing\x1b[2J of note".to_owned()],
            paused: None,
            percent: 100,
            note: None,
            keys: true,
            help: false,
            unicode: true,
        }
    }

    fn text(lines: &[Line]) -> String {
        let mut out = String::new();
        for line in lines {
            line.write(&mut out, false);
            out.push('\n');
        }
        out
    }

    #[test]
    fn what_others_say_is_text() {
        assert_eq!(plain("\x1b[33m[WARN ]\x1b[0m a\tb\u{9b}1mc \x1b[12;4Hd\x1b"), "[WARN ] ab1mc d");
        assert_eq!(plain("\x1b["), "");
    }

    /// Whatever the size, it fits.
    #[test]
    fn nothing_is_larger_than_the_terminal() {
        for flows in [1, 2, 5, 100] {
            for (columns, rows) in
                [(80, 24), (1, 1), (10, 3), (20, 5), (40, 10), (79, 12), (200, 60), (500, 2)]
            {
                for help in [false, true] {
                    let mut scene = scene(flows);
                    scene.help = help;
                    scene.paused = Some(Duration::from_secs(75));
                    scene.percent = 90;
                    let lines = scene.lines(columns, rows);
                    assert_eq!(lines.len(), rows, "{flows} flows at {columns}x{rows}");
                    assert!(lines.iter().all(|l| l.width() <= columns), "{}", text(&lines));
                    assert!(!text(&lines).contains('\x1b'), "what others say is text");
                }
            }
        }
    }

    #[test]
    fn in_80_by_24() {
        insta::assert_snapshot!(text(&scene(3).lines(80, 24)));
    }

    #[test]
    fn narrow_and_low() {
        insta::assert_snapshot!(text(&scene(3).lines(40, 10)));
    }

    #[test]
    fn wide_paused_and_slower() {
        let mut scene = scene(2);
        scene.paused = Some(Duration::from_millis(12_340));
        scene.percent = 80;
        scene.note = Some("flows without a rate are held to 80 % of what they had".to_owned());
        insta::assert_snapshot!(text(&scene.lines(130, 16)));
    }

    #[test]
    fn many_flows_and_a_terminal_without_unicode() {
        let mut scene = scene(100);
        scene.unicode = false;
        scene.flows.truncate(Scene::most_flows(24));
        scene.cores = (0..24).map(|c| (c, Some(0.5))).collect();
        insta::assert_snapshot!(text(&scene.lines(80, 24)));
    }

    #[test]
    fn help_in_80_by_24() {
        let mut scene = scene(1);
        scene.help = true;
        insta::assert_snapshot!(text(&scene.lines(80, 24)));
    }

    #[test]
    fn colours_are_around_words_only_where_they_are_wanted() {
        let lines = scene(1).lines(80, 24);
        let mut out = String::new();
        lines.iter().for_each(|l| l.write(&mut out, true));
        assert!(out.contains("\x1b[32m") && out.contains("\x1b[0m"), "{out}");
    }
}
