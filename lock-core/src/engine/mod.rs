//! Puts requests to all nodes at once, feeds the answers to [`quorum`](crate::quorum), and does what it decides.
//!
//! A request is handed to a node when it is cast, not when its answer is awaited ([`LockNode`](crate::LockNode)): dropping a
//! future in here never takes a request back, and never lets a later one overtake it. So each attempt is armed with its own
//! undoing before the first request leaves, and whoever drops it, at whatever point, leaves a release behind every acquire.
//!
//! Every `select!` is biased, here and elsewhere in the crate: with one seed, a simulated run is the same run each time.

mod attempt;
mod claim;
mod cluster;
mod membership;
mod node_set;
mod release;
mod round;
mod settling;
mod watched;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub(crate) use self::attempt::{Failed, Queued};
pub(crate) use self::claim::{Claim, Tenure, Traces};
pub(crate) use self::cluster::{Cluster, Member, Standing};
pub(crate) use self::node_set::{MAX_NODES, NodeSet};
pub(crate) use self::release::{Ended, Releasing};
pub(crate) use self::round::Round;
pub(crate) use self::settling::Unacknowledged;
pub(crate) use self::watched::Watched;
use crate::node::{Keyspace, LockNode, SetConfig};
use crate::random::Random;

/// The least that a node is given to answer.
const MIN_NODE_TIMEOUT: Duration = Duration::from_millis(5);
/// The most that a node is given to answer, unless the manager was told otherwise.
const MAX_NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// The machine behind a manager.
pub(crate) struct Engine {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) random: Arc<Random>,
    /// All work that goes on behind the callers' backs: releases, renewals. Shutdown waits for it.
    pub(crate) tracker: TaskTracker,
    /// Ends when releases are not to be tried again: the manager was shut down.
    pub(crate) finished: CancellationToken,
    node_timeout: Option<Duration>,
    /// Where the background work runs; a guard may be dropped where no runtime is.
    runtime: Mutex<Option<Handle>>,
    /// Ends the membership when the last manager is gone.
    _membership: DropGuard,
}

impl Engine {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn LockNode>>,
        keyspace: Keyspace,
        config: SetConfig,
        node_timeout: Option<Duration>,
        random: Random,
    ) -> Self {
        let (random, stop) = (Arc::new(random), CancellationToken::new());
        let cluster = Arc::new(Cluster::new(nodes, keyspace, config, Arc::clone(&random), stop.clone()));
        Self {
            cluster,
            random,
            tracker: TaskTracker::new(),
            finished: CancellationToken::new(),
            node_timeout,
            runtime: Mutex::new(None),
            _membership: stop.drop_guard(),
        }
    }

    /// Makes sure that the nodes are being looked after, on the present runtime. True if they were not.
    pub(crate) fn start(&self) -> bool {
        let started = self.cluster.start();
        if started {
            *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(Handle::current());
        }
        started
    }

    /// Ends when the engine is gone.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.cluster.stop.clone()
    }

    /// Runs work in the background, tracked: on the runtime of the caller or, where there is none, on the one that the manager
    /// was first used on. Does nothing if it never was.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let first = || self.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(runtime) = Handle::try_current().ok().or_else(first) {
            self.tracker.spawn_on(work, &runtime);
        }
    }

    /// How long a node is awaited for a lock of this time to live.
    pub(crate) fn node_timeout(&self, ttl: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| (ttl / 20).clamp(MIN_NODE_TIMEOUT, MAX_NODE_TIMEOUT))
    }
}
