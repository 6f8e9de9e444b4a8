//! The waiting room: who waits for a lock, and whose turn it is. This half may be wrong, lose everything, or be absent: that costs turns
//! and time, and never exclusion. It writes no znode of the ledger, but those below `queues` (see [`Paths`]).
//!
//! `waiting_places` knows where this session waits, and `wakeups` wakes its callers.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use futures_util::future::{FutureExt as _, join, join_all};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{CreateMode, Error};

use super::classify::node_error;
use super::parts::Part;
use super::paths::{self, Paths};
use super::session::{Session, if_present};
use super::waiting_places::Watched;
use super::wakeups::AT_HEAD;
use crate::mutex::Mutex;
use crate::node::limits::{MAX_WAITERS, count};
use crate::node::{Kind, LockKeys, MAX_RESERVATIONS, NodeError, Position, RESERVATION_TTL, SlotOffer, Slots};
use crate::random::WaiterId;

/// How often a queue is created that somebody deletes before it can be entered. A busy lock is taken between the two.
const MAX_ENTRIES: usize = 8;

/// A caller that wants a lock, and waits if it says since when.
pub(super) struct Caller<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) waiter: WaiterId,
    pub(super) since: Option<NonZeroU64>,
    pub(super) kind: Kind,
}

/// The queue of a lock, as a caller sees it.
///
/// A key is offered to those that wait, one after another: who is `k`-th in the queue may take one that has been free for
/// longer than `k` [`RESERVATION_TTL`]s. So a process that is dead or stopped costs those behind it one of these for each lock, and not
/// its whole session. Of several slots that are free, the first in the queue, as many as there are such slots, may each take any.
pub(super) struct QueueView {
    /// Whether nobody waits, as far as is known: the transaction finds out.
    is_empty: bool,
    /// The caller's own znode in the queue.
    own: Option<String>,
    pub(super) position: Option<Position>,
    pub(super) turn: Turn,
    /// The slots that the caller may take, if the lock is a slot.
    pub(super) offer: Option<SlotOffer>,
    /// The znodes of those before the caller that did not come in their turn.
    passed: Vec<String>,
}

/// Whether it is the caller's turn. Otherwise, after how long it is if none of those before it takes the lock; `None` if somebody has the lock.
type Turn = Result<(), Option<Duration>>;

impl QueueView {
    pub(super) fn empty() -> Self {
        Self { is_empty: true, own: None, position: None, turn: Ok(()), offer: None, passed: Vec::new() }
    }

    /// What is carried out with the transaction that takes the lock: the caller leaves the queue, or there is none.
    pub(super) fn parts<'a>(&'a self, queue: &'a str) -> Vec<Part<'a>> {
        match (&self.own, self.is_empty) {
            (Some(own), _) => vec![Part::Delete(own, None)],
            // Only a queue that does not exist can be created.
            (None, true) => vec![Part::Create(queue, b"", CreateMode::Persistent), Part::Delete(queue, None)],
            (None, false) => Vec::new(),
        }
    }
}

impl Session {
    /// The lock cannot be had. Returns the caller's position in the queue, which it enters if it waits, and what else it may take.
    pub(super) async fn wait(
        &self,
        paths: &Paths,
        caller: &Caller<'_>,
    ) -> Result<(Option<Position>, Option<SlotOffer>), NodeError> {
        if caller.since.is_none() {
            // Those who wait, if any do, are found by the transaction.
            return Ok((None, SlotOffer::of(self.free_slots(paths, caller).await?)));
        }
        let QueueView { position, offer, .. } = self.view_queue(paths, caller).await?;
        Ok((position, offer))
    }

    /// The slots that nobody holds, of those that the caller may have. As far as this server knows.
    async fn free_slots(&self, paths: &Paths, caller: &Caller<'_>) -> Result<Slots, NodeError> {
        let Some(slot) = caller.keys.slot() else { return Ok(Slots::default()) };
        let lock_of = |slot| paths.lock(&caller.keys.with_slot(slot));
        let locks: Vec<String> = (0..caller.kind.permits(slot)).map(lock_of).collect();
        let held = (0..).zip(self.read_values(&locks).await?);
        Ok(held.filter(|(_, holder)| holder.is_none()).map(|(slot, _)| slot).collect())
    }

    /// Looks at the queue, and enters it if the caller waits.
    pub(super) async fn view_queue(&self, paths: &Paths, caller: &Caller<'_>) -> Result<QueueView, NodeError> {
        let had_place = self.known().places.has(caller.keys.queue());
        for is_again in [false, true] {
            if let Some(mut view) = self.look_at_queue(paths, caller).await? {
                // Again, if those behind it passed over it.
                view.position = view.position.map(|position| Position { anew: is_again || !had_place, ..position });
                return Ok(view);
            }
        }
        Ok(QueueView { is_empty: false, turn: Err(Some(RESERVATION_TTL)), ..QueueView::empty() })
    }

    /// `None` if the caller's place is gone, because those behind it passed over it. The next look enters the queue again.
    async fn look_at_queue(&self, paths: &Paths, caller: &Caller<'_>) -> Result<Option<QueueView>, NodeError> {
        let (keys, queue, lock) = (caller.keys, paths.queue(caller.keys), paths.lock(caller.keys));
        let own = match caller.since {
            Some(since) => self.enter(keys, since, caller.waiter).await?,
            None => None,
        };
        // The fence before the lock: an owner that took the lock between the two is noticed at the next look.
        let fence = paths.fence(keys.fence());
        let (names, fence) = (self.client.list_children(&queue), self.client.get_data(&fence));
        let holder = self.client.check_stat(&lock);
        let Some(mut names) = if_present(names.await).map_err(|error| node_error(&error))? else {
            self.known().places.forget(keys.queue());
            return Ok(Some(QueueView::empty()));
        };
        let mut fence_version = None;
        if let Ok((value, stat)) = fence.await {
            // So that the ledger need not read it.
            fence_version = self.saw_fence(keys.fence(), &value, stat.version)?.version;
        }
        let is_held = holder.await.map_err(|error| node_error(&error))?.is_some();
        names.sort_unstable();
        let at = own.as_ref().map(|own| names.iter().position(|name| own.ends_with(name.as_str())));
        if at == Some(None) {
            self.known().places.forget(keys.queue());
            return Ok(None);
        }
        let at = at.flatten();
        let ahead = at.unwrap_or(names.len());
        let position = at.filter(|at| *at < MAX_WAITERS).map(|at| Position { ahead: count(at), anew: false });
        if own.is_some() && position.is_none() {
            self.known().places.leave(keys.queue());
        }
        let free_slots = self.free_slots(paths, caller).await?;
        let proposed = free_slots.iter().nth(ahead).filter(|_| own.is_some());
        let offer = proposed.map(|proposed| SlotOffer { proposed, free: free_slots });
        // The first come, as many as there are slots.
        let before = count(ahead).saturating_sub(free_slots.count().saturating_sub(1));
        let (turn, passed) = if is_held {
            self.known().places.seen_held(keys.lock_key());
            (Err(None), 0)
        } else {
            turn_after(before, self.known().places.seen_free(keys.lock_key(), fence_version))
        };
        names.truncate(ahead.min(passed));
        let passed = names.into_iter().map(|name| format!("{queue}/{name}")).collect();
        Ok(Some(QueueView { is_empty: false, own, position, turn, offer, passed }))
    }

    /// Enters the queue of a lock, unless the manager is in it since that time. Returns its znode.
    ///
    /// `None` if the queue was deleted meanwhile, again and again. The next attempt creates it.
    pub(super) async fn enter(
        &self,
        keys: &LockKeys,
        since: NonZeroU64,
        waiter: WaiterId,
    ) -> Result<Option<String>, NodeError> {
        let paths = self.paths(keys.keyspace());
        let (queue, name) = (paths.queue(keys), paths::waiter(since, waiter));
        let own = format!("{queue}/{name}");
        let lock = paths.lock(keys);
        {
            let mut known = self.known();
            if let Some(watched) = known.places.waits_on(keys.queue(), &own) {
                let mut locks = watched.locks.lock();
                if locks.insert(keys.lock_key().to_owned(), lock).is_none() {
                    watched.changed.notify_one();
                }
                return Ok(Some(own));
            }
            // The manager has one place in each queue.
            known.places.leave(keys.queue());
            known.places.not_left(&own);
        }
        let ((), has_place) = join(self.delete_left(), self.create_place(&queue, &own)).await;
        if !has_place? {
            return Ok(None);
        }
        let watched = Watched {
            queue,
            name,
            locks: Mutex::new(BTreeMap::from([(keys.lock_key().to_owned(), lock)])),
            changed: Notify::new(),
            left: CancellationToken::new(),
        };
        self.known().places.entered(keys.queue(), own.clone(), watched);
        Ok(Some(own))
    }

    /// Creates the own znode in a queue. False if the queue was deleted, because it was empty, each time.
    async fn create_place(&self, queue: &str, own: &str) -> Result<bool, NodeError> {
        let acls = self.acls;
        for _ in 0..MAX_ENTRIES {
            // Servers delete a container in which nobody is left, if no client does.
            let (created, entered) = (
                self.client.create(queue, b"", &CreateMode::Container.with_acls(acls)),
                self.client.create(own, b"", &CreateMode::Ephemeral.with_acls(acls)),
            );
            match created.await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(node_error(&error)),
            }
            match entered.await {
                Ok(_) | Err(Error::NodeExists) => return Ok(true),
                Err(Error::NoNode) => {}
                Err(error) => return Err(node_error(&error)),
            }
        }
        Ok(false)
    }

    /// Deletes the places that were left. The requests have their place in the order of the session when this returns. Those that are
    /// lost are sent again the next time.
    pub(super) fn delete_left(&self) -> impl Future<Output = ()> + '_ {
        let left = self.known().places.take_left();
        let deleted = left.into_iter().map(|own| {
            let deleted = self.client.delete(&own, None);
            self.delete_if_empty(own.rsplit_once('/').map_or("", |(queue, _)| queue));
            async move {
                match deleted.await {
                    Ok(()) | Err(Error::NoNode) => self.known().places.not_left(&own),
                    Err(_) => self.known().places.still_there(&own),
                }
            }
        });
        join_all(deleted).map(drop)
    }

    /// The caller took the lock: it waits no more, and those that let their turn pass lose their place.
    pub(super) fn took(&self, queue: &str, keys: &LockKeys, view: &QueueView) {
        self.known().places.seen_held(keys.lock_key());
        if view.own.is_some() {
            self.known().places.forget(keys.queue());
        }
        for path in &view.passed {
            // Sent, and not awaited. A waiter that was passed over finds that out by itself, and comes again.
            drop(self.client.delete(path, None));
        }
        if !view.is_empty {
            self.delete_if_empty(queue);
        }
    }

    /// Deletes a queue in which nobody is left. Otherwise it stays: one that has children cannot be deleted.
    fn delete_if_empty(&self, queue: &str) {
        drop(self.client.delete(queue, None));
    }
}

/// When it is the turn of a waiter that comes after others, of a lock that was free for this long, and how many have let theirs pass.
fn turn_after(before: u32, free: Duration) -> (Turn, usize) {
    match (RESERVATION_TTL * before.min(MAX_RESERVATIONS)).saturating_sub(free) {
        Duration::ZERO => (Ok(()), turns_in(free)),
        left => (Err(Some(left)), 0),
    }
}

/// How many of those at the head had their turn while the lock was free for this long, and knew it: the others do not watch the lock.
fn turns_in(free: Duration) -> usize {
    let turns = free.as_millis() / RESERVATION_TTL.as_millis();
    usize::try_from(turns).unwrap_or(usize::MAX).min(AT_HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_whose_turn_has_not_passed_or_who_do_not_watch_keep_their_place() {
        let turns = [0, 99, 100, 250, 300, 1000].map(|millis| turns_in(Duration::from_millis(millis)));
        assert_eq!(turns, [0, 0, 1, 2, 3, 3]);
    }
}
