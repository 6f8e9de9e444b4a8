use super::{Report, Row};

const HEAD: [&str; 9] = ["mode", "stock", "buyers", "orders", "oversold", "stale-rejected", "busy", "p50", "p99"];

/// Renders the rows, with the mode aligned left and numbers aligned right, and the verdict below.
pub(crate) fn render(report: &Report) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(report.rows.iter().map(cells));

    let mut widths = [0; HEAD.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in &lines {
        let [first, rest @ ..] = line;
        text.push_str(&format!("{first:<0$}", widths[0]));
        for (cell, width) in rest.iter().zip(&widths[1..]) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&verdict(report));
    text
}

fn cells(row: &Row) -> [String; HEAD.len()] {
    let mark = if row.complete { "" } else { " (stopped)" };
    let or_dash = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let time = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
    [
        format!("{}{mark}", row.mode.label()),
        row.stock.to_string(),
        row.buyers.to_string(),
        row.orders.to_string(),
        row.oversold.to_string(),
        or_dash(row.stale_rejected),
        or_dash(row.busy),
        time(row.p50_ms),
        time(row.p99_ms),
    ]
}

fn verdict(report: &Report) -> String {
    let Report { instances, masters, .. } = report;
    let plural = if *instances == 1 { "" } else { "s" };
    let mut text = format!("{instances} instance{plural}, {masters}. ");
    if report.failures.is_empty() {
        let guarded: Vec<_> = report
            .rows
            .iter()
            .filter(|row| row.guarded && row.complete)
            .map(|row| row.mode.label().trim_start_matches(" + "))
            .collect();
        if guarded.is_empty() {
            text.push_str("No guarded mode ran to completion.\n");
        } else {
            let guarded = guarded.join(", ");
            text.push_str(&format!("No guarded mode oversold: {guarded}.\n"));
        }
    } else {
        text.push('\n');
        for failure in &report.failures {
            text.push_str(&format!("FAILED  {failure}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::{Answers, Config, Mode, report::tests::row};

    #[test]
    fn columns_line_up_and_absent_values_are_dashes() {
        let mut report = Report::new(&Config::default(), "5 in-memory masters".to_owned());
        report.push(row(Mode::NoLock, 300, Answers::default()));
        report.push(row(Mode::PauseFenceClaimed, 100, Answers::default()));
        assert_eq!(
            report.table(),
            "\
mode              stock  buyers  orders  oversold  stale-rejected  busy    p50    p99
no lock             100     300     300       200               -     -  12 ms  12 ms
 + fence claimed    100     300     100         0               0     0  12 ms  12 ms

3 instances, 5 in-memory masters. No guarded mode oversold: fence claimed.
"
        );
    }

    #[test]
    fn failures_follow_the_table() {
        let mut report = Report::new(&Config::default(), "1 Redis master".to_owned());
        report.push(row(Mode::AtomicSql, 101, Answers::default()));
        let table = report.table();
        assert!(table.ends_with("\nFAILED  one atomic SQL statement: oversold by 1\n"), "{table}");
    }
}
