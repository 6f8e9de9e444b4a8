//! A held lock's life: validity, loss, release.

mod guard;
mod keeper;
mod renewal;
mod scope;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::guard::LockGuard;
pub(crate) use self::guard::{LONGEST_RUN, cut_off};
pub(crate) use self::keeper::keep;
use crate::engine::{Claim, Ended, Engine, NodeSet, Traces};
use crate::error::{LockError, LossReason};
use crate::node::{LockKeys, Place};
use crate::options::LockOptions;
use crate::quorum::drift;
use crate::random::OwnerId;
use crate::resource::Resource;
use crate::token::FencingToken;
use crate::waiting::Seat;

/// A view of a held lock: whether it is held yet, and its fencing token. Cheap to clone, without the power to release.
///
/// A lease is *valid* until its end on this process's monotonic clock, which lies before the earliest moment at which a
/// majority of nodes could have expired the key. Once it has ended, by whatever cause, it stays ended.
///
/// A process that is paused (stopped, swapped out, suspended) does not notice while it is. No lock service can change
/// that; what it can do is number its grants. Hand [`token`](Self::token) to whatever the lock protects.
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
    since: Instant,
    /// When validity ends, in microseconds after `since`; 0 when the lease has ended.
    valid_for: AtomicU64,
    reason: OnceLock<LossReason>,
    ended: CancellationToken,
    upkeep: Mutex<Upkeep>,
    /// In the line of those who want the lock. Given up when the lease ends: the next one need not wait for a guard that holds
    /// nothing any more.
    seat: Mutex<Option<Seat>>,
}

/// What keeps the lock on the nodes.
struct Upkeep {
    /// The nodes that may hold the key. Once released, none may be added: their key would stay behind.
    nodes: NodeSet,
    /// Others, which may have a place in their queues from before the grant.
    queued: NodeSet,
    released: bool,
    /// When the requests were sent that the present validity rests on.
    sent: Instant,
}

const ENDED: u64 = 0;

impl Lease {
    /// The fencing token of this grant: this one's, not the latest.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// The name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.0.resource.as_str()
    }

    /// How long the lease is valid yet, unless it is renewed. Zero once it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let valid_for = Duration::from_micros(self.0.valid_for.load(Ordering::Acquire));
        valid_for.saturating_sub(self.0.since.elapsed())
    }

    /// Whether the lock is held. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let valid_for = self.0.valid_for.load(Ordering::Acquire);
        let valid = Duration::from_micros(valid_for) > self.0.since.elapsed();
        if !valid {
            self.end(if valid_for == self.longest() { LossReason::MaxHold } else { LossReason::Expired });
        }
        valid
    }

    /// Resolves when the lease has ended: lost, or released by its guard. At once if it has ended before.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked for again at any time.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.ended.clone().cancelled_owned()
    }

    /// An error if the lease has ended. For long work, between its steps.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] with what ended it.
    pub fn check(&self) -> Result<(), LockError> {
        if self.is_valid() { Ok(()) } else { Err(self.lost_error()) }
    }

    /// The lease on what the nodes hold, for which these traces stand. With the first of the tokens.
    pub(crate) fn new(
        manager: u64,
        resource: Resource,
        options: LockOptions,
        (traces, sent, token): (&Traces, Instant, u64),
        seat: Option<Seat>,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);

        let lease = Self(Arc::new(State {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            manager,
            resource,
            keys: traces.keys.clone(),
            owner: traces.owner,
            token: FencingToken::new(token),
            options,
            since: Instant::now(),
            valid_for: AtomicU64::new(ENDED),
            reason: OnceLock::new(),
            ended: CancellationToken::new(),
            upkeep: Mutex::new(Upkeep { nodes: traces.nodes, queued: traces.queued, released: false, sent }),
            seat: Mutex::new(seat),
        }));
        lease.0.valid_for.store(lease.micros_until(lease.expires(sent)), Ordering::Release);
        lease
    }

    /// Tells leases apart.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// When validity ends that rests on requests sent at `sent`: from before the first of them, not from the answers, for this
    /// task may have slept since.
    fn expires(&self, sent: Instant) -> Instant {
        let ttl = self.0.options.ttl;
        sent + (ttl - drift(ttl))
    }

    /// When a renewal is due.
    fn renewal_due(&self) -> Instant {
        self.upkeep().sent + self.0.options.ttl / 3
    }

    /// When the lease is to be looked after: renewed, or ended.
    pub(crate) fn due(&self) -> Instant {
        let ends = Instant::now() + self.remaining();
        if self.renews() { ends.min(self.renewal_due()) } else { ends }
    }

    /// Whether there is something to renew: validity does not last to the end of `max_hold` yet.
    fn renews(&self) -> bool {
        self.0.options.renew && self.0.valid_for.load(Ordering::Acquire) != self.longest()
    }

    pub(crate) fn take_seat(&self) -> Option<Seat> {
        self.0.seat.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the lease and tells what is to be released, and when it was granted or renewed last.
    fn wind_up(&self, engine: &Arc<Engine>, reason: LossReason, place: Place) -> (Claim, Instant) {
        self.end(reason);
        let mut upkeep = self.upkeep();
        upkeep.released = true;
        let (keys, owner, ttl) = (self.0.keys.clone(), self.0.owner, self.0.options.ttl);
        let traces = Traces { keys, owner, ttl, nodes: upkeep.nodes, queued: upkeep.queued, place };
        (Claim::new(engine, traces, Ended::Lease), upkeep.sent)
    }

    pub(crate) fn lost_error(&self) -> LockError {
        LockError::Lost {
            resource: self.resource().to_owned(),
            token: self.token(),
            reason: self.0.reason.get().copied().unwrap_or(LossReason::Expired),
        }
    }

    /// Ends the lease, once and for all. True if it had not ended before.
    pub(crate) fn end(&self, reason: LossReason) -> bool {
        let first = self.0.reason.set(reason).is_ok();
        self.0.valid_for.store(ENDED, Ordering::Release);
        self.0.ended.cancel();
        // A seat that was not taken back before is of no more use here.
        drop(self.take_seat());
        if first && reason != LossReason::Released {
            let (resource, token) = (self.resource(), self.token().get());
            tracing::warn!(name: "lock.lost", resource, token, %reason, "a lease was lost");
        }
        first
    }

    /// Moves the end of validity on, for a renewal sent at `sent`, or leaves it where it is if that is later. False if the
    /// lease has ended.
    fn renew(&self, sent: Instant) -> bool {
        let until = self.micros_until(self.expires(sent));
        let renewed = self.0.valid_for.fetch_update(Ordering::AcqRel, Ordering::Acquire, |valid_for| {
            let over = valid_for == ENDED || Duration::from_micros(valid_for) <= self.0.since.elapsed();
            (!over).then_some(valid_for.max(until))
        });
        if renewed.is_ok() {
            self.upkeep().sent = sent;
        }
        renewed.is_ok()
    }

    /// `max_hold`, in microseconds.
    fn longest(&self) -> u64 {
        u64::try_from(self.0.options.max_hold.as_micros()).unwrap_or(u64::MAX)
    }

    /// The distance of an instant from the beginning of the lease; not beyond `max_hold`, and never the mark of an ended one.
    fn micros_until(&self, until: Instant) -> u64 {
        let distance = until.saturating_duration_since(self.0.since).as_micros();
        u64::try_from(distance).unwrap_or(u64::MAX).clamp(ENDED + 1, self.longest())
    }

    fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.0.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
