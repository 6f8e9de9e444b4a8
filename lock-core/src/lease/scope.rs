use std::iter;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::state::Bond;
use super::{Lease, Leases};
use crate::kind::Kind;
use crate::quorum::validity;
use crate::resource::Resource;

tokio::task_local! {
    /// The leases under which the present task runs. A lock that is acquired again inside its own scope is the same lock.
    static SCOPE: Arc<Frame>;
}

struct Frame {
    lease: Lease,
    /// The whole set, if the lease is the first of one.
    set: Option<Leases>,
    outer: Option<Arc<Frame>>,
}

/// The scope of a lease, or of the leases of a set. Not public API: `lock-axum` treats both alike.
#[doc(hidden)]
pub struct Scope(Arc<Frame>);

impl Scope {
    fn inside_the_present_one(lease: Lease, set: Option<Leases>) -> Self {
        Self(Arc::new(Frame { lease, set, outer: SCOPE.try_with(Arc::clone).ok() }))
    }

    /// Calls a function in the scope, which makes a future that is to [enter](Self::enter) it.
    pub fn call<T>(&self, make: impl FnOnce() -> T) -> T {
        SCOPE.sync_scope(Arc::clone(&self.0), make)
    }

    /// Runs a future in the scope.
    pub fn enter<F: Future>(self, work: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPE.scope(self.0, work)
    }
}

impl Lease {
    /// The innermost lease under which this task runs: in [`run`](crate::LockRequest::run), in a guarded function, or in a guarded
    /// handler. For a set of locks, it is the first as written. Spawned tasks do not inherit it; see [`scope`](Self::scope).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{Lease, LockManager};
    ///
    /// let locks = LockManager::in_memory();
    /// let resource = locks.lock("report").run(async |_| Lease::current().map(|lease| lease.resource().to_owned())).await?;
    /// assert_eq!(resource.as_deref(), Some("report"));
    /// assert!(Lease::current().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn current() -> Option<Self> {
        SCOPE.try_with(|frame| frame.lease.clone()).ok()
    }

    /// The innermost lease on a resource under which this task runs, also of a set of locks. A [permit](crate::LockManager::permits) is
    /// found by the name of the resource or of its slot.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{Lease, LockManager};
    ///
    /// let locks = LockManager::in_memory();
    /// let set = locks.lock_all(["user:7", "stock:42"]);
    /// set.run(async |leases| assert_eq!(Lease::current_for("stock:42").unwrap().token(), leases[1].token())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn current_for(resource: &str) -> Option<Self> {
        Self::find_in_scope(|lease| [lease.0.requested.as_str(), lease.resource()].contains(&resource))
    }

    /// Runs a future under this lease: [`current`](Self::current) returns it, and acquiring the same resource of the same
    /// manager gives the same lease. For work that a guarded handler spawns and waits for.
    ///
    /// Futures that are joined inside one scope run concurrently, all under its lease and with its token: they do not exclude each
    /// other, even if each acquires the lock again.
    ///
    /// **A loss cancels no task.** When a guarded handler is cancelled, a task that it spawned and awaits goes on without the lock: tokio
    /// detaches a task whose handle is dropped. A `JoinSet` aborts its tasks when it is dropped, and so ends them with the handler. The
    /// same is true of a [`SetGuard`](crate::SetGuard), of sessions and of [`run`](crate::LockRequest::run).
    ///
    /// # Examples
    ///
    /// Tasks that end with the work under the lock:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Lease, LockManager};
    /// use tokio::task::JoinSet;
    ///
    /// # let locks = LockManager::in_memory();
    /// let parts = locks.lock("report").run(async |lease| {
    ///     let mut parts = JoinSet::new(); // dropped when the lock is lost, and its tasks are aborted
    ///     for part in 0..3 {
    ///         parts.spawn(lease.scope(async move { Lease::current().map(|_| part) }));
    ///     }
    ///     parts.join_all().await.len()
    /// });
    /// assert_eq!(parts.await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        self.as_scope().enter(work)
    }

    /// The scope of this lease, inside the present one. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn as_scope(&self) -> Scope {
        Scope::inside_the_present_one(self.clone(), None)
    }

    /// The templates of all leases under which this task runs. Not public API.
    #[doc(hidden)]
    pub fn templates_in_scope() -> Vec<String> {
        let mut templates = Vec::new();
        Self::find_in_scope(|lease| {
            templates.push(lease.template().to_owned());
            false
        });
        templates
    }

    /// Waits until this much validity is left: at once, or after a renewal. Returns false if it never is, or not by this time.
    pub(crate) async fn has_left(&self, least: Duration, until: Instant) -> bool {
        // The common case is without a timer.
        while self.remaining() < least {
            // That of its set which has the least left may be another one.
            let shortest = self.0.bond().and_then(Bond::shortest).map_or_else(|| self.clone(), Self);
            // Asked for before the end is read, so that no renewal in between is missed.
            let extended = shortest.0.term.changed.notified();
            if shortest.0.term.remaining() >= least {
                continue;
            }
            let most = validity(shortest.ttl(), Duration::ZERO).unwrap_or_default();
            // How far the holder renews a lease that was adopted is not known here.
            let may_be_extended = shortest.is_adopted() || least <= most && shortest.renews();
            if !may_be_extended || !self.is_valid() {
                return false;
            }
            tokio::select! {
                biased;
                () = self.lost() => return false,
                () = extended => {}
                () = sleep_until(until) => return false,
            }
        }
        true
    }

    /// The lease on a resource of a manager, or on one of the slots that this kind of lock can be on, under which this task runs, if it does.
    pub(crate) fn in_scope(manager: u64, resource: &Resource, kind: Kind) -> Option<Self> {
        let is_asked_for = |lease: &Self| lease.0.requested == *resource && kind.allows_slot(lease.slot());
        Self::find_in_scope(|lease| lease.0.manager == manager && is_asked_for(lease))
    }

    /// A valid lease of a manager under which this task runs, on a resource that comes after another one in the order of sets.
    pub(crate) fn in_scope_after(manager: u64, resource: &Resource) -> Option<Self> {
        let is_after = |lease: &Self| lease.0.requested.as_str() > resource.as_str();
        Self::find_in_scope(|lease| lease.0.manager == manager && is_after(lease) && lease.is_valid())
    }

    /// The innermost lease under which this task runs that satisfies a condition.
    fn find_in_scope(mut condition: impl FnMut(&Self) -> bool) -> Option<Self> {
        let find = |frame: &Arc<Frame>| {
            let frames = iter::successors(Some(frame), |frame| frame.outer.as_ref());
            let mut leases = frames.flat_map(|frame| iter::once(&frame.lease).chain(frame.set.iter().flatten()));
            leases.find(|lease| condition(lease)).cloned()
        };
        SCOPE.try_with(find).ok().flatten()
    }
}

impl Leases {
    /// Runs a future under these leases: [`Lease::current`] returns the first, [`Lease::current_for`] any of them, and acquiring
    /// one of the resources of the same manager gives the same lease. See [`Lease::scope`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Lease, LockManager};
    /// # let locks = LockManager::in_memory();
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// let part = set.scope(async { Lease::current_for("stock:42").is_some() });
    /// assert!(tokio::spawn(part).await.unwrap());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        self.as_scope().enter(work)
    }

    /// The scope of these leases, inside the present one. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn as_scope(&self) -> Scope {
        Scope::inside_the_present_one(self[0].clone(), Some(self.clone()))
    }
}
