//! What can go wrong with a purchase, and its HTTP answer.
//!
//! Answers are RFC 9457 problems, as those of the lock are, so that clients parse one format.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use lock_axum::fence::{StaleToken, rusqlite::ClaimError};
use serde_json::json;
use tokio::task::JoinError;

/// The last segment of the problem `type` of [`ShopError::SoldOut`].
pub(crate) const SOLD_OUT: &str = "sold-out";

const TYPE_PREFIX: &str = "https://inventory.example/problems/";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShopError {
    #[error("the shop does not sell this SKU")]
    UnknownSku,
    #[error("not enough units in stock")]
    SoldOut,
    /// A later holder of the lock has claimed the SKU. Nothing was written, so the client may retry.
    #[error(transparent)]
    StaleToken(#[from] StaleToken),
    #[error("{0}")]
    BadOrder(String),
    #[error("the database failed")]
    Database(#[from] rusqlite::Error),
    #[error("the database thread failed")]
    Thread(#[from] JoinError),
}

impl From<ClaimError> for ShopError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Stale(stale) => stale.into(),
            ClaimError::Database(error) => error.into(),
        }
    }
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, kind) = match &self {
            Self::StaleToken(stale) => return stale.clone().into_response(),
            Self::UnknownSku => (StatusCode::NOT_FOUND, "unknown-sku"),
            Self::SoldOut => (StatusCode::CONFLICT, SOLD_OUT),
            Self::BadOrder(_) => (StatusCode::UNPROCESSABLE_ENTITY, "bad-order"),
            Self::Database(_) | Self::Thread(_) => {
                tracing::error!(error = &self as &dyn std::error::Error, "request failed");
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
        };
        let body = json!({
            "type": format!("{TYPE_PREFIX}{kind}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}
