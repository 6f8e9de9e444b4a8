use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connect::{CONNECT_TIMEOUT, Connected};
use super::inspect;
use super::pipeline::Handle;
use crate::node::{Inspection, Keyspace, NodeError};
use crate::random::Epoch;

/// The life of one connection that carries requests.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    requests: Handle,
    gone: CancellationToken,
    /// The epoch in which the last inspection over this very connection found the server, if the record was written for this run
    /// of the server. Requests of any other epoch are not sent.
    ///
    /// Otherwise a request could be executed through a new connection before the server behind it is inspected. That server may have
    /// restarted from an old state, which has the record but not the locks.
    epoch: Arc<Mutex<Option<Epoch>>>,
}

impl Link {
    /// Starts to use a connection, and loads the script. The connection cancels `gone` if it can tell that it was lost.
    pub(super) async fn open(connected: Connected, gone: CancellationToken) -> Result<Self, NodeError> {
        let Connected { mut connection, driver } = connected;
        let requests = Handle::spawn(connection.clone(), driver, gone.clone());
        inspect::load_script(&mut connection).await?;
        Ok(Self { connection, requests, gone, epoch: Arc::default() })
    }

    /// Cancelled when the connection is known to be lost.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    pub(super) async fn inspect(&mut self, keyspace: &Keyspace) -> Result<Inspection, NodeError> {
        let inspection = timeout(CONNECT_TIMEOUT, inspect::inspect(&mut self.connection, keyspace));
        let inspection = inspection.await.unwrap_or(Err(NodeError::TimedOut));
        match &inspection {
            Ok(found) => {
                let own_record = found.record.as_ref().filter(|record| record.run_id == found.run_id);
                *self.epoch() = own_record.map(|record| record.epoch);
            }
            // Not every connection notices that it was lost: one from a factory need not.
            Err(NodeError::TimedOut | NodeError::Unreachable { .. }) => self.gone.cancel(),
            Err(_) => {}
        }
        inspection
    }

    /// Where a request is to be submitted.
    pub(super) fn requests(&self, epoch: Epoch) -> Result<Handle, NodeError> {
        if *self.epoch() == Some(epoch) { Ok(self.requests.clone()) } else { Err(NodeError::Unadmitted) }
    }

    fn epoch(&self) -> MutexGuard<'_, Option<Epoch>> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
