//! What the handlers share, and the routes to them.

use std::sync::Arc;

use axum::{
    Extension, Router,
    routing::{get, post},
};
use lock_axum::{LockManager, readyz};

use super::{
    PaymentProvider, Store,
    handlers::{deduct, stock},
};

/// The state that the handlers of one instance share.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) store: Store,
    pub(crate) payments: Arc<dyn PaymentProvider>,
}

impl Shop {
    pub(crate) fn new(store: Store, payments: impl PaymentProvider + 'static) -> Self {
        Self { store, payments: Arc::new(payments) }
    }
}

/// The routes of the shop. `#[distributed_lock]` finds the manager in the request extensions.
pub(crate) fn router(shop: Shop, locks: &LockManager) -> Router {
    Router::new()
        .route("/stock/{sku}", get(stock))
        .route("/stock/{sku}/deduct", post(deduct))
        .route("/readyz", readyz(locks.clone()))
        .layer(Extension(locks.clone()))
        .with_state(shop)
}
