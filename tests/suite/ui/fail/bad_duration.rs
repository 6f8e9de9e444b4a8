use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", ttl = "10x")]
//                                           ^^^^^ invalid duration "10x":
async fn unit() {}

#[distributed_lock(resource = "stock", wait = 2)]
//                                            ^ `wait` needs a unit: write `wait = "2s"` for seconds
async fn number() {}

#[distributed_lock(resource = "stock", max_hold = TEN_SECONDS)]
//                                                ^^^^^^^^^^^ `max_hold` must be a string such as "10s" or "500ms"
async fn constant() {}

fn main() {}
