use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Home, UnawaitedReleases};

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
