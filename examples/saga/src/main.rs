//! A purchase across two services and a payment: goods are reserved, paid and shipped, in three databases that no
//! transaction covers.
//!
//! ```text
//! export LOCK_URLS=redis://a:6379,redis://b:6379,redis://c:6379     # or postgres://user@host/database
//! cargo run -p saga -- records warehouse warehouse.sqlite     # each prints its address
//! cargo run -p saga -- records shipping shipping.sqlite
//! cargo run -p saga -- payments payments.sqlite
//! cargo run -p saga -- shop WAREHOUSE PAYMENTS SHIPPING
//! curl -X POST SHOP/42
//! ```
//!
//! - The shop holds the lock of the order for the whole purchase, and delegates it to warehouse and shipping, in a header.
//! - They adopt it: they work for the holder of the order, as long as that holds it, and for nobody else. They claim with its
//!   token before they write. A shop that was frozen, and goes on when another one has the order, changes nothing any more:
//!   neither does it ship twice, nor take goods back that were paid.
//! - The payment service is somebody else's and knows no tokens. It gets an idempotency key, and charges once.
//! - A purchase that was interrupted is sent again, to any shop, and goes through the same steps. Each of them may be
//!   repeated.

mod call;
mod payments;
mod records;
mod shop;

use std::env;
use std::error::Error;
use std::time::Duration;

use axum::{Extension, Router};
use lock_axum::LockManager;
use tokio::net::TcpListener;

use crate::shop::Shop;

const USAGE: &str = "usage: saga records NAME DATABASE | payments DATABASE | shop WAREHOUSE PAYMENTS SHIPPING";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["records", name, database] => serve(records::router(database)?, name).await?,
        ["payments", database] => {
            let payments = axum::serve(listen().await?, payments::router(database)?);
            payments.with_graceful_shutdown(stop_signal()).await?;
        }
        ["shop", warehouse, payments, shipping] => {
            serve(shop::router(Shop::new(warehouse, payments, shipping)), "shop").await?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Runs a service with locks until it is stopped. Delegations to it are made for its name.
async fn serve(service: Router, name: &str) -> Result<(), Box<dyn Error>> {
    let urls = env::var("LOCK_URLS").unwrap_or_default();
    if !urls.starts_with("redis") && !urls.starts_with("postgres") {
        return Err("LOCK_URLS names no master: write redis://.. or postgres://.., several with commas between them; locks in ZooKeeper \
                    cannot be delegated"
            .into());
    }
    let (postgres, redis): (Vec<&str>, Vec<&str>) = urls.split(',').partition(|url| url.starts_with("postgres"));
    let locks = LockManager::builder().redis(redis).postgres(postgres).audience(name).connect().await?;
    let service = service.layer(Extension(locks.clone()));
    axum::serve(listen().await?, service).with_graceful_shutdown(locks.close_on(stop_signal())).await?;
    locks.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

/// Opens a port, and prints its address.
async fn listen() -> Result<TcpListener, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(listener)
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
