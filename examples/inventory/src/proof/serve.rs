use std::{future::Future, net::SocketAddr, path::PathBuf, time::Duration};

use tokio::net::TcpListener;

use super::{RunError, ledger, masters::Masters};
use crate::shop::{Shop, SimulatedProvider, Store, router, serve_until};

/// The stock of a new database.
const SEED: [(&str, u32); 3] = [("apple", 100), ("pear", 25), ("quince", 1)];
const PAYMENT: Duration = Duration::from_millis(15);
const GRACE: Duration = Duration::from_secs(10);

/// The configuration of [`serve`].
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// URLs of Redis masters. If empty, there are five in-memory masters, private to this process.
    pub redis: Vec<String>,
    /// Prefix of the keys on Redis, as in [`Config::prefix`](crate::Config::prefix).
    pub prefix: String,
    /// The SQLite file. If `None`, a temporary file that is removed at the end.
    pub database: Option<PathBuf>,
}

/// Runs the shop as a service until `stop` completes, then shuts down gracefully.
///
/// During shutdown, requests that hold a lock finish, requests that wait for one get 503, and all
/// locks are released.
///
/// `listening` is called with the address once the service accepts connections.
///
/// | request | answer |
/// |---|---|
/// | `POST /stock/{sku}/deduct` with `{"quantity":1}` | 200 `{order_id, sku, quantity, remaining, token}`; 409 if sold out, stale or busy; 404; 422 |
/// | `GET /stock/{sku}` | 200 `{sku, quantity}`; 404 |
/// | `GET /health` | 200 if the lock masters have a quorum, otherwise 503 |
///
/// # Errors
///
/// [`RunError`] if the masters, the database or the address are unavailable.
///
/// # Cancel safety
///
/// If the future is dropped, the service stops listening, without a graceful shutdown. To shut down
/// gracefully, complete `stop`.
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
    let store = Store::open(&database).await?;
    for (sku, quantity) in SEED {
        ledger::seed(&store, sku, quantity).await?;
    }
    let locks = Masters::new(&config.redis).connect(&config.prefix).await?;
    let shop = Shop::new(store, SimulatedProvider::new(PAYMENT));

    let listen_failed = |source| RunError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen_failed)?;
    listening(listener.local_addr().map_err(listen_failed)?);

    let report = serve_until(stop, listener, router(shop, &locks), &locks, GRACE).await.map_err(RunError::Instance)?;
    tracing::info!(released = report.released, revoked = report.revoked, "stopped");
    if let Some(directory) = temporary {
        directory.close().map_err(database_failed)?;
    }
    Ok(())
}
