use std::{future::Future, net::SocketAddr, path::PathBuf, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use lock_axum::LockManager;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    RunError, handlers, masters::Masters, pauses::Pauses, problem::ShopError, purchase::Shop, server::serve_until,
    store::Store,
};

/// What is on stock in a new database.
const SEED: [(&str, u32); 3] = [("apple", 100), ("pear", 25), ("quince", 1)];
const PAYMENT: Duration = Duration::from_millis(15);
const DRAIN: Duration = Duration::from_secs(10);

/// What [`serve`] runs.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// URLs of Redis masters; none for five masters in memory, which only this process knows.
    pub redis: Vec<String>,
    /// Prefix of the keys on Redis, as in [`Config::prefix`](crate::Config::prefix).
    pub prefix: String,
    /// The SQLite file; `None` for a temporary one that is removed at the end.
    pub database: Option<PathBuf>,
}

/// Runs the shop until `stop` ends, then drains: requests that hold a lock finish, those that wait
/// for one are told 503, nothing stays locked.
///
/// `listening` is called with the address as soon as the service listens.
///
/// | request | answer |
/// |---|---|
/// | `POST /stock/{sku}/deduct` with `{"quantity":1}` | 200 `{order_id, sku, quantity, remaining, token}`; 409 sold out, stale or busy; 404; 422 |
/// | `GET /stock/{sku}` | 200 `{sku, quantity}`; 404 |
/// | `GET /health` | 200 if the lock masters have a quorum, else 503 |
///
/// # Errors
///
/// [`RunError`] if masters, database or address cannot be had.
pub async fn serve(
    config: ServeConfig,
    stop: impl Future<Output = ()> + Send + 'static,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), RunError> {
    let database_failed = |error: std::io::Error| RunError::Database(error.into());
    let temporary = match config.database {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(database_failed)?),
    };
    let database = match &temporary {
        Some(directory) => directory.path().join("shop.sqlite"),
        None => config.database.unwrap_or_default(),
    };
    let store = Store::open(&database, true).await?;
    for (sku, quantity) in SEED {
        store.seed(sku, quantity).await?;
    }
    let locks = Masters::new(&config.redis).connect(&config.prefix).await?;
    let shop = Shop::new(store, PAYMENT, Pauses::never());

    let listen_error = |source| RunError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
    listening(listener.local_addr().map_err(listen_error)?);

    let report = serve_until(stop, listener, router(shop, &locks), &locks, DRAIN).await.map_err(RunError::Instance)?;
    tracing::info!(released = report.released, revoked = report.revoked, "stopped");
    if let Some(directory) = temporary {
        directory.close().map_err(database_failed)?;
    }
    Ok(())
}

fn router(shop: Shop, locks: &LockManager) -> Router {
    Router::new()
        .route("/stock/{sku}", get(stock))
        .route("/stock/{sku}/deduct", handlers::deduct_fenced())
        .route("/health", get(health))
        .layer(Extension(locks.clone()))
        .with_state(shop)
}

async fn stock(Path(sku): Path<String>, State(shop): State<Shop>) -> Result<Json<Value>, ShopError> {
    let quantity = shop.store.quantity(&sku).await?;
    Ok(Json(json!({ "sku": sku, "quantity": quantity })))
}

async fn health(Extension(locks): Extension<LockManager>) -> (StatusCode, Json<Value>) {
    let health = locks.health().await;
    let status = if health.quorum { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "quorum": health.quorum, "masters": health.nodes.len() });
    (status, Json(body))
}
