//! Where the transaction goes, and what to do about requests that are sent twice.
//!
//! # The lock outside, the transaction inside
//!
//! Acquire the lock, begin the transaction, commit it, release the lock. A guarded handler does so if it begins
//! and commits in its body. The other way round goes wrong in three ways:
//!
//! - *The lock ends before the commit.* The next holder begins with data that the previous one is about to change.
//! - *The transaction reads too early.* With `REPEATABLE READ` or `SERIALIZABLE`, what it sees may be as old as its
//!   first statement, which was before the lock was held.
//! - *A connection, and the row locks it has, wait for another process.* A pool of ten connections is used up by ten
//!   requests that wait for a lock.
//!
//! The claim is the first statement of the transaction, so that nothing is read before it: see
//! [`fencing`](super::fencing).
//!
//! Nothing else belongs inside. A call to a payment service with an open transaction keeps its rows locked for as long
//! as that service takes. Commit before it, and begin another transaction afterwards, which claims again with the same
//! token. If the process dies in between, only the data can tell: record that the payment was begun, as an order with a
//! state, so that the next holder can find out and continue.
//!
//! # A loss does not undo
//!
//! If the lease is lost while the handler runs, the client gets 500 `lock-lost`. The transaction may have been
//! committed just before. The same is true of a timeout, or a broken connection: in all of these cases the
//! client cannot know, and will try again.
//!
//! # Idempotency keys
//!
//! So let the client send a key with each order, the same for each repetition, and remember it in the transaction that
//! does the work. The unique constraint of the database enforces this, not the lock:
//!
#![cfg_attr(feature = "rusqlite", doc = "```")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! use lock_axum::fence::{self, rusqlite::ClaimError};
//! use lock_axum::{Lease, LockManager};
//! use rusqlite::{Connection, OptionalExtension as _, params};
//!
//! /// Sells one unit, and returns the order's number. A key that was seen before gets the number of that time.
//! fn order(db: &mut Connection, key: &str, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
//!     let tx = db.transaction()?;
//!     fence::rusqlite::claim(&tx, lease)?;
//!     let by_key = "SELECT id FROM orders WHERE idempotency_key = ? AND sku = ?"; // with another SKU, the key is refused below
//!     if let Some(id) = tx.query_row(by_key, [key, sku], |row| row.get(0)).optional()? {
//!         return Ok(id);
//!     }
//!     if tx.execute("UPDATE stock SET quantity = quantity - 1 WHERE sku = ?", [sku])? == 0 {
//!         return Err(rusqlite::Error::QueryReturnedNoRows.into()); // there is no such SKU
//!     }
//!     tx.execute("INSERT INTO orders (idempotency_key, sku) VALUES (?, ?)", params![key, sku])?;
//!     let id = tx.last_insert_rowid();
//!     tx.commit()?;
//!     Ok(id)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut db = Connection::open_in_memory()?;
//! db.execute_batch(fence::CREATE_TABLE)?;
//! db.execute_batch(
//!     "CREATE TABLE orders (id INTEGER PRIMARY KEY, idempotency_key TEXT NOT NULL UNIQUE, sku TEXT NOT NULL);
//!      CREATE TABLE stock (sku TEXT PRIMARY KEY, quantity BIGINT NOT NULL CHECK (quantity >= 0));
//!      INSERT INTO stock VALUES ('42', 5)",
//! )?;
//! let locks = LockManager::in_memory();
//!
//! let guard = locks.lock("stock:42").acquire().await?; // the lock,
//! let first = order(&mut db, "7f3a", "42", &guard)?; // the transaction, up to its commit,
//! guard.release().await?; // and the end of the lock
//!
//! // The client did not see the answer, and repeats its request.
//! let guard = locks.lock("stock:42").acquire().await?;
//! assert_eq!(order(&mut db, "7f3a", "42", &guard)?, first);
//! # let left: i64 = db.query_row("SELECT quantity FROM stock", [], |row| row.get(0))?;
//! assert_eq!(left, 4, "sold once");
//! assert!(order(&mut db, "7f3b", "43", &guard).is_err(), "an order is for what there is");
//! # Ok(())
//! # }
//! ```
//!
//! Pass the key on to the services that you call, where they take one. Services of your own can also take the token, in
//! a header, say, and claim with it before they write: with the feature `serde`, a
//! [`FencingToken`](crate::FencingToken) is read from its number. The repository has a purchase over two services and a
//! payment in `examples/saga`.
//!
//! # Which error means what
//!
//! | The client gets | Was anything written? | What it does |
//! |---|---|---|
//! | 409 `lock-busy`, 503 `lock-unavailable`, 503 `lock-buffer-full` | no, the handler did not run | waits as `Retry-After` says, and tries again |
//! | 409 `stale-fencing-token` | not by the transaction that was refused | tries again |
//! | 500 `lock-lost`, or no answer | perhaps | tries again **with the same idempotency key** |
