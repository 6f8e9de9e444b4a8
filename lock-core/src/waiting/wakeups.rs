use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::local_queue::LocalQueue;
use super::{HandoverTerms, LocalQueues};
use crate::cluster::{Cluster, NodeSet, OrderedWatch};
use crate::engine::Engine;
use crate::error::NodeError;
use crate::node::{RESERVATION_TTL, Wakeup};
use crate::options::MAX_PERMITS;
use crate::quorum::majority;

/// The first and the longest pause before listening to a node again; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long it may take until a node can wake this process.
const TIMEOUT: Duration = Duration::from_secs(1);
/// After how many failures in a row a node counts as one that cannot wake this process. A connection that broke is soon there again.
const MAX_FAILURES: u32 = 4;

/// Listens to the nodes for a manager, and passes each wake-up to the local queue of its lock. It begins when a caller first
/// waits.
pub(super) struct Wakeups {
    cluster: Arc<Cluster>,
    queues: Weak<LocalQueues>,
    stop: CancellationToken,
    /// Whether a caller has waited.
    wanted: OrderedWatch<bool>,
    /// Whether it is known by now if a majority can wake this process.
    settled: AtomicBool,
    /// Whether it was logged that no majority can.
    logged: AtomicBool,
    /// Whether it was logged that the wake-ups of so many nodes do not arrive.
    logged_unheard: AtomicBool,
}

/// The wake-ups that arrived for one lock since the last attempt began; or for each slot of a resource, since the last attempt to
/// take that one.
#[derive(Default)]
pub(super) struct PendingWakeups {
    /// By slot: at most as many as there may be permits.
    states: Mutex<BTreeMap<Option<u32>, WakeupState>>,
    /// The nodes that woke this process for any of them, since the last attempt began.
    called: Mutex<NodeSet>,
    changed: Notify,
}

#[derive(Clone, Copy, Default)]
pub(super) struct WakeupState {
    /// Which slot it is, if the lock has slots.
    pub(super) slot: Option<u32>,
    /// The nodes that reserve the key for us, and since when the first of them does.
    pub(super) reserved: NodeSet,
    pub(super) reserved_at: Option<Instant>,
    /// When they reserve it for us if nobody before us takes the lock.
    pub(super) next_at: Option<Instant>,
}

impl WakeupState {
    /// Whether the reservation of a slot has passed. That of a lock without slots is ended by the next attempt.
    fn has_passed(&self, now: Instant) -> bool {
        self.slot.is_some() && self.reserved_at.max(self.next_at).is_none_or(|at| at + RESERVATION_TTL <= now)
    }
}

impl PendingWakeups {
    /// Forgets those of one slot, or of the lock.
    pub(super) fn clear(&self, slot: Option<u32>) {
        self.lock().remove(&slot);
    }

    /// Of the slots that a caller may have, that which most nodes reserve; or the lock.
    pub(super) fn best(&self, terms: HandoverTerms) -> WakeupState {
        let (mut states, now) = (self.lock(), Instant::now());
        states.retain(|_, state| !state.has_passed(now));
        let fitting = states.values().filter(|state| terms.has_slot(state.slot));
        fitting.max_by_key(|state| state.reserved.len()).copied().unwrap_or_default()
    }

    /// Takes the slots that nodes reserve, and that satisfy a condition.
    pub(super) fn take_reserved(&self, condition: impl Fn(u32) -> bool) -> Vec<(u32, NodeSet)> {
        let mut taken = Vec::new();
        self.lock().retain(|slot, state| match slot {
            Some(slot) if condition(*slot) => {
                taken.push((*slot, state.reserved));
                false
            }
            _ => true,
        });
        taken
    }

    /// The nodes from which a wake-up arrived since the last attempt began.
    pub(super) fn called(&self) -> NodeSet {
        *self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, as an attempt begins.
    pub(super) fn take_called(&self) -> NodeSet {
        std::mem::take(&mut *self.called.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves when something changes after this call.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn add(&self, slot: Option<u32>, node: usize, before: u32) {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
        {
            let mut states = self.lock();
            let state = states.entry(slot).or_default();
            state.slot = slot;
            match before {
                0 => {
                    state.reserved.insert(node);
                    state.reserved_at.get_or_insert_with(Instant::now);
                }
                _ => state.next_at = Some(Instant::now() + before * RESERVATION_TTL),
            }
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<u32>, WakeupState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wakeups {
    pub(super) fn new(engine: &Engine, queues: Weak<LocalQueues>) -> Arc<Self> {
        let wakeups = Arc::new(Self {
            cluster: Arc::clone(&engine.cluster),
            queues,
            stop: engine.stopped(),
            wanted: OrderedWatch::new(false),
            settled: AtomicBool::default(),
            logged: AtomicBool::default(),
            logged_unheard: AtomicBool::default(),
        });
        engine.home.add({
            let wakeups = Arc::clone(&wakeups);
            move || Arc::clone(&wakeups).run()
        });
        wakeups
    }

    /// Makes sure that it listens.
    pub(super) fn start(&self) {
        self.wanted.replace(true);
    }

    /// Listens to all nodes until the engine is dropped.
    async fn run(self: Arc<Self>) {
        let listening = join_all((0..self.cluster.size()).map(|node| self.listen_to(node)));
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            _ = listening => {}
        }
    }

    async fn listen_to(&self, node: usize) {
        let member = &self.cluster.members[node];
        let (mut failures, mut pause) = (0, BACKOFF.0);
        // The work may have moved here from another runtime.
        member.set_wakes(false);
        loop {
            self.wanted.wait_for(|wanted| *wanted).await;
            self.cluster.wait_until_reachable(node).await;
            let listening = member.node.wakeups(&self.cluster.keyspace, self.cluster.waiter);
            match timeout(TIMEOUT, listening).await.unwrap_or(Err(NodeError::TimedOut)) {
                Ok(mut wakeups) => {
                    (failures, pause) = (0, BACKOFF.0);
                    member.set_wakes(true);
                    self.node_changed();
                    while let Some(wakeup) = wakeups.next().await {
                        self.receive(node, wakeup);
                    }
                    member.set_wakes(false);
                    self.wake_waiting();
                }
                Err(error) => {
                    failures += 1;
                    let is_final = matches!(error, NodeError::Refused(_) | NodeError::TimedOut);
                    if failures >= MAX_FAILURES || is_final {
                        self.cannot_wake(node, &error);
                    }
                }
            }
            sleep(self.cluster.random.jitter(pause)).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
    }

    /// Passes a wake-up on. A lock that nobody waits for is left to the others at once.
    fn receive(&self, node: usize, Wakeup { lock_key, before }: Wakeup) {
        let Some(queues) = self.queues.upgrade() else { return };
        if before == 0 {
            self.heard(node);
        }
        let keys = self.cluster.keyspace.keys_of(&lock_key);
        if keys.slot().is_some_and(|slot| slot >= MAX_PERMITS) {
            return;
        }
        let pending = queues.lock().get_mut(keys.queue()).map(|queue| Arc::clone(&queue.wakeups));
        match pending {
            Some(pending) => pending.add(keys.slot(), node, before),
            None => queues.engine.leave_queues(&keys, [node].into_iter().collect()),
        }
    }

    /// A wake-up for a lock that is reserved now arrived.
    fn heard(&self, node: usize) {
        let member = &self.cluster.members[node];
        if member.is_heard() {
            return;
        }
        member.heard();
        if self.cluster.heard_nodes().len() >= majority(self.cluster.size()) {
            self.logged_unheard.store(false, Ordering::Relaxed);
        }
    }

    /// These nodes offered a lock to this process, and it did not hear of that: it polls until wake-ups of a majority arrive.
    pub(super) fn not_heard(&self, nodes: NodeSet) {
        nodes.iter().for_each(|node| self.cluster.members[node].not_heard());
        let is_heard = self.cluster.heard_nodes().len() >= majority(self.cluster.size());
        if !nodes.is_empty() && !is_heard && !self.logged_unheard.swap(true, Ordering::Relaxed) {
            let unheard = self.cluster.members.iter().filter(|member| !member.is_heard());
            let nodes: Vec<&str> = unheard.map(|member| member.node.name()).collect();
            tracing::warn!(name: "lock.node_does_not_call", ?nodes, error = "their wake-ups do not arrive in time",
                "nodes offered a lock that this process waits for, and it did not hear of that; callers that wait poll it instead");
        }
    }

    /// Whether it is not known yet if a majority can wake this process. A position would be of no use: it is lost when the node
    /// has nobody to wake.
    pub(super) fn is_connecting(&self) -> bool {
        !self.settled.load(Ordering::Relaxed)
    }

    /// A node can wake this process, or is known not to be able to.
    fn node_changed(&self) {
        if self.cluster.majority_wakes() {
            self.logged.store(false, Ordering::Relaxed);
            self.settled.store(true, Ordering::Relaxed);
        } else if self.cluster.no_majority_wakes() {
            self.settled.store(true, Ordering::Relaxed);
        }
        self.wake_waiting();
    }

    /// Those that wait may have to enter the queues, or enter them again.
    fn wake_waiting(&self) {
        let Some(queues) = self.queues.upgrade() else { return };
        let pending = |(lock_key, queue): (&Arc<str>, &LocalQueue)| (Arc::clone(lock_key), Arc::clone(&queue.wakeups));
        let mut waiting: Vec<_> = queues.lock().iter().map(pending).collect();
        // In the same order in every run, so that a simulation replays.
        waiting.sort_by(|(one, _), (other, _)| one.cmp(other));
        waiting.iter().for_each(|(_, pending)| pending.changed.notify_waiters());
    }

    /// A node answers, and cannot wake this process. That is logged when so many cannot that this process has to poll.
    fn cannot_wake(&self, node: usize, error: &NodeError) {
        self.cluster.members[node].set_silent();
        self.node_changed();
        if self.cluster.no_majority_wakes() && !self.logged.swap(true, Ordering::Relaxed) {
            let silent = self.cluster.members.iter().filter(|member| member.is_silent());
            let nodes: Vec<&str> = silent.map(|member| member.node.name()).collect();
            tracing::warn!(name: "lock.node_does_not_call", ?nodes, %error,
                "nodes cannot wake this process when a lock is free; callers that wait poll it instead");
        }
    }
}
