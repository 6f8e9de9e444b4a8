//! What `#[async_trait]` leaves of a method, before any attribute on the method is expanded.

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
    // ^^^^ `#[async_trait]` has rewritten before: put `#[distributed_lock]` where it sees an `async fn`
        Box::pin(async move { Ok(()) })
    }
}

fn main() {}
