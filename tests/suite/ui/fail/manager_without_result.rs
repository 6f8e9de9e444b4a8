use lock_axum::{LockManager, distributed_lock};

#[distributed_lock(resource = "stock", manager = locks)]
async fn deduct(locks: &LockManager) {}
//       ^^^^^^ with `manager`, the function must return `Result<_, E>` with `E: From<LockError>`

fn main() {}
