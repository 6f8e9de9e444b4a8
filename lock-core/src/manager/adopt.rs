use super::LockManager;
use crate::delegation::{AdoptError, AdoptedLease, Adopter, adopt};

impl LockManager {
    /// Adopts a [delegation](crate::Lease::delegate) that another service made of a lock on the same masters: asks them whether that service
    /// still has the lock, and takes its lease over for the work that it asked for. Nothing is locked, and nobody waits.
    ///
    /// # Errors
    ///
    /// See [`AdoptError`]. None is a reason to acquire the lock instead, except for a new piece of work.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let delegation = guard.delegate().create()?;
    /// let adopted = locks.adopt(delegation.as_str()).await?;
    /// assert!(adopted.is_valid());
    /// guard.release().await?; // left to expire: the delegation is unfinished
    /// assert!(adopted.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn adopt(&self, delegation: &str) -> Result<AdoptedLease, AdoptError> {
        let inner = &self.0;
        let adopter = Adopter {
            manager: inner.id,
            engine: &inner.engine,
            registry: &inner.leases,
            closing: &inner.closing,
            audience: inner.audience.as_deref(),
            options: inner.defaults.clone(),
        };
        adopt(delegation, adopter).await
    }
}
