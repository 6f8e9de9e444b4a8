use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", renew)]
//                                     ^^^^^ missing value of `renew`: write `renew = true`
async fn bare() {}

#[distributed_lock(resource = "stock", ttl("10s"))]
//                                     ^^^ missing value of `ttl`: write `ttl = "10s"`
async fn parentheses() {}

#[distributed_lock(resource = "stock", wait =)]
//                                     ^^^^ missing value of `wait`: write `wait = "2s"`
async fn nothing() {}

#[distributed_lock("stock:{sku}")]
//                 ^^^^^^^^^^^^^ expected a named argument: write `resource = "…"`
#[allow(unused)]
async fn positional() {}

fn main() {}
