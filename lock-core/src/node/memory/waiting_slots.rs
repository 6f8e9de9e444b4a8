//! The waiting room of permits: who of those that wait may take a slot.
//!
//! No slot is kept for anybody. The first waiters, as many as there are free slots, may each take any of them, and another one is proposed
//! to each. So nodes to which releases come in different orders let the same waiters in.

use std::time::Duration;

use super::waiting::{Attempt, Holds, WaitingRoom, send};
use super::waiting_queue::{Called, Entry};
use crate::node::limits::{MAX_PAIRED, count, is_woken};
use crate::node::{LockKeys, RESERVATION_TTL, Reply, Request, SlotOffer, Slots, Wakeup};
use crate::random::WaiterId;

/// Who may take a slot.
pub(super) struct Pair {
    waiter: WaiterId,
    permits: u32,
    offer: SlotOffer,
}

impl WaitingRoom {
    /// The reply to an attempt that has to wait, because the ledger refuses the slot, or others come before. `None` if it may be granted.
    pub(super) fn must_wait_for_slot(
        &mut self,
        attempt: Attempt<'_>,
        holds: Holds<'_>,
        now: Duration,
    ) -> Option<Reply> {
        let Attempt { request: &Request { ref keys, waiter, .. }, since, kind, refusal, .. } = attempt;
        let (slot, is_refused, holds) = (keys.slot()?, refusal.is_some(), |slot| holds(&keys.with_slot(slot)));
        self.expire(keys, now);
        let permits = kind.permits(slot);
        let free: Slots = (0..permits).filter(|slot| holds(*slot).is_none()).collect();
        let (position, offer) = if since.is_none() {
            // It passes nobody but those that are gone, or were told and did not come.
            self.pair(keys, &|slot| holds(slot).is_none(), None, now);
            let others_wait = self.expire(keys, now);
            if !is_refused && !others_wait {
                return None;
            }
            (None, SlotOffer::of(free).filter(|_| !others_wait))
        } else {
            if !is_refused && !self.queue(keys).waiters.iter().any(|entry| entry.waiter != waiter) {
                return None;
            }
            let position = self.enter(attempt, now);
            let pairs = self.pair(keys, &|slot| holds(slot).is_none(), Some(waiter), now);
            let own = pairs.iter().find(|pair| pair.waiter == waiter).map(|pair| pair.offer);
            let is_left = |own: SlotOffer| {
                let other = pairs.iter().find(|pair| pair.offer.proposed == slot && pair.waiter != waiter);
                other.is_none_or(|other| own.proposed < other.permits)
            };
            if !is_refused && own.is_some_and(is_left) {
                return None;
            }
            (position, own)
        };
        let remaining = if free.count() == 0 {
            (0..permits).filter_map(holds).map(|held| held.remaining).min()
        } else {
            let ahead = position.map_or(0, |position| position.ahead);
            Some(RESERVATION_TTL * (ahead / free.count()).max(1))
        };
        Some(Reply::Held { remaining, stranger: false, position, offer })
    }

    /// Pairs the first waiters with the free slots, and tells those for which something has changed. `caller` makes an attempt, and hears
    /// of it by the reply.
    pub(super) fn pair(
        &mut self,
        keys: &LockKeys,
        is_free: &dyn Fn(u32) -> bool,
        caller: Option<WaiterId>,
        now: Duration,
    ) -> Vec<Pair> {
        let listeners = &self.listeners;
        let Some(queue) = self.queues.get_mut(keys.queue()) else { return Vec::new() };
        let tell = |waiter: WaiterId, before: u32, slot: u32, free: Slots| {
            let lock_key = keys.with_slot(slot).lock_key().to_owned();
            send(listeners, waiter, Wakeup { lock_key, before, free })
        };
        let first: Vec<Entry> = queue.waiters.iter().take(MAX_PAIRED).copied().collect();
        let permits = first.iter().map(Entry::permits).max().unwrap_or_default();
        let free: Slots = (0..permits).filter(|slot| is_free(*slot)).collect();
        let (mut left, mut pairs, mut followers, mut has_news) = (free, Vec::new(), Vec::new(), false);
        for entry in first {
            let Entry { waiter, polls, called, .. } = entry;
            let (is_caller, permits) = (caller == Some(waiter), entry.permits());
            let next = left.below(permits).first().map(|proposed| SlotOffer { proposed, free: free.below(permits) });
            let Some(offer) = next else {
                queue.set_called(waiter, None);
                if !polls && !is_caller {
                    followers.push(waiter);
                }
                continue;
            };
            let is_told = is_caller || polls || called.is_some_and(|called| called.offer == offer);
            // It was told of a free slot and did not come. The next is told, or a frozen process would keep a slot empty.
            let has_passed = called.is_some_and(|called| !is_caller && now - called.at >= RESERVATION_TTL);
            if has_passed || !is_told && !tell(waiter, 0, offer.proposed, offer.free) {
                queue.remove(waiter);
                continue;
            }
            has_news |= called.is_none();
            let at = called.filter(|_| !is_caller).map_or(now, |called| called.at);
            queue.set_called(waiter, Some(Called { at, offer }));
            left.remove(offer.proposed);
            pairs.push(Pair { waiter, permits, offer });
        }
        if has_news {
            for (number, follower) in (1..).zip(followers).filter(|(number, _)| is_woken(*number, false)) {
                tell(follower, 1 + count(number - 1) / free.count(), 0, Slots::default());
            }
        }
        pairs
    }
}
