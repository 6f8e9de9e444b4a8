use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::line::{AttemptKind, AttemptLines, AttemptPlace};
use super::{FailedAttempt, Home};
use crate::cluster::Cluster;
use crate::node::{Keyspace, LockNode};
use crate::observer::Reporter;
use crate::quorum::MembershipConfig;
use crate::random::Random;

/// What all locks of a manager share: the cluster, the randomness, and the background work.
pub(crate) struct Engine {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) random: Arc<Random>,
    /// The work that goes on without a caller, such as releases. A shutdown waits for it.
    pub(crate) tracker: TaskTracker,
    /// Cancelled when releases must not be retried any more: the manager was shut down.
    pub(crate) finished: CancellationToken,
    /// Cancelled when the manager was closed: nobody waits for a lock any more.
    pub(crate) closing: CancellationToken,
    pub(super) lines: AttemptLines,
    /// Where the background work runs.
    pub(crate) home: Arc<Home>,
    node_timeout: Option<Duration>,
    /// Cancels [`Cluster::stop`] when the engine is dropped without a shutdown.
    _stop: DropGuard,
}

impl Engine {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn LockNode>>,
        keyspace: Keyspace,
        config: MembershipConfig,
        node_timeout: Option<Duration>,
        random: Random,
        reporter: Arc<Reporter>,
    ) -> Self {
        let (random, stop) = (Arc::new(random), CancellationToken::new());
        let cluster = Cluster::new(nodes, keyspace, config, Arc::clone(&random), reporter, stop.clone());
        let cluster = Arc::new(cluster);
        let home = Arc::new(Home::new(Arc::clone(&cluster), stop.clone()));
        home.add({
            let cluster = Arc::clone(&cluster);
            move || Arc::clone(&cluster).maintain()
        });
        Self {
            lines: AttemptLines::new(&cluster, &random),
            cluster,
            random,
            tracker: TaskTracker::new(),
            finished: CancellationToken::new(),
            closing: CancellationToken::new(),
            home,
            node_timeout,
            _stop: stop.drop_guard(),
        }
    }

    /// Cancelled when the engine is dropped, or its manager was shut down.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.cluster.stop.clone()
    }

    /// Runs work in the background, tracked: on the runtime of the caller or, if there is none, because a guard may be dropped
    /// anywhere, on the home. Does nothing if the manager never was used.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = Handle::try_current().ok().or_else(|| self.home.runtime()) {
            self.tracker.spawn_on(work, &runtime);
        }
    }

    /// Waits in line for an attempt: until a time, and at least for the configured node timeout of this time to live. See
    /// [`AttemptLines::enter`].
    pub(crate) async fn enter_line(
        &self,
        kind: AttemptKind,
        until: Instant,
        ttl: Duration,
    ) -> Result<AttemptPlace<'_>, FailedAttempt> {
        self.lines.enter(kind, until, self.configured_timeout(ttl)).await
    }

    /// Ends the wait of everybody who wants a lock, and lets nobody in any more.
    pub(crate) fn close(&self) {
        self.closing.cancel();
        self.lines.close();
    }

    /// Whether the quorum has been lost for so long that callers are answered at once.
    pub(crate) fn outage_lasts(&self) -> bool {
        self.lines.outage_lasts()
    }

    /// How long a node is given to reply, for a lock of this time to live: longer than configured if the nodes have been slow lately.
    pub(crate) fn node_timeout(&self, ttl: Duration) -> Duration {
        self.cluster.answers.reply_time().node_timeout(self.configured_timeout(ttl), ttl)
    }

    /// How long a node is given to reply at least. By this, callers are told apart that give the nodes more time than others do.
    pub(crate) fn configured_timeout(&self, ttl: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| self.cluster.default_node_timeout(ttl))
    }
}
