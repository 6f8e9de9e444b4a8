use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::handover::HandoverTerms;
use super::turn::{Turn, Turns};
use crate::cluster::NodeSet;
use crate::engine::{Engine, FailedAttempt, QueuePositions, QueueReport};
use crate::node::{LockKeys, MAX_RESERVATIONS, RESERVATION_TTL};
use crate::quorum::majority;

/// The first and the longest pause of a caller that knows nothing better, as after a split vote; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));
/// The longest pause, whatever the nodes reply. Nothing else covers for a wake-up that was lost while the holder renews.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The pause of a process that polls, if it is the first in line: no majority can wake it, that is not known yet, or their wake-ups do
/// not arrive. It is longer for those behind, by their position, and doubles while that does not change: the holder takes its time.
const POLL_PAUSE: Duration = Duration::from_millis(6);
/// Its longest pause when it is the first in line: it comes before its reservation passes.
const MAX_FIRST_POLL_PAUSE: Duration = Duration::from_millis(75);
/// Its longest pause.
const MAX_POLL_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause of the first in line behind a stranger.
const MAX_STRANGER_PAUSE: Duration = Duration::from_millis(32);
/// The first and the longest pause of a caller whose attempts at slots are split again and again; pauses double.
const SPLIT_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));
/// After how many split attempts in a row a caller pauses.
const MAX_SPLITS: u32 = 3;
/// How long nodes are given that propose another slot than others do.
const AGREEMENT: Duration = Duration::from_millis(2);
/// Spreads out processes that were given the same time.
const JITTER: Duration = Duration::from_millis(10);

/// The wait of a manager for one lock at the nodes: what it tries next, its positions in their queues, and their wake-ups.
///
/// It belongs to the manager, not to a caller, and goes with the [`Turn`] from one to the next. A caller that gave the
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
    /// The nodes that could wake this process when the last attempt began: on the others, its position says that it polls.
    waking: NodeSet,
    /// The nodes that could have woken it at any time since the attempt before, and did not.
    uncalled: NodeSet,
    pause: Duration,
    /// How many attempts in a row were split.
    splits: u32,
    /// If it polls: the pause of the first in line, and how many were ahead when it tried last.
    polling: (Duration, Option<u32>),
}

impl NodeWait {
    pub(super) fn new(keys: &LockKeys, terms: HandoverTerms) -> Self {
        Self {
            keys: keys.clone(),
            terms,
            positions: QueuePositions::default(),
            since: None,
            waking: NodeSet::default(),
            uncalled: NodeSet::default(),
            pause: BACKOFF.0,
            splits: 0,
            polling: (POLL_PAUSE, None),
        }
    }

    /// Takes the positions out, for the next caller. `self` has nothing left to give up.
    pub(super) fn take(&mut self) -> Self {
        let positions = std::mem::take(&mut self.positions);
        Self { keys: self.keys.clone(), positions, ..*self }
    }

    /// Whether nodes may have a position for this manager.
    pub(super) fn has_positions(&self) -> bool {
        !self.positions.nodes.is_empty()
    }
}

impl Turn {
    /// Another caller has the turn now, which asks for this. It begins with a slot that nodes let this process take, if they do.
    pub(super) fn pass_to(mut self, keys: &LockKeys, terms: HandoverTerms) -> Self {
        (self.at_nodes.keys, self.at_nodes.terms) = (keys.clone(), terms);
        self.try_offered();
        self
    }

    /// The next attempt is to try this slot.
    pub(crate) fn try_slot(&mut self, slot: u32) {
        self.at_nodes.keys = self.at_nodes.keys.with_slot(slot);
    }

    /// The next attempt is to try the best of the slots that nodes let this process take, if they do.
    pub(super) fn try_offered(&mut self) {
        let state = self.queue.wakeups.state(self.at_nodes.terms);
        if let Some(choice) = state.offers.best(self.turns.engine.cluster.size()) {
            self.try_slot(choice.slot);
        }
    }

    /// Begins an attempt, and lends it the queue positions. Wake-ups from before do not count for it: a reservation that this attempt
    /// uses up, or finds passed, must not cause another one.
    ///
    /// It takes no positions while it is not known if the nodes can wake this process, or what the cluster clock is.
    pub(crate) fn begin_attempt(&mut self) -> &mut QueuePositions {
        let (cluster, wakeups, wait) = (&self.turns.engine.cluster, &self.queue.wakeups, &mut *self.at_nodes);
        wakeups.clear();
        // Nodes that could call in both attempts had all the time in between. Of the others nothing can be said.
        let could_call = std::mem::replace(&mut wait.waking, cluster.waking_nodes());
        wait.uncalled = wait.waking.intersection(could_call).without(wakeups.take_called());
        // Kept over all attempts of a wait: a position that was lost is taken again at its old place.
        wait.since = wait.since.or_else(|| NonZeroU64::new(cluster.clock()));
        self.at_nodes.positions.since = self.at_nodes.since.filter(|_| self.may_enter());
        &mut self.at_nodes.positions
    }

    /// The caller took the lock. The next one has waited for another time.
    pub(super) fn end_wait(&mut self) {
        self.queue.wakeups.clear();
        let wait = &mut *self.at_nodes;
        (wait.since, wait.positions.since, wait.pause, wait.splits) = (None, None, BACKOFF.0, 0);
        wait.polling = (POLL_PAUSE, None);
    }

    /// Gives up the positions in the nodes' queues.
    pub(super) fn leave_queues(&mut self) {
        let positions = std::mem::take(&mut self.at_nodes.positions);
        // In the background. Nobody waits for it, and a position that stays is removed when it does not answer a call.
        self.turns.engine.leave_queues(self.keys(), positions.nodes);
    }

    /// Waits until the next attempt is due, and until `until` at most. A caller's last attempt is made at that time, not before.
    ///
    /// An attempt costs every node a request, so there is to be none that cannot succeed. It is due when a majority reserves the key
    /// for this process, or lets it take a slot. Whatever keeps such wake-ups from arriving, a timer covers for.
    pub(super) async fn wait_at_nodes(&mut self, failed: &FailedAttempt, free_in: Option<Duration>, until: Instant) {
        let (turns, queue) = (Arc::clone(&self.turns), Arc::clone(&self.queue));
        let (Turns { engine, listening, .. }, wakeups) = (&*turns, &queue.wakeups);
        // Not before somebody waits: a process whose locks are free needs no subscription.
        listening.start();
        // Their reservation passed, and no wake-up told of it. While replies take that long, so may wake-ups.
        if engine.cluster.answers.reply_time().expected() < RESERVATION_TTL {
            listening.not_heard(failed.queue.passed.intersection(self.at_nodes.uncalled).without(wakeups.called()));
        }
        wakeups.add_replies(&failed.offers);
        self.pause_after_splits(failed, until).await;
        let (cluster, random, now) = (&engine.cluster, &engine.random, Instant::now());
        let mut again = now + self.pause_for(failed.queue, free_in);
        let (after_minority, after_majority) = (random.jitter(RESERVATION_TTL / 2), random.jitter(AGREEMENT));
        let after_change = now + random.jitter(RESERVATION_TTL / 2);
        // Doubled, and with jitter, as on the Redlock page: clients that split the votes in step would go on with it.
        self.at_nodes.pause = (self.at_nodes.pause * 2).min(BACKOFF.1);
        loop {
            // Asked for before the state is read, so that no change in between is missed.
            let changed = wakeups.changed.notified();
            let state = wakeups.state(self.at_nodes.terms);
            let (is_ready, choice) = (state.ready.len() >= majority(cluster.size()), state.offers.best(cluster.size()));
            let is_agreed = choice.is_none_or(|choice| choice.is_proposed);
            if is_ready && is_agreed || self.at_nodes.positions.since.is_none() && self.may_enter() {
                return;
            }
            if cluster.waking_nodes() != self.at_nodes.waking {
                // An attempt tells each node whether it can wake us. Not at once, because other nodes may follow.
                again = again.min(after_change);
            }
            if let Some(ready_at) = state.ready_at {
                let is_free = is_ready && choice.is_some_and(|choice| choice.is_free);
                // A majority lets this process take a slot, and the nodes propose different ones. Otherwise a wake-up was lost, or a
                // minority is free while the majority is not: within the time for the attempt, but not at once, as the other wake-ups are
                // probably on their way.
                again = again.min(ready_at + if is_free { after_majority } else { after_minority });
            }
            if let Some(next_at) = state.next_at {
                again = again.min(next_at + random.jitter(JITTER));
            }
            tokio::select! {
                biased;
                // Checked again: one more wake-up may be the one that makes a majority, or only another minority.
                () = changed => {}
                () = sleep_until(again.min(until)) => return,
            }
        }
    }

    /// Callers that try for the same slots at the same time, and split the votes again and again, spread out.
    async fn pause_after_splits(&mut self, failed: &FailedAttempt, until: Instant) {
        let wait = &mut *self.at_nodes;
        wait.splits = if wait.keys.slot().is_some() && failed.is_split() { wait.splits.saturating_add(1) } else { 0 };
        if let Some(doubled) = wait.splits.checked_sub(MAX_SPLITS) {
            let pause = SPLIT_PAUSE.0.saturating_mul(1_u32.checked_shl(doubled).unwrap_or(u32::MAX)).min(SPLIT_PAUSE.1);
            sleep_until((Instant::now() + self.turns.engine.random.jitter(pause)).min(until)).await;
        }
    }

    /// Whether attempts enter the queues.
    fn may_enter(&self) -> bool {
        self.at_nodes.since.is_some() && !self.turns.listening.is_connecting()
    }

    /// How long to wait for a wake-up before the next attempt.
    fn pause_for(&mut self, queue: QueueReport, free_in: Option<Duration>) -> Duration {
        let (Engine { random, cluster, .. }, wait) = (&*self.turns.engine, &mut *self.at_nodes);
        if queue.first_behind_stranger {
            // Its release wakes nobody. Other Redlocks pause for about as long.
            return random.jitter(wait.pause.min(MAX_STRANGER_PAUSE));
        }
        let is_woken = wait.waking.intersection(cluster.heard_nodes()).len() >= majority(cluster.size());
        if !is_woken && wait.has_positions() {
            let (pause, ahead) = wait.polling;
            let next = if ahead == Some(queue.ahead) { (pause * 2).min(MAX_FIRST_POLL_PAUSE) } else { POLL_PAUSE };
            wait.polling = (next, Some(queue.ahead));
            // Those far behind have no chance yet. They poll only to keep their place, and to notice when it moves.
            let pause = (next * queue.ahead.saturating_add(1).min(100)).min(MAX_POLL_PAUSE);
            // A node knows when it will be reserved for this process, if others let their reservations pass.
            return random.jitter(pause).min(free_in.map_or(pause, |free_in| free_in.max(POLL_PAUSE)));
        }
        // If the holder does not release it, the first in line come when it expires, and the others one after another.
        let behind = if queue.ahead < MAX_RESERVATIONS { 0 } else { queue.ahead.min(100) };
        // Spread out, because the timers of all waiters are set by the same expiry. The nodes let in one of them at a time.
        let expected = free_in.unwrap_or(MAX_PAUSE) + behind * JITTER + random.jitter(JITTER);
        let longest = if is_woken { MAX_PAUSE } else { MAX_POLL_PAUSE };
        expected.max(random.jitter(wait.pause)).min(longest)
    }
}
