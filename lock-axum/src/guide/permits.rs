//! Permits: a few holders at once.
//!
//! An export service may be called by three clients at a time; a licence is for five machines; a migration may run on two shards at
//! once. [`LockManager::permits`](crate::LockManager::permits) gives out that many permits, across all instances:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_axum::LockError> {
//! # let locks = lock_axum::LockManager::in_memory();
//! let permit = locks.permits("export", 3).acquire().await?; // at most three at once, 1 to 100
//! println!("slot {:?}, token {}", permit.slot(), permit.token());
//! # Ok(())
//! # }
//! ```
//!
//! The attribute and the layer have them, too:
//!
//! ```
//! use axum::Router;
//! use axum::routing::post;
//! use lock_axum::{Lease, LockLayer, LockManager, distributed_lock};
//!
//! #[distributed_lock(resource = "export:{tenant}", permits = 3)]
//! async fn export(axum::extract::Path(tenant): axum::extract::Path<String>, lease: Lease) -> String {
//!     format!("{tenant} exports to worker {}", lease.slot().unwrap_or_default())
//! }
//!
//! let locks = LockManager::in_memory();
//! let report = post(async || "a report").route_layer(LockLayer::new(locks.clone(), "report").permits(2));
//! let app: Router = Router::new()
//!     .route("/export/{tenant}", post(export))
//!     .route("/report", report)
//!     .layer(axum::Extension(locks));
//! ```
//!
//! # A permit is a lock
//!
//! Each permit is a *slot*: a whole lock, with a key of its own, renewed, lost and released as any other. The holder of slot 2 of
//! `export` knows that nobody else has it. So the slot can also say *which* of three things is used: the worker, the port, the licence.
//!
//! # Claims name the slot
//!
//! The tokens of a slot are unique and increase. The tokens of different slots say nothing about each other: the holder of slot 0 may
//! have a larger token than the holder of slot 1, and both are valid. So a resource has to remember one token for each slot, and not
//! one for all of them, which would refuse valid holders.
//!
//! [`Lease::resource`](crate::Lease::resource) is therefore the name of the slot, as `export{2}`, and a [claim](crate::fence) is one
//! of that slot:
//!
//! ```
//! use lock_axum::{LockManager, fence};
//! use rusqlite::Connection;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut db = Connection::open_in_memory()?;
//! db.execute_batch(fence::CREATE_TABLE)?;
//! db.execute_batch("CREATE TABLE export (worker BIGINT, file TEXT)")?;
//!
//! let locks = LockManager::in_memory();
//! let permit = locks.permits("export", 3).acquire().await?;
//! let tx = db.transaction()?;
//! fence::rusqlite::claim(&tx, &permit)?; // of this slot
//! tx.execute("INSERT INTO export VALUES (?, 'report.csv')", [permit.slot()])?;
//! tx.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! A claim stops a paused holder from overwriting the work of its successor *in the same slot*. It does not order the holders of
//! different slots, which work at the same time on purpose: what they share still needs a transaction.
//!
//! # What operators do
//!
//! [`inspect("export{2}")`](crate::LockManager::inspect) shows who has a slot, and
//! [`force_release("export{2}")`](crate::LockManager::force_release) takes it from them; so do `lockctl inspect 'export{2}'` and the
//! dashboard, which has a row for each slot that its process holds. A permit is [delegated](super::delegation) as a lock is. Nobody can
//! *acquire* a given slot: braces are no part of a name.
//!
//! # What it costs
//!
//! One round trip, as for a lock, if the slot that this process used last is free: it tries that one first. If the slot is held, the
//! masters reply which slots are free, and a second attempt takes one of them. If none is free, callers wait in one
//! queue for all slots, and a slot that is released goes to one of the first, without polling.
//!
//! # What it cannot do
//!
//! - **More than 100 permits, or a rate.** To limit load, and not the number of holders, use a rate limiter. A single process
//!   has `tokio::sync::Semaphore`.
//! - **Several permits at once.** Two callers that need two of three would hold one each and wait for each other. Inside the scope of a
//!   permit, asking for the same resource again gives the same lease, unless its slot is beyond the number that is asked for.
//! - **Permits in a set of locks** (`lock_all`). A set has a fixed order in which its names are taken, which is why it cannot
//!   deadlock. It is not known in advance which slot will be free. A permit and a lock can be nested, in the order of their names.
//! - **Different numbers at once.** While instances ask for different numbers, as during a rolling deploy that changes it, up to the
//!   largest number of permits is held. A smaller number is enforced once the old instances are gone. No instance gets a slot beyond
//!   its own number.
//! - **Together with the lock.** `lock("export")` and `permits("export", 3)` know nothing of each other.
//!
//! # Why the masters do not count
//!
//! A counter on each master would be simpler, and wrong. With three masters and two permits, masters 1 and 2 admit the first caller, 2 and 3
//! the second, 1 and 3 the third. No master has admitted more than two, yet all three callers have a majority. A majority proves that
//! *nobody else* holds something, not how many hold it. So each permit is a lock of its own.
