use std::fmt;

use axum::response::{IntoResponse, Response};
use lock_core::FencingToken;
use thiserror::Error;

use crate::problem::Problem;

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
/// let refused = StaleToken::report(guard.resource(), guard.token(), Some(newer));
/// assert_eq!(refused.seen(), Some(newer));
/// assert_eq!(refused.into_response().status(), StatusCode::CONFLICT);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "token {token} of {resource:?} is stale: a later holder of the lock has claimed it{}; roll back, and acquire the lock \
     again to retry", Seen(*seen)
)]
pub struct StaleToken {
    resource: String,
    token: FencingToken,
    seen: Option<u64>,
}

impl StaleToken {
    /// Creates the error, and reports the refused claim as the event `lock.stale_token`.
    ///
    /// For claims that are made without the functions of [`fence`](crate::fence). `seen` is the larger token that the
    /// resource has seen, if it is known.
    #[must_use]
    pub fn report(resource: impl Into<String>, token: FencingToken, seen: Option<u64>) -> Self {
        let resource = resource.into();
        tracing::warn!(name: "lock.stale_token", resource, token = token.get(), seen,
            "the resource refused a holder whose lock has passed to another");
        Self { resource, token, seen }
    }

    /// What was claimed.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The token that was refused.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The larger token that the resource has seen, if it is known.
    #[must_use]
    pub fn seen(&self) -> Option<u64> {
        self.seen
    }
}

impl IntoResponse for StaleToken {
    fn into_response(self) -> Response {
        Problem::stale_token().into_response()
    }
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
