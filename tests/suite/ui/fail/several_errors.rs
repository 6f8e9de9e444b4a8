use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "{ sku", tll = "10s", wait = 5, renew, busy_status = 200)]
//                            ^^^^^^^ unbalanced brace: `{` is never closed in `{ sku`
//                                     ^^^ unknown argument `tll`
//                                                         ^ `wait` needs a unit
//                                                            ^^^^^ missing value of `renew`
//                                                                                 ^^^ `busy_status` must be one of
async fn handler(Path(sku): Path<String>) {}

fn main() {}
