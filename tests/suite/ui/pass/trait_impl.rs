//! Methods in traits and their implementations, where the macro may generate only one item.

use lock_axum::{LockError, LockManager, distributed_lock};

trait Repository {
    type Error;

    async fn take(&self, sku: &str) -> Result<u32, Self::Error>;

    async fn provided(&self, locks: &LockManager, sku: &str) -> Result<u32, LockError>;
}

struct Memory {
    locks: LockManager,
    stock: u32,
}

impl Repository for Memory {
    type Error = LockError;

    #[distributed_lock(resource = "stock:{sku}", manager = self.locks)]
    async fn take(&self, sku: &str) -> Result<u32, Self::Error> {
        Ok(self.stock)
    }

    /// Two locks: that of the lower attribute is acquired first.
    #[distributed_lock(resource = "stock:{sku}", manager = *locks)]
    #[distributed_lock(resource = "warehouse", manager = self.locks)]
    async fn provided(&self, locks: &LockManager, sku: &str) -> Result<u32, LockError> {
        self.take(sku).await
    }
}

trait WithDefault {
    fn locks(&self) -> &LockManager;

    #[distributed_lock(resource = "default:{id}", manager = self.locks())]
    async fn default_body(&self, id: u32) -> Result<u32, LockError> {
        Ok(id)
    }
}

impl WithDefault for Memory {
    fn locks(&self) -> &LockManager {
        &self.locks
    }
}

fn main() {
    let _ = async |memory: Memory| {
        memory.provided(&memory.locks, "a").await?;
        memory.default_body(1).await
    };
}
