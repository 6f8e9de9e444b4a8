//! `on_error` takes the path of any function from `LockError` to a response.

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use lock_axum::{LockError, distributed_lock};

fn busy(error: LockError) -> (StatusCode, String) {
    (StatusCode::LOCKED, error.to_string())
}

mod errors {
    use super::*;

    pub fn opaque(_: LockError) -> impl IntoResponse {
        StatusCode::TOO_MANY_REQUESTS
    }

    pub fn generic<const STATUS: u16>(_: LockError) -> StatusCode {
        StatusCode::from_u16(STATUS).unwrap_or_default()
    }
}

#[distributed_lock(resource = "a", on_error = busy)]
async fn plain() {}

#[distributed_lock(resource = "a", on_error = self::errors::opaque)]
async fn opaque() {}

#[distributed_lock(resource = "a", on_error = errors::generic::<503>, busy_status = 423)]
async fn generic() {}

fn main() {
    let _: Router = Router::new().route("/a", post(plain)).route("/b", post(opaque)).route("/c", post(generic));
}
