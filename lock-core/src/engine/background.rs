use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::Home;

/// The background work of a manager, and what ends it. The engines of all its shards have it in common.
#[derive(Clone)]
pub(crate) struct Background {
    /// The work that goes on without a caller, such as releases. A shutdown waits for it.
    pub(crate) tracker: TaskTracker,
    /// Cancelled when releases must not be retried any more: the manager was shut down.
    pub(crate) finished: CancellationToken,
    /// Cancelled when the manager was closed: nobody waits for a lock any more.
    pub(crate) closing: CancellationToken,
    /// Where it runs.
    pub(crate) home: Arc<Home>,
    /// Cancels what stops the clusters when nobody is left who could want it to go on, and there was no shutdown.
    _stop: Arc<DropGuard>,
}

impl Background {
    pub(crate) fn new() -> Self {
        let stop = CancellationToken::new();
        Self {
            tracker: TaskTracker::new(),
            finished: CancellationToken::new(),
            closing: CancellationToken::new(),
            home: Arc::new(Home::new(stop.clone())),
            _stop: Arc::new(stop.drop_guard()),
        }
    }

    /// Cancelled when the last engine is dropped, or the manager was shut down.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.home.stop.clone()
    }
}
