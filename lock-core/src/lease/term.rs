use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::LossReason;
use crate::mutex::Mutex;
use crate::quorum::drift;
use crate::task::wait_until;

/// How long a lease lasts, and what ended it. Once it has ended, it never becomes valid again.
pub(super) struct Term {
    pub(super) since: Instant,
    ends: Mutex<Ends>,
    /// Notified when a renewal has moved the end, and when it was ended.
    pub(super) changed: Notify,
}

#[derive(Clone, Copy)]
struct Ends {
    /// When validity ends, unless `max_hold` ends it before; `since` if the term was ended.
    validity: Instant,
    max_hold: Instant,
    reason: Option<LossReason>,
}

impl Ends {
    fn first(self) -> Instant {
        self.validity.min(self.max_hold)
    }
}

impl Term {
    /// A term that begins now, and has ended unless it is valid until some time.
    pub(super) fn new(valid_until: Option<Instant>, max_hold: Duration) -> Self {
        let since = Instant::now();
        // Without a grant it has ended: the nodes hold nothing.
        let ends = Ends { validity: valid_until.unwrap_or(since), max_hold: since + max_hold, reason: None };
        Self { since, ends: Mutex::new(ends), changed: Notify::new() }
    }

    /// Counts `max_hold` from now on.
    pub(super) fn begin_hold(&self, max_hold: Duration) {
        self.ends.lock().max_hold = Instant::now() + max_hold;
    }

    /// Moves both ends out of sight, as for a holder that is paused right after each look at the clock.
    #[cfg(feature = "testing")]
    pub(super) fn stand_still(&self) {
        const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let mut ends = self.ends.lock();
        if ends.validity > self.since {
            (ends.validity, ends.max_hold) = (self.since + FAR, self.since + FAR);
        }
    }

    /// Whether validity reaches the end of `max_hold`, so that there is nothing to renew.
    pub(super) fn is_complete(&self) -> bool {
        let ends = *self.ends.lock();
        ends.max_hold <= ends.validity
    }

    /// When validity ends, unless it is extended; not later than now if it has ended.
    pub(super) fn ends(&self) -> Instant {
        self.ends.lock().first()
    }

    pub(super) fn remaining(&self) -> Duration {
        self.ends().saturating_duration_since(Instant::now())
    }

    /// Whether it is still valid; if not, why, unless it was ended for another reason before.
    pub(super) fn check(&self, now: Instant) -> Result<(), LossReason> {
        let ends = *self.ends.lock();
        if ends.first() > now {
            return Ok(());
        }
        Err(if ends.max_hold <= ends.validity { LossReason::MaxHold } else { LossReason::Expired })
    }

    /// Moves the end of validity; an end that is later stays. Returns false if it has ended.
    pub(super) fn extend_to(&self, end: Instant) -> bool {
        let mut ends = self.ends.lock();
        // Read while it is locked: a term that has ended by the clock must not be extended, however long this task slept before.
        let is_over = ends.first() <= Instant::now();
        if !is_over {
            ends.validity = ends.validity.max(end);
        }
        drop(ends);
        self.changed.notify_waiters();
        !is_over
    }

    /// Ends it, once and for all. Returns whether it had not been ended before.
    pub(super) fn end(&self, reason: LossReason) -> bool {
        let mut ends = self.ends.lock();
        let first = ends.reason.is_none();
        // The first reason stays. What comes later is its consequence: the guard releases what was lost, and a shutdown revokes
        // it.
        ends.reason.get_or_insert(reason);
        // In the past for good, so that no renewal whose answer is under way can make it valid again.
        ends.validity = self.since;
        drop(ends);
        self.changed.notify_waiters();
        first
    }

    /// Resolves when it was ended.
    pub(super) async fn ended(&self) {
        wait_until(&self.changed, || self.reason().is_some()).await;
    }

    /// What ended it, if it was ended.
    pub(super) fn reason(&self) -> Option<LossReason> {
        self.ends.lock().reason
    }
}

/// The end of a validity that counts from `sent`, the time before the first request. It does not count from the replies,
/// because this task may have slept since.
pub(super) fn expires(sent: Instant, ttl: Duration) -> Instant {
    sent + ttl.saturating_sub(drift(ttl))
}
