//! `on_error` takes the path of any function from `LockError` to a response.

use std::fmt::Display;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
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

fn any(error: impl Display) -> String {
    error.to_string()
}

/// The constructor of a tuple struct is a function, too.
struct Answer(LockError);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        self.0.to_string().into_response()
    }
}

const POINTER: fn(LockError) -> StatusCode = |_| StatusCode::LOCKED;

#[distributed_lock(resource = "a", on_error = any)]
async fn argument() {}

#[distributed_lock(resource = "a", on_error = Answer)]
async fn constructor() {}

#[distributed_lock(resource = "a", on_error = POINTER)]
async fn pointer() {}

#[distributed_lock(resource = "a", on_error = busy)]
async fn plain() {}

#[distributed_lock(resource = "a", on_error = self::errors::opaque)]
async fn opaque() {}

#[distributed_lock(resource = "a", on_error = errors::generic::<503>, busy_status = 423)]
async fn generic() {}

fn main() {
    let _: Router = Router::new().route("/a", post(plain)).route("/b", post(opaque)).route("/c", post(generic));
    let _: Router = Router::new().route("/a", post(argument).put(constructor).patch(pointer));
}
