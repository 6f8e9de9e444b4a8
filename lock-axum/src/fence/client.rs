//! What the claims of the SQL clients share.

use std::error::Error;

use axum::response::{IntoResponse as _, Response};
use lock_core::FencingToken;

use super::StaleToken;
use crate::problem::Problem;

/// The largest token that has claimed the resource `$1`.
pub(super) const SEEN: &str = "SELECT token FROM lock_fence WHERE resource = $1";

/// Reports a claim that changed no row, with what [`SEEN`] returned.
pub(super) fn refused(sink: &'static str, resource: &str, token: FencingToken, seen: Option<i64>) -> StaleToken {
    StaleToken::report(sink, resource, token, seen.and_then(|seen| u64::try_from(seen).ok()))
}

/// The response to a claim whose database failed.
pub(super) fn failed(error: &dyn Error) -> Response {
    tracing::error!(name: "lock.claim_failed", %error, "the database failed");
    Problem::internal().into_response()
}
