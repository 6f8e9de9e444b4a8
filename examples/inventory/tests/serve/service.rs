//! A service under test, and its database.

use std::{net::SocketAddr, ops::Deref, time::Duration};

use inventory::{Database, LockStore, RunError, ServeConfig, serve};
use metrics_exporter_prometheus::PrometheusBuilder;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, LIMIT};

pub(crate) struct Service {
    client: Client,
    directory: TempDir,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// What the database says of the product that the page sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) stock: i64,
    pub(crate) orders: i64,
    pub(crate) oversold: i64,
}

impl Books {
    /// What a state of the page says.
    pub(crate) fn of(state: &Value) -> Self {
        let number = |name: &str| state[name].as_i64().unwrap();
        Self { stock: number("stock"), orders: number("orders"), oversold: number("oversold") }
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with_masters(LockStore::InMemory).await
    }

    pub(crate) async fn with_masters(locks: LockStore) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), locks, tempfile::tempdir().unwrap(), None).await
    }

    /// A service that other machines can reach, too.
    pub(crate) async fn on_every_interface() -> Self {
        Self::at(SocketAddr::from(([0, 0, 0, 0], 0)), LockStore::InMemory, tempfile::tempdir().unwrap(), None).await
    }

    /// A service whose stock is elsewhere than in its file.
    pub(crate) async fn with_database(database: Database) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::at(listen, LockStore::InMemory, tempfile::tempdir().unwrap(), Some(database)).await
    }

    async fn at(listen: SocketAddr, locks: LockStore, directory: TempDir, database: Option<Database>) -> Self {
        let file = Database::Sqlite(directory.path().join("shop.sqlite"));
        let config = ServeConfig {
            listen,
            locks,
            prefix: "inventory:".to_owned(),
            database: Some(database.unwrap_or(file)),
            public: false,
            metrics: PrometheusBuilder::new().build_recorder().handle().into(),
        };
        let stop = CancellationToken::new();
        let (listening, address) = oneshot::channel();
        let task = tokio::spawn(serve(config, stop.clone().cancelled_owned(), |address| {
            listening.send(address).unwrap();
        }));
        Self { client: Client { address: address.await.unwrap() }, directory, stop, task }
    }

    /// Stops, calls `meanwhile`, and starts again with the same address and database.
    pub(crate) async fn restart(self, meanwhile: impl FnOnce()) -> Self {
        self.stop.cancel();
        timeout(LIMIT, self.task).await.unwrap().unwrap().unwrap();
        meanwhile();
        Self::at(self.client.address, LockStore::InMemory, self.directory, None).await
    }

    pub(crate) fn books(&self) -> Books {
        let db = Connection::open(self.directory.path().join("shop.sqlite")).unwrap();
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        let query = "SELECT quantity, (SELECT count(*) FROM orders WHERE sku = 'apple') FROM stock WHERE sku = 'apple'";
        let (stock, orders): (i64, i64) = db.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        Books { stock, orders, oversold: (orders + stock - 100).max(0) }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        timeout(LIMIT, self.task).await.unwrap().unwrap().unwrap();
    }
}

impl Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
