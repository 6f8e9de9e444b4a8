use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", busy_status = 200)]
//                                                   ^^^ `busy_status` must be one of `409`, `423`, `429`, `503`
async fn busy_status() {}

#[distributed_lock(resource = "stock", on_lost = "cancle")]
//                                               ^^^^^^^^ `on_lost` must be "cancel" or "continue"; did you mean `cancel`?
async fn on_lost() {}

#[distributed_lock(resource = "stock", on_lost = Cancel)]
//                                               ^^^^^^ `on_lost` must be "cancel" or "continue"
async fn on_lost_variant() {}

#[distributed_lock(resource = "stock", on_disconnect = "continue")]
//                                                     ^^^^^^^^^^ `on_disconnect` must be "finish" or "cancel"
async fn on_disconnect() {}

#[distributed_lock(resource = "stock", renew = "yes")]
//                                             ^^^^^ `renew` must be `true` or `false`
async fn renew() {}

#[distributed_lock(resource = "stock", mode = "raed")]
//                                            ^^^^^^ `mode` must be "read" or "write"; did you mean `read`?
async fn mode() {}

#[distributed_lock(resource = "stock", mode = Read)]
//                                            ^^^^ `mode` must be "read" or "write"
async fn mode_variant() {}

fn main() {}
