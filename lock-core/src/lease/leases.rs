use std::ops::Index;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::time::Instant;

use super::Lease;
use super::state::Bond;
use crate::error::{LockError, LossReason};

/// A view of the held locks of a set. Cheap to clone; it cannot release them.
///
/// The locks have the order in which they were written, and each has a [`Lease`] and a token of its own: nothing orders the tokens
/// of different resources. Two names that are the same share a lease.
///
/// The loss of one lock is the loss of all: when one lease ends, all others end at once. A lock that an outer scope holds
/// already is shared with that scope, and outlives the set.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
/// assert_eq!(set[0].resource(), "user:7");
/// let stock = set.get("stock:42").map(|lease| lease.token()); // send it with every write to the stock
/// # assert!(stock.is_some());
/// let leases = set.leases();
/// set.release().await?;
/// assert!(!leases.is_valid());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Leases(Arc<[Lease]>);

#[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
impl Leases {
    /// The leases in the order in which their names were written: at least one.
    pub(crate) fn new(written: impl IntoIterator<Item = Lease>) -> Self {
        Self(written.into_iter().collect())
    }

    /// How many names were written: 1 to 32.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The lease on a resource, if it belongs to the set.
    pub fn get(&self, resource: &str) -> Option<&Lease> {
        self.iter().find(|lease| lease.resource() == resource)
    }

    /// The leases, in the order in which their names were written.
    pub fn iter(&self) -> slice::Iter<'_, Lease> {
        self.0.iter()
    }

    /// The remaining validity of the lock that has the least, unless the leases are renewed. Zero once they have ended.
    pub fn remaining(&self) -> Duration {
        self.iter().map(Lease::remaining).min().unwrap_or_default()
    }

    /// Whether all locks are still held. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let now = Instant::now();
        self.iter().all(|lease| lease.is_valid_at(now))
    }

    /// Returns an error if the leases have ended. For use between the steps of long work.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], for the lock that was lost first if that is known.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// for _page in 0..3 {
    ///     set.check()?; // stop as soon as one of the locks is lost
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LockError> {
        if self.is_valid() { Ok(()) } else { Err(self.lost_error()) }
    }

    /// Resolves when the leases have ended: one of them was lost, or they were released. Immediately if they have ended already.
    ///
    /// It has timers of its own, as [`Lease::lost`] has.
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
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// let lost = set.lost();
    /// set.release().await?;
    /// lost.await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        any_lost(self.0.to_vec())
    }

    pub(crate) fn lost_error(&self) -> LockError {
        let first = self.iter().find(|lease| lease.loss().is_some_and(|reason| reason != LossReason::SetLost));
        first.unwrap_or(&self.0[0]).lost_error()
    }
}

/// Ties leases that were acquired for a set to each other, and to those that it shares with outer scopes. One of them may have been
/// lost before, so they have to be checked after this.
pub(crate) fn tie(own: &[Lease], outer: &[Lease]) {
    if own.len() + outer.len() < 2 {
        return;
    }
    let weak = |leases: &[Lease]| leases.iter().map(|lease| Arc::downgrade(&lease.0)).collect();
    let bond = Arc::new(Bond::new(weak(own), weak(outer)));
    for lease in own {
        // A lease is acquired for one set.
        _ = lease.0.bond.set(Arc::clone(&bond));
    }
    for lease in outer {
        let mut sets = lease.0.inner_sets.lock();
        sets.retain(|set| set.strong_count() > 0);
        sets.push(Arc::downgrade(&bond));
    }
}

/// Resolves when one of these leases has ended. There is at least one.
pub(crate) fn any_lost(leases: Vec<Lease>) -> impl Future<Output = ()> + Send + use<> {
    let lost = select_all(leases.into_iter().map(|lease| Box::pin(lease.lost())));
    async move {
        lost.await;
    }
}

impl Index<usize> for Leases {
    type Output = Lease;

    /// The lease on the resource that was written in this place, counted from 0.
    ///
    /// # Panics
    ///
    /// If fewer were written.
    fn index(&self, place: usize) -> &Lease {
        &self.0[place]
    }
}

impl<'a> IntoIterator for &'a Leases {
    type Item = &'a Lease;
    type IntoIter = slice::Iter<'a, Lease>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
