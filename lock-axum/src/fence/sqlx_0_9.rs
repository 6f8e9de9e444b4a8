//! Claims in PostgreSQL, through sqlx 0.9. Needs the feature `sqlx-0_9`; `fence::sqlx` is the same for sqlx 0.8.
//!
//! # Examples
//!
//! ```no_run
//! # use sqlx_0_9 as sqlx;
//! use lock_axum::Lease;
//! use lock_axum::fence::{self, sqlx_0_9::ClaimError};
//! use sqlx::{PgPool, query, query_scalar};
//!
//! async fn sell(db: &PgPool, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
//!     let mut tx = db.begin().await?;
//!     fence::sqlx_0_9::claim(&mut tx, lease).await?; // then read, then write
//!     let read = query_scalar("SELECT quantity FROM stock WHERE sku = $1").bind(sku);
//!     let quantity: i64 = read.fetch_one(&mut *tx).await?;
//!     let write = query("UPDATE stock SET quantity = $1 WHERE sku = $2").bind(quantity - 1).bind(sku);
//!     write.execute(&mut *tx).await?;
//!     tx.commit().await?;
//!     Ok(quantity - 1)
//! }
//! ```

super::sqlx_claims::claims!(sqlx_0_9);
