//! rustc proposes `let _ = …` for a result that is not used, and that drops the guard as well.
#![deny(unused_must_use)]

use std::error::Error;

use lock_axum::LockManager;

async fn lock(locks: &LockManager) -> Result<(), Box<dyn Error>> {
    locks.lock("stock").acquire().await?;
//  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the lock is released as soon as its guard is dropped: keep it with `let _guard = …`, because `let _ = …` drops it at once
    locks.lock_all(["stock", "user"]).acquire().await?;
//  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the locks are released as soon as their guard is dropped: keep it with `let _guard = …`
    locks.adopt("text", "stock").await?;
//  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the work under the lock is over when it is dropped: keep it with `let _adopted = …`
    Ok(())
}

fn main() {
    _ = async || lock(&LockManager::in_memory()).await;
}
