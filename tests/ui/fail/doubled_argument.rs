use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", ttl = "10s", ttl = "10s")]
//                                                  ^^^ `ttl` is given twice
async fn handler() {}

fn main() {}
