use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::SessionState;

use super::address::Address;
use super::connect::{CONNECT_TIMEOUT, connect};
use super::heard::Heard;
use super::session::Session;
use super::worker::Worker;
use crate::node::link;
use crate::node::submission::Submissions;
use crate::node::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeFuture, NodeRecord,
    RecordWrite,
};
use crate::task::Task;

/// The life of one session. It outlives its connections: the client opens another one when one is lost.
pub(super) type Link = link::Link<Session>;

/// Opens a session.
pub(super) async fn open(address: &Address, max_ttl: Duration, tick: Duration) -> Result<Link, NodeError> {
    let session = Arc::new(connect(address, max_ttl, tick).await?);
    let (gone, (submissions, receiver)) = (CancellationToken::new(), Submissions::channel());
    let worker = Worker::new(Arc::clone(&session), gone.clone()).run(receiver, Heard::interval(tick));
    let worker = Task::spawn_on(&Handle::current(), worker);
    Ok(Link::new(session, submissions, worker, gone))
}

impl link::Session for Session {
    const LOST: &'static str = "the session is over";
    const INSPECTION_TIMEOUT: Duration = CONNECT_TIMEOUT;
    /// A transaction does, with what it does. And a release has to be noted in whatever epoch it is sent.
    const CHECKS_EPOCHS: bool = true;

    async fn inspect(&self, keyspace: &Keyspace, before: Option<&str>) -> Result<Inspection, NodeError> {
        self.inspect(keyspace, before).await
    }

    async fn write_record(&self, keyspace: &Keyspace, write: &RecordWrite) -> Result<Option<NodeRecord>, NodeError> {
        self.write_record(keyspace, write).await
    }

    async fn read_fences(&self, keyspace: &Keyspace, run_id: &str) -> Result<Option<FenceReading>, NodeError> {
        self.read_fences(keyspace, run_id).await
    }

    async fn look(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        self.look(look).await
    }

    async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.evict(evict).await
    }

    /// The client says when the session is over. Until then its locks live, so no error ends it.
    fn is_ended_by(&self, _: &NodeError) -> bool {
        false
    }

    fn disconnected(&self) -> NodeFuture<()> {
        let (mut state, is_connected) = (self.client.state_watcher(), self.check_connected().is_ok());
        Box::pin(async move { while is_connected && state.changed().await == SessionState::SyncConnected {} })
    }
}
