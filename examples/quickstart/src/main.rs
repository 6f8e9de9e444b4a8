//! The smallest useful service: one request per SKU at a time, across all instances.
//!
//! ```text
//! cargo run -p quickstart                                    # five in-memory masters
//! LOCK_URLS=redis://a:6379,redis://b:6379,redis://c:6379 cargo run -p quickstart
//! LOCK_URLS=postgres://user@host/database cargo run -p quickstart
//! LOCK_URLS=zookeeper://a:2181,b:2181,c:2181/locks cargo run -p quickstart
//! curl -X POST http://127.0.0.1:3000/stock/42/deduct
//! ```
//!
//! With `DASHBOARD_PASSWORD=...`, <http://127.0.0.1:3000/locks> shows the locks to the user `admin`. Without, there is no such page.

mod log_in;

use std::{env, error::Error, time::Duration};

use axum::{Extension, Json, Router, extract::Path, middleware, routing::post};
use lock_axum::{FencingToken, LockManager, LockManagerBuilder, dashboard, distributed_lock, readyz};
use serde_json::{Value, json};

#[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
async fn deduct(Path(sku): Path<String>, token: FencingToken) -> Json<Value> {
    // A real handler takes the `Lease`, and claims before it reads and writes, so that the database
    // refuses a holder whose lease has expired (see `examples/inventory/src/shop`):
    //     let tx = db.transaction()?;
    //     fence::rusqlite::claim(&tx, &lease)?;
    //     // ... read, write ..., tx.commit()?;
    Json(json!({ "sku": sku, "token": token.get() }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = match env::var("LOCK_URLS") {
        Ok(urls) => masters(&urls)?.connect().await?,
        Err(_) => LockManager::in_memory(),
    };
    let mut app = Router::new()
        .route("/stock/{sku}/deduct", post(deduct))
        .route("/readyz", readyz(locks.clone()))
        .layer(Extension(locks.clone()));
    if let Ok(password) = env::var("DASHBOARD_PASSWORD")
        && !password.is_empty()
    {
        let log_in = middleware::from_fn_with_state(log_in::credentials("admin", &password), log_in::log_in);
        app = app.nest("/locks", Router::from(dashboard(locks.clone())).layer(log_in));
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(locks.close_on(stop_signal())).await?;
    // Locks are released in the background, and `serve` does not wait for that.
    locks.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

/// Where the locks are kept: on the masters that these URLs name, or in one ensemble.
fn masters(urls: &str) -> Result<LockManagerBuilder, Box<dyn Error>> {
    match urls.split_once("://") {
        Some(("zookeeper", ensemble)) => Ok(LockManager::builder().zookeeper(ensemble)),
        Some(("redis" | "rediss" | "postgres" | "postgresql", _)) => {
            let (postgres, redis): (Vec<&str>, Vec<&str>) =
                urls.split(',').partition(|url| url.starts_with("postgres"));
            Ok(LockManager::builder().redis(redis).postgres(postgres))
        }
        _ => Err("LOCK_URLS: expected redis://.., postgres://.. or zookeeper://..".into()),
    }
}

/// Completes on Ctrl-C and, on Unix, on SIGTERM.
async fn stop_signal() {
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = terminated => {} }
}
