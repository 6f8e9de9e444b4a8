use std::sync::Arc;
use std::time::Duration;

use super::LockManagerBuilder;
use crate::observer::LockObserver;

/// What applies to all locks of the manager.
impl LockManagerBuilder {
    /// Sets the default for [`LockRequest::ttl`](crate::LockRequest::ttl): how long a key lives unless it is renewed.
    ///
    /// From 100 ms to `max_ttl`. Defaults to 10 s, or to `max_ttl` if that is less.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).ttl(Duration::from_secs(5)).connect().await?;
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the default for [`LockRequest::wait`](crate::LockRequest::wait): how long callers wait for a lock, for
    /// their turn in a burst of callers, and for a majority of the nodes that is gone for a moment.
    ///
    /// Up to one day; zero means to try once. Defaults to 2 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockError, LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).wait(Duration::ZERO).connect().await?;
    /// let _guard = locks.lock("stock:42").acquire().await?;
    /// let second = locks.lock("stock:42").acquire().await; // at once
    /// assert!(matches!(second, Err(LockError::Contended { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.defaults.wait = wait;
        self
    }

    /// Sets the default for [`LockRequest::max_hold`](crate::LockRequest::max_hold): how long a lock may be held in all.
    ///
    /// From 1 ms to 7 days. Defaults to 60 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockError, LockManager, LossReason, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).max_hold(Duration::from_secs(5)).connect().await?;
    /// let stuck = locks.lock("report:daily").run(async |_lease| std::future::pending::<()>().await).await;
    /// assert!(matches!(stuck, Err(LockError::Lost { reason: LossReason::MaxHold, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.defaults.max_hold = max_hold;
        self
    }

    /// Sets the default for [`LockRequest::renew`](crate::LockRequest::renew): whether locks are renewed while they are held.
    ///
    /// Defaults to true.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).renew(false).connect().await?;
    /// let guard = locks.lock("report:daily").ttl(Duration::from_secs(2)).acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(2)).await;
    /// assert!(!guard.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.defaults.renew = renew;
        self
    }

    /// Sets the default for [`LockRequest::min_validity`](crate::LockRequest::min_validity): the validity that must be left of a
    /// grant.
    ///
    /// From zero to just below `ttl`. Defaults to zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder()
    ///     .nodes([MemoryNode::new()])
    ///     .ttl(Duration::from_secs(10))
    ///     .min_validity(Duration::from_secs(8)) // a grant that took two seconds is given back
    ///     .connect()
    ///     .await?;
    /// assert!(locks.lock("stock:42").acquire().await?.remaining() >= Duration::from_secs(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.defaults.min_validity = min_validity;
        self
    }

    /// Sets how many callers of this manager may wait for the same resource. Further ones get
    /// [`LockError::QueueFull`](crate::LockError::QueueFull).
    ///
    /// At least 1. Defaults to 1024.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .max_waiters(64) // the 65th caller that waits for a resource is turned away at once
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// Sets how many bytes of request bodies `lock-axum` keeps in memory, in all, before their handlers hold a lock of this
    /// manager. A request whose body does not fit is answered with 503 `lock-buffer-full`, or with 413 if it alone is larger, and locks
    /// nothing. Without `lock-axum`, this has no effect.
    ///
    /// A client that sends slowly takes up what it has sent. While there is no room, the slowest upload is given up for a faster one, and
    /// answered with 408; `body_timeout` of layer and attribute limits each.
    ///
    /// At least 1. Defaults to 64 MiB.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .max_buffered_bytes(256 * 1024 * 1024)
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn max_buffered_bytes(mut self, max_buffered_bytes: usize) -> Self {
        self.max_buffered_bytes = max_buffered_bytes;
        self
    }

    /// Sets what this service is called in the delegations that it [adopts](crate::LockManager::adopt). It adopts those for this
    /// [audience](crate::delegation::Delegate::audience), and those for nobody in particular.
    ///
    /// 1 to 128 bytes. Defaults to none.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_core::{LockManager, MemoryNode};
    /// let nodes = [MemoryNode::new()];
    /// let shop = LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// let payment = LockManager::builder().nodes(nodes).audience("payment").connect().await?;
    ///
    /// let guard = shop.lock("order:7").acquire().await?;
    /// let delegation = guard.delegate().audience("payment").create()?;
    /// let adopted = payment.adopt(delegation.as_str(), "order:7").await?;
    /// assert_eq!(adopted.token(), guard.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Draws owner ids, epochs and jitter from this seed, so that a simulated run can be replayed. **Only for simulations**:
    /// two managers with the same seed draw the same owner ids, and mistake each other's locks for their own.
    ///
    /// Defaults to the system's randomness.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).seed(7).connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds an observer, which is told what the manager does: see [`LockObserver`]. With several, each is told.
    ///
    /// Defaults to none.
    pub fn observer(mut self, observer: Arc<dyn LockObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets whether the names of resources are left out of spans, events and the dashboard of `lock-axum`, because they say something
    /// about customers, for example. The template and the fencing token remain.
    ///
    /// The errors that callers get still name the resource, which they know. The responses that `lock-axum` makes of them never do.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .redact(true) // spans and events have the template "user:{id}", and no ids
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn redact(mut self, redact: bool) -> Self {
        self.redact = redact;
        self
    }
}
