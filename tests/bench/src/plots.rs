//! Drawings of the curves.

use std::path::Path;

use plotters::coord::combinators::IntoLogRange as _;
use plotters::prelude::{
    ChartBuilder, Circle, IntoDrawingArea as _, LineSeries, PathElement, RGBColor, SVGBackend, SeriesLabelPosition,
    WHITE,
};
use plotters::style::{BLACK, Color as _};

use super::{Curve, Failure};

const SIZE: (u32, u32) = (640, 400);
/// Of the engine, and of its peer. Those who do not see all colours can tell these apart.
const COLOURS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(230, 159, 0)];

/// Draws each curve into a file of its own in a directory, `tasks.svg` and so on. Both axes are logarithmic.
///
/// # Errors
///
/// If a file can not be written.
pub fn draw(curves: &[Curve], directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)?;
    for curve in curves {
        let path = directory.join(curve.name).with_extension("svg");
        chart(curve, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn chart(curve: &Curve, path: &Path) -> Result<(), Failure> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (across, up) = (range(curve, |point| point.0), range(curve, |point| point.1));
    // The names of the series have the uppermost part for themselves.
    let top = up.1 * (up.1 / up.0).powf(0.25) * 1.25;
    let mut chart = ChartBuilder::on(&area)
        .caption(curve.title, ("sans-serif", 18))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((across.0..across.1).log_scale(), (up.0 * 0.8..top).log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(curve.x).y_desc(curve.y).x_label_formatter(&label).y_label_formatter(&label);
    mesh.light_line_style(BLACK.mix(0.05)).draw()?;
    for (series, colour) in curve.series.iter().zip(COLOURS) {
        let points = || series.points.iter().copied().filter(|point| point.1 > 0.0);
        let line = chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2));
        line.label(series.name).legend(legend);
        chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).background_style(WHITE).draw()?;
    area.present()?;
    Ok(())
}

/// From the least to the most of all points; what is not positive has no place on a logarithmic axis.
fn range(curve: &Curve, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let all = curve.series.iter().flat_map(|series| &series.points).map(of).filter(|value| *value > 0.0);
    let (least, most) = all.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    if least < most { (least, most) } else { (1.0, 10.0) }
}

fn label(value: &f64) -> String {
    if *value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}
