//! Pictures of time series.

use crate::measure::Series;
use crate::report::FabricResult;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (900, 420);
/// Lines that a picture has room for in its legend.
const NAMED: usize = 12;
/// Lines that can be told apart.
const APART: usize = 8;

/// A line of a picture.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The goodput of each queue pair over time, as SVG; of each table of flows where those are too many
/// to tell apart.
pub(super) fn rates(series: &Series) -> Result<String> {
    if series.rates.len() > APART {
        return rates_of_tables(series);
    }
    let line = |r: &crate::measure::RateSeries| Line {
        name: if series.rates.iter().any(|o| o.qp != 0) {
            format!("{} {}", r.flow, r.qp)
        } else {
            r.flow.clone()
        },
        points: (1..series.times.len())
            .filter_map(|i| Some((us(series, i), r.goodput_gbps(&series.times, i)?)))
            .collect(),
    };
    draw("goodput of each queue pair", "Gb/s", &series.rates.iter().map(line).collect::<Vec<_>>())
}

fn rates_of_tables(series: &Series) -> Result<String> {
    let mut lines: Vec<Line> = Vec::new();
    for r in &series.rates {
        // What a pattern made of a table are its name and a number.
        let name = match r.flow.rsplit_once('.') {
            Some((table, n)) if n.bytes().all(|b| b.is_ascii_digit()) => table,
            _ => &r.flow,
        };
        let at = lines.iter().position(|l| l.name == name).unwrap_or_else(|| {
            let points = (1..series.times.len()).map(|i| (us(series, i), 0.0)).collect();
            lines.push(Line { name: name.to_owned(), points });
            lines.len() - 1
        });
        for (i, point) in lines[at].points.iter_mut().enumerate() {
            point.1 += r.goodput_gbps(&series.times, i + 1).unwrap_or(0.0);
        }
    }
    draw("goodput of each table of flows", "Gb/s", &lines)
}

/// The use of each cable between switches, the busiest first, as SVG; `None` where there are none.
pub(super) fn trunks(fabric: &FabricResult) -> Result<Option<String>> {
    let switch = |name: &str| fabric.switches.iter().any(|s| s.name == name);
    let trunks = fabric.ports.iter().filter(|p| switch(&p.name) && switch(&p.to));
    let mut used: Vec<f64> = trunks.map(|p| p.use_pct).collect();
    if used.is_empty() {
        return Ok(None);
    }
    used.sort_by(|a, b| b.total_cmp(a));
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        bars(&root, "use of each cable between switches, the busiest first", "% of its line time", &used)
            .map_err(|e| anyhow!("cannot draw the use of cables: {e}"))?;
    }
    Ok(Some(svg))
}

fn bars(root: &Area<'_>, title: &str, unit: &str, values: &[f64]) -> Result<(), DrawError> {
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..values.len() as f64, 0.0..105.0)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("cables, each direction by itself")
        .y_desc(unit)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(0xDD, 0xDD, 0xDD))
        .draw()?;
    let gap = if values.len() > 100 { 0.0 } else { 0.1 };
    chart.draw_series(values.iter().enumerate().map(|(i, v)| {
        let x = i as f64;
        Rectangle::new([(x + gap, 0.0), (x + 1.0 - gap, *v)], RGBColor(0x1F, 0x6F, 0xC4).filled())
    }))?;
    root.present()
}

/// The longest queues over time, as SVG.
pub(super) fn queues(series: &Series) -> Result<String> {
    let mut longest: Vec<_> = series.queues.iter().filter(|q| q.peak() != 0).collect();
    longest.sort_by_key(|q| std::cmp::Reverse(q.peak()));
    longest.truncate(NAMED);
    let line = |q: &&crate::measure::QueueSeries| {
        let mut points = vec![(0.0, 0.0)];
        for (i, state) in &q.changes {
            let at = us(series, *i as usize);
            // It stayed what it was until the sample before.
            let before = points[points.len() - 1].1;
            points.push((us(series, i.saturating_sub(1) as usize), before));
            points.push((at, state.bytes as f64 / 1e3));
        }
        Line { name: q.name.clone(), points }
    };
    draw("bytes that wait", "kB", &longest.iter().map(line).collect::<Vec<_>>())
}

fn us(series: &Series, i: usize) -> f64 {
    series.times[i].as_nanos() as f64 / 1e3
}

fn draw(title: &str, unit: &str, lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        picture(&root, title, unit, lines).map_err(|e| anyhow!("cannot draw \"{title}\": {e}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawError = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;

fn picture(root: &Area<'_>, title: &str, unit: &str, lines: &[Line]) -> Result<(), DrawError> {
    let points = || lines.iter().flat_map(|l| &l.points);
    let (end, top) = points().fold((1.0, 1.0), |(x, y): (f64, f64), p| (x.max(p.0), y.max(p.1)));
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..end, 0.0..top * 1.08)?;
    chart
        .configure_mesh()
        .x_desc("time, us")
        .y_desc(unit)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(0xDD, 0xDD, 0xDD))
        .draw()?;
    for (i, line) in lines.iter().enumerate() {
        let colour = HSLColor(i as f64 / lines.len().max(1) as f64, 0.75, 0.42).to_rgba();
        let drawn =
            chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?;
        if i < NAMED {
            drawn
                .label(line.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2)));
        }
    }
    if lines.len() > 1 {
        let anchor = Pos::new(HPos::Left, VPos::Center);
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .legend_area_size(28)
            .label_font(("sans-serif", 13).into_font().with_anchor::<RGBColor>(anchor))
            .background_style(WHITE.mix(0.8))
            .draw()?;
    }
    root.present()
}
