//! What a node with a connection has: a [`Link`] is one connection, or one session, from when it is opened until it is lost or given up.
//! A [`PresentLink`] is the one that the node has now, and the methods of [`LockNode`](super::LockNode) that are the same for every such
//! node.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::submission::{Message, Submissions};
use super::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeFuture, NodeRecord,
    RecordWrite, Refusal, ReplySender, Request,
};
use crate::mutex::Mutex;
use crate::random::Epoch;
use crate::task::Task;

/// What a node asks its server outside the order of requests, each in one command, statement or transaction. What is done with the
/// answers is the same for every store, and stands in [`Link`].
pub(super) trait Session: Send + Sync + 'static {
    /// What callers are told after it was lost.
    const LOST: &'static str;
    /// How long an inspection may take.
    const INSPECTION_TIMEOUT: Duration;
    /// Whether the session itself compares the epoch of each request with the one that it was admitted in, so that the link need not.
    const CHECKS_EPOCHS: bool = false;

    /// Inspects the server. `before` is the run id that the last inspection over this link found.
    fn inspect(
        &self,
        keyspace: &Keyspace,
        before: Option<&str>,
    ) -> impl Future<Output = Result<Inspection, NodeError>> + Send;

    fn write_record(
        &self,
        keyspace: &Keyspace,
        write: &RecordWrite,
    ) -> impl Future<Output = Result<Option<NodeRecord>, NodeError>> + Send;

    /// Reads the highest fence, if the record was written for the memory with this run id.
    fn read_fences(
        &self,
        keyspace: &Keyspace,
        run_id: &str,
    ) -> impl Future<Output = Result<Option<FenceReading>, NodeError>> + Send;

    fn look(&self, look: &Look) -> impl Future<Output = Result<Vec<LockState>, NodeError>> + Send;

    fn evict(&self, evict: &Evict) -> impl Future<Output = Result<Eviction, NodeError>> + Send;

    /// Whether the session cannot be used any more after this error. An inspection that takes too long is [`NodeError::TimedOut`].
    fn is_ended_by(&self, error: &NodeError) -> bool;

    /// Resolves when a session that outlives its connections has none. A session that is one connection never resolves this.
    fn disconnected(&self) -> NodeFuture<()> {
        Box::pin(pending())
    }
}

/// The life of one session.
pub(super) struct Link<S> {
    pub(super) session: Arc<S>,
    submissions: Submissions,
    worker: Task,
    /// Cancelled when the session is known to be lost.
    pub(super) gone: CancellationToken,
    found: Mutex<Found>,
}

impl<S: Session> Link<S> {
    /// A link whose `worker` writes the submissions. `gone` is cancelled when the session is lost, and ends the worker.
    pub(super) fn new(session: Arc<S>, submissions: Submissions, worker: Task, gone: CancellationToken) -> Arc<Self> {
        Arc::new(Self { session, submissions, worker, gone, found: Mutex::default() })
    }

    /// Gives it up. What was not written by now never is. The servers of a session end that when they are told, or have not heard of it
    /// for its timeout.
    pub(super) fn close(&self) {
        self.gone.cancel();
        self.worker.end();
    }

    pub(super) async fn inspect(&self, keyspace: &Keyspace) -> Result<Inspection, NodeError> {
        let before = self.found.lock().run_id.clone();
        let inspection = timeout(S::INSPECTION_TIMEOUT, self.session.inspect(keyspace, before.as_deref())).await;
        let inspection = self.checked(inspection.unwrap_or(Err(NodeError::TimedOut)));
        self.found.lock().inspected(&inspection);
        inspection
    }

    /// The message with a request, if that is of the epoch that was found. Otherwise the reply says that it is not.
    fn message(&self, request: Request, reply_to: ReplySender) -> Option<Message> {
        match self.check_epoch(request.epoch) {
            Ok(()) => Some(self.submissions.message(request, reply_to)),
            Err(error) => {
                reply_to.send(Err(error));
                None
            }
        }
    }

    /// Gives the session up after an error that concerns all of it.
    fn checked<T>(&self, answer: Result<T, NodeError>) -> Result<T, NodeError> {
        if answer.as_ref().is_err_and(|error| self.session.is_ended_by(error)) {
            self.gone.cancel();
        }
        answer
    }

    fn check_epoch(&self, epoch: Epoch) -> Result<(), NodeError> {
        if S::CHECKS_EPOCHS { Ok(()) } else { self.found.lock().check_epoch(epoch) }
    }
}

/// The link that a node has at present: at most one.
pub(super) struct PresentLink<S> {
    link: Mutex<Option<Arc<Link<S>>>>,
    /// Held while a link is opened, so that there are never two.
    opening: tokio::sync::Mutex<()>,
}

impl<S> Default for PresentLink<S> {
    fn default() -> Self {
        Self { link: Mutex::new(None), opening: tokio::sync::Mutex::default() }
    }
}

impl<S: Session> PresentLink<S> {
    /// The present link if it is not lost, otherwise a new one.
    pub(super) async fn get_or_open(
        &self,
        open: impl Future<Output = Result<Arc<Link<S>>, NodeError>>,
    ) -> Result<Arc<Link<S>>, NodeError> {
        let _opening = self.opening.lock().await;
        // Another one may have opened it while this one waited.
        if let Ok(link) = self.inspected() {
            return Ok(link);
        }
        let link = open.await?;
        *self.link.lock() = Some(link.clone());
        Ok(link)
    }

    /// The link of the inspection that led here: behind a new one there may be another server.
    pub(super) fn inspected(&self) -> Result<Arc<Link<S>>, NodeError> {
        let present = self.link.lock().clone().filter(|link| !link.gone.is_cancelled());
        present.ok_or_else(|| NodeError::Unreachable { reason: S::LOST.into() })
    }

    /// Takes the link out. To close it, or to drop it, may drop requests, and the mutex must not be held meanwhile.
    pub(super) fn take(&self) -> Option<Arc<Link<S>>> {
        self.link.lock().take()
    }

    /// Gives the link up.
    pub(super) fn disconnect(&self) {
        if let Some(link) = self.take() {
            link.close();
        }
    }

    /// Submits a request. It has its place in the order when this returns.
    pub(super) fn submit(&self, request: Request, reply_to: ReplySender) {
        match self.even_if_lost() {
            Some(link) => link.submissions.send(link.message(request, reply_to), S::LOST),
            None => reply_to.send(Err(not_connected())),
        }
    }

    pub(super) fn submit_all(&self, requests: Vec<(Request, ReplySender)>) {
        let Some(link) = self.even_if_lost() else {
            return requests.into_iter().for_each(|(_, reply_to)| reply_to.send(Err(not_connected())));
        };
        let messages = requests.into_iter().filter_map(|(request, reply_to)| link.message(request, reply_to));
        link.submissions.send(messages.collect::<Vec<_>>(), S::LOST);
    }

    /// The present link. If it is lost, it refuses requests. They would wait for the mutex, so it is not held meanwhile.
    fn even_if_lost(&self) -> Option<Arc<Link<S>>> {
        self.link.lock().clone()
    }

    /// Writes a record for the memory that the inspection found. Any other was replaced, together with its record.
    pub(super) fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        let (link, keyspace) = (self.inspected(), Arc::clone(keyspace));
        Box::pin(async move {
            let link = link?;
            // What is written was decided by what an earlier memory had. This one may be another server's.
            if link.found.lock().run_id.as_ref() != Some(&write.record.run_id) {
                return Ok(None);
            }
            let written = link.checked(link.session.write_record(&keyspace, &write).await)?;
            if let Some(record) = &written {
                link.found.lock().epoch = record.epoch;
            }
            Ok(written)
        })
    }

    pub(super) fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        let (link, keyspace) = (self.inspected(), Arc::clone(keyspace));
        Box::pin(async move {
            let link = link?;
            let run_id = link.found.lock().run_id.clone().unwrap_or_default();
            link.checked(link.session.read_fences(&keyspace, &run_id).await)
        })
    }

    pub(super) fn look(&self, look: Look) -> NodeFuture<Result<Vec<LockState>, NodeError>> {
        let link = self.inspected();
        Box::pin(async move {
            let link = link?;
            look.epoch.map_or(Ok(()), |epoch| link.check_epoch(epoch))?;
            link.checked(link.session.look(&look).await)
        })
    }

    pub(super) fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
        let link = self.inspected();
        Box::pin(async move {
            let link = link?;
            link.check_epoch(evict.epoch)?;
            link.checked(link.session.evict(&evict).await)
        })
    }

    /// Resolves when the link is known to be lost, has no connection, or there is none.
    pub(super) fn disconnected(&self) -> NodeFuture<()> {
        // Without the link itself, which lives no longer than the node uses it.
        let parts = self.link.lock().as_ref().map(|link| (link.gone.clone(), link.session.disconnected()));
        Box::pin(async move {
            let Some((gone, disconnected)) = parts else { return };
            _ = gone.run_until_cancelled(disconnected).await;
        })
    }
}

fn not_connected() -> NodeError {
    NodeError::Unreachable { reason: "not connected".into() }
}

/// What was found out over one connection. Requests of any other epoch are not sent over it, and records for any other memory of the
/// server are not written.
///
/// Otherwise either could be executed through a new connection before the server behind it is inspected. That server may have
/// restarted from an old state, which has the record but not the locks.
#[derive(Default)]
struct Found {
    run_id: Option<String>,
    /// If the record was written for this memory.
    epoch: Option<Epoch>,
    /// Why the server must not be used.
    refusal: Option<Refusal>,
}

impl Found {
    /// Notes what an inspection found. One that got no answer changes nothing.
    fn inspected(&mut self, inspection: &Result<Inspection, NodeError>) {
        *self = match inspection {
            Ok(found) => {
                let own_record = found.record.get().filter(|record| record.run_id == found.run_id);
                let epoch = own_record.and_then(|record| record.epoch);
                Self { run_id: Some(found.run_id.clone()), epoch, refusal: None }
            }
            // It must not be used any more, as what it was found to be before.
            Err(NodeError::Refused(refusal)) => Self { refusal: Some(refusal.clone()), ..Self::default() },
            Err(_) => return,
        };
    }

    /// Whether requests of this epoch may be sent.
    fn check_epoch(&self, epoch: Epoch) -> Result<(), NodeError> {
        if self.epoch == Some(epoch) {
            return Ok(());
        }
        Err(self.refusal.clone().map_or(NodeError::Unadmitted, NodeError::Refused))
    }
}
