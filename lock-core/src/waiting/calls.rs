//! The nodes' calls to this process: whose turn it is.

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

use crate::engine::{Cluster, Engine, NodeSet, Watched};
use crate::node::{Call, LockKeys, NodeError, Refusal, TURN_LIFE, Turn};

/// The pause before a node is listened to again after it failed.
const RETRY: Duration = Duration::from_millis(100);

/// Where calls arrive. The nodes are listened to while someone waits.
pub(super) struct Calls {
    cluster: Arc<Cluster>,
    stop: CancellationToken,
    lines: Mutex<Lines>,
    waiting: Watched<bool>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Lines {
    /// By lock key, only the lines that wait on the nodes.
    waiting: HashMap<Arc<str>, Arc<Called>>,
    /// What was called before its line knew that it has to wait: the answers to its first attempt are under way yet. Bounded,
    /// and of no use after a turn is over.
    early: HashMap<String, (NodeSet, Instant)>,
}

/// Early calls that are kept at most.
const MOST_EARLY: usize = 1024;

impl Lines {
    fn keep_early(&mut self, lock: String, node: usize) {
        if self.early.len() >= MOST_EARLY {
            self.early.retain(|_, (_, at)| at.elapsed() < TURN_LIFE);
        }
        if self.early.len() < MOST_EARLY {
            let (nodes, at) = self.early.entry(lock).or_insert_with(|| (NodeSet::default(), Instant::now()));
            if at.elapsed() >= TURN_LIFE {
                *nodes = NodeSet::default();
            }
            *at = Instant::now();
            nodes.insert(node);
        }
    }

    fn take_early(&mut self, lock: &str) -> NodeSet {
        let early = self.early.remove(lock).filter(|(_, at)| at.elapsed() < TURN_LIFE);
        early.map(|(nodes, _)| nodes).unwrap_or_default()
    }
}

/// What was called for one line since its last attempt began.
pub(super) struct Called {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// The nodes that keep the key for us.
    nodes: NodeSet,
    /// When it is our turn if another does not come.
    next_at: Option<Instant>,
}

impl Called {
    pub(super) fn clear(&self) {
        *self.lock() = State::default();
    }

    /// The nodes that called, and when it is our turn if another does not come.
    pub(super) fn state(&self) -> (NodeSet, Option<Instant>) {
        let State { nodes, next_at } = *self.lock();
        (nodes, next_at)
    }

    /// Resolves when something is called after this was asked for.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn add(&self, node: usize, turn: Turn) {
        {
            let mut state = self.lock();
            match turn {
                Turn::Ours => state.nodes.insert(node),
                Turn::Next => state.next_at = Some(Instant::now() + TURN_LIFE),
            }
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    pub(super) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self {
            cluster: Arc::clone(&engine.cluster),
            stop: engine.stopped(),
            lines: Mutex::default(),
            waiting: Watched::new(false),
            listener: Mutex::default(),
        })
    }

    /// Where calls for a lock arrive from now on.
    pub(super) fn listen(self: &Arc<Self>, keys: &LockKeys) -> Arc<Called> {
        let called = {
            let mut lines = self.lock();
            let state = State { nodes: lines.take_early(keys.lock()), next_at: None };
            let called = Arc::new(Called { state: Mutex::new(state), changed: Notify::new() });
            lines.waiting.insert(keys.lock_shared(), Arc::clone(&called));
            called
        };
        self.waiting.replace(true);
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        // A runtime that was shut down took the task with it.
        if listener.as_ref().is_none_or(JoinHandle::is_finished) {
            *listener = Some(tokio::spawn(Arc::clone(self).run()));
        }
        called
    }

    pub(super) fn forget(&self, keys: &LockKeys) {
        let mut lines = self.lock();
        lines.waiting.remove(keys.lock());
        if lines.waiting.is_empty() {
            self.waiting.replace(false);
        }
    }

    /// Listens to all nodes until the engine is gone.
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
        let mut told = false;
        loop {
            self.waiting.wait_for(|waiting| *waiting).await;
            self.cluster.reachable(node).await;
            match member.calls(&self.cluster.keyspace, self.cluster.waiter).await {
                Ok(calls) => {
                    self.take(node, calls);
                    told = false;
                }
                Err(error) => {
                    // What else may be wrong with a node is told by those who look after it.
                    let denied = matches!(error, NodeError::Refused(Refusal::Permission { .. }));
                    if denied && !replace(&mut told, true) {
                        tracing::warn!(name: "lock.node_does_not_call", node = member.name(), %error,
                            "a node calls nobody whose turn it is; who waits for a lock of another process tries again by time");
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    fn take(&self, node: usize, calls: Vec<Call>) {
        for Call { lock, turn } in calls {
            let mut lines = self.lock();
            let called = lines.waiting.get(lock.as_str()).cloned();
            match (called, turn) {
                (Some(called), turn) => called.add(node, turn),
                (None, Turn::Ours) => lines.keep_early(lock, node),
                (None, Turn::Next) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
