use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::unconstrained;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::cancel::cancel_unanswered;
use super::classify::ends_session;
use super::connect::{CONNECT_TIMEOUT, Connected, connect, prepare};
use super::last_words::LastWords;
use super::session::Session;
use super::worker::{Message, Worker};
use super::{inspect, look};
use crate::node::found::Found;
use crate::node::present_link;
use crate::node::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeRecord, RecordWrite,
};
use crate::random::Epoch;
use crate::task::Task;

/// How many submissions may wait to be written. Beyond it the node is not keeping up, and further requests fail at once.
const CAPACITY: usize = 8192;

/// The life of one connection that carries votes.
#[derive(Clone)]
pub(super) struct Link {
    session: Arc<Session>,
    submissions: mpsc::Sender<Vec<Message>>,
    worker: Task,
    gone: CancellationToken,
    found: Arc<Mutex<Found>>,
}

impl Link {
    /// Connects, and prepares the session.
    pub(super) async fn open(address: &Address, synchronous: bool, last_words: &LastWords) -> Result<Self, NodeError> {
        let Connected { client, mut wire, id } = connect(address).await?;
        // A pooler without a free session keeps the first statement waiting, and says nothing.
        let mut is_ours = false;
        let preparing = prepare(&mut wire, async {
            id.check(&client).await?;
            is_ours = true;
            Session::prepare(client, id, synchronous).await
        });
        let session = timeout(CONNECT_TIMEOUT, preparing)
            .await
            .unwrap_or_else(|_| Err(NodeError::Unreachable { reason: unprepared(is_ours) }))?;
        let (session, gone) = (Arc::new(session), CancellationToken::new());
        let (submissions, receiver) = mpsc::channel(CAPACITY);
        let worker = Worker::new(Arc::clone(&session), address.name.clone(), gone.clone(), last_words.clone());
        let worker = Task::spawn_on(&Handle::current(), unconstrained(worker.run(wire, receiver)));
        // Not ended with the link: its work begins then, and takes seconds at most.
        Handle::current().spawn(cancel_unanswered(address.clone(), Arc::clone(&session), gone.clone()));
        Ok(Self { session, submissions, worker, gone, found: Arc::default() })
    }

    /// Submits requests that are written together, if they are of the epoch that was found. They have their place in the order when
    /// this returns.
    pub(super) fn submit(&self, messages: Vec<Message>) {
        let found = self.found();
        let is_admitted = |message: &Message| found.check_epoch(message.request.epoch).is_ok();
        let (sent, unsent): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_admitted);
        let not_admitted = found.not_admitted();
        // What is refused wakes its caller, and the mutex must not be held meanwhile.
        drop(found);
        refuse(unsent, &not_admitted);
        if sent.is_empty() {
            return;
        }
        match self.submissions.try_send(sent) {
            Ok(()) => {}
            Err(TrySendError::Full(unsent)) => refuse(unsent, &NodeError::Overloaded),
            Err(TrySendError::Closed(unsent)) => {
                refuse(unsent, &NodeError::Unreachable { reason: "connection lost".into() });
            }
        }
    }

    pub(super) async fn inspect(&self, keyspace: &Keyspace) -> Result<Inspection, NodeError> {
        let inspection = timeout(CONNECT_TIMEOUT, inspect::inspect(&self.session, keyspace));
        let inspection = self.checked(inspection.await.unwrap_or(Err(NodeError::TimedOut)));
        self.found().inspected(&inspection);
        if matches!(inspection, Err(NodeError::TimedOut)) {
            self.gone.cancel();
        }
        inspection
    }

    pub(super) async fn write_record(
        &self,
        keyspace: &Keyspace,
        write: &RecordWrite,
    ) -> Result<Option<NodeRecord>, NodeError> {
        if !self.found().is_memory_of(write) {
            return Ok(None);
        }
        let written = self.checked(inspect::write_record(&self.session, keyspace, write).await)?;
        self.found().written(written.as_ref());
        Ok(written)
    }

    pub(super) async fn read_fences(&self, keyspace: &Keyspace) -> Result<Option<FenceReading>, NodeError> {
        self.checked(inspect::read_fences(&self.session, keyspace).await)
    }

    pub(super) async fn look(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        if let Some(epoch) = look.epoch {
            self.check_epoch(epoch)?;
        }
        self.checked(look::look(&self.session, look).await)
    }

    pub(super) async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.check_epoch(evict.epoch)?;
        self.checked(look::evict(&self.session, evict).await)
    }

    /// Gives the connection up after an error that concerns the whole session.
    fn checked<T>(&self, result: Result<T, NodeError>) -> Result<T, NodeError> {
        if result.as_ref().is_err_and(ends_session) {
            self.gone.cancel();
        }
        result
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

/// Why a session was not prepared in time.
fn unprepared(is_ours: bool) -> String {
    let reason = format!("connected, but the session was not prepared within {CONNECT_TIMEOUT:?}");
    if is_ours {
        return reason;
    }
    format!(
        "{reason}, because the first statement had no answer: the server is overloaded, or this is a pooler whose pool is too small \
         (default_pool_size of PgBouncer); name the address of the PostgreSQL server itself"
    )
}

/// Answers requests that were not sent.
pub(super) fn refuse(messages: Vec<Message>, error: &NodeError) {
    for message in messages {
        message.reply_to.send(Err(error.clone()));
    }
}
