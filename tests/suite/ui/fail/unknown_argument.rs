use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", tll = "10s")]
//                                     ^^^ unknown argument `tll`; did you mean `ttl`? (expected one of `resource`, `key`, `ttl`,
async fn handler() {}

#[distributed_lock(resource = "stock", color("red"))]
//                                     ^^^^^ unknown argument `color` (expected one of
async fn not_close_to_any() {}

#[distributed_lock(resource = "stock", 5 = 5)]
//                                     ^ expected the name of an argument: one of `resource`, `key`, `ttl`,
async fn not_a_name() {}

fn main() {}
