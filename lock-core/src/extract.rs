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

/// The rejection of the extractors `Lease`, `Leases` and `FencingToken` in a request that runs under no lock, or under one that does not
/// have what is extracted: `500 Internal Server Error`.
///
/// Nothing guards the route; or its layer locks several resources, which have [`Leases`], and one has a [`Lease`] and a [`FencingToken`];
/// or `#[distributed_lock]` guards its handler: the extractors of that run before its lock is acquired. The event `lock.not_guarded` says
/// what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no {wanted} in the request: {why}")]
pub struct MissingLease {
    wanted: &'static str,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum Why {
    #[error("no LockLayer guards the route")]
    Unguarded,
    #[error("an extractor of a handler with #[distributed_lock] runs before its lock is acquired")]
    Pending,
    #[error("its lock is of one resource: take `Lease`")]
    IsOfOne,
    #[error("its locks are of several resources, which have a lease and a token each: take `Leases`")]
    IsOfSeveral,
}

impl Why {
    /// Of a request without what is wanted.
    fn of(parts: &Parts) -> Self {
        match &parts.extensions {
            extensions if extensions.get::<LockPending>().is_some() => Self::Pending,
            extensions if extensions.get::<Leases>().is_some() => Self::IsOfSeveral,
            extensions if extensions.get::<Lease>().is_some() => Self::IsOfOne,
            _ => Self::Unguarded,
        }
    }
}

impl MissingLease {
    /// If the route is guarded, this is logged here and not with the response, because there may be none: axum's derive, for example,
    /// turns the rejection of an optional field into `None`.
    fn new(wanted: &'static str, parts: &Parts) -> Self {
        let missing = Self { wanted, why: Why::of(parts) };
        match missing.why {
            Why::Unguarded => {}
            Why::IsOfOne | Why::IsOfSeveral => log_event!(error: "lock.not_guarded", "{missing}"),
            Why::Pending => log_event!(error: "lock.not_guarded",
                "{missing}; take the {wanted} as a parameter of the handler itself, or put a LockLayer around the handler, whose \
                 lease its extractors see; a request that the handler passes on carries the lease if its parameter is the \
                 Request or Parts itself"),
        }
        missing
    }
}

impl IntoResponse for MissingLease {
    fn into_response(self) -> Response {
        if self.why == Why::Unguarded {
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

        /// `None` if nothing guards the route. A lock that is still to be acquired, or that has what another of these extractors takes, is
        /// no reason to run without its lease.
        impl<S: Sync> OptionalFromRequestParts<S> for $type {
            type Rejection = MissingLease;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, MissingLease> {
                match parts.extensions.get().cloned() {
                    None if Why::of(parts) != Why::Unguarded => Err(MissingLease::new(stringify!($type), parts)),
                    found => Ok(found),
                }
            }
        }
    };
}

extractor!(Lease);
extractor!(FencingToken);
extractor!(Leases);
