use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Lease, LockManager, distributed_lock};

/// A request may bring the lock of its sender.
#[distributed_lock(resource = "order:{order}", ttl = "2s", hold = "body", adopt = true)]
async fn reserve(Path(order): Path<u64>, lease: Lease) -> String {
    format!("{order}: {}", lease.token())
}

/// Spelled out, beside a session.
#[distributed_lock(key = "r", hold = "session", max_hold = "1h", adopt = false, state)]
async fn own(hold: lock_axum::Hold) {
    drop(hold);
}

fn main() {
    let locks = LockManager::in_memory();
    let _: Router = Router::new().route("/{order}", post(reserve)).route("/", post(own)).with_state(locks);
}
