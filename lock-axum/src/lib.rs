//! Distributed locks for axum services. A handler runs for one holder at a time across every instance of the service,
//! and gets a [`FencingToken`] to protect what it writes.
//!
//! The locks are Redlock locks on independent Redis masters: a lock is held if a majority of the masters grants it, so
//! that a minority may fail.
//!
//! # Example
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use axum::extract::Path;
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use lock_axum::{Lease, LockManager, distributed_lock};
//!
//! // At most one request for a sku at a time, in all instances of the service.
//! #[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
//! async fn deduct(Path(sku): Path<String>, lease: Lease) -> String {
//!     format!("deducting {sku} with token {}", lease.token())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let locks = LockManager::builder()
//!         .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!         .connect()
//!         .await?; // for development: LockManager::in_memory()
//!
//!     let app = Router::new().route("/stock/{sku}/deduct", post(deduct)).layer(Extension(locks.clone()));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//!     // Requests that wait for a lock are turned away when the shutdown begins.
//!     axum::serve(listener, app).with_graceful_shutdown(locks.close_on(tokio::signal::ctrl_c())).await?;
//!     // The locks of the last requests are released.
//!     locks.shutdown(Duration::from_secs(10)).await;
//!     Ok(())
//! }
//! ```
//!
//! # Macro, layer or manager
//!
//! | Use | to guard | The resource comes from |
//! |---|---|---|
//! | [`#[distributed_lock]`](macro@distributed_lock) | a handler, or any `async fn` | the function's parameters, after extraction |
//! | [`LockLayer`] | a route, or any tower service | the path, a header, the query string, or a function of the request's head |
//! | [`LockManager`] | a part of a handler, or work outside of a request | your code |
//!
//! Prefer the macro for handlers. It runs the extractors before it acquires the lock, so that an invalid request never
//! holds it, and its template is checked at compile time. Use the layer for services that are not yours or have no
//! handler function. Both can hold the lock until the end of a streamed response, or of a WebSocket's
//! [session](guide::sessions). All three exclude each other on the same resource.
//!
//! The templates of macro and layer percent-encode the values in their placeholders; text that you write yourself is taken
//! as it is: `key` of the macro, [`LockLayer::with_key`] and [`LockManager::lock`]. To mean the same lock there, encode the
//! values with [`encode_value`]: `locks.lock(format!("stock:{}", encode_value(sku)))` is the lock of `"stock:{sku}"`.
//!
//! The [`guide`] has a page for each question that comes next, from the name of a resource to running the masters.
//!
//! The layer belongs to the methods of a route, `post(deduct).route_layer(LockLayer::new(locks, "stock:{sku}"))`:
//! `Router::route_layer` and `Router::layer` also acquire the lock for wrong methods, and answer with 500 on routes that lack
//! a path parameter of the template.
//!
//! By hand, a lock is a guard, which releases when it is dropped, or a scope, which is cancelled when the lock is lost:
//!
//! ```
//! use lock_axum::{LockError, LockManager};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! let locks = LockManager::in_memory();
//!
//! let guard = locks.lock("report:daily").acquire().await?;
//! println!("holding the lock with token {}", guard.token());
//! guard.release().await?;
//!
//! let answer = locks.lock("report:daily").run(async |_lease| 42).await?;
//! assert_eq!(answer, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Claim, then work
//!
//! A lock alone does not protect against a holder that is paused for longer than its lock lives: by a stopped virtual
//! machine, for example. It may resume after another holder has acquired the lock, and write before it notices. Only
//! the resource itself can reject that write, which is what the fencing token is for: every acquisition of a resource
//! has a larger token than the acquisitions that completed before it began.
//!
//! Checking the token only when writing is not enough, because the new holder may already have read what the old one
//! then overwrites. In the transaction that reads and writes, first claim the resource with the token, then work:
//!
#![cfg_attr(feature = "rusqlite", doc = "```no_run")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! # use lock_axum::fence::{self, rusqlite::ClaimError};
//! # use rusqlite::{Connection, params};
//! # fn deduct(db: &mut Connection, sku: &str, lease: &lock_axum::Lease) -> Result<(), ClaimError> {
//! let tx = db.transaction()?;
//! fence::rusqlite::claim(&tx, lease)?; // claim; stale: `?` rolls back and answers 409
//! let quantity: i64 = tx.query_row("SELECT quantity FROM stock WHERE sku = ?", [sku], |row| row.get(0))?; // read
//! tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![quantity - 1, sku])?; // write
//! tx.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! Work that spans several transactions claims in each of them. [`fence`] has the claim for rusqlite, tokio-postgres, sqlx 0.8 and sqlx
//! 0.9 (features `rusqlite`, `tokio-postgres`, `sqlx` and `sqlx-0_9`), the same SQL statement for other libraries ([`fence::CLAIM`]), and
//! scripts for data in Redis.
//!
//! # Modules
//!
//! What every service uses is at the root. [`delegation`] is for requests that work under the lock of another service, [`fence`] for claims
//! in a database, [`inspection`] for who holds a lock, [`masters`] for the members of a set and what keeps one from voting, [`limits`] for
//! the ranges of settings, and [`observer`] for hooks into what a manager does. [`node`] is for authors of nodes.
//!
//! # Features
//!
//! | Feature | What it brings | Additional crates |
//! |---|---|---|
//! | `redis`, on by default | Redis and Valkey servers as masters | without it: 37 less, of 90 |
//! | `postgres` | PostgreSQL servers as masters: [the guide](guide::postgresql) | 33 |
//! | `zookeeper` | a ZooKeeper ensemble as the master: [the guide](guide::zookeeper) | 68 |
//! | `tls` | `rediss://`, and `sslmode=require` for PostgreSQL, with rustls | 11 |
//! | `rusqlite`, `tokio-postgres`, `sqlx` (0.8), `sqlx-0_9` | claims in these databases: [`fence`] | 5, 33, 58, 55 |
//! | `metrics` | [metrics](#metrics) through the facade of that name | 3 |
//! | `dashboard` | a page that shows the locks of a process | none |
//! | `testing` | `testing`: [trials](guide::do_i_need_a_lock), which show the races of a handler; for tests | none |
//! | `utoipa` | the responses of the lock in an OpenAPI document: [`LockRejection`] as `utoipa::IntoResponses` | 7 |
//! | `serde` | `Serialize` and `Deserialize` for [`FencingToken`] and [`fence::Claimant`] | 2 |
//!
//! The numbers count what `cargo tree -e normal` lists, this crate and procedural macros included.
//!
//! # HTTP responses
//!
//! Macro and layer answer instead of the handler if it cannot run, or if its lock is lost:
//!
//! | Cause | Status | `type` ends in | `Retry-After` |
//! |---|---|---|---|
//! | held by another holder until `wait` ran out; too many waiters | 409, or `busy_status` | `lock-busy` | yes |
//! | no majority of the masters responded; granted too late to be used; shutting down | 503 | `lock-unavailable` | yes |
//! | the bodies of waiting requests exceed the manager's `max_buffered_bytes` | 503 | `lock-buffer-full` | yes |
//! | the lease was lost while the handler ran | 500 | `lock-lost` | no |
//! | the resource cannot be built from the request | 400 | `lock-key-invalid` | no |
//! | the request body is larger than the layer's `body_limit`, or than `max_buffered_bytes` | 413 | `about:blank` | no |
//! | the layer could not read the request body | 400 | `about:blank` | no |
//! | the request body did not arrive within `body_timeout`, or was the slowest when `max_buffered_bytes` was reached | 408 | `about:blank` | no |
//! | a claim was refused, and the handler returned the error ([`fence::StaleToken`]) | 409 | `stale-fencing-token` | no |
//! | a [delegation](guide::delegation) is missing, malformed, one of several, expired, only to read, for another service, resource or set of masters, or its lock is not the sender's any more | 403 | `lock-delegation-refused` | no |
//! | no lock manager in the request extensions; invalid lock options; a lock to write inside of one that reads the same; a lock key that holds something else | 500 | `about:blank` | no |
//! | a path parameter that the route does not have, or has twice; [`Lease`], [`Leases`], [`FencingToken`] or [`Hold`] on a route without it | 500 | `about:blank` | no |
//!
//! The bodies are problem documents (RFC 9457, `application/problem+json`) with `type`, `title`, `status`, `detail`
//! and, with a `Retry-After` header, `retry_after_ms`. They contain neither the resource nor its owner. The causes with
//! status 500 and type `about:blank` are mistakes in the service; their details are [events](#events).
//!
//! `Retry-After` is 1 second, unless `retry_after` is set. For a busy lock, `retry_after_ms` is how long locks on the
//! resource were held lately by this manager, from 10 ms to 60 s; see [`LockError::retry_after`]. Otherwise, and if that
//! is not known, it is the same as the header.
//!
//! If the lease is lost while the handler runs, the response is an error: 500 `lock-lost` replaces every response with a
//! status below 400, redirects included. It does not mean that nothing was written: the handler may have committed
//! before the loss. Let clients send idempotency keys.
//!
//! With the feature `utoipa`, [`LockRejection`] describes these responses in an OpenAPI document: `responses((status = 200), LockRejection)`.
//!
//! [`readyz`] answers readiness probes: 503 `lock-unavailable` while no lock can be acquired. `dashboard`, with the feature of that
//! name, is a page that shows the locks of the process live, to be nested below your own authentication.
//!
//! # Events
//!
//! `tracing` events with a target that begins with `lock_axum`. Each has its name as the field `event`, too, which formatters print:
//!
//! | Name | Level | Meaning |
//! |---|---|---|
//! | `lock.no_manager` | error | A handler with `#[distributed_lock]` was called, but no manager is in the request extensions. |
//! | `lock.no_path_parameter` | error | The template of a layer names a path parameter that the route does not have. Once for each layer. |
//! | `lock.ambiguous_path_parameter` | error | The template of a layer names a path parameter that the route has more than once. Once for each layer. |
//! | `lock.misconfigured` | error | The lock options of a guarded handler are out of range for its manager. |
//! | `lock.upgrade` | error | A guarded handler that reads locks the same resource again, to write. |
//! | `lock.not_a_lock` | error | The key of a lock holds something that is not a lock: another program uses the same name. |
//! | `lock.upgrade_not_held` | warn | A lock that is held until the end of the body, or for a session whose handler did not take its [`Hold`] along, was released at an upgrade (101, or the answer to a `CONNECT`). Once for each layer, and once for all handlers with the attribute. |
//! | `lock.session_not_begun` | warn | A session did not begin within 10 seconds of the end of its handler. Its lock was released. |
//! | `lock.session_not_held` | error | A handler with a session runs under a lock that an outer layer or handler adopted. The session ends with the answer. |
//! | `lock.no_hold` | error | [`Hold`] was extracted, but no layer with `hold_until_session_end` guards the route, or it was extracted before. |
//! | `lock.stale_token` | warn | A resource refused a claim, because a later holder of the lock has claimed it. Nothing was written. The event names the token and the sink, never the resource. |
//! | `lock.order` | warn | Two templates were nested in both orders (`testing::LockOrder`); the event names them, and both places. Once for each pair. |
//! | `lock.claim_failed` | error | A handler returned a claim error that is an error of its database. |
//!
//! With a target that begins with `lock_core`:
//!
//! | Name | Level | Meaning |
//! |---|---|---|
//! | `lock.not_guarded` | error | [`Lease`], [`Leases`] or [`FencingToken`] was extracted, but nothing guards the route, its lock has another one of them, or `#[distributed_lock]` had not yet acquired it. |
//!
//! The other events of the target `lock_core`, about masters, renewals and releases, are listed in the documentation of
//! `lock-core`.
//!
//! # Metrics
//!
//! With the feature `metrics`, waits, holds, losses and the masters are recorded with the `metrics` facade, labeled by the
//! template of the resource; the documentation of `lock-core` lists them. Without it, and for anything else, there is
//! [`LockObserver`]. One more is about [claims](fence), which need no manager:
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `lock_fence_rejections_total` | counter | `sink`: `sqlite`, `postgres`, or what [`StaleToken::report`](fence::StaleToken::report) was told |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod buffered_bytes;
mod counted;
mod critical_section;
#[cfg(feature = "dashboard")]
mod dashboard;
pub mod delegation;
mod detach;
mod distributed_lock;
mod encode;
pub mod fence;
mod guard;
pub mod guide;
mod held;
mod hold;
mod key_error;
mod layer;
mod log_once;
#[cfg(feature = "utoipa")]
mod openapi;
mod param;
mod policy;
mod problem;
mod question;
mod readyz;
mod rejection;
mod response_body;
mod signature;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(not(feature = "testing"))]
#[path = "testing/without.rs"]
pub mod testing;
mod until_lost;
mod upload;

#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __private;

#[cfg(feature = "zookeeper")]
#[doc(inline)]
pub use lock_core::ZooKeeperNode;
#[cfg(feature = "tls")]
#[doc(inline)]
pub use lock_core::rustls;
#[doc(inline)]
pub use lock_core::{
    ConfigError, ConnectError, Credentials, FencingToken, Health, Kind, Lease, Leases, LockError, LockGuard,
    LockManager, LockManagerBuilder, LockNode, LockObserver, LockRequest, LossReason, MemoryNode, MissingLease,
    NodeError, NodeHealth, NodeVote, SetGuard, SetRequest, ShutdownReport, Vote, inspection, limits, masters, node,
    observer,
};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use lock_core::{PostgresNode, tokio_postgres};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use lock_core::{RedisNode, redis};

#[cfg(feature = "dashboard")]
pub use self::dashboard::{Dashboard, InvalidHost, dashboard};
pub use self::distributed_lock::distributed_lock;
pub use self::encode::encode_value;
pub use self::hold::{Hold, MissingHold};
pub use self::key_error::KeyError;
pub use self::layer::{LockLayer, LockService, ResponseFuture};
pub use self::policy::{OnDisconnect, OnLost};
pub use self::readyz::readyz;
pub use self::rejection::LockRejection;
