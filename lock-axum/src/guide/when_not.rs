//! When not to use a distributed lock.
//!
//! A lock costs a round trip, servers to run, and a way to fail that callers have to handle. Often the data can protect
//! itself, and does it better.
//!
//! | The job | The better tool |
//! |---|---|
//! | change one row | one `UPDATE` with its condition |
//! | do something at most once | a unique constraint |
//! | change several rows of one database | a transaction with `SELECT ... FOR UPDATE`, or an advisory lock of that database |
//! | save a form that was open for minutes | a version column: `UPDATE ... WHERE version = ?` |
//! | hand out jobs | a queue, or `SELECT ... FOR UPDATE SKIP LOCKED` |
//! | protect what a single process has in memory | `tokio::sync::Mutex` |
//! | limit the load on something | `tokio::sync::Semaphore`, tower's `ConcurrencyLimit`, a rate limiter; for a few across all instances, [`permits`](super::permits) |
//! | own something for days | a row with its owner |
//!
//! The first row is the most frequent. It needs no lock, no token and no transaction:
//!
//! ```
//! # use rusqlite::Connection;
//! # fn main() -> rusqlite::Result<()> {
//! # let db = Connection::open_in_memory()?;
//! # db.execute_batch("CREATE TABLE stock (sku TEXT, quantity BIGINT); INSERT INTO stock VALUES ('42', 1)")?;
//! let sell = "UPDATE stock SET quantity = quantity - 1 WHERE sku = ? AND quantity > 0";
//! assert_eq!(db.execute(sell, ["42"])?, 1, "sold");
//! assert_eq!(db.execute(sell, ["42"])?, 0, "sold out");
//! # Ok(())
//! # }
//! ```
//!
//! Whether a handler needs one is what a [trial](super::do_i_need_a_lock) shows.
//!
//! # When it is right
//!
//! - The work spans more than one store or service, so that no transaction covers it: read the stock, call the payment,
//!   write the order. See [`fencing`](super::fencing) for how each store takes part.
//! - The work is expensive, and doing it twice is a waste but no damage: a report, a cache that is filled, a scheduled
//!   job.
//! - What is protected cannot protect itself: a device, a file, the API of somebody else. Then a paused holder may
//!   still act at the wrong moment, so keep the work short compared with the `ttl`, and make it bearable if it happens.
//!
//! # Efficiency or correctness
//!
//! Ask what happens if two holders do work at once, because one of them was paused for too long.
//!
//! *The work is wasted.* Then the lock is enough, without a token, and so may be a single master.
//!
//! *Data is wrong.* Then the data has to check the token, whatever lock you use. With the claim in place, the lock
//! makes collisions rare, and the database makes them harmless:
//!
//! ```
//! # use lock_axum::{LockError, LockManager};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! # let locks = LockManager::in_memory();
//! // A cache: a token would protect nothing.
//! let filled = locks.lock("cache:front-page").run(async |_lease| "rendered once").await?;
//!
//! // Money: every transaction claims with the token.
//! let token = locks.lock("account:7").run(async |lease| lease.token()).await?;
//! # _ = (filled, token);
//! # Ok(())
//! # }
//! ```
//!
//! # Locks on the client's behalf
//!
//! A lock is held by code that runs, for as long as it runs. It is not a reservation: a shopping cart should not
//! hold a lock while the customer looks for a credit card. Write a row that says who reserved what until when, and use the
//! lock, or one statement, to write that row.
