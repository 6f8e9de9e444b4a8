//! `#[async_trait]` rewrites a method before the attributes on the method are expanded.

use std::future::Future;
use std::pin::Pin;

use lock_axum::{LockError, LockManager, distributed_lock};

trait Repository {
    fn take<'a>(&'a self, sku: &'a str) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send + 'a>>;
}

struct Memory {
    locks: LockManager,
}

impl Repository for Memory {
    #[distributed_lock(resource = "stock:{sku}", manager = self.locks)]
    fn take<'a>(&'a self, sku: &'a str) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send + 'a>> {
    // ^^^^ perhaps because `#[async_trait]` has already rewritten it; `#[distributed_lock]` can only be applied to an `async fn`
        Box::pin(async move { Ok(()) })
    }
}

fn main() {}
