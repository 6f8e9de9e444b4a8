//! How long a `ttl`, a `wait` and a `max_hold`.
//!
//! | | What it answers |
//! |---|---|
//! | [`ttl`](crate::LockManagerBuilder::ttl) | How long do others wait if this process dies? |
//! | [`wait`](crate::LockManagerBuilder::wait) | How long may a caller wait for its turn? |
//! | [`max_hold`](crate::LockManagerBuilder::max_hold) | When is a holder that still runs considered stuck? |
//!
//! The manager has a default for each, and each lock can have its own.
//!
//! # `ttl` is not how long the work takes
//!
//! A lock is renewed while it is held, when a third of its `ttl` is over; the first time sooner, if a master refused it. The work may take
//! much longer than the `ttl`:
//!
//! ```
//! # use std::time::Duration;
//! # use lock_axum::{LockError, LockManager};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), LockError> {
//! # let locks = LockManager::in_memory();
//! let second = Duration::from_secs(1);
//! let guard = locks.lock("report:daily").ttl(2 * second).max_hold(600 * second).acquire().await?;
//! tokio::time::sleep(300 * second).await;
//! assert!(guard.is_valid());
//! # Ok(())
//! # }
//! ```
//!
//! - A **shorter** `ttl` lets others in sooner after a crash. But a holder that cannot renew for that long loses its
//!   lock: its runtime was blocked, its machine paused, or the network gone. And a paused holder is more likely to wake
//!   up after its lock has ended, which is what [fencing](super::fencing) is for.
//! - A **longer** `ttl` survives longer pauses, and makes others wait longer after a crash.
//!
//! 5 to 10 seconds suit most requests. From 2 seconds on, a lock is renewed in time even if the runtime that renews it
//! is blocked, as long as the manager is used on another one. Below one second, masters also have less time to reply:
//! with Redis, the [`node_timeout`](crate::LockManagerBuilder::node_timeout) is a twentieth of the `ttl` then, and 50 ms otherwise.
//!
//! No lock may ask for more than [`max_ttl`](crate::LockManagerBuilder::max_ttl). A
//! restarted master grants nothing for that long, and a margin. So do not raise it for a single long job: renewal is for
//! that.
//!
//! With `renew = false`, the lock ends with its `ttl` whatever the holder does.
//!
//! # `wait`: shorter than the client's patience
//!
//! A request that waits longer than its client or proxy does is wasted. Use their timeout, minus the time for the work
//! itself. As a rule of thumb, `wait` is how long one hold takes, times the callers that
//! may be in line.
//!
//! `wait` also covers two things that are not contention: a burst of callers, whose attempts wait in line, and a
//! majority of the masters that is gone for less than a second. Zero, as in
//! [`try_acquire`](crate::LockRequest::try_acquire), means to try once, and covers neither. It is right for a job that
//! another instance does if this one does not.
//!
//! A caller whose `wait` is over gets [`Contended`](crate::LockError::Contended), in HTTP 409 with a `Retry-After`.
//!
//! # `max_hold`: the emergency brake
//!
//! Renewals have no limit of their own. Without a brake, a handler that hangs would keep its lock forever. At `max_hold` the
//! lease is lost, and the work is cancelled like after any other loss:
//!
//! ```
//! # use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # let locks = lock_axum::LockManager::in_memory();
//! use lock_axum::{LockError, LossReason};
//!
//! let report = locks.lock("report:daily").max_hold(Duration::from_secs(5));
//! let outcome = report.run(async |_lease| std::future::pending::<()>().await).await;
//! assert!(matches!(outcome, Err(LockError::Lost { reason: LossReason::MaxHold, .. })));
//! # }
//! ```
//!
//! Make it several times what the slowest good run takes. It ends the lease; others get the lock when the guard is
//! dropped, or at most a `ttl` later.
//!
//! # In the attribute
//!
//! ```
//! # use axum::extract::Path;
//! # use lock_axum::{Lease, distributed_lock};
//! #[distributed_lock(resource = "stock:{sku}", ttl = "5s", wait = "1s", max_hold = "20s")]
//! async fn deduct(Path(sku): Path<String>, lease: Lease) -> String {
//!     format!("{sku} is ours for {:?}", lease.remaining())
//! }
//! # axum::Router::<()>::new().route("/{sku}", axum::routing::post(deduct));
//! ```
//!
//! Literals out of range are compile errors; a `ttl` above the manager's `max_ttl` is found when the handler is called,
//! and by a layer when it is built.
