use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::node::limits::{
    MAX_GONE, MAX_RESERVATIONS, MAX_WAITERS, MAX_WOKEN_READERS, QUEUE_TTL, RESERVED_TTL, WRITER_HEARD, count, is_woken,
};
use crate::node::{Kind, Position, RESERVATION_TTL, Request, SlotOffer};
use crate::random::WaiterId;

/// The queue of a lock, and its reservations; or the one queue of all slots of a resource. A part of the waiting room.
#[derive(Clone, Default)]
pub(super) struct NodeQueue {
    /// In their order.
    pub(super) waiters: Vec<Entry>,
    /// When the waiters are forgotten, if none enters until then.
    expires: Duration,
    reserved: Option<Reserved>,
    /// While readers hold the lock: when each writer that waits was last heard of.
    heard: HashMap<WaiterId, Duration>,
}

/// A waiter in the queue.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    since: NonZeroU64,
    kind: Kind,
    pub(super) polls: bool,
    pub(super) waiter: WaiterId,
    /// If it may take a slot.
    pub(super) called: Option<Called>,
}

/// Since when a waiter may take a slot, and what it was told.
#[derive(Clone, Copy)]
pub(super) struct Called {
    pub(super) at: Duration,
    pub(super) offer: SlotOffer,
}

impl Entry {
    /// The one who makes a request, and waits since then.
    pub(super) fn of(&Request { ref keys, waiter, polls, .. }: &Request, since: NonZeroU64, kind: Kind) -> Self {
        let kind = keys.slot().map_or(kind, |slot| Kind::Permit { of: kind.permits(slot) });
        Self { since, kind, polls, waiter, called: None }
    }

    /// What the queue is ordered by.
    fn rank(&self) -> (NonZeroU64, bool, bool, WaiterId) {
        (self.since, self.kind.is_read(), self.polls, self.waiter)
    }

    /// Of how many slots it may have one.
    pub(super) fn permits(&self) -> u32 {
        match self.kind {
            Kind::Write | Kind::Read => 0,
            Kind::Permit { of } => of,
        }
    }
}

/// The waiters for which the free key is reserved, one after another, and whether each knows of it.
#[derive(Clone)]
struct Reserved {
    waiters: Vec<(WaiterId, bool)>,
    began: Duration,
    /// Those that let their reservation pass and came later.
    late: Vec<WaiterId>,
}

impl Reserved {
    /// It is not known any more for whom the key was reserved.
    fn is_forgotten(&self, now: Duration) -> bool {
        self.began + RESERVED_TTL <= now
    }

    /// For which of them it is reserved now: an index, which is behind the last when all have passed.
    fn index(&self, now: Duration) -> usize {
        usize::try_from((now - self.began).as_millis() / RESERVATION_TTL.as_millis()).unwrap_or(usize::MAX)
    }

    /// Those of the first that knew of their reservation and did not come.
    fn passed(self, now: Duration) -> impl Iterator<Item = WaiterId> {
        let count = self.index(now);
        let knew = self.waiters.into_iter().take(count).filter(|(_, knows)| *knows).map(|(waiter, _)| waiter);
        knew.filter(move |waiter| !self.late.contains(waiter))
    }
}

impl NodeQueue {
    /// Whether anything is left that has not expired.
    pub(super) fn is_known(&self, now: Duration) -> bool {
        let waits = now < self.expires && !self.waiters.is_empty();
        waits || self.reserved.as_ref().is_some_and(|reserved| !reserved.is_forgotten(now))
    }

    /// Drops what has expired, and those that let their reservation pass. False if nothing is left.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        if self.expires <= now {
            self.waiters.clear();
        }
        let is_over =
            |reserved: &mut Reserved| reserved.is_forgotten(now) || reserved.index(now) >= reserved.waiters.len();
        if let Some(reserved) = self.reserved.take_if(is_over).filter(|reserved| !reserved.is_forgotten(now)) {
            reserved.passed(now).for_each(|waiter| _ = self.remove(waiter));
        }
        self.reserved.is_some() || !self.waiters.is_empty()
    }

    /// For which waiter the key is reserved, and how much longer it is for this one and those behind it.
    pub(super) fn reservation(&self, now: Duration) -> Option<(WaiterId, Duration)> {
        let reserved = self.reserved.as_ref()?;
        let (waiter, _) = reserved.waiters.get(reserved.index(now))?;
        let all = count(reserved.waiters.len()) * RESERVATION_TTL;
        Some((*waiter, reserved.began + all - now))
    }

    /// How much longer the key is reserved before it is for this waiter; or before it is free, if it never is.
    pub(super) fn until_reserved(&self, waiter: WaiterId, now: Duration) -> Option<Duration> {
        let (_, remaining) = self.reservation(now)?;
        let reserved = self.reserved.as_ref()?;
        let behind =
            reserved.waiters.iter().skip(reserved.index(now) + 1).rev().position(|(other, _)| *other == waiter);
        let from_then_on = behind.map_or(0, |behind| count(behind + 1));
        Some(remaining - from_then_on * RESERVATION_TTL)
    }

    /// How many wait, of those that are not forgotten.
    pub(super) fn count(&self, now: Duration) -> u32 {
        if self.expires > now { count(self.waiters.len()) } else { 0 }
    }

    pub(super) fn first(&self) -> Option<WaiterId> {
        self.waiters.first().map(|entry| entry.waiter)
    }

    /// Enters the queue; `None` if there is no room.
    pub(super) fn enter(&mut self, mut entry: Entry, now: Duration) -> Option<Position> {
        let waiter = entry.waiter;
        // A manager has one place. It comes again with the time since when it waits, and so to the same place.
        let before = self.remove(waiter);
        let mut anew = before.is_none();
        if let Some(reserved) = &mut self.reserved {
            let mut passed = reserved.waiters.iter().take(reserved.index(now));
            if passed.any(|(other, _)| *other == waiter) && !reserved.late.contains(&waiter) {
                reserved.late.push(waiter);
                anew = true;
            }
        }
        self.expires = now + QUEUE_TTL;
        entry.called = before.and_then(|before| before.called);
        let ahead = self.waiters.partition_point(|other| other.rank() < entry.rank());
        self.waiters.insert(ahead, entry);
        // The last go without a place, and try again by timer. The waiter that waits longest keeps its place.
        self.waiters.truncate(MAX_WAITERS);
        (ahead < MAX_WAITERS).then(|| Position { ahead: count(ahead), anew })
    }

    /// Gives up the position and the reservation.
    pub(super) fn leave(&mut self, waiter: WaiterId, now: Duration) {
        self.remove(waiter);
        if self.reservation(now).is_some_and(|(first, _)| first == waiter) {
            self.reserved = None;
        }
    }

    /// A waiter takes the lock: it needs no position any longer, and those that let their reservation pass
    /// lose theirs.
    pub(super) fn acquired(&mut self, waiter: WaiterId, now: Duration) {
        self.remove(waiter);
        if let Some(reserved) = self.reserved.take() {
            reserved.passed(now).for_each(|waiter| _ = self.remove(waiter));
        }
    }

    /// Reserves the key for the first waiters, and wakes some of them: `wake` says whether a waiter hears how many are before it.
    /// Those that nobody listens for are removed. Not woken are those that poll, and `caller`, whose request this is.
    pub(super) fn offer(
        &mut self,
        caller: Option<WaiterId>,
        now: Duration,
        mut wake: impl FnMut(WaiterId, usize) -> bool,
    ) {
        let (mut waiters, mut gone) = (Vec::new(), 0);
        let most = |queued: usize| queued.min(MAX_RESERVATIONS as usize);
        while waiters.len() < most(self.waiters.len()) && gone < MAX_GONE {
            let before = waiters.len();
            let Entry { polls, waiter, .. } = self.waiters[before];
            let is_last = before + 1 == most(self.waiters.len());
            let is_woken = is_woken(before, is_last);
            // Nobody listens for it: its process has ended. A reservation for it would cost those behind it 100 ms.
            if is_woken && Some(waiter) != caller && !polls && !wake(waiter, before) {
                self.waiters.remove(before);
                gone += 1;
            } else {
                waiters.push((waiter, is_woken || polls));
            }
        }
        self.reserved = (!waiters.is_empty()).then_some(Reserved { waiters, began: now, late: Vec::new() });
    }

    /// It is nobody's turn any more.
    pub(super) fn end_turns(&mut self) {
        self.reserved = None;
        self.waiters.iter_mut().for_each(|entry| entry.called = None);
    }

    /// Notes whether a waiter may take a slot.
    pub(super) fn set_called(&mut self, waiter: WaiterId, called: Option<Called>) {
        if let Some(entry) = self.waiters.iter_mut().find(|entry| entry.waiter == waiter) {
            entry.called = called;
        }
    }

    /// A writer waits, and readers hold the lock.
    pub(super) fn hear(&mut self, writer: WaiterId, now: Duration) {
        self.heard.retain(|_, heard| *heard + WRITER_HEARD >= now);
        self.heard.insert(writer, now);
    }

    /// Whether a writer waits that was heard lately: before a reader that waits, or any at all.
    pub(super) fn writer_waits(&self, before: Option<(WaiterId, NonZeroU64)>, now: Duration) -> bool {
        let was_heard = |writer: WaiterId| self.heard.get(&writer).is_some_and(|heard| *heard + WRITER_HEARD >= now);
        let is_before = |entry: &Entry| {
            before.is_none_or(|(reader, since)| entry.since < since || entry.since == since && entry.waiter != reader)
        };
        self.waiters.iter().any(|entry| !entry.kind.is_read() && was_heard(entry.waiter) && is_before(entry))
    }

    /// Whether a manager waits to write.
    pub(super) fn has_writer(&self, waiter: WaiterId) -> bool {
        self.waiters.iter().any(|entry| !entry.kind.is_read() && entry.waiter == waiter)
    }

    /// Readers hold the lock: wakes those at the head of the queue, to join them. Returns the writer behind them.
    pub(super) fn wake_readers(&mut self, mut wake: impl FnMut(WaiterId) -> bool) -> Option<WaiterId> {
        let readers = self.waiters.iter().take(MAX_WOKEN_READERS).take_while(|entry| entry.kind.is_read()).count();
        let behind = self.waiters.get(readers).filter(|entry| !entry.kind.is_read()).map(|entry| entry.waiter);
        let mut at = 0;
        self.waiters.retain(|entry| {
            at += 1;
            at > readers || entry.polls || wake(entry.waiter)
        });
        behind.filter(|_| readers < MAX_WOKEN_READERS)
    }

    /// Removes a waiter; `None` if it had no position.
    pub(super) fn remove(&mut self, waiter: WaiterId) -> Option<Entry> {
        let at = self.waiters.iter().position(|entry| entry.waiter == waiter)?;
        Some(self.waiters.remove(at))
    }
}
