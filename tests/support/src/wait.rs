use std::time::Duration;

use lock_core::LockManager;
use tokio::time::{Instant, sleep};

/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a condition holds: in virtual time if the clock is paused.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_async(what, async || condition()).await;
}

/// Waits until an async condition holds.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < PATIENCE, "timed out after {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a manager has admitted all of its nodes.
pub async fn all_nodes_vote(locks: &LockManager) {
    eventually_async("all nodes vote", async || locks.health().await.nodes.iter().all(|node| node.admitted)).await;
}

/// The median: of an even number of values, the upper one.
#[must_use]
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
