use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handover::{HandoverTerms, MAX_HOLDERS, may_hand_over};
use super::last_slots::LastSlots;
use super::listening::Listening;
use super::local_queue::{LastAttempt, LocalQueues, SharedQueue};
use super::node_wait::NodeWait;
use crate::cluster::NodeSet;
use crate::engine::{Engine, FailedAttempt, Grant, QueuePositions};
use crate::error::NodeVote;
use crate::node::{LockKeys, QueuePosition};

/// Whose turn it is in a manager, for every lock that its callers want.
pub(crate) struct Turns {
    pub(super) engine: Arc<Engine>,
    pub(super) queues: LocalQueues<Handover>,
    pub(super) listening: Arc<Listening>,
    pub(super) last_slots: LastSlots,
}

/// The right to try next. There is one for each lock in a manager, and one for all slots of a resource; dropped, it is passed to the
/// next caller in the local queue.
///
/// One at a time, because callers of one manager that tried at once would split the votes between them, and the nodes would keep a
/// position for each. So the cost of a lock at the nodes grows with the processes that want it, and not with their callers.
///
/// It is an owned value, and nothing else remembers whose turn it is: a caller that is cancelled, wherever it is, drops its turn, and
/// the next one has it.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    queue: Arc<SharedQueue<Handover>>,
    /// Boxed, because a turn is moved some ten times.
    at_nodes: Box<NodeWait>,
}

/// What the caller at the front passes to the next one in the local queue.
///
/// Nobody may be there to take it by the time that it arrives: then it is dropped, which passes it on.
pub(crate) enum Handover {
    /// The lock has to be taken from the nodes.
    Turn(Turn),
    /// In this order: if nobody takes it, the lock is released before the turn, or the slot, is passed on.
    Lock(Box<Grant>, LocalHold),
    /// It found no majority of the nodes.
    NoQuorum(LastAttempt),
}

impl Turn {
    pub(super) fn new(
        turns: &Arc<Turns>,
        queue: Arc<SharedQueue<Handover>>,
        keys: &LockKeys,
        terms: HandoverTerms,
    ) -> Self {
        Self { turns: Arc::clone(turns), queue, at_nodes: Box::new(NodeWait::new(keys, terms)) }
    }

    /// Another caller has the turn now, which asks for this.
    pub(super) fn pass_to(mut self, keys: &LockKeys, terms: HandoverTerms) -> Self {
        self.at_nodes.continue_for(keys, terms, self.turns.engine.cluster.size(), &self.queue.wakeups);
        self
    }

    /// The lock, or the slot that the next attempt tries.
    pub(crate) fn keys(&self) -> &LockKeys {
        &self.at_nodes.keys
    }

    /// The next attempt is to try this slot.
    pub(crate) fn try_slot(&mut self, slot: u32) {
        self.at_nodes.try_slot(slot);
    }

    /// Begins an attempt, and lends it the queue positions.
    pub(crate) fn begin_attempt(&mut self) -> &mut QueuePositions {
        self.at_nodes.begin_attempt(&self.turns.engine, &self.turns.listening, &self.queue.wakeups)
    }

    /// How many tokens to ask for: one for the caller, one for each waiter that may be handed the lock, and one for a caller that
    /// may arrive meanwhile. Not more: the cluster clock gives out a million tokens a second, and the fences must not overtake it.
    pub(crate) fn tokens(&self) -> u32 {
        // A token that is not used is lost, and one that is missing costs an attempt at the nodes in the middle of a handover.
        let waiters = self.queue.with(|queue| queue.len());
        u32::try_from(waiters).unwrap_or(u32::MAX).saturating_add(2).min(MAX_HOLDERS)
    }

    /// The lock was taken; it is held by these nodes, and their keys expire at `free_at`.
    pub(crate) fn lock_taken(&mut self, nodes: NodeSet, free_at: Instant) {
        self.at_nodes.end(&self.queue.wakeups);
        self.queue.with(|queue| {
            // Those who come from now on are handed the lock, or wait behind it: no caller of this process need ask the nodes.
            (queue.front_waits, queue.is_held) = (false, true);
            queue.last_attempt = LastAttempt { ours: nodes, free_at: Some(free_at), ..LastAttempt::default() };
        });
    }

    /// The keys of the lock expire at `free_at` by now.
    pub(crate) fn lock_extended(&self, free_at: Instant) {
        self.queue.with(|queue| queue.last_attempt.free_at = Some(free_at));
    }

    /// A slot was taken. The turn goes to the next caller, which may wait for another one; so do the positions.
    pub(crate) fn slot_taken(mut self, grant: &mut Grant) {
        // They stay with the turn: when this slot is released, they are another caller's.
        grant.give_up_position();
        self.at_nodes.end(&self.queue.wakeups);
        let last_attempt =
            LastAttempt { ours: grant.nodes(), free_at: Some(grant.sent + grant.ttl()), ..LastAttempt::default() };
        self.queue.with(|queue| (queue.front_waits, queue.last_attempt) = (false, last_attempt));
    }

    /// No majority of the nodes replied, and the caller tries again. The callers behind it learn of it when their time is over.
    pub(crate) fn had_no_quorum(&self, votes: &[NodeVote]) {
        let last_attempt = LastAttempt { votes: votes.into(), had_no_quorum: true, ..LastAttempt::default() };
        self.queue.with(|queue| queue.last_attempt = last_attempt);
    }

    /// No majority of the nodes [replied](Self::had_no_quorum) within the node timeout of this time to live. Reports it to the waiters that
    /// would not give the nodes more time.
    pub(crate) fn report_no_quorum(&self, ttl: Duration) {
        let engine = &self.turns.engine;
        let given = engine.configured_timeout(ttl);
        // A waiter with a longer timeout might still find a majority, on nodes that are slow.
        let would_not_wait = |terms: &HandoverTerms| engine.configured_timeout(terms.ttl) <= given;
        let (waiters, last_attempt) =
            self.queue.with(|queue| (queue.drain_if(would_not_wait), queue.last_attempt.clone()));
        for waiter in waiters {
            // A waiter that has just given up needs no answer.
            drop(waiter.send(Handover::NoQuorum(last_attempt.clone())));
        }
    }

    /// Another process holds the lock: waits until the next attempt is due, or the manager is closed; or returns the lock, if another caller
    /// of this manager hands its slot over. The next attempt tries a slot that nodes let this process take, if they do. `free_in` is when
    /// the holder's key expires, if that is known; `until` is when the caller gives up. The last attempt is made at that time, not before.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped. A slot that was just handed over is released.
    pub(crate) async fn wait(
        &mut self,
        failed: &FailedAttempt,
        free_in: Option<Duration>,
        until: Instant,
    ) -> Option<(Box<Grant>, LocalHold)> {
        let (sender, mut handed) = oneshot::channel();
        let (waits_for_slot, terms) = (self.keys().slot().is_some(), self.at_nodes.terms);
        let free_at = free_in.map(|free_in| Instant::now() + free_in);
        let last_attempt = LastAttempt { votes: failed.votes.as_slice().into(), free_at, ..LastAttempt::default() };
        // Not before an attempt failed: a slot that is handed over while one is under way would leave the caller with two.
        drop(self.queue.with(|queue| {
            (queue.front_waits, queue.last_attempt) = (true, last_attempt);
            waits_for_slot.then(|| queue.set_front_waiter(Some((terms, sender))))
        }));
        let Turns { engine, listening, .. } = &*self.turns;
        tokio::select! {
            biased;
            // First: a slot in hand is better than an attempt, and one that nobody takes has to be released.
            Ok(Handover::Lock(grant, slot)) = &mut handed => return Some((grant, slot)),
            () = engine.background.closing.cancelled() => {}
            () = self.at_nodes.wait(engine, listening, &self.queue.wakeups, failed, free_in, until) => {}
        }
        if !waits_for_slot {
            return None;
        }
        drop(self.queue.with(|queue| queue.set_front_waiter(None)));
        // Chosen only now: what the nodes offer changes while the caller sleeps.
        self.at_nodes.try_offered(self.turns.engine.cluster.size(), &self.queue.wakeups);
        // One may have been handed over meanwhile.
        match handed.try_recv() {
            Ok(Handover::Lock(grant, slot)) => Some((grant, slot)),
            _ => None,
        }
    }

    /// Removes the next waiter if it can use this grant as it is.
    pub(super) fn next_holder(&self, grant: &Grant) -> Option<oneshot::Sender<Handover>> {
        self.queue.with(|queue| {
            let next = queue.pop_if(|terms| may_hand_over(terms, grant));
            // It may find that the grant has become too old.
            queue.is_held &= next.is_none();
            next
        })
    }

    /// Gives up the positions in the nodes' queues, but for those on nodes where a release has `left` them.
    pub(super) fn leave_queues(&mut self, left: NodeSet) {
        self.at_nodes.leave(&self.turns.engine, left);
    }

    /// Removes the next waiter from the local queue. If there is none and `end` is set, the queue ends.
    fn next_waiter(&self, end: bool) -> Option<oneshot::Sender<Handover>> {
        if self.keys().slot().is_some() {
            // It is still set if the wait was dropped.
            drop(self.queue.with(|queue| queue.set_front_waiter(None)));
        }
        if end { self.turns.queues.next_waiter_or_end(&self.queue, self.keys()) } else { self.queue.next_waiter() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // In one step with the look for a waiter, if nothing has to be given up before: nobody can arrive between the two.
        let idle = !self.at_nodes.has_positions();
        let mut next = self.next_waiter(idle);
        if next.is_none() && !idle {
            // Before the queue ends: a caller that arrives after that has positions of its own, and they must not be given up.
            self.leave_queues(NodeSet::default());
            next = self.next_waiter(true);
        }
        let Some(next) = next else { return };
        // If that waiter has just left, its turn is dropped here, and passed to the one behind it.
        drop(next.send(Handover::Turn(Self {
            turns: Arc::clone(&self.turns),
            queue: Arc::clone(&self.queue),
            at_nodes: Box::new(self.at_nodes.take()),
        })));
    }
}

/// What the holder of a lock has in its manager, and passes on when it releases.
pub(crate) enum LocalHold {
    /// The turn: nobody else of this manager may have the lock, so none of them asks the nodes.
    Turn(Turn),
    /// A slot. The turn was passed on when it was taken: others of this manager may have other slots.
    Slot(LocalSlot),
}

impl Turns {
    /// What a caller has that took a slot; nothing for a lock without slots.
    pub(crate) fn hold_slot(self: &Arc<Self>, keys: &LockKeys) -> Option<LocalHold> {
        keys.slot().map(|_| LocalHold::Slot(LocalSlot { turns: Arc::clone(self), keys: keys.clone() }))
    }
}

impl LocalHold {
    /// Hands the lock over to the next waiter if that one can use it as it is.
    ///
    /// # Errors
    ///
    /// Returns both if there is no such waiter.
    ///
    /// The terms are checked again for each waiter that it is offered to: the first one may just have left.
    pub(crate) fn hand_over(self, grant: Box<Grant>) -> Result<(), (Self, Box<Grant>)> {
        let (mut hold, mut grant) = (self, grant);
        while let Some(next) = hold.next_holder(&grant) {
            // What cannot be sent comes back unchanged.
            let Err(Handover::Lock(unsent, back)) = next.send(Handover::Lock(grant, hold)) else { return Ok(()) };
            (grant, hold) = (unsent, back);
        }
        Err((hold, grant))
    }

    /// Removes the next waiter if it can use this grant as it is.
    fn next_holder(&self, grant: &Grant) -> Option<oneshot::Sender<Handover>> {
        match self {
            Self::Turn(turn) => turn.next_holder(grant),
            // The first is the one at the front, unless it makes an attempt just now. Of a queue that ended meanwhile, nobody is left.
            Self::Slot(LocalSlot { turns, keys }) => {
                turns.queues.get(keys.queue())?.with(|queue| queue.pop_for_slot(|terms| may_hand_over(terms, grant)))
            }
        }
    }

    /// What becomes of the position in the nodes' queues when the lock is released: the one that the holder of a slot had is
    /// another caller's by then.
    pub(crate) fn position(&self) -> QueuePosition {
        match self {
            Self::Turn(_) => QueuePosition::Leave,
            Self::Slot(_) => QueuePosition::None,
        }
    }

    /// Gives up the positions in the nodes' queues, but for those on nodes where a release has `left` them.
    pub(crate) fn leave_queues(&mut self, left: NodeSet) {
        match self {
            Self::Turn(turn) => turn.leave_queues(left),
            Self::Slot(_) => {}
        }
    }
}

/// A slot that a caller of this manager holds. Dropped, it is the first that the next caller tries.
pub(crate) struct LocalSlot {
    turns: Arc<Turns>,
    keys: LockKeys,
}

impl Drop for LocalSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.keys.slot() {
            self.turns.last_slots.put_back(self.keys.queue(), slot);
        }
    }
}
