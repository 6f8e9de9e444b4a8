use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "export:{tenant}", permits = 3)]
async fn handler(Path(tenant): Path<String>, lease: Lease) -> String {
    format!("{tenant} has slot {:?}", lease.slot())
}

#[distributed_lock(resource = "export", permits = 100, manager = locks)]
async fn function(locks: &LockManager) -> Result<Option<u32>, LockError> {
    Ok(Lease::current().and_then(|lease| lease.slot()))
}

fn main() {
    let _: Router = Router::new().route("/export/{tenant}", post(handler));
    let locks = LockManager::in_memory();
    drop(function(&locks));
}
