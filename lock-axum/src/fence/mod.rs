//! Claims: how a resource refuses the holders whose lock has passed to another.
//!
//! A lease ends while its holder is paused. The next holder acquires the lock, and then the old one resumes and writes.
//! Only the resource can refuse that write. It remembers the largest [`FencingToken`](crate::FencingToken) that it has seen,
//! and refuses smaller ones.
//!
//! # Claim, then read, then write
//!
//! A *claim* presents the token to the resource. It comes first, in the transaction that reads and writes: from then on, no
//! earlier holder can change what is read. Work that spans several transactions claims in each of them, with the same token.
//!
//! A token that is only checked by the write is a trap, because a read leaves no trace:
//!
//! | holder with token 1 | holder with token 2 | largest token seen |
//! |---|---|---|
//! | reads 5 units, then is paused; its lease ends | | – |
//! | | acquires the lock, reads 5 units | – |
//! | resumes, writes 4 units: accepted | | 1 |
//! | | writes 4 units: accepted, because 1 < 2 | 2 |
//!
//! Two units are sold, and one is gone from the stock. With claims, token 2 is known before its holder reads, and the write
//! of token 1 is refused.
//!
//! # Readers
//!
//! A holder that [reads](crate::LockManager::read) checks and does not claim: `fence::rusqlite::check`, or the statement [`CHECK`].
//! It is refused if a later writer has claimed, and raises nothing, because readers may share a token and come in any order. A check has to
//! see what others have committed since the reader read, which [not every transaction does](CHECK).
//!
//! # Which one to use
//!
//! | the data is in | claim with |
//! |---|---|
//! | SQLite, through rusqlite | `fence::rusqlite::claim`, feature `rusqlite` |
//! | PostgreSQL, through tokio-postgres | `fence::tokio_postgres::claim`, feature `tokio-postgres` |
//! | PostgreSQL, through sqlx 0.8 | `fence::sqlx::claim`, feature `sqlx` |
//! | PostgreSQL, through sqlx 0.9 | `fence::sqlx_0_9::claim`, feature `sqlx-0_9`, Rust 1.94 |
//! | SQLite or PostgreSQL, through another library | the statement [`CLAIM`]; no row: [`StaleToken`] |
//! | Redis, through redis-rs | [`redis::FencedScript`], feature `redis` |
//! | Redis, through another library | the script [`redis::CLAIM`], or [`redis::COMPARE`] |
//! | another database | a column beside the data: `UPDATE stock SET fence = :token WHERE sku = :sku AND fence <= :token`; no row: [`StaleToken`] |
//! | a store that can only compare | its compare-and-set, as described for [`redis::COMPARE`] |
//!
//! # What has the name of the resource
//!
//! The functions take the [`Lease`](crate::Lease), and claim under the name of its lock: tokens can be compared only if they are of one
//! resource, of locks with one prefix and on one set of masters. If several of those share a database, give each a table or
//! a prefix of its own. Work without a lease, in a process that reads a record of it for example, has a [`Claimant`], and claims with
//! `claim_for`.
//!
//! A permit is claimed under the name of its slot, such as `export{2}`: each slot has tokens of its own.
//!
//! The table gets a row for each name, and rows are not removed, because a row that is gone accepts old tokens again. Where
//! there is no end to the names, keep the token in a column of the data instead, so that both are deleted together.
//!
//! # Examples
//!
//! With a library that has no function here: zero rows mean that the token is stale.
//!
//! ```
//! use lock_axum::fence::{self, StaleToken};
//! use lock_axum::{Lease, LockManager};
//! use rusqlite::{Connection, Transaction};
//!
//! # #[derive(Debug)]
//! enum ShopError {
//!     Stale(StaleToken),
//!     Database(rusqlite::Error),
//! }
//!
//! fn claim(tx: &Transaction<'_>, lease: &Lease) -> Result<(), ShopError> {
//!     match tx.execute(fence::CLAIM, (lease.resource(), lease.token().as_i64())) {
//!         Ok(0) => Err(ShopError::Stale(StaleToken::report("sqlite", lease, None))),
//!         Ok(_) => Ok(()),
//!         Err(error) => Err(ShopError::Database(error)),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut db = Connection::open_in_memory()?;
//! db.execute_batch(fence::CREATE_TABLE)?;
//!
//! let locks = LockManager::in_memory();
//! let older = locks.lock("stock:42").run(async |lease| lease).await?;
//! let newer = locks.lock("stock:42").run(async |lease| lease).await?;
//! let tx = db.transaction()?;
//! assert!(claim(&tx, &newer).is_ok());
//! assert!(matches!(claim(&tx, &older), Err(ShopError::Stale(_))));
//! # Ok(())
//! # }
//! ```

mod claimant;
#[cfg(any(feature = "rusqlite", feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
mod client;
#[cfg(any(feature = "rusqlite", feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
mod errors;
pub mod redis;
#[cfg(feature = "rusqlite")]
pub mod rusqlite;
mod sql;
#[cfg(feature = "sqlx")]
pub mod sqlx;
#[cfg(feature = "sqlx-0_9")]
pub mod sqlx_0_9;
#[cfg(any(feature = "sqlx", feature = "sqlx-0_9"))]
mod sqlx_claims;
mod stale_token;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

pub use self::claimant::Claimant;
pub use self::sql::{CHECK, CLAIM, CREATE_TABLE};
pub use self::stale_token::StaleToken;
