use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use super::{Engine, FailedAttempt};
use crate::error::{NodeError, NodeVote, Vote};
use crate::quorum::Failure;

/// The most attempts of one manager, of each kind, that are in progress at once.
const MAX_ATTEMPTS: usize = 64;

/// Which attempts wait for each other.
#[derive(Clone, Copy)]
pub(crate) enum AttemptKind {
    /// Of callers of whom the nodes do not know.
    New,
    /// Of callers that waited at the nodes. A free key is kept for them only for a short time: behind thousands of new callers,
    /// they would miss every turn.
    Called,
}

/// The lines in which acquisitions wait for their attempt, first come, first served.
///
/// Without it, a burst of callers would send more requests than the nodes carry out within the node timeout: nearly all attempts
/// would fail, and their releases are work on top. Only the beginning of an attempt passes here. Confirms, renewals and releases
/// never wait for other attempts.
pub(super) struct AttemptLines {
    new: Semaphore,
    called: Semaphore,
    /// The votes of the last attempt without a majority.
    failed: Mutex<Option<Vec<NodeVote>>>,
    /// Notified when an attempt failed and the outage lasts.
    outage: Notify,
}

/// The right to make an attempt. Dropping it lets the next one in line make its own.
pub(crate) struct AttemptPlace<'a> {
    _permit: SemaphorePermit<'a>,
}

impl AttemptLines {
    pub(super) fn new() -> Self {
        let places = || Semaphore::new(MAX_ATTEMPTS);
        Self { new: places(), called: places(), failed: Mutex::default(), outage: Notify::new() }
    }

    fn places(&self, kind: AttemptKind) -> &Semaphore {
        match kind {
            AttemptKind::New => &self.new,
            AttemptKind::Called => &self.called,
        }
    }

    fn failed(&self) -> MutexGuard<'_, Option<Vec<NodeVote>>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Waits in line for an attempt: until a time, and at least for the node timeout of this time to live.
    ///
    /// # Errors
    ///
    /// [`Failure::NoQuorum`] in place of the attempt. If the time is over, each vote is [`NodeError::Overloaded`]. In an outage
    /// that lasts, nobody waits here, and the votes are those of the last attempt. There are none if the line was closed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the caller loses its place.
    pub(crate) async fn enter_line(
        &self,
        kind: AttemptKind,
        until: Instant,
        ttl: Duration,
    ) -> Result<AttemptPlace<'_>, FailedAttempt> {
        let (lines, places) = (&self.lines, self.lines.places(kind));
        if let Ok(permit) = places.try_acquire() {
            return Ok(AttemptPlace { _permit: permit });
        }
        let until = until.max(Instant::now() + self.node_timeout(ttl));
        loop {
            // Asked for before the outage is read, so that none is missed.
            let outage = lines.outage.notified();
            if self.outage_lasts()
                && let Some(votes) = lines.failed().clone()
            {
                return Err(FailedAttempt { failure: Failure::NoQuorum, votes });
            }
            tokio::select! {
                biased;
                permit = places.acquire() => {
                    let closed = |_| FailedAttempt { failure: Failure::NoQuorum, votes: Vec::new() };
                    return permit.map(|permit| AttemptPlace { _permit: permit }).map_err(closed);
                }
                () = outage => {}
                () = sleep_until(until) => {
                    let votes = self.cluster.members.iter().map(|member| NodeVote {
                        node: member.node.name().to_owned(),
                        vote: Vote::Failed(NodeError::Overloaded),
                    });
                    return Err(FailedAttempt { failure: Failure::NoQuorum, votes: votes.collect() });
                }
            }
        }
    }

    /// Ends the wait of everybody in line, and lets nobody in any more.
    pub(crate) fn close_lines(&self) {
        self.lines.new.close();
        self.lines.called.close();
    }

    /// Whether the quorum has been lost for so long that callers are answered at once.
    pub(crate) fn outage_lasts(&self) -> bool {
        self.cluster.outage().is_lasting(self.cluster.now())
    }

    /// Notes whether a majority replied to an attempt that began at this time.
    pub(super) fn note_attempt<T>(&self, outcome: &Result<T, FailedAttempt>, began: Duration) {
        let failed = outcome.as_ref().err().filter(|failed| failed.failure == Failure::NoQuorum);
        self.cluster.outage().attempt_ended(failed.is_none(), began, self.cluster.now());
        if let Some(failed) = failed {
            *self.lines.failed() = Some(failed.votes.clone());
            if self.outage_lasts() {
                self.lines.outage.notify_waiters();
            }
        }
    }
}
