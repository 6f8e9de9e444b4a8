use std::future::pending;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::delegations::Delegations;
use super::state::{Bond, State};
use crate::engine::{Engine, Grant};
use crate::error::LockError;
use crate::kind::Kind;
use crate::node::LockKeys;
use crate::random::OwnerId;
use crate::token::FencingToken;

/// A view of a held lock: whether it is still held, and its fencing token. Cheap to clone; it cannot release the lock.
///
/// A lease is *valid* until its end on this process's monotonic clock, which lies before the earliest moment at which a
/// majority of the nodes can have expired the key. Once it has ended, for whatever reason, it never becomes valid again.
///
/// A process that is paused (stopped, swapped out, suspended) does not notice it while it is. No lock service can change
/// that; what it can do is give each grant a fencing token. Pass [`token`](Self::token) to whatever the lock protects.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let guard = locks.lock("report:daily").acquire().await?;
/// let lease = guard.lease();
/// let worker = tokio::spawn(async move {
///     tokio::select! {
///         () = lease.lost() => "stopped in time",
///         () = std::future::ready(()) => "done",
///     }
/// });
/// assert_eq!(worker.await.unwrap(), "done");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lease(pub(super) Arc<State>);

/// Waits for a time; outside a runtime, where there are no timers, for ever.
async fn pass(time: Duration) {
    match Handle::try_current() {
        Ok(_) => sleep(time).await,
        Err(_) => pending().await,
    }
}

impl Lease {
    /// The fencing token of this grant (not the latest of the resource).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let earlier = guard.token();
    /// guard.release().await?;
    ///
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert!(guard.token() > earlier); // what has seen this token refuses the earlier one
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> FencingToken {
        self.0.grant.token
    }

    /// The name of the resource: what a [claim](FencingToken) of the token is made under.
    ///
    /// For a permit, this is its slot, as `export{2}`: tokens of different slots cannot be compared, and each slot is to be claimed
    /// for itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert_eq!(guard.resource(), "stock:42");
    ///
    /// let permit = locks.permits("export", 3).acquire().await?;
    /// assert!(["export{0}", "export{1}", "export{2}"].contains(&permit.resource()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resource(&self) -> &str {
        self.0.resource.as_str()
    }

    /// The slot of a [permit](crate::LockManager::permits), from 0 to one less than the number of permits. `None` for any other lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// const PORTS: [u16; 3] = [7001, 7002, 7003];
    ///
    /// let permit = locks.permits("port", 3).acquire().await?;
    /// let port = permit.slot().map(|slot| PORTS[slot as usize]);
    /// assert!(port.is_some()); // nobody else uses this one
    /// # Ok(())
    /// # }
    /// ```
    pub fn slot(&self) -> Option<u32> {
        self.0.grant.keys.slot()
    }

    /// What the name of the resource was made from, such as `stock:{sku}`; `other` if that is not known. See
    /// [`LockRequest::template`](crate::LockRequest::template).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").template("stock:{sku}").acquire().await?;
    /// assert_eq!(guard.template(), "stock:{sku}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn template(&self) -> &str {
        self.0.hold.template()
    }

    /// How long ago the lease began.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # use std::time::Duration;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("report:daily").acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(3)).await;
    /// println!("held for {:?}", guard.age());
    /// # assert!(guard.age() >= Duration::from_secs(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn age(&self) -> Duration {
        self.0.term.since.elapsed()
    }

    /// What the lock allows beside it. A writer becomes [`Kind::Read`] when it is [downgraded](crate::LockGuard::downgrade).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::Kind;
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("catalog").acquire().await?;
    /// assert_eq!(guard.kind(), Kind::Write);
    /// let guard = guard.downgrade().await?;
    /// assert_eq!(guard.kind(), Kind::Read);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// The remaining validity, unless the lease is renewed. Zero once it has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # use std::time::Duration;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").ttl(Duration::from_secs(5)).renew(false).acquire().await?;
    /// // A call to another service should end before the lock does.
    /// let timeout = guard.remaining().min(Duration::from_secs(2));
    /// # assert_eq!(timeout, Duration::from_secs(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        let remaining = self.0.term.remaining();
        let shortest = self.0.bond().and_then(Bond::shortest);
        shortest.map_or(remaining, |shortest| shortest.term.remaining().min(remaining))
    }

    /// Whether the lock is still held. Once false, it stays false.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let lease = guard.lease();
    /// assert!(lease.is_valid());
    /// guard.release().await?;
    /// assert!(!lease.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid_at(Instant::now())
    }

    /// The same, at a time that was now a moment ago.
    pub(super) fn is_valid_at(&self, now: Instant) -> bool {
        self.0.is_valid_alone(now) && self.0.bond().is_none_or(|bond| bond.is_valid(now))
    }

    /// Resolves when the lease has ended: it was lost, or released. Immediately if it has ended already.
    ///
    /// That the masters lost the lock, or that it was taken from its holder, is found with the next renewal: at most a third of the `ttl`
    /// after the last one. A lease that is not renewed, or not any more because its validity reaches the end of `max_hold`, learns
    /// nothing from the masters: it ends when its validity does, up to a `ttl` later.
    ///
    /// It has a timer of its own, on the runtime that polls it. So it resolves in time whatever becomes of the runtime that
    /// renews the lease, and that is replaced by this one if it does not run. Polled outside a runtime, it depends on that one.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped and created again at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("report").acquire().await?;
    /// let lost = guard.lost();
    /// guard.release().await?;
    /// lost.await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let lease = self.clone();
        async move {
            if let Some(engine) = lease.engine() {
                engine.background.home.start();
            }
            // Renewals move the end, so it is looked for again when the timer fires.
            while lease.is_valid() {
                tokio::select! {
                    biased;
                    () = lease.ended() => return,
                    () = pass(lease.remaining()) => {}
                }
            }
        }
    }

    /// Returns an error if the lease has ended. For use between the steps of long work.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with what ended the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("report").acquire().await?;
    /// for _page in 0..3 {
    ///     guard.check()?; // stop as soon as the lock is lost
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LockError> {
        if self.is_valid() { Ok(()) } else { Err(self.lost_error()) }
    }

    pub(crate) fn keys(&self) -> &LockKeys {
        &self.0.grant.keys
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.0.grant.owner
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.0.options.ttl
    }

    /// The engine of its manager; `None` once the lock is being released.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.grant().as_ref().map(|grant| Arc::clone(&grant.engine))
    }

    /// Whether another process holds the lock, and delegated it. Not public API.
    #[doc(hidden)]
    pub fn is_adopted(&self) -> bool {
        self.grant().as_ref().is_some_and(|grant| grant.is_adopted)
    }

    pub(crate) fn delegations(&self) -> &Delegations {
        &self.0.grant.delegations
    }

    /// Resolves when it was ended; not when its validity passes unseen.
    pub(crate) async fn ended(&self) {
        self.0.term.ended().await;
    }

    /// What the nodes hold for this lease, locked.
    pub(crate) fn grant(&self) -> MutexGuard<'_, Option<Box<Grant>>> {
        self.0.grant.grant()
    }
}

opaque_debug!(Lease, |this| "resource": this.0.resource, "token": this.token(), "remaining": this.remaining(), "ended": this.loss());
