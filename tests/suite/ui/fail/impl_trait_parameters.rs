use std::fmt::Display;

use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::routing::post;
use lock_axum::{LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock")]
async fn extractor(_: impl FromRequestParts<()>) {}
//                    ^^^^^^^^^^^^^^^^^^^^^^^^^ a handler cannot have `impl Trait` parameters, because axum would have to guess the type: write the type, or a type parameter

#[distributed_lock(resource = "stock:{name}")]
async fn state(State(name): State<impl Display>) -> String {
    //                            ^^^^^^^^^^^^ a handler cannot have `impl Trait` parameters
    name.to_string()
}

/// A function may have them: its caller knows the type.
#[distributed_lock(resource = "stock:{name}", manager = locks)]
async fn function(locks: &LockManager, name: impl Display) -> Result<String, LockError> {
    Ok(name.to_string())
}

fn main() {
    let _: Router = Router::new().route("/a", post(extractor)).route("/b", post(state));
    let _ = async |locks: LockManager| function(&locks, 1).await;
}
