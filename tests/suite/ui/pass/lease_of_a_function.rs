//! Functions that are no handlers may have parameters of the lock's types: their callers pass them.

use lock_axum::{FencingToken, Lease, LockError, LockManager, distributed_lock};

struct Shop {
    locks: LockManager,
}

struct Meters(u32);

impl Shop {
    #[distributed_lock(resource = "stock:{lease}", manager = self.locks)]
    async fn method(&self, lease: String, before: Option<FencingToken>, outer: Lease) -> Result<bool, LockError> {
        Ok(before < Some(outer.token()))
    }

    #[distributed_lock(resource = "stock", manager = self.locks)]
    async fn destructures(&self, Meters(length): Meters, outer: Lease) -> Result<String, LockError> {
        Ok(format!("{length} {}", outer.token()))
    }
}

#[distributed_lock(resource = "stock", manager = locks)]
async fn borrows(locks: &LockManager, before: Option<FencingToken>) -> Result<bool, LockError> {
    Ok(before.is_some())
}

#[distributed_lock(resource = "stock", manager = locks)]
async fn owns(locks: LockManager, before: Option<FencingToken>) -> Result<bool, LockError> {
    Ok(before.is_some())
}

#[distributed_lock(resource = "stock", manager = shop.locks)]
async fn by_value(shop: Shop, lease: Lease) -> Result<(), LockError> {
    lease.check()
}

#[distributed_lock(resource = "stock", manager = locks())]
async fn generic<T: Send>(value: T, lease: Lease) -> Result<T, LockError> {
    lease.check().map(|()| value)
}

fn locks() -> LockManager {
    LockManager::in_memory()
}

fn main() {
    let _ = async |shop: Shop, lease: Lease| {
        shop.method("a".into(), None, lease.clone()).await?;
        shop.destructures(Meters(1), lease.clone()).await?;
        borrows(&shop.locks, None).await?;
        owns(shop.locks.clone(), Some(lease.token())).await?;
        generic(1, lease.clone()).await?;
        by_value(shop, lease).await
    };
}
