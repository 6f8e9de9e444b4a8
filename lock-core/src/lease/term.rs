use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::LossReason;
use crate::quorum::drift;

/// How long a lease lasts, and what ended it. Once it has ended, it never becomes valid again.
pub(super) struct Term {
    since: Instant,
    /// When validity ends unless `max_hold` ends it before, in microseconds after `since`; [`ENDED`] when the lease has ended.
    valid_for: AtomicU64,
    /// When `max_hold` ends, in microseconds after `since`.
    hold_ends: AtomicU64,
    /// Notified when a renewal has moved the end.
    extended: Notify,
    reason: OnceLock<LossReason>,
    ended: CancellationToken,
}

const ENDED: u64 = 0;

impl Term {
    /// A term that begins now, and has ended unless it is valid until some time.
    pub(super) fn new(valid_until: Option<Instant>, max_hold: Duration) -> Self {
        let since = Instant::now();
        Self {
            since,
            valid_for: AtomicU64::new(valid_until.map_or(ENDED, |until| micros_after(since, until))),
            hold_ends: AtomicU64::new(micros(max_hold)),
            extended: Notify::new(),
            reason: OnceLock::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Counts `max_hold` from now on.
    pub(super) fn begin_hold(&self, max_hold: Duration) {
        self.hold_ends.store(micros(self.age() + max_hold), Ordering::Release);
    }

    /// Whether validity reaches the end of `max_hold`, so that there is nothing to renew.
    pub(super) fn is_complete(&self) -> bool {
        self.valid_for() == self.hold_ends.load(Ordering::Acquire)
    }

    /// When validity ends, in microseconds after `since`.
    fn valid_for(&self) -> u64 {
        self.valid_for.load(Ordering::Acquire).min(self.hold_ends.load(Ordering::Acquire))
    }

    /// When validity ends, unless it is extended; not later than now if it has ended.
    pub(super) fn ends(&self) -> Instant {
        self.since + Duration::from_micros(self.valid_for())
    }

    pub(super) fn remaining(&self) -> Duration {
        Duration::from_micros(self.valid_for()).saturating_sub(self.age())
    }

    /// Whether it is still valid; if not, why, unless it was ended for another reason before.
    pub(super) fn check(&self) -> Result<(), LossReason> {
        let valid_for = self.valid_for();
        if Duration::from_micros(valid_for) > self.age() {
            return Ok(());
        }
        let held_for_longest = valid_for == self.hold_ends.load(Ordering::Acquire);
        Err(if held_for_longest { LossReason::MaxHold } else { LossReason::Expired })
    }

    /// Moves the end of validity; an end that is later stays. Returns false if it has ended.
    pub(super) fn extend_to(&self, end: Instant) -> bool {
        let until = micros_after(self.since, end);
        let hold_ends = self.hold_ends.load(Ordering::Acquire);
        let extended = self.valid_for.fetch_update(Ordering::AcqRel, Ordering::Acquire, |valid_for| {
            let over = valid_for == ENDED || Duration::from_micros(valid_for.min(hold_ends)) <= self.age();
            (!over).then_some(valid_for.max(until))
        });
        self.extended.notify_waiters();
        extended.is_ok()
    }

    /// Resolves when the end of validity is moved after this call.
    pub(super) fn extended(&self) -> Notified<'_> {
        self.extended.notified()
    }

    /// Ends it, once and for all. Returns whether it had not been ended before.
    pub(super) fn end(&self, reason: LossReason) -> bool {
        let first = self.reason.set(reason).is_ok();
        self.valid_for.store(ENDED, Ordering::Release);
        self.ended.cancel();
        first
    }

    /// Cancelled when it was ended.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// What ended it, if it was ended.
    pub(super) fn reason(&self) -> Option<LossReason> {
        self.reason.get().copied()
    }
}

/// The end of a validity that counts from `sent`, the time before the first request. It does not count from the replies,
/// because this task may have slept since.
pub(super) fn expires(sent: Instant, ttl: Duration) -> Instant {
    sent + ttl.saturating_sub(drift(ttl))
}

/// The time between two instants; never the mark of an ended lease.
fn micros_after(since: Instant, until: Instant) -> u64 {
    micros(until.saturating_duration_since(since)).max(ENDED + 1)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
