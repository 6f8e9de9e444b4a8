use std::fmt;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lock_core::LockError;
use thiserror::Error;

use crate::problem::Problem;

/// Why a guarded handler did not answer, as an answer.
///
/// | case | status | `type` ends in | `Retry-After` |
/// |---|---|---|---|
/// | held elsewhere until `wait` ran out; queue full | 409, or `busy_status` | `lock-busy` | yes |
/// | majority unreachable; expired while acquiring; shutting down | 503 | `lock-unavailable` | yes |
/// | lease lost while the handler ran | 500 | `lock-lost` | no |
/// | key cannot be built from the request | 400 | `lock-key-invalid` | no |
/// | no lock manager in the router; options out of range | 500 | `about:blank`, and an error in the log | no |
///
/// The bodies are `application/problem+json` (RFC 9457) with `type`, `title`, `status`, `detail` and, where trying again may
/// help, `retry_after_ms`. They contain neither the key nor its owner.
///
/// `lock-lost` may follow a write that was committed: the client can not know. Let clients send idempotency keys, and let the
/// resource check the fencing token.
///
/// A function that is guarded with `manager = ..` can return it, too: it is [`From<LockError>`].
pub struct LockRejection(Box<Cause>);

enum Cause {
    Lock { error: LockError, busy_status: StatusCode },
    Key(KeyError),
    NoManager,
    NoPathParameter(String),
    RuntimeEnded,
    Answered(Response),
}

impl LockRejection {
    /// The error of the lock, if that is the cause and `on_error` did not take it.
    #[must_use]
    pub fn lock_error(&self) -> Option<&LockError> {
        match &*self.0 {
            Cause::Lock { error, .. } => Some(error),
            _ => None,
        }
    }

    pub(crate) fn new(error: LockError, busy_status: u16) -> Self {
        let busy_status = StatusCode::from_u16(busy_status).unwrap_or(StatusCode::CONFLICT);
        Self(Box::new(Cause::Lock { error, busy_status }))
    }

    /// The answer of the user's own function, unless that hides a loss behind a success.
    pub(crate) fn answered_by(on_error: &dyn Fn(LockError) -> Response, error: LockError) -> Self {
        let lost = matches!(error, LockError::Lost { .. }).then(|| error.clone());
        let response = on_error(error);
        match lost {
            Some(error) if response.status().is_success() => error.into(),
            _ => Self(Box::new(Cause::Answered(response))),
        }
    }

    pub(crate) fn no_manager() -> Self {
        Self(Box::new(Cause::NoManager))
    }

    pub(crate) fn no_path_parameter(name: &str) -> Self {
        Self(Box::new(Cause::NoPathParameter(name.to_owned())))
    }

    pub(crate) fn runtime_ended() -> Self {
        Self(Box::new(Cause::RuntimeEnded))
    }
}

impl From<LockError> for LockRejection {
    fn from(error: LockError) -> Self {
        Self::new(error, StatusCode::CONFLICT.as_u16())
    }
}

impl From<KeyError> for LockRejection {
    fn from(error: KeyError) -> Self {
        Self(Box::new(Cause::Key(error)))
    }
}

impl IntoResponse for LockRejection {
    fn into_response(self) -> Response {
        match *self.0 {
            Cause::Answered(response) => response,
            Cause::Lock { error, busy_status } => lock_problem(&error, busy_status).into_response(),
            Cause::Key(error) => Problem::key_invalid(error.to_string()).into_response(),
            Cause::RuntimeEnded => Problem::unavailable("the server is shutting down", None).into_response(),
            Cause::NoManager => {
                tracing::error!(name: "lock.no_manager",
                    "no LockManager in the request; add .layer(Extension(locks)) around the guarded routes");
                Problem::internal().into_response()
            }
            Cause::NoPathParameter(name) => {
                tracing::error!(name: "lock.no_path_parameter", parameter = name,
                    "the template names a path parameter that the route does not have; use route_layer on routes that do");
                Problem::internal().into_response()
            }
        }
    }
}

fn lock_problem(error: &LockError, busy_status: StatusCode) -> Problem {
    let retry_after = error.retry_after();
    match error {
        LockError::Contended { .. } => {
            Problem::busy(busy_status, "the resource is locked by another request", retry_after)
        }
        LockError::QueueFull { .. } => {
            Problem::busy(busy_status, "too many requests wait for the resource", retry_after)
        }
        LockError::NoQuorum { .. } => Problem::unavailable("too few lock servers answer", retry_after),
        LockError::Expired { .. } => Problem::unavailable("the lock was granted too late", retry_after),
        LockError::ShuttingDown { .. } => Problem::unavailable("the server is shutting down", retry_after),
        LockError::Lost { .. } => Problem::lost(),
        LockError::InvalidResource { reason, .. } => {
            Problem::key_invalid(format!("the name of the resource can not be used: {reason}"))
        }
        // Options that can not be taken are the service's mistake, not the client's; so is whatever else there will be.
        error => {
            tracing::error!(name: "lock.misconfigured", %error, "a guarded route can not take its lock");
            Problem::internal()
        }
    }
}

impl fmt::Display for LockRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Lock { error, .. } => error.fmt(f),
            Cause::Key(error) => error.fmt(f),
            Cause::NoManager => f.write_str("no lock manager in the router"),
            Cause::NoPathParameter(name) => write!(f, "the route has no path parameter {name:?}"),
            Cause::RuntimeEnded => f.write_str("the runtime was shut down"),
            Cause::Answered(response) => write!(f, "answered by on_error with {}", response.status()),
        }
    }
}

impl fmt::Debug for LockRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockRejection({self})")
    }
}

impl std::error::Error for LockRejection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Cause::Lock { error, .. } => Some(error),
            Cause::Key(error) => Some(error),
            _ => None,
        }
    }
}

/// The name of the resource can not be built from a request: 400 `lock-key-invalid`. The message goes to the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct KeyError {
    message: String,
}

impl KeyError {
    /// An error with a message for the client, such as `x-tenant header is missing`.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
