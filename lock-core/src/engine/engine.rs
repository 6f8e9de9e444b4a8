use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::line::AttemptLines;
use super::queue_position::Leaving;
use super::{Home, UnawaitedReleases};
use crate::cluster::Cluster;

/// What all locks of one shard share: the cluster, and the background work of the manager.
pub(crate) struct Engine {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) background: Background,
    pub(super) lines: AttemptLines,
    pub(super) leaving: Leaving,
    node_timeout: Option<Duration>,
}

impl Engine {
    /// An engine over a cluster, whose nodes are kept up to date in the background.
    pub(crate) fn new(cluster: Arc<Cluster>, background: &Background, node_timeout: Option<Duration>) -> Self {
        background.home.keep(&cluster);
        let (lines, leaving) = (AttemptLines::new(cluster.size()), Leaving::default());
        Self { cluster, background: background.clone(), lines, leaving, node_timeout }
    }

    /// Runs work in the background, tracked: on the runtime of the caller or, if there is none, because a guard may be dropped
    /// anywhere, on the home. Does nothing if the manager never was used.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = Handle::try_current().ok().or_else(|| self.background.home.runtime()) {
            self.background.tracker.spawn_on(work, &runtime);
        }
    }

    /// Waits for the first connections, or until the manager is closed. See [`Cluster::first_contact`].
    pub(crate) async fn first_contact(&self) {
        self.background.closing.run_until_cancelled(self.cluster.first_contact()).await;
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

/// The background work of a manager, and what ends it. The engines of all its shards have it in common.
#[derive(Clone)]
pub(crate) struct Background {
    /// The work that goes on without a caller, such as releases. A shutdown waits for it.
    pub(crate) tracker: TaskTracker,
    /// Cancelled when releases must not be retried any more: the manager was shut down.
    pub(crate) finished: CancellationToken,
    /// Cancelled when the manager was closed: nobody waits for a lock any more.
    pub(crate) closing: CancellationToken,
    /// The releases that nobody waits for.
    pub(crate) unawaited: Arc<UnawaitedReleases>,
    /// Where it runs.
    pub(crate) home: Arc<Home>,
    /// Cancels what stops the clusters when nobody is left who could want it to go on, and there was no shutdown.
    _stop: Arc<DropGuard>,
}

impl Background {
    pub(crate) fn new() -> Self {
        let (stop, unawaited) = (CancellationToken::new(), Arc::new(UnawaitedReleases::default()));
        let home = Home::new(stop.clone());
        home.add({
            let unawaited = Arc::clone(&unawaited);
            move || Arc::clone(&unawaited).watch()
        });
        Self {
            tracker: TaskTracker::new(),
            finished: CancellationToken::new(),
            closing: CancellationToken::new(),
            unawaited,
            home: Arc::new(home),
            _stop: Arc::new(stop.drop_guard()),
        }
    }

    /// Cancelled when the last engine is dropped, or the manager was shut down.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.home.stop.clone()
    }
}
