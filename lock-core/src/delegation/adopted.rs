use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::Span;

use super::credential::{Claims, Credential};
use super::error::AdoptError;
use super::prove::{Proof, prove};
use crate::cluster::Cluster;
use crate::engine::{Background, Engine, Grant};
use crate::error::LossReason;
use crate::lease::{Lease, LeaseRegistry, LockGuard, SharedGrant};
use crate::limits::MAX_HOLD;
use crate::options::LockOptions;
use crate::quorum::drift;
use crate::resource::Resource;

/// The shortest pause between two looks at a lock.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// A lock that another service holds and delegated to this one. It dereferences to a [`Lease`], whose token is the holder's.
///
/// It is valid as long as a majority of the masters has the lock for that holder, and until the delegation expires: the masters are looked
/// at again at a third of what is left. It can neither be renewed nor released from here; dropping it says that the work is done.
/// A shutdown waits for it as for a guard.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = lock_core::LockManager::in_memory();
/// let guard = locks.lock("order:7").acquire().await?;
/// let delegation = guard.delegate().create()?;
///
/// // In the service that is called, with what was in the header:
/// let adopted = locks.adopt(delegation.as_str()).await?;
/// assert_eq!((adopted.resource(), adopted.token()), ("order:7", guard.token()));
/// adopted.check()?; // between the steps of long work
/// drop(adopted); // the work is done
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the work under the lock is over when it is dropped: keep it with `let _adopted = …`, because `let _ = …` drops it at once"]
pub struct AdoptedLease(LockGuard);

impl AdoptedLease {
    /// The lease, to pass around.
    pub fn lease(&self) -> Lease {
        self.0.lease()
    }

    /// A guard that holds nothing on the masters. Not public API.
    #[doc(hidden)]
    pub fn into_guard(self) -> LockGuard {
        self.0
    }
}

impl Deref for AdoptedLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

/// Who adopts a delegation.
pub(crate) struct Adopter<'a> {
    pub(crate) manager: u64,
    /// The engine of the shard that has the lock on a resource.
    pub(crate) engine: &'a (dyn Fn(&str) -> &'a Arc<Engine> + Send + Sync),
    pub(crate) background: &'a Background,
    pub(crate) registry: &'a Arc<LeaseRegistry>,
    pub(crate) audience: Option<&'a str>,
    /// The manager's defaults for locks.
    pub(crate) options: LockOptions,
}

impl Adopter<'_> {
    /// Adopts a delegation, if a majority of the nodes proves it.
    pub(crate) async fn adopt(self, text: &str) -> Result<AdoptedLease, AdoptError> {
        let credential = Credential::parse(text).ok_or(AdoptError::Malformed)?;
        let claims = &credential.claims;
        let resource = Resource::parse_with_slot(&claims.resource).map_err(|_| AdoptError::Malformed)?;
        let engine = (self.engine)(resource.as_str());
        let cluster = &engine.cluster;
        let keys = cluster.keyspace.keys(&resource);
        if !claims.kind.allows_slot(keys.slot()) {
            return Err(AdoptError::Malformed);
        }
        // Before a master is asked: anybody can send a text, and each would cost them a look.
        if let Some(theirs) = claims.audience.clone().filter(|theirs| self.audience != Some(theirs)) {
            return Err(AdoptError::OtherAudience { theirs, ours: self.audience.map(ToOwned::to_owned) });
        }
        // A shutdown waits until it is decided.
        let _in_progress = self.background.tracker.token();
        self.check_open(claims)?;
        self.background.home.start();
        cluster.first_contact().await;
        let ours = cluster.membership().roster().map(|roster| roster.set);
        if let Some(ours) = ours.filter(|ours| *ours != claims.set) {
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
        let options = LockOptions { ttl, renew: false, max_hold: MAX_HOLD, kind: claims.kind, ..self.options.clone() };
        let grant = SharedGrant::new(Grant::adopted(engine, &keys, owner, sent, ttl, claims.token));
        let (resource, span) = (resource.without_slot(), Span::current());
        let guard = LockGuard::begin(self.registry, self.manager, resource, options, grant, None, &span);
        // The manager may have been closed meanwhile, and a shutdown that has counted its holders must not miss this one.
        self.check_open(claims)?;
        let (engine, lease) = (Arc::clone(engine), guard.lease());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = lease.ended() => {}
                () = watch(&engine, &lease, &credential, not_after) => {}
            }
        });
        Ok(AdoptedLease(guard))
    }

    fn check_open(&self, claims: &Claims) -> Result<(), AdoptError> {
        let closed = || AdoptError::ShuttingDown { resource: claims.resource.clone() };
        if self.background.closing.is_cancelled() { Err(closed()) } else { Ok(()) }
    }
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

/// Looks at the lock again and again, and ends the lease when its holder does not have it any more.
async fn watch(engine: &Engine, lease: &Lease, credential: &Credential, not_after: Instant) {
    while lease.is_valid() {
        sleep((lease.remaining() / 3).max(MIN_PAUSE)).await;
        match prove(engine, lease.keys(), credential).await {
            Proof::Held { sent, remaining, .. } => {
                let ttl = remaining.min(not_after.saturating_duration_since(sent));
                // No further than a grant of that time.
                _ = lease.extend_to(sent + ttl.saturating_sub(drift(ttl)));
            }
            Proof::Refuted(_) => lease.end(LossReason::Gone),
            // What was proven last stands, and ends by itself unless a majority replies before.
            Proof::Unknown(_) => {}
        }
    }
}
