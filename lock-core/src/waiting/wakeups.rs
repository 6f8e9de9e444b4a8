use std::collections::HashMap;
use std::mem::replace;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, NodeSet, OrderedWatch};
use crate::engine::Engine;
use crate::error::{NodeError, Refusal};
use crate::node::{LockKeys, RESERVATION_TTL, Wakeup, WakeupKind};

/// The pause before listening to a node again after it failed.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Receives the nodes' wake-ups for a manager, and passes each to the permit that waits for it. It listens only while some
/// permit waits.
pub(super) struct Wakeups {
    cluster: Arc<Cluster>,
    stop: CancellationToken,
    receivers: Mutex<Receivers>,
    /// Whether there are receivers.
    listening: OrderedWatch<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Receivers {
    /// By lock key, for the permits that wait.
    waiting: HashMap<Arc<str>, Arc<PendingWakeups>>,
    /// Reservations that were reported before their permit knew that it has to wait: the replies to its first attempt are still
    /// on their way. Bounded by [`MAX_EARLY`], and useless once a reservation has expired.
    ///
    /// If they were dropped, each would cost its waiter a `RESERVATION_TTL`: with four processes of four tasks on four keys, the p99
    /// of an acquire rises from 28 ms to 93 ms.
    early: HashMap<String, (NodeSet, Instant)>,
}

/// How many early wake-ups are kept at most.
const MAX_EARLY: usize = 1024;

impl Receivers {
    fn keep_early(&mut self, lock_key: String, node: usize) {
        if self.early.len() >= MAX_EARLY {
            self.early.retain(|_, (_, at)| at.elapsed() < RESERVATION_TTL);
        }
        if self.early.len() < MAX_EARLY {
            let (nodes, at) = self.early.entry(lock_key).or_insert_with(|| (NodeSet::default(), Instant::now()));
            if at.elapsed() >= RESERVATION_TTL {
                *nodes = NodeSet::default();
            }
            *at = Instant::now();
            nodes.insert(node);
        }
    }

    fn take_early(&mut self, lock_key: &str) -> NodeSet {
        let early = self.early.remove(lock_key).filter(|(_, at)| at.elapsed() < RESERVATION_TTL);
        early.map(|(nodes, _)| nodes).unwrap_or_default()
    }
}

/// The wake-ups that arrived for one permit since its last attempt began.
pub(super) struct PendingWakeups {
    state: Mutex<WakeupState>,
    changed: Notify,
}

#[derive(Clone, Copy, Default)]
pub(super) struct WakeupState {
    /// The nodes that reserve the key for us.
    pub(super) reserved: NodeSet,
    /// When it is our turn if the waiter before us does not claim its reservation.
    pub(super) next_at: Option<Instant>,
}

impl PendingWakeups {
    pub(super) fn clear(&self) {
        *self.lock() = WakeupState::default();
    }

    pub(super) fn state(&self) -> WakeupState {
        *self.lock()
    }

    /// Resolves when a wake-up arrives after this call.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn add(&self, node: usize, kind: WakeupKind) {
        {
            let mut state = self.lock();
            match kind {
                WakeupKind::Reserved => state.reserved.insert(node),
                WakeupKind::Next => state.next_at = Some(Instant::now() + RESERVATION_TTL),
            }
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, WakeupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wakeups {
    pub(super) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self {
            cluster: Arc::clone(&engine.cluster),
            stop: engine.stopped(),
            receivers: Mutex::default(),
            listening: OrderedWatch::new(false),
            task: Mutex::default(),
        })
    }

    /// Begins to receive wake-ups for a lock.
    pub(super) fn listen(self: &Arc<Self>, keys: &LockKeys) -> Arc<PendingWakeups> {
        let pending = {
            let mut receivers = self.lock();
            let state = WakeupState { reserved: receivers.take_early(keys.lock_key()), next_at: None };
            let pending = Arc::new(PendingWakeups { state: Mutex::new(state), changed: Notify::new() });
            receivers.waiting.insert(keys.lock_key_shared(), Arc::clone(&pending));
            pending
        };
        self.listening.replace(true);
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // A runtime that was shut down took the task with it.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(Arc::clone(self).run()));
        }
        pending
    }

    pub(super) fn stop_listening(&self, keys: &LockKeys) {
        let mut receivers = self.lock();
        receivers.waiting.remove(keys.lock_key());
        if receivers.waiting.is_empty() {
            self.listening.replace(false);
        }
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
        let member = &self.cluster.members[node].node;
        let mut reported = false;
        loop {
            self.listening.wait_for(|listening| *listening).await;
            self.cluster.wait_until_reachable(node).await;
            match member.wakeups(&self.cluster.keyspace, self.cluster.waiter).await {
                Ok(wakeups) => {
                    self.receive(node, wakeups);
                    reported = false;
                }
                Err(error) => {
                    // The membership task reports everything else that may be wrong with a node.
                    let denied = matches!(error, NodeError::Refused(Refusal::Permission { .. }));
                    if denied && !replace(&mut reported, true) {
                        tracing::warn!(name: "lock.node_does_not_call", node = member.name(), %error,
                            "a node cannot wake waiters; callers that wait for a lock of another process poll it instead");
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    fn receive(&self, node: usize, wakeups: Vec<Wakeup>) {
        for Wakeup { lock_key, kind } in wakeups {
            let mut receivers = self.lock();
            let pending = receivers.waiting.get(lock_key.as_str()).cloned();
            match (pending, kind) {
                (Some(pending), kind) => pending.add(node, kind),
                (None, WakeupKind::Reserved) => receivers.keep_early(lock_key, node),
                (None, WakeupKind::Next) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Receivers> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
