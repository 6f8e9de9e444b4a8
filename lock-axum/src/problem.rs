use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// A problem document (RFC 9457).
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: Option<Kind>,
    detail: Option<String>,
    retry_after: Option<Duration>,
}

/// The problems that clients can tell apart.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Busy,
    Unavailable,
    Lost,
    KeyInvalid,
}

impl Kind {
    fn uri(self) -> &'static str {
        match self {
            Self::Busy => "urn:problem:lock-axum:lock-busy",
            Self::Unavailable => "urn:problem:lock-axum:lock-unavailable",
            Self::Lost => "urn:problem:lock-axum:lock-lost",
            Self::KeyInvalid => "urn:problem:lock-axum:lock-key-invalid",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Busy => "The resource is locked",
            Self::Unavailable => "Locks are unavailable",
            Self::Lost => "The lock was lost",
            Self::KeyInvalid => "The lock key is invalid",
        }
    }
}

impl Problem {
    pub(crate) fn busy(status: StatusCode, detail: &str, retry_after: Option<Duration>) -> Self {
        Self { status, kind: Some(Kind::Busy), detail: Some(detail.to_owned()), retry_after }
    }

    pub(crate) fn unavailable(detail: &str, retry_after: Option<Duration>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        // Worth another try in any case: another instance may do better.
        let retry_after = retry_after.or(Some(Duration::from_secs(1)));
        Self { status, kind: Some(Kind::Unavailable), detail: Some(detail.to_owned()), retry_after }
    }

    pub(crate) fn lost() -> Self {
        let detail = "the lock ended before the request did; whether it took effect is not known";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self { status, kind: Some(Kind::Lost), detail: Some(detail.to_owned()), retry_after: None }
    }

    pub(crate) fn key_invalid(detail: String) -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self { status, kind: Some(Kind::KeyInvalid), detail: Some(detail), retry_after: None }
    }

    /// A mistake of the service. The log has the details; the client has no use for them.
    pub(crate) fn internal() -> Self {
        Self::plain(StatusCode::INTERNAL_SERVER_ERROR, None)
    }

    /// A problem that its status tells.
    pub(crate) fn plain(status: StatusCode, detail: Option<String>) -> Self {
        Self { status, kind: None, detail, retry_after: None }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut document = json!({
            "type": self.kind.map_or("about:blank", Kind::uri),
            "title": self.kind.map_or(self.status.canonical_reason().unwrap_or_default(), Kind::title),
            "status": self.status.as_u16(),
        });
        if let Some(detail) = self.detail {
            document["detail"] = detail.into();
        }
        let mut response = (self.status, String::new()).into_response();
        if let Some(retry_after) = self.retry_after {
            document["retry_after_ms"] = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).into();
            // The header knows whole seconds only, and to come back at once is never asked for by it.
            let seconds = u64::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        *response.body_mut() = document.to_string().into();
        response
    }
}
