use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::store::Store;
use crate::node::{
    Establish, Inspection, Keyspace, LockNode, NodeError, NodeFuture, ReplySender, Request, Role, Wakeup,
};
use crate::random::WaiterId;

/// One in-memory master: the rules of the scripts, without Redis. For development, tests and demos.
///
/// Clones share the node, so that several managers can use the same masters and a test can turn its switches:
///
/// ```
/// use lock_core::{LockManager, MemoryNode};
///
/// let nodes: Vec<MemoryNode> = (0..5).map(|_| MemoryNode::new()).collect();
/// let locks = LockManager::builder().nodes(nodes.clone()).connect_lazy()?;
/// nodes[0].set_down(true); // a minority: nobody notices
/// # Ok::<(), lock_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct MemoryNode(Arc<Shared>);

struct Shared {
    name: String,
    state: Mutex<State>,
    /// Told when the queue may move on sooner than those who wait for it think.
    hurried: Notify,
    /// Told when there are calls for processes that wait.
    woken: Notify,
}

struct State {
    store: Store,
    /// What was handed over and is not executed yet, in order. Bounded by the requests that callers have under way: each
    /// is executed or lost within the delay.
    queue: VecDeque<Parcel>,
    /// Executes the queue, while there is one and requests take their time.
    driver: Option<JoinHandle<()>>,
    /// Where the driver runs: a release may come from where no runtime is.
    runtime: Option<Handle>,
    /// Replies that are lost. They are given up when the link ends, as by a connection.
    unanswered: Vec<ReplySender>,
    /// Ends when the node goes down or restarts, as a connection does.
    link: CancellationToken,
    down: bool,
    delay: Duration,
    drop_replies: bool,
    started: Instant,
    started_micros: u64,
    clock_offset: Duration,
}

/// Longer than anything that is waited for, and short enough to be added to any time.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

struct Parcel {
    due: Instant,
    execute: Box<Operation>,
}

/// What is done to the keys, at a time on the node's clock.
type Operation = dyn FnOnce(&mut Store, Duration) + Send;

impl MemoryNode {
    /// A node that is up and empty.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Arc::new(Shared {
            name: format!("memory-{number}"),
            state: Mutex::new(State {
                store: Store::new(fresh_run_id(number)),
                queue: VecDeque::new(),
                driver: None,
                runtime: None,
                unanswered: Vec::new(),
                link: CancellationToken::new(),
                down: false,
                delay: Duration::ZERO,
                drop_replies: false,
                started: Instant::now(),
                started_micros: u64::try_from(since_epoch.as_micros()).unwrap_or_default(),
                clock_offset: Duration::ZERO,
            }),
            hurried: Notify::new(),
            woken: Notify::new(),
        }))
    }

    /// Down: not reachable, requests under way are lost, data and clock go on. Up again: as it was.
    pub fn set_down(&self, down: bool) {
        let mut state = self.0.lock();
        state.down = down;
        if down {
            state.cut();
        }
    }

    /// How long a request takes from when it was handed over until it is executed and answered. Defaults to zero.
    /// A delay beyond all timeouts is a node that hangs; ending it executes what has queued up.
    pub fn set_delay(&self, delay: Duration) {
        let mut state = self.0.lock();
        state.delay = delay.min(FAR);
        let latest = Instant::now() + state.delay;
        for parcel in &mut state.queue {
            parcel.due = parcel.due.min(latest);
        }
        drop(state);
        self.0.hurried.notify_waiters();
    }

    /// Whether requests are executed, but their answers lost.
    pub fn drop_replies(&self, drop: bool) {
        self.0.lock().drop_replies = drop;
    }

    /// Restarts the node empty: every key and the node's own record are gone.
    pub fn forget(&self) {
        let mut state = self.0.lock();
        state.cut();
        let run_id = fresh_run_id(state.now().as_nanos());
        state.store = Store::new(run_id);
    }

    /// Puts the node's clock forward: its keys expire that much earlier.
    pub fn advance_clock(&self, by: Duration) {
        let mut state = self.0.lock();
        state.clock_offset = state.clock_offset.saturating_add(by).min(FAR);
    }

    /// The lock keys that are alive on this node, in order.
    #[must_use]
    pub fn lock_keys(&self) -> Vec<String> {
        let mut state = self.0.lock();
        self.0.execute_due(&mut state);
        let now = state.now();
        state.store.lock_keys(now)
    }

    /// Queues an operation and returns the future of its answer.
    fn submit<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Store, Duration) -> T + Send + 'static,
    ) -> NodeFuture<Result<T, NodeError>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.0.lock();
        if state.is_cut() {
            return Box::pin(async { Err(is_down()) });
        }
        let (link, unanswered) = (state.link.clone(), state.drop_replies);
        self.queue(&mut state, move |store: &mut Store, now| _ = answer.send(operation(store, now)));
        drop(state);
        Box::pin(async move {
            if unanswered {
                link.cancelled().await;
                return Err(connection_lost());
            }
            answered.await.map_err(|_| connection_lost())
        })
    }

    /// Queues an operation, and executes what is due.
    fn queue(&self, state: &mut State, operation: impl FnOnce(&mut Store, Duration) + Send + 'static) {
        // As nearly always.
        if state.delay.is_zero() && state.queue.is_empty() {
            let now = state.now();
            operation(&mut state.store, now);
            return self.0.notify_woken(state);
        }
        // What comes later is executed later, whatever the delay was set to in between.
        let queued = state.queue.back().map(|last| last.due);
        let due = (Instant::now() + state.delay).max(queued.unwrap_or(state.started));
        state.queue.push_back(Parcel { due, execute: Box::new(operation) });
        self.0.execute_due(state);
        let driven = state.driver.as_ref().is_some_and(|driver| !driver.is_finished());
        if !state.queue.is_empty() && !driven {
            let runtime = Handle::try_current().ok().or_else(|| state.runtime.clone());
            let node = self.clone();
            state.driver = runtime.map(|runtime| runtime.spawn(async move { node.execute_queue().await }));
        }
    }

    /// Executes what comes due, until nothing is queued.
    async fn execute_queue(&self) {
        loop {
            let hurried = self.0.hurried.notified();
            let due = {
                let mut state = self.0.lock();
                self.0.execute_due(&mut state);
                let Some(next) = state.queue.front() else {
                    state.driver = None;
                    return;
                };
                next.due
            };
            tokio::select! {
                biased;
                () = sleep_until(due) => {}
                () = hurried => {}
            }
        }
    }
}

impl Default for MemoryNode {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute_due(&self, state: &mut State) {
        let now = Instant::now();
        while state.queue.front().is_some_and(|parcel| parcel.due <= now) {
            let node_time = state.now();
            if let Some(parcel) = state.queue.pop_front() {
                (parcel.execute)(&mut state.store, node_time);
            }
        }
        self.notify_woken(state);
    }

    /// Wakes those who are woken.
    fn notify_woken(&self, state: &mut State) {
        if state.store.has_wakeups() {
            self.woken.notify_waiters();
        }
    }
}

impl State {
    /// The node's own time since it was made.
    fn now(&self) -> Duration {
        self.started.elapsed() + self.clock_offset
    }

    /// Loses what is under way, as with a connection.
    fn cut(&mut self) {
        self.queue.clear();
        self.unanswered.clear();
        self.link.cancel();
    }

    /// Whether requests do not get through: it is down, or nobody connected to it since.
    fn is_cut(&self) -> bool {
        self.down || self.link.is_cancelled()
    }
}

impl LockNode for MemoryNode {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let started_micros = {
            let mut state = self.0.lock();
            if state.link.is_cancelled() && !state.down {
                state.link = CancellationToken::new();
            }
            state.runtime = Handle::try_current().ok();
            state.started_micros
        };
        let keyspace = Arc::clone(keyspace);
        self.submit(move |store, now| Inspection {
            run_id: store.run_id().to_owned(),
            version: (7, 0),
            role: Role::Master,
            eviction_policy: "noeviction".to_owned(),
            durable: false,
            clock_micros: started_micros + u64::try_from(now.as_micros()).unwrap_or_default(),
            record: store.record(&keyspace),
            quarantine: store.quarantine(&keyspace, now),
        })
    }

    fn establish(&self, keyspace: &Arc<Keyspace>, record: Establish) -> NodeFuture<Result<bool, NodeError>> {
        let keyspace = Arc::clone(keyspace);
        self.submit(move |store, now| store.establish(&keyspace, record, now))
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let mut state = self.0.lock();
        if state.is_cut() {
            return reply_to.send(Err(is_down()));
        }
        if state.drop_replies {
            state.unanswered.retain(ReplySender::is_awaited);
            state.unanswered.push(reply_to);
            return self.queue(&mut state, move |store, now| _ = store.execute(&request, now));
        }
        self.queue(&mut state, move |store, now| reply_to.send(store.execute(&request, now)));
    }

    fn wakeups(&self, _: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Vec<Wakeup>, NodeError>> {
        let node = self.clone();
        Box::pin(async move {
            let link = node.0.lock().link.clone();
            loop {
                let woken = {
                    let mut state = node.0.lock();
                    node.0.execute_due(&mut state);
                    let woken = node.0.woken.notified();
                    let now = state.now();
                    let wakeups = if state.drop_replies { Vec::new() } else { state.store.take_wakeups(waiter, now) };
                    if !wakeups.is_empty() {
                        return Ok(wakeups);
                    }
                    woken
                };
                tokio::select! {
                    biased;
                    () = woken => {}
                    () = link.cancelled() => return Err(connection_lost()),
                }
            }
        })
    }

    fn disconnected(&self) -> NodeFuture<()> {
        let link = self.0.lock().link.clone();
        Box::pin(async move { link.cancelled().await })
    }
}

fn is_down() -> NodeError {
    NodeError::Unreachable { reason: "the node is down".into() }
}

fn connection_lost() -> NodeError {
    NodeError::ConnectionLost { reason: "the node went down".into() }
}

fn fresh_run_id(salt: impl fmt::Display) -> String {
    static RESTARTS: AtomicU64 = AtomicU64::new(1);
    format!("memory-run-{}-{salt}", RESTARTS.fetch_add(1, Ordering::Relaxed))
}
