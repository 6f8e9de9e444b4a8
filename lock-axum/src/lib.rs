//! Distributed locks for axum services: a handler runs for one holder at a time across every instance of the service, with a
//! fencing token in hand. Underneath: Redlock on N independent Redis masters.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use axum::extract::Path;
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use lock_axum::{Lease, LockManager, distributed_lock};
//!
//! #[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
//! async fn deduct(Path(sku): Path<String>, lease: Lease) -> String {
//!     // Runs alone for this sku. Give the token to the database with every write.
//!     format!("{sku} with token {}", lease.token())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let locks = LockManager::builder()
//!         .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!         .connect()
//!         .await?; // or LockManager::in_memory()
//!     let app = Router::new().route("/stock/{sku}/deduct", post(deduct)).layer(Extension(locks.clone()));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//!     axum::serve(listener, app).with_graceful_shutdown(locks.close_on(tokio::signal::ctrl_c())).await?;
//!     locks.shutdown(Duration::from_secs(10)).await;
//!     Ok(())
//! }
//! ```
//!
//! - [`#[distributed_lock]`](macro@distributed_lock) guards a handler, or any async function.
//! - [`LockLayer`] guards a route.
//! - [`LockManager`] takes locks by hand.
//!
//! The lock keeps honest holders apart; the [`FencingToken`] keeps out the one that was paused for longer than its lock
//! lived. In the transaction that reads and writes, claim first, then work:
//!
//! ```sql
//! UPDATE stock SET fence = :token WHERE sku = :sku AND fence <= :token   -- no row: stale, stop
//! ```
//!
//! # Events
//!
//! Besides those of the engine ([`LockManager`]'s crate), under the target `lock_axum`:
//!
//! | name | level | what happened |
//! |---|---|---|
//! | `lock.no_manager` | error | a guarded handler was asked for, and no manager is in the router: 500 |
//! | `lock.no_path_parameter` | error | a layer's template names a path parameter that the route does not have: 500 |
//! | `lock.misconfigured` | error | the options of a guarded route are out of range: 500 |
//! | `lock.not_guarded` | error | an extractor asked for a lease where no lock is: 500 (target `lock_core`) |

mod critical_section;
mod encode;
mod key_error;
mod layer;
mod policy;
mod problem;
mod rejection;

#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __private;

pub use lock_core::*;
pub use lock_macros::distributed_lock;

pub use self::key_error::KeyError;
pub use self::layer::{LockLayer, LockService, ResponseFuture};
pub use self::policy::{OnDisconnect, OnLost};
pub use self::rejection::LockRejection;
