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

/// A type of problems that a client can distinguish: its name and its title.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProblemType(&'static str, &'static str);

impl ProblemType {
    pub(crate) fn uri(self) -> String {
        format!("urn:problem:lock-axum:{}", self.0)
    }
}

pub(crate) const BUSY: ProblemType = ProblemType("lock-busy", "The resource is locked");
pub(crate) const UNAVAILABLE: ProblemType = ProblemType("lock-unavailable", "Locks are unavailable");
pub(crate) const BUFFER_FULL: ProblemType = ProblemType("lock-buffer-full", "Too many request bodies are in memory");
pub(crate) const LOST: ProblemType = ProblemType("lock-lost", "The lock was lost");
pub(crate) const KEY_INVALID: ProblemType = ProblemType("lock-key-invalid", "The lock key is invalid");
const DELEGATION_REFUSED: ProblemType = ProblemType("lock-delegation-refused", "The delegation was refused");
const STALE_TOKEN: ProblemType = ProblemType("stale-fencing-token", "The fencing token is stale");

impl Problem {
    pub(crate) fn busy(status: StatusCode, detail: &str, retry: Retry) -> Self {
        Self { status, problem_type: Some(BUSY), detail: Some(detail.to_owned()), retry: Some(retry) }
    }

    /// Always worth another attempt: another instance of the service may be able to acquire locks.
    pub(crate) fn unavailable(detail: &str, retry_after: Duration) -> Self {
        let (status, retry) = (StatusCode::SERVICE_UNAVAILABLE, Some(Retry::after(retry_after)));
        Self { status, problem_type: Some(UNAVAILABLE), detail: Some(detail.to_owned()), retry }
    }

    pub(crate) fn buffer_full(retry_after: Duration) -> Self {
        let (status, retry) = (StatusCode::SERVICE_UNAVAILABLE, Some(Retry::after(retry_after)));
        let detail = "the bodies of requests that wait for locks take up all the memory that is set aside for them";
        Self { status, problem_type: Some(BUFFER_FULL), detail: Some(detail.to_owned()), retry }
    }

    pub(crate) fn lost() -> Self {
        let detail = "the lock was lost before the request completed; the request may or may not have taken effect";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self { status, problem_type: Some(LOST), detail: Some(detail.to_owned()), retry: None }
    }

    pub(crate) fn key_invalid(detail: String) -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self { status, problem_type: Some(KEY_INVALID), detail: Some(detail), retry: None }
    }

    pub(crate) fn delegation_refused(detail: String) -> Self {
        let (status, problem_type) = (StatusCode::FORBIDDEN, Some(DELEGATION_REFUSED));
        Self { status, problem_type, detail: Some(detail), retry: None }
    }

    pub(crate) fn stale_token() -> Self {
        let detail =
            "a later request has taken over the resource; the write was refused, and the request may be sent again";
        let status = StatusCode::CONFLICT;
        Self { status, problem_type: Some(STALE_TOKEN), detail: Some(detail.to_owned()), retry: None }
    }

    /// An error of the service itself. The details are in the log, not in the response.
    pub(crate) fn internal() -> Self {
        Self::untyped(StatusCode::INTERNAL_SERVER_ERROR, None)
    }

    /// A problem of type `about:blank`: its status says what is wrong.
    pub(crate) fn untyped(status: StatusCode, detail: Option<String>) -> Self {
        Self { status, problem_type: None, detail, retry: None }
    }
}

impl Retry {
    /// When nothing more precise is known than what the header says.
    fn after(header: Duration) -> Self {
        Self { header, after: header }
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
