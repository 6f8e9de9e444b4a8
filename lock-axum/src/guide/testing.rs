//! How to test guarded handlers.
//!
//! [`LockManager::in_memory`](crate::LockManager::in_memory) is the real engine over five masters in memory. Nothing
//! has to be installed, and each test can have a manager of its own, so tests do not disturb each other.
//!
//! # A request, as axum sends it
//!
//! A guarded handler has a hidden parameter, so a test calls it with a request. To make the lock busy, hold it in the
//! test:
//!
//! ```
//! use axum::body::Body;
//! use axum::extract::Path;
//! use axum::http::{Request, StatusCode};
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use lock_axum::{FencingToken, LockManager, distributed_lock};
//! use tower::ServiceExt as _;
//!
//! #[distributed_lock(resource = "stock:{sku}", wait = "1s")]
//! async fn deduct(Path(sku): Path<String>, token: FencingToken) -> StatusCode {
//!     if write(&sku, token).await { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
//! }
//!
//! /// Must run under the lock of the sku.
//! async fn write(sku: &str, token: FencingToken) -> bool {
//!     sku == "42" && token.get() > 0
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockManager::in_memory();
//! let app = Router::new().route("/stock/{sku}", post(deduct)).layer(Extension(locks.clone()));
//! let request = || Request::post("/stock/42").body(Body::empty()).unwrap();
//!
//! assert_eq!(app.clone().oneshot(request()).await?.status(), StatusCode::NO_CONTENT);
//!
//! let guard = locks.lock("stock:42").acquire().await?;
//! assert_eq!(app.oneshot(request()).await?.status(), StatusCode::CONFLICT);
//! drop(guard);
//!
//! // The work alone, without a request:
//! assert!(locks.lock("stock:42").run(async |lease| write("42", lease.token()).await).await?);
//! # Ok(())
//! # }
//! ```
//!
//! # Split the handler
//!
//! As above: the handler extracts and answers, and a function of its own does the work. It takes what the lock
//! provides, the token or the lease. That function is easy to test, and its parameters say that it needs a lock. The
//! attribute generates no unguarded version of the handler that a service could call by mistake.
//!
//! # Races
//!
//! These tests show that the handler is guarded. Whether its lock is in the right place is shown by a [trial](super::do_i_need_a_lock), which runs two
//! requests in every order of their steps that matters.
//!
//! # Masters that fail
//!
//! [`MemoryNode`](crate::MemoryNode) is one master, whose clones are the same master: keep one, and use its switches.
//!
//! | Switch | The fault |
//! |---|---|
//! | `set_down(true)` | it cannot be reached |
//! | `set_delay(duration)` | it is slow; beyond all timeouts, it hangs |
//! | `drop_replies(true)` | it executes requests, but its answers are lost |
//! | `forget()` | it restarts empty |
//! | `restart()` | it restarts with its data |
//! | `advance_clock(duration)` | its clock jumps, and keys expire early |
//!
//! Two managers over the same nodes are two instances of a service:
//!
//! ```
//! use lock_axum::{LockError, LockManager, MemoryNode};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
//! let here = LockManager::builder().nodes(nodes.clone()).connect().await?;
//! let there = LockManager::builder().nodes(nodes.clone()).connect().await?;
//!
//! let guard = here.lock("stock:42").acquire().await?;
//! assert!(matches!(there.lock("stock:42").try_acquire().await, Err(LockError::Contended { .. })));
//! guard.release().await?;
//!
//! nodes[0].set_down(true);
//! drop(there.lock("stock:42").acquire().await?); // two of three are a majority
//! nodes[1].set_down(true);
//! assert!(matches!(there.lock("stock:42").acquire().await, Err(LockError::NoQuorum { .. })));
//! # Ok(())
//! # }
//! ```
//!
//! # A lock that is lost
//!
//! Time can be [paused](https://docs.rs/tokio/latest/tokio/time/fn.pause.html) (`start_paused`, tokio's feature
//! `test-util`), so that a test of minutes takes milliseconds. Here a majority forgets while the handler runs. The next
//! renewal finds that out:
//!
//! ```
//! # use std::time::Duration;
//! # use axum::body::Body;
//! # use axum::http::{Request, StatusCode};
//! # use axum::routing::post;
//! # use axum::{Extension, Router};
//! # use lock_axum::{LockManager, MemoryNode, distributed_lock};
//! # use tokio::time::sleep;
//! # use tower::ServiceExt as _;
//! #[distributed_lock(resource = "report:daily", ttl = "10s")]
//! async fn report() -> &'static str {
//!     sleep(Duration::from_secs(30)).await;
//!     "done"
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
//! let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
//! let app = Router::new().route("/report", post(report)).layer(Extension(locks.clone()));
//!
//! let response = tokio::spawn(app.oneshot(Request::post("/report").body(Body::empty())?));
//! sleep(Duration::from_secs(1)).await; // the handler holds the lock
//! nodes[0].forget();
//! nodes[1].forget();
//! assert_eq!(response.await??.status(), StatusCode::INTERNAL_SERVER_ERROR); // lock-lost
//! # Ok(())
//! # }
//! ```
//!
//! Masters in memory cannot show the settings, permissions and versions of a real Redis. Let one test of the
//! service run against a `redis-server`, with [`connect`](crate::LockManagerBuilder::connect), which checks them.
