//! `pg_advisory_lock`, as a service would use it: a session holds the lock, so each holder and each waiter has a connection
//! of its own, taken from a pool.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, NoTls, Statement};

use super::BoxError;

/// As many as tasks of a load, and fewer than the 100 connections that a server has by default.
const CONNECTIONS: usize = 64;

/// A pool of sessions. Clones share it.
#[derive(Clone)]
pub(super) struct AdvisoryLocks {
    idle: Arc<Mutex<Vec<Session>>>,
    permits: Arc<Semaphore>,
}

struct Session {
    client: Client,
    lock: Statement,
    unlock: Statement,
}

/// A lock that a session holds.
pub(super) struct AdvisoryLock {
    session: Session,
    resource: String,
    pool: AdvisoryLocks,
    _permit: OwnedSemaphorePermit,
}

impl AdvisoryLocks {
    pub(super) async fn connect(url: &str) -> Result<Self, BoxError> {
        let mut sessions = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let lock = client.prepare("SELECT pg_advisory_lock(hashtextextended($1, 0))").await?;
            let unlock = client.prepare("SELECT pg_advisory_unlock(hashtextextended($1, 0))").await?;
            sessions.push(Session { client, lock, unlock });
        }
        Ok(Self { idle: Arc::new(Mutex::new(sessions)), permits: Arc::new(Semaphore::new(CONNECTIONS)) })
    }

    /// Takes the lock, waiting for it. Dropped while it waits, it closes its connection, which is one less in the pool.
    pub(super) async fn lock(&self, resource: &str) -> Result<AdvisoryLock, BoxError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await?;
        let session = self.sessions().pop().ok_or("every session was lost")?;
        session.client.execute(&session.lock, &[&resource]).await?;
        Ok(AdvisoryLock { session, resource: resource.to_owned(), pool: self.clone(), _permit: permit })
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdvisoryLock {
    pub(super) async fn release(self) -> Result<(), BoxError> {
        let Self { session, resource, pool, _permit } = self;
        session.client.execute(&session.unlock, &[&resource]).await?;
        pool.sessions().push(session);
        Ok(())
    }
}
