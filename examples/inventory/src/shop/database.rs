//! Where the stock is, and a connection to it.

use std::{path::PathBuf, str::FromStr, time::Duration};

use lock_axum::fence;
use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls, config::Host};

use super::{
    ShopError,
    transaction::{Access, Tx},
};

/// How long a statement waits while another instance writes to the SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long PostgreSQL may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

// `CHECK (quantity >= 0)` does not prevent overselling: a lost update never goes below zero.
const SQLITE_SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS stock (
        sku      TEXT PRIMARY KEY,
        quantity INTEGER NOT NULL CHECK (quantity >= 0)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS orders (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        sku      TEXT NOT NULL REFERENCES stock (sku),
        quantity INTEGER NOT NULL CHECK (quantity > 0),
        token    INTEGER
    ) STRICT;
    CREATE INDEX IF NOT EXISTS orders_by_sku ON orders (sku);
";
const POSTGRES_SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS stock (
        sku      TEXT PRIMARY KEY,
        quantity BIGINT NOT NULL CHECK (quantity >= 0)
    );
    CREATE TABLE IF NOT EXISTS orders (
        id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sku      TEXT NOT NULL REFERENCES stock (sku),
        quantity BIGINT NOT NULL CHECK (quantity > 0),
        token    BIGINT
    );
    CREATE INDEX IF NOT EXISTS orders_by_sku ON orders (sku);
";

/// Where the stock is: written as the path of a file, or as `postgres://user@host/database`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Database {
    /// A SQLite file. It is created if it does not exist.
    Sqlite(PathBuf),
    /// A database of a PostgreSQL server, in which the shop creates its tables.
    Postgres(Box<tokio_postgres::Config>),
}

impl FromStr for Database {
    type Err = tokio_postgres::Error;

    fn from_str(text: &str) -> Result<Self, tokio_postgres::Error> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Ok(Self::Sqlite(text.into()));
        }
        let mut config: tokio_postgres::Config = text.parse()?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self::Postgres(Box::new(config)))
    }
}

/// A connection to the database. Its methods block.
#[derive(Debug)]
pub(super) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres { client: Client, config: Box<tokio_postgres::Config>, runtime: Handle },
}

impl Connection {
    pub(super) fn open(database: Database, runtime: Handle) -> Result<Self, ShopError> {
        match database {
            Database::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.busy_timeout(BUSY_TIMEOUT)?;
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "full")?;
                connection.execute_batch(SQLITE_SCHEMA)?;
                connection.execute_batch(fence::CREATE_TABLE)?;
                Ok(Self::Sqlite(connection))
            }
            Database::Postgres(config) => {
                let client = connect(&config, &runtime)?;
                let mut connection = Self::Postgres { client, config, runtime };
                let tx = connection.begin(Access::Write)?;
                tx.create(
                    &["stock", "orders", "lock_fence"],
                    &format!("{POSTGRES_SCHEMA}    {};", fence::CREATE_TABLE),
                )?;
                tx.commit()?;
                Ok(connection)
            }
        }
    }

    /// Commits no longer wait for the disk. For files that are temporary, and so not for PostgreSQL.
    pub(super) fn skip_disk_sync(&self) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(connection) => Ok(connection.pragma_update(None, "synchronous", "off")?),
            Self::Postgres { .. } => Ok(()),
        }
    }

    /// Begins a transaction. A connection to PostgreSQL that broke is replaced first.
    pub(super) fn begin(&mut self, access: Access) -> Result<Tx<'_>, ShopError> {
        match self {
            Self::Sqlite(connection) => Tx::on_sqlite(connection, access),
            Self::Postgres { client, config, runtime } => {
                if client.is_closed() {
                    *client = connect(config, runtime)?;
                }
                Tx::on_postgres(client, runtime)
            }
        }
    }
}

fn connect(config: &tokio_postgres::Config, runtime: &Handle) -> Result<Client, ShopError> {
    let unreachable = |source| ShopError::Unreachable { address: address(config), source };
    let (client, connection) = runtime.block_on(config.connect(NoTls)).map_err(unreachable)?;
    runtime.spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(%error, "the connection to PostgreSQL broke");
        }
    });
    Ok(client)
}

/// The first host and its port, without the user and the password.
fn address(config: &tokio_postgres::Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => "no host".to_owned(),
    }
}
