//! The waiting room: who waits for a lock, for whom a free one is kept, and who is woken. `waiting_slots` has what differs for slots.
//!
//! It may be wrong, lose everything, or be absent: that costs turns and time, never exclusion. It is told what became of a request, and
//! may only keep a lock from a caller to whom the ledger would give it.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::ledger::Held;
use super::waiting_queue::{Entry, NodeQueue};
use crate::node::limits::count;
use crate::node::{Kind, LockKeys, Position, QueuePosition, Reply, Request, Slots, Wakeup};
use crate::random::WaiterId;

#[derive(Clone, Default)]
pub(super) struct WaitingRoom {
    /// By [`LockKeys::queue`].
    pub(super) queues: HashMap<String, NodeQueue>,
    /// Where each waiter listens. Those that do not any more are swept.
    pub(super) listeners: Listeners,
}

/// An attempt to get a lock: since when its caller waits, if it does, and what the ledger says.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) request: &'a Request,
    pub(super) since: Option<NonZeroU64>,
    pub(super) kind: Kind,
    pub(super) held: Option<Held>,
    /// For how long the ledger refuses the lock, if it does.
    pub(super) refusal: Option<Duration>,
}

/// Tells what holds a lock.
pub(super) type Holds<'a> = &'a dyn Fn(&LockKeys) -> Option<Held>;

pub(super) type Listeners = HashMap<WaiterId, mpsc::Sender<Wakeup>>;

/// How many wake-ups for a waiter are kept.
const UNHEARD: usize = 256;

impl WaitingRoom {
    /// The reply to an attempt that has to wait, because the ledger refuses the lock, or because it is kept for others. `None` if it is the
    /// caller's turn. A caller that waits, and has to, enters the queue.
    pub(super) fn must_wait(&mut self, attempt: Attempt<'_>, holds: Holds<'_>, now: Duration) -> Option<Reply> {
        let Attempt { request: &Request { ref keys, waiter, .. }, since, kind, held, refusal } = attempt;
        if keys.slot().is_some() {
            return self.must_wait_for_slot(attempt, holds, now);
        }
        let is_known = self.expire(keys, now);
        let (remaining, position) = match (refusal, held) {
            (Some(remaining), _) => (remaining, None),
            // Readers hold the lock, and the caller would join them.
            (None, Some(Held { remaining, .. })) => {
                let queue = self.queues.get(keys.queue())?;
                (queue.writer_waits(since.map(|since| (waiter, since)), now).then_some(remaining)?, None)
            }
            (None, None) if is_known => self.kept_for_others(attempt, now)?,
            (None, None) => return None,
        };
        let position = position.or_else(|| self.enter(attempt, now));
        if position.is_some() && kind == Kind::Write && held.is_some_and(|held| held.by_readers) {
            self.queue(keys).hear(waiter, now);
        }
        Some(Reply::Held { remaining: Some(remaining), stranger: false, position, offer: None })
    }

    /// For how long a free lock is kept for others, and the position of the caller if it was needed to find that out. `None` if it is
    /// the caller's turn.
    fn kept_for_others(&mut self, attempt: Attempt<'_>, now: Duration) -> Option<(Duration, Option<Position>)> {
        let Attempt { request: &Request { ref keys, waiter, .. }, since, .. } = attempt;
        let is_caller = |other: WaiterId| since.is_some() && other == waiter;
        let mut position = None;
        if self.queue(keys).reservation(now).is_none() {
            if self.queue(keys).first().is_none_or(is_caller) {
                return None;
            }
            position = self.enter(attempt, now);
            self.offer(keys, since.map(|_| waiter), now);
        }
        let (first, remaining) = self.queue(keys).reservation(now)?;
        if is_caller(first) {
            return None;
        }
        let until = since.and_then(|_| self.queue(keys).until_reserved(waiter, now));
        Some((until.unwrap_or(remaining), position))
    }

    /// A caller that waited has the lock.
    pub(super) fn acquired(&mut self, request: &Request, holds: Holds<'_>, now: Duration) {
        if request.keys.slot().is_some() {
            self.changed(request, QueuePosition::Leave, holds, now);
        } else if let Some(queue) = self.queues.get_mut(request.keys.queue()) {
            queue.acquired(request.waiter, now);
        }
    }

    /// What a release, a slot that is taken or put back, or leaving the queue does to the queue. `holds` tells what holds a lock
    /// afterwards.
    pub(super) fn changed(&mut self, request: &Request, position: QueuePosition, holds: Holds<'_>, now: Duration) {
        let &Request { ref keys, waiter, .. } = request;
        let is_known = self.expire(keys, now);
        if !is_known && !matches!(position, QueuePosition::Keep { .. }) {
            return;
        }
        let held = holds(keys);
        let queue = self.queue(keys);
        match position {
            QueuePosition::Keep { since, kind } => {
                // If it was called for a slot, it did not read what the node replied, and is told again.
                queue.set_called(waiter, None);
                _ = queue.enter(Entry::of(request, since, kind), now);
            }
            QueuePosition::Leave => {
                let makes_way = queue.has_writer(waiter) && held.is_some_and(|held| held.by_readers);
                queue.leave(waiter, now);
                if makes_way {
                    self.let_readers_in(keys, now);
                }
            }
            QueuePosition::None => {}
        }
        if keys.slot().is_some() {
            self.pair(keys, &|slot| holds(&keys.with_slot(slot)).is_none(), None, now);
        } else if held.is_none() && self.queue(keys).reservation(now).is_none() {
            // The process may have released for a caller that does not wait.
            let caller = (position != QueuePosition::None).then_some(waiter);
            self.offer(keys, caller, now);
        }
    }

    /// The holders of a lock were evicted: wakes the first waiters. Until the lock is free, it is reserved for none of them, and none of them
    /// may take the slot.
    pub(super) fn evicted(&mut self, keys: &LockKeys, holds: Holds<'_>, now: Duration) {
        if !self.expire(keys, now) {
            return;
        }
        if let Some(slot) = keys.slot() {
            self.pair(keys, &|other| other == slot || holds(&keys.with_slot(other)).is_none(), None, now);
        } else if self.queue(keys).reservation(now).is_none() {
            self.offer(keys, None, now);
        }
        if holds(keys).is_some() {
            self.queue(keys).end_turns();
        }
    }

    /// Readers begin to hold the lock. The writer behind those that wait was heard while it could not yet be noted.
    pub(super) fn let_readers_in(&mut self, keys: &LockKeys, now: Duration) {
        let Some(queue) = self.queues.get_mut(keys.queue()) else { return };
        let listeners = &self.listeners;
        if let Some(writer) = queue.wake_readers(|waiter| wake(listeners, keys, waiter, 0)) {
            queue.hear(writer, now);
        }
    }

    /// Whether a writer waits for a lock that readers hold.
    pub(super) fn writer_waits(&self, keys: &LockKeys, now: Duration) -> bool {
        self.queues.get(keys.queue()).is_some_and(|queue| queue.writer_waits(None, now))
    }

    /// How many wait for a lock.
    pub(super) fn count(&self, keys: &LockKeys, now: Duration) -> u32 {
        self.queues.get(keys.queue()).map_or(0, |queue| queue.count(now))
    }

    /// Wakes a waiter from now on, until the receiver is dropped. Wake-ups that it does not take in time are lost.
    pub(super) fn listen(&mut self, waiter: WaiterId) -> mpsc::Receiver<Wakeup> {
        let (sender, receiver) = mpsc::channel(UNHEARD);
        self.listeners.insert(waiter, sender);
        receiver
    }

    pub(super) fn sweep(&mut self, now: Duration) {
        self.queues.retain(|_, queue| queue.is_known(now));
        self.listeners.retain(|_, listener| !listener.is_closed());
    }

    #[cfg(test)]
    pub(super) fn queue_of(&mut self, keys: &LockKeys) -> &mut NodeQueue {
        self.queue(keys)
    }

    /// Drops what has expired of a lock's queue. Returns whether anything is left.
    pub(super) fn expire(&mut self, keys: &LockKeys, now: Duration) -> bool {
        self.queues.get_mut(keys.queue()).is_some_and(|queue| queue.expire(now))
    }

    pub(super) fn queue(&mut self, keys: &LockKeys) -> &mut NodeQueue {
        self.queues.entry(keys.queue().to_owned()).or_default()
    }

    pub(super) fn enter(&mut self, attempt: Attempt<'_>, now: Duration) -> Option<Position> {
        let Attempt { request, since, kind, .. } = attempt;
        self.queue(&request.keys).enter(Entry::of(request, since?, kind), now)
    }

    /// Offers the free lock to the first waiters. If this is a request of one of them, it need not be woken.
    fn offer(&mut self, keys: &LockKeys, caller: Option<WaiterId>, now: Duration) {
        let (queue, listeners) = (self.queues.entry(keys.queue().to_owned()).or_default(), &self.listeners);
        queue.offer(caller, now, |waiter, before| wake(listeners, keys, waiter, count(before)));
    }
}

fn wake(listeners: &Listeners, keys: &LockKeys, waiter: WaiterId, before: u32) -> bool {
    send(listeners, waiter, Wakeup { lock_key: keys.lock_key().to_owned(), before, free: Slots::default() })
}

/// Sends a wake-up. Returns false if the waiter does not listen.
pub(super) fn send(listeners: &Listeners, waiter: WaiterId, wakeup: Wakeup) -> bool {
    let sent = listeners.get(&waiter).map(|listener| listener.try_send(wakeup));
    matches!(sent, Some(Ok(()) | Err(TrySendError::Full(_))))
}
