use axum::Router;
use axum::extract::{Extension, Path};
use axum::routing::get;
use lock_axum::{Lease, LockError, LockManager, Kind, distributed_lock};

#[distributed_lock(resource = "catalog:{name}", mode = "read")]
async fn read(Path(name): Path<String>, lease: Lease) -> String {
    format!("{name} {}", lease.kind())
}

#[distributed_lock(resource = ["catalog", "prices"], mode = "read", wait = "1s")]
async fn read_both() -> &'static str {
    "both"
}

#[distributed_lock(resource = "catalog", mode = "write", manager = locks)]
async fn write(locks: &LockManager) -> Result<Option<Kind>, LockError> {
    Ok(Lease::current().map(|lease| lease.kind()))
}

fn main() {
    let routes = Router::new().route("/1/{name}", get(read)).route("/2", get(read_both));
    let _: Router = routes.layer(Extension(LockManager::in_memory()));
    let _ = write(&LockManager::in_memory());
}
