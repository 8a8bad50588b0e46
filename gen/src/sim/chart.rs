//! The picture of a sweep.

use super::cliff::{Cliff, Point};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use roce_engine::units::Duration;

const PANEL: (u32, u32) = (620, 470);
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x1B, 0x6C, 0xA8),
    RGBColor(0xD9, 0x5F, 0x02),
    RGBColor(0x2C, 0x8C, 0x4A),
    RGBColor(0x8E, 0x44, 0xAD),
    RGBColor(0xB0, 0x2A, 0x30),
];

/// Draws the sweep as SVG: a panel for each path MTU.
pub(super) fn draw(cliff: &Cliff) -> Result<String> {
    let mtus = cliff.distinct(|p| p.mtu);
    let mut svg = String::new();
    {
        let size = (PANEL.0 * mtus.len().max(1) as u32, PANEL.1);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let fail = |e: &dyn std::fmt::Display| anyhow!("cannot draw the sweep: {e}");
        root.fill(&WHITE).map_err(|e| fail(&e))?;
        for (area, mtu) in root.split_evenly((1, mtus.len().max(1))).iter().zip(&mtus) {
            panel(area, cliff, *mtu).map_err(|e| fail(&e))?;
        }
        root.present().map_err(|e| fail(&e))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn panel(
    area: &Area<'_>,
    cliff: &Cliff,
    mtu: usize,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
    let lossy = || cliff.points.iter().map(|p| p.loss).filter(|p| *p > 0.0);
    let (low, high) = (lossy().fold(1.0, f64::min), lossy().fold(0.0, f64::max));
    // Room at both ends, and something to draw where there is but one loss, or none.
    let (low, high) = if low < high { (low * 0.8, high * 1.25) } else { (1e-6, 1e-2) };
    let title = format!("path MTU {mtu}, {} Gb/s link", cliff.link_gbps);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d((low..high).log_scale(), 0.0..105.0)?;
    chart
        .configure_mesh()
        .x_desc("probability that a data packet is lost")
        .y_desc("goodput, % of that without loss")
        .x_label_formatter(&|p| format!("{p:.0e}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_labels(5)
        .y_labels(11)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(0xDD, 0xDD, 0xDD))
        .draw()?;
    let recoveries = cliff.distinct(|p| p.recovery);
    for (t, trip) in cliff.distinct(|p| p.round_trip_ns).into_iter().enumerate() {
        let colour = COLOURS[t % COLOURS.len()];
        for (r, recovery) in recoveries.iter().enumerate() {
            let mine = |p: &&Point| {
                p.mtu == mtu && p.round_trip_ns == trip && p.recovery == *recovery && p.loss > 0.0
            };
            let points: Vec<&Point> = cliff.points.iter().filter(mine).collect();
            let at = |p: &&Point| (p.loss, p.relative_pct);
            let name = format!("{recovery}, round trip {}", Duration::from_nanos(trip));
            chart
                .draw_series(LineSeries::new(points.iter().map(at), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| {
                    let mark = mark((x + 12, y), r, colour);
                    EmptyElement::at((0, 0))
                        + PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2))
                        + mark
                });
            chart.draw_series(points.iter().map(at).map(|at| mark(at, r, colour)))?;
            if r == 0 {
                let form = closed_form(&points, low, high);
                let dashed = DashedLineSeries::new(form, 5, 4, colour.mix(0.75).stroke_width(1));
                chart.draw_series(dashed)?;
            }
        }
    }
    // Only for its line in the legend.
    let grey = RGBColor(0x55, 0x55, 0x55);
    chart
        .draw_series(LineSeries::new(std::iter::empty(), grey))?
        .label("(1-p) / (1-p+pW), closed form of go-back-N")
        .legend(move |(x, y)| {
            let dash = |from: i32| PathElement::new([(x + from, y), (x + from + 5, y)], grey);
            EmptyElement::at((0, 0)) + dash(0) + dash(9) + dash(18)
        });
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .margin(12)
        .legend_area_size(32)
        .label_font(
            ("sans-serif", 14).into_font().with_anchor::<RGBColor>(Pos::new(HPos::Left, VPos::Center)),
        )
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(0xBB, 0xBB, 0xBB))
        .draw()
}

/// Circles for the first recovery, filled ones for the second.
fn mark<T>(at: T, recovery: usize, colour: RGBColor) -> Circle<T, i32> {
    let style = ShapeStyle { color: colour.into(), filled: recovery != 0, stroke_width: 2 };
    Circle::new(at, 4, style)
}

/// Fifty points of it along the axis, with the W of these points.
fn closed_form(points: &[&Point], low: f64, high: f64) -> Vec<(f64, f64)> {
    let Some(w) = points.first().map(|p| p.packets_per_round_trip) else { return Vec::new() };
    let steps = 50;
    (0..=steps)
        .map(|i| {
            let p = low * (high / low).powf(f64::from(i) / f64::from(steps));
            (p, (1.0 - p) / (1.0 - p + p * w) * 100.0)
        })
        .collect()
}
