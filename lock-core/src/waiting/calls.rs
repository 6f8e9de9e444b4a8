//! The nodes' calls to this process: whose turn it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::engine::{Cluster, Engine, NodeSet, Watched};
use crate::node::{Call, LockKeys, TURN_LIFE, Turn};

/// The pause before a node is listened to again after it failed.
const RETRY: std::time::Duration = std::time::Duration::from_millis(100);

/// Where calls arrive. The nodes are listened to while someone waits.
pub(super) struct Calls {
    cluster: Arc<Cluster>,
    stop: tokio_util::sync::CancellationToken,
    /// By lock key, only the lines that wait on the nodes.
    lines: Mutex<HashMap<Arc<str>, Arc<Called>>>,
    waiting: Watched<bool>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// What was called for one line since its last attempt began.
#[derive(Default)]
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
        let called = Arc::<Called>::default();
        self.lock().insert(keys.lock_shared(), Arc::clone(&called));
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
        lines.remove(keys.lock());
        if lines.is_empty() {
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
        loop {
            self.waiting.wait_for(|waiting| *waiting).await;
            self.cluster.reachable(node).await;
            match self.cluster.members[node].node.calls(&self.cluster.keyspace, self.cluster.waiter).await {
                Ok(calls) => self.take(node, calls),
                Err(_) => sleep(RETRY).await,
            }
        }
    }

    fn take(&self, node: usize, calls: Vec<Call>) {
        for Call { lock, turn } in calls {
            // A call that nobody waits for any more is of the past.
            let called = self.lock().get(lock.as_str()).cloned();
            if let Some(called) = called {
                called.add(node, turn);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Called>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
