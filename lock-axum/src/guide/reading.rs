//! Many readers, or one writer.
//!
//! Any lock can be held for reading, by any number of holders at once, or for writing, by a single one. `lock` writes; a handler that
//! only reads says so.
//!
//! ```
//! use axum::routing::get;
//! use axum::{Extension, Router};
//! use lock_axum::{Lease, LockLayer, LockManager, Kind, distributed_lock};
//!
//! #[distributed_lock(resource = "catalog", mode = "read")]
//! async fn show(lease: Lease) -> String {
//!     assert_eq!(lease.kind(), Kind::Read);
//!     "the catalog, which nobody changes meanwhile".to_owned()
//! }
//!
//! #[distributed_lock(resource = "catalog")]
//! async fn replace() {}
//!
//! let locks = LockManager::in_memory();
//! let app: Router = Router::new()
//!     .route("/catalog", get(show).put(replace))
//!     .route("/catalog/export", get(async || "all of it").route_layer(LockLayer::new(locks.clone(), "catalog").read()))
//!     .layer(Extension(locks));
//! ```
//!
//! # When
//!
//! Use it when reads are many or long, and span several statements or services, so that no database gives you one view of them. Where
//! one transaction reads everything, its snapshot is the better answer, and costs no lock.
//!
//! # What it costs
//!
//! The readers of one process share one hold on the masters. The first takes it, in one round trip. Others join it without a round trip, or with
//! one if the masters were last asked more than 20 ms ago; the last one releases it. A lock that is only written costs nothing more.
//!
//! # The order of readers and writers
//!
//! Callers are served in the order of arrival, and readers that stand next to each other go in together. A writer that waits bars the
//! readers behind it, so that reads without end do not keep it out. It gets its turn when those that hold the lock are done. A writer
//! that has not been heard from for 2.5 seconds no longer bars readers.
//!
//! # From writing to reading
//!
//! `downgrade` turns a writer into a reader, with no other writer in between. A reader cannot become a writer: two readers that both
//! wait to write would deadlock. So locking to write inside a scope that reads fails at once with
//! [`LockError::Upgrade`](crate::LockError::Upgrade). Reading inside a scope that reads or writes shares its lease.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_axum::LockError> {
//! # let locks = lock_axum::LockManager::in_memory();
//! let writing = locks.lock("catalog").acquire().await?;
//! // … change it …
//! let reading = writing.downgrade().await?;
//! // … send what was written to others, while they read it, too …
//! reading.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it cannot promise
//!
//! **A reader that is paused past its lease reads on**, and does not know what was written since. As with writers, only the data
//! can refuse it: a reader *checks* its token ([`fence::CHECK`](crate::fence::CHECK)), which refuses it once a later writer has
//! [claimed](crate::fence::CLAIM). A check raises nothing, because readers share tokens and come in any order. It comes after what the reader
//! reads, and has to [see what was committed until then](crate::fence::CHECK).
//!
//! **A check does not stop a paused writer** that resumes after the reader has read: a check leaves no trace. If that matters, let readers
//! claim, one at a time; or keep the tokens of readers in a column of their own, which writers compare with, too.
