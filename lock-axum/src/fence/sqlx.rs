//! Claims in PostgreSQL, through sqlx 0.8. Needs the feature `sqlx`; `fence::sqlx_0_9` is the same for sqlx 0.9.
//!
//! # Examples
//!
//! ```no_run
//! use lock_axum::Lease;
//! use lock_axum::fence::sqlx::{self as fence, CheckError, ClaimError};
//! use sqlx::{PgPool, query, query_scalar};
//!
//! async fn sell(db: &PgPool, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
//!     let mut tx = db.begin().await?;
//!     fence::claim(&mut tx, lease).await?; // then read, then write
//!     let read = query_scalar("SELECT quantity FROM stock WHERE sku = $1").bind(sku);
//!     let quantity: i64 = read.fetch_one(&mut *tx).await?;
//!     let write = query("UPDATE stock SET quantity = $1 WHERE sku = $2").bind(quantity - 1).bind(sku);
//!     write.execute(&mut *tx).await?;
//!     tx.commit().await?;
//!     Ok(quantity - 1)
//! }
//!
//! // A holder that reads.
//! async fn price(db: &PgPool, sku: &str, lease: &Lease) -> Result<i64, CheckError> {
//!     let mut tx = db.begin().await?;
//!     let read = query_scalar("SELECT price FROM catalog WHERE sku = $1").bind(sku);
//!     let price = read.fetch_one(&mut *tx).await?;
//!     fence::check(&mut tx, lease).await?;
//!     Ok(price)
//! }
//! ```

super::sqlx_claims::claims!(sqlx);
