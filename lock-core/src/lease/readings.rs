use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout_at};

use super::LeaseRegistry;
use super::renewer::ask_nodes;
use super::shared_grant::SharedGrant;
use crate::engine::{Engine, Grant};
use crate::mutex::Mutex;
use crate::node::{ByQueue, LockKeys, QueuePosition};
use crate::random::OwnerId;
use crate::waiting::HandoverTerms;

/// How old the nodes' last word is at most when another reader comes that would share a grant. If the nodes were not
/// asked again, the readers of one busy process would keep a writer out for ever.
const HEARD_LATELY: Duration = Duration::from_millis(20);

/// What this process reads: for each lock (none is read that has slots), the grant that further readers may share. As many as locks are held.
#[derive(Default)]
pub(super) struct Readings(Mutex<HashMap<ByQueue, Arc<SharedGrant>>>);

impl Readings {
    /// Offers a grant to further readers, instead of an earlier one.
    pub(super) fn add(&self, grant: &Arc<SharedGrant>) {
        self.0.lock().insert(ByQueue(grant.keys.clone()), Arc::clone(grant));
    }

    /// Offers a grant no longer.
    pub(super) fn remove(&self, grant: &Arc<SharedGrant>) {
        let mut grants = self.0.lock();
        if grants.get(grant.keys.queue()).is_some_and(|offered| Arc::ptr_eq(offered, grant)) {
            grants.remove(grant.keys.queue());
        }
    }

    /// Offers none of these owners' grants any longer.
    pub(super) fn remove_all(&self, owners: impl Fn(OwnerId) -> bool) {
        self.0.lock().retain(|_, grant| !owners(grant.owner));
    }

    fn get(&self, keys: &LockKeys) -> Option<Arc<SharedGrant>> {
        self.0.lock().get(keys.queue()).cloned()
    }
}

/// One reader's share of a grant, until it has a lease. Dropped, it is given up.
pub(crate) struct ReadShare {
    grant: Arc<SharedGrant>,
    registry: Arc<LeaseRegistry>,
    /// Whether a lease has it: that gives it up.
    is_leased: bool,
}

impl ReadShare {
    /// The first share of a grant that was won. Further readers may join, if it is renewed.
    pub(crate) fn first(registry: &Arc<LeaseRegistry>, mut grant: Box<Grant>, is_renewed: bool) -> Self {
        // The turn is passed on, and the position with it.
        grant.give_up_position();
        let grant = SharedGrant::new(grant);
        if is_renewed {
            // One that is not renewed ends by its own `ttl`: who joins late would have little of it, and not know how little.
            registry.readings.add(&grant);
        }
        Self::new(registry, grant)
    }

    /// A share of what this process reads already, if it reads the lock on terms that fit, and no writer waits for it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the share.
    pub(crate) async fn join(
        registry: &Arc<LeaseRegistry>,
        engine: &Arc<Engine>,
        keys: &LockKeys,
        terms: HandoverTerms,
    ) -> Option<Self> {
        let grant =
            registry.readings.get(keys).filter(|grant| terms.ttl == grant.ttl && terms.renew && grant.join())?;
        // From here on, the grant is not released by others.
        let share = Self::new(registry, Arc::clone(&grant));
        // The nodes decide, not this process: only they know of writers that wait in other processes.
        let may_join = may_be_shared(&grant, registry, engine).await;
        // Judged now, not by when the caller came: the nodes' word may be too old by now.
        let fits = grant.grant().as_ref().is_some_and(|grant| terms.fit(grant));
        // It is not offered any longer if its readers were evicted meanwhile.
        let is_offered = registry.readings.get(keys).is_some_and(|offered| Arc::ptr_eq(&offered, &grant));
        (may_join && fits && is_offered && !grant.is_lost()).then_some(share)
    }

    fn new(registry: &Arc<LeaseRegistry>, grant: Arc<SharedGrant>) -> Self {
        Self { grant, registry: Arc::clone(registry), is_leased: false }
    }

    pub(crate) fn into_grant(mut self) -> Arc<SharedGrant> {
        self.is_leased = true;
        Arc::clone(&self.grant)
    }
}

impl Drop for ReadShare {
    fn drop(&mut self) {
        if self.is_leased {
            return;
        }
        if let Some(mut grant) = self.grant.leave() {
            self.registry.readings.remove(&self.grant);
            // It goes on in the background.
            drop(self.grant.release(&mut grant, QueuePosition::None));
        }
    }
}

/// Whether another reader may share a grant without making a writer wait longer. Asks the nodes if their last word is too old.
///
/// # Cancel safety
///
/// Nothing is lost if the future is dropped.
async fn may_be_shared(grant: &Arc<SharedGrant>, registry: &Arc<LeaseRegistry>, engine: &Arc<Engine>) -> bool {
    let (arrived, timeout) = (Instant::now(), engine.node_timeout(grant.ttl));
    loop {
        // The word is as old as its question, not as its answer: a writer may have come to a node right after that replied.
        let Some(word) = grant.sent() else { return false };
        if arrived.saturating_duration_since(word) <= HEARD_LATELY {
            return !grant.is_barred();
        }
        let ask = || ask_nodes(Arc::clone(engine), Arc::clone(registry), Arc::clone(grant)).boxed();
        let question = grant.question(timeout, ask);
        if timeout_at(arrived + timeout, question).await.is_err() || grant.sent() == Some(word) {
            return false;
        }
    }
}
