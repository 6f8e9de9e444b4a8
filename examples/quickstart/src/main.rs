//! The smallest useful service: one request per SKU at a time, across all instances.
//!
//! ```text
//! cargo run -p quickstart                                    # five in-memory masters; `-- --help` lists the settings
//! PORT=8080 cargo run -p quickstart
//! LOCK_URLS=redis://a:6379,redis://b:6379,redis://c:6379 cargo run -p quickstart
//! LOCK_URLS=postgres://user@host/database cargo run -p quickstart
//! LOCK_URLS=zookeeper://a:2181,b:2181,c:2181/locks cargo run -p quickstart
//! curl -X POST http://127.0.0.1:3000/stock/42/deduct
//! ```
//!
//! With `DASHBOARD_PASSWORD=...`, <http://127.0.0.1:3000/locks> shows the locks to the user `admin`. Without, there is no such page.

mod log_in;
mod settings;

use std::{env, error::Error, process::ExitCode, time::Duration};

use axum::{Extension, Json, Router, extract::Path, middleware, routing::post};
use lock_axum::{FencingToken, LockManager, dashboard, distributed_lock, readyz};
use serde_json::{Value, json};

use crate::settings::{HELP, Settings};

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
async fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        None => {}
        Some("--help" | "-h") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(argument) => {
            eprintln!("quickstart: unknown argument {argument:?}; --help lists the settings");
            return ExitCode::from(2);
        }
    }
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until the process is told to stop.
async fn run() -> Result<(), Box<dyn Error>> {
    let settings = Settings::from_env()?;
    let locks = match settings.masters {
        Some(masters) => masters.connect().await?,
        None => LockManager::in_memory(),
    };
    let mut app = Router::new()
        .route("/stock/{sku}/deduct", post(deduct))
        .route("/readyz", readyz(locks.clone()))
        .layer(Extension(locks.clone()));
    if let Some(password) = settings.dashboard_password {
        let log_in = middleware::from_fn_with_state(log_in::credentials("admin", &password), log_in::log_in);
        let page = Router::from(dashboard(locks.clone()).behind_authentication());
        app = app.nest_service("/locks", page.layer(log_in));
    }

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", settings.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(locks.close_on(stop_signal())).await?;
    // Locks are released in the background, and `serve` does not wait for that.
    locks.shutdown(Duration::from_secs(10)).await;
    Ok(())
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
