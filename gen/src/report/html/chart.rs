//! Charts as inline SVG: coloured by the style of the page, drawn once for a wide place and once for a
//! narrow one.

use super::text::{Form, esc, number};
use std::fmt::Write;

/// Colours of a page, `--c0` and on.
pub(super) const COLOURS: usize = 8;

/// One of the axes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// What is along it, with its unit.
    pub(super) name: String,
    pub(super) log: bool,
    pub(super) form: Form,
    /// Where it ends, if not with the data.
    pub(super) ends: (Option<f64>, Option<f64>),
    /// What is written along it, and where; round figures where empty.
    pub(super) labels: Vec<(f64, String)>,
}

impl Axis {
    pub(super) fn linear(name: &str, form: Form) -> Axis {
        Axis { name: name.to_owned(), log: false, form, ends: (None, None), labels: Vec::new() }
    }

    pub(super) fn log(name: &str, form: Form) -> Axis {
        Axis { log: true, ..Axis::linear(name, form) }
    }

    pub(super) fn from(mut self, low: f64) -> Axis {
        self.ends.0 = Some(low);
        self
    }

    pub(super) fn to(mut self, high: f64) -> Axis {
        self.ends.1 = Some(high);
        self
    }
}

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Line,
    /// With a mark at each point.
    Marked,
    Bars,
}

/// What is drawn in one colour.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) kind: Kind,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// From where to where the figure of a point goes, where it is one of many.
    pub(super) spread: Vec<(f64, f64, f64)>,
}

/// A picture.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What is to be known of it.
    pub(super) note: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// A line across, and what it is.
    pub(super) reference: Option<(f64, String)>,
    /// Over the whole width of the page.
    pub(super) full: bool,
}

/// A way from values to a place.
#[derive(Clone, Copy, Debug)]
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn place(&self, v: f64) -> f64 {
        let f = |x: f64| if self.log { x.max(self.low).log10() } else { x };
        let share = (f(v) - f(self.low)) / (f(self.high) - f(self.low));
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

impl Chart {
    /// The picture with its title, legend and figures for the script; `None` where there is nothing to draw.
    pub(super) fn html(&self) -> Option<String> {
        let (x, y) = self.all_bounds()?;
        let mut out = format!("<figure class=\"chart{}\">\n", if self.full { " full" } else { "" });
        let _ = write!(out, "<figcaption><h3>{}</h3>", esc(&self.title));
        if !self.note.is_empty() {
            let _ = write!(out, "<p>{}</p>", esc(&self.note));
        }
        out.push_str("</figcaption>\n");
        if self.series.len() > 1 {
            out.push_str("<ul class=\"legend\">");
            for s in &self.series {
                let dash = if s.dashed { " dash" } else { "" };
                let name = esc(&s.name);
                let _ = write!(out, "<li><i class=\"k{}{dash}\"></i>{name}</li>", s.colour % COLOURS);
            }
            out.push_str("</ul>\n");
        }
        let wide = if self.full { (900.0, 280.0) } else { (520.0, 280.0) };
        self.svg(&mut out, "wide", wide, x, y);
        self.svg(&mut out, "narrow", (360.0, 250.0), x, y);
        let _ = write!(out, "<script type=\"application/json\">{}</script>", self.data());
        out.push_str("</figure>\n");
        Some(out)
    }

    fn all_bounds(&self) -> Option<((f64, f64), (f64, f64))> {
        let (mut x, y) = (self.bounds(&self.x, |p| Some(p.0))?, self.bounds(&self.y, |p| p.1)?);
        if !self.x.labels.is_empty() && !self.x.log {
            // What stands side by side has air at both ends.
            let air = (x.1 - x.0) * 0.06;
            x = (x.0 - air, x.1 + air);
        }
        Some((x, y))
    }

    fn bounds(&self, axis: &Axis, of: impl Fn(&(f64, Option<f64>)) -> Option<f64>) -> Option<(f64, f64)> {
        let values = self.series.iter().flat_map(|s| &s.points).filter_map(of);
        let values = values.filter(|v| v.is_finite() && (!axis.log || *v > 0.0));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return None;
        }
        let low = axis.ends.0.unwrap_or(low);
        let high = axis.ends.1.unwrap_or(high).max(low);
        Some(match axis.log {
            true => {
                let (l, h) = (low.log10(), high.log10());
                // At least a decade, and a little air.
                let pad = ((1.0 - (h - l)) / 2.0).max(0.04);
                (10f64.powf(l - pad), 10f64.powf(h + pad))
            }
            false if high > low => (low, high),
            false => (low, low + low.abs().max(1.0)),
        })
    }

    fn svg(&self, out: &mut String, class: &str, (w, h): (f64, f64), x: (f64, f64), y: (f64, f64)) {
        let (mut y_ticks, x_ticks) = (ticks(&self.y, y, 5), ticks(&self.x, x, (w / 105.0) as usize));
        let mut y = y;
        if !self.y.log {
            // The axis ends with a line of the grid.
            let step = y_ticks.get(1).map_or(1.0, |t| t - y_ticks[0]);
            let high = (y.1 / step - 1e-9).ceil() * step;
            y = (y.0, high);
            y_ticks = ticks(&self.y, y, 5);
        }
        let labels: Vec<String> = y_ticks.iter().map(|v| self.y.form.write(*v)).collect();
        let longest = labels.iter().map(|l| l.chars().count()).max().unwrap_or(1);
        let (left, right, top, bottom) = (14.0 + 6.6 * longest as f64, 12.0, 22.0, 38.0);
        let across = Scale { low: x.0, high: x.1, log: self.x.log, from: left, to: w - right };
        let up = Scale { low: y.0, high: y.1, log: self.y.log, from: h - bottom, to: top };
        let _ = writeln!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{}\" data-box=\"{left:.1} \
             {top} {:.1} {:.1}\" data-x=\"{} {} {}\">",
            esc(&self.title),
            w - right,
            h - bottom,
            x.0,
            x.1,
            u8::from(self.x.log),
        );
        let _ = writeln!(out, "<text class=\"a\" x=\"2\" y=\"11\">{}</text>", esc(&self.y.name));
        for (v, label) in y_ticks.iter().zip(&labels) {
            let at = up.place(*v);
            let _ = writeln!(
                out,
                "<path class=\"g\" d=\"M{left:.1} {at:.1}H{:.1}\"/><text class=\"t e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                w - right,
                left - 6.0,
                at + 4.0,
                esc(label)
            );
        }
        let marks: Vec<(f64, String)> = match self.x.labels.is_empty() {
            true => x_ticks.iter().map(|v| (*v, self.x.form.write(*v))).collect(),
            false => self.x.labels.clone(),
        };
        let mut free = f64::NEG_INFINITY;
        for (v, label) in &marks {
            let at = across.place(*v);
            let half = label.chars().count() as f64 * 3.4;
            // Labels that would lie on others are left out.
            let label = if at - half < free { "" } else { label.as_str() };
            if !label.is_empty() {
                free = at + half + 4.0;
            }
            // The last label stays inside.
            let anchor = if at > w - 26.0 { "t e" } else { "t m" };
            let x = if anchor == "t e" { w - 2.0 } else { at };
            let _ = writeln!(
                out,
                "<path class=\"x\" d=\"M{at:.1} {:.1}v4\"/><text class=\"{anchor}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                h - bottom,
                h - bottom + 17.0,
                esc(label)
            );
        }
        let _ = writeln!(
            out,
            "<path class=\"x\" d=\"M{left:.1} {:.1}H{:.1}\"/><text class=\"a e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            h - bottom,
            w - right,
            w - right,
            h - 4.0,
            esc(&self.x.name)
        );
        if let Some((at, name)) = self.reference.as_ref().filter(|(at, _)| (y.0..=y.1).contains(at)) {
            let at = up.place(*at);
            let _ = writeln!(
                out,
                "<path class=\"r\" d=\"M{left:.1} {at:.1}H{:.1}\"/><text class=\"a e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                w - right,
                w - right,
                at - 5.0,
                esc(name)
            );
        }
        for s in &self.series {
            s.draw(out, &across, &up);
        }
        out.push_str("<path class=\"cursor\" d=\"\"/></svg>\n");
    }

    /// What the script shows where somebody points.
    fn data(&self) -> String {
        let mut xs: Vec<f64> = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let series: Vec<_> = self
            .series
            .iter()
            .map(|s| {
                let mut points = s.points.iter().peekable();
                let ys: Vec<Option<f64>> =
                    xs.iter().map(|x| points.next_if(|p| p.0 == *x).and_then(|p| p.1).map(round)).collect();
                serde_json::json!([s.name, s.colour % COLOURS, ys])
            })
            .collect();
        let xs: Vec<f64> = xs.into_iter().map(round).collect();
        let data = serde_json::json!({
            "x": xs, "s": series, "xf": self.x.form.letter(), "yf": self.y.form.letter(),
            "xn": self.x.name, "yn": self.y.name,
        });
        // No name of a flow ends the script.
        data.to_string().replace('<', "\\u003c")
    }
}

impl Series {
    fn draw(&self, out: &mut String, across: &Scale, up: &Scale) {
        let class = self.colour % COLOURS;
        for (x, low, high) in &self.spread {
            let (x, low, high) = (across.place(*x), up.place(*low), up.place(*high));
            let _ = writeln!(out, "<path class=\"w c{class}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
        }
        let dash = if self.dashed { " dash" } else { "" };
        if self.kind == Kind::Bars {
            let floor = up.place(up.low);
            let step = (across.to - across.from) / self.points.len().max(1) as f64;
            let width = (step * 0.8).clamp(0.8, 14.0);
            let mut d = String::new();
            for (x, y) in &self.points {
                let Some(y) = y.filter(|y| *y > 0.0) else { continue };
                let top = up.place(y);
                let _ = write!(d, "M{:.1} {floor:.1}V{top:.1}", across.place(*x));
            }
            let _ = writeln!(out, "<path class=\"b c{class}\" stroke-width=\"{width:.1}\" d=\"{d}\"/>");
            return;
        }
        let mut d = String::new();
        let mut lone = String::new();
        let mut pen = false;
        for (i, (x, y)) in self.points.iter().enumerate() {
            let Some(y) = y.filter(|y| !up.log || *y > 0.0) else {
                pen = false;
                continue;
            };
            let (px, py) = (across.place(*x), up.place(y));
            let next = self.points.get(i + 1).is_some_and(|p| p.1.is_some());
            if !pen && !next || self.kind == Kind::Marked {
                let _ =
                    write!(lone, "<circle class=\"p k{class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\"/>");
            }
            let _ = write!(d, "{}{px:.1} {py:.1}", if pen { "L" } else { "M" });
            pen = true;
        }
        let _ = writeln!(out, "<path class=\"l c{class}{dash}\" d=\"{d}\"/>{lone}");
    }
}

/// Five digits are more than a reader sees.
fn round(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return 0.0;
    }
    let unit = 10f64.powi(4 - x.abs().log10().floor() as i32);
    (x * unit).round() / unit
}

/// Round values along an axis, about `wanted` of them.
pub(super) fn ticks(axis: &Axis, (low, high): (f64, f64), wanted: usize) -> Vec<f64> {
    if axis.form == Form::Nines {
        // 0 %, then 90 %, 99 % and so on.
        return (0..=high as i32).map(f64::from).collect();
    }
    if axis.log {
        let decades = low.log10().ceil() as i32..=high.log10().floor() as i32;
        let mut all: Vec<f64> = decades.map(|e| 10f64.powi(e)).collect();
        if all.len() < 3 {
            let e = low.log10().floor() as i32..=high.log10().floor() as i32;
            all = e.flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e))).collect();
            all.retain(|v| (low..=high).contains(v));
        }
        let each = all.len().div_ceil(wanted.max(2) + 2).max(1);
        return all.into_iter().step_by(each).collect();
    }
    let raw = (high - low) / wanted.max(2) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.999);
    let step = step.unwrap_or(raw);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Charts side by side in a file of their own, light or dark as its reader is.
pub(super) fn picture(title: &str, charts: &[Chart]) -> Option<String> {
    const PANEL: (f64, f64) = (520.0, 280.0);
    let drawn: Vec<(&Chart, _)> = charts.iter().filter_map(|c| Some((c, c.all_bounds()?))).collect();
    let series = &drawn.first()?.0.series;
    let rows = if series.len() > 1 { series.len().div_ceil(4) } else { 0 };
    let (w, h) = (PANEL.0 * drawn.len() as f64 + 24.0, PANEL.1 + 76.0 + 20.0 * rows as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"system-ui,sans-serif\">\n<style>{}</style>\n<rect class=\"page\" width=\"{w}\" height=\"{h}\"/>\n\
         <text class=\"h\" x=\"14\" y=\"26\">{}</text>\n",
        include_str!("picture.css"),
        esc(title)
    );
    for (i, (chart, (x, y))) in drawn.iter().enumerate() {
        let left = 12.0 + PANEL.0 * i as f64;
        let _ = write!(
            out,
            "<text class=\"h2\" x=\"{:.0}\" y=\"52\">{}</text>\n<svg x=\"{left:.0}\" y=\"60\" width=\"{}\" height=\"{}\">\n",
            left + 2.0,
            esc(&chart.title),
            PANEL.0,
            PANEL.1
        );
        chart.svg(&mut out, "wide", PANEL, *x, *y);
        out.push_str("</svg>\n");
    }
    if rows != 0 {
        for (i, s) in series.iter().enumerate() {
            let (x, y) = (14.0 + 260.0 * (i % 4) as f64, PANEL.1 + 76.0 + 20.0 * (i / 4) as f64);
            let _ = writeln!(
                out,
                "<path class=\"l c{}\" d=\"M{x} {y}h18\"/><text class=\"a\" x=\"{}\" y=\"{}\">{}</text>",
                s.colour % COLOURS,
                x + 24.0,
                y + 4.0,
                esc(&s.name)
            );
        }
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// A stage of something, from its median to its longest, on a logarithmic axis of time.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// Bars one below the other.
pub(super) fn bars(title: &str, note: &str, bars: &[Bar]) -> Option<String> {
    let high = bars.iter().map(|b| b.max.max(1.0)).fold(0.0, f64::max);
    // What takes no time at all stands at the left end.
    let low = bars.iter().map(|b| b.p50.max(high / 1e6).max(1.0)).fold(f64::INFINITY, f64::min);
    if bars.is_empty() {
        return None;
    }
    let (title, note) = (esc(title), esc(note));
    let mut out = format!("<figure class=\"chart\"><figcaption><h3>{title}</h3><p>{note}</p></figcaption>\n");
    let axis = Axis::log("", Form::Time);
    let bounds = (10f64.powf(low.log10() - 0.15), 10f64.powf(high.log10().max(low.log10() + 1.0) + 0.15));
    for (class, w) in [("wide", 520.0), ("narrow", 360.0)] {
        let row = 38.0;
        let h = 8.0 + row * bars.len() as f64 + 24.0;
        let across = Scale { low: bounds.0, high: bounds.1, log: true, from: 8.0, to: w - 12.0 };
        let _ = writeln!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{title}\">"
        );
        for v in ticks(&axis, bounds, (w / 90.0) as usize) {
            let (at, label) = (across.place(v), esc(&Form::Time.write(v)));
            let _ = writeln!(
                out,
                "<path class=\"g\" d=\"M{at:.1} 4V{:.1}\"/><text class=\"t m\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                h - 20.0,
                at.clamp(20.0, w - 22.0),
                h - 5.0
            );
        }
        for (i, b) in bars.iter().enumerate() {
            let y = 8.0 + row * i as f64;
            let [p50, p99, max] = [b.p50, b.p99, b.max].map(|v| across.place(v.max(1.0)));
            let _ = writeln!(
                out,
                "<text class=\"t\" x=\"8\" y=\"{:.1}\">{} <tspan class=\"q\">\u{d7} {}, to {}</tspan></text>\
                 <path class=\"s c0\" d=\"M{p50:.1} {:.1}H{max:.1}\"/><path class=\"s2 c0\" d=\"M{p50:.1} {:.1}H{p99:.1}\"/>\
                 <circle class=\"p k0\" cx=\"{p50:.1}\" cy=\"{:.1}\" r=\"5\"/>",
                y + 11.0,
                esc(&b.name),
                number(b.count as f64),
                esc(&Form::Time.write(b.max)),
                y + 23.0,
                y + 23.0,
                y + 23.0,
            );
        }
        out.push_str("</svg>\n");
    }
    out.push_str("</figure>\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_ticks() {
        let linear = Axis::linear("", Form::Plain);
        assert_eq!(ticks(&linear, (0.0, 98.0), 5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(&linear, (0.0, 0.7), 4), [0.0, 0.2, 0.4, 0.6000000000000001]);
        let log = Axis::log("", Form::Time);
        assert_eq!(ticks(&log, (3.0, 40_000.0), 5), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(&log, (3.0, 40.0), 5), [5.0, 10.0, 20.0]);
    }

    #[test]
    fn nothing_to_draw_is_no_picture() {
        let chart = |points: Vec<(f64, Option<f64>)>| Chart {
            title: "t".into(),
            note: String::new(),
            x: Axis::linear("x", Form::Plain),
            y: Axis::log("y", Form::Plain),
            series: vec![Series {
                name: "</script>".into(),
                colour: 9,
                kind: Kind::Line,
                dashed: false,
                points,
                spread: Vec::new(),
            }],
            reference: None,
            full: false,
        };
        assert!(chart(vec![]).html().is_none());
        assert!(chart(vec![(0.0, None), (1.0, Some(0.0))]).html().is_none(), "no logarithm of zero");
        let html = chart(vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(5.0))]).html().unwrap();
        assert_eq!(html.matches("<svg").count(), 2);
        assert_eq!(html.matches("<circle").count(), 4, "points on their own are dots");
        assert_eq!(html.matches("</script>").count(), 1, "no name ends the script");
        assert!(!html.contains("NaN") && !html.contains("inf"));
    }
}
