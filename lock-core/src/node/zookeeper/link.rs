use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zookeeper_client::SessionState;

use super::address::Address;
use super::heard::Heard;
use super::session::{CONNECT_TIMEOUT, Session};
use super::worker::{Message, Worker};
use crate::node::present_link;
use crate::node::{NodeError, NodeFuture};
use crate::task::Task;

/// How many requests may wait to be sent. Beyond it the node is not keeping up, and further requests fail at once.
const CAPACITY: usize = 8192;

/// The life of one session. It outlives its connections: the client opens another one when one is lost.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    submissions: mpsc::Sender<Message>,
    worker: Task,
    gone: CancellationToken,
}

impl Link {
    /// Opens a session.
    pub(super) async fn open(address: &Address, max_ttl: Duration, tick: Duration) -> Result<Self, NodeError> {
        let session = Arc::new(Session::open(address, max_ttl, tick).await?);
        let (gone, (submissions, receiver)) = (CancellationToken::new(), mpsc::channel(CAPACITY));
        let worker = Worker::new(Arc::clone(&session), gone.clone()).run(receiver, Heard::interval(tick));
        let worker = Task::spawn_on(&Handle::current(), worker);
        Ok(Self { session, submissions, worker, gone })
    }

    /// Submits a request. It has its place in the order when this returns.
    pub(super) fn submit(&self, message: Message) {
        match self.submissions.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(message)) => message.reply_to.send(Err(NodeError::Overloaded)),
            Err(TrySendError::Closed(message)) => {
                message.reply_to.send(Err(NodeError::Unreachable { reason: "the session is over".into() }));
            }
        }
    }

    /// Waits until the session has a connection.
    pub(super) async fn connected(&self) -> Result<(), NodeError> {
        let mut state = self.session.client.state_watcher();
        let connected = async {
            while !self.gone.is_cancelled() && self.session.client.state() != SessionState::SyncConnected {
                state.changed().await;
            }
        };
        let is_late = timeout(CONNECT_TIMEOUT, connected).await.is_err();
        if is_late { Err(NodeError::Unreachable { reason: "the session has no connection".into() }) } else { Ok(()) }
    }

    /// Resolves when the session has no connection, or is over.
    pub(super) fn disconnected(&self) -> NodeFuture<()> {
        let (mut state, gone) = (self.session.client.state_watcher(), self.gone.clone());
        let is_connected = self.session.check_connected().is_ok();
        Box::pin(async move {
            let lost = async { while is_connected && state.changed().await == SessionState::SyncConnected {} };
            tokio::select! {
                biased;
                () = gone.cancelled() => {}
                () = lost => {}
            }
        })
    }
}

impl present_link::Link for Link {
    const LOST: &str = "the session is over";

    fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    fn worker(&self) -> &Task {
        &self.worker
    }
}
