//! PostgreSQL as the shop's database. Its methods block: they run on a blocking thread.

use std::{str::FromStr, time::Duration};

use lock_axum::{
    Lease,
    fence::{self, StaleToken, tokio_postgres::ClaimError},
};
use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls, config::Host, error::SqlState, types::ToSql};

/// How long PostgreSQL may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
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

/// What a statement can be given.
pub(crate) trait Value: ToSql + Sync {}

impl<T: ToSql + Sync> Value for T {}

/// A value as the client takes it.
pub(super) type Parameter<'a> = &'a (dyn ToSql + Sync);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot connect to PostgreSQL at {address}")]
    Unreachable { address: String, source: tokio_postgres::Error },
    /// The user lacks a right.
    #[error("the user of the database may not do this; its owner can, or can grant the right:\n{sql}\n")]
    Forbidden { sql: String, source: tokio_postgres::Error },
    #[error(transparent)]
    Other(#[from] tokio_postgres::Error),
}

impl Error {
    fn of_statement(error: tokio_postgres::Error, sql: &str) -> Self {
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return Self::Forbidden { sql: sql.to_owned(), source: error };
        }
        error.into()
    }
}

/// A server and a database on it, written as `postgres://user@host/database`.
#[derive(Debug, Clone, PartialEq)]
pub struct Address(Box<tokio_postgres::Config>);

impl FromStr for Address {
    type Err = tokio_postgres::Error;

    fn from_str(url: &str) -> Result<Self, tokio_postgres::Error> {
        let mut config: tokio_postgres::Config = url.parse()?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self(Box::new(config)))
    }
}

impl Address {
    fn connect(&self, runtime: &Handle) -> Result<Client, Error> {
        let unreachable = |source| Error::Unreachable { address: self.host(), source };
        let (client, connection) = runtime.block_on(self.0.connect(NoTls)).map_err(unreachable)?;
        runtime.spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "the connection to PostgreSQL broke");
            }
        });
        Ok(client)
    }

    /// The first host and its port, without the user and the password.
    fn host(&self) -> String {
        let port = self.0.get_ports().first().copied().unwrap_or(5432);
        match self.0.get_hosts().first() {
            Some(Host::Tcp(host)) => format!("{host}:{port}"),
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => "no host".to_owned(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    address: Address,
    runtime: Handle,
}

impl Connection {
    /// Connects, and creates the tables of the shop unless they exist.
    pub(super) fn open(address: Address, runtime: Handle) -> Result<Self, Error> {
        let client = address.connect(&runtime)?;
        let mut connection = Self { client, address, runtime };
        let tx = connection.begin()?;
        tx.create(&["stock", "orders", "lock_fence"], &format!("{SCHEMA}    {};", fence::CREATE_TABLE))?;
        tx.commit()?;
        Ok(connection)
    }

    /// Begins a transaction. A connection that broke is replaced first.
    pub(super) fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        let Self { client, address, runtime } = self;
        if client.is_closed() {
            *client = address.connect(runtime)?;
        }
        Ok(Transaction { tx: runtime.block_on(client.transaction())?, runtime })
    }
}

pub(crate) struct Transaction<'a> {
    tx: tokio_postgres::Transaction<'a>,
    runtime: &'a Handle,
}

impl Transaction<'_> {
    pub(super) fn claim(&self, lease: &Lease) -> Result<Result<(), StaleToken>, Error> {
        match self.runtime.block_on(fence::tokio_postgres::claim(&self.tx, lease)) {
            Ok(()) => Ok(Ok(())),
            Err(ClaimError::Stale(stale)) => Ok(Err(stale)),
            Err(ClaimError::Database(error)) => Err(Error::of_statement(error, fence::CLAIM)),
        }
    }

    pub(super) fn execute(&self, sql: &str, values: &[Parameter<'_>]) -> Result<u64, Error> {
        self.runtime.block_on(self.tx.execute(sql, values)).map_err(|error| Error::of_statement(error, sql))
    }

    /// Runs a query for one row of numbers, if there is one.
    pub(super) fn numbers<const N: usize>(
        &self,
        sql: &str,
        values: &[Parameter<'_>],
    ) -> Result<Option<[i64; N]>, Error> {
        let row = self.runtime.block_on(self.tx.query_opt(sql, values));
        let Some(row) = row.map_err(|error| Error::of_statement(error, sql))? else { return Ok(None) };
        let mut columns = [0; N];
        for (index, column) in columns.iter_mut().enumerate() {
            *column = row.try_get(index)?;
        }
        Ok(Some(columns))
    }

    pub(super) fn create(&self, tables: &[&str], sql: &str) -> Result<(), Error> {
        // Instances start at the same time, and `IF NOT EXISTS` does not wait for another's table.
        self.execute("SELECT pg_advisory_xact_lock(hashtext('inventory'))", &[])?;
        for table in tables {
            // Even `IF NOT EXISTS` needs the right to create.
            if self.numbers("SELECT count(to_regclass($1))", &[table])? != Some([1]) {
                let created = self.runtime.block_on(self.tx.batch_execute(sql));
                return created.map_err(|error| Error::of_statement(error, sql));
            }
        }
        Ok(())
    }

    pub(super) fn commit(self) -> Result<(), Error> {
        Ok(self.runtime.block_on(self.tx.commit())?)
    }
}
