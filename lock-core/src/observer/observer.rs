use std::time::Duration;

use super::{AcquireOutcome, RenewalOutcome, VoteOutcome};
use crate::error::LossReason;

/// Watches what a manager does: for metrics, mostly. Set with
/// [`LockManagerBuilder::observer`](crate::LockManagerBuilder::observer).
///
/// Every method does nothing by default, so that an implementation names only what it is interested in, and methods can be added.
///
/// Events are labeled by the **template** of the resource, never by the resource itself: there are as many templates as routes,
/// and as many resources as there are things to lock. Layer and macro know their template; a lock that is acquired by hand has one
/// if [`LockRequest::template`](crate::LockRequest::template) says so, and otherwise [`OTHER`](super::OTHER).
///
/// Methods are called where it happens, on any thread, some of them while the manager has something locked. They have to return
/// soon, and must not call the manager. One that panics breaks no lock: the panic is caught, and the first one of a manager is
/// logged.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use lock_core::observer::{HoldBegan, LockObserver};
/// use lock_core::{LockManager, MemoryNode};
///
/// #[derive(Default)]
/// struct Holds(AtomicUsize);
///
/// impl LockObserver for Holds {
///     fn hold_began(&self, event: &HoldBegan<'_>) {
///         assert_eq!(event.template, "stock:{sku}");
///         self.0.fetch_add(1, Ordering::Relaxed);
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
#[expect(unused_variables, reason = "what is told is named `event` in the docs")]
pub trait LockObserver: Send + Sync + 'static {
    /// A caller asks for a lock. [`acquire_ended`](Self::acquire_ended) follows, whatever becomes of it: the calls between the two
    /// are those that wait.
    fn acquire_began(&self, event: &AcquireBegan<'_>) {}

    /// A caller got a lock, or did not get it.
    fn acquire_ended(&self, event: &AcquireEnded<'_>) {}

    /// The nodes are asked for a lock. An acquisition makes as many attempts as it needs, and none if the lock is handed over to
    /// it, or if it is inside the scope of the same lock.
    fn attempt_began(&self, event: &AttemptBegan<'_>) {}

    /// A lock is held from now on. [`hold_ended`](Self::hold_ended) follows.
    fn hold_began(&self, event: &HoldBegan<'_>) {}

    /// A lock is not held any more: it was released, or lost.
    fn hold_ended(&self, event: &HoldEnded<'_>) {}

    /// A lock that was held goes to the next caller in this process, without a request to a node.
    fn handed_over(&self, event: &HandedOver<'_>) {}

    /// The nodes were asked to extend a lease.
    fn renewal_ended(&self, event: &RenewalEnded<'_>) {}

    /// A node replied to the request for a lock. Also told when nobody waits for the reply any more; a node that hangs is told
    /// when its connection is given up.
    fn node_voted(&self, event: &NodeVoted<'_>) {}

    /// A node is in another state than before. It may be told twice in a row that it is down.
    fn node_changed(&self, event: &NodeChanged<'_>) {}
}

/// A caller asks for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AcquireBegan<'a> {
    /// The template of the resource.
    pub template: &'a str,
}

/// An acquisition ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AcquireEnded<'a> {
    /// The template of the resource.
    pub template: &'a str,
    /// How it ended.
    pub outcome: AcquireOutcome,
    /// How long the caller waited.
    pub waited: Duration,
}

/// The nodes are asked for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttemptBegan<'a> {
    /// The template of the resource.
    pub template: &'a str,
}

/// A lock is held from now on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HoldBegan<'a> {
    /// The template of the resource.
    pub template: &'a str,
}

/// A lock is not held any more.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HoldEnded<'a> {
    /// The template of the resource.
    pub template: &'a str,
    /// What ended it. Anything but [`Released`](LossReason::Released) is a loss.
    pub reason: LossReason,
    /// How long it was held.
    pub held: Duration,
}

/// A lock goes to the next caller in this process.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HandedOver<'a> {
    /// The template of the resource, for the one who held it.
    pub template: &'a str,
}

/// The nodes were asked to extend a lease.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RenewalEnded<'a> {
    /// The template of the resource.
    pub template: &'a str,
    /// What they replied.
    pub outcome: RenewalOutcome,
}

/// A node replied to the request for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeVoted<'a> {
    /// The node.
    pub node: &'a str,
    /// Its vote.
    pub outcome: VoteOutcome,
    /// The time from when the request was handed to the node's connection.
    pub duration: Duration,
}

/// A node is in another state.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeChanged<'a> {
    /// The node.
    pub node: &'a str,
    /// Whether it votes.
    pub up: bool,
}
