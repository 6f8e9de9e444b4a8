use axum::Extension;
use lock_axum::{FencingToken, Lease, distributed_lock};

#[distributed_lock(resource = "stock:{lease}")]
//                            ^^^^^^^^^^^^^^^ `{lease}` is filled by the lock, which is taken only when its resource is known
async fn lease(lease: Lease) {}

#[distributed_lock(resource = "stock:{token}")]
//                            ^^^^^^^^^^^^^^^ `{token}` is filled by the lock
async fn token(Extension(token): Extension<FencingToken>) {}

fn main() {}
