use std::num::NonZeroU64;
use std::time::Duration;

use super::ledger::{Claim, Ledger};
use super::waiting::{Attempt, WaitingRoom};
use crate::node::{
    Evict, Eviction, Keyspace, LockKeys, LockState, Look, NodeError, NodeRecord, Operation, QueuePosition, RecordWrite,
    Reply, Request,
};
use crate::random::OwnerId;

/// The data of an in-memory master. The ledger decides what becomes of a request, and the waiting room is told. All times are on the
/// node's clock.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) run_id: String,
    /// How many requests and writes of records were executed: what a log would have.
    pub(super) log_position: u64,
    pub(super) ledger: Ledger,
    pub(super) waiting: WaitingRoom,
    /// How many requests may be executed before expired keys are swept.
    requests_until_sweep: usize,
}

/// The least number of requests between two sweeps, so that a small store is not swept all the time.
pub(super) const SWEEP_INTERVAL: usize = 1024;

impl Store {
    pub(super) fn new(run_id: String) -> Self {
        let (ledger, waiting) = (Ledger::default(), WaitingRoom::default());
        Self { run_id, log_position: 0, ledger, waiting, requests_until_sweep: SWEEP_INTERVAL }
    }

    /// Writes the record at a time on the node's clock, in microseconds.
    pub(super) fn write_record(&mut self, keyspace: &Keyspace, write: &RecordWrite, micros: u64) -> Option<NodeRecord> {
        if write.record.run_id != self.run_id {
            return None;
        }
        self.log_position += 1;
        self.ledger.records.write(keyspace, write, micros)
    }

    pub(super) fn execute(&mut self, request: &Request, now: Duration) -> Result<Reply, NodeError> {
        self.log_position += 1;
        self.sweep(now);
        let Request { keys, epoch, operation, .. } = request;
        self.ledger.records.check_epoch(keys.keyspace(), *epoch)?;
        match *operation {
            Operation::Acquire { owner, ttl, hint, tokens, since, kind } => {
                self.acquire(request, Claim { owner, kind, ttl }, (hint, tokens), since, now)
            }
            Operation::Confirm { owner, token } => Ok(self.ledger.confirm(keys, owner, token, now)),
            Operation::Extend { owner, ttl } => Ok(self.extend(keys, owner, ttl, now)),
            Operation::Downgrade { owner, ttl } => {
                if self.ledger.downgrade(keys, owner, now) {
                    self.waiting.let_readers_in(keys, now);
                }
                Ok(self.extend(keys, owner, ttl, now))
            }
            Operation::Replace { owner, ttl, token, kind } => {
                let was_free = self.ledger.held(keys, now).is_none();
                let reply = self.ledger.replace(keys, Claim { owner, kind, ttl }, token, now)?;
                if was_free && keys.slot().is_some() && reply == Reply::Kept {
                    self.changed(request, QueuePosition::None, now);
                }
                Ok(reply)
            }
            Operation::Release { owner, position } => {
                let was_held = self.ledger.release(keys, owner, now);
                self.changed(request, position, now);
                Ok(if was_held { Reply::Released } else { Reply::NotOwner })
            }
            Operation::LeaveQueue => {
                self.changed(request, QueuePosition::Leave, now);
                Ok(Reply::QueueLeft)
            }
        }
    }

    fn acquire(
        &mut self,
        request: &Request,
        claim: Claim,
        tokens: (u64, u32),
        since: Option<NonZeroU64>,
        now: Duration,
    ) -> Result<Reply, NodeError> {
        let (keys, Claim { owner, kind, .. }) = (&request.keys, claim);
        let held = self.ledger.held(keys, now);
        // The same attempt again.
        if held.is_some() && self.ledger.is_held_by(keys, owner, kind, now) {
            return Ok(Reply::Granted { token: self.ledger.records.fence(keys) });
        }
        let refusal = self.ledger.refusal(keys, held, claim, now);
        // The ledger is asked before the waiting room, and decides alone whether it may be granted. This can only say that it is
        // not yet.
        let wait =
            self.waiting.must_wait(Attempt { request, since, kind, held, refusal }, &self.ledger.holds(now), now);
        let refused =
            |remaining| Reply::Held { remaining: Some(remaining), stranger: false, position: None, offer: None };
        if let Some(reply) = wait.or_else(|| refusal.map(refused)) {
            return Ok(reply);
        }
        let granted = self.ledger.acquire(keys, claim, tokens, now)?;
        if since.is_some() {
            self.waiting.acquired(request, &self.ledger.holds(now), now);
        }
        // The first reader opens the lock for those that wait to read: they need not wait until it is released.
        if kind.is_read() && held.is_none() {
            self.waiting.let_readers_in(keys, now);
        }
        Ok(granted)
    }

    fn changed(&mut self, request: &Request, position: QueuePosition, now: Duration) {
        self.waiting.changed(request, position, &self.ledger.holds(now), now);
    }

    fn extend(&mut self, keys: &LockKeys, owner: OwnerId, ttl: Duration, now: Duration) -> Reply {
        if !self.ledger.extend(keys, owner, ttl, now) {
            return Reply::Gone;
        }
        let is_shared = self.ledger.held(keys, now).is_some_and(|held| held.by_readers);
        if is_shared && self.waiting.writer_waits(keys, now) { Reply::Barred } else { Reply::Kept }
    }

    pub(super) fn look(&self, Look { keys, epoch }: &Look, now: Duration) -> Result<Vec<LockState>, NodeError> {
        if let (Some(epoch), Some(first)) = (epoch, keys.first()) {
            self.ledger.records.check_epoch(first.keyspace(), *epoch)?;
        }
        let state =
            |keys: &LockKeys| LockState { waiters: self.waiting.count(keys, now), ..self.ledger.look(keys, now) };
        Ok(keys.iter().map(state).collect())
    }

    pub(super) fn evict(&mut self, evict: &Evict, now: Duration) -> Result<Eviction, NodeError> {
        self.log_position += 1;
        self.ledger.records.check_epoch(evict.keys.keyspace(), evict.epoch)?;
        let evicted = self.ledger.evict(evict, now)?;
        if matches!(evicted, Eviction::Evicted { .. }) {
            self.waiting.evicted(&evict.keys, &self.ledger.holds(now), now);
        }
        Ok(evicted)
    }

    /// Drops expired keys now and then. As many requests as there are keys come between two sweeps, so a request pays for
    /// about one key.
    fn sweep(&mut self, now: Duration) {
        self.requests_until_sweep -= 1;
        if self.requests_until_sweep == 0 {
            self.waiting.sweep(now);
            self.requests_until_sweep = SWEEP_INTERVAL + self.ledger.sweep(now);
        }
    }
}
