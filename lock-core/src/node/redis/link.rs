use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connect::{CONNECT_TIMEOUT, Connected};
use super::pipeline::Handle;
use super::replication::Replication;
use super::{inspect, look};
use crate::node::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeRecord, RecordWrite, Refusal,
};
use crate::random::Epoch;
use crate::task::Task;

/// The life of one connection that carries requests.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    requests: Handle,
    worker: Task,
    gone: CancellationToken,
    found: Arc<Mutex<Found>>,
}

/// What was found out over this very connection. Requests of any other epoch are not sent, and records for any other run of the
/// server are not written.
///
/// Otherwise either could be executed through a new connection before the server behind it is inspected. That server may have
/// restarted from an old state, which has the record but not the locks.
#[derive(Default)]
struct Found {
    run_id: Option<String>,
    /// If the record was written for this run of the server.
    epoch: Option<Epoch>,
    /// Why the server must not be used.
    refusal: Option<Refusal>,
}

impl Link {
    /// Starts to use a connection, and loads the script. The connection cancels `gone` if it can tell that it was lost.
    pub(super) async fn open(
        connected: Connected,
        gone: CancellationToken,
        replication: Option<Replication>,
    ) -> Result<Self, NodeError> {
        let Connected { mut connection, driver } = connected;
        let (requests, worker) = Handle::spawn(connection.clone(), driver, gone.clone(), replication);
        inspect::load_script(&mut connection).await?;
        Ok(Self { connection, requests, worker, gone, found: Arc::default() })
    }

    /// Cancelled when the connection is known to be lost.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Gives the connection up. What was not written by now never is.
    pub(super) fn close(&self) {
        self.gone.cancel();
        self.worker.end();
    }

    pub(super) async fn inspect(&mut self, keyspace: &Keyspace) -> Result<Inspection, NodeError> {
        let inspection = timeout(CONNECT_TIMEOUT, inspect::inspect(&mut self.connection, keyspace));
        let inspection = inspection.await.unwrap_or(Err(NodeError::TimedOut));
        match &inspection {
            Ok(found) => {
                let own_record = found.record.get().filter(|record| record.run_id == found.run_id);
                let epoch = own_record.and_then(|record| record.epoch);
                *self.found() = Found { run_id: Some(found.run_id.clone()), epoch, refusal: None };
            }
            // Not every connection notices that it was lost: one from a factory need not.
            Err(NodeError::TimedOut | NodeError::Unreachable { .. }) => self.gone.cancel(),
            // It must not be used any more, as what it was found to be before.
            Err(NodeError::Refused(refusal)) => {
                *self.found() = Found { refusal: Some(refusal.clone()), ..Found::default() };
            }
            Err(_) => {}
        }
        inspection
    }

    pub(super) async fn write_record(
        &mut self,
        keyspace: &Keyspace,
        write: &RecordWrite,
    ) -> Result<Option<NodeRecord>, NodeError> {
        if self.found().run_id.as_ref() != Some(&write.record.run_id) {
            return Ok(None);
        }
        let written = inspect::write_record(&mut self.connection, keyspace, write).await?;
        if let Some(record) = &written {
            self.found().epoch = record.epoch;
        }
        Ok(written)
    }

    pub(super) async fn read_fences(&mut self, keyspace: &Keyspace) -> Result<Option<FenceReading>, NodeError> {
        let run_id = self.found().run_id.clone().unwrap_or_default();
        inspect::read_fences(&mut self.connection, keyspace, &run_id).await
    }

    pub(super) async fn look(&mut self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        if let Some(epoch) = look.epoch {
            self.check_epoch(epoch)?;
        }
        look::look(&mut self.connection, look).await
    }

    pub(super) async fn evict(&mut self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.check_epoch(evict.epoch)?;
        look::evict(&mut self.connection, evict).await
    }

    /// Where a request is to be submitted.
    pub(super) fn requests(&self, epoch: Epoch) -> Result<Handle, NodeError> {
        self.check_epoch(epoch).map(|()| self.requests.clone())
    }

    fn check_epoch(&self, epoch: Epoch) -> Result<(), NodeError> {
        let found = self.found();
        if found.epoch == Some(epoch) {
            return Ok(());
        }
        Err(found.refusal.clone().map_or(NodeError::Unadmitted, NodeError::Refused))
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
