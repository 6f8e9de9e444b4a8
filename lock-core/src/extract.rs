//! `Lease` and `FencingToken` as axum extractors. The orphan rule requires these impls in the crate of the types; everything
//! else that concerns HTTP is in `lock-axum`.

use std::fmt;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use crate::{FencingToken, Lease};

/// The rejection of the extractors `Lease` and `FencingToken` in a request that no lock guards: `500 Internal Server Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingLease {
    wanted: &'static str,
}

impl fmt::Display for MissingLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} in the request: the route has no LockLayer", self.wanted)
    }
}

impl std::error::Error for MissingLease {}

impl IntoResponse for MissingLease {
    fn into_response(self) -> Response {
        tracing::error!(name: "lock.not_guarded", "{self}; add .route_layer(LockLayer::new(..)) or #[distributed_lock]");
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
                parts.extensions.get().cloned().ok_or(MissingLease { wanted: stringify!($type) })
            }
        }

        impl<S: Sync> OptionalFromRequestParts<S> for $type {
            type Rejection = std::convert::Infallible;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
                Ok(parts.extensions.get().cloned())
            }
        }
    };
}

extractor!(Lease);
extractor!(FencingToken);
