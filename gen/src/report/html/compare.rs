//! The page of a comparison.

use super::tables::section;
use super::text::{Cell, Form, esc, number, table};
use super::{end_of, head_of};
use crate::report::compare::{Comparison, Judgement};
use std::fmt::Write;

/// Two results side by side.
pub fn compare_page(c: &Comparison) -> String {
    let mut out = head_of(&format!("{} and {}", c.names[0], c.names[1]));
    let real = c.differences.iter().filter(|d| d.judgement == Judgement::Real).count();
    let _ = writeln!(
        out,
        "<header><p class=\"kicker\">rocegen report</p><h1>Two runs, side by side</h1><p class=\"lede\">{} of {} \
         figures differ by more than noise.</p></header>",
        real,
        c.differences.len()
    );
    out.push_str("<div class=\"callouts\">");
    for (letter, (name, verdict)) in ["A", "B"].iter().zip(c.names.iter().zip(&c.verdicts)) {
        let class = if verdict == "pass" { "ok" } else { "no" };
        let _ = write!(
            out,
            "<div class=\"callout\"><b>{letter}</b>&ensp;{}&ensp;<span class=\"{class}\">{}</span></div>",
            esc(name),
            esc(verdict)
        );
    }
    out.push_str("</div>\n");
    let rows: Vec<Vec<Cell>> = c
        .differences
        .iter()
        .map(|d| {
            let form = if d.is_time { Form::Time } else { Form::Plain };
            let class = match d.judgement {
                Judgement::Real => "differs",
                _ => "quiet",
            };
            let change = d.change_pct().map_or("\u{2013}".to_owned(), |p| {
                format!("{}{}\u{a0}%", if p > 0.0 { "+" } else { "" }, number(p))
            });
            vec![
                Cell::Text(d.flow.clone()),
                Cell::Text(d.figure.replace('_', " ")),
                Cell::figure(Some(d.values.0), form),
                Cell::figure(Some(d.values.1), form),
                Cell::Figure(change),
                Cell::Html(format!("<span class=\"{class}\">{}</span>", d.judgement.word())),
            ]
        })
        .collect();
    out += &section("Figures", &table("", &["flow", "figure", "A", "B", "B \u{2212} A", "judged"], &rows));
    if !c.alone.is_empty() {
        let text: Vec<String> = c
            .alone
            .iter()
            .map(|(flow, which)| format!("{} only in {}", esc(flow), ["A", "B"][*which]))
            .collect();
        out += &section("Flows of one run only", &format!("<p>{}</p>", text.join("; ")));
    }
    let how: String = c.how.iter().map(|h| format!("<li>{}</li>", esc(h))).collect();
    out += &section("How it was judged", &format!("<div class=\"card\"><ul>{how}</ul></div>\n"));
    end_of(&mut out, "");
    out
}
