//! Here the library is the dependency `platform`. Each attribute that does not say so is one error: rustc's own, because
//! a macro cannot know which dependencies there are.

use axum::extract::{Path, Request};
use axum::routing::post;
use axum::{Json, Router};
use platform::{FencingToken, Lease, LockError, LockManager, distributed_lock};

fn respond(error: LockError) -> String {
    error.to_string()
}

mod handlers {
    use super::*;

    #[distributed_lock(resource = "stock:{sku}", on_lost = "cancel", on_error = respond)]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ lock_axum
    pub async fn forwards(Path(sku): Path<String>, lease: Lease, request: Request) -> String {
        format!("{sku} {lease:?} {request:?}")
    }

    #[distributed_lock(key = format!("stock:{sku}"), ttl = "10s")]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ lock_axum
    pub async fn reads(Path(sku): Path<String>, Json(quantity): Json<u8>, token: FencingToken) -> String {
        format!("{sku} {quantity} {token}")
    }

    #[distributed_lock(resource = "stock:{sku}", manager = locks)]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ lock_axum
    pub async fn function(locks: &LockManager, sku: &str) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "stock:{sku}", manager = locks, crate = platform)]
    pub async fn named(locks: &LockManager, sku: &str) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {
    let _: Router = Router::new().route("/a/{sku}", post(handlers::forwards).put(handlers::reads));
    let _ = async |locks: LockManager| {
        handlers::function(&locks, "a").await?;
        handlers::named(&locks, "a").await
    };
}
