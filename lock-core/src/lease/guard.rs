use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::renewer::downgrade;
use super::{Lease, LeaseRegistry};
use crate::engine::{Release, Unacknowledged};
use crate::error::{LockError, LossReason};
use crate::kind::Kind;
use crate::quorum::Verdict;

/// A held lock. Dropping the guard releases the lock in the background; [`release`](Self::release) also waits for the
/// nodes' replies.
///
/// A guard dereferences to its [`Lease`], which tells whether the lock is still held, and its token.
///
/// Inside the scope of the same lock ([`LockRequest::run`](crate::LockRequest::run), a guarded handler), a guard shares the
/// outer lease, and only the outermost guard releases.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let guard = locks.lock("stock:42").acquire().await?;
/// let token = guard.token().as_i64(); // send it with every write
/// # _ = token;
/// guard.check()?; // between the steps of long work
/// assert!(guard.release().await?, "it was still held");
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released as soon as its guard is dropped: keep it with `let _guard = …`, because `let _ = …` drops it at once"]
pub struct LockGuard {
    lease: Lease,
    /// Where the lease is registered; `None` once this guard has ended.
    registry: Option<Arc<LeaseRegistry>>,
    /// Whether the lease is held for this guard. Only for the outermost, unless another one [keeps](Self::keep_beyond_outer) it.
    is_holder: bool,
}

impl LockGuard {
    /// Holds a lease that begins. From here on it is renewed, and released in the end.
    pub(crate) fn begin(registry: &Arc<LeaseRegistry>, lease: Lease) -> Self {
        registry.add(lease.clone(), lease.due());
        // The nodes may have lost the lock before this lease was registered, and then nobody has ended it.
        if lease.0.grant.is_lost() {
            lease.end(LossReason::Gone);
        }
        Self { lease, registry: Some(Arc::clone(registry)), is_holder: true }
    }

    /// A guard inside the scope of `lease`.
    pub(crate) fn sharing(lease: Lease, registry: &Arc<LeaseRegistry>) -> Self {
        Self { lease, registry: Some(Arc::clone(registry)), is_holder: false }
    }

    /// Holds the lease for this guard, too, although an outer guard may end before: for the body of a response, which is sent
    /// when the outer handler has ended. The last of such guards releases.
    #[doc(hidden)]
    pub fn keep_beyond_outer(&mut self) {
        self.is_holder = self.is_holder || self.lease.add_holder();
    }

    /// Another guard of the lease, which holds it, too, although this one may end before: for a session that goes on when its
    /// handler has ended. The last of such guards releases. An adopted lease ends all the same when its first guard does: the answer
    /// tells the holder of the lock that the work under it is done.
    #[doc(hidden)]
    pub fn share(&self) -> Self {
        let is_holder = !self.lease.is_adopted() && self.lease.add_holder();
        Self { lease: self.lease.clone(), registry: self.registry.clone(), is_holder }
    }

    /// Whether the lease is held for more than one guard: for a session, too, that goes on when its handler has ended. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.lease.0.holders.load(Ordering::Acquire) > 1
    }

    /// The lease, to pass around.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("report").acquire().await?;
    /// let lease = guard.lease();
    /// drop(guard);
    /// assert!(!lease.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Releases the lock and returns whether it was still held: `false` if the lease had been lost, or no majority of the nodes
    /// had the key any more. A guard that shares an outer lease returns whether that is valid, and releases nothing. So does the guard of a
    /// lease with unfinished [delegations](Lease::delegate), whose key is left to expire, and a reader's guard while other readers of
    /// this process go on.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes replied within the node timeout, with those that did not. The release
    /// continues in the background, and the key expires with its time to live in any case.
    ///
    /// # Cancel safety
    ///
    /// The requests are sent when the future is first polled; dropping it after that only gives up the result. A future that
    /// was created but is never polled keeps a shutdown waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert!(guard.release().await?);
    /// assert!(locks.lock("stock:42").try_acquire().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(mut self) -> Result<bool, LockError> {
        let now = Instant::now();
        let was_valid = self.lease.is_valid_at(now);
        let Some(mut release) = self.end(now) else {
            return Ok(was_valid && self.lease.loss().is_none_or(|reason| reason == LossReason::Released));
        };
        let resource = self.lease.0.resource.clone();
        // The memory of the lease is free for the next one while the replies are awaited.
        drop(self);
        match release.verdict().await {
            Ok(was_held) => Ok(was_held && was_valid),
            Err(Unacknowledged { waited, votes }) => {
                Err(LockError::NoQuorum { resource: resource.as_str().to_owned(), waited, votes })
            }
        }
    }

    /// Goes on to read what this guard holds to write, without a gap in which another writer could take the lock. Readers may join
    /// from then on; the token stays.
    ///
    /// The lease and its clones read from when this is called. A guard that reads already stays as it is, and so does one that shares an
    /// outer lease: that one writes on.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease was lost.
    /// - [`LockError::NoQuorum`] if too few nodes replied within the node timeout. If the members of the set change meanwhile, or the runtime
    ///   with the connections does not run, they are asked again within a second.
    /// - [`LockError::Delegated`] while a [delegation](Lease::delegate) of it is unfinished.
    /// - [`LockError::Downgrade`] for a permit: nobody can read beside its holder.
    ///
    /// The lock is then released, or left to expire if it is delegated.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let writing = locks.lock("catalog").acquire().await?;
    /// let reading = writing.downgrade().await?; // what was written cannot have changed since
    /// let beside = locks.read("catalog").acquire().await?;
    /// # drop((reading, beside));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(self) -> Result<Self, LockError> {
        self.lease.check()?;
        match self.lease.kind() {
            Kind::Write if self.is_holder => {}
            Kind::Write | Kind::Read => return Ok(self),
            Kind::Permit { .. } => {
                return Err(LockError::Downgrade { resource: self.lease.resource().to_owned() });
            }
        }
        if !self.lease.delegations().begin_downgrade() {
            return Err(LockError::Delegated { resource: self.lease.resource().to_owned() });
        }
        let began = Instant::now();
        let Some(engine) = self.lease.engine() else { return Err(self.lease.lost_error()) };
        // Before the nodes know: from then on, others may read, and the lock must not be handed over to write. It is dropped after the
        // guard: if this fails, the release comes before the requests of the next caller.
        let local_hold = self.lease.0.take_local_hold();
        let this = self;
        {
            // A renewal that puts the key back names the kind while it has this locked. So what it sends to write comes before the downgrade.
            let _grant = this.lease.0.grant.grant();
            this.lease.0.downgraded.store(true, Ordering::Release);
        }
        match downgrade(&engine, &this.lease).await {
            (Verdict::Held, _) => {}
            (Verdict::Lost, _) => {
                this.lease.end(LossReason::Gone);
                return Err(this.lease.lost_error());
            }
            (Verdict::Unknown, votes) => {
                this.lease.check()?;
                let resource = this.lease.resource().to_owned();
                return Err(LockError::NoQuorum { resource, waited: began.elapsed(), votes });
            }
        }
        if let Some(registry) = &this.registry {
            registry.readings.add(&this.lease.0.grant);
        }
        this.lease.delegations().end_downgrade();
        // The next caller may read, too, or wait for a turn to write.
        drop(local_hold);
        Ok(this)
    }

    /// Ends the lease if it is held for no other guard, and hands the lock over or sends the release. Returns `None` if there is
    /// nothing to wait for: another guard or the next waiter has the lock, or there is nothing to release.
    fn end(&mut self, now: Instant) -> Option<Release> {
        let registry = self.registry.take()?;
        if !self.is_holder || !self.lease.remove_holder() {
            return None;
        }
        registry.remove(&self.lease, now);
        if let Some(bond) = self.lease.0.bond() {
            bond.release();
        }
        let Some(mut local_hold) = self.lease.0.take_local_hold() else {
            // A caller that did not wait; or the lease was lost, and the next caller may have a queue position by now.
            let release = self.lease.revoke(LossReason::Released);
            if self.lease.kind().is_read() && self.lease.engine().is_none() {
                registry.readings.remove(&self.lease.0.grant);
            }
            return release;
        };
        let may_hand_over = self.lease.is_valid_at(now) && !self.lease.renewal_is_due(now);
        let mut grant = self.lease.end_and_take(LossReason::Released)?;
        // Asked when the lease has ended, so that none is made after it.
        if may_hand_over && !self.lease.delegations().made() {
            match local_hold.hand_over(grant) {
                Ok(()) => {
                    self.lease.0.hold.handed_over();
                    return None;
                }
                Err(back) => (local_hold, grant) = back,
            }
        }
        // Sent before the turn is passed on, so that the next caller's requests come after this release.
        let nodes = grant.nodes();
        let release = self.lease.0.grant.release(&mut grant, local_hold.position());
        local_hold.leave_queues(release.as_ref().map(|_| nodes).unwrap_or_default());
        release
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // Not after a release.
        if self.registry.is_some() {
            drop(self.end(Instant::now()));
        }
    }
}

opaque_debug!(LockGuard, |this| "lease": this.lease);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use crate::node::{Keyspace, LockNode, Operation, ReplySender, Request};
    use crate::{LockManager, MemoryNode};

    /// A node that takes a while to accept a release, and counts the releases that it has accepted.
    #[derive(Clone)]
    struct SlowToAccept {
        node: MemoryNode,
        entered: mpsc::Sender<()>,
        accepted: Arc<AtomicUsize>,
    }

    impl LockNode for SlowToAccept {
        crate::forward_to_node!(self => self.node; name inspect write_record read_fences look evict);

        fn submit(&self, request: Request, reply_to: ReplySender) {
            let is_test = request.keys.fence() == Keyspace::TEST_FENCE;
            let releases = !is_test && matches!(request.operation, Operation::Release { .. });
            if releases {
                self.entered.send(()).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
            self.node.submit(request, reply_to);
            self.accepted.fetch_add(usize::from(releases), Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn a_shutdown_does_not_end_between_the_end_of_a_lease_and_its_release() {
        let (none, long) = (Duration::ZERO, Duration::from_secs(10));
        for (wait, grace) in [(none, none), (none, long), (long, none), (long, long)] {
            let (entered, entering) = mpsc::channel();
            let accepted = Arc::new(AtomicUsize::new(0));
            let node = SlowToAccept { node: MemoryNode::new(), entered, accepted: Arc::clone(&accepted) };
            let locks = LockManager::builder().nodes([node]).connect().await.unwrap();
            let guard = locks.lock("r").wait(wait).acquire().await.unwrap();
            let dropping = thread::spawn(move || drop(guard));
            entering.recv().unwrap();
            locks.shutdown(grace).await;
            assert_eq!(accepted.load(Ordering::SeqCst), 1, "wait {wait:?}, grace {grace:?}");
            dropping.join().unwrap();
        }
    }
}
