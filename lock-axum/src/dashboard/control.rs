use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use lock_core::{Lease, LockManager};
use serde_json::{Value, json};

use super::events::Pages;
use crate::problem::Problem;
use crate::rejection::LockRejection;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The row whose button was pressed.
struct Pressed<'a> {
    resource: &'a str,
    /// `None` if another process holds the lock.
    token: Option<&'a str>,
}

/// `POST /release`: takes a lock from its holder.
pub(super) async fn release(State(pages): State<Arc<Pages>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    if !is_same_origin(&uri, &headers) {
        return refuse(StatusCode::FORBIDDEN, "the request comes from another site");
    }
    // Other sites cannot send this type without being asked whether they may.
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json");
    }
    let pressed: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(pressed) = Pressed::of(&pressed) else {
        return refuse(StatusCode::BAD_REQUEST, "expected the resource, and the token or null");
    };
    let locks = &pages.board.locks;
    if !pressed.is_current(locks) {
        return refuse(StatusCode::CONFLICT, "its holder has changed since it was shown");
    }
    match locks.force_release(pressed.resource).await {
        Ok(forced) => {
            let body = json!({ "token": forced.token.to_string() }).to_string();
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => LockRejection::from(error).into_response(),
    }
}

impl<'a> Pressed<'a> {
    fn of(pressed: &'a Value) -> Option<Self> {
        let token = match pressed.get("token")? {
            Value::Null => None,
            token => Some(token.as_str()?),
        };
        Some(Self { resource: pressed["resource"].as_str()?, token })
    }

    /// Whether the lock is held as it was shown: by this process with that token, perhaps beside other readers, or not by this process.
    fn is_current(&self, locks: &LockManager) -> bool {
        let held = locks.held();
        let mut tokens = held.iter().filter(|lease| lease.resource() == self.resource).map(Lease::token);
        match self.token {
            Some(shown) => tokens.any(|token| token.to_string() == shown),
            None => tokens.next().is_none(),
        }
    }
}

fn refuse(status: StatusCode, reason: &str) -> Response {
    Problem::untyped(status, reason).into_response()
}

/// Whether no other site made a browser send this request, with the credentials of its user.
///
/// Browsers say where a request comes from; what says nothing is no browser. `Origin` is only compared where the browser is too old
/// for `Sec-Fetch-Site`, because a proxy may have changed the host.
fn is_same_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    // HTTP/2 has it in the URI.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(uri.authority().map(Authority::as_str));
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, authority)| Some(authority) == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        is_same_origin(&Uri::from_static("/release"), &headers.collect())
    }

    #[test]
    fn the_page_itself_and_programs_may_press_buttons() {
        for headers in [
            &[("host", "locks.example")] as &[_],
            &[("host", "locks.example"), ("origin", "https://locks.example")],
            &[("host", "10.0.0.7:3000"), ("origin", "https://locks.example"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(check(headers), "{headers:?}");
        }
        let authority = Uri::from_static("https://locks.example/release");
        let origin = HeaderMap::from_iter([(header::ORIGIN, "https://locks.example".parse().unwrap())]);
        assert!(is_same_origin(&authority, &origin), "HTTP/2 has no host header");
    }

    #[test]
    fn other_sites_may_not() {
        for header in [
            ("origin", "https://evil.example"),
            ("origin", "https://locks.example:444"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(!check(&[("host", "locks.example"), header]), "{header:?}");
        }
    }
}
