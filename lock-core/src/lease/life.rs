//! How a lease begins, which guards hold it, when it is renewed and how that extends it, and how it ends. Every end comes through here, and
//! is for good.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use super::Lease;
use super::shared_grant::SharedGrant;
use super::state::State;
use super::term::{Term, expires};
use crate::engine::{Grant, Release};
use crate::error::{LockError, LossReason};
use crate::mutex::Mutex;
use crate::node::QueuePosition;
use crate::observer::Hold;
use crate::options::LockOptions;
use crate::resource::Resource;
use crate::waiting::LocalHold;

impl Lease {
    /// The lease of the next holder of a grant. Its span is a child of the `caller`'s.
    pub(crate) fn new(
        manager: u64,
        resource: Resource,
        options: LockOptions,
        grant: Arc<SharedGrant>,
        local_hold: Option<LocalHold>,
        caller: &Span,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);

        // It is not being released: this lease has a share of it.
        let valid_until = grant.sent().map(|sent| expires(sent, options.ttl));
        let requested = resource.clone();
        let resource = grant.keys.slot().map_or(resource, |slot| requested.slot(slot));
        let hold = Hold::begin(&grant.reporter, &resource, &options, grant.token, caller);
        let term = Term::new(valid_until, options.max_hold);
        #[cfg(feature = "testing")]
        if options.notices_nothing {
            term.stand_still();
        }
        Self(Arc::new(State {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            manager,
            requested,
            resource,
            downgraded: AtomicBool::new(false),
            hold,
            term,
            options,
            holders: AtomicUsize::new(1),
            grant,
            has_given_up: AtomicBool::new(false),
            local_hold: Mutex::new(local_hold),
            bond: OnceLock::new(),
            inner_sets: Mutex::default(),
        }))
    }

    /// Holds it for another guard. Returns false if the last one has ended, and the lease with it.
    pub(super) fn add_holder(&self) -> bool {
        // Never from zero: the guard that saw the count reach it is releasing the lock.
        let another = |holders: usize| (holders > 0).then_some(holders + 1);
        self.0.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, another).is_ok()
    }

    /// Holds it for one guard less. Returns whether that was the last.
    pub(super) fn remove_holder(&self) -> bool {
        self.0.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Counts a renewal by another lease of this process that shares the grant.
    pub(super) fn catch_up(&self) {
        if self.0.options.renew
            && self.kind().is_read()
            && let Some(sent) = self.0.grant.sent()
        {
            self.extend(sent, self.ttl());
        }
    }

    /// When the next renewal is due: see [`renewal_pause`](crate::quorum::renewal_pause). `None` once the lock is being released.
    pub(super) fn renewal_due(&self) -> Option<Instant> {
        self.grant().as_ref().map(|grant| grant.sent + grant.renewal_pause(self.0.options.ttl))
    }

    pub(super) fn renewal_is_due(&self, now: Instant) -> bool {
        self.renewal_due().is_some_and(|due| due <= now)
    }

    /// When the renewer has to deal with the lease: renew it, or end it.
    pub(crate) fn due(&self) -> Instant {
        let ends = self.0.term.ends();
        // One that is not renewed is due at its end all the same: somebody has to end it in time, and pass its turn on.
        self.renewal_due().filter(|_| self.renews()).map_or(ends, |due| due.min(ends))
    }

    /// Whether there is something to renew: validity does not reach the end of `max_hold`.
    pub(super) fn renews(&self) -> bool {
        self.0.options.renew && !self.0.term.is_complete()
    }

    /// Extends validity after requests that were sent at `sent` set this time to live; validity that ends later stays. Returns
    /// false if the lease has ended.
    pub(crate) fn extend(&self, sent: Instant, ttl: Duration) -> bool {
        let is_extended = self.0.term.extend_to(expires(sent, ttl));
        // Those who give up waiting behind it are told when it may be free.
        if is_extended && let Some(LocalHold::Turn(turn)) = &*self.0.local_hold.lock() {
            turn.lock_extended(sent + ttl);
        }
        is_extended
    }

    /// Ends the lease, and takes what the nodes hold for it. `None` if it is being released already, or shared by other leases.
    pub(super) fn end_and_take(&self, reason: LossReason) -> Option<Box<Grant>> {
        self.end(reason);
        if self.0.has_given_up.swap(true, Ordering::AcqRel) { None } else { self.0.grant.leave() }
    }

    /// Ends the lease and sends its release, after everything that was sent for it. `None` if it is being released already, or
    /// shared by other leases.
    pub(crate) fn revoke(&self, reason: LossReason) -> Option<Release> {
        let mut grant = self.end_and_take(reason)?;
        self.0.grant.release(&mut grant, QueuePosition::None)
    }

    /// What ended the lease, if it has ended.
    pub(super) fn loss(&self) -> Option<LossReason> {
        self.0.term.reason()
    }

    pub(crate) fn lost_error(&self) -> LockError {
        LockError::Lost {
            resource: self.resource().to_owned(),
            token: self.token(),
            reason: self.loss().unwrap_or(LossReason::Expired),
        }
    }

    /// Ends the lease for good; unless it was released, also the other leases of its set.
    pub(crate) fn end(&self, reason: LossReason) {
        self.0.end(reason);
    }
}
