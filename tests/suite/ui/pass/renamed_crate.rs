//! `crate = path` for services that use the library through another crate or under another name.

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::post;

mod platform {
    pub mod locking {
        pub use lock_axum::*;
    }
}

use platform::locking::{Lease, LockError, LockManager, distributed_lock};

// A module of this name makes no difference: the default path starts with `::`.
mod lock_axum_shadow {
    pub mod lock_axum {}
}

#[distributed_lock(resource = "a:{id}", on_lost = "continue", on_disconnect = "cancel", crate = crate::platform::locking)]
async fn handler(Path(id): Path<u8>, lease: Lease, request: Request) -> String {
    format!("{:?} {}", lease.token(), request.uri())
}

#[distributed_lock(resource = "a:{id}", manager = locks, crate = platform::locking)]
async fn function(locks: &LockManager, id: u8) -> Result<(), LockError> {
    Ok(())
}

#[allow(unused_imports)]
use lock_axum_shadow::lock_axum;

#[distributed_lock(resource = "a:{id}", manager = locks)]
async fn default_path(locks: &LockManager, id: u8) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _: Router = Router::new().route("/{id}", post(handler));
    let _ = async |locks: LockManager| {
        function(&locks, 1).await?;
        default_path(&locks, 1).await
    };
}
