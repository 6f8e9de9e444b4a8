use std::num::NonZeroU64;
use std::time::Duration;

use crate::node::RESERVATION_TTL;
use crate::random::WaiterId;

/// How long a line lives in which nothing changes.
const LINE_LIFE: Duration = Duration::from_secs(10);
/// The most places of a queue.
const MAX_WAITERS: usize = 64;

/// Who waits for a lock, in order, and for whom the free key is kept.
#[derive(Default)]
pub(super) struct NodeQueue {
    /// Since when, and who.
    queue: Vec<(NonZeroU64, WaiterId)>,
    turn: Option<(WaiterId, Duration)>,
    expires: Duration,
}

/// Whom to call, after an offer.
pub(super) struct Offer {
    pub(super) first: WaiterId,
    pub(super) second: Option<WaiterId>,
}

impl NodeQueue {
    /// Drops what has expired. False if nothing is left.
    pub(super) fn age(&mut self, now: Duration) -> bool {
        if self.expires <= now {
            self.queue.clear();
        }
        self.turn = self.turn.filter(|(_, until)| *until > now);
        self.turn.is_some() || !self.queue.is_empty()
    }

    /// Whose turn it is, and how long yet.
    pub(super) fn turn(&self, now: Duration) -> Option<(WaiterId, Duration)> {
        self.turn.map(|(waiter, until)| (waiter, until - now))
    }

    pub(super) fn first(&self) -> Option<WaiterId> {
        self.queue.first().map(|(_, waiter)| *waiter)
    }

    pub(super) fn enter(&mut self, waiter: WaiterId, since: NonZeroU64, now: Duration) {
        self.leave(waiter, now);
        self.expires = now + LINE_LIFE;
        if self.queue.len() < MAX_WAITERS {
            let place = self.queue.partition_point(|(other, _)| *other <= since);
            self.queue.insert(place, (since, waiter));
        }
    }

    /// Every change lets the line live on.
    pub(super) fn leave(&mut self, waiter: WaiterId, now: Duration) {
        let places = self.queue.len();
        self.queue.retain(|(_, other)| *other != waiter);
        if self.queue.len() < places {
            self.expires = now + LINE_LIFE;
        }
    }

    pub(super) fn end_turn(&mut self) {
        self.turn = None;
    }

    /// Keeps the free key for the first in line.
    pub(super) fn offer(&mut self, now: Duration) -> Option<Offer> {
        let first = self.first()?;
        self.leave(first, now);
        self.turn = Some((first, now + RESERVATION_TTL));
        Some(Offer { first, second: self.first() })
    }
}
