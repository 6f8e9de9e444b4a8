//! One connection of a node to its server, or one session: from when it is opened until it is lost or given up.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::found::Found;
use super::present_link::{self, PresentLink};
use super::submission::{Message, Submission, Submissions, refuse};
use super::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeFuture, NodeRecord,
    RecordWrite, ReplySender, Request,
};
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

    /// Reads the highest fence, if the record is that of the memory with this run id.
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

/// The life of one session. Clones are the same link.
pub(super) struct Link<S>(Arc<Shared<S>>);

struct Shared<S> {
    session: Arc<S>,
    submissions: Submissions,
    worker: Task,
    gone: CancellationToken,
    found: Mutex<Found>,
}

impl<S: Session> Link<S> {
    /// A link whose `worker` writes the submissions. `gone` is cancelled when the session is lost, and ends the worker.
    pub(super) fn new(session: Arc<S>, submissions: Submissions, worker: Task, gone: CancellationToken) -> Self {
        Self(Arc::new(Shared { session, submissions, worker, gone, found: Mutex::default() }))
    }

    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(super) fn session(&self) -> &Arc<S> {
        &self.0.session
    }

    /// Submits requests that are of the epoch that was found. They have their place in the order when this returns.
    pub(super) fn submit(&self, submission: Submission) {
        let is_admitted = submission.messages().try_for_each(|message| self.check_epoch(message.request.epoch));
        match is_admitted {
            Ok(()) => self.0.submissions.send(submission, S::LOST),
            Err(error) if submission.is_single() => refuse(submission.into_messages(), &error),
            // Each has its own answer.
            Err(_) => submission.into_messages().for_each(|message| self.submit(message.into())),
        }
    }

    pub(super) async fn inspect(&self, keyspace: &Keyspace) -> Result<Inspection, NodeError> {
        let before = self.found().run_id.clone();
        let inspection = timeout(S::INSPECTION_TIMEOUT, self.0.session.inspect(keyspace, before.as_deref())).await;
        let inspection = self.checked(inspection.unwrap_or(Err(NodeError::TimedOut)));
        self.found().inspected(&inspection);
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
        let written = self.checked(self.0.session.write_record(keyspace, write).await)?;
        self.found().written(written.as_ref());
        Ok(written)
    }

    pub(super) async fn read_fences(&self, keyspace: &Keyspace) -> Result<Option<FenceReading>, NodeError> {
        let run_id = self.found().run_id.clone().unwrap_or_default();
        self.checked(self.0.session.read_fences(keyspace, &run_id).await)
    }

    pub(super) async fn look(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        if let Some(epoch) = look.epoch {
            self.check_epoch(epoch)?;
        }
        self.checked(self.0.session.look(look).await)
    }

    pub(super) async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.check_epoch(evict.epoch)?;
        self.checked(self.0.session.evict(evict).await)
    }

    /// Resolves when the session is lost, or has no connection.
    pub(super) fn disconnected(&self) -> NodeFuture<()> {
        // Without the link itself, which lives no longer than the node uses it.
        let (gone, disconnected) = (self.0.gone.clone(), self.0.session.disconnected());
        Box::pin(async move {
            tokio::select! {
                biased;
                () = gone.cancelled() => {}
                () = disconnected => {}
            }
        })
    }

    /// Gives the session up after an error that concerns all of it.
    fn checked<T>(&self, answer: Result<T, NodeError>) -> Result<T, NodeError> {
        if answer.as_ref().is_err_and(|error| self.0.session.is_ended_by(error)) {
            self.0.gone.cancel();
        }
        answer
    }

    fn check_epoch(&self, epoch: Epoch) -> Result<(), NodeError> {
        if S::CHECKS_EPOCHS { Ok(()) } else { self.found().check_epoch(epoch) }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Clone for Link<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Session> present_link::Link for Link<S> {
    const LOST: &str = S::LOST;

    fn gone(&self) -> &CancellationToken {
        &self.0.gone
    }

    fn worker(&self) -> &Task {
        &self.0.worker
    }
}

/// The methods of [`LockNode`](super::LockNode) that are the same for every node that has a link.
impl<S: Session> PresentLink<Link<S>> {
    pub(super) fn submit(&self, request: Request, reply_to: ReplySender) {
        self.send(Message { request, reply_to }.into());
    }

    pub(super) fn submit_all(&self, requests: Vec<(Request, ReplySender)>) {
        if let Some(submission) = Submission::of_all(requests) {
            self.send(submission);
        }
    }

    fn send(&self, submission: Submission) {
        match self.read(|link| Ok(link.clone())) {
            Ok(link) => link.submit(submission),
            Err(error) => refuse(submission.into_messages(), &error),
        }
    }

    pub(super) fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        let (link, keyspace) = (self.inspected(), Arc::clone(keyspace));
        Box::pin(async move { link?.write_record(&keyspace, &write).await })
    }

    pub(super) fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        let (link, keyspace) = (self.inspected(), Arc::clone(keyspace));
        Box::pin(async move { link?.read_fences(&keyspace).await })
    }

    pub(super) fn look(&self, look: Look) -> NodeFuture<Result<Vec<LockState>, NodeError>> {
        let link = self.inspected();
        Box::pin(async move { link?.look(&look).await })
    }

    pub(super) fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
        let link = self.inspected();
        Box::pin(async move { link?.evict(&evict).await })
    }

    /// Resolves when the link is known to be lost, has no connection, or there is none.
    pub(super) fn disconnected(&self) -> NodeFuture<()> {
        self.read(|link| Ok(link.disconnected())).unwrap_or_else(|_| Box::pin(async {}))
    }
}
