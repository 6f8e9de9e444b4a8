use std::time::Duration;

use serde::Serialize;

use super::{Config, Mode, ledger::Sold, load::Outcome, table};

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of instances of the service.
    pub instances: u32,
    /// The lock masters, such as `5 in-memory masters`.
    pub masters: String,
    /// One row for each mode that ran, in order.
    pub rows: Vec<Row>,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// How guarded modes broke their promise, one sentence each. Empty if they kept it.
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

    /// Whether every guarded mode sold exactly what it could.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// The row of `mode`, if it ran.
    #[must_use]
    pub fn row(&self, mode: Mode) -> Option<&Row> {
        self.rows.iter().find(|row| row.mode == mode)
    }

    /// The report as a text table, followed by the verdict on the guarded modes.
    #[must_use]
    pub fn table(&self) -> String {
        table::render(self)
    }
}

/// The results of one mode.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The mode.
    pub mode: Mode,
    /// Whether the mode promises not to oversell.
    pub guarded: bool,
    /// Units in stock at the start.
    pub stock: u32,
    /// Buyers, of one unit each.
    pub buyers: u32,
    /// Orders in the database at the end.
    pub orders: u32,
    /// Units ordered beyond the stock.
    pub oversold: u32,
    /// Purchases that the fence refused. `None` if the mode has no fence.
    pub stale_rejected: Option<u32>,
    /// Answers that the lock is busy or unavailable. `None` if the mode has no lock.
    pub busy: Option<u32>,
    /// Median time from the first request of a buyer to the purchase, including retries, in milliseconds.
    pub p50_ms: Option<u64>,
    /// The 99th percentile of the same time, in milliseconds.
    pub p99_ms: Option<u64>,
    /// Duration of the mode, in milliseconds.
    pub elapsed_ms: u64,
    /// What the buyers experienced.
    pub answers: Answers,
    /// Whether the mode ran to completion.
    pub complete: bool,
}

/// How many buyers ended how, and how often they had to retry.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Answers {
    /// Buyers who bought a unit.
    pub bought: u32,
    /// Buyers who came when everything was sold.
    pub sold_out: u32,
    /// Buyers who got the answer `lock-lost` and do not know whether they bought a unit.
    pub unknown: u32,
    /// Buyers who gave up after too many busy or stale answers.
    pub gave_up: u32,
    /// Buyers who were still trying when the run was stopped or reached its time limit.
    pub stopped: u32,
    /// Buyers whose request failed in another way.
    pub failed: u32,
    /// The first of these failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    /// Answers that the lock is busy or unavailable, after which the buyer tried again.
    pub busy: u32,
    /// Answers that the fencing token is stale, after which the buyer tried again.
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

    /// How a guarded mode broke its promise. One that was stopped early may have units left.
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
                 (buyers: {gave_up} gave up, {stopped} ran out of time, {unknown} in doubt, {failed} failed{}{})",
                self.orders,
                if first.is_some() { ", the first with: " } else { "" },
                first.unwrap_or_default(),
            ));
        }
        None
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The nearest-rank percentile: the smallest value that at least `percent` % of `sorted` do not exceed.
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
        assert!(failure.contains("1 failed, the first with: answer 500)"), "{failure}");
        sold_99.complete = false;
        assert_eq!(sold_99.failure(), None);
    }
}
