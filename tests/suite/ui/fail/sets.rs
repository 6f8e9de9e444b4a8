use axum::Router;
use axum::extract::{Extension, Path};
use axum::routing::post;
use lock_axum::{FencingToken, Hold, Lease, Leases, LockManager, distributed_lock};

#[distributed_lock(resource = ["stock:{sku}", "user:{id}"])]
async fn one_lease(Path((sku, id)): Path<(String, u64)>, lease: Lease) {
    //                                                          ^^^^^ several resources have a lease and a token each: take `leases: Leases`
    drop((sku, id, lease));
}

#[distributed_lock(resource = ["stock", "user"])]
async fn one_token(Extension(token): Extension<FencingToken>) {
    //                               ^^^^^^^^^^^^^^^^^^^^^^^ several resources have a lease and a token each: take `leases: Leases`
    drop(token);
}

#[distributed_lock(resource = "stock")]
async fn leases_of_one(leases: Leases) {
    //                         ^^^^^^ one resource has one lease: take `lease: Lease`
    drop(leases);
}

#[distributed_lock(resource = [])]
//                            ^^ `resource` must list between 1 and 32 resources, got 0
async fn none(leases: Leases) {
    drop(leases);
}

#[distributed_lock(resource = ["stock:{sku}", "user:{id}"])]
//                                            ^^^^^^^^^^^ unknown placeholder `{id}`
async fn unknown(Path(sku): Path<String>) {
    drop(sku);
}

#[distributed_lock(resource = ["stock", "user"], hold = "session", max_hold = "1h")]
//                                               ^^^^ `hold = "session"` cannot be combined with several resources
async fn session(hold: Hold) {
    drop(hold);
}

fn main() {
    let routes = Router::new()
        .route("/1/{sku}/{id}", post(one_lease))
        .route("/2", post(one_token))
        .route("/3", post(leases_of_one))
        .route("/4", post(none))
        .route("/5/{sku}", post(unknown))
        .route("/6", post(session));
    let _: Router = routes.layer(Extension(LockManager::in_memory()));
}
