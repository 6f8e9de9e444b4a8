//! The shop's handlers in a trial: which schedule oversells which of them.

use axum::{body::Body, http::Request, http::header::CONTENT_TYPE};
use lock_axum::testing::{Outcome, Question, Trial};
use serde::{Serialize, Serializer};

use super::{Mode, ledger, variants};
use crate::shop::{Database, Shop, SimulatedProvider, Store};

const SKU: &str = "apple";
const UNITS: u32 = 3;
/// Time enough for the other buyer.
const PAYMENT: std::time::Duration = std::time::Duration::from_millis(1);

/// What [`try_out`] found.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TrialReport {
    /// One row for each way to sell a unit.
    pub modes: Vec<TrialRow>,
}

/// What was found of one handler.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TrialRow {
    /// The handler.
    pub mode: Mode,
    /// How many runs were made.
    pub runs: usize,
    /// Whether each question found what it should find, and nothing else.
    pub as_expected: bool,
    /// The questions that found a schedule which oversells.
    #[serde(serialize_with = "names")]
    pub broken_by: Vec<Question>,
    /// The outcome, told step by step.
    pub told: String,
}

impl TrialReport {
    /// Whether the handlers were told apart: the unguarded one by `race`, those without a fence, or with one that is checked at the write only,
    /// by `frozen`, and the last by nothing.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.modes.iter().all(|row| row.as_expected)
    }
}

impl std::fmt::Display for TrialReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, row) in self.modes.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            writeln!(f, "{gap}{}\n{}", row.mode.label().trim_start().trim_start_matches("+ "), row.told)?;
        }
        Ok(())
    }
}

/// Tries the handlers of the shop, each with two buyers of one unit and a SQLite database in memory: without a lock, with one, with a fence
/// that is checked at the write only, and with one that is claimed first. On a runtime of its own, because a trial counts its tasks.
///
/// # Errors
///
/// If no runtime can be started.
pub fn try_out() -> std::io::Result<TrialReport> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let modes = [Mode::NoLock, Mode::DistributedLock, Mode::PauseFenceAtWrite, Mode::PauseFenceClaimed];
    Ok(TrialReport { modes: modes.into_iter().map(|mode| runtime.block_on(try_mode(mode))).collect() })
}

async fn try_mode(mode: Mode) -> TrialRow {
    let outcome = Trial::new(|| async { open().await.ok() })
        .service(move |locks, store| match store {
            Some(store) => variants::router(mode, Shop::new(store, SimulatedProvider::new(PAYMENT)), &locks),
            // The check says so.
            None => axum::Router::new(),
        })
        .request(buy)
        .request(buy)
        .check(|store, _| async move {
            let Some(store) = store else { return false };
            let (stock, sold) = (store.quantity(SKU).await, ledger::sold(&store, SKU).await);
            matches!((stock, sold), (Ok(stock), Ok(sold)) if stock + sold.units == i64::from(UNITS))
        })
        .run()
        .await;
    let broken_by: Vec<_> = Question::ALL.into_iter().filter(|question| outcome.breaks(*question)).collect();
    let expected: &[Question] = match mode {
        Mode::NoLock => &[Question::Race],
        Mode::DistributedLock | Mode::PauseFenceAtWrite => &[Question::Frozen],
        _ => &[],
    };
    let Outcome { runs, ref problems, .. } = outcome;
    let as_expected = broken_by == expected && problems.is_empty();
    TrialRow { mode, runs, as_expected, broken_by, told: outcome.to_string() }
}

async fn open() -> Result<Store, crate::shop::ShopError> {
    let store = Store::open(&Database::Sqlite(":memory:".into())).await?;
    ledger::seed(&store, SKU, UNITS).await?;
    Ok(store)
}

fn buy() -> Request<Body> {
    let mut request = Request::new(Body::from("{\"quantity\":1}"));
    *request.method_mut() = axum::http::Method::POST;
    *request.uri_mut() = axum::http::Uri::from_static("/stock/apple/deduct");
    request.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    request
}

fn names<S: Serializer>(questions: &[Question], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(questions.iter().map(ToString::to_string))
}
