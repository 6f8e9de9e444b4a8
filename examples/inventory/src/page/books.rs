//! What the database says, and filling the shelves again.

use rusqlite::params;
use serde::Serialize;

use crate::shop::{ShopError, Store};

/// The product that the buyers of the page want.
pub(crate) const SKU: &str = "apple";

/// The stock of a new or refilled shop.
const SHELVES: [(&str, u32); 3] = [(SKU, 100), ("pear", 25), ("quince", 1)];

// How many units there were to sell. Only with that can the books be checked: what was sold and what
// is left are that many, or some units were sold and are still on the shelf.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS supply (
        sku   TEXT PRIMARY KEY REFERENCES stock (sku),
        units INTEGER NOT NULL
    ) STRICT;
";

/// The books of one product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Books {
    pub(crate) supply: i64,
    pub(crate) stock: i64,
    pub(crate) orders: i64,
    pub(crate) sold: i64,
    /// Units that were sold and are still in stock, and so will be sold a second time, or were.
    pub(crate) oversold: i64,
}

/// Fills the shelves of a new database.
pub(crate) async fn open(store: &Store) -> Result<(), ShopError> {
    store
        .transaction(|tx| {
            tx.execute_batch(SCHEMA)?;
            for (sku, units) in SHELVES {
                tx.execute("INSERT OR IGNORE INTO stock (sku, quantity) VALUES (?, ?)", params![sku, units])?;
                tx.execute(
                    "INSERT OR IGNORE INTO supply (sku, units)
                     SELECT sku, quantity + (SELECT coalesce(sum(quantity), 0) FROM orders WHERE orders.sku = stock.sku)
                       FROM stock WHERE sku = ?",
                    [sku],
                )?;
            }
            Ok(())
        })
        .await
}

/// Fills the shelves again and forgets all orders.
///
/// Fences stay as they are: a token that was refused once is refused for ever.
pub(crate) async fn refill(store: &Store) -> Result<(), ShopError> {
    store
        .transaction(|tx| {
            tx.execute("DELETE FROM orders", [])?;
            for (sku, units) in SHELVES {
                tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![units, sku])?;
                tx.execute("UPDATE supply SET units = ? WHERE sku = ?", params![units, sku])?;
            }
            Ok(())
        })
        .await
}

/// Reads the books of a product, as of one moment.
pub(crate) async fn read(store: &Store, sku: &'static str) -> Result<Books, ShopError> {
    let query = "
        SELECT supply.units, stock.quantity, count(orders.id), coalesce(sum(orders.quantity), 0)
          FROM stock JOIN supply USING (sku) LEFT JOIN orders USING (sku)
         WHERE stock.sku = ?";
    store
        .with_connection(move |db| {
            let (supply, stock, orders, sold): (i64, i64, i64, i64) =
                db.query_row(query, [sku], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
            Ok(Books { supply, stock, orders, sold, oversold: (sold + stock - supply).max(0) })
        })
        .await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn a_unit_that_is_sold_and_still_in_stock_is_oversold() {
        let store = Store::open(Path::new(":memory:")).await.unwrap();
        open(&store).await.unwrap();
        let order = "INSERT INTO orders (sku, quantity) VALUES ('apple', 1)";
        let sell = |sql: &'static str| store.with_connection(move |db| Ok(db.execute_batch(sql)?));
        sell(order).await.unwrap();
        assert_eq!(read(&store, SKU).await.unwrap().oversold, 1);
        sell("UPDATE stock SET quantity = 99").await.unwrap();
        let books = Books { supply: 100, stock: 99, orders: 1, sold: 1, oversold: 0 };
        assert_eq!(read(&store, SKU).await.unwrap(), books);
    }

    #[tokio::test]
    async fn books_of_an_earlier_run_go_on() {
        let store = Store::open(Path::new(":memory:")).await.unwrap();
        open(&store).await.unwrap();
        store.with_connection(|db| Ok(db.execute("UPDATE stock SET quantity = 40", [])?)).await.unwrap();
        open(&store).await.unwrap();
        let books = read(&store, SKU).await.unwrap();
        assert_eq!((books.supply, books.stock), (100, 40));
    }
}
