use axum::Router;
use axum::extract::{Extension, Json, Path, Request};
use axum::routing::post;
use lock_axum::{Lease, Leases, LockError, LockManager, distributed_lock};

struct Order {
    sku: String,
}

#[distributed_lock(resource = ["stock:{sku}", "user:{id}"], ttl = "5s")]
async fn order(Path((sku, id)): Path<(String, u64)>, leases: Leases, Json(count): Json<u8>) -> String {
    format!("{sku} {id} {count} {} {}", leases[0].token(), leases[1].token())
}

#[distributed_lock(resource = ["a", "b", "a"])]
async fn wrapped(leases: Extension<Leases>, again: Option<Leases>) -> String {
    format!("{} {}", leases.len(), again.is_some())
}

#[distributed_lock(resource = ["only:{sku}"], hold = "body")]
async fn nothing_taken(Path(sku): Path<String>, request: Request) -> String {
    format!("{sku} {}", request.extensions().get::<Leases>().is_some())
}

#[distributed_lock(resource = ["stock:{order.sku}", "user:{id}"], manager = locks)]
async fn function(locks: &LockManager, order: &Order, id: u64) -> Result<u64, LockError> {
    let user = Lease::current_for(&format!("user:{id}"));
    Ok(user.map_or(0, |lease| lease.token().get()))
}

async fn calls(Extension(locks): Extension<LockManager>) -> String {
    format!("{:?}", function(&locks, &Order { sku: "42".to_owned() }, 7).await)
}

fn main() {
    let routes = Router::new()
        .route("/1/{sku}/{id}", post(order))
        .route("/2", post(wrapped))
        .route("/3/{sku}", post(nothing_taken))
        .route("/4", post(calls));
    let _: Router = routes.layer(Extension(LockManager::in_memory()));
}
