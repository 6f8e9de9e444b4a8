use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::calls::Called;
use super::line::Pass;
use super::{Line, Seen, Waiting};
use crate::engine::{Claim, Ended, Failed, NodeSet, Queued, Tenure, Traces};
use crate::error::NodeVote;
use crate::lease::LONGEST_RUN;
use crate::node::{LockKeys, Place, TURN_LIFE};
use crate::quorum::majority;

/// The pauses of the first in line when nothing better is known, as after a split vote: from, doubling, to.
const PAUSE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));
/// The longest pause, whatever the nodes tell.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How far those part who were told the same time.
const JITTER: Duration = Duration::from_millis(10);

/// The right to talk to the nodes about a resource: one in a manager. Passed to the next in line when it is dropped.
pub(crate) struct Seat {
    waiting: Arc<Waiting>,
    keys: LockKeys,
    /// Since when the line waits, by the cluster clock. `None` while it has the lock.
    since: Option<NonZeroU64>,
    /// Where calls arrive, while there is a place on the nodes.
    called: Option<Arc<Called>>,
    /// The nodes that may have a place for this line in their queues. None during an attempt, which sees to them.
    queued: NodeSet,
    pause: Duration,
}

/// Why a wait is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Try again.
    Again,
    /// The caller's time is over.
    TimedOut,
    /// The manager was closed.
    Closed,
}

impl Seat {
    pub(super) fn new(waiting: &Arc<Waiting>, keys: &LockKeys) -> Self {
        let (waiting, keys, queued) = (Arc::clone(waiting), keys.clone(), NodeSet::default());
        Self { waiting, keys, since: None, called: None, queued, pause: PAUSE.0 }
    }

    /// Begins an attempt: what was called before does not count for it. The places of this line are the attempt's from here on,
    /// to keep or to give up. `None` while it is not known what time it is, by which places go: it does not get one yet.
    pub(crate) fn begin_attempt(&mut self) -> Option<Queued> {
        if let Some(called) = &self.called {
            called.clear();
        }
        self.since = self.since.or_else(|| NonZeroU64::new(self.waiting.engine.cluster.clock()));
        self.since.map(|since| Queued { since, nodes: std::mem::take(&mut self.queued) })
    }

    /// How many tokens to ask for: our own, one for each of those who stand behind and may be handed the lock, and one for
    /// somebody who may yet come. Not more: numbers that are counted faster than a million a second would overtake the clock.
    pub(crate) fn tokens(&self) -> u32 {
        let followers = self.line(|line| line.len()).unwrap_or_default();
        u32::try_from(followers).unwrap_or(u32::MAX).saturating_add(2).min(LONGEST_RUN)
    }

    /// An attempt came to nothing.
    pub(crate) fn end_attempt(&mut self, failed: &Failed) {
        self.queued = failed.queued;
    }

    /// The lock was taken: the places on the nodes are given up with it.
    pub(crate) fn holds(&mut self, nodes: NodeSet, until: Instant) {
        self.forget_call();
        (self.since, self.pause) = (None, PAUSE.0);
        self.line(|line| {
            line.first_waits = false;
            line.seen = Seen { votes: Arc::default(), ours: nodes, free_at: Some(until) };
        });
    }

    /// The lock is held by another: waits for the next turn. `free_in` is when the holder's key ends, if that is known; `until`
    /// when the caller gives up. The last turn comes at that time, not before.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn turn(&mut self, votes: &[NodeVote], free_in: Option<Duration>, until: Instant) -> Woken {
        let now = Instant::now();
        if now >= until {
            return Woken::TimedOut;
        }
        let called = self.listen();
        let free_at = free_in.map(|free_in| now + free_in);
        let seen = Seen { votes: votes.into(), ours: NodeSet::default(), free_at };
        self.line(|line| {
            line.first_waits = true;
            line.seen = seen;
        });
        let random = &self.waiting.engine.random;
        let known = free_in.unwrap_or(LONGEST_PAUSE) + random.jitter(JITTER);
        let mut again = now + known.max(random.jitter(self.pause)).min(LONGEST_PAUSE);
        let after_minority = now + random.jitter(TURN_LIFE).max(self.pause);
        self.pause = (self.pause * 2).min(PAUSE.1);
        let quorum = majority(self.waiting.engine.cluster.size());
        loop {
            let changed = called.changed();
            let (nodes, next_at) = called.state();
            if nodes.len() >= quorum {
                return Woken::Again;
            }
            if !nodes.is_empty() {
                // A call was lost, or a minority is free while the majority is not.
                again = again.min(after_minority);
            }
            if let Some(next_at) = next_at {
                again = again.min(next_at + random.jitter(JITTER));
            }
            tokio::select! {
                biased;
                () = self.waiting.closing.cancelled() => return Woken::Closed,
                () = changed => {}
                () = sleep_until(again.min(until)) => return Woken::Again,
            }
        }
    }

    /// Hands the lock to the next in line, if that one can use it as it is. Gives back what nobody took. Whom it fits is decided
    /// anew for whomever it is offered to: the one that was first may have left just now.
    pub(crate) fn hand_over(self, tenure: Tenure) -> Option<(Self, Tenure)> {
        let (mut seat, mut tenure) = (self, tenure);
        while let Some(next) = seat.line(|line| line.next_if(|wants| wants.fit(&tenure))).flatten() {
            // What can not be sent comes back as it was.
            let Err(Pass::Lock(unwanted, back)) = next.send(Pass::Lock(tenure, seat)) else { return None };
            (tenure, seat) = (unwanted, back);
        }
        Some((seat, tenure))
    }

    /// No majority of the nodes answered in the time that goes with this time to live. That is true for all who stand behind and
    /// would not have given them more.
    pub(crate) fn no_quorum(&self, votes: &[NodeVote], ttl: Duration) {
        let votes: Arc<[NodeVote]> = votes.into();
        let engine = &self.waiting.engine;
        let given = engine.node_timeout(ttl);
        let told = self.line(|line| line.all_if(|wants| engine.node_timeout(wants.ttl) <= given));
        for pass in told.into_iter().flatten() {
            drop(pass.send(Pass::NoQuorum(Arc::clone(&votes))));
        }
    }

    fn line<T>(&self, with: impl FnOnce(&mut Line) -> T) -> Option<T> {
        self.waiting.lock().get_mut(self.keys.lock()).map(with)
    }

    fn listen(&mut self) -> Arc<Called> {
        let Self { waiting, keys, called, .. } = self;
        Arc::clone(called.get_or_insert_with(|| waiting.calls.listen(keys)))
    }

    fn forget_call(&mut self) {
        if self.called.take().is_some() {
            self.waiting.calls.forget(&self.keys);
        }
    }

    fn leave_the_queues(&self, queued: NodeSet) {
        let engine = &self.waiting.engine;
        let (keys, owner, nodes) = (self.keys.clone(), engine.random.owner(), NodeSet::default());
        let traces = Traces { keys, owner, ttl: LONGEST_PAUSE, nodes, queued, place: Place::Leave };
        drop(Claim::new(engine, traces, Ended::Attempt));
    }

    /// Takes the next one out of the line. If there is none, and nothing is left to be done, the line ends.
    fn next(&self, done: bool) -> Option<oneshot::Sender<Pass>> {
        let mut lines = self.waiting.lock();
        let line = lines.get_mut(self.keys.lock())?;
        line.first_waits = false;
        let next = line.next_if(|_| true);
        if next.is_none() && done {
            lines.remove(self.keys.lock());
        }
        next
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut queued = self.queued;
        let done = queued.is_empty() && self.called.is_none();
        let mut next = self.next(done);
        if next.is_none() && !done {
            // Before the line ends: one that comes after that has a place of its own on the nodes, and calls of its own.
            self.forget_call();
            self.leave_the_queues(queued);
            queued = NodeSet::default();
            next = self.next(true);
        }
        let Some(next) = next else { return };
        let (waiting, keys) = (Arc::clone(&self.waiting), self.keys.clone());
        let (since, called, pause) = (self.since, self.called.take(), self.pause);
        // If that one left just now, its seat is dropped here, and passed to the one behind.
        drop(next.send(Pass::Seat(Self { waiting, keys, since, called, queued, pause })));
    }
}
