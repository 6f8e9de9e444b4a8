use std::fmt;

use axum::response::{IntoResponse, Response};
use lock_core::FencingToken;
use thiserror::Error;

use super::Claimant;
use crate::problem::{Problem, STALE_TOKEN};

/// A resource refused a claim, because a later holder of the lock has claimed it.
///
/// The lock has passed to that holder. Roll the transaction back. To try again, acquire the lock again: it comes with a
/// larger token.
///
/// As a response it is 409 with the problem type `stale-fencing-token`, so that a handler can return it with `?`. The response
/// does not contain the resource.
///
/// # Examples
///
/// ```
/// use axum::http::StatusCode;
/// use axum::response::IntoResponse as _;
/// use lock_axum::LockManager;
/// use lock_axum::fence::StaleToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_axum::LockError> {
/// let guard = LockManager::in_memory().lock("stock:42").acquire().await?;
/// let newer = guard.token().get() + 1;
/// let refused = StaleToken::report("sqlite", &guard.lease(), Some(newer));
/// assert_eq!(refused.seen(), Some(newer));
/// assert_eq!(refused.into_response().status(), StatusCode::CONFLICT);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "token {} of {:?} is stale: a later holder of the lock has claimed it{}; roll back, and acquire the lock again to retry",
    claimant.token(), claimant.resource(), Seen(*seen)
)]
pub struct StaleToken {
    claimant: Claimant,
    seen: Option<u64>,
}

impl StaleToken {
    /// Creates the error, and reports the refused claim: as the event `lock.stale_token` and, with the feature `metrics`, in
    /// `lock_fence_rejections_total`.
    ///
    /// For claims that are made without the functions of [`fence`](crate::fence). `claimant` is the `&Lease` that was refused. `sink` is
    /// a word for the store that refused it, such as `sqlite` or `invoices`: a label of the metric, so take it from the program and
    /// not from a request.
    /// `seen` is the larger token that the resource has seen, if it is known.
    ///
    /// The event does not name the resource. A token may be checked far from the manager that knows whether names are
    /// [redacted](lock_core::LockManagerBuilder::redact): on another thread, or by another service. Log the error if you
    /// want the name.
    pub fn report(sink: &'static str, claimant: impl Into<Claimant>, seen: Option<u64>) -> Self {
        let claimant = claimant.into();
        lock_core::log_event!(warn: "lock.stale_token", sink, token = claimant.token().get(), seen,
            "the resource refused a holder whose lock has passed to another");
        #[cfg(feature = "metrics")]
        rejections(sink).increment(1);
        Self { claimant, seen }
    }

    /// What was claimed.
    pub fn resource(&self) -> &str {
        self.claimant.resource()
    }

    /// The token that was refused.
    pub fn token(&self) -> FencingToken {
        self.claimant.token()
    }

    /// The larger token that the resource has seen, if it is known.
    pub fn seen(&self) -> Option<u64> {
        self.seen
    }
}

impl IntoResponse for StaleToken {
    fn into_response(self) -> Response {
        let detail =
            "a later request has taken over the resource; the write was refused, and the request may be sent again";
        Problem::of(STALE_TOKEN, detail).into_response()
    }
}

#[cfg(feature = "metrics")]
pub(super) fn rejections(sink: &'static str) -> metrics::Counter {
    const REJECTIONS: &str = "lock_fence_rejections_total";
    metrics::describe_counter!(REJECTIONS, metrics::Unit::Count, "Claims that were refused, by what refused them");
    metrics::counter!(REJECTIONS, "sink" => sink)
}

struct Seen(Option<u64>);

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(token) => write!(f, " with token {token}"),
            None => Ok(()),
        }
    }
}
