use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::queue::{Caller, NodeQueue};
use super::readers::{self, Lock};
use super::tombstones::Tombstones;
use crate::mode::Mode;
use crate::node::limits::MAX_TOKEN;
use crate::node::{
    EVICTION_GAP, Evict, Eviction, FenceReading, FoundRecord, Holder, Keyspace, LockKeys, LockState, Look, NodeError,
    NodeRecord, Operation, QueuePosition, RecordWrite, Reply, Request, Wakeup,
};
use crate::random::{Epoch, OwnerId, WaiterId};

/// The data of an in-memory master, and the rules of [`Operation`], which are those of the scripts. All times are on the node's
/// clock.
#[derive(Clone)]
pub(super) struct Store {
    run_id: String,
    /// How many requests and writes of records were executed: what a log would have.
    log_position: u64,
    locks: HashMap<String, Lock>,
    /// By [`LockKeys::queue`].
    queues: HashMap<String, NodeQueue>,
    tombstones: Tombstones,
    /// Where each waiter listens. Those that do not any more are swept.
    listeners: Listeners,
    records: HashMap<String, Record>,
    /// How many requests may be executed before expired keys are swept.
    requests_until_sweep: usize,
}

/// What holds a lock.
#[derive(Clone, Copy)]
struct Held {
    remaining: Duration,
    by_readers: bool,
}

/// The record of the node and the fences are one thing: a node that forgot the fences has no epoch, and so no vote.
#[derive(Clone)]
struct Record {
    node: NodeRecord,
    fences: HashMap<u16, u64>,
    /// What every fence is at least.
    floor: u64,
}

type Listeners = HashMap<WaiterId, mpsc::Sender<Wakeup>>;

/// How many wake-ups for a waiter are kept.
const UNHEARD: usize = 256;
/// The least number of requests between two sweeps, so that a small store is not swept all the time.
const SWEEP_INTERVAL: usize = 1024;

fn rejected(detail: &str) -> NodeError {
    NodeError::Rejected { code: "ERR".into(), detail: detail.into() }
}

impl Store {
    pub(super) fn new(run_id: String) -> Self {
        Self {
            run_id,
            log_position: 0,
            locks: HashMap::new(),
            queues: HashMap::new(),
            tombstones: Tombstones::default(),
            listeners: HashMap::new(),
            records: HashMap::new(),
            requests_until_sweep: SWEEP_INTERVAL,
        }
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) fn log_position(&self) -> u64 {
        self.log_position
    }

    pub(super) fn set_run_id(&mut self, run_id: String) {
        self.run_id = run_id;
    }

    pub(super) fn record(&self, keyspace: &Keyspace) -> FoundRecord {
        let record = self.records.get(keyspace.record());
        record.map_or(FoundRecord::None, |record| FoundRecord::Record(record.node.clone()))
    }

    pub(super) fn read_fences(&self, keyspace: &Keyspace) -> Option<FenceReading> {
        let record = self.records.get(keyspace.record()).filter(|record| record.node.run_id == self.run_id);
        let Record { node, fences, floor } = record?;
        let highest = fences.values().copied().max().unwrap_or_default().max(*floor);
        Some(FenceReading { member: node.member, highest })
    }

    pub(super) fn lock_keys(&self, now: Duration) -> Vec<String> {
        let alive = self.locks.iter().filter(|(_, lock)| lock.expires > now);
        let mut keys: Vec<String> = alive.map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys
    }

    /// Writes the record at a time on the node's clock, in microseconds.
    pub(super) fn write_record(&mut self, keyspace: &Keyspace, write: &RecordWrite, micros: u64) -> Option<NodeRecord> {
        if write.record.run_id != self.run_id {
            return None;
        }
        self.log_position += 1;
        let present = self.records.get_mut(keyspace.record());
        let node = write.apply(present.as_ref().map(|present| &present.node), micros)?;
        let floor = write.floor.unwrap_or_default();
        match present {
            Some(present) => (present.node, present.floor) = (node.clone(), present.floor.max(floor)),
            None => {
                let record = Record { node: node.clone(), fences: HashMap::new(), floor };
                self.records.insert(keyspace.record().to_owned(), record);
            }
        }
        Some(node)
    }

    pub(super) fn execute(&mut self, request: &Request, now: Duration) -> Result<Reply, NodeError> {
        self.log_position += 1;
        self.sweep(now);
        let Request { keys, epoch, waiter, polls, operation } = request;
        self.check_epoch(keys.keyspace(), *epoch)?;
        let fence = self.fence(keys);
        let (holder, caller) = (self.holder(keys, now), Caller { waiter: *waiter, polls: *polls });
        let is_ours = operation.owner().is_some_and(|owner| self.is_held_by(keys, owner, now));
        // Who reads does not write: not even by a late request from before it was downgraded.
        let is_ours_to = |mode: Mode| is_ours && (mode.is_read() || holder.is_some_and(|held| !held.by_readers));
        Ok(match *operation {
            Operation::Acquire { owner, ttl, hint, tokens, since, mode } => {
                if is_ours_to(mode) {
                    return Ok(Reply::Granted { token: fence });
                }
                if let Some(held) = self.blocked(keys, owner, holder, (caller, since, mode), now) {
                    return Ok(held);
                }
                // A reader joins those that hold the lock, with the fence as it stands.
                let joins = holder.is_some();
                let next = hint.max(fence.saturating_add(1)).saturating_add(u64::from(tokens) - 1);
                let token = if joins { fence } else { next };
                if token > MAX_TOKEN {
                    return Err(rejected("the fence is used up"));
                }
                self.set_fence(keys, token);
                self.hold(keys, mode, owner, ttl, now);
                if let (Some(_), Some(queue)) = (since, self.queues.get_mut(keys.queue())) {
                    queue.acquired(keys.slot(), *waiter, now);
                }
                if mode.is_read() && !joins {
                    self.let_readers_in(keys, now);
                }
                Reply::Granted { token }
            }
            Operation::Confirm { token, .. } => {
                if is_ours && fence <= token {
                    self.set_fence(keys, token);
                    Reply::Confirmed
                } else {
                    Reply::Refused { fence }
                }
            }
            Operation::Extend { owner, ttl } if is_ours => self.extend(keys, owner, ttl, now),
            Operation::Downgrade { owner, ttl } if is_ours => self.downgrade(keys, owner, ttl, now),
            Operation::Extend { .. } | Operation::Downgrade { .. } => Reply::Gone,
            Operation::Replace { owner, ttl, token, mode } => {
                if is_ours_to(mode) {
                    return Ok(Reply::Kept);
                }
                let is_shared = holder.is_some_and(|held| held.by_readers && mode.is_read());
                if holder.is_some() && !is_shared || self.is_evicted(keys, owner, now) {
                    return Ok(Reply::Gone);
                }
                // Those who join a reader that is put back after a writer had the lock must not have the token of that writer.
                let after_a_writer = mode.is_read() && holder.is_none() && fence > token;
                let next = if after_a_writer { fence + 1 } else { fence.max(token) };
                if next > MAX_TOKEN {
                    return Err(rejected("the fence is used up"));
                }
                self.set_fence(keys, next);
                self.hold(keys, mode, owner, ttl, now);
                Reply::Kept
            }
            Operation::Release { owner, position } => {
                if is_ours && !self.locks.get_mut(keys.lock_key()).is_some_and(|lock| lock.remove(owner, now)) {
                    self.locks.remove(keys.lock_key());
                }
                self.released(keys, caller, position, now);
                if is_ours { Reply::Released } else { Reply::NotOwner }
            }
            Operation::LeaveQueue => {
                self.released(keys, caller, QueuePosition::Leave, now);
                Reply::QueueLeft
            }
        })
    }

    pub(super) fn look(&self, Look { keys, epoch }: &Look, now: Duration) -> Result<Vec<LockState>, NodeError> {
        if let (Some(epoch), Some(first)) = (epoch, keys.first()) {
            self.check_epoch(first.keyspace(), *epoch)?;
        }
        let state = |keys: &LockKeys| {
            let lock = self.locks.get(keys.lock_key()).filter(|lock| lock.expires > now);
            LockState {
                holder: lock.map(Lock::holder),
                remaining: lock.map(|lock| lock.expires - now),
                readers: lock.map_or(Vec::new(), |lock| lock.readers(now)),
                fence: self.fence(keys),
                waiters: self.queues.get(keys.queue()).map_or(0, |queue| queue.count(now)),
                evicted: self.tombstones.of(keys.lock_key(), now).to_vec(),
            }
        };
        Ok(keys.iter().map(state).collect())
    }

    pub(super) fn evict(&mut self, evict: &Evict, now: Duration) -> Result<Eviction, NodeError> {
        self.log_position += 1;
        let Evict { keys, epoch, holders, token, barred_for } = evict;
        self.check_epoch(keys.keyspace(), *epoch)?;
        let lock = self.locks.get(keys.lock_key()).filter(|lock| lock.expires > now);
        let (fence, is_held) = (self.fence(keys), lock.is_some_and(|lock| !lock.is_nobodys()));
        if lock.is_some_and(|lock| !lock.is_held_only_by(holders, now)) {
            return Ok(Eviction::Superseded);
        }
        if fence >= *token {
            return Ok(Eviction::Refused { fence });
        }
        let owners = holders.iter().filter_map(Holder::owner).collect();
        if !self.tombstones.bar(keys.lock_key(), owners, now + *barred_for, now) {
            return Err(rejected("too many owners were evicted"));
        }
        self.set_fence(keys, *token);
        if is_held {
            let nobodys = Lock::new(Mode::Write, OwnerId::NOBODY, now + EVICTION_GAP);
            self.locks.insert(keys.lock_key().to_owned(), nobodys);
        }
        let slot = keys.slot();
        let is_queued = self.queues.get_mut(keys.queue()).is_some_and(|queue| queue.expire(slot, now));
        if is_queued && self.queue(keys).reservation(slot, now).is_none() {
            self.offer(keys, None, now);
        }
        if is_queued && self.holder(keys, now).is_some() {
            // The waiters were woken. The key is not free yet, so it is reserved for none of them.
            self.queue(keys).end_reservations(slot);
        }
        Ok(Eviction::Evicted { deleted: is_held })
    }

    fn check_epoch(&self, keyspace: &Keyspace, epoch: Epoch) -> Result<(), NodeError> {
        let record = self.records.get(keyspace.record());
        record.filter(|record| record.node.epoch == Some(epoch)).map(drop).ok_or(NodeError::Unadmitted)
    }

    fn fence(&self, keys: &LockKeys) -> u64 {
        let Some(record) = self.records.get(keys.keyspace().record()) else { return 0 };
        record.fences.get(&keys.fence()).copied().unwrap_or(0).max(record.floor)
    }

    fn is_evicted(&self, keys: &LockKeys, owner: OwnerId, now: Duration) -> bool {
        self.tombstones.of(keys.lock_key(), now).contains(&owner)
    }

    fn extend(&mut self, keys: &LockKeys, owner: OwnerId, ttl: Duration, now: Duration) -> Reply {
        let Some(lock) = self.locks.get_mut(keys.lock_key()) else { return Reply::Gone };
        lock.prolong(owner, now + ttl, now);
        let is_shared = matches!(lock.holder, readers::Holder::Readers(_));
        let is_barred = self.queues.get(keys.lock_key()).is_some_and(|queue| queue.writer_waits(None, now));
        if is_shared && is_barred { Reply::Barred } else { Reply::Kept }
    }

    /// The owner holds the lock, and reads from now on.
    fn downgrade(&mut self, keys: &LockKeys, owner: OwnerId, ttl: Duration, now: Duration) -> Reply {
        let Some(lock) = self.locks.get_mut(keys.lock_key()) else { return Reply::Gone };
        if matches!(lock.holder, readers::Holder::Writer(_)) {
            *lock = Lock::new(Mode::Read, owner, lock.expires);
            self.let_readers_in(keys, now);
        }
        self.extend(keys, owner, ttl, now)
    }

    /// Why the caller cannot have the lock; `None` if it can. A caller that waits, and has to, enters the queue.
    fn blocked(
        &mut self,
        keys: &LockKeys,
        owner: OwnerId,
        holder: Option<Held>,
        (caller, since, mode): (Caller, Option<NonZeroU64>, Mode),
        now: Duration,
    ) -> Option<Reply> {
        let (slot, Caller { waiter, .. }) = (keys.slot(), caller);
        let known = self.queues.get_mut(keys.queue()).is_some_and(|queue| queue.expire(slot, now));
        let joins = mode.is_read() && holder.is_some_and(|held| held.by_readers);
        let is_barred = (holder.is_none() || mode.is_read()) && self.is_evicted(keys, owner, now);
        if holder.is_none() && is_barred {
            let position = since.and_then(|since| self.queue(keys).enter(slot, caller, since, mode, now));
            return Some(Reply::Held { remaining: Some(Duration::ZERO), stranger: false, position });
        }
        if !known && holder.is_none() {
            return None;
        }
        if joins && !is_barred && !self.queue(keys).writer_waits(since.map(|since| (waiter, since)), now) {
            return None;
        }
        let is_caller = |other: WaiterId| since.is_some() && other == waiter;
        let (mut position, mut reservation) = (None, self.queue(keys).reservation(slot, now));
        if holder.is_none() && reservation.is_none() {
            if self.queue(keys).first().is_none_or(is_caller) {
                return None;
            }
            position = since.and_then(|since| self.queue(keys).enter(slot, caller, since, mode, now));
            self.offer(keys, since.map(|_| waiter), now);
            reservation = self.queue(keys).reservation(slot, now);
        }
        let remaining = match (holder, reservation) {
            (Some(Held { remaining, .. }), _) => remaining,
            (None, Some((first, remaining))) if !is_caller(first) => {
                let until = since.and_then(|_| self.queue(keys).until_reserved(slot, waiter, now));
                until.unwrap_or(remaining)
            }
            (None, _) => return None,
        };
        let position = position.or_else(|| self.queue(keys).enter(slot, caller, since?, mode, now));
        if position.is_some() && mode == Mode::Write && holder.is_some_and(|held| held.by_readers) {
            self.queue(keys).hear(waiter, now);
        }
        Some(Reply::Held { remaining: Some(remaining), stranger: false, position })
    }

    /// What a release, or leaving the queue, does to the queue.
    fn released(&mut self, keys: &LockKeys, caller: Caller, position: QueuePosition, now: Duration) {
        let slot = keys.slot();
        let known = self.queues.get_mut(keys.queue()).is_some_and(|queue| queue.expire(slot, now));
        if !known && !matches!(position, QueuePosition::Keep { .. }) {
            return;
        }
        let holder = self.holder(keys, now);
        let queue = self.queue(keys);
        match position {
            QueuePosition::Keep { since, mode } => _ = queue.enter(slot, caller, since, mode, now),
            QueuePosition::Leave => {
                let makes_way = queue.has_writer(caller.waiter) && holder.is_some_and(|held| held.by_readers);
                queue.leave(slot, caller.waiter, now);
                if makes_way {
                    self.let_readers_in(keys, now);
                }
            }
            QueuePosition::None => {}
        }
        if holder.is_none() && self.queue(keys).reservation(slot, now).is_none() {
            // The process may have released for a caller that does not wait.
            let caller = (position != QueuePosition::None).then_some(caller.waiter);
            self.offer(keys, caller, now);
        }
    }

    /// Readers begin to hold the lock. The writer behind those that wait was heard while it could not yet be noted.
    fn let_readers_in(&mut self, keys: &LockKeys, now: Duration) {
        let Some(queue) = self.queues.get_mut(keys.queue()) else { return };
        let listeners = &self.listeners;
        if let Some(writer) = queue.wake_readers(|waiter| wake(listeners, keys, waiter, 0)) {
            queue.hear(writer, now);
        }
    }

    fn queue(&mut self, keys: &LockKeys) -> &mut NodeQueue {
        self.queues.entry(keys.queue().to_owned()).or_default()
    }

    /// Offers the free key to the first waiters. If this is a request of one of them, it need not be woken.
    fn offer(&mut self, keys: &LockKeys, caller: Option<WaiterId>, now: Duration) {
        let (queue, listeners) = (self.queues.entry(keys.queue().to_owned()).or_default(), &self.listeners);
        queue.offer(keys.slot(), caller, now, |waiter, before| {
            wake(listeners, keys, waiter, u32::try_from(before).unwrap_or(u32::MAX))
        });
    }

    /// Wakes a waiter from now on, until the receiver is dropped. Wake-ups that it does not take in time are lost.
    pub(super) fn listen(&mut self, waiter: WaiterId) -> mpsc::Receiver<Wakeup> {
        let (sender, receiver) = mpsc::channel(UNHEARD);
        self.listeners.insert(waiter, sender);
        receiver
    }

    /// Nobody hears the node any more.
    pub(super) fn end_connections(&mut self) {
        self.listeners.clear();
    }

    fn holder(&self, keys: &LockKeys, now: Duration) -> Option<Held> {
        let lock = self.locks.get(keys.lock_key())?;
        let remaining = lock.expires.checked_sub(now).filter(|remaining| !remaining.is_zero())?;
        Some(Held { remaining, by_readers: matches!(lock.holder, readers::Holder::Readers(_)) })
    }

    fn is_held_by(&self, keys: &LockKeys, owner: OwnerId, now: Duration) -> bool {
        let lock = self.locks.get(keys.lock_key()).filter(|lock| lock.expires > now);
        lock.is_some_and(|lock| lock.is_held_by(owner, now))
    }

    /// Gives the owner a lock that is free, or one that readers hold and it reads, too.
    fn hold(&mut self, keys: &LockKeys, mode: Mode, owner: OwnerId, ttl: Duration, now: Duration) {
        let expires = now + ttl;
        match self.locks.get_mut(keys.lock_key()) {
            Some(lock) if lock.expires > now => lock.prolong(owner, expires, now),
            Some(slot) => *slot = Lock::new(mode, owner, expires),
            None => _ = self.locks.insert(keys.lock_key().to_owned(), Lock::new(mode, owner, expires)),
        }
    }

    fn set_fence(&mut self, keys: &LockKeys, token: u64) {
        if let Some(record) = self.records.get_mut(keys.keyspace().record()) {
            record.fences.insert(keys.fence(), token);
        }
    }

    /// Drops expired keys now and then. As many requests as there are keys come between two sweeps, so a request pays for
    /// about one key.
    fn sweep(&mut self, now: Duration) {
        self.requests_until_sweep -= 1;
        if self.requests_until_sweep == 0 {
            self.locks.retain(|_, lock| lock.expires > now);
            self.queues.retain(|_, queue| queue.is_known(now));
            self.tombstones.expire(now);
            self.listeners.retain(|_, listener| !listener.is_closed());
            self.requests_until_sweep = SWEEP_INTERVAL + self.locks.len();
        }
    }
}

/// Sends a wake-up. Returns false if the waiter does not listen.
fn wake(listeners: &Listeners, keys: &LockKeys, waiter: WaiterId, before: u32) -> bool {
    let wakeup = Wakeup { lock_key: keys.lock_key().to_owned(), before };
    let sent = listeners.get(&waiter).map(|listener| listener.try_send(wakeup));
    matches!(sent, Some(Ok(()) | Err(TrySendError::Full(_))))
}

#[cfg(test)]
mod tests;
