use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a condition may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a condition holds, in virtual time where the clock is paused.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_async(what, async || condition()).await;
}

/// Waits until a condition holds that has to be asked for.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < PATIENCE, "after {PATIENCE:?} still not so: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The one in the middle.
#[must_use]
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
