//! `Lease`, `Leases` and `FencingToken` as axum extractors. The orphan rule requires these impls in the crate of the types; everything
//! else that concerns HTTP is in `lock-axum`.

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use thiserror::Error;

use crate::{FencingToken, Lease, Leases, LockManager};

/// In the extensions of a request whose handler acquires a lock of this manager after its extractors have run. Not public
/// API.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct LockPending(pub LockManager);

const BEFORE_THE_LOCK: &str = "an extractor of a handler with #[distributed_lock] runs before its lock is acquired";

/// The rejection of the extractors `Lease`, `Leases` and `FencingToken` in a request that runs under no lock: `500 Internal Server
/// Error`.
///
/// Either nothing guards the route, or `#[distributed_lock]` guards its handler: the extractors of that run before its lock
/// is acquired. The event `lock.not_guarded` says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no {wanted} in the request: {}", if *pending { BEFORE_THE_LOCK } else { "no LockLayer guards the route" })]
pub struct MissingLease {
    wanted: &'static str,
    /// Whether the lock is acquired after extraction.
    pending: bool,
}

impl MissingLease {
    /// If the lock is still to be acquired, this is logged here and not with the response, because there may be none: axum's
    /// derive, for example, turns the rejection of an optional field into `None`.
    fn new(wanted: &'static str, parts: &Parts) -> Self {
        let missing = Self { wanted, pending: is_pending(parts) };
        if missing.pending {
            log_event!(error: "lock.not_guarded",
                "{missing}; take the {wanted} as a parameter of the handler itself, or put a LockLayer around the handler, whose \
                 lease its extractors see; a request that the handler passes on carries the lease if its parameter is the \
                 Request or Parts itself");
        }
        missing
    }
}

/// Whether the lock of the request's handler is acquired after extraction.
fn is_pending(parts: &Parts) -> bool {
    parts.extensions.get::<LockPending>().is_some()
}

impl IntoResponse for MissingLease {
    fn into_response(self) -> Response {
        if !self.pending {
            log_event!(error: "lock.not_guarded",
                "{self}; add .route_layer(LockLayer::new(..)), or #[distributed_lock] without `manager`; a function with \
                 `manager` has its lease in Lease::current()");
        }
        let problem = r#"{"type":"about:blank","title":"Internal Server Error","status":500}"#;
        let json = HeaderValue::from_static("application/problem+json");
        (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, json)], problem).into_response()
    }
}

macro_rules! extractor {
    ($type:ident) => {
        impl<S: Sync> FromRequestParts<S> for $type {
            type Rejection = MissingLease;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, MissingLease> {
                parts.extensions.get().cloned().ok_or_else(|| MissingLease::new(stringify!($type), parts))
            }
        }

        /// `None` if nothing guards the route. A lock that is still to be acquired is no reason to run without its lease.
        impl<S: Sync> OptionalFromRequestParts<S> for $type {
            type Rejection = MissingLease;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, MissingLease> {
                match parts.extensions.get().cloned() {
                    None if is_pending(parts) => Err(MissingLease::new(stringify!($type), parts)),
                    found => Ok(found),
                }
            }
        }
    };
}

extractor!(Lease);
extractor!(FencingToken);
extractor!(Leases);
