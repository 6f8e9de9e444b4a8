//! A table of locks, as many services have it: a row is inserted unless it is there, and deleted by its owner. It has no token, no queue and
//! no renewal.

use std::sync::Arc;

use tokio_postgres::{Client, NoTls, Statement};

use super::{BoxError, fresh};

/// A table in a database, and a session that uses it. Clones share it.
#[derive(Clone)]
pub(super) struct LockTable(Arc<Session>);

struct Session {
    client: Client,
    insert: Statement,
    delete: Statement,
}

/// A row of the table.
pub(super) struct LockRow {
    table: LockTable,
    key: String,
    owner: String,
}

impl LockTable {
    /// Creates the table if it is not there. With `synchronous`, each statement waits for the disk.
    pub(super) async fn connect(url: &str, synchronous: bool) -> Result<Self, BoxError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let create = "CREATE TABLE IF NOT EXISTS lock_table (key text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)";
        client.batch_execute(create).await?;
        client.batch_execute(&format!("SET synchronous_commit = {}", if synchronous { "on" } else { "off" })).await?;
        let insert =
            "INSERT INTO lock_table VALUES ($1, $2, clock_timestamp() + interval '10 s') ON CONFLICT DO NOTHING";
        let insert = client.prepare(insert).await?;
        let delete = client.prepare("DELETE FROM lock_table WHERE key = $1 AND owner = $2").await?;
        Ok(Self(Arc::new(Session { client, insert, delete })))
    }

    /// Takes a lock that nobody has.
    pub(super) async fn lock(&self, resource: &str) -> Result<LockRow, BoxError> {
        let (key, owner) = (resource.to_owned(), fresh("owner"));
        match self.0.client.execute(&self.0.insert, &[&key, &owner]).await? {
            1 => Ok(LockRow { table: self.clone(), key, owner }),
            _ => Err("the lock is held, and this table has no queue".into()),
        }
    }
}

impl LockRow {
    pub(super) async fn release(self) -> Result<(), BoxError> {
        let Self { table: LockTable(session), key, owner } = self;
        session.client.execute(&session.delete, &[&key, &owner]).await?;
        Ok(())
    }
}
