use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", ttl = "99ms")]
//                                           ^^^^^^ `ttl` must be at least 100ms, this is 99ms
async fn ttl_too_short() {}

#[distributed_lock(resource = "stock", ttl = "2days")]
//                                           ^^^^^^^ `ttl` must be at most 1day, this is 2days
async fn ttl_too_long() {}

#[distributed_lock(resource = "stock", wait = "2days")]
//                                            ^^^^^^^ `wait` must be at most 1day, this is 2days
async fn wait_too_long() {}

#[distributed_lock(resource = "stock", max_hold = "0s")]
//                                                ^^^^ `max_hold` must be at least 1ms, this is 0s
async fn max_hold_zero() {}

fn main() {}
