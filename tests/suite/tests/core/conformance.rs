//! The in-memory node keeps the rules, and nodes with a fault do not: what an author of a node in another repository sees.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::pending;
use lock_core::node::conformance::{Conformance, Divergence, Lack};
use lock_core::node::{
    Epoch, Evict, Eviction, Holder, Inspection, Keyspace, Kind, MemberId, NodeFuture, NodeRecord, Operation, OwnerId,
    QueuePosition, RecordWrite, Reply, ReplySender, Request, WaiterId, Wakeups,
};
use lock_core::{LockNode, MemoryNode, NodeError, forward_to_node};

/// What a node may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
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
}

const FAULTS: [Fault; 21] = [
    Fault::GrantsTwice,
    Fault::ForgetsTheFence,
    Fault::ReservesOneTokenOfSeveral,
    Fault::ConfirmsALowerToken,
    Fault::ReleasesTheLockOfAnother,
    Fault::KeepsWhatIsReleased,
    Fault::LetsReadersInBesideAWriter,
    Fault::LetsReadersPassAWriterThatWaits,
    Fault::RenewsWhatIsGone,
    Fault::PutsBackBesideAnother,
    Fault::EndsLocksEarly,
    Fault::ForgetsWhoWasEvicted,
    Fault::EvictsASuccessor,
    Fault::ExecutesInAnyEpoch,
    Fault::ReleasesInAnyEpoch,
    Fault::WritesOverAnotherRecord,
    Fault::IgnoresTheFloor,
    Fault::ChangesItsRunId,
    Fault::ForgetsWhoWaits,
    Fault::ServesTheLastFirst,
    Fault::WakesNobody,
];

/// An in-memory node with a fault.
struct Faulty {
    node: MemoryNode,
    fault: Fault,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Who was granted each lock last.
    granted: HashMap<String, OwnerId>,
    record: Option<(MemberId, u64)>,
    epoch: Option<Epoch>,
    inspections: u64,
    /// Releases in another epoch, or without one, that are carried out in the next one.
    releases: Vec<Request>,
    unheard: Vec<Wakeups>,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
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

    /// What the faulty node takes an operation for.
    fn mistaken(&self, lock_key: &str, operation: Operation) -> Operation {
        match (self.fault, operation) {
            (Fault::ReservesOneTokenOfSeveral, Operation::Acquire { owner, ttl, hint, since, kind, .. }) => {
                Operation::Acquire { owner, ttl, hint, tokens: 1, since, kind }
            }
            (Fault::EndsLocksEarly, Operation::Acquire { owner, ttl, hint, tokens, since, kind }) => {
                Operation::Acquire { owner, ttl: ttl / 2, hint, tokens, since, kind }
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
            (Fault::ReleasesTheLockOfAnother, Operation::Release { owner, position }) => {
                Operation::Release { owner: self.seen().granted.get(lock_key).copied().unwrap_or(owner), position }
            }
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

impl LockNode for Faulty {
    forward_to_node!(self => self.node; name read_fences look);

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let inspected = self.node.inspect(keyspace);
        let mut seen = self.seen();
        seen.inspections += 1;
        let times = if self.fault == Fault::ChangesItsRunId { seen.inspections } else { 0 };
        Box::pin(async move {
            let inspection = inspected.await?;
            Ok(Inspection { run_id: format!("{}/{times}", inspection.run_id), ..inspection })
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
        let (node, written) = (self.node.clone(), self.node.write_record(keyspace, write));
        Box::pin(async move {
            let written = written.await?;
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
        let lock_key = request.keys.lock_key().to_owned();
        let present = self.seen().epoch.filter(|_| self.fault == Fault::ExecutesInAnyEpoch);
        let (epoch, operation) = (present.unwrap_or(request.epoch), self.mistaken(&lock_key, request.operation));
        let reply = self.execute(Request { epoch, operation, ..request.clone() });
        if let (Operation::Acquire { owner, .. }, Ok(Reply::Granted { .. })) = (operation, &reply) {
            self.seen().granted.insert(lock_key, owner);
        }
        if self.fault == Fault::ReleasesInAnyEpoch
            && let (Operation::Release { owner, .. }, Err(_)) = (operation, &reply)
        {
            let operation = Operation::Release { owner, position: QueuePosition::None };
            self.seen().releases.push(Request { operation, ..request.clone() });
        }
        reply_to.send(reply.map(|reply| self.distorted(&request, reply)));
    }

    fn evict(&self, mut evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
        if self.fault == Fault::ForgetsWhoWasEvicted {
            evict.barred_for = Duration::ZERO;
        }
        if self.fault == Fault::EvictsASuccessor {
            evict.holders.extend(self.seen().granted.get(evict.keys.lock_key()).copied().map(Holder::Owner));
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

async fn found(conformance: Conformance, fault: Fault) -> Divergence {
    let checked = conformance.check(|| Faulty::new(fault)).await;
    checked.err().unwrap_or_else(|| panic!("{fault:?} was not found"))
}

#[tokio::test]
async fn the_in_memory_node_keeps_the_rules() {
    let report = Conformance::default().check(MemoryNode::new).await.unwrap();
    assert!(report.compared > 1000, "{report:?}");
}

// mutant: exclusion, fencing, readers, turns, no-resurrection, forced-release
#[tokio::test]
async fn every_fault_is_found_in_a_short_sequence() {
    for fault in FAULTS {
        let divergence = found(Conformance::default(), fault).await;
        assert!(divergence.steps.len() <= 9, "{fault:?}: {divergence}");
    }
}

#[tokio::test]
async fn a_divergence_shows_the_steps_and_both_replies() {
    let fault = Fault::ReservesOneTokenOfSeveral;
    let divergence = found(Conformance::default(), fault).await;
    let shown = divergence.to_string();
    assert!(shown.contains("tokens: 20") && shown.contains("the rules: Replied([Ok(Granted {"), "{shown}");
    let again = Conformance::default().seed(divergence.seed.unwrap()).sequences(1);
    assert_eq!(found(again, fault).await.node, divergence.node);
}

#[tokio::test]
async fn what_a_node_is_declared_to_lack_is_not_compared_and_the_rest_is() {
    for (fault, lack) in [(Fault::ForgetsWhoWaits, Lack::WaitingRoom), (Fault::WakesNobody, Lack::Wakeups)] {
        Conformance::default().lacks([lack]).sequences(30).check(|| Faulty::new(fault)).await.unwrap();
        found(Conformance::default().lacks([lack]), Fault::ReleasesTheLockOfAnother).await;
    }
    // A release may be requested while the node has no epoch at all.
    let lacks = [Lack::EpochOfReleases];
    let report = Conformance::default().lacks(lacks).check(|| Faulty::new(Fault::ReleasesInAnyEpoch)).await.unwrap();
    assert!(report.compared > 1000, "{report:?}");
    // A lock that ends early is not seen in what is said about it, but by waiting for it.
    let lacks = [Lack::Remaining, Lack::Look];
    let divergence = found(Conformance::default().lacks(lacks), Fault::EndsLocksEarly).await;
    assert_eq!(divergence.seed, None, "{divergence}");
}
