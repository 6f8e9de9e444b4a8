use lock_core::{FencingToken, Lease};

/// The name of a lock and the token of one of its holders, for work that has no [`Lease`].
///
/// Tokens of different locks cannot be compared, so a claimant is made from a lease, or from an
/// [`AdoptedLease`](crate::delegation::AdoptedLease), and the two stay together from then on. With the feature `serde`, it can be stored in a
/// record or sent to another process, which then claims with `claim_for`.
///
/// A claimant only says who held the lock. A [`Lease`] also knows whether its holder still does: use that wherever there is one.
///
/// # Examples
///
/// ```
/// use lock_axum::LockManager;
/// use lock_axum::fence::Claimant;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_axum::LockError> {
/// let guard = LockManager::in_memory().lock("order:7").acquire().await?;
/// let claimant = Claimant::of(&guard);
/// assert_eq!((claimant.resource(), claimant.token()), ("order:7", guard.token()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Claimant {
    resource: String,
    token: FencingToken,
}

impl Claimant {
    /// The holder of a lease.
    pub fn of(lease: &Lease) -> Self {
        Self { resource: lease.resource().to_owned(), token: lease.token() }
    }

    /// The name of the resource, [`Lease::resource`].
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The token of the lease.
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

impl From<&Lease> for Claimant {
    fn from(lease: &Lease) -> Self {
        Self::of(lease)
    }
}
