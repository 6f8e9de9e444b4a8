use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::handover::HandoverTerms;
use super::listening::Listening;
use super::pending_wakeups::PendingWakeups;
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

    /// Another caller has the turn now. It begins with a slot that nodes let this process take, if they do.
    pub(super) fn continue_for(
        &mut self,
        keys: &LockKeys,
        terms: HandoverTerms,
        nodes: usize,
        wakeups: &PendingWakeups,
    ) {
        (self.keys, self.terms) = (keys.clone(), terms);
        self.try_offered(nodes, wakeups);
    }

    /// The next attempt is to try this slot.
    pub(super) fn try_slot(&mut self, slot: u32) {
        self.keys = self.keys.with_slot(slot);
    }

    /// The next attempt is to try the best of the slots that nodes let this process take, if they do.
    pub(super) fn try_offered(&mut self, nodes: usize, wakeups: &PendingWakeups) {
        if let Some(choice) = wakeups.state(self.terms).offers.best(nodes) {
            self.try_slot(choice.slot);
        }
    }

    /// Begins an attempt, and lends it the queue positions. Wake-ups from before do not count for it: a reservation that this attempt
    /// uses up, or finds passed, must not cause another one.
    ///
    /// It takes no positions while it is not known if the nodes can wake this process, or what the cluster clock is.
    pub(super) fn begin_attempt(
        &mut self,
        engine: &Engine,
        listening: &Listening,
        wakeups: &PendingWakeups,
    ) -> &mut QueuePositions {
        wakeups.clear();
        // Nodes that could call in both attempts had all the time in between. Of the others nothing can be said.
        let could_call = std::mem::replace(&mut self.waking, engine.cluster.waking_nodes());
        self.uncalled = self.waking.intersection(could_call).without(wakeups.take_called());
        // Kept over all attempts of a wait: a position that was lost is taken again at its old place.
        self.since = self.since.or_else(|| NonZeroU64::new(engine.cluster.clock()));
        self.positions.since = self.since.filter(|_| self.may_enter(listening));
        &mut self.positions
    }

    /// The caller took the lock. The next one has waited for another time.
    pub(super) fn end(&mut self, wakeups: &PendingWakeups) {
        wakeups.clear();
        (self.since, self.positions.since, self.pause, self.splits) = (None, None, BACKOFF.0, 0);
        self.polling = (POLL_PAUSE, None);
    }

    /// Whether nodes may have a position for this manager.
    pub(super) fn has_positions(&self) -> bool {
        !self.positions.nodes.is_empty()
    }

    /// Gives up the positions in the nodes' queues, but for those on nodes where a release has `left` them.
    pub(super) fn leave(&mut self, engine: &Arc<Engine>, left: NodeSet) {
        let positions = std::mem::take(&mut self.positions);
        // In the background. Nobody waits for it, and a position that stays is removed when it does not answer a call.
        engine.leave_queues(&self.keys, positions.nodes.without(left));
    }

    /// Waits until the next attempt is due, and until `until` at most. A caller's last attempt is made at that time, not before.
    ///
    /// An attempt costs every node a request, so there is to be none that cannot succeed. It is due when a majority reserves the key
    /// for this process, or lets it take a slot. Whatever keeps such wake-ups from arriving, a timer covers for.
    pub(super) async fn wait(
        &mut self,
        engine: &Arc<Engine>,
        listening: &Listening,
        wakeups: &PendingWakeups,
        failed: &FailedAttempt,
        free_in: Option<Duration>,
        until: Instant,
    ) {
        // Not before somebody waits: a process whose locks are free needs no subscription.
        listening.start();
        // Their reservation passed, and no wake-up told of it. While replies take that long, so may wake-ups.
        if engine.cluster.answers.reply_time().expected() < RESERVATION_TTL {
            listening.not_heard(failed.queue.passed.intersection(self.uncalled).without(wakeups.called()));
        }
        wakeups.add_replies(&failed.offers);
        self.pause_after_splits(engine, failed, until).await;
        let (cluster, now) = (&engine.cluster, Instant::now());
        let random = &cluster.random;
        let mut again = now + self.pause_for(engine, failed.queue, free_in);
        let (after_minority, after_majority) = (random.jitter(RESERVATION_TTL / 2), random.jitter(AGREEMENT));
        let after_change = now + random.jitter(RESERVATION_TTL / 2);
        // Doubled, and with jitter, as on the Redlock page: clients that split the votes in step would go on with it.
        self.pause = (self.pause * 2).min(BACKOFF.1);
        loop {
            // Asked for before the state is read, so that no change in between is missed.
            let changed = wakeups.changed.notified();
            let state = wakeups.state(self.terms);
            let (is_ready, choice) = (state.ready.len() >= majority(cluster.size()), state.offers.best(cluster.size()));
            let is_agreed = choice.is_none_or(|choice| choice.is_proposed);
            if is_ready && is_agreed || self.positions.since.is_none() && self.may_enter(listening) {
                return;
            }
            if cluster.waking_nodes() != self.waking {
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
    async fn pause_after_splits(&mut self, engine: &Engine, failed: &FailedAttempt, until: Instant) {
        self.splits = if self.keys.slot().is_some() && failed.is_split() { self.splits.saturating_add(1) } else { 0 };
        if let Some(doubled) = self.splits.checked_sub(MAX_SPLITS) {
            let pause = SPLIT_PAUSE.0.saturating_mul(1_u32.checked_shl(doubled).unwrap_or(u32::MAX)).min(SPLIT_PAUSE.1);
            sleep_until((Instant::now() + engine.cluster.random.jitter(pause)).min(until)).await;
        }
    }

    /// Whether attempts enter the queues.
    fn may_enter(&self, listening: &Listening) -> bool {
        self.since.is_some() && !listening.is_connecting()
    }

    /// How long to wait for a wake-up before the next attempt.
    fn pause_for(&mut self, engine: &Engine, queue: QueueReport, free_in: Option<Duration>) -> Duration {
        let (cluster, random) = (&engine.cluster, &engine.cluster.random);
        if queue.first_behind_stranger {
            // Its release wakes nobody. Other Redlocks pause for about as long.
            return random.jitter(self.pause.min(MAX_STRANGER_PAUSE));
        }
        let is_woken = self.waking.intersection(cluster.heard_nodes()).len() >= majority(cluster.size());
        if !is_woken && self.has_positions() {
            let (pause, ahead) = self.polling;
            let next = if ahead == Some(queue.ahead) { (pause * 2).min(MAX_FIRST_POLL_PAUSE) } else { POLL_PAUSE };
            self.polling = (next, Some(queue.ahead));
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
        expected.max(random.jitter(self.pause)).min(longest)
    }
}
