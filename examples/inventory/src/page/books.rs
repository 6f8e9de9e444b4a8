//! What the database says, and filling the shelves again.

use serde::Serialize;

use crate::shop::{ShopError, Store};

/// The product that the buyers of the page want.
pub(crate) const SKU: &str = "apple";

/// The stock of a new or refilled shop.
const SHELVES: [(&str, i64); 3] = [(SKU, 100), ("pear", 25), ("quince", 1)];

// How many units there were to sell. Only with that can the books be checked: what was sold and what
// is left are that many, or some units were sold and are still on the shelf.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS supply (
        sku   TEXT PRIMARY KEY REFERENCES stock (sku),
        units BIGINT NOT NULL
    );
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
            tx.create(&["supply"], SCHEMA)?;
            for (sku, units) in SHELVES {
                let insert = "INSERT INTO stock (sku, quantity) VALUES ($1, $2) ON CONFLICT DO NOTHING";
                tx.execute(insert, &[&sku, &units])?;
                tx.execute(
                    "INSERT INTO supply (sku, units)
                     SELECT sku, quantity + (SELECT coalesce(sum(quantity), 0) FROM orders WHERE orders.sku = stock.sku)
                       FROM stock WHERE sku = $1
                     ON CONFLICT DO NOTHING",
                    &[&sku],
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
            tx.execute("DELETE FROM orders", &[])?;
            for (sku, units) in SHELVES {
                tx.execute("UPDATE stock SET quantity = $1 WHERE sku = $2", &[&units, &sku])?;
                tx.execute("UPDATE supply SET units = $1 WHERE sku = $2", &[&units, &sku])?;
            }
            Ok(())
        })
        .await
}

/// Reads the books of a product, as of one moment.
pub(crate) async fn read(store: &Store, sku: &'static str) -> Result<Books, ShopError> {
    let query = "
        SELECT supply.units, stock.quantity, count(orders.id), CAST(coalesce(sum(orders.quantity), 0) AS BIGINT)
          FROM stock JOIN supply USING (sku) LEFT JOIN orders USING (sku)
         WHERE stock.sku = $1
         GROUP BY supply.units, stock.quantity";
    store
        .read(move |tx| {
            let [supply, stock, orders, sold] = tx.numbers(query, &[&sku])?.ok_or(ShopError::UnknownSku)?;
            Ok(Books { supply, stock, orders, sold, oversold: (sold + stock - supply).max(0) })
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop::Database;

    async fn new_shop() -> Store {
        let store = Store::open(&Database::Sqlite(":memory:".into())).await.unwrap();
        open(&store).await.unwrap();
        store
    }

    #[tokio::test]
    async fn a_unit_that_is_sold_and_still_in_stock_is_oversold() {
        let store = new_shop().await;
        let order = "INSERT INTO orders (sku, quantity) VALUES ('apple', 1)";
        let sell = |sql: &'static str| store.transaction(move |tx| tx.execute(sql, &[]));
        sell(order).await.unwrap();
        assert_eq!(read(&store, SKU).await.unwrap().oversold, 1);
        sell("UPDATE stock SET quantity = 99").await.unwrap();
        let books = Books { supply: 100, stock: 99, orders: 1, sold: 1, oversold: 0 };
        assert_eq!(read(&store, SKU).await.unwrap(), books);
    }

    #[tokio::test]
    async fn books_of_an_earlier_run_go_on() {
        let store = new_shop().await;
        store.transaction(|tx| tx.execute("UPDATE stock SET quantity = 40", &[])).await.unwrap();
        open(&store).await.unwrap();
        let books = read(&store, SKU).await.unwrap();
        assert_eq!((books.supply, books.stock), (100, 40));
    }
}
