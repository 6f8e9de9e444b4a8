use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Background;
use super::line::AttemptLines;
use super::queue_position::Leaving;
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
