//! How to stop an instance, and how to roll out a new version.
//!
//! Two calls, around the shutdown of the server:
//!
//! ```
//! # use std::time::Duration;
//! # use axum::extract::Path;
//! # use axum::routing::post;
//! # use axum::{Extension, Router};
//! # use lock_axum::{LockError, LockManager, distributed_lock};
//! # #[distributed_lock(resource = "stock:{sku}")]
//! # async fn deduct(Path(sku): Path<String>) -> String { sku }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockManager::in_memory();
//! let app = Router::new().route("/stock/{sku}", post(deduct)).layer(Extension(locks.clone()));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//!
//! # let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! # let stop_signal = || stopped;
//! # stop.send(()).unwrap();
//! // Requests that wait for a lock are turned away as soon as the signal arrives.
//! axum::serve(listener, app).with_graceful_shutdown(locks.close_on(stop_signal())).await?;
//! // The server has stopped. Handlers whose clients hung up may still hold locks.
//! let report = locks.shutdown(Duration::from_secs(10)).await;
//! assert_eq!(report.revoked, 0);
//! # assert!(matches!(locks.lock("stock:42").acquire().await, Err(LockError::ShuttingDown { .. })));
//! # Ok(())
//! # }
//! ```
//!
//! 1. [`close_on`](crate::LockManager::close_on) waits for the signal. From then on, no lock can be acquired: waiting
//!    callers and new requests get 503 `lock-unavailable`, so that a load balancer can send them elsewhere. Held locks stay
//!    held.
//! 2. `axum::serve` lets its connections end. It does not wait for [sessions](super::sessions), of a
//!    WebSocket for example.
//! 3. [`shutdown`](crate::LockManager::shutdown) waits for the holders that are left, up to the grace. Then it revokes
//!    their leases, which cancels `run`, guarded handlers and sessions (unless they [continue](crate::OnLost)), and waits for the
//!    releases, about two seconds at most. No task and no connection of the manager is left.
//!    [`ShutdownReport::revoked`](crate::ShutdownReport) is how many were cut off.
//!
//! If the process is killed instead, others get its locks when their `ttl` is over.
//!
//! A stream that has no end of its own, such as server-sent events, holds up step 2. Let it end with
//! [`closed`](crate::LockManager::closed): `stream.take_until(locks.closed())`.
//!
//! # The signal
//!
//! Supervisors send SIGTERM, terminals SIGINT. Wait for both:
//!
//! ```no_run
//! async fn stop_signal() {
//!     # #[cfg(unix)]
//!     let terminated = async {
//!         use tokio::signal::unix::{SignalKind, signal};
//!         signal(SignalKind::terminate()).expect("a handler for SIGTERM").recv().await;
//!     };
//!     # #[cfg(not(unix))]
//!     # let terminated = std::future::pending::<()>();
//!     tokio::select! { _ = tokio::signal::ctrl_c() => {}, () = terminated => {} }
//! }
//! ```
//!
//! Give the process enough time before it is killed: the longest request, the grace, and two seconds. In Kubernetes
//! that is `terminationGracePeriodSeconds`.
//!
//! # Clients that hang up
//!
//! axum drops a handler when its client disconnects, at whatever `.await` it has reached. A guarded handler
//! [finishes](crate::OnDisconnect) instead, in a task of its own, with the lock held, because a half-done deduction is worse
//! than an unread response. `shutdown` waits for these handlers. For work that is only worth doing for the client, say
//! `on_disconnect = "cancel"`:
//!
//! ```
//! # use axum::extract::Path;
//! # use lock_axum::distributed_lock;
//! #[distributed_lock(resource = "report:{day}", on_disconnect = "cancel")]
//! async fn report(Path(day): Path<String>) -> String {
//!     format!("an expensive report for {day}")
//! }
//! # axum::Router::<()>::new().route("/{day}", axum::routing::get(report));
//! ```
//!
//! # While two versions run
//!
//! Old and new instances share the locks. Nothing has to be coordinated, as long as these are the same in both: the
//! prefix, the set name, the number of masters, and the names of the resources. The lists of masters [may differ in
//! one](super::masters#replacing-one). If the new version has a longer `max_ttl`, its first instance raises the `max_ttl` of the
//! set, and the old instances go on.
//!
//! An instance that starts while the masters cannot be reached fails in
//! [`connect`](crate::LockManagerBuilder::connect), which keeps a rollout from going on.
//! [`connect_lazy`](crate::LockManagerBuilder::connect_lazy) starts anyway, and requests get 503 until there is a
//! majority. Let [readiness](super::masters#readiness) ask for the health in either case.
//!
//! # Names that change
//!
//! If the new version calls a resource `inventory:42` where the old one says `stock:42`, they do not exclude each
//! other. The same goes for another prefix. Take three rollouts: the old name; **both**, the old one first; the new one
//! alone. Each differs from the one before by one lock, so any two of them that run at the same time have a lock in
//! common.
//!
//! ```
//! # use lock_axum::{LockError, LockManager};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! # let locks = LockManager::in_memory();
//! // The second rollout.
//! let _old = locks.lock("stock:42").acquire().await?;
//! let guard = locks.lock("inventory:42").acquire().await?;
//! # drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! Tokens of the two names cannot be compared. If the database remembers them by name, claim both in the second
//! rollout.
