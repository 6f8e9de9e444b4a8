//! A store in memory, each of whose operations takes a step, as a database's do.

use std::sync::{Arc, Mutex};

use lock_axum::FencingToken;
use tokio::sync::mpsc;
use tokio::task::yield_now;

/// What the shop begins with. A unit is in stock, or an order has it.
pub(crate) const UNITS: i64 = 100;

#[derive(Clone, Default)]
pub(crate) struct Db(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    sold: i64,
    orders: i64,
    fence: Option<FencingToken>,
}

/// A token that is older than one that has claimed.
#[derive(Debug)]
pub(crate) struct Stale;

impl Db {
    pub(crate) async fn stock(&self) -> i64 {
        self.access(|tables| UNITS - tables.sold).await
    }

    pub(crate) async fn orders(&self) -> i64 {
        self.access(|tables| tables.orders).await
    }

    pub(crate) async fn set_stock(&self, stock: i64) {
        self.access(|tables| tables.sold = UNITS - stock).await;
    }

    pub(crate) async fn add_order(&self) {
        self.access(|tables| tables.orders += 1).await;
    }

    /// Both writes, in one transaction.
    pub(crate) async fn sell(&self, stock: i64) {
        self.access(|tables| (tables.sold, tables.orders) = (UNITS - stock, tables.orders + 1)).await;
    }

    /// Both writes, in one statement that reads, too.
    pub(crate) async fn sell_one(&self) {
        self.access(|tables| (tables.sold, tables.orders) = (tables.sold + 1, tables.orders + 1)).await;
    }

    /// A claim, and then a read, in one transaction.
    pub(crate) async fn claim_and_read(&self, token: FencingToken) -> Result<i64, Stale> {
        self.access(|tables| tables.claim(token).map(|()| UNITS - tables.sold)).await
    }

    /// A claim, and then both writes, in one transaction.
    pub(crate) async fn claim_and_sell(&self, token: FencingToken, stock: i64) -> Result<(), Stale> {
        self.access(|tables| {
            tables.claim(token)?;
            (tables.sold, tables.orders) = (UNITS - stock, tables.orders + 1);
            Ok(())
        })
        .await
    }

    /// Whether no unit was sold twice.
    pub(crate) async fn adds_up(self) -> bool {
        self.stock().await + self.orders().await == UNITS
    }

    async fn access<T>(&self, access: impl FnOnce(&mut Tables) -> T) -> T {
        yield_now().await;
        access(&mut self.0.lock().unwrap())
    }
}

impl Tables {
    fn claim(&mut self, token: FencingToken) -> Result<(), Stale> {
        if self.fence.is_some_and(|fence| fence > token) {
            return Err(Stale);
        }
        self.fence = Some(token);
        Ok(())
    }
}

/// A writer of its own, to which handlers send what is to be committed.
pub(crate) fn writer(db: Db) -> mpsc::Sender<i64> {
    let (sender, mut stocks) = mpsc::channel(8);
    tokio::spawn(async move {
        while let Some(stock) = stocks.recv().await {
            payment().await;
            db.sell(stock).await;
        }
    });
    sender
}

/// Another service is asked.
pub(crate) async fn payment() {
    yield_now().await;
}
