use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connect::{CONNECT_TIMEOUT, Connected};
use super::pipeline::Handle;
use super::replication::Replication;
use super::{inspect, look};
use crate::node::found::Found;
use crate::node::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeRecord, RecordWrite,
    present_link,
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

    /// Inspects the server. Also returns why it calls nobody for this user, if it does not.
    pub(super) async fn inspect(&mut self, keyspace: &Keyspace) -> Result<(Inspection, Option<NodeError>), NodeError> {
        let inspection = timeout(CONNECT_TIMEOUT, inspect::inspect(&mut self.connection, keyspace));
        let (inspection, mute) = match inspection.await.unwrap_or(Err(NodeError::TimedOut)) {
            Ok((inspection, mute)) => (Ok(inspection), mute),
            Err(error) => (Err(error), None),
        };
        self.found().inspected(&inspection);
        if matches!(inspection, Err(NodeError::TimedOut | NodeError::Unreachable { .. })) {
            // Not every connection notices that it was lost: one from a factory need not.
            self.gone.cancel();
        }
        inspection.map(|inspection| (inspection, mute))
    }

    pub(super) async fn write_record(
        &mut self,
        keyspace: &Keyspace,
        write: &RecordWrite,
    ) -> Result<Option<NodeRecord>, NodeError> {
        if !self.found().is_memory_of(write) {
            return Ok(None);
        }
        let written = inspect::write_record(&mut self.connection, keyspace, write).await?;
        self.found().written(written.as_ref());
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
        self.found().check_epoch(epoch)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl present_link::Link for Link {
    const LOST: &str = "connection lost";

    fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    fn worker(&self) -> &Task {
        &self.worker
    }
}
