use axum::extract::Path;
use lock_axum::{LockManager, distributed_lock};

struct Service {
    locks: LockManager,
}

impl Service {
    #[distributed_lock(resource = "stock:{sku}")]
    async fn deduct(&self, Path(sku): Path<String>) -> String {
    //              ^^^^^ a method cannot be an axum handler: add the lock manager, for example `manager = self.locks`
        format!("{sku} {:?}", self.locks)
    }
}

fn main() {}
