//! Which leases the present task works under. A lock taken anew inside its own scope is the same lock.

use std::sync::Arc;

use super::Lease;
use crate::resource::Resource;

tokio::task_local! {
    static SCOPE: Arc<Frame>;
}

struct Frame {
    lease: Lease,
    outer: Option<Arc<Frame>>,
}

impl Lease {
    /// The innermost lock under which this task runs: that of [`run`](crate::LockRequest::run), of a guarded function, or of
    /// a guarded handler. Not inherited by tasks that are spawned; see [`scope`](Self::scope).
    #[must_use]
    pub fn current() -> Option<Self> {
        SCOPE.try_with(|frame| frame.lease.clone()).ok()
    }

    /// Runs a future under this lease: [`current`](Self::current) tells it, and acquiring the same resource of the same
    /// manager gives the same lease. For work that a guarded handler spawns and waits for.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let outer = SCOPE.try_with(Arc::clone).ok();
        SCOPE.scope(Arc::new(Frame { lease: self.clone(), outer }), work)
    }

    /// The lease on a resource of a manager under which this task runs, if it does.
    pub(crate) fn in_scope(manager: u64, resource: &Resource) -> Option<Self> {
        SCOPE
            .try_with(|frame| {
                let mut frames = std::iter::successors(Some(frame), |frame| frame.outer.as_ref());
                let same = |lease: &Self| lease.0.manager == manager && lease.0.resource == *resource;
                frames.find(|frame| same(&frame.lease)).map(|frame| frame.lease.clone())
            })
            .ok()
            .flatten()
    }
}
