use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::handover::{Handover, MAX_HOLDERS, may_hand_over};
use super::local_hold::LocalSlot;
use super::local_queue::LocalQueue;
use super::wakeups::PendingWakeups;
use super::{HandoverTerms, LastAttempt, LocalQueues};
use crate::cluster::NodeSet;
use crate::engine::{Engine, FailedAttempt, Grant, QueuePositions, QueueReport};
use crate::error::NodeVote;
use crate::node::{LockKeys, MAX_RESERVATIONS, RESERVATION_TTL};
use crate::quorum::majority;

/// The first and the longest pause of a caller that knows nothing better, as after a split vote; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));
/// The longest pause, whatever the nodes reply.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of a process that no majority can wake, of one of which that is not known yet, and of one that does not hear
/// those that wake it.
const MAX_POLL_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause of the first in line behind a stranger.
const MAX_STRANGER_PAUSE: Duration = Duration::from_millis(32);
/// Spreads out processes that were given the same time.
const JITTER: Duration = Duration::from_millis(10);

/// The right to try next. There is one for each lock in a manager, and one for all slots of a resource; dropped, it is passed to the
/// next caller in the local queue.
///
/// The turn owns the manager's positions in the nodes' queues.
pub(crate) struct Turn {
    queues: Arc<LocalQueues>,
    /// The lock, or the slot that the next attempt tries.
    keys: LockKeys,
    /// What the caller at the front asks for.
    terms: HandoverTerms,
    positions: QueuePositions,
    /// When the caller at the front began to wait, by the cluster clock, which positions are ordered by.
    since: Option<NonZeroU64>,
    /// Where wake-ups arrive.
    wakeups: Arc<PendingWakeups>,
    /// The nodes that could wake this process when the last attempt began: on the others, its position says that it polls.
    waking: NodeSet,
    /// Those that could all the time since the attempt before, and did not.
    uncalled: NodeSet,
    pause: Duration,
}

/// Why a wait ended.
pub(crate) enum Woken {
    /// Try again.
    TryAgain,
    /// Another caller of this manager handed its slot over.
    Slot(Grant, LocalSlot),
    /// The caller's time is over.
    TimedOut,
    /// The manager was closed.
    Closed,
}

impl Turn {
    pub(super) fn new(
        queues: &Arc<LocalQueues>,
        keys: &LockKeys,
        terms: HandoverTerms,
        wakeups: Arc<PendingWakeups>,
    ) -> Self {
        let (queues, keys) = (Arc::clone(queues), keys.clone());
        Self {
            queues,
            keys,
            terms,
            positions: QueuePositions::default(),
            since: None,
            wakeups,
            waking: NodeSet::default(),
            uncalled: NodeSet::default(),
            pause: BACKOFF.0,
        }
    }

    /// Another caller has the turn now, which asks for this. It begins with the slot that is reserved for this process, if one is.
    pub(super) fn pass_to(mut self, keys: &LockKeys, terms: HandoverTerms) -> Self {
        (self.keys, self.terms) = (keys.clone(), terms);
        self.try_reserved();
        self
    }

    /// The lock, or the slot that the next attempt tries.
    pub(crate) fn keys(&self) -> &LockKeys {
        &self.keys
    }

    /// The next attempt is to try this slot.
    pub(crate) fn try_slot(&mut self, slot: u32) {
        self.keys = self.keys.with_slot(slot);
    }

    /// The next attempt is to try the slot that most nodes reserve for this process, if any does.
    fn try_reserved(&mut self) {
        if let Some(slot) = self.wakeups.best(self.terms).slot {
            self.try_slot(slot);
        }
    }

    /// Begins an attempt, and lends it the queue positions. Wake-ups from before do not count for it.
    ///
    /// It takes none while it is not known if the nodes can wake this process, or what the cluster clock is.
    pub(crate) fn begin_attempt(&mut self) -> &mut QueuePositions {
        self.wakeups.clear(self.keys.slot());
        let cluster = &self.queues.engine.cluster;
        let could_call = std::mem::replace(&mut self.waking, cluster.waking_nodes());
        self.uncalled = self.waking.intersection(could_call).without(self.wakeups.take_called());
        self.since = self.since.or_else(|| NonZeroU64::new(cluster.clock()));
        self.positions.since = self.since.filter(|_| self.may_enter());
        &mut self.positions
    }

    /// How many tokens to ask for: one for the caller, one for each waiter that may be handed the lock, and one for a caller that
    /// may arrive meanwhile. Not more: tokens that are used up faster than a million a second would overtake the clock.
    pub(crate) fn tokens(&self) -> u32 {
        let waiters = self.queue(|queue| queue.len()).unwrap_or_default();
        u32::try_from(waiters).unwrap_or(u32::MAX).saturating_add(2).min(MAX_HOLDERS)
    }

    /// The lock was taken; it is held by these nodes, and their keys expire at `free_at`.
    pub(crate) fn lock_taken(&mut self, nodes: NodeSet, free_at: Instant) {
        self.wakeups.clear(None);
        (self.since, self.positions.since, self.pause) = (None, None, BACKOFF.0);
        self.queue(|queue| {
            (queue.front_waits, queue.is_held) = (false, true);
            queue.last_attempt = LastAttempt { ours: nodes, free_at: Some(free_at), ..LastAttempt::default() };
        });
    }

    /// A slot was taken. The turn goes to the next caller, which may wait for another one; so do the positions. A slot that nodes
    /// reserve for this process beside the one that was taken is left to other processes.
    pub(crate) fn slot_taken(mut self, grant: &mut Grant) -> LocalSlot {
        grant.give_up_position();
        let slot = LocalSlot::new(&self.queues, grant.keys());
        (self.since, self.positions.since, self.pause) = (None, None, BACKOFF.0);
        let last_attempt =
            LastAttempt { ours: grant.nodes(), free_at: Some(grant.sent() + grant.ttl()), ..LastAttempt::default() };
        self.queue(|queue| (queue.front_waits, queue.last_attempt) = (false, last_attempt));
        self.leave_slots(|other| grant.keys().slot() != Some(other));
        slot
    }

    /// No majority of the nodes replied, and the caller tries again: those behind it are to know.
    pub(crate) fn had_no_quorum(&self, votes: &[NodeVote]) {
        let last_attempt = LastAttempt { votes: votes.into(), had_no_quorum: true, ..LastAttempt::default() };
        self.queue(|queue| queue.last_attempt = last_attempt);
    }

    /// Another process holds the lock: waits until the next attempt is due, or a slot is handed over. The next attempt tries the slot
    /// that is reserved for this process, if one is. `free_in` is when the holder's key expires, if that is known;
    /// `until` is when the caller gives up. The last attempt is made at that time, not before.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped. A slot that was just handed over is released.
    pub(crate) async fn wait(&mut self, failed: &FailedAttempt, free_in: Option<Duration>, until: Instant) -> Woken {
        if self.keys.slot().is_none() {
            return self.wait_at_nodes(failed, free_in, until).await;
        }
        let (sender, mut handed) = oneshot::channel();
        let terms = self.terms;
        drop(self.queue(|queue| queue.set_front_waiter(Some((terms, sender)))));
        let woken = tokio::select! {
            biased;
            Ok(Handover::Slot(grant, slot)) = &mut handed => return Woken::Slot(grant, slot),
            woken = self.wait_at_nodes(failed, free_in, until) => woken,
        };
        drop(self.queue(|queue| queue.set_front_waiter(None)));
        self.try_reserved();
        // One may have been handed over meanwhile.
        match handed.try_recv() {
            Ok(Handover::Slot(grant, slot)) => Woken::Slot(grant, slot),
            _ => woken,
        }
    }

    async fn wait_at_nodes(&mut self, failed: &FailedAttempt, free_in: Option<Duration>, until: Instant) -> Woken {
        let now = Instant::now();
        if now >= until {
            return Woken::TimedOut;
        }
        self.queues.wakeups.start();
        // Its reservation passed, and nobody told it of that.
        let unheard = failed.queue.passed.intersection(self.uncalled).without(self.wakeups.called());
        self.queues.wakeups.not_heard(unheard);
        let free_at = free_in.map(|free_in| now + free_in);
        let last_attempt = LastAttempt { votes: failed.votes.as_slice().into(), free_at, ..LastAttempt::default() };
        self.queue(|queue| {
            queue.front_waits = true;
            queue.last_attempt = last_attempt;
        });
        let engine = &self.queues.engine;
        let quorum = majority(engine.cluster.size());
        let random = &engine.random;
        let mut again = now + self.pause_for(failed.queue, free_in);
        let after_minority = random.jitter(RESERVATION_TTL / 2);
        let after_change = now + random.jitter(RESERVATION_TTL / 2);
        self.pause = (self.pause * 2).min(BACKOFF.1);
        loop {
            // Asked for before the state is read, so that no change in between is missed.
            let changed = self.wakeups.changed();
            if self.leave_slots(|slot| !self.terms.has_slot(Some(slot))) {
                // Slots that the caller may not have, because others ask for more permits. It takes its position again.
                again = again.min(after_change);
            }
            let state = self.wakeups.best(self.terms);
            if state.reserved.len() >= quorum || self.positions.since.is_none() && self.may_enter() {
                return Woken::TryAgain;
            }
            if engine.cluster.waking_nodes() != self.waking {
                // An attempt tells each node whether it can wake us. Not at once, because other nodes may follow.
                again = again.min(after_change);
            }
            if let Some(reserved_at) = state.reserved_at {
                // A wake-up was lost, or a minority is free while the majority is not.
                again = again.min(reserved_at + after_minority);
            }
            if let Some(next_at) = state.next_at {
                again = again.min(next_at + random.jitter(JITTER));
            }
            tokio::select! {
                biased;
                () = self.queues.closing.cancelled() => return Woken::Closed,
                () = changed => {}
                () = sleep_until(again.min(until)) => return Woken::TryAgain,
            }
        }
    }

    /// Whether attempts enter the queues.
    fn may_enter(&self) -> bool {
        self.since.is_some() && !self.queues.wakeups.is_connecting()
    }

    /// How long to wait for a wake-up before the next attempt.
    fn pause_for(&self, queue: QueueReport, free_in: Option<Duration>) -> Duration {
        let Engine { random, cluster, .. } = &*self.queues.engine;
        if queue.first_behind_stranger {
            // Its release wakes nobody. Other Redlocks pause for about as long.
            return random.jitter(self.pause.min(MAX_STRANGER_PAUSE));
        }
        let is_woken = self.waking.intersection(cluster.heard_nodes()).len() >= majority(cluster.size());
        if !is_woken && !self.positions.nodes.is_empty() {
            // Faster than a reservation passes, near the head of the queue.
            let alone = RESERVATION_TTL * 3 / 4;
            let pause = if queue.others == 0 { alone } else { RESERVATION_TTL / 2 * (1 + queue.ahead / 4) };
            return random.jitter(pause).min(MAX_POLL_PAUSE);
        }
        // If the holder does not release it, the first in line come when it expires, and the others one after another.
        let behind = if queue.ahead < MAX_RESERVATIONS { 0 } else { queue.ahead.min(100) };
        let expected = free_in.unwrap_or(MAX_PAUSE) + behind * JITTER + random.jitter(JITTER);
        let longest = if is_woken { MAX_PAUSE } else { MAX_POLL_PAUSE };
        expected.max(random.jitter(self.pause)).min(longest)
    }

    /// Hands the lock over to the next waiter if that one can use it as it is.
    ///
    /// # Errors
    ///
    /// Returns the turn and the grant if there is no such waiter.
    ///
    /// The terms are checked again for each waiter that it is offered to: the first one may just have left.
    #[expect(clippy::result_large_err, reason = "not an error to propagate: the caller goes on with both")]
    pub(crate) fn hand_over(self, grant: Grant) -> Result<(), (Self, Grant)> {
        let (mut turn, mut grant) = (self, grant);
        if !may_hand_over(&grant) {
            return Err((turn, grant));
        }
        let pop = |queue: &mut LocalQueue, grant: &Grant| {
            let next = queue.pop_if(|terms| terms.accept(grant));
            // It may find that the grant has become too old.
            queue.is_held &= next.is_none();
            next
        };
        while let Some(next) = turn.queue(|queue| pop(queue, &grant)).flatten() {
            // What cannot be sent comes back unchanged.
            let Err(Handover::Lock(unsent, back)) = next.send(Handover::Lock(grant, turn)) else { return Ok(()) };
            (grant, turn) = (unsent, back);
        }
        Err((turn, grant))
    }

    /// No majority of the nodes replied within the node timeout of this time to live. Reports it to the waiters that would not
    /// give the nodes more time.
    pub(crate) fn report_no_quorum(&self, votes: &[NodeVote], ttl: Duration) {
        let votes: Arc<[NodeVote]> = votes.into();
        let engine = &self.queues.engine;
        let given = engine.node_timeout(ttl);
        let waiters = self.queue(|queue| queue.drain_if(|terms| engine.node_timeout(terms.ttl) <= given));
        for waiter in waiters.into_iter().flatten() {
            // A waiter that has just given up needs no answer.
            drop(waiter.send(Handover::NoQuorum(Arc::clone(&votes))));
        }
    }

    fn queue<T>(&self, with: impl FnOnce(&mut LocalQueue) -> T) -> Option<T> {
        self.queues.lock().get_mut(self.keys.queue()).map(with)
    }

    /// Gives up the positions in the nodes' queues.
    pub(crate) fn leave_queues(&mut self) {
        self.leave_slots(|slot| self.keys.slot() != Some(slot));
        let positions = std::mem::take(&mut self.positions);
        self.queues.engine.leave_queues(&self.keys, positions.nodes);
    }

    /// Leaves the slots that nodes reserve for this process, and that satisfy a condition, to other processes. Returns whether there
    /// are any: the nodes have this process in their queues no more.
    fn leave_slots(&self, condition: impl Fn(u32) -> bool) -> bool {
        let reserved = self.wakeups.take_reserved(condition);
        for (slot, nodes) in &reserved {
            self.queues.engine.leave_queues(&self.keys.with_slot(*slot), *nodes);
        }
        reserved.iter().any(|(_, nodes)| !nodes.is_empty())
    }

    /// Removes the next waiter from the local queue. If there is none and `end` is set, the queue ends.
    fn next_waiter(&self, end: bool) -> Option<oneshot::Sender<Handover>> {
        if self.keys.slot().is_some() {
            // It is still set if the wait was dropped.
            drop(self.queue(|queue| queue.set_front_waiter(None)));
        }
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(self.keys.queue())?;
        (queue.front_waits, queue.is_held) = (false, false);
        let next = queue.pop_if(|_| true);
        if next.is_none() && end {
            queues.remove(self.keys.queue());
        }
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let idle = self.positions.nodes.is_empty();
        let mut next = self.next_waiter(idle);
        if next.is_none() && !idle {
            // Before the queue ends: a caller that arrives after that has positions of its own.
            self.leave_queues();
            next = self.next_waiter(true);
        }
        let Some(next) = next else { return };
        let (queues, keys) = (Arc::clone(&self.queues), self.keys.clone());
        let (positions, wakeups) = (std::mem::take(&mut self.positions), Arc::clone(&self.wakeups));
        // If that waiter has just left, its turn is dropped here, and passed to the one behind it.
        drop(next.send(Handover::Turn(Self {
            queues,
            keys,
            terms: self.terms,
            positions,
            wakeups,
            since: self.since,
            waking: self.waking,
            uncalled: self.uncalled,
            pause: self.pause,
        })));
    }
}
