use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use super::{Engine, FailedAttempt};
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
    pub(super) fn new(nodes: usize) -> Self {
        let most = MAX_REQUESTS / nodes.max(1);
        Self {
            most,
            new: Semaphore::new(most),
            woken: Semaphore::new(most),
            last_failure: Mutex::default(),
            outage: Notify::new(),
        }
    }
}

impl Engine {
    /// Waits in line for so many attempts at once: until a time, and at least for the configured node timeout of this time to live.
    ///
    /// # Errors
    ///
    /// [`Failure::NoQuorum`] instead of the attempt. If the time is over, each vote is [`NodeError::Overloaded`]. While an outage
    /// lasts, the votes are those of the last attempt. There are none if the lines were closed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the caller loses its place.
    pub(crate) async fn enter_line(
        &self,
        attempts: usize,
        kind: AttemptKind,
        until: Instant,
        ttl: Duration,
    ) -> Result<AttemptPlace<'_>, FailedAttempt> {
        let node_timeout = self.configured_timeout(ttl);
        if let Some(votes) = self.votes_in_outage(node_timeout) {
            return Err(FailedAttempt::not_made(votes));
        }
        let line = match kind {
            AttemptKind::New => &self.lines.new,
            AttemptKind::Woken => &self.lines.woken,
        };
        // Not more places than there are.
        let places = u32::try_from(attempts.min(self.lines.most)).unwrap_or(u32::MAX);
        if let Ok(place) = line.try_acquire_many(places) {
            return Ok(place);
        }
        let until = until.max(Instant::now() + node_timeout);
        let place = async {
            tokio::select! {
                biased;
                place = line.acquire_many(places) => place.map_err(|_closed| Vec::new()),
                votes = self.outage_lasts_for(node_timeout) => Err(votes),
                () = sleep_until(until) => Err(self.cluster.vote_of_each(|_| Vote::Failed(NodeError::Overloaded))),
            }
        };
        // Boxed, because it is rare.
        Box::pin(place).await.map_err(FailedAttempt::not_made)
    }

    /// Ends the wait of everybody in line, and lets nobody in any more who wants a lock. The manager was closed.
    pub(crate) fn close(&self) {
        self.lines.new.close();
        self.lines.woken.close();
    }

    /// Whether the manager was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lines.new.is_closed()
    }

    /// Whether the quorum has been lost for so long that callers are answered at once.
    pub(crate) fn outage_lasts(&self) -> bool {
        self.cluster.answers.outage_lasts()
    }

    /// Notes an attempt that began at this time, if it ended without a majority.
    pub(super) fn note_attempt<T>(&self, outcome: &Result<T, FailedAttempt>, ttl: Duration, began: Instant) {
        let failed = outcome.as_ref().err().filter(|failed| failed.failure == Failure::NoQuorum);
        if let Some(failed) = failed {
            let (answers, now) = (&self.cluster.answers, Instant::now());
            answers.outage().attempt_failed(answers.time_of(began), answers.time_of(now));
            let (votes, node_timeout) = (failed.votes.clone(), self.configured_timeout(ttl));
            let next_probe = now + self.cluster.random.jitter(PROBE_PAUSE);
            *self.lines.last_failure.lock() = Some(LastFailure { votes, node_timeout, next_probe });
            if self.outage_lasts() {
                self.lines.outage.notify_waiters();
            }
        }
    }

    /// Waits until an attempt fails in an outage that lasts, and returns its votes.
    async fn outage_lasts_for(&self, node_timeout: Duration) -> Vec<NodeVote> {
        loop {
            self.lines.outage.notified().await;
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
        let mut last = self.lines.last_failure.lock();
        let last = last.as_mut().filter(|last| node_timeout <= last.node_timeout)?;
        if now < last.next_probe {
            return Some(last.votes.clone());
        }
        // This caller makes the attempt that the others are answered with.
        last.next_probe = now + self.cluster.random.jitter(PROBE_PAUSE);
        None
    }
}
