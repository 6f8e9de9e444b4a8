use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::handover::HandoverTerms;
use super::listening::Listening;
use super::pending_wakeups::PendingWakeups;
use crate::cluster::NodeSet;
use crate::engine::{Engine, QueuePositions, QueueReport};
use crate::node::{LockKeys, MAX_RESERVATIONS, RESERVATION_TTL};
use crate::quorum::majority;

/// The first and the longest pause of a caller that knows nothing better, as after a split vote; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));
/// The longest pause, whatever the nodes reply. Nothing else covers for a wake-up that was lost while the holder renews.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of a process that polls: no majority can wake it, that is not known yet, or their wake-ups do not arrive.
const MAX_POLL_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause of the first in line behind a stranger.
const MAX_STRANGER_PAUSE: Duration = Duration::from_millis(32);
/// Spreads out processes that were given the same time.
const JITTER: Duration = Duration::from_millis(10);

/// The wait of a manager for one lock at the nodes: what it tries next, its positions in their queues, and their wake-ups.
///
/// It belongs to the manager, not to a caller, and goes with the [`Turn`](super::Turn) from one to the next. A caller that gave the
/// positions up when its time was over would send those behind it to the end of every queue.
///
/// Nothing here decides who gets the lock. All of it may be wrong or lost, and costs time: an attempt decides, and every attempt
/// takes the positions again that are missing.
pub(super) struct NodeWait {
    /// The lock, or the slot that the next attempt tries.
    pub(super) keys: LockKeys,
    /// What the caller whose turn it is asks for.
    pub(super) terms: HandoverTerms,
    positions: QueuePositions,
    /// When that caller began to wait, by the cluster clock, which positions are ordered by.
    since: Option<NonZeroU64>,
    wakeups: Arc<PendingWakeups>,
    /// The nodes that could wake this process when the last attempt began: on the others, its position says that it polls.
    waking: NodeSet,
    /// The nodes that could have woken it at any time since the attempt before, and did not.
    uncalled: NodeSet,
    pause: Duration,
}

impl NodeWait {
    pub(super) fn new(keys: &LockKeys, terms: HandoverTerms, wakeups: Arc<PendingWakeups>) -> Self {
        Self {
            keys: keys.clone(),
            terms,
            positions: QueuePositions::default(),
            since: None,
            wakeups,
            waking: NodeSet::default(),
            uncalled: NodeSet::default(),
            pause: BACKOFF.0,
        }
    }

    /// Takes the positions out, for the next caller. `self` has nothing left to give up.
    pub(super) fn take(&mut self) -> Self {
        let positions = std::mem::take(&mut self.positions);
        Self { keys: self.keys.clone(), positions, wakeups: Arc::clone(&self.wakeups), ..*self }
    }

    /// Another caller has the turn now. It begins with the slot that nodes reserve for this process, if they do.
    pub(super) fn continue_for(&mut self, keys: &LockKeys, terms: HandoverTerms) {
        (self.keys, self.terms) = (keys.clone(), terms);
        self.try_reserved();
    }

    /// The next attempt is to try this slot.
    pub(super) fn try_slot(&mut self, slot: u32) {
        self.keys = self.keys.with_slot(slot);
    }

    /// The next attempt is to try the slot that most nodes reserve for this process, if any does.
    pub(super) fn try_reserved(&mut self) {
        if let Some(slot) = self.wakeups.best(self.terms).slot {
            self.try_slot(slot);
        }
    }

    /// Begins an attempt, and lends it the queue positions. Wake-ups from before do not count for it: a reservation that this attempt
    /// uses up, or finds passed, must not cause another one.
    ///
    /// It takes no positions while it is not known if the nodes can wake this process, or what the cluster clock is.
    pub(super) fn begin_attempt(&mut self, engine: &Engine, listening: &Listening) -> &mut QueuePositions {
        self.wakeups.clear(self.keys.slot());
        let could_call = std::mem::replace(&mut self.waking, engine.cluster.waking_nodes());
        self.uncalled = self.waking.intersection(could_call).without(self.wakeups.take_called());
        // Kept over all attempts of a wait: a position that was lost is taken again at its old place.
        self.since = self.since.or_else(|| NonZeroU64::new(engine.cluster.clock()));
        self.positions.since = self.since.filter(|_| self.may_enter(listening));
        &mut self.positions
    }

    /// The caller took the lock. The next one has waited for another time.
    pub(super) fn end(&mut self) {
        self.wakeups.clear(None);
        (self.since, self.positions.since, self.pause) = (None, None, BACKOFF.0);
    }

    /// Whether nodes may have a position for this manager.
    pub(super) fn has_positions(&self) -> bool {
        !self.positions.nodes.is_empty()
    }

    /// Gives up the positions in the nodes' queues, and the slots that nodes reserve: until they have passed, nobody else can have
    /// them there.
    pub(super) fn leave(&mut self, engine: &Arc<Engine>) {
        self.leave_other_slots(engine);
        let positions = std::mem::take(&mut self.positions);
        engine.leave_queues(&self.keys, positions.nodes);
    }

    /// Leaves the slots that nodes reserve for this process to other processes, but for the one that was tried last.
    pub(super) fn leave_other_slots(&self, engine: &Arc<Engine>) {
        self.leave_slots(engine, |slot| self.keys.slot() != Some(slot));
    }

    /// Leaves the slots that nodes reserve for this process, and that satisfy a condition, to other processes. Returns whether there
    /// are any: the nodes have this process in their queues no more.
    fn leave_slots(&self, engine: &Arc<Engine>, condition: impl Fn(u32) -> bool) -> bool {
        let reserved = self.wakeups.take_reserved(condition);
        for (slot, nodes) in &reserved {
            engine.leave_queues(&self.keys.with_slot(*slot), *nodes);
        }
        reserved.iter().any(|(_, nodes)| !nodes.is_empty())
    }

    /// Waits until the next attempt is due, and until `until` at most. A caller's last attempt is made at that time, not before.
    ///
    /// An attempt costs every node a request, so there is to be none that cannot succeed. It is due when a majority reserves the key
    /// for this process. Whatever keeps such wake-ups from arriving, a timer covers for.
    pub(super) async fn wait(
        &mut self,
        engine: &Arc<Engine>,
        listening: &Listening,
        queue: QueueReport,
        free_in: Option<Duration>,
        until: Instant,
    ) {
        listening.start();
        // Their reservation passed, and no wake-up told of it.
        listening.not_heard(queue.passed.intersection(self.uncalled).without(self.wakeups.called()));
        let (cluster, random, now) = (&engine.cluster, &engine.random, Instant::now());
        let mut again = now + self.pause_for(engine, queue, free_in);
        let after_minority = random.jitter(RESERVATION_TTL / 2);
        let after_change = now + random.jitter(RESERVATION_TTL / 2);
        self.pause = (self.pause * 2).min(BACKOFF.1);
        loop {
            // Asked for before the state is read, so that no change in between is missed.
            let changed = self.wakeups.changed();
            if self.leave_slots(engine, |slot| !self.terms.has_slot(Some(slot))) {
                // The caller may not have these slots, because others ask for more permits. The attempt takes its position again.
                again = again.min(after_change);
            }
            let state = self.wakeups.best(self.terms);
            let is_reserved = state.reserved.len() >= majority(cluster.size());
            if is_reserved || self.positions.since.is_none() && self.may_enter(listening) {
                return;
            }
            if cluster.waking_nodes() != self.waking {
                // An attempt tells each node whether it can wake us. Not at once, because other nodes may follow.
                again = again.min(after_change);
            }
            if let Some(reserved_at) = state.reserved_at {
                // A wake-up was lost, or a minority is free while the majority is not. Within the reservation, but not at once: the
                // other wake-ups are probably on their way.
                again = again.min(reserved_at + after_minority);
            }
            if let Some(next_at) = state.next_at {
                again = again.min(next_at + random.jitter(JITTER));
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(again.min(until)) => return,
            }
        }
    }

    /// Whether attempts enter the queues.
    fn may_enter(&self, listening: &Listening) -> bool {
        self.since.is_some() && !listening.is_connecting()
    }

    /// How long to wait for a wake-up before the next attempt.
    fn pause_for(&self, engine: &Engine, queue: QueueReport, free_in: Option<Duration>) -> Duration {
        let Engine { random, cluster, .. } = engine;
        if queue.first_behind_stranger {
            // Its release wakes nobody. Other Redlocks pause for about as long.
            return random.jitter(self.pause.min(MAX_STRANGER_PAUSE));
        }
        let is_woken = self.waking.intersection(cluster.heard_nodes()).len() >= majority(cluster.size());
        if !is_woken && self.has_positions() {
            // Faster than a reservation passes, near the head of the queue: each reservation that nobody uses keeps the lock from
            // those behind for that time.
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
}
