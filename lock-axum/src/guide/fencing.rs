//! What the database has to do.
//!
//! A process can stop at any instruction: its machine is suspended or its runtime blocked. Its lease ends, the next
//! holder acquires the lock, and then the first one goes on, and writes before it has looked at the time. No lock can
//! prevent that. The database can: every lock comes with a [`FencingToken`](crate::FencingToken), and later holders
//! have larger ones.
//!
//! The rule is **claim, then read, then write**, in one transaction:
//!
//! 1. *Claim*: tell the database the token. It remembers the largest that it has seen, and refuses smaller ones.
//! 2. *Read* what you base your decision on.
//! 3. *Write*, and commit.
//!
//! # A check in the write is a trap
//!
//! Comparing tokens when writing looks sufficient. It is not, because a read leaves no trace. Here the first holder is
//! paused after it has read, and both writes are accepted:
//!
//! ```
//! # use lock_axum::LockManager;
//! # use rusqlite::{Connection, params};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let db = Connection::open_in_memory()?;
//! # db.execute_batch("CREATE TABLE stock (quantity BIGINT, fence BIGINT); INSERT INTO stock VALUES (5, 0)")?;
//! # let locks = LockManager::in_memory();
//! # let hold = async || locks.lock("stock:42").run(async |lease| lease.token().as_i64()).await;
//! # let (paused, next) = (hold().await?, hold().await?);
//! let read = || db.query_row("SELECT quantity FROM stock", [], |row| row.get::<_, i64>(0));
//! let write = |quantity: i64, token: i64| {
//!     db.execute("UPDATE stock SET quantity = ?1, fence = ?2 WHERE fence <= ?2", params![quantity, token])
//! };
//!
//! let seen_by_paused = read()?; // 5, and then its lease ends
//! let seen_by_next = read()?; // 5: the paused holder has written nothing yet
//! assert_eq!(write(seen_by_paused - 1, paused)?, 1, "accepted: nobody with a larger token has written");
//! assert_eq!(write(seen_by_next - 1, next)?, 1, "accepted");
//! assert_eq!(read()?, 4, "two are sold, and one is gone");
//! # Ok(())
//! # }
//! ```
//!
//! Had `next` claimed before it read, the write of `paused` would have been refused.
//!
//! # In a handler
//!
//! [`fence`](crate::fence) has the claim for SQL databases and Redis. A stale token is answered with 409
//! `stale-fencing-token`, and `?` rolls the transaction back:
//!
#![cfg_attr(feature = "rusqlite", doc = "```")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! # use axum::body::Body;
//! # use axum::http::{Request, StatusCode};
//! # use axum::{Extension, Router, routing::post};
//! # use tower::ServiceExt as _;
//! use std::sync::{Arc, Mutex};
//!
//! use axum::extract::{Path, State};
//! use lock_axum::fence::{self, rusqlite::ClaimError};
//! use lock_axum::{Lease, LockManager, distributed_lock};
//! use rusqlite::{Connection, params};
//! use tokio::task::spawn_blocking;
//!
//! type Db = Arc<Mutex<Connection>>;
//!
//! #[distributed_lock(resource = "stock:{sku}")]
//! async fn deduct(Path(sku): Path<String>, State(db): State<Db>, lease: Lease) -> Result<String, ClaimError> {
//!     let left = spawn_blocking(move || sell(&mut db.lock().unwrap(), &sku, &lease)).await.unwrap()?;
//!     Ok(format!("{left} left"))
//! }
//!
//! fn sell(db: &mut Connection, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
//!     let tx = db.transaction()?;
//!     fence::rusqlite::claim(&tx, lease)?;
//!     let quantity: i64 = tx.query_row("SELECT quantity FROM stock WHERE sku = ?", [sku], |row| row.get(0))?;
//!     tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![quantity - 1, sku])?;
//!     tx.commit()?;
//!     Ok(quantity - 1)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = Connection::open_in_memory()?;
//! db.execute_batch(fence::CREATE_TABLE)?; // with the other migrations
//! # db.execute_batch("CREATE TABLE stock (sku TEXT, quantity BIGINT); INSERT INTO stock VALUES ('42', 5)")?;
//! # let db: Db = Arc::new(Mutex::new(db));
//! # let locks = Extension(LockManager::in_memory());
//! # let app = Router::new().route("/stock/{sku}", post(deduct)).layer(locks).with_state(Arc::clone(&db));
//! # let request = || Request::post("/stock/42").body(Body::empty()).unwrap();
//! # let send = async || app.clone().oneshot(request()).await.unwrap().status();
//! assert_eq!(send().await, StatusCode::OK);
//!
//! // As if a much later holder had claimed while the handler was paused: with the largest token there is.
//! db.lock().unwrap().execute("UPDATE lock_fence SET token = 9007199254740991", [])?;
//! assert_eq!(send().await, StatusCode::CONFLICT);
//! # Ok(())
//! # }
//! ```
//!
//! The statement runs on a blocking thread and goes on if the handler is cancelled. That is fine: it has claimed.
//!
//! # In PostgreSQL
//!
//! With tokio-postgres (feature `tokio-postgres`), only the first line of the transaction differs:
//!
#![cfg_attr(feature = "tokio-postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio-postgres"), doc = "```ignore")]
//! # use lock_axum::fence::{self, tokio_postgres::ClaimError};
//! # async fn sell(db: &mut tokio_postgres::Client, lease: &lock_axum::Lease) -> Result<(), ClaimError> {
//! let tx = db.transaction().await?;
//! fence::tokio_postgres::claim(&tx, lease).await?; // then read, then write
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! And with sqlx 0.8 (feature `sqlx`), or 0.9 (feature `sqlx-0_9` and `fence::sqlx_0_9`):
//!
#![cfg_attr(feature = "sqlx", doc = "```no_run")]
#![cfg_attr(not(feature = "sqlx"), doc = "```ignore")]
//! # use lock_axum::fence::{self, sqlx::ClaimError};
//! # async fn sell(db: &sqlx::PgPool, lease: &lock_axum::Lease) -> Result<(), ClaimError> {
//! let mut tx = db.begin().await?;
//! fence::sqlx::claim(&mut tx, lease).await?; // then read, then write
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A claim waits for the transactions that have claimed the same resource. What comes of it depends on the isolation level:
//!
//! | isolation level | when the other one has committed |
//! |---|---|
//! | `READ COMMITTED`, the default | the larger token wins: the claim is accepted, or stale |
//! | `REPEATABLE READ`, `SERIALIZABLE` | a serialization error (SQLSTATE 40001), even with the larger token: **run the transaction again** |
//!
//! Either way, a stale holder writes nothing. A holder that only reads *checks* its token, after it has read. With `REPEATABLE READ` and
//! `SERIALIZABLE`, the transaction that reads sees no later claim, and the check returns an error that says so: check in a transaction of
//! its own then. Nobody should be kept waiting by a transaction that is never ended: set
//! `idle_in_transaction_session_timeout`.
//!
//! # Rules
//!
//! - Every writer claims, also the nightly job and the admin's script. One that does not is not held off.
//! - Work of several transactions claims in each of them, with the same token. A call to another service belongs
//!   between two transactions, not inside one.
//! - Claim under the name of the lock, [`Lease::resource`](crate::Lease::resource), as the functions do, which take the lease. Tokens of two
//!   resources cannot be compared. Where there is no lease, because the work goes on in another process or from a record, store a
//!   [`Claimant`](crate::fence::Claimant), and claim with `claim_for`.
//! - Claim in the transaction itself. A claim in a savepoint that is rolled back is lost, and what is written outside of it is committed
//!   without one.
//! - Rows of the table `lock_fence` stay, or old tokens are accepted again. If there is no end to the names, keep the
//!   token in a column of the data, as the table in [`fence`](crate::fence) shows.
//! - What cannot compare a token, such as a mail or a payment, is not protected. Give it an [idempotency
//!   key](super::transactions#idempotency-keys).
