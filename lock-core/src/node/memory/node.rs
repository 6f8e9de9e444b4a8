use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::ready;
use futures_util::stream::{StreamExt as _, poll_fn};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::{Shared, State, is_down};
use super::store::Store;
use crate::mutex::Mutex;
use crate::node::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockNode, LockState, Look, NodeError, NodeFuture, NodeRecord,
    RecordWrite, ReplySender, Request, Wakeups,
};
use crate::random::WaiterId;

/// Longer than any wait, and short enough to be added to any time.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// One in-memory master, for development, tests and demos. It follows the same rules as a Redis server, without one.
///
/// Clones share the node, so that several managers can use the same masters, and a test can inject faults: see
/// [`set_down`](Self::set_down), [`set_delay`](Self::set_delay), [`drop_replies`](Self::drop_replies),
/// [`forget`](Self::forget) and [`advance_clock`](Self::advance_clock).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{LockManager, MemoryNode};
///
/// let nodes: Vec<MemoryNode> = (0..5).map(|_| MemoryNode::new()).collect();
/// let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
/// nodes[0].set_down(true); // a minority
///
/// let guard = locks.lock("stock:42").acquire().await?;
/// assert_eq!(nodes[0].lock_keys().len(), 0);
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryNode {
    name: Arc<str>,
    shared: Arc<Shared>,
}

/// A copy of all that a node had at a time: see [`MemoryNode::backup`].
#[derive(Clone)]
pub struct MemoryBackup(Store);

impl MemoryNode {
    /// Creates a node that is up and empty.
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let shared = Shared {
            state: Mutex::new(State {
                store: Store::new(fresh_run_id()),
                delayed: VecDeque::new(),
                executors: HashMap::new(),
                runtime: None,
                unanswered: Vec::new(),
                link: CancellationToken::new(),
                down: false,
                delay: Duration::ZERO,
                drop_replies: false,
                started: Instant::now(),
                clock_began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
                clock_offset: Duration::ZERO,
            }),
            delay_changed: Notify::new(),
        };
        Self { name: format!("memory-{number}").into(), shared: Arc::new(shared) }
    }

    /// The lock keys that exist on this node, sorted.
    pub fn lock_keys(&self) -> Vec<String> {
        let mut state = self.shared.state.lock();
        self.shared.execute_due(&mut state);
        let now = state.now();
        state.store.ledger.lock_keys(now)
    }
}

/// Switches for faults. They act on all clones of the node.
impl MemoryNode {
    /// Takes the node down, or brings it up again. Defaults to up.
    ///
    /// While it is down, the node is unreachable, and requests under way are lost. It keeps its data, and its clock goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockManager, MemoryNode};
    ///
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// nodes[0].set_down(true);
    /// let guard = locks.lock("stock:42").acquire().await?; // two of three are a majority
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_down(&self, down: bool) {
        let mut state = self.shared.state.lock();
        state.down = down;
        if down {
            state.cut();
        }
    }

    /// Sets the time from when a request is submitted until it is executed and answered. Defaults to zero.
    ///
    /// With a delay beyond all timeouts, the node hangs. A shorter delay also applies to requests that are under way: set to zero,
    /// they are executed at once, in order.
    pub fn set_delay(&self, delay: Duration) {
        let mut state = self.shared.state.lock();
        state.delay = delay.min(FAR);
        let latest = Instant::now() + state.delay;
        for (due, _) in &mut state.delayed {
            *due = latest.min(*due);
        }
        drop(state);
        self.shared.delay_changed.notify_waiters();
    }

    /// Sets whether replies are lost, although requests are executed. Defaults to `false`.
    pub fn drop_replies(&self, drop: bool) {
        self.shared.state.lock().drop_replies = drop;
    }

    /// Restarts the node without its data: all keys and the node's own record are gone.
    pub fn forget(&self) {
        let mut state = self.shared.state.lock();
        state.cut();
        state.store = Store::new(fresh_run_id());
    }

    /// Restarts the node with its data. It cannot know whether they are all there.
    pub fn restart(&self) {
        let mut state = self.shared.state.lock();
        state.cut();
        state.store.run_id = fresh_run_id();
    }

    /// Copies all that the node has, for [`restore`](Self::restore).
    #[must_use]
    pub fn backup(&self) -> MemoryBackup {
        let mut store = self.shared.state.lock().store.clone();
        store.waiting.listeners.clear();
        MemoryBackup(store)
    }

    /// Restarts the node with the data of a backup, as a database server whose files are exchanged for a copy of earlier ones. It does not
    /// know that it forgot anything: its run id is the one of then. Those who have seen more of its log know.
    pub fn restore(&self, backup: &MemoryBackup) {
        let mut state = self.shared.state.lock();
        state.cut();
        state.store = backup.0.clone();
    }

    /// Sets the node's clock forward by this much. Its keys expire that much earlier.
    pub fn advance_clock(&self, by: Duration) {
        let mut state = self.shared.state.lock();
        state.clock_offset = state.clock_offset.saturating_add(by).min(FAR);
    }
}

impl Default for MemoryNode {
    fn default() -> Self {
        Self::new()
    }
}

opaque_debug!(MemoryBackup);
opaque_debug!(MemoryNode, |this| "name": this.name);

impl LockNode for MemoryNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let mut state = self.shared.state.lock();
        if state.link.is_cancelled() && !state.down {
            state.link = CancellationToken::new();
        }
        // Requests may come from outside a runtime, and one that is delayed needs a timer.
        state.runtime = Handle::try_current().ok();
        drop(state);
        let keyspace = Arc::clone(keyspace);
        self.shared.submit(move |store, now| {
            let (run_id, record) = (store.run_id.clone(), store.ledger.records.find(&keyspace));
            let log_position = Some(store.log_position);
            Ok(Inspection { run_id, log_position, durable: false, clock_micros: micros(now), record })
        })
    }

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        let keyspace = Arc::clone(keyspace);
        self.shared.submit(move |store, now| Ok(store.write_record(&keyspace, &write, micros(now))))
    }

    fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        let keyspace = Arc::clone(keyspace);
        self.shared.submit(move |store, _| Ok(store.ledger.records.highest_fence(&keyspace, &store.run_id)))
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let mut state = self.shared.state.lock();
        if state.is_cut() {
            return reply_to.send(Err(is_down()));
        }
        if state.drop_replies {
            state.unanswered.retain(ReplySender::is_awaited);
            state.unanswered.push(reply_to);
            return self.shared.execute(&mut state, move |store, now| _ = store.execute(&request, now));
        }
        self.shared.execute(&mut state, move |store, now| reply_to.send(store.execute(&request, now)));
    }

    fn look(&self, look: Look) -> NodeFuture<Result<Vec<LockState>, NodeError>> {
        self.shared.submit(move |store, now| store.look(&look, now))
    }

    fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
        self.shared.submit(move |store, now| store.evict(&evict, now))
    }

    fn wakeups(&self, _: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let node = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut state = node.state.lock();
            if state.is_cut() {
                return Err(is_down());
            }
            let mut receiver = state.store.waiting.listen(waiter);
            drop(state);
            let wakeups = poll_fn(move |cx| receiver.poll_recv(cx));
            Ok(Box::pin(wakeups.filter(move |_| ready(!node.state.lock().drop_replies))) as Wakeups)
        })
    }

    fn shard(&self, shard: u32) -> Option<Arc<dyn LockNode>> {
        // Its keys are apart from those of other shards. The faults of the node are those of all.
        Some(Arc::new(Self { name: format!("{}#{shard}", self.name).into(), shared: Arc::clone(&self.shared) }))
    }

    fn disconnected(&self) -> NodeFuture<()> {
        let link = self.shared.state.lock().link.clone();
        Box::pin(async move { link.cancelled().await })
    }
}

/// What a node's clock shows, in microseconds since the Unix epoch.
fn micros(now: Duration) -> u64 {
    u64::try_from(now.as_micros()).unwrap_or_default()
}

/// A run id that no other node and no earlier run of this one has.
fn fresh_run_id() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    format!("memory-run-{}", RUNS.fetch_add(1, Ordering::Relaxed))
}
