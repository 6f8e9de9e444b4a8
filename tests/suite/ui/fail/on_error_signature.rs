//! `on_error` takes a function from a `LockError` to a response.

use axum::Router;
use axum::routing::post;
use lock_axum::{LockError, distributed_lock};

struct NoResponse;

mod errors {
    use lock_axum::LockError;

    use super::NoResponse;

    pub fn of_a_string(_: String) -> String {
        String::new()
    }

    pub fn by_reference(error: &LockError) -> String {
        error.to_string()
    }

    pub fn no_response(_: LockError) -> NoResponse {
        NoResponse
    }

    pub fn without_arguments() -> String {
        String::new()
    }

    pub async fn asynchronous(error: LockError) -> String {
        error.to_string()
    }
}

fn two_arguments(error: LockError, _: u8) -> String {
    error.to_string()
}

const BUSY: &str = "busy";

#[distributed_lock(resource = "stock", on_error = errors::of_a_string)]
//                                                ^^^^^^^^^^^^^^^^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn argument() {}

#[distributed_lock(resource = "stock", on_error = errors::by_reference)]
//                                                ^^^^^^^^^^^^^^^^^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn reference() {}

#[distributed_lock(resource = "stock", on_error = errors::no_response)]
//                                                ^^^^^^^^^^^^^^^^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn response() {}

#[distributed_lock(resource = "stock", on_error = errors::without_arguments)]
//                                                ^^^^^^^^^^^^^^^^^^^^^^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn none() {}

#[distributed_lock(resource = "stock", on_error = two_arguments)]
//                                                ^^^^^^^^^^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn two() {}

#[distributed_lock(resource = "stock", on_error = errors::asynchronous)]
//                                                ^^^^^^^^^^^^^^^^^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn future() {}

#[distributed_lock(resource = "stock", on_error = BUSY)]
//                                                ^^^^ `on_error` must be a function `fn(LockError) -> impl IntoResponse`
async fn constant() {}

#[distributed_lock(resource = "stock", on_error = errors::missing)]
//                                                        ^^^^^^^ cannot find
async fn unknown() {}

fn main() {
    let _: Router = Router::new()
        .route("/a", post(argument).put(reference).patch(response))
        .route("/b", post(none).put(two).patch(future))
        .route("/c", post(constant).put(unknown));
}
