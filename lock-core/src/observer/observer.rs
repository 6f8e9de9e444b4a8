use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{AcquireOutcome, RenewalOutcome, VoteOutcome};
use crate::error::LossReason;

/// Watches what a manager does: for metrics, mostly. Set with
/// [`LockManagerBuilder::observer`](crate::LockManagerBuilder::observer).
///
/// Events are labeled by the **template** of the resource, never by the resource itself: there are as many templates as routes,
/// and as many resources as there are things to lock. Layer and macro know their template; a lock that is acquired by hand has one
/// if [`LockRequest::template`](crate::LockRequest::template) says so, and otherwise [`OTHER`](super::OTHER).
///
/// It is called where it happens, on any thread, sometimes while the manager has something locked. It has to return soon, and must not
/// call the manager. One that panics breaks no lock: the panic is caught, and the first one of a manager is logged.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use lock_core::observer::{LockEvent, LockObserver};
/// use lock_core::{LockManager, MemoryNode};
///
/// #[derive(Default)]
/// struct Holds(AtomicUsize);
///
/// impl LockObserver for Holds {
///     fn observe(&self, event: &LockEvent<'_>) {
///         if let LockEvent::HoldBegan { template, .. } = event {
///             assert_eq!(*template, "stock:{sku}");
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let holds = Arc::new(Holds::default());
/// let locks = LockManager::builder().nodes([MemoryNode::new()]).observer(holds.clone()).connect().await?;
/// let _guard = locks.lock("stock:42").template("stock:{sku}").acquire().await?;
/// assert_eq!(holds.0.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
pub trait LockObserver: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &LockEvent<'_>);
}

/// What a manager tells its observers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// A caller asks for a lock. [`AcquireEnded`](Self::AcquireEnded) follows, whatever becomes of it: the calls between the two are those
    /// that wait.
    #[non_exhaustive]
    AcquireBegan {
        /// The template of the resource.
        template: &'a str,
    },
    /// A caller got a lock, or did not get it.
    #[non_exhaustive]
    AcquireEnded {
        /// The template of the resource.
        template: &'a str,
        /// How it ended.
        outcome: AcquireOutcome,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The nodes are asked for a lock. An acquisition makes as many attempts as it needs, and none if the lock is handed over to it, or if it
    /// is inside the scope of the same lock.
    #[non_exhaustive]
    AttemptBegan {
        /// The template of the resource.
        template: &'a str,
    },
    /// A lock is held from now on. [`HoldEnded`](Self::HoldEnded) follows.
    #[non_exhaustive]
    HoldBegan {
        /// The template of the resource.
        template: &'a str,
    },
    /// A lock is not held any more: it was released, or lost.
    #[non_exhaustive]
    HoldEnded {
        /// The template of the resource.
        template: &'a str,
        /// What ended it. Anything but [`Released`](LossReason::Released) is a loss.
        reason: LossReason,
        /// How long it was held.
        held: Duration,
    },
    /// A lock that was held goes to the next caller in this process, without a request to a node. The template is that of the one who held it.
    #[non_exhaustive]
    HandedOver {
        /// The template of the resource.
        template: &'a str,
    },
    /// The nodes were asked to extend a lease.
    #[non_exhaustive]
    RenewalEnded {
        /// The template of the resource.
        template: &'a str,
        /// What they replied.
        outcome: RenewalOutcome,
    },
    /// A node replied to the request for a lock. Also told when nobody waits for the reply any more; a node that hangs is told when its
    /// connection is given up.
    #[non_exhaustive]
    NodeVoted {
        /// The node.
        node: &'a str,
        /// Its vote.
        outcome: VoteOutcome,
        /// The time from when the request was handed to the node's connection.
        duration: Duration,
    },
    /// A node is in another state than before. It may be told twice in a row that it is down.
    #[non_exhaustive]
    NodeChanged {
        /// The node.
        node: &'a str,
        /// Whether it votes.
        up: bool,
    },
}

/// Tells the observers of a manager what happened.
#[derive(Default)]
pub(crate) struct Reporter {
    observers: Vec<Arc<dyn LockObserver>>,
    /// Whether spans and events leave out the names of resources.
    pub(crate) redact: bool,
    /// Whether an observer has panicked before.
    panicked: AtomicBool,
}

impl Reporter {
    pub(crate) fn new(observers: Vec<Arc<dyn LockObserver>>, redact: bool) -> Self {
        #[cfg(feature = "metrics")]
        let observers = observers.into_iter().chain([super::metrics::observer()]).collect();
        Self { observers, redact, panicked: AtomicBool::new(false) }
    }

    /// Whether anybody is told.
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// What spans and events show of the name of a resource, or of its key: nothing if names are redacted.
    pub(crate) fn shown<'a>(&self, name: &'a str) -> Option<&'a str> {
        (!self.redact).then_some(name)
    }

    /// Tells every observer. One that panics breaks nothing.
    pub(crate) fn report(&self, event: &LockEvent<'_>) {
        for observer in &self.observers {
            let told = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
            if told.is_err() && !self.panicked.swap(true, Ordering::Relaxed) {
                log_event!(error: "lock.observer_panicked",
                    "an observer panicked; locks are not affected, and further panics are not logged");
            }
        }
    }
}
