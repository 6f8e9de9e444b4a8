use std::sync::atomic::Ordering;

use tracing::Instrument as _;

use super::caller::Caller;
use super::check_options::check_options;
use super::manager::Inner;
use super::shards::Shard;
use crate::engine::{AttemptKind, FailedAttempt, Grant};
use crate::error::LockError;
use crate::kind::Kind;
use crate::lease::{Lease, LockGuard, ReadShare, SharedGrant};
use crate::limits::check_permits;
use crate::node::LockKeys;
use crate::observer::Acquiring;
use crate::options::LockOptions;
use crate::quorum::Failure;
use crate::resource::Resource;
use crate::waiting::LocalHold;

impl Inner {
    /// Takes the lock on a resource.
    pub(super) async fn acquire(&self, resource: &str, options: &LockOptions) -> Result<LockGuard, LockError> {
        let acquiring = Acquiring::begin(self.reporter(), resource, options);
        // Boxed: who awaits it moves the future about ten times before it is first polled.
        let taken = Box::pin(self.take(resource, options, &acquiring).instrument(acquiring.span.clone())).await;
        acquiring.end(taken.as_ref().err());
        taken
    }

    async fn take(
        &self,
        resource: &str,
        options: &LockOptions,
        acquiring: &Acquiring<'_>,
    ) -> Result<LockGuard, LockError> {
        let (shard, leases) = (self.shard_of(resource), &self.leases);
        let caller = Caller { resource, options, shard, leases, acquiring };
        let parsed = self.check(&caller)?;
        // Before everything else: the task holds this lock, so to wait for it would be to wait for itself.
        if let Some(lease) = Lease::in_scope(self.id, &parsed, options.kind) {
            return Box::pin(caller.share(lease)).await;
        }
        self.warn_if_out_of_order(&parsed, options);

        // Declared before any guard, so that it is dropped after it: a shutdown waits for what this acquisition has to release.
        let _in_progress = self.background.tracker.token();
        caller.check_open()?;
        self.background.home.start();
        let Shard { engine, turns } = caller.shard;
        // An attempt right after the start would find no node that votes, and be answered as an outage.
        engine.first_contact().await;
        let keys = turns.first_keys(&parsed, options.kind);
        // In the order of what it costs: nothing, one attempt, a place in the queue.
        let taken = if options.kind.is_read()
            && let Some(share) = Box::pin(caller.share_reading(&keys)).await
        {
            Taken::Share(share)
        } else if options.wait.is_zero() {
            let grant = caller.try_once(keys).await?;
            let slot = turns.hold_slot(grant.keys());
            Taken::Grant(grant, slot)
        } else {
            caller.enter_queue_and_try(&keys).await?
        };
        let guard = self.begin_lease(taken, parsed, options.clone(), acquiring);
        // The manager may have been closed meanwhile, and a shutdown that has counted its holders must not miss this one.
        caller.check_open()?;
        Ok(guard)
    }

    /// Checks the name of the resource, and the options.
    pub(super) fn check(&self, &Caller { resource, options, .. }: &Caller<'_>) -> Result<Resource, LockError> {
        let parsed = Resource::parse(resource)
            .map_err(|reason| LockError::InvalidResource { resource: resource.to_owned(), reason })?;
        check_options(options, self.max_ttl)
            .map_err(|reason| LockError::InvalidOptions { resource: resource.to_owned(), reason })?;
        if let Kind::Permit { of } = options.kind {
            check_permits(of).map_err(|reason| LockError::InvalidPermits { resource: resource.to_owned(), reason })?;
        }
        Ok(parsed)
    }

    /// Warns once if a caller waits for a lock inside the scope of one that comes after it in the order of sets.
    pub(super) fn warn_if_out_of_order(&self, resource: &Resource, options: &LockOptions) {
        // A caller that does not wait is in no circle of callers that wait for each other.
        if options.wait.is_zero() || self.warned_of_order.load(Ordering::Relaxed) {
            return;
        }
        if let Some(held) = Lease::in_scope_after(self.id, resource)
            && !self.warned_of_order.swap(true, Ordering::Relaxed)
        {
            let reporter = self.reporter();
            log_event!(warn: "lock.nested_out_of_order",
                resource = reporter.shown(resource.as_str()), held = reporter.shown(held.resource()),
                "a lock is acquired inside the scope of one whose name comes after it: callers that nest the two in opposite \
                 orders wait for each other until their `wait` is over; acquire both with lock_all, or nest locks in the order \
                 of their names; this is logged once");
        }
    }

    /// Begins the lease of a lock that was taken.
    pub(super) fn begin_lease(
        &self,
        taken: Taken,
        resource: Resource,
        options: LockOptions,
        acquiring: &Acquiring<'_>,
    ) -> LockGuard {
        let leases = &self.leases;
        let (grant, local_hold) = match taken {
            Taken::Grant(grant, mut local_hold) => {
                // Callers that do not wait are told by it who has the lock, without asking the nodes.
                if let Some(LocalHold::Turn(turn)) = &mut local_hold {
                    turn.lock_taken(grant.nodes(), grant.sent + options.ttl);
                }
                if options.kind.is_read() {
                    // Dropped when others can join the reader, the turn goes to the callers behind: they read, too, or wait to write.
                    (ReadShare::first(leases, grant, options.renew).into_grant(), None)
                } else {
                    (SharedGrant::new(grant), local_hold)
                }
            }
            Taken::Share(share) => (share.into_grant(), None),
        };
        let lease = Lease::new(self.id, resource, options, grant, local_hold, &acquiring.caller);
        LockGuard::begin(leases, lease)
    }
}

impl Caller<'_> {
    /// Shares what another caller of this process reads, unless somebody waits in the local queue, who came before.
    pub(super) async fn share_reading(&self, keys: &LockKeys) -> Option<ReadShare> {
        // In an outage that lasts, the nodes are not asked.
        if self.shard.engine.outage_lasts() || self.shard.turns.callers_before(keys).is_some() {
            return None;
        }
        ReadShare::join(self.leases, &self.shard.engine, keys, self.options.into()).await
    }

    /// Makes one attempt. A caller that does not wait takes no place in the local queue, passes nobody who has one, and makes no
    /// second attempt: only if a slot is held, and another one is free.
    async fn try_once(&self, keys: LockKeys) -> Result<Box<Grant>, LockError> {
        // In an outage that lasts nobody waits.
        if let Some(last) = self.shard.turns.callers_before(&keys).filter(|_| !self.shard.engine.outage_lasts()) {
            return Err(self.answer_behind(last).await);
        }
        let mut attempted = self.attempt_once(&keys).await;
        // The refusal of one slot says which others are free. Without another attempt, a caller would be refused while they are.
        if let Err(FailedAttempt { failure: Failure::Contended { .. }, offers, .. }) = &attempted
            && let Some(slot) = self.shard.any_free(offers)
        {
            attempted = self.attempt_once(&keys.with_slot(slot)).await;
        }
        let failed = match attempted {
            Ok(grant) => return Ok(grant),
            Err(failed) => failed,
        };
        Err(Box::pin(self.answer(failed)).await)
    }

    async fn attempt_once(&self, keys: &LockKeys) -> Result<Box<Grant>, FailedAttempt> {
        let engine = &self.shard.engine;
        let place = engine.enter_line(1, AttemptKind::New, self.started(), self.options.ttl).await?;
        Box::pin(engine.attempt(&place, &self.wants(keys, 1), None)).await
    }
}

/// What a caller took.
pub(super) enum Taken {
    /// From the nodes, or from the caller before it.
    Grant(Box<Grant>, Option<LocalHold>),
    /// Beside other readers of this process.
    Share(ReadShare),
}
