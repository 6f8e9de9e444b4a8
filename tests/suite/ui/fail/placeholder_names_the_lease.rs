use axum::Extension;
use lock_axum::{FencingToken, Lease, distributed_lock};

#[distributed_lock(resource = "stock:{lease}")]
//                            ^^^^^^^^^^^^^^^ `{lease}` cannot be part of `resource`: it has no value before the lock is acquired
async fn lease(lease: Lease) {}

#[distributed_lock(resource = "stock:{token}")]
//                            ^^^^^^^^^^^^^^^ `{token}` cannot be part of `resource`: it has no value before the lock is acquired
async fn token(Extension(token): Extension<FencingToken>) {}

fn main() {}
