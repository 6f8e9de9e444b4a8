//! The shop: the part of this example to copy into your own service.
//!
//! It sells stock over HTTP. However many instances share the database, it never sells more than
//! there is, even when an instance stops for longer than its lease and then carries on. Three files
//! hold the pattern:
//!
//! | file | what to copy |
//! |---|---|
//! | `handlers` | the handler: `#[distributed_lock]`, and the lease as an argument |
//! | `purchase` | the order of the steps: claim and read, pay, claim again and write |
//! | `fence` | the two transactions, each of which claims first |
//!
//! The rest is what any service has: `router`, `server` (graceful shutdown), `order` and `known_sku`
//! (extractors), `error`, `payment`, `store`, `database` and `transaction` (SQLite, or `postgres` with the feature of that name).
//!
//! # Why the lock needs a fence
//!
//! A lease expires, so that a holder that crashed blocks nobody. It therefore also expires while a
//! slow holder still runs, and that holder notices only afterwards. Until then, it may write. Only
//! the store can refuse that write. It recognizes the holder by its fencing token: every grant of the
//! lock carries a larger token than the grant before.
//!
//! # Claim, then read, then write
//!
//! The store keeps the largest token it has seen for each lock, in the table of
//! [`fence::CREATE_TABLE`](lock_axum::fence::CREATE_TABLE). Each transaction of the handler does the
//! following:
//!
//! 1. **Claim**, with [`fence::rusqlite::claim`](lock_axum::fence::rusqlite::claim), or
//!    `fence::tokio_postgres::claim`. If it fails, a later holder was here first: stop.
//! 2. **Read.** No older holder can change what is read from here on.
//! 3. **Write**, based on what was read.
//!
//! Work that spans several transactions claims again in each of them.
//!
//! # The trap: checking the token only in the write
//!
//! To claim in the last transaction only looks like the same protection with one claim less. It
//! oversells, because reading leaves no trace in the store:
//!
//! | holder with token 1 | holder with token 2 | token seen |
//! |---|---|---|
//! | reads 5 units, then stops; its lease expires | | – |
//! | | gets the lock, reads 5 units | – |
//! | continues, writes 4 units: accepted | | 1 |
//! | | writes 4 units: accepted, as 1 < 2 | 2 |
//!
//! Two units are sold and one is gone from the stock. With the claim before the read, the store has
//! seen token 2 before its holder reads, and the first holder's write is refused.

mod database;
mod error;
mod fence;
mod handlers;
mod known_sku;
mod order;
mod payment;
#[cfg_attr(not(feature = "postgres"), path = "without_postgres.rs")]
mod postgres;
mod purchase;
mod router;
mod server;
mod store;
mod transaction;

pub use database::Database;
pub(crate) use error::{SOLD_OUT, ShopError};
pub(crate) use known_sku::KnownSku;
pub(crate) use order::Order;
pub(crate) use payment::{PaymentProvider, SimulatedProvider};
pub(crate) use purchase::Receipt;
pub(crate) use router::{Shop, router};
pub(crate) use server::serve_until;
pub(crate) use store::Store;
pub(crate) use transaction::Tx;
