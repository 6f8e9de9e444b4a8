use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lock_core::LockError;
use lock_core::delegation::AdoptError;
use thiserror::Error;

use crate::key_error::KeyError;
use crate::policy::Policy;
use crate::problem::{DELEGATION_REFUSED, KEY_INVALID, LOST, Problem, Retry, UNAVAILABLE};
use crate::upload::Stopped;

/// Answers a lock error, instead of the problem document.
pub(crate) type AnswerError = dyn Fn(LockError) -> Response + Send + Sync;

/// A response that is sent instead of a guarded handler's own, because the lock was not acquired or was lost.
///
/// It is a problem document (RFC 9457), unless `on_error` has answered; [HTTP responses](crate#http-responses) lists
/// all cases. A handler with `#[distributed_lock]` returns `Result<Response, LockRejection>`, and
/// [`LockLayer`](crate::LockLayer) answers with the same rejections.
///
/// It implements `From<LockError>` and `From<AdoptError>`, so that a handler that acquires a lock or adopts a delegation itself
/// can return it, too. As an error, it has the text of the [`LockError`], [`AdoptError`] or [`KeyError`] that caused it, and that as its
/// source.
///
/// # Examples
///
/// ```
/// use axum::http::StatusCode;
/// use axum::response::IntoResponse as _;
/// use lock_axum::{LockManager, LockRejection};
///
/// async fn rebuild(locks: LockManager) -> Result<&'static str, LockRejection> {
///     let _guard = locks.lock("index").try_acquire().await?;
///     Ok("rebuilt")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_axum::LockError> {
/// let locks = LockManager::in_memory();
/// let _guard = locks.lock("index").acquire().await?;
/// let response = rebuild(locks).await.into_response();
/// assert_eq!(response.status(), StatusCode::CONFLICT);
/// # Ok(())
/// # }
/// ```
#[derive(Error)]
#[error(transparent)]
pub struct LockRejection(Box<Cause>);

/// A log that prints only the text of an error, and not its source, has to say why.
#[derive(Debug, Error)]
pub(crate) enum Cause {
    #[error("{error}")]
    Lock {
        #[source]
        error: LockError,
        busy_status: StatusCode,
        retry_after: Duration,
    },
    #[error("{0}")]
    Key(#[source] KeyError),
    #[error("{error}")]
    Adopt {
        #[source]
        error: AdoptError,
        retry_after: Duration,
    },
    /// The request is not handled under the lock of its sender, although its delegation may be valid.
    #[error("{0}")]
    NotDelegated(&'static str),
    #[error("no lock manager in the request extensions")]
    NoManager,
    /// The request's body was not read.
    #[error("{stopped}")]
    Stopped { stopped: Stopped, retry_after: Duration },
    /// In a mutex, because the body of a response is not `Sync`. It is never locked.
    #[error("answered by on_error with {status}")]
    Answered { status: StatusCode, response: Mutex<Response> },
}

impl LockRejection {
    /// The lock error that caused the rejection. `None` if the cause is another one, or if `on_error` has answered it.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_axum::{LockError, LockManager, LockRejection};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = LockManager::in_memory().lock("").acquire().await.unwrap_err();
    /// let rejection = LockRejection::from(error);
    /// assert!(matches!(rejection.lock_error(), Some(LockError::InvalidResource { .. })));
    /// # }
    /// ```
    pub fn lock_error(&self) -> Option<&LockError> {
        match &*self.0 {
            Cause::Lock { error, .. } => Some(error),
            _ => None,
        }
    }

    pub(crate) fn new(error: LockError, policy: &Policy) -> Self {
        let busy_status = StatusCode::from_u16(policy.busy_status).unwrap_or(StatusCode::CONFLICT);
        Cause::Lock { error, busy_status, retry_after: policy.retry_after }.into()
    }

    /// The response of the user's `on_error`, unless it is no error although the lock was lost.
    pub(crate) fn answered_by(on_error: &AnswerError, error: LockError) -> Self {
        let lost = matches!(error, LockError::Lost { .. }).then(|| error.clone());
        log_mistake(&error);
        let mut response = on_error(error);
        if let Some(error) = &lost {
            note_token(&mut response, error);
        }
        match lost {
            Some(error) if response.status() < StatusCode::BAD_REQUEST => error.into(),
            _ => Cause::Answered { status: response.status(), response: Mutex::new(response) }.into(),
        }
    }
}

impl From<Cause> for LockRejection {
    fn from(cause: Cause) -> Self {
        Self(Box::new(cause))
    }
}

impl From<LockError> for LockRejection {
    fn from(error: LockError) -> Self {
        Self::new(error, &Policy::default())
    }
}

impl From<AdoptError> for LockRejection {
    fn from(error: AdoptError) -> Self {
        Cause::Adopt { error, retry_after: Policy::default().retry_after }.into()
    }
}

impl From<KeyError> for LockRejection {
    fn from(error: KeyError) -> Self {
        Cause::Key(error).into()
    }
}

impl IntoResponse for LockRejection {
    fn into_response(self) -> Response {
        match *self.0 {
            Cause::Answered { response, .. } => response.into_inner().unwrap_or_else(PoisonError::into_inner),
            Cause::Lock { error, busy_status, retry_after } => {
                let mut response = lock_problem(&error, busy_status, retry_after).into_response();
                note_token(&mut response, &error);
                response
            }
            Cause::Key(error) => Problem::of(KEY_INVALID, error.to_string()).into_response(),
            Cause::Adopt { error, retry_after } => adopt_problem(&error, retry_after).into_response(),
            Cause::NotDelegated(reason) => Problem::of(DELEGATION_REFUSED, reason).into_response(),
            Cause::Stopped { stopped, retry_after } => stopped.problem(retry_after).into_response(),
            Cause::NoManager => {
                lock_core::log_event!(error: "lock.no_manager",
                    "no LockManager in the request extensions; add .layer(Extension(locks)) to the router, or `state` to the \
                     attribute if the manager is in the router's state");
                Problem::internal().into_response()
            }
        }
    }
}

/// Lets an access log tell by which token a request has written whose lock was lost.
fn note_token(response: &mut Response, error: &LockError) {
    if let LockError::Lost { token, .. } = error {
        response.extensions_mut().insert(*token);
    }
}

fn lock_problem(error: &LockError, busy_status: StatusCode, retry_after: Duration) -> Problem {
    match error {
        LockError::Contended { .. } => {
            Problem::busy(busy_status, "the resource is locked by another request", busy_retry(error, retry_after))
        }
        LockError::QueueFull { .. } => {
            Problem::busy(busy_status, "too many requests are waiting for the resource", busy_retry(error, retry_after))
        }
        LockError::NoQuorum { .. } => Problem::unavailable(UNAVAILABLE, "too few lock servers responded", retry_after),
        LockError::Expired { .. } => {
            Problem::unavailable(UNAVAILABLE, "the lock was granted too late to be used", retry_after)
        }
        LockError::ShuttingDown { .. } => Problem::unavailable(UNAVAILABLE, "the server is shutting down", retry_after),
        LockError::Lost { .. } => Problem::of(
            LOST,
            "the lock was lost before the request completed; the request may or may not have taken effect",
        ),
        LockError::InvalidResource { reason, .. } => Problem::of(KEY_INVALID, format!("invalid resource: {reason}")),
        // Of a forced release, as behind the button of the dashboard.
        LockError::TooManyReaders { .. } => Problem::untyped(StatusCode::CONFLICT, without_name(error)),
        // Invalid options are a mistake of the service, not of the client. `LockError` is non-exhaustive: an error
        // added later is answered like this, too.
        error => {
            log_mistake(error);
            Problem::internal()
        }
    }
}

/// Logs an error that is a mistake of the service, whatever its client is answered: it does not go away by itself.
fn log_mistake(error: &LockError) {
    match error {
        LockError::Contended { .. }
        | LockError::QueueFull { .. }
        | LockError::NoQuorum { .. }
        | LockError::Expired { .. }
        | LockError::ShuttingDown { .. }
        | LockError::Lost { .. }
        | LockError::TooManyReaders { .. }
        | LockError::InvalidResource { .. } => {}
        LockError::NotALock { .. } => {
            let error = without_name(error);
            lock_core::log_event!(error: "lock.not_a_lock", error, "the key of a lock holds something else");
        }
        LockError::Upgrade { .. } => {
            lock_core::log_event!(error: "lock.upgrade", "a guarded handler that reads locks the same resource to write");
        }
        error => {
            let error = without_name(error);
            lock_core::log_event!(error: "lock.misconfigured", error, "a guarded handler has invalid lock options, or uses its lock as it cannot be used");
        }
    }
}

/// The text of an error, without the name of the resource: the manager may have names redacted.
fn without_name(error: &LockError) -> String {
    error.to_string().replace(&format!("{:?}", error.resource()), "the resource")
}

/// The client is told what it can do about it, and nothing that only the holder knows.
fn adopt_problem(error: &AdoptError, retry_after: Duration) -> Problem {
    let detail = match error {
        AdoptError::NoQuorum { .. } => {
            return Problem::unavailable(UNAVAILABLE, "too few lock servers responded", retry_after);
        }
        AdoptError::ShuttingDown { .. } => {
            return Problem::unavailable(UNAVAILABLE, "the server is shutting down", retry_after);
        }
        AdoptError::Malformed => "the header is not a delegation that this service understands",
        AdoptError::OtherSet { .. } => "the delegation is of a lock on other lock servers",
        AdoptError::OtherAudience { .. } => "the delegation is for another service",
        AdoptError::OtherResource { .. } => "the delegation is for another resource than the one of the request",
        AdoptError::NotToWrite { .. } => "the delegation is to read, and the request writes",
        AdoptError::Expired { .. } => "the delegation has expired",
        // `AdoptError` is non-exhaustive: an error added later is refused, too.
        _ => "the lock is no longer held by the sender of the delegation",
    };
    Problem::of(DELEGATION_REFUSED, detail)
}

/// When a client may try again. The header is the same for all requests; the body has how long locks on the resource were held
/// lately, if that is known.
fn busy_retry(error: &LockError, retry_after: Duration) -> Retry {
    let typical = match error {
        LockError::Contended { typical_hold, .. } | LockError::QueueFull { typical_hold, .. } => {
            typical_hold.and(error.retry_after())
        }
        _ => None,
    };
    Retry { header: retry_after, after: typical.unwrap_or(retry_after) }
}

impl fmt::Debug for LockRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockRejection({self})")
    }
}
