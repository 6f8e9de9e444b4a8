//! A guarded function returns the error of its lock, so it must return a `Result` that can hold it.

use lock_axum::{LockManager, distributed_lock};

#[distributed_lock(resource = "stock", manager = locks)]
async fn nothing(locks: &LockManager) {}
//       ^^^^^^^ with `manager`, the function must return `Result<_, E>` with `E: From<LockError>`

#[distributed_lock(resource = "stock", manager = locks)]
async fn number(locks: &LockManager) -> u32 {
    //                                  ^^^ with `manager`, the function must return `Result<_, E>` with `E: From<LockError>`, not `u32`
    let left: u32 = std::future::ready(5).await;
    left
}

struct Order;

type Outcome = Option<Order>;

#[distributed_lock(resource = "stock", manager = locks)]
async fn alias(locks: &LockManager) -> Outcome {
    //                                 ^^^^^^^ the function must return `Result<_, E>` with `E: From<LockError>`, not `Option<Order>`
    let order = Some(Order)?;
    Some(order)
}

#[distributed_lock(resource = "stock", manager = locks)]
async fn opaque(locks: &LockManager) -> impl Iterator<Item = u8> {
    //                                  ^^^^ the function must return `Result<_, E>` with `E: From<LockError>`
    [1].into_iter()
}

#[derive(Debug)]
struct Unrelated;

#[distributed_lock(resource = "stock", manager = locks)]
async fn unrelated(locks: &LockManager) -> Result<Order, Unrelated> {
    //                                     ^^^^^^ the trait bound `Unrelated: From<LockError>` is not satisfied
    std::future::ready(Err(Unrelated)).await?;
    Ok(Order)
}

fn main() {
    let _ = async |locks: LockManager| {
        nothing(&locks).await;
        let left: u32 = number(&locks).await;
        let order: Outcome = alias(&locks).await;
        let bytes = opaque(&locks).await.count();
        (left, order, bytes, unrelated(&locks).await.unwrap())
    };
}
