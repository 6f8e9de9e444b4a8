//! The report as a table.

use std::fmt::{self, Write as _};

use super::{Curve, Report, Row, Spread, Target, TargetOf, Unit};

const HEADS: [&str; 6] = ["figure", "ours", "baseline", "ratio (min - max)", "target", "met"];
const METHOD: &str =
    "Medians over rounds, measured alternately with their baselines. Targets are judged by the median.";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{METHOD}\n")?;
        let lines: Vec<[String; 6]> = self.rows.iter().map(cells).collect();
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.chain([HEADS[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        write_line(f, &HEADS.map(String::from), &widths)?;
        for (row, line) in self.rows.iter().zip(&lines) {
            write_line(f, line, &widths)?;
            row.notes.iter().try_for_each(|note| writeln!(f, "    {note}"))?;
        }
        for curve in &self.curves {
            write_curve(f, curve)?;
        }
        for error in &self.errors {
            writeln!(f, "\nERROR {error}")?;
        }
        let judged = self.rows.iter().filter_map(|row| row.met);
        let (met, all) = judged.fold((0, 0), |(met, all), one| (met + usize::from(one), all + 1));
        write!(f, "\n{met} of {all} targets met, {:.0} s", self.seconds)
    }
}

fn write_line(f: &mut fmt::Formatter<'_>, cells: &[String; 6], widths: &[usize]) -> fmt::Result {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        write!(line, "{cell:<width$}  ")?;
    }
    writeln!(f, "{}", line.trim_end())
}

fn write_curve(f: &mut fmt::Formatter<'_>, curve: &Curve) -> fmt::Result {
    writeln!(f, "\n{}: {} by {}", curve.title, curve.y, curve.x)?;
    for series in &curve.series {
        let points = series.points.iter().map(|(x, y)| format!("{x}: {}", short(*y)));
        writeln!(f, "    {:<18}{}", series.name, points.collect::<Vec<_>>().join("   "))?;
    }
    Ok(())
}

fn cells(row: &Row) -> [String; 6] {
    let median = |spread: Option<Spread>| spread.map_or("failed".to_owned(), |spread| show(spread.median, row.unit));
    let baseline = row.baseline.as_ref();
    let ratio = match (row.ratio, row.ours) {
        (Some(ratio), _) => spread(ratio),
        (None, Some(ours)) if row.baseline.is_none() && ours.min < ours.max => {
            format!("({} - {})", show(ours.min, row.unit), show(ours.max, row.unit))
        }
        _ => String::new(),
    };
    let met = match row.met {
        _ if row.target.is_none() => "",
        Some(true) => "yes",
        Some(false) => "MISSED",
        None => "?",
    };
    [
        row.figure.clone(),
        median(row.ours),
        baseline.map(|baseline| format!("{} {}", median(baseline.figure), baseline.name)).unwrap_or_default(),
        ratio,
        row.target.map(|target| wanted(target, row.unit)).unwrap_or_default(),
        met.to_owned(),
    ]
}

fn spread(ratio: Spread) -> String {
    format!("{} ({} - {})", short(ratio.median), short(ratio.min), short(ratio.max))
}

fn wanted(target: Target, unit: Unit) -> String {
    let limit = |value| if target.of == TargetOf::Ratio { format!("{value}") } else { show(value, unit) };
    let of = if target.of == TargetOf::Ratio { "ratio " } else { "" };
    let at_least = target.at_least.map(|value| format!("{of}>= {}", limit(value)));
    let at_most = target.at_most.map(|value| format!("{of}<= {}", limit(value)));
    let aim = target.aim.map(|aim| format!(" (aim {})", limit(aim)));
    [at_least, at_most, aim].into_iter().flatten().collect()
}

fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value.abs() < 1e-3 => format!("{} us", short(value * 1e6)),
        Unit::Seconds if value.abs() < 1.0 => format!("{} ms", short(value * 1e3)),
        Unit::Seconds => format!("{} s", short(value)),
        Unit::PerSecond => format!("{}/s", short(value)),
        Unit::Bytes => format!("{} B", short(value)),
        Unit::Number => short(value),
    }
}

/// About three digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        size if size >= 0.01 => 3,
        _ => 5,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_in_the_unit_that_fits() {
        assert_eq!(show(0.000_012_34, Unit::Seconds), "12.3 us");
        assert_eq!(show(-3e-6, Unit::Seconds), "-3.00 us");
        assert_eq!(show(0.5, Unit::Seconds), "500 ms");
        assert_eq!(show(12_345.6, Unit::PerSecond), "12346/s");
        assert_eq!(show(0.000_33, Unit::Number), "0.00033");
    }

    #[test]
    fn a_row_shows_its_target_and_whether_it_is_met() {
        let row = Row::new("part", "figure", Unit::Seconds, &[3e-3]).against("peer", &[3e-3], &[2e-3]).at_most(0.75);
        let cells = cells(&row);
        assert_eq!(cells[1..], ["3.00 ms", "2.00 ms peer", "1.50 (1.50 - 1.50)", "ratio <= 0.75", "MISSED"]);
        let failed = Row::new("part", "figure", Unit::Seconds, &[]).at_most(1.0);
        assert_eq!(super::cells(&failed)[1..], ["failed", "", "", "<= 1.00 s", "MISSED"]);
    }
}
