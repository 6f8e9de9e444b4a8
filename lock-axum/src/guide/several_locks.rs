//! How to lock several things at once.
//!
//! A transfer between two accounts must not run at the same time as another transfer on either of them. It locks both, or none:
//!
//! ```
//! # use lock_axum::{LockError, LockManager};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! # let locks = LockManager::in_memory();
//! let transfer = locks.lock_all(["account:7", "account:42"]);
//! transfer.run(async |leases| println!("tokens {} and {}", leases[0].token(), leases[1].token())).await?;
//! # Ok(())
//! # }
//! ```
//!
//! As a handler, and as a layer:
//!
//! ```
//! use axum::extract::Path;
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use lock_axum::{Leases, LockLayer, LockManager, distributed_lock};
//!
//! #[distributed_lock(resource = ["account:{from}", "account:{to}"])]
//! async fn transfer(Path((from, to)): Path<(u64, u64)>, leases: Leases) -> String {
//!     format!("{from} by token {}, {to} by token {}", leases[0].token(), leases[1].token())
//! }
//!
//! async fn reserve(leases: Leases) -> String {
//!     format!("token {}", leases[0].token())
//! }
//!
//! let locks = LockManager::in_memory();
//! let both = LockLayer::new_all(locks.clone(), ["stock:{sku}", "user:{header.x-user}"]);
//! let app: Router = Router::new()
//!     .route("/transfer/{from}/{to}", post(transfer))
//!     .route("/reserve/{sku}", post(reserve).route_layer(both))
//!     .layer(Extension(locks));
//! ```
//!
//! # What it is
//!
//! - **All or none**, with one `wait` for all. `max_hold` counts from when all are held.
//! - **No deadlock.** One caller writes `["a", "b"]`, and another one `["b", "a"]`: the order in which they are written
//!   matters only for the order of the leases. While a caller waits for one lock, it holds none whose name comes later.
//! - **One lease and one token each.** Send each resource its own token. Tokens of different resources are not ordered,
//!   so do not use the token of one for another.
//! - **The loss of one is the loss of all**, at once: the work is cancelled, and every lease says that it has ended. A
//!   resource that has to stop a paused holder still checks its own token ([fencing](super::fencing)).
//! - A name that is written twice is one lock, so a transfer from an account to itself works. A lock that an outer scope holds
//!   already is shared with it.
//! - 1 to 32 names.
//!
//! # What it costs
//!
//! If all are free, one round trip, as for one lock. Each lock that is held costs the wait for it, and a round trip for the
//! rest. While it waits, the caller keeps the locks whose names come before, and others wait for those, too. So a set is held up by its busiest lock, and holds up others. Prefer one lock where one will do.
//!
//! # What it cannot
//!
//! Locks that are nested by hand can still wait for each other in a circle, until `wait` is over:
//!
//! ```
//! # use lock_axum::{LockError, LockManager};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! # let locks = LockManager::in_memory();
//! // Another caller that nests them the other way round waits for this one, and this one for it.
//! locks.lock("b").run(async |_| locks.lock("a").acquire().await.map(drop)).await??;
//! # Ok(())
//! # }
//! ```
//!
//! The event `lock.nested_out_of_order` warns of that, once for each manager, when a caller waits for a name inside the scope
//! of one that comes after it. Take both with `lock_all`, or nest them in the order of their names. The same goes for a
//! layer around a handler that takes further locks.
//!
//! A set cannot be held for [a session](super::sessions), and has no [permits](super::permits): acquire those on their own, nested in
//! the order of names.
