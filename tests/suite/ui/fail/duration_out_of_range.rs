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

#[distributed_lock(resource = "stock", retry_after = "0s")]
//                                                   ^^^^ `retry_after` must be between 1s and 1h, got 0s
async fn retry_after_zero() {}

#[distributed_lock(resource = "stock", retry_after = "2h")]
//                                                   ^^^^ `retry_after` must be between 1s and 1h, got 2h
async fn retry_after_too_long() {}

#[distributed_lock(resource = "stock", retry_after = "1500ms")]
//                                                   ^^^^^^^^ `retry_after` must be whole seconds, got 1s 500ms
async fn retry_after_with_a_fraction() {}

fn main() {}
