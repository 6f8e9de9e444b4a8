use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", ttl = "10s", ttl = "10s")]
//                                                  ^^^ duplicate argument `ttl`
async fn handler() {}

fn main() {}
