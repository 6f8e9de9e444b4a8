use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use super::FailedAttempt;
use crate::cluster::Cluster;
use crate::error::{NodeError, NodeVote, Vote};
use crate::mutex::Mutex;
use crate::quorum::Failure;

/// The most requests that attempts of one kind have under way at once, to all nodes together. Each attempt sends one to every node.
const MAX_REQUESTS: usize = 640;

/// While an outage lasts, one attempt is made in this time, with jitter. The other callers are answered with its votes: many
/// processes whose callers try again at once would keep slow nodes from recovering.
const PROBE_PAUSE: Duration = Duration::from_millis(200);

/// Which attempts wait for each other.
#[derive(Clone, Copy)]
pub(crate) enum AttemptKind {
    /// Of callers that are not in the nodes' queues.
    New,
    /// Of callers that waited at the nodes. A free key is kept for them only for a short time: behind thousands of new callers,
    /// they would miss every reservation.
    Woken,
}

/// The lines in which acquisitions wait for their attempt, first come, first served.
///
/// Without them, a burst of callers would send more requests than the nodes carry out within the node timeout: nearly all attempts
/// would fail, and their releases are work on top. Only the beginning of an attempt passes here. Confirms, renewals and releases
/// never wait for other attempts: they are about locks that are held, and the nodes get less to do by each of them.
pub(super) struct AttemptLines {
    cluster: Arc<Cluster>,
    /// How many attempts of one kind there are at once.
    most: usize,
    new: Semaphore,
    woken: Semaphore,
    last_failure: Mutex<Option<LastFailure>>,
    /// Notified when an attempt failed and the outage lasts.
    outage: Notify,
}

/// The last attempt without a majority.
struct LastFailure {
    votes: Vec<NodeVote>,
    /// How long the nodes were given. It says nothing to callers that give them longer.
    node_timeout: Duration,
    /// When the next attempt may be made while the outage lasts.
    next_probe: Instant,
}

/// The right to make an attempt, or several at once. Dropping it lets the next one in line make its own.
pub(crate) type AttemptPlace<'a> = SemaphorePermit<'a>;

impl AttemptLines {
    pub(super) fn new(cluster: &Arc<Cluster>) -> Self {
        let most = MAX_REQUESTS / cluster.size().max(1);
        Self {
            cluster: Arc::clone(cluster),
            most,
            new: Semaphore::new(most),
            woken: Semaphore::new(most),
            last_failure: Mutex::default(),
            outage: Notify::new(),
        }
    }

    /// A place in line, if there is one at once, or the answer instead: of an outage that lasts.
    pub(super) fn enter(
        &self,
        attempts: usize,
        kind: AttemptKind,
        node_timeout: Duration,
    ) -> Option<Result<AttemptPlace<'_>, FailedAttempt>> {
        if let Some(votes) = self.votes_in_outage(node_timeout) {
            return Some(Err(FailedAttempt::not_made(votes)));
        }
        self.places(kind).try_acquire_many(self.places_of(attempts)).ok().map(Ok)
    }

    /// Waits in line for attempts: until a time, and at least for the node timeout.
    ///
    /// # Errors
    ///
    /// [`Failure::NoQuorum`] instead of the attempt. If the time is over, each vote is [`NodeError::Overloaded`]. While an outage
    /// lasts, the votes are those of the last attempt. There are none if the lines were closed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the caller loses its place.
    pub(super) async fn wait(
        &self,
        attempts: usize,
        kind: AttemptKind,
        until: Instant,
        node_timeout: Duration,
    ) -> Result<AttemptPlace<'_>, FailedAttempt> {
        let (places, until) = (self.places(kind), until.max(Instant::now() + node_timeout));
        let votes = tokio::select! {
            biased;
            place = places.acquire_many(self.places_of(attempts)) => match place {
                Ok(place) => return Ok(place),
                Err(_closed) => Vec::new(),
            },
            votes = self.outage_lasts_for(node_timeout) => votes,
            () = sleep_until(until) => self.overloaded(),
        };
        Err(FailedAttempt::not_made(votes))
    }

    /// How many places so many attempts at once take: not more than there are.
    fn places_of(&self, attempts: usize) -> u32 {
        u32::try_from(attempts.min(self.most)).unwrap_or(u32::MAX)
    }

    fn places(&self, kind: AttemptKind) -> &Semaphore {
        match kind {
            AttemptKind::New => &self.new,
            AttemptKind::Woken => &self.woken,
        }
    }

    /// Ends the wait of everybody in line, and lets nobody in any more.
    pub(super) fn close(&self) {
        self.new.close();
        self.woken.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.new.is_closed()
    }

    /// Whether the quorum has been lost for so long that callers are answered at once.
    pub(super) fn outage_lasts(&self) -> bool {
        self.cluster.answers.outage_lasts()
    }

    /// Notes an attempt that began at this time, if it ended without a majority.
    pub(super) fn note_attempt<T>(&self, outcome: &Result<T, FailedAttempt>, node_timeout: Duration, began: Instant) {
        let failed = outcome.as_ref().err().filter(|failed| failed.failure == Failure::NoQuorum);
        if let Some(failed) = failed {
            let (answers, now) = (&self.cluster.answers, Instant::now());
            answers.outage().attempt_failed(answers.time_of(began), answers.time_of(now));
            let next_probe = now + self.cluster.random.jitter(PROBE_PAUSE);
            let votes = failed.votes.clone();
            *self.last_failure.lock() = Some(LastFailure { votes, node_timeout, next_probe });
            if self.outage_lasts() {
                self.outage.notify_waiters();
            }
        }
    }

    /// Waits until an attempt fails in an outage that lasts, and returns its votes.
    async fn outage_lasts_for(&self, node_timeout: Duration) -> Vec<NodeVote> {
        loop {
            self.outage.notified().await;
            if let Some(votes) = self.votes_in_outage(node_timeout) {
                return votes;
            }
        }
    }

    /// The votes with which a caller is answered without an attempt, because an outage lasts and the last attempt was recent.
    fn votes_in_outage(&self, node_timeout: Duration) -> Option<Vec<NodeVote>> {
        if !self.outage_lasts() {
            return None;
        }
        let now = Instant::now();
        let mut last = self.last_failure.lock();
        let last = last.as_mut().filter(|last| node_timeout <= last.node_timeout)?;
        if now < last.next_probe {
            return Some(last.votes.clone());
        }
        // This caller makes the attempt that the others are answered with.
        last.next_probe = now + self.cluster.random.jitter(PROBE_PAUSE);
        None
    }

    fn overloaded(&self) -> Vec<NodeVote> {
        self.cluster.vote_of_each(|_| Vote::Failed(NodeError::Overloaded))
    }
}
