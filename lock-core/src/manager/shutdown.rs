use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::engine::Engine;
use crate::error::LossReason;
use crate::lease::{Lease, LeaseRegistry};

/// How long a shutdown waits for releases that the nodes have not acknowledged, after the holders are gone. Keys that are left
/// expire with their time to live.
const RELEASE_GRACE: Duration = Duration::from_secs(1);

/// What became of the leases that were held when a shutdown began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// The leases that ended within the grace: they were released, or lost.
    pub released: usize,
    /// The leases that were revoked after it.
    pub revoked: usize,
}

/// Waits for the holders, revokes the leases that are left, waits for the releases, and ends all background work. The manager is
/// closed already.
pub(super) async fn shut_down(engine: &Arc<Engine>, leases: &LeaseRegistry, grace: Duration) -> ShutdownReport {
    let holders = leases.all().len();
    _ = timeout(grace, leases.wait_until_empty()).await;
    let left = leases.all();
    // A lease that was lost before is not revoked, although its guard is alive.
    let revoked = left.iter().filter(|lease| Lease::is_valid(lease)).count();
    for lease in &left {
        drop(lease.revoke(LossReason::ShutDown));
        leases.remove(lease);
    }
    engine.tracker.close();
    if timeout(RELEASE_GRACE, engine.tracker.wait()).await.is_err() {
        engine.finished.cancel();
        // Not without a limit: an acquisition or a release whose future is kept but never polled does not end.
        _ = timeout(RELEASE_GRACE, engine.tracker.wait()).await;
    }
    // Also for what goes on without anybody who waits: no node is to be reached any more.
    engine.finished.cancel();
    engine.home.end().await;
    if revoked > 0 {
        tracing::warn!(name: "lock.shutdown_revoked", revoked, "leases were revoked at the end of the shutdown grace");
    }
    ShutdownReport { released: holders.saturating_sub(revoked), revoked }
}
