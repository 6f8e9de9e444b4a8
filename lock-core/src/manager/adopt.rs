use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use super::LockManager;
use super::manager::Inner;
use crate::cluster::Cluster;
use crate::delegation::{AdoptError, AdoptedLease, Claims, Credential, Expected, Proof, prove};
use crate::engine::Grant;
use crate::lease::{Lease, LockGuard, SharedGrant};
use crate::limits::MAX_HOLD;
use crate::options::LockOptions;
use crate::quorum::drift;
use crate::resource::Resource;

impl LockManager {
    /// Adopts a [delegation](crate::Lease::delegate) that another service made of its lock on this resource, on the same masters: asks them
    /// whether that service still has the lock, and returns a lease for the work that it asked for. Nothing is locked, and nobody waits.
    ///
    /// `resource` is what the work is on. Take it from the request, never from the delegation. For permits, the name of the resource accepts
    /// any slot, and the name of a slot, such as `export{2}`, only that one.
    ///
    /// A lock that is read, and a permit, can be delegated as well. Work that writes should check the [`kind`](crate::Lease::kind) first: others
    /// may hold the lock, too.
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
    /// use lock_core::Kind;
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let delegation = guard.delegate().create()?;
    /// let adopted = locks.adopt(delegation.as_str(), "stock:42").await?;
    /// assert_eq!(adopted.kind(), Kind::Write); // nobody else works under it
    /// guard.release().await?; // left to expire: the delegation is unfinished
    /// assert!(adopted.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn adopt(
        &self,
        delegation: impl AsRef<str>,
        resource: impl AsRef<str>,
    ) -> Result<AdoptedLease, AdoptError> {
        let expected = Expected { resource: Some(resource.as_ref()), ..Expected::default() };
        self.adopt_expected(delegation.as_ref(), expected).await
    }

    /// Adopts a delegation of what is expected. Not public API.
    #[doc(hidden)]
    pub async fn adopt_expected(&self, delegation: &str, expected: Expected<'_>) -> Result<AdoptedLease, AdoptError> {
        let credential = Credential::parse(delegation).ok_or(AdoptError::Malformed)?;
        let claims = &credential.claims;
        let resource = Resource::parse_with_slot(&claims.resource).map_err(|_| AdoptError::Malformed)?;
        let inner = &*self.0;
        let engine = &inner.shard_of(resource.as_str()).engine;
        let cluster = &engine.cluster;
        let keys = cluster.keyspace.keys(&resource);
        if !claims.kind.allows_slot(keys.slot()) {
            return Err(AdoptError::Malformed);
        }
        // Before a master is asked: anybody can send a text, and each would cost them a look.
        if let Some(theirs) = claims.audience.clone().filter(|theirs| inner.audience.as_ref() != Some(theirs)) {
            return Err(AdoptError::OtherAudience { theirs, ours: inner.audience.clone() });
        }
        let requested = resource.without_slot();
        expected.check(claims, requested.as_str(), keys.slot())?;
        // A shutdown waits until it is decided.
        let _in_progress = inner.background.tracker.token();
        check_open(inner, claims)?;
        inner.background.home.start();
        engine.first_contact().await;
        let ours = cluster.membership().roster().map(|roster| roster.set);
        if let Some(ours) = ours.filter(|ours| *ours != claims.set) {
            // Ours may have been formed again, which this manager would find out half a minute later. No more often than for other errors:
            // anybody can send a text.
            (0..cluster.size()).for_each(|node| cluster.reschedule(node));
            return Err(AdoptError::OtherSet { theirs: claims.set.to_string(), ours: ours.to_string() });
        }
        let (owner, sent, remaining) = match prove(engine, &keys, &credential).await {
            Proof::Held { owner, sent, remaining } => (owner, sent, remaining),
            Proof::Refuted(votes) => return Err(AdoptError::Refused { resource: claims.resource.clone(), votes }),
            Proof::Unknown(votes) => return Err(AdoptError::NoQuorum { resource: claims.resource.clone(), votes }),
        };
        let not_after = ends(claims, cluster)?;
        // As long as if it had been granted for this time when the masters were asked.
        let ttl = remaining.min(not_after.saturating_duration_since(sent));
        let options = LockOptions {
            ttl,
            renew: false,
            max_hold: MAX_HOLD,
            kind: claims.kind,
            template: expected.template,
            ..inner.defaults.clone()
        };
        let grant = SharedGrant::new(Grant::adopted(engine, &keys, owner, sent, ttl, claims.token));
        let lease = Lease::new(inner.id, requested, options, grant, None, &Span::current());
        let guard = LockGuard::begin(&inner.leases, lease);
        // The manager may have been closed meanwhile, and a shutdown that has counted its holders must not miss this one.
        check_open(inner, claims)?;
        inner.adoptions.add(guard.lease(), credential, not_after);
        Ok(AdoptedLease(guard))
    }
}

fn check_open(inner: &Inner, claims: &Claims) -> Result<(), AdoptError> {
    let closed = || AdoptError::ShuttingDown { resource: claims.resource.clone() };
    if inner.background.closing.is_cancelled() { Err(closed()) } else { Ok(()) }
}

/// When the delegation ends. A majority has just replied, so the cluster clock is known.
fn ends(claims: &Claims, cluster: &Cluster) -> Result<Instant, AdoptError> {
    // Read before the clock, so that a pause of this process between the two shortens the lease.
    let (now, clock) = (Instant::now(), cluster.clock());
    let left = Duration::from_micros(claims.not_after.saturating_sub(clock));
    // With less, the lease would have ended already.
    if left <= drift(left) {
        let ago = Duration::from_micros(clock.saturating_sub(claims.not_after));
        return Err(AdoptError::Expired { resource: claims.resource.clone(), ago });
    }
    Ok(now + left)
}
