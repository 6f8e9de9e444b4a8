use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", renew)]
//                                     ^^^^^ `renew` needs a value: `renew = true`
async fn bare() {}

#[distributed_lock(resource = "stock", ttl("10s"))]
//                                     ^^^ `ttl` needs a value: `ttl = "10s"`
async fn parentheses() {}

#[distributed_lock(resource = "stock", wait =)]
//                                     ^^^^ `wait` needs a value: `wait = "2s"`
async fn nothing() {}

#[distributed_lock("stock:{sku}")]
//                 ^^^^^^^^^^^^^ arguments have names: write `resource = "…"`
#[allow(unused)]
async fn positional() {}

fn main() {}
