use std::num::NonZeroU64;
use std::time::Duration;

use crate::node::RESERVATION_TTL;
use crate::node::limits::{MAX_WAITERS, QUEUE_TTL};
use crate::random::WaiterId;

/// The queue of a lock, and its reservation: the waiter for which the free key is kept.
#[derive(Default)]
pub(super) struct NodeQueue {
    /// When each waiter began to wait, and its id; in that order.
    waiters: Vec<(NonZeroU64, WaiterId)>,
    /// Until when the free key is kept, and for which waiter.
    reservation: Option<(WaiterId, Duration)>,
    /// When the queue ends, if nothing changes until then.
    expires: Duration,
}

/// The waiters to wake after an offer.
pub(super) struct Offer {
    pub(super) first: WaiterId,
    pub(super) second: Option<WaiterId>,
}

impl NodeQueue {
    /// Drops what has expired. False if nothing is left.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        if self.expires <= now {
            self.waiters.clear();
        }
        self.reservation = self.reservation.filter(|(_, until)| *until > now);
        self.reservation.is_some() || !self.waiters.is_empty()
    }

    /// The waiter that has the reservation, and how much longer.
    pub(super) fn reservation(&self, now: Duration) -> Option<(WaiterId, Duration)> {
        self.reservation.map(|(waiter, until)| (waiter, until - now))
    }

    pub(super) fn first(&self) -> Option<WaiterId> {
        self.waiters.first().map(|(_, waiter)| *waiter)
    }

    pub(super) fn enter(&mut self, waiter: WaiterId, since: NonZeroU64, now: Duration) {
        self.leave(waiter, now);
        self.expires = now + QUEUE_TTL;
        if self.waiters.len() < MAX_WAITERS {
            let position = self.waiters.partition_point(|(other, _)| *other <= since);
            self.waiters.insert(position, (since, waiter));
        }
    }

    /// Removes a waiter. Like every change, that prolongs the life of the queue.
    pub(super) fn leave(&mut self, waiter: WaiterId, now: Duration) {
        let before = self.waiters.len();
        self.waiters.retain(|(_, other)| *other != waiter);
        if self.waiters.len() < before {
            self.expires = now + QUEUE_TTL;
        }
    }

    pub(super) fn end_reservation(&mut self) {
        self.reservation = None;
    }

    /// Reserves the free key for the first waiter, which leaves the queue.
    pub(super) fn offer(&mut self, now: Duration) -> Option<Offer> {
        let first = self.first()?;
        self.leave(first, now);
        self.reservation = Some((first, now + RESERVATION_TTL));
        Some(Offer { first, second: self.first() })
    }
}
