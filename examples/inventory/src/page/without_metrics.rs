//! `GET /metrics` of a build without the feature `metrics`: says how to get it.

use axum::{Router, http::StatusCode, routing::get};
use tokio_util::sync::CancellationToken;

use crate::proof::RunError;

/// The metrics of this process, which this build does not record.
#[derive(Debug, Clone)]
pub struct Metrics;

/// Installs nothing.
///
/// # Errors
///
/// None.
pub fn install_recorder() -> Result<Metrics, RunError> {
    Ok(Metrics)
}

pub(crate) fn route(_: Metrics) -> Router {
    let told = (StatusCode::NOT_FOUND, "this build records no metrics; run it with `--features metrics`\n");
    Router::new().route("/metrics", get(async move || told))
}

pub(crate) async fn upkeep(_: &Metrics, _: &CancellationToken) {}
