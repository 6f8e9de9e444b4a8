//! Draws the scaling curves.

use std::path::Path;

use plotters::coord::combinators::IntoLogRange as _;
use plotters::prelude::{
    ChartBuilder, Circle, IntoDrawingArea as _, LineSeries, PathElement, RGBColor, SVGBackend, SeriesLabelPosition,
    WHITE,
};
use plotters::style::{BLACK, Color as _};

use super::{BoxError, Curve};

const SIZE: (u32, u32) = (640, 400);
/// The colors of the engine and of its peer, which color-blind readers can tell apart.
const COLORS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(230, 159, 0)];

/// Draws each curve into a file of its own in `directory`, `tasks.svg` and so on. Both axes are logarithmic.
///
/// # Errors
///
/// If a file cannot be written.
pub fn draw(curves: &[Curve], directory: &Path) -> Result<(), BoxError> {
    std::fs::create_dir_all(directory)?;
    for curve in curves {
        let path = directory.join(curve.name).with_extension("svg");
        chart(curve, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn chart(curve: &Curve, path: &Path) -> Result<(), BoxError> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (x_range, y_range) = (range(curve, |point| point.0), range(curve, |point| point.1));
    // The legend has the uppermost part of the chart to itself.
    let top = y_range.1 * (y_range.1 / y_range.0).powf(0.25) * 1.25;
    let mut chart = ChartBuilder::on(&area)
        .caption(curve.title, ("sans-serif", 18))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((x_range.0..x_range.1).log_scale(), (y_range.0 * 0.8..top).log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(curve.x).y_desc(curve.y).x_label_formatter(&label).y_label_formatter(&label);
    mesh.light_line_style(BLACK.mix(0.05)).draw()?;
    for (series, color) in curve.series.iter().zip(COLORS) {
        let points = || series.points.iter().copied().filter(|point| point.1 > 0.0);
        let line = chart.draw_series(LineSeries::new(points(), color.stroke_width(2)))?;
        let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2));
        line.label(series.name).legend(legend);
        chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).background_style(WHITE).draw()?;
    area.present()?;
    Ok(())
}

/// The smallest and the largest value; a logarithmic axis only has positive ones.
fn range(curve: &Curve, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let all = curve.series.iter().flat_map(|series| &series.points).map(of).filter(|value| *value > 0.0);
    let (min, max) = all.fold((f64::MAX, f64::MIN), |(min, max), value| (value.min(min), value.max(max)));
    if min < max { (min, max) } else { (1.0, 10.0) }
}

fn label(value: &f64) -> String {
    if *value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}
