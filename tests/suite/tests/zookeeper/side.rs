use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{
    Epoch, Evict, Eviction, Holder, Keyspace, Kind, LockKeys, LockState, Look, MemberId, NodeRecord, Operation,
    OwnerId, RecordWrite, Reply, Request, WaiterId,
};
use lock_core::{LockNode, NodeError};
use lock_support::ask;

pub(crate) const TTL: Duration = Duration::from_secs(9);
pub(crate) const EPOCH: Epoch = Epoch::from_bits(7);

/// A node, as the only one of its set.
pub(crate) struct Side {
    pub(crate) node: Box<dyn LockNode>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) locks: Vec<LockKeys>,
}

impl Side {
    pub(crate) async fn new(node: impl LockNode) -> Self {
        let keyspace = Arc::new(Keyspace::new("rules:"));
        let locks = ["one", "two"].map(|resource| LockKeys::new(&keyspace, resource)).to_vec();
        let record = NodeRecord {
            run_id: node.inspect(&keyspace).await.unwrap().run_id,
            member: MemberId { random: 1, micros: 1 },
            version: 0,
            was: None,
            epoch: Some(EPOCH),
            roster: None,
            previous: Vec::new(),
            promised: None,
            accepted: None,
            quarantines: Vec::new(),
        };
        let write = RecordWrite { expected: None, record, new_member: false, begin: Vec::new(), floor: None };
        assert!(node.write_record(&keyspace, write).await.unwrap().is_some());
        Self { node: Box::new(node), keyspace, locks }
    }

    /// Another node for the same set.
    pub(crate) async fn beside(&self, node: impl LockNode) -> Self {
        node.inspect(&self.keyspace).await.unwrap();
        Self { node: Box::new(node), keyspace: Arc::clone(&self.keyspace), locks: self.locks.clone() }
    }

    pub(crate) async fn send(&self, lock: usize, epoch: Epoch, operation: Operation) -> Result<Reply, NodeError> {
        let keys = self.locks[lock].clone();
        let reply =
            ask(&self.node, Request { keys, epoch, waiter: WaiterId::from_bits(1), polls: false, operation }).await;
        Ok(match reply? {
            Reply::Held { .. } => Reply::Held { remaining: None, stranger: false, position: None, offer: None },
            reply => reply,
        })
    }

    pub(crate) async fn look(&self, epoch: Option<Epoch>) -> Result<Vec<LockState>, NodeError> {
        self.node.look(Look { keys: self.locks.clone(), epoch }).await
    }

    pub(crate) async fn evict(
        &self,
        lock: usize,
        epoch: Epoch,
        owner: OwnerId,
        token: u64,
    ) -> Result<Eviction, NodeError> {
        self.evict_for(TTL * 100, lock, epoch, owner, token).await
    }

    pub(crate) async fn evict_for(
        &self,
        barred_for: Duration,
        lock: usize,
        epoch: Epoch,
        owner: OwnerId,
        token: u64,
    ) -> Result<Eviction, NodeError> {
        let (keys, holders) = (self.locks[lock].clone(), vec![Holder::Owner(owner)]);
        self.node.evict(Evict { keys, epoch, holders, token, barred_for }).await
    }
}

/// An attempt of an owner that does not wait.
pub(crate) fn acquire(owner: OwnerId, ttl: Duration) -> Operation {
    acquire_since(None, owner, ttl)
}

/// An attempt of an owner that waits since a time, if it does.
pub(crate) fn acquire_since(since: Option<NonZeroU64>, owner: OwnerId, ttl: Duration) -> Operation {
    Operation::Acquire { owner, ttl, hint: 0, tokens: 1, since, kind: Kind::Write }
}
