//! What can go wrong with a purchase, and its HTTP answer.
//!
//! Answers are RFC 9457 problems, as those of the lock are, so that clients parse one format.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use lock_axum::fence::{self, StaleToken};
use serde_json::json;
use tokio::task::JoinError;

use super::postgres;

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
    Sqlite(#[from] rusqlite::Error),
    #[error("the database failed")]
    Postgres(#[from] postgres::Error),
    #[error("the database thread failed")]
    Thread(#[from] JoinError),
}

impl From<fence::rusqlite::ClaimError> for ShopError {
    fn from(error: fence::rusqlite::ClaimError) -> Self {
        match error {
            fence::rusqlite::ClaimError::Stale(stale) => stale.into(),
            fence::rusqlite::ClaimError::Database(error) => error.into(),
        }
    }
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, kind, detail) = match &self {
            Self::StaleToken(stale) => return stale.clone().into_response(),
            Self::UnknownSku => (StatusCode::NOT_FOUND, "unknown-sku", self.to_string()),
            Self::SoldOut => (StatusCode::CONFLICT, SOLD_OUT, self.to_string()),
            Self::BadOrder(_) => (StatusCode::UNPROCESSABLE_ENTITY, "bad-order", self.to_string()),
            Self::Sqlite(_) | Self::Postgres(_) | Self::Thread(_) => {
                tracing::error!(error = &self as &dyn std::error::Error, "request failed");
                // Neither statements nor addresses are for buyers.
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", "the database failed".to_owned())
            }
        };
        let body = json!({
            "type": format!("{TYPE_PREFIX}{kind}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}
