//! What can go wrong with a purchase, and how it is answered: RFC 9457 problems, like those of the
//! lock itself, so that a client has one format to read.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::task::JoinError;

/// The last part of a problem's `type` for a unit that is not there any more.
pub(crate) const SOLD_OUT: &str = "sold-out";
/// The last part of a problem's `type` for a write that a newer holder of the lock has overtaken.
pub(crate) const STALE_TOKEN: &str = "stale-token";

const TYPES: &str = "https://inventory.example/problems/";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShopError {
    #[error("no such SKU")]
    UnknownSku,
    #[error("not enough units left")]
    SoldOut,
    /// Nothing was written: the buyer may safely try again.
    #[error("a newer holder of the lock has overtaken this request, nothing was sold")]
    StaleToken,
    #[error("{0}")]
    BadOrder(String),
    #[error("the database failed")]
    Database(#[from] rusqlite::Error),
    #[error("the database thread failed")]
    Thread(#[from] JoinError),
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, kind) = match &self {
            Self::UnknownSku => (StatusCode::NOT_FOUND, "unknown-sku"),
            Self::SoldOut => (StatusCode::CONFLICT, SOLD_OUT),
            Self::StaleToken => (StatusCode::CONFLICT, STALE_TOKEN),
            Self::BadOrder(_) => (StatusCode::UNPROCESSABLE_ENTITY, "bad-order"),
            Self::Database(_) | Self::Thread(_) => {
                tracing::error!(error = &self as &dyn std::error::Error, "purchase failed");
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
        };
        let body = json!({
            "type": format!("{TYPES}{kind}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}
