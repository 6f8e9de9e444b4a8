//! Nodes with a fault, each of which [`Conformance`](lock_core::node::conformance::Conformance) has to find.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::stream::pending;
use lock_core::node::{
    Epoch, Evict, Eviction, Holder, Inspection, Keyspace, Kind, MemberId, NodeFuture, NodeRecord, Operation, OwnerId,
    QueuePosition, RecordWrite, Reply, ReplySender, Request, WaiterId, Wakeups,
};
use lock_core::{LockNode, MemoryNode, NodeError, forward_to_node};

/// What a node may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    GrantsTwice,
    ForgetsTheFence,
    ReservesOneTokenOfSeveral,
    ConfirmsALowerToken,
    ReleasesTheLockOfAnother,
    KeepsWhatIsReleased,
    LetsReadersInBesideAWriter,
    LetsReadersPassAWriterThatWaits,
    RenewsWhatIsGone,
    PutsBackBesideAnother,
    EndsLocksEarly,
    ForgetsWhoWasEvicted,
    EvictsASuccessor,
    ExecutesInAnyEpoch,
    ReleasesInAnyEpoch,
    WritesOverAnotherRecord,
    IgnoresTheFloor,
    ChangesItsRunId,
    ForgetsWhoWaits,
    ServesTheLastFirst,
    WakesNobody,
    ReadsBeforeItGrants,
    EndsTheHolderBeforeTheGap,
    ForgetsTheEvictedSoon,
    CountsInWholeSeconds,
    ExtendsForLess,
    Overtakes,
    DropsWhatNobodyAwaits,
    ReadsTheRecordBeforeItWrites,
    CountsTooFast,
    StandsStill,
}

/// An in-memory node with a fault.
#[derive(Clone)]
pub(crate) struct FaultyNode {
    node: MemoryNode,
    fault: Fault,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Who was granted each lock last, and the token.
    granted: HashMap<String, (OwnerId, u64)>,
    record: Option<(MemberId, u64)>,
    epoch: Option<Epoch>,
    inspections: u64,
    /// Releases in another epoch, or without one, that are carried out in the next one.
    releases: Vec<Request>,
    unheard: Vec<Wakeups>,
    /// What was submitted and is not executed yet.
    pending: Vec<(Request, ReplySender)>,
    /// What the clock showed first, and when.
    clock: Option<(u64, Instant)>,
}

impl FaultyNode {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { node: MemoryNode::new(), fault, seen: Arc::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a request without a fault.
    fn execute(&self, request: Request) -> Result<Reply, NodeError> {
        let (sender, reply) = ReplySender::channel();
        self.node.submit(request, sender);
        reply.now_or_never().unwrap()
    }

    /// Executes what is pending, if no other task has.
    fn answer_pending(&self) {
        let mut pending = std::mem::take(&mut self.seen().pending);
        if self.fault == Fault::Overtakes {
            pending.reverse();
        }
        if self.fault == Fault::DropsWhatNobodyAwaits {
            pending.retain(|(_, reply_to)| reply_to.is_awaited());
        }
        let free = |request: &Request| !self.node.lock_keys().iter().any(|key| key == request.keys.lock_key());
        let were_free: Vec<bool> = pending.iter().map(|(request, _)| free(request)).collect();
        for ((request, reply_to), was_free) in pending.into_iter().zip(were_free) {
            let holder = self.seen().granted.get(request.keys.lock_key()).map(|(owner, _)| *owner);
            if let (Fault::ReadsBeforeItGrants, Operation::Acquire { .. }, true, Some(owner)) =
                (self.fault, request.operation, was_free, holder)
            {
                let operation = Operation::Release { owner, position: QueuePosition::None };
                _ = self.execute(Request { operation, ..request.clone() });
            }
            self.answer(&request, reply_to);
        }
    }

    fn answer(&self, request: &Request, reply_to: ReplySender) {
        let lock_key = request.keys.lock_key().to_owned();
        let present = self.seen().epoch.filter(|_| self.fault == Fault::ExecutesInAnyEpoch);
        let (epoch, operation) = (present.unwrap_or(request.epoch), self.mistaken(&lock_key, request.operation));
        let reply = self.execute(Request { epoch, operation, ..request.clone() });
        if let (Operation::Acquire { owner, .. }, Ok(Reply::Granted { token })) = (operation, &reply) {
            self.seen().granted.insert(lock_key, (owner, *token));
        }
        if self.fault == Fault::ReleasesInAnyEpoch
            && let (Operation::Release { owner, .. }, Err(_)) = (operation, &reply)
        {
            let operation = Operation::Release { owner, position: QueuePosition::None };
            self.seen().releases.push(Request { operation, ..request.clone() });
        }
        reply_to.send(reply.map(|reply| self.distorted(request, reply)));
    }

    /// The lock is free for a moment, before everybody is kept out of it.
    fn evict_in_two_steps(&self, evict: Evict, owner: OwnerId, token: u64) -> NodeFuture<Result<Eviction, NodeError>> {
        let request = |operation| {
            let (keys, waiter) = (evict.keys.clone(), WaiterId::from_bits(1));
            Request { keys, epoch: evict.epoch, waiter, polls: false, operation }
        };
        let (ttl, kind) = (Duration::from_secs(1000), Kind::Write);
        let release = request(Operation::Release { owner, position: QueuePosition::None });
        let put_back = request(Operation::Replace { owner, ttl, token, kind });
        let faulty = self.clone();
        Box::pin(async move {
            if evict.holders.contains(&Holder::Owner(owner)) && faulty.execute(release) == Ok(Reply::Released) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                _ = faulty.execute(put_back);
            }
            faulty.node.evict(evict).await
        })
    }

    /// What the faulty node takes an operation for.
    fn mistaken(&self, lock_key: &str, operation: Operation) -> Operation {
        match (self.fault, operation) {
            (Fault::ReservesOneTokenOfSeveral, Operation::Acquire { owner, ttl, hint, since, kind, .. }) => {
                Operation::Acquire { owner, ttl, hint, tokens: 1, since, kind }
            }
            (Fault::EndsLocksEarly, Operation::Acquire { owner, ttl, hint, tokens, since, kind }) => {
                Operation::Acquire { owner, ttl: ttl / 2, hint, tokens, since, kind }
            }
            (Fault::CountsInWholeSeconds, Operation::Acquire { owner, ttl, hint, tokens, since, kind }) => {
                let ttl = Duration::from_secs(ttl.as_secs().max(1));
                Operation::Acquire { owner, ttl, hint, tokens, since, kind }
            }
            (Fault::ExtendsForLess, Operation::Extend { owner, ttl }) => {
                Operation::Extend { owner, ttl: ttl - ttl.min(Duration::from_millis(500)) }
            }
            (Fault::ForgetsWhoWaits, Operation::Acquire { owner, ttl, hint, tokens, kind, .. }) => {
                Operation::Acquire { owner, ttl, hint, tokens, since: None, kind }
            }
            (Fault::ForgetsWhoWaits, Operation::Release { owner, position: QueuePosition::Keep { .. } }) => {
                Operation::Release { owner, position: QueuePosition::None }
            }
            (Fault::ServesTheLastFirst, Operation::Acquire { owner, ttl, hint, tokens, since: Some(since), kind }) => {
                let since = NonZeroU64::new(u64::MAX / 2 - since.get());
                Operation::Acquire { owner, ttl, hint, tokens, since, kind }
            }
            (
                Fault::LetsReadersPassAWriterThatWaits,
                Operation::Acquire { owner, ttl, hint, tokens, since: Some(_), kind: kind @ Kind::Read },
            ) => Operation::Acquire { owner, ttl, hint, tokens, since: Some(NonZeroU64::MIN), kind },
            (Fault::ReleasesTheLockOfAnother, Operation::Release { owner, position }) => Operation::Release {
                owner: self.seen().granted.get(lock_key).map_or(owner, |(owner, _)| *owner),
                position,
            },
            (Fault::KeepsWhatIsReleased, Operation::Release { owner, .. }) => {
                Operation::Extend { owner, ttl: Duration::from_millis(1) }
            }
            (_, operation) => operation,
        }
    }

    /// What the faulty node makes of the reply.
    fn distorted(&self, request: &Request, reply: Reply) -> Reply {
        match (self.fault, request.operation, reply) {
            (Fault::GrantsTwice, Operation::Acquire { kind: Kind::Write, .. }, Reply::Held { .. })
            | (Fault::LetsReadersInBesideAWriter, Operation::Acquire { kind: Kind::Read, .. }, Reply::Held { .. }) => {
                Reply::Granted { token: 1 }
            }
            (Fault::ForgetsTheFence, Operation::Acquire { hint, tokens, .. }, Reply::Granted { .. }) => {
                Reply::Granted { token: hint.max(1) + u64::from(tokens) - 1 }
            }
            (Fault::ConfirmsALowerToken, Operation::Confirm { .. }, Reply::Refused { .. }) => Reply::Confirmed,
            (Fault::PutsBackBesideAnother, Operation::Replace { .. }, Reply::Gone) => Reply::Kept,
            (Fault::KeepsWhatIsReleased, Operation::Release { .. }, Reply::Gone) => Reply::NotOwner,
            (Fault::KeepsWhatIsReleased, Operation::Release { .. }, _) => Reply::Released,
            (Fault::RenewsWhatIsGone, Operation::Extend { owner, ttl }, Reply::Gone) => {
                let acquire = Operation::Acquire { owner, ttl, hint: 0, tokens: 1, since: None, kind: Kind::Write };
                let again = self.execute(Request { operation: acquire, ..request.clone() });
                if matches!(again, Ok(Reply::Granted { .. })) { Reply::Kept } else { Reply::Gone }
            }
            (.., reply) => reply,
        }
    }
}

impl LockNode for FaultyNode {
    forward_to_node!(self => self.node; name read_fences look);

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let inspected = self.node.inspect(keyspace);
        let mut seen = self.seen();
        seen.inspections += 1;
        let times = if self.fault == Fault::ChangesItsRunId { seen.inspections } else { 0 };
        drop(seen);
        let faulty = self.clone();
        Box::pin(async move {
            let inspection = inspected.await?;
            let (first, since) = *faulty.seen().clock.get_or_insert((inspection.clock_micros, Instant::now()));
            let clock_micros = match faulty.fault {
                Fault::StandsStill => first,
                Fault::CountsTooFast => {
                    inspection.clock_micros + 9 * u64::try_from(since.elapsed().as_micros()).unwrap()
                }
                _ => inspection.clock_micros,
            };
            Ok(Inspection { run_id: format!("{}/{times}", inspection.run_id), clock_micros, ..inspection })
        })
    }

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        mut write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        let seen = Arc::clone(&self.seen);
        write.record.run_id.truncate(write.record.run_id.rfind('/').unwrap());
        if self.fault == Fault::WritesOverAnotherRecord {
            write.expected = self.seen().record;
        }
        write.floor = write.floor.filter(|_| self.fault != Fault::IgnoresTheFloor);
        let (node, keyspace) = (self.node.clone(), Arc::clone(keyspace));
        let looks_first = self.fault == Fault::ReadsTheRecordBeforeItWrites;
        Box::pin(async move {
            if looks_first {
                let found = async || node.inspect(&keyspace).await.map(|found| found.record.get().map(id_of));
                if found().await? != write.expected {
                    return Ok(None);
                }
                tokio::task::yield_now().await;
                write.expected = found().await?;
            }
            let written = node.write_record(&keyspace, write).await?;
            if let Some(record) = &written {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                (seen.record, seen.epoch) = (Some((record.member, record.version)), record.epoch);
                if let Some(epoch) = record.epoch {
                    let releases = seen.releases.drain(..).map(|release| Request { epoch, ..release });
                    releases.for_each(|release| node.submit(release, ReplySender::channel().0));
                }
            }
            Ok(written)
        })
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if !matches!(self.fault, Fault::ReadsBeforeItGrants | Fault::Overtakes | Fault::DropsWhatNobodyAwaits) {
            return self.answer(&request, reply_to);
        }
        self.seen().pending.push((request, reply_to));
        let node = self.clone();
        tokio::spawn(async move { node.answer_pending() });
    }

    fn submit_all(&self, requests: Vec<(Request, ReplySender)>) {
        requests.into_iter().for_each(|(request, reply_to)| self.answer(&request, reply_to));
    }

    fn evict(&self, mut evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
        if self.fault == Fault::ForgetsWhoWasEvicted {
            evict.barred_for = Duration::ZERO;
        }
        if self.fault == Fault::ForgetsTheEvictedSoon {
            evict.barred_for = evict.barred_for.min(Duration::from_millis(200));
        }
        if self.fault == Fault::EndsTheHolderBeforeTheGap
            && let Some((owner, token)) = self.seen().granted.get(evict.keys.lock_key()).copied()
        {
            return self.evict_in_two_steps(evict, owner, token);
        }
        if self.fault == Fault::EvictsASuccessor {
            evict
                .holders
                .extend(self.seen().granted.get(evict.keys.lock_key()).map(|(owner, _)| Holder::Owner(*owner)));
        }
        self.node.evict(evict)
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let wakeups = self.node.wakeups(keyspace, waiter);
        if self.fault != Fault::WakesNobody {
            return wakeups;
        }
        let seen = Arc::clone(&self.seen);
        Box::pin(async move {
            let unheard = wakeups.await?;
            seen.lock().unwrap_or_else(PoisonError::into_inner).unheard.push(unheard);
            Ok(Box::pin(pending()) as Wakeups)
        })
    }
}

fn id_of(record: &NodeRecord) -> (MemberId, u64) {
    (record.member, record.version)
}
