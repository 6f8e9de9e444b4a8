use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connect::{CONNECT_TIMEOUT, Connected};
use super::handle::Handle;
use super::inspect::Seen;
use super::pushes::Pushes;
use super::replication::Replication;
use super::wakeups::subscribe;
use super::{evict, inspect, look, record};
use crate::node::found::Found;
use crate::node::{
    Evict, Eviction, FenceReading, FoundRecord, Inspection, Keyspace, LockState, Look, NodeError, NodeRecord,
    RecordWrite, Wakeups, present_link,
};
use crate::random::Epoch;
use crate::task::Task;

/// The life of one connection.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    pushes: Pushes,
    /// Why the server does not say over this connection when it loses its data, unless it does.
    tells_loss: Result<(), NodeError>,
    requests: Handle,
    worker: Task,
    found: Arc<Mutex<Found>>,
}

impl Link {
    /// Starts to use a connection, over which `pushes` arrive, and loads the script.
    pub(super) async fn open(
        connected: Connected,
        pushes: Pushes,
        replication: Option<Replication>,
    ) -> Result<Self, NodeError> {
        let Connected { mut connection, driver } = connected;
        let (requests, worker) = Handle::spawn(connection.clone(), driver, pushes.clone(), replication);
        let tells_loss = inspect::prepare(&mut connection, pushes.must_arrive()).await?;
        Ok(Self { connection, pushes, tells_loss, requests, worker, found: Arc::default() })
    }

    /// Inspects the server. Also returns why it calls nobody for this user, if it does not.
    pub(super) async fn inspect(&mut self, keyspace: &Keyspace) -> Result<(Inspection, Option<NodeError>), NodeError> {
        let seen = timeout(CONNECT_TIMEOUT, self.inspect_and_keep(keyspace)).await;
        let (inspection, mute) = match seen.unwrap_or(Err(NodeError::TimedOut)) {
            Ok(Seen { inspection, mute, .. }) => (Ok(inspection), mute),
            Err(error) => (Err(error), None),
        };
        self.found().inspected(&inspection);
        if matches!(inspection, Err(NodeError::TimedOut | NodeError::Unreachable { .. })) {
            // Not every connection notices that it was lost: one from a factory need not.
            self.pushes.gone().cancel();
        }
        inspection.map(|inspection| (inspection, mute))
    }

    /// Inspects the server. If its data has another id than before, is its own, and it said nothing of a loss, the record is of that id
    /// from now on: a master draws one when it gets its first replica, and when it has had none for an hour.
    async fn inspect_and_keep(&mut self, keyspace: &Keyspace) -> Result<Seen, NodeError> {
        loop {
            let mut seen = self.pushes.checked(inspect::inspect(&mut self.connection, keyspace).await)?;
            let Some(kept) = self.kept(&seen.inspection).filter(|_| seen.is_own) else { return Ok(seen) };
            let written = self.pushes.checked(record::write_record(&mut self.connection, keyspace, &kept).await)?;
            if let Some(record) = written {
                seen.inspection.record = FoundRecord::Record(record);
                return Ok(seen);
            }
            // Another client was faster.
        }
    }

    /// The record for the new id of the data, if all of it was kept since the last inspection.
    fn kept(&self, seen: &Inspection) -> Option<RecordWrite> {
        self.tells_loss.as_ref().ok()?;
        let before = self.found().run_id.clone()?;
        let record = seen.record.get().filter(|record| record.run_id == before)?;
        inspect::is_other_data_of_same_process(&before, &seen.run_id).then(|| RecordWrite {
            expected: Some((record.member, record.version)),
            record: NodeRecord { run_id: seen.run_id.clone(), ..record.clone() },
            new_member: false,
            begin: Vec::new(),
            floor: None,
        })
    }

    /// Why the server does not say when it loses its data, unless it does.
    pub(super) fn tells_loss(&self) -> &Result<(), NodeError> {
        &self.tells_loss
    }

    pub(super) async fn wakeups(self, channel: &str) -> Result<Wakeups, NodeError> {
        subscribe(self.connection, self.pushes, channel).await
    }

    pub(super) async fn write_record(
        &mut self,
        keyspace: &Keyspace,
        write: &RecordWrite,
    ) -> Result<Option<NodeRecord>, NodeError> {
        if !self.found().is_memory_of(write) {
            return Ok(None);
        }
        let written = self.pushes.checked(record::write_record(&mut self.connection, keyspace, write).await)?;
        self.found().written(written.as_ref());
        Ok(written)
    }

    pub(super) async fn read_fences(&mut self, keyspace: &Keyspace) -> Result<Option<FenceReading>, NodeError> {
        let run_id = self.found().run_id.clone().unwrap_or_default();
        self.pushes.checked(record::read_fences(&mut self.connection, keyspace, &run_id).await)
    }

    pub(super) async fn look(&mut self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        if let Some(epoch) = look.epoch {
            self.check_epoch(epoch)?;
        }
        self.pushes.checked(look::look(&mut self.connection, look).await)
    }

    pub(super) async fn evict(&mut self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.check_epoch(evict.epoch)?;
        self.pushes.checked(evict::evict(&mut self.connection, evict).await)
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
        self.pushes.gone()
    }

    fn worker(&self) -> &Task {
        &self.worker
    }
}
