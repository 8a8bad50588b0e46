//! Words and numbers of a page.

use serde_json::Value;
use std::fmt::Write;

/// Text as HTML.
pub(super) fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Of no meaning to a reader, and to HTML not allowed.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// Nanoseconds, in the unit that suits.
    Time,
    /// Bytes, in the unit that suits.
    Bytes,
    /// Nines: 2 is 99 %.
    Nines,
}

impl Form {
    pub(super) fn write(self, x: f64) -> String {
        match self {
            Form::Plain => number(x),
            Form::Time => time(x),
            Form::Bytes => bytes(x),
            Form::Nines => percentile(100.0 - 10f64.powf(2.0 - x)),
        }
    }

    /// How the script of the page knows it.
    pub(super) fn letter(self) -> &'static str {
        match self {
            Form::Plain => "n",
            Form::Time => "t",
            Form::Bytes => "b",
            Form::Nines => "9",
        }
    }
}

/// Three digits that count: 12.3, 0.00123, 1,234,567.
pub(super) fn number(x: f64) -> String {
    let a = x.abs();
    let places = match a {
        _ if a >= 100.0 || a == 0.0 => 0,
        _ if a >= 10.0 => 1,
        _ if a >= 1.0 => 2,
        _ => (2 - a.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{x:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (whole, rest) = text.split_once('.').map_or((text, ""), |(w, _)| (w, &text[w.len()..]));
    thousands(whole) + rest
}

/// A whole number with its thousands apart.
pub(super) fn count(n: u64) -> String {
    thousands(&n.to_string())
}

fn thousands(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |d| ("-", d));
    let mut out = String::from(sign);
    for (i, c) in digits.chars().enumerate() {
        if i != 0 && (digits.len() - i) % 3 == 0 {
            // A thin space that does not break.
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// Nanoseconds in the unit that suits.
pub(super) fn time(ns: f64) -> String {
    let (x, unit) = match ns.abs() {
        a if a >= 1e9 => (ns / 1e9, "s"),
        a if a >= 1e6 => (ns / 1e6, "ms"),
        a if a >= 1e3 => (ns / 1e3, "\u{b5}s"),
        _ => (ns, "ns"),
    };
    format!("{}\u{a0}{unit}", number(x))
}

/// Bytes in the unit that suits.
pub(super) fn bytes(b: f64) -> String {
    const KI: f64 = 1024.0;
    let (x, unit) = match b.abs() {
        a if a >= KI * KI * KI => (b / KI / KI / KI, "GiB"),
        a if a >= KI * KI => (b / KI / KI, "MiB"),
        a if a >= KI => (b / KI, "KiB"),
        _ => (b, "B"),
    };
    format!("{}\u{a0}{unit}", number(x))
}

/// 99.9 %.
pub(super) fn percentile(p: f64) -> String {
    let text = format!("{p:.6}");
    format!("{}\u{a0}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The text at a place of the result; empty where there is none.
pub(crate) fn word<'v>(v: &'v Value, pointer: &str) -> &'v str {
    v.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The sentences at a place of the result.
pub(crate) fn words(v: &Value, pointer: &str) -> Vec<String> {
    list(v, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The number at a place of the result.
pub(super) fn float(v: &Value, pointer: &str) -> Option<f64> {
    v.pointer(pointer).and_then(Value::as_f64)
}

/// The whole number at a place of the result, 0 where there is none.
pub(super) fn whole(v: &Value, pointer: &str) -> u64 {
    v.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// The list at a place of the result; empty where there is none.
pub(crate) fn list<'v>(v: &'v Value, pointer: &str) -> &'v [Value] {
    v.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A cell of a table.
pub(super) enum Cell {
    /// Text.
    Text(String),
    /// A figure.
    Figure(String),
    /// HTML.
    Html(String),
}

impl Cell {
    pub(super) fn figure(x: Option<f64>, form: Form) -> Cell {
        Cell::Figure(x.map_or("\u{2013}".to_owned(), |x| form.write(x)))
    }
}

/// A table that scrolls where it is too wide.
pub(super) fn table(class: &str, head: &[&str], rows: &[Vec<Cell>]) -> String {
    let mut out = format!("<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    for (i, h) in head.iter().enumerate() {
        let figure = rows.first().and_then(|r| r.get(i)).is_some_and(|c| matches!(c, Cell::Figure(_)));
        let _ = write!(out, "<th{}>{}</th>", if figure { " class=\"n\"" } else { "" }, esc(h));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = match cell {
                Cell::Text(t) => write!(out, "<td>{}</td>", esc(t)),
                Cell::Figure(t) => write!(out, "<td class=\"n\">{}</td>", esc(t)),
                Cell::Html(t) => write!(out, "<td>{t}</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let plain = |x: f64| number(x).replace('\u{202f}', " ");
        assert_eq!(
            [0.0, 0.5, 12.345, 1234.5, 98.04, 0.00123, 1e6, -3.0, 9.999].map(plain),
            ["0", "0.5", "12.3", "1 234", "98", "0.00123", "1 000 000", "-3", "10"]
        );
        let time = |ns: f64| time(ns).replace('\u{a0}', " ");
        assert_eq!([5.0, 1500.0, 2.5e6, 1e9].map(time), ["5 ns", "1.5 \u{b5}s", "2.5 ms", "1 s"]);
        assert_eq!(bytes(1048576.0), "1\u{a0}MiB");
        assert_eq!(Form::Nines.write(3.0), "99.9\u{a0}%");
        assert_eq!(percentile(50.0), "50\u{a0}%");
    }

    #[test]
    fn nothing_of_a_name_becomes_markup() {
        assert_eq!(esc("<script>\"&'\u{0}"), "&lt;script&gt;&quot;&amp;&#39;\u{fffd}");
    }
}
