use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::Bond;
use super::delegations::Delegations;
use crate::engine::{Engine, Grant, Release};
use crate::error::{LockError, LossReason};
use crate::node::{LockKeys, QueuePosition};
use crate::observer::Hold;
use crate::options::LockOptions;
use crate::quorum::drift;
use crate::random::OwnerId;
use crate::resource::Resource;
use crate::token::FencingToken;
use crate::waiting::LocalPermit;

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
pub struct Lease(Arc<State>);

struct State {
    /// Tells leases apart.
    id: u64,
    manager: u64,
    resource: Resource,
    keys: LockKeys,
    owner: OwnerId,
    token: FencingToken,
    options: LockOptions,
    hold: Hold,
    since: Instant,
    /// When validity ends unless `max_hold` ends it before, in microseconds after `since`; [`ENDED`] when the lease has ended.
    valid_for: AtomicU64,
    /// When `max_hold` ends, in microseconds after `since`.
    hold_ends: AtomicU64,
    /// Notified when a renewal has moved the end.
    extended: Notify,
    reason: OnceLock<LossReason>,
    ended: CancellationToken,
    /// For how many guards it is held. The last of them releases.
    holders: AtomicUsize,
    delegations: Delegations,
    /// What the nodes hold for this lease; `None` once it is being released. Held locked while a key is put back, so that a
    /// release can only come after it.
    grant: Mutex<Option<Grant>>,
    /// The permit of the local queue. Given up when the lease ends: the next caller need not wait for a guard that holds
    /// nothing any more.
    permit: Mutex<Option<LocalPermit>>,
    /// The set that the lease was acquired for.
    bond: OnceLock<Arc<Bond>>,
    /// The sets of inner scopes that share the lease: they are lost with it.
    inner_sets: Mutex<Vec<Weak<Bond>>>,
}

const ENDED: u64 = 0;

/// Waits for a time; outside a runtime, where there are no timers, for ever.
async fn pass(time: Duration) {
    match Handle::try_current() {
        Ok(_) => sleep(time).await,
        Err(_) => pending().await,
    }
}

impl Lease {
    /// The fencing token of this grant (not the latest of the resource).
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// The name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.0.resource.as_str()
    }

    /// What the name of the resource was made from, such as `stock:{sku}`; `other` if that is not known. See
    /// [`LockRequest::template`](crate::LockRequest::template).
    #[must_use]
    pub fn template(&self) -> &str {
        self.0.hold.template()
    }

    /// How long ago the lease began.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.0.since.elapsed()
    }

    /// The remaining validity, unless the lease is renewed. Zero once it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let remaining = self.remaining_alone();
        self.bond().map_or(remaining, |bond| bond.remaining().min(remaining))
    }

    /// Whether the lock is still held. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid_alone() && self.bond().is_none_or(Bond::is_valid)
    }

    /// Resolves when the lease has ended: it was lost, or released. Immediately if it has ended already.
    ///
    /// It has a timer of its own, on the runtime that polls it. So it resolves in time whatever becomes of the runtime that
    /// renews the lease. Polled outside a runtime, it depends on that one.
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
            // Renewals move the end, so it is looked for again when the timer fires.
            while lease.is_valid() {
                tokio::select! {
                    biased;
                    () = lease.0.ended.cancelled() => return,
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

    /// The lease of the next holder of a grant.
    pub(crate) fn new(
        manager: u64,
        resource: Resource,
        options: LockOptions,
        mut grant: Grant,
        permit: Option<LocalPermit>,
        caller: &Span,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);

        let sent = grant.sent();
        // A grant that is handed out has a token; 0 is below every other and would be refused.
        let token = FencingToken::new(grant.next_token().unwrap_or_default());
        let max_hold = options.max_hold;
        let hold = Hold::begin(grant.reporter(), &resource, &options, token, caller);
        let lease = Self(Arc::new(State {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            manager,
            resource,
            keys: grant.keys().clone(),
            owner: grant.owner(),
            token,
            options,
            hold,
            since: Instant::now(),
            valid_for: AtomicU64::new(ENDED),
            hold_ends: AtomicU64::new(micros(max_hold)),
            extended: Notify::new(),
            reason: OnceLock::new(),
            ended: CancellationToken::new(),
            holders: AtomicUsize::new(1),
            delegations: Delegations::default(),
            grant: Mutex::new(Some(grant)),
            permit: Mutex::new(permit),
            bond: OnceLock::new(),
            inner_sets: Mutex::default(),
        }));
        lease.0.valid_for.store(lease.micros_until(lease.expires(sent)), Ordering::Release);
        lease
    }

    /// Holds it for another guard. Returns false if the last one has ended, and the lease with it.
    pub(super) fn add_holder(&self) -> bool {
        let another = |holders: usize| (holders > 0).then_some(holders + 1);
        self.0.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, another).is_ok()
    }

    /// Holds it for one guard less. Returns whether that was the last.
    pub(super) fn remove_holder(&self) -> bool {
        self.0.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether this is a lease of a manager on a resource.
    pub(super) fn is_on(&self, manager: u64, resource: &Resource) -> bool {
        self.0.manager == manager && self.0.resource == *resource
    }

    /// Whether this is a lease of a manager on a resource that comes after this one in the order of sets.
    pub(super) fn is_after(&self, manager: u64, resource: &Resource) -> bool {
        self.0.manager == manager && self.resource() > resource.as_str()
    }

    pub(crate) fn keys(&self) -> &LockKeys {
        &self.0.keys
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.0.owner
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.0.options.ttl
    }

    /// The engine of its manager; `None` once the lock is being released.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.grant().as_ref().map(|grant| Arc::clone(grant.engine()))
    }

    /// Whether another process holds the lock, and delegated it. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.grant().as_ref().is_some_and(Grant::is_adopted)
    }

    pub(crate) fn delegations(&self) -> &Delegations {
        &self.0.delegations
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.0.hold
    }

    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.0.ended
    }

    /// What the nodes hold for this lease, locked.
    pub(crate) fn grant(&self) -> MutexGuard<'_, Option<Grant>> {
        self.0.grant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of a validity that counts from `sent`, the time before the first request. It does not count from the replies,
    /// because this task may have slept since.
    fn expires(&self, sent: Instant) -> Instant {
        let ttl = self.0.options.ttl;
        sent + ttl.saturating_sub(drift(ttl))
    }

    /// When the next renewal is due: a third of the time to live after the last one. `None` once the lock is being released.
    pub(super) fn renewal_due(&self) -> Option<Instant> {
        self.grant().as_ref().map(|grant| grant.sent() + self.0.options.ttl / 3)
    }

    pub(super) fn renewal_is_due(&self) -> bool {
        self.renewal_due().is_some_and(|due| due <= Instant::now())
    }

    /// When the renewer has to deal with the lease: renew it, or end it.
    pub(crate) fn due(&self) -> Instant {
        let ends = Instant::now() + self.remaining_alone();
        self.renewal_due().filter(|_| self.renews()).map_or(ends, |due| due.min(ends))
    }

    /// Whether there is something to renew: validity does not reach the end of `max_hold`.
    pub(super) fn renews(&self) -> bool {
        self.0.options.renew && self.valid_for() != self.0.hold_ends.load(Ordering::Acquire)
    }

    /// Counts `max_hold` from now on: the set that the lease belongs to is complete.
    pub(super) fn begin_hold(&self, max_hold: Duration) {
        self.0.hold_ends.store(micros(self.age() + max_hold), Ordering::Release);
    }

    /// When validity ends, in microseconds after `since`.
    fn valid_for(&self) -> u64 {
        self.0.valid_for.load(Ordering::Acquire).min(self.0.hold_ends.load(Ordering::Acquire))
    }

    /// The remaining validity, whatever becomes of other locks of its set.
    pub(super) fn remaining_alone(&self) -> Duration {
        Duration::from_micros(self.valid_for()).saturating_sub(self.0.since.elapsed())
    }

    /// Whether the lock is still held, whatever became of other locks of its set.
    pub(super) fn is_valid_alone(&self) -> bool {
        let valid_for = self.valid_for();
        let valid = Duration::from_micros(valid_for) > self.0.since.elapsed();
        if !valid {
            let held_for_longest = valid_for == self.0.hold_ends.load(Ordering::Acquire);
            self.end(if held_for_longest { LossReason::MaxHold } else { LossReason::Expired });
        }
        valid
    }

    /// The set that the lease was acquired for, unless that is released.
    pub(super) fn bond(&self) -> Option<&Bond> {
        self.0.bond.get().map(|bond| &**bond).filter(|bond| !bond.is_released())
    }

    pub(super) fn bond_with(&self, bond: &Arc<Bond>) {
        // A lease is acquired for one set.
        _ = self.0.bond.set(Arc::clone(bond));
    }

    /// The sets of inner scopes that share the lease, locked.
    pub(super) fn inner_sets(&self) -> MutexGuard<'_, Vec<Weak<Bond>>> {
        self.0.inner_sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn downgrade(&self) -> WeakLease {
        WeakLease(Arc::downgrade(&self.0))
    }

    /// Resolves when a renewal moves the end of validity after this call.
    pub(super) fn extended(&self) -> Notified<'_> {
        self.0.extended.notified()
    }

    pub(super) fn take_permit(&self) -> Option<LocalPermit> {
        self.0.permit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the lease, and takes what the nodes hold for it. `None` if it is being released already.
    pub(super) fn end_and_take(&self, reason: LossReason) -> Option<Grant> {
        self.end(reason);
        self.grant().take()
    }

    /// Ends the lease and sends its release, after everything that was sent for it. `None` if it is being released already.
    pub(crate) fn revoke(&self, reason: LossReason) -> Option<Release> {
        let grant = self.end_and_take(reason)?;
        self.release_grant(grant, QueuePosition::None)
    }

    /// Sends the release of a lease that has ended. `None` if the lock is another service's, or if another service may still work under
    /// it: the key is then left to expire, or the next holder would work beside that service.
    pub(super) fn release_grant(&self, grant: Grant, position: QueuePosition) -> Option<Release> {
        if grant.is_adopted() {
            return None;
        }
        if self.0.delegations.unfinished() {
            grant.leave_to_expire();
            return None;
        }
        Some(grant.release(position))
    }

    /// Whether the lease ended in another way than by its guard.
    pub(super) fn was_lost(&self) -> bool {
        self.0.reason.get().is_some_and(|reason| *reason != LossReason::Released)
    }

    /// What ended the lease, if it has ended.
    pub(super) fn loss(&self) -> Option<LossReason> {
        self.0.reason.get().copied()
    }

    pub(crate) fn lost_error(&self) -> LockError {
        LockError::Lost {
            resource: self.resource().to_owned(),
            token: self.token(),
            reason: self.0.reason.get().copied().unwrap_or(LossReason::Expired),
        }
    }

    /// Ends the lease, once and for all; unless it was released, also those of its set.
    pub(crate) fn end(&self, reason: LossReason) {
        if self.end_alone(reason)
            && reason != LossReason::Released
            && let Some(bond) = self.bond()
        {
            bond.end(reason);
        }
    }

    /// Ends the lease, but no other of its set. Returns whether it had not ended before.
    pub(super) fn end_alone(&self, reason: LossReason) -> bool {
        let first = self.0.reason.set(reason).is_ok();
        self.0.valid_for.store(ENDED, Ordering::Release);
        self.0.ended.cancel();
        // The guard takes the permit before it ends the lease; otherwise it is passed on now.
        drop(self.take_permit());
        if first {
            self.0.hold.end(reason, self.age());
            let inner_sets = std::mem::take(&mut *self.inner_sets());
            inner_sets.iter().filter_map(Weak::upgrade).for_each(|set| set.end(reason));
        }
        first
    }

    /// Extends validity after a renewal whose requests were sent at `sent`; validity that ends later stays. Returns false if
    /// the lease has ended.
    pub(super) fn extend(&self, sent: Instant) -> bool {
        let extended = self.extend_to(self.expires(sent));
        if extended && let Some(grant) = &mut *self.grant() {
            grant.renewed(sent);
        }
        extended
    }

    /// Extends validity to a time; validity that ends later stays. Returns false if the lease has ended.
    pub(crate) fn extend_to(&self, end: Instant) -> bool {
        let until = self.micros_until(end);
        let hold_ends = self.0.hold_ends.load(Ordering::Acquire);
        let extended = self.0.valid_for.fetch_update(Ordering::AcqRel, Ordering::Acquire, |valid_for| {
            let over = valid_for == ENDED || Duration::from_micros(valid_for.min(hold_ends)) <= self.0.since.elapsed();
            (!over).then_some(valid_for.max(until))
        });
        self.0.extended.notify_waiters();
        extended.is_ok()
    }

    /// The time from the beginning of the lease to an instant; never the mark of an ended lease.
    fn micros_until(&self, until: Instant) -> u64 {
        micros(until.saturating_duration_since(self.0.since)).max(ENDED + 1)
    }
}

/// A lease that may have ended, and been dropped.
pub(super) struct WeakLease(Weak<State>);

impl WeakLease {
    pub(super) fn upgrade(&self) -> Option<Lease> {
        self.0.upgrade().map(Lease)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resource", &self.0.resource)
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .field("ended", &self.0.reason.get())
            .finish_non_exhaustive()
    }
}
