//! `#[instrument]` below the attribute gets the parameters and the body as they were written.

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Lease, LockError, LockManager, distributed_lock};
use tracing::instrument;

#[distributed_lock(resource = "stock:{sku}")]
#[instrument(skip(lease), fields(warehouse = %warehouse, token = ?lease.token()), ret, err)]
async fn handler(Path((warehouse, sku)): Path<(String, u64)>, lease: Lease) -> Result<String, String> {
    tracing::info!("in the span");
    Ok(format!("{sku}"))
}

struct Service {
    locks: LockManager,
}

impl Service {
    #[distributed_lock(resource = "stock:{sku}", manager = self.locks)]
    #[instrument(skip(self), err(Debug))]
    async fn method(&self, sku: &str) -> Result<usize, LockError> {
        Ok(sku.len())
    }
}

fn main() {
    let _: Router = Router::new().route("/{warehouse}/{sku}", post(handler));
    let _ = |service: Service| async move { service.method("a").await };
}
