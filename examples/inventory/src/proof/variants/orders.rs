use lock_axum::FencingToken;
use rusqlite::{Connection, params};

use crate::shop::{Order, ShopError};

/// Records an order, with the token of the lock if the variant has one.
pub(super) fn insert(db: &Connection, sku: &str, order: Order, token: Option<FencingToken>) -> Result<(), ShopError> {
    db.execute(
        "INSERT INTO orders (sku, quantity, token) VALUES (?, ?, ?)",
        params![sku, order.quantity, token.map(FencingToken::as_i64)],
    )?;
    Ok(())
}
