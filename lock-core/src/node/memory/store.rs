use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use super::queue::NodeQueue;
use crate::node::{
    Establish, Keyspace, LockKeys, NodeError, NodeRecord, Operation, QueuePosition, RESERVATION_TTL, Reply, Request,
    Wakeup, WakeupKind,
};
use crate::random::{OwnerId, WaiterId};

/// The keys of an in-memory master and the rules of the scripts, as told at [`Operation`]. Times are on the node's clock.
pub(super) struct Store {
    run_id: String,
    locks: HashMap<String, Lock>,
    queues: HashMap<String, NodeQueue>,
    /// What processes are to be told, and when that ends.
    wakeups: HashMap<WaiterId, (Vec<Wakeup>, Duration)>,
    has_wakeups: bool,
    records: HashMap<String, Record>,
    quarantines: HashMap<String, Duration>,
    /// How many votes may be answered before expired keys are swept.
    votes_until_sweep: usize,
}

struct Lock {
    owner: OwnerId,
    expires: Duration,
}

/// What the node must not forget: without the fences there is no epoch, and so no vote.
struct Record {
    meta: NodeRecord,
    fences: HashMap<u16, u64>,
}

/// How long a call waits for its process.
const WAKEUP_TTL: Duration = Duration::from_secs(2);

/// The least number of votes between two sweeps, so that small stores are not swept all the time.
const SWEEP_INTERVAL: usize = 1024;

/// The largest fencing number: beyond it, numbers are not exact in Lua and JavaScript.
const MAX_FENCE: u64 = (1 << 53) - 1;

fn used_up() -> NodeError {
    NodeError::Rejected { code: "ERR".into(), detail: "the fence is used up".into() }
}

impl Store {
    pub(super) fn new(run_id: String) -> Self {
        Self {
            run_id,
            locks: HashMap::new(),
            queues: HashMap::new(),
            wakeups: HashMap::new(),
            has_wakeups: false,
            records: HashMap::new(),
            quarantines: HashMap::new(),
            votes_until_sweep: SWEEP_INTERVAL,
        }
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) fn record(&self, keyspace: &Keyspace) -> Option<NodeRecord> {
        self.records.get(keyspace.record()).map(|record| record.meta.clone())
    }

    pub(super) fn quarantine(&self, keyspace: &Keyspace, now: Duration) -> Option<Duration> {
        let ends = self.quarantines.get(keyspace.quarantine())?;
        ends.checked_sub(now).filter(|remaining| !remaining.is_zero())
    }

    pub(super) fn lock_keys(&self, now: Duration) -> Vec<String> {
        let alive = self.locks.iter().filter(|(_, lock)| lock.expires > now);
        let mut keys: Vec<String> = alive.map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys
    }

    pub(super) fn establish(&mut self, keyspace: &Keyspace, record: Establish, now: Duration) -> bool {
        let present = self.records.get_mut(keyspace.record());
        if present.as_ref().map(|present| present.meta.epoch) != record.expected || record.run_id != self.run_id {
            return false;
        }
        let meta = NodeRecord { run_id: record.run_id, epoch: record.epoch, config: record.config };
        match present {
            Some(present) => present.meta = meta,
            None => _ = self.records.insert(keyspace.record().to_owned(), Record { meta, fences: HashMap::new() }),
        }
        if !record.quarantine.is_zero() {
            self.quarantines.insert(keyspace.quarantine().to_owned(), now + record.quarantine);
        }
        true
    }

    pub(super) fn execute(&mut self, request: &Request, now: Duration) -> Result<Reply, NodeError> {
        self.sweep(now);
        let Request { keys, epoch, waiter, operation } = request;
        let Some(record) = self.records.get(keys.keyspace().record()).filter(|record| record.meta.epoch == *epoch)
        else {
            return Err(NodeError::Unadmitted);
        };
        let fence = record.fences.get(&keys.fence()).copied().unwrap_or(0);
        let holder = self.holder(keys, now);
        Ok(match *operation {
            Operation::Acquire { owner, ttl, hint, tokens, since } => {
                if let Some(remaining) = self.quarantine(keys.keyspace(), now) {
                    return Err(NodeError::Quarantined { remaining });
                }
                if holder.is_some_and(|(holder, _)| holder == owner) {
                    return Ok(Reply::Granted { token: fence });
                }
                if let Some(remaining) = self.blocked_for(keys, holder, (*waiter, since), now) {
                    return Ok(Reply::Held { remaining: Some(remaining) });
                }
                let fence = hint.max(fence.saturating_add(1)).saturating_add(u64::from(tokens) - 1);
                if fence > MAX_FENCE {
                    return Err(used_up());
                }
                self.set_fence(keys, fence);
                self.set_lock(keys, owner, ttl, now);
                if let (Some(_), Some(line)) = (since, self.queues.get_mut(keys.lock_key())) {
                    line.end_turn();
                    line.leave(*waiter, now);
                }
                Reply::Granted { token: fence }
            }
            Operation::Confirm { owner, token: wanted } => {
                if holder.is_some_and(|(holder, _)| holder == owner) && fence <= wanted {
                    self.set_fence(keys, wanted);
                    Reply::Confirmed
                } else {
                    Reply::Refused { fence }
                }
            }
            Operation::Extend { owner, ttl } => match holder {
                Some((holder, remaining)) if holder == owner => {
                    self.set_lock(keys, owner, ttl.max(remaining), now);
                    Reply::Kept
                }
                _ => Reply::Gone,
            },
            Operation::Replace { owner, ttl, token } => match holder {
                Some((holder, _)) if holder == owner => Reply::Kept,
                Some(_) => Reply::Gone,
                None => {
                    self.set_fence(keys, fence.max(token));
                    self.set_lock(keys, owner, ttl, now);
                    Reply::Kept
                }
            },
            Operation::Release { owner, position } => {
                let ours = holder.is_some_and(|(holder, _)| holder == owner);
                if ours {
                    self.locks.remove(keys.lock_key());
                }
                self.move_on(keys, *waiter, position, ours || holder.is_none(), now);
                if ours { Reply::Released } else { Reply::NotOwner }
            }
            Operation::LeaveQueue => {
                self.move_on(keys, *waiter, QueuePosition::Leave, holder.is_none(), now);
                Reply::QueueLeft
            }
        })
    }

    /// For how long the lock is held, or kept for another waiter. One that waits enters the queue then.
    fn blocked_for(
        &mut self,
        keys: &LockKeys,
        holder: Option<(OwnerId, Duration)>,
        (waiter, since): (WaiterId, Option<NonZeroU64>),
        now: Duration,
    ) -> Option<Duration> {
        let known = self.queues.get_mut(keys.lock_key()).is_some_and(|line| line.age(now));
        if let Some(since) = since.filter(|_| known || holder.is_some()) {
            self.line(keys).enter(waiter, since, now);
        }
        if let Some((_, remaining)) = holder {
            return Some(remaining);
        }
        let line = self.queues.get_mut(keys.lock_key())?;
        let another = |first: WaiterId| first != waiter || since.is_none();
        match line.turn(now) {
            Some((turn, remaining)) => another(turn).then_some(remaining),
            None if line.first().is_some_and(another) => {
                self.offer(keys, now);
                Some(RESERVATION_TTL)
            }
            None => None,
        }
    }

    /// What a release does to the line.
    fn move_on(&mut self, keys: &LockKeys, waiter: WaiterId, position: QueuePosition, free: bool, now: Duration) {
        let known = self.queues.get_mut(keys.lock_key()).is_some_and(|line| line.age(now));
        if !known && !matches!(position, QueuePosition::Keep(_)) {
            return;
        }
        let line = self.line(keys);
        match position {
            QueuePosition::Keep(since) => line.enter(waiter, since, now),
            QueuePosition::Leave => {
                line.leave(waiter, now);
                if line.turn(now).is_some_and(|(turn, _)| turn == waiter) {
                    line.end_turn();
                }
            }
            QueuePosition::None => {}
        }
        if free && line.turn(now).is_none() {
            self.offer(keys, now);
        }
    }

    fn line(&mut self, keys: &LockKeys) -> &mut NodeQueue {
        self.queues.entry(keys.lock_key().to_owned()).or_default()
    }

    /// Keeps the free key for the first in line, if there is one, and wakeups it and the second.
    fn offer(&mut self, keys: &LockKeys, now: Duration) {
        let Some(offer) = self.line(keys).offer(now) else { return };
        self.has_wakeups = true;
        let woken = [(Some(offer.first), WakeupKind::Reserved), (offer.second, WakeupKind::Next)];
        for (waiter, kind) in woken.into_iter().filter_map(|(waiter, kind)| Some((waiter?, kind))) {
            let (wakeups, expire) = self.wakeups.entry(waiter).or_default();
            if *expire <= now {
                wakeups.clear();
            }
            *expire = now + WAKEUP_TTL;
            wakeups.push(Wakeup { lock_key: keys.lock_key().to_owned(), kind });
        }
    }

    /// Takes the wakeups for a process.
    pub(super) fn take_wakeups(&mut self, waiter: WaiterId, now: Duration) -> Vec<Wakeup> {
        let wakeups = self.wakeups.remove(&waiter).filter(|(_, expire)| *expire > now);
        wakeups.map(|(wakeups, _)| wakeups).unwrap_or_default()
    }

    /// Whether someone was called since this was asked.
    pub(super) fn has_wakeups(&mut self) -> bool {
        std::mem::take(&mut self.has_wakeups)
    }

    /// Who holds the lock and for how long yet.
    fn holder(&self, keys: &LockKeys, now: Duration) -> Option<(OwnerId, Duration)> {
        let lock = self.locks.get(keys.lock_key())?;
        let remaining = lock.expires.checked_sub(now).filter(|remaining| !remaining.is_zero())?;
        Some((lock.owner, remaining))
    }

    fn set_lock(&mut self, keys: &LockKeys, owner: OwnerId, ttl: Duration, now: Duration) {
        let lock = Lock { owner, expires: now + ttl };
        match self.locks.get_mut(keys.lock_key()) {
            Some(slot) => *slot = lock,
            None => _ = self.locks.insert(keys.lock_key().to_owned(), lock),
        }
    }

    fn set_fence(&mut self, keys: &LockKeys, number: u64) {
        if let Some(record) = self.records.get_mut(keys.keyspace().record()) {
            record.fences.insert(keys.fence(), number);
        }
    }

    /// Drops expired keys now and then: each sweep is paid for by as many votes as there were keys.
    fn sweep(&mut self, now: Duration) {
        self.votes_until_sweep -= 1;
        if self.votes_until_sweep == 0 {
            self.locks.retain(|_, lock| lock.expires > now);
            self.queues.retain(|_, line| line.age(now));
            self.wakeups.retain(|_, (_, expire)| *expire > now);
            self.votes_until_sweep = SWEEP_INTERVAL + self.locks.len();
        }
    }
}

#[cfg(test)]
mod tests;
