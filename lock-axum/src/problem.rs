use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// A problem document (RFC 9457): the body of every response that is an error of the lock.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// `None` for `about:blank`, where the status says it all.
    problem_type: Option<ProblemType>,
    detail: Option<String>,
    retry: Option<Retry>,
}

/// When the client may try again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// The header `Retry-After`: whole seconds.
    pub(crate) header: Duration,
    /// More precisely, in the body.
    pub(crate) after: Duration,
}

/// A type of problems that a client can distinguish: its name, its title, and its usual status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProblemType(&'static str, &'static str, StatusCode);

impl ProblemType {
    pub(crate) fn uri(self) -> String {
        format!("urn:problem:lock-axum:{}", self.0)
    }
}

pub(crate) const BUSY: ProblemType = ProblemType("lock-busy", "The resource is locked", StatusCode::CONFLICT);
pub(crate) const UNAVAILABLE: ProblemType =
    ProblemType("lock-unavailable", "Locks are unavailable", StatusCode::SERVICE_UNAVAILABLE);
pub(crate) const BUFFER_FULL: ProblemType =
    ProblemType("lock-buffer-full", "Too many request bodies are in memory", StatusCode::SERVICE_UNAVAILABLE);
pub(crate) const LOST: ProblemType = ProblemType("lock-lost", "The lock was lost", StatusCode::INTERNAL_SERVER_ERROR);
pub(crate) const KEY_INVALID: ProblemType =
    ProblemType("lock-key-invalid", "The lock key is invalid", StatusCode::BAD_REQUEST);
pub(crate) const DELEGATION_REFUSED: ProblemType =
    ProblemType("lock-delegation-refused", "The delegation was refused", StatusCode::FORBIDDEN);
pub(crate) const STALE_TOKEN: ProblemType =
    ProblemType("stale-fencing-token", "The fencing token is stale", StatusCode::CONFLICT);

impl Problem {
    /// A problem of a type, with what the client is told of it.
    pub(crate) fn of(problem_type: ProblemType, detail: impl Into<String>) -> Self {
        Self { status: problem_type.2, problem_type: Some(problem_type), detail: Some(detail.into()), retry: None }
    }

    pub(crate) fn busy(status: StatusCode, detail: &str, retry: Retry) -> Self {
        Self { status, retry: Some(retry), ..Self::of(BUSY, detail) }
    }

    /// Always worth another attempt: another instance of the service may be able to acquire locks.
    pub(crate) fn unavailable(problem_type: ProblemType, detail: &str, after: Duration) -> Self {
        // Nothing more precise is known than what the header says.
        Self { retry: Some(Retry { header: after, after }), ..Self::of(problem_type, detail) }
    }

    /// An error of the service itself. The details are in the log, not in the response.
    pub(crate) fn internal() -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, problem_type: None, detail: None, retry: None }
    }

    /// A problem of type `about:blank`: its status says what is wrong.
    pub(crate) fn untyped(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: Some(detail.into()), ..Self::internal() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (uri, title) = match self.problem_type {
            Some(problem_type) => (problem_type.uri(), problem_type.1),
            None => ("about:blank".to_owned(), self.status.canonical_reason().unwrap_or_default()),
        };
        let mut document = json!({ "type": uri, "title": title, "status": self.status.as_u16() });
        if let Some(detail) = self.detail {
            document["detail"] = detail.into();
        }
        let mut response = (self.status, String::new()).into_response();
        if let Some(Retry { header, after }) = self.retry {
            document["retry_after_ms"] = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into();
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(header.as_secs()));
        }
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        *response.body_mut() = document.to_string().into();
        response
    }
}
