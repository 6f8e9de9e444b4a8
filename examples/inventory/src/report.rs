use std::time::Duration;

use serde::Serialize;

use crate::{Config, Mode, load::Outcome, store::Sold, table};

/// The whole table.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How many instances of the service took part.
    pub instances: u32,
    /// What the lock masters were, such as `5 in-memory masters`.
    pub masters: String,
    /// One row for each mode that was run, in order.
    pub rows: Vec<Row>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// What guarded modes did wrong, in words; empty if they kept their promise.
    pub failures: Vec<String>,
}

impl Report {
    pub(crate) fn new(config: &Config, masters: String) -> Self {
        Self { instances: config.instances, masters, rows: Vec::new(), interrupted: false, failures: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.failures.extend(row.failure());
        self.rows.push(row);
    }

    /// Whether no guarded mode oversold or left units unsold.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// The row of `mode`, if it was run.
    #[must_use]
    pub fn row(&self, mode: Mode) -> Option<&Row> {
        self.rows.iter().find(|row| row.mode == mode)
    }

    /// The table for people, with a line on how the guarded modes did.
    #[must_use]
    pub fn table(&self) -> String {
        table::render(self)
    }
}

/// What happened in one mode.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The mode.
    pub mode: Mode,
    /// Whether the mode promises not to oversell.
    pub guarded: bool,
    /// Units on stock at the start.
    pub stock: u32,
    /// Buyers of one unit each.
    pub buyers: u32,
    /// Orders in the database at the end.
    pub orders: u32,
    /// Units ordered beyond the stock.
    pub oversold: u32,
    /// Purchases that the fence refused; `None` where there is no fence.
    pub stale_rejected: Option<u32>,
    /// Answers that the lock was busy or unavailable; `None` where there is no lock.
    pub busy: Option<u32>,
    /// Median time from a buyer's first request to the receipt, retries included, in milliseconds.
    pub p50_ms: Option<u64>,
    /// The 99th percentile of the same.
    pub p99_ms: Option<u64>,
    /// How long the mode took, in milliseconds.
    pub elapsed_ms: u64,
    /// What the buyers were told.
    pub answers: Answers,
    /// Whether the mode ran to its end.
    pub complete: bool,
}

/// How the buyers' visits ended, and what came before.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Answers {
    /// Buyers with a receipt.
    pub bought: u32,
    /// Buyers who were told that nothing is left.
    pub sold_out: u32,
    /// Buyers who were told that the lease was lost: sold or not, they cannot tell.
    pub unknown: u32,
    /// Buyers who met a busy lock or a stale token too often.
    pub gave_up: u32,
    /// Buyers who were called off when the run was stopped or took too long.
    pub stopped: u32,
    /// Buyers whose request failed in any other way.
    pub failed: u32,
    /// The first of these failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    /// Answers that the lock is busy or unavailable; the buyer came back.
    pub busy: u32,
    /// Answers that the fencing token is stale; the buyer came back.
    pub stale_rejected: u32,
}

impl Row {
    pub(crate) fn new(
        mode: Mode,
        config: &Config,
        outcome: Outcome,
        sold: Sold,
        elapsed: Duration,
        complete: bool,
    ) -> Self {
        let Outcome { answers, mut latencies } = outcome;
        latencies.sort_unstable();
        let p = |percent| percentile(&latencies, percent).map(millis);
        Self {
            mode,
            guarded: mode.is_guarded(),
            stock: config.stock,
            buyers: config.buyers,
            orders: u32::try_from(sold.orders).unwrap_or(u32::MAX),
            oversold: u32::try_from((sold.units - i64::from(config.stock)).max(0)).unwrap_or(u32::MAX),
            stale_rejected: mode.is_fenced().then_some(answers.stale_rejected),
            busy: mode.takes_lock().then_some(answers.busy),
            p50_ms: p(50),
            p99_ms: p(99),
            elapsed_ms: millis(elapsed),
            answers,
            complete,
        }
    }

    /// What a guarded mode did wrong. An interrupted one may have units left, and nothing else.
    fn failure(&self) -> Option<String> {
        if !self.guarded {
            return None;
        }
        let name = self.mode.label().trim_start_matches(" + ");
        if self.oversold > 0 {
            return Some(format!("{name}: oversold by {}", self.oversold));
        }
        let expected = self.stock.min(self.buyers);
        if self.complete && self.orders != expected {
            let Answers { gave_up, stopped, unknown, failed, .. } = self.answers;
            let first = self.answers.first_failure.as_deref();
            return Some(format!(
                "{name}: {} orders instead of {expected} \
                 (buyers: {gave_up} gave up, {stopped} out of time, {unknown} in doubt, {failed} failed{}{})",
                self.orders,
                if first.is_some() { ", first with: " } else { "" },
                first.unwrap_or_default(),
            ));
        }
        None
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The smallest value that at least `percent` of `sorted` do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(mode: Mode, orders: u32, answers: Answers) -> Row {
        let outcome = Outcome { answers, latencies: vec![Duration::from_micros(12_900); 3] };
        let sold = Sold { orders: orders.into(), units: orders.into() };
        let elapsed = Duration::from_secs(1);
        Row::new(mode, &Config::default(), outcome, sold, elapsed, true)
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let ms = |n| Duration::from_millis(n);
        let hundred: Vec<_> = (1..=100).map(ms).collect();
        assert_eq!(percentile(&hundred, 50), Some(ms(50)));
        assert_eq!(percentile(&hundred, 99), Some(ms(99)));
        assert_eq!(percentile(&hundred[..3], 50), Some(ms(2)));
        assert_eq!(percentile(&hundred[..3], 99), Some(ms(3)));
        assert_eq!(percentile(&hundred[..1], 50), Some(ms(1)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn only_guarded_modes_can_fail() {
        let mut report = Report::new(&Config::default(), String::new());
        report.push(row(Mode::NoLock, 300, Answers::default()));
        report.push(row(Mode::PauseFenceAtWrite, 117, Answers::default()));
        report.push(row(Mode::DistributedLock, 100, Answers::default()));
        assert!(report.passed());
        assert_eq!(report.row(Mode::NoLock).unwrap().oversold, 200);
    }

    #[test]
    fn a_guarded_mode_that_oversold_fails() {
        let mut report = Report::new(&Config::default(), String::new());
        report.push(row(Mode::PauseFenceClaimed, 101, Answers::default()));
        assert_eq!(report.failures, ["fence claimed: oversold by 1"]);
    }

    #[test]
    fn a_guarded_mode_with_units_left_fails_unless_it_was_interrupted() {
        let answers = Answers { failed: 1, first_failure: Some("answer 500".to_owned()), ..Answers::default() };
        let mut sold_99 = row(Mode::AtomicSql, 99, answers);
        let failure = sold_99.failure().unwrap();
        assert!(failure.contains("99 orders instead of 100"), "{failure}");
        assert!(failure.contains("1 failed, first with: answer 500)"), "{failure}");
        sold_99.complete = false;
        assert_eq!(sold_99.failure(), None);
    }
}
