//! What the claims of the SQL clients share.

use std::error::Error;

use axum::response::{IntoResponse as _, Response};

use super::{Claimant, StaleToken};
use crate::problem::Problem;

/// The largest token that has claimed the resource `$1`.
pub(super) const SEEN: &str = "SELECT token FROM lock_fence WHERE resource = $1";

/// The largest token that is larger than `$2` and has claimed the resource `$1`, and the isolation level. PostgreSQL only.
#[cfg(any(feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
pub(super) const CHECK_AND_LEVEL: &str = "SELECT current_setting('transaction_isolation'), \
     (SELECT token FROM lock_fence WHERE resource = $1 AND token > $2)";

/// Whether a transaction of this isolation level sees only what was committed before it began.
#[cfg(any(feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
pub(super) fn has_a_snapshot(level: &str) -> bool {
    matches!(level, "repeatable read" | "serializable")
}

/// To be called before a claim or a check. The metric of its sink then begins at zero: if it began with the first refusal, that would be no
/// increase.
pub(super) fn may_be_refused(sink: &'static str) {
    #[cfg(feature = "metrics")]
    drop(super::stale_token::rejections(sink));
    #[cfg(not(feature = "metrics"))]
    let _ = sink;
}

/// Reports a claim that changed no row, with what [`SEEN`] returned.
pub(super) fn refused(sink: &'static str, claimant: Claimant, seen: Option<i64>) -> StaleToken {
    StaleToken::report(sink, claimant, seen.and_then(|seen| u64::try_from(seen).ok()))
}

/// The response to a claim or a check that failed.
pub(super) fn failed(error: &dyn Error, why: &str) -> Response {
    lock_core::log_event!(error: "lock.claim_failed", %error, "{why}");
    Problem::internal().into_response()
}
