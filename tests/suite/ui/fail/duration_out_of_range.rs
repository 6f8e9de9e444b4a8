use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", ttl = "99ms")]
//                                           ^^^^^^ `ttl` must be between 100ms and 1day, got 99ms
async fn ttl_too_short() {}

#[distributed_lock(resource = "stock", ttl = "2days")]
//                                           ^^^^^^^ `ttl` must be between 100ms and 1day, got 2days
async fn ttl_too_long() {}

#[distributed_lock(resource = "stock", wait = "2days")]
//                                            ^^^^^^^ `wait` must be between 0s and 1day, got 2days
async fn wait_too_long() {}

#[distributed_lock(resource = "stock", max_hold = "0s")]
//                                                ^^^^ `max_hold` must be between 1ms and 7days, got 0s
async fn max_hold_zero() {}

fn main() {}
