//! The ledger: who holds each lock, with which token, and who was evicted. This half must be right: that no two hold one lock, and that
//! tokens only grow, rests on it alone. Of the waiting room, it knows only the parts that are carried out with a transaction: they can make
//! it fail, and change no znode of the ledger.
//!
//! Its znodes are all but those below `queues` (see [`Paths`]). Its other files are `evict`, `leases`, `heard` and `transaction`.

use std::time::Duration;

use zookeeper_client::{CreateMode, Error};

use super::leases::Ended;
use super::parts::{Fence, Part};
use super::paths::Paths;
use super::session::Session;
use super::transaction::Failed;
use crate::node::limits::next_token;
use crate::node::{LockKeys, NodeError, Reply};
use crate::random::{Epoch, OwnerId};

/// How often a transaction is sent again that found a fence, or the floor, changed. Locks that share a fence, and are taken by several
/// processes at once, need more than one.
const MAX_TRIES: usize = 16;

/// The parts of the transaction that takes a lock, by their number. Those of the waiting room follow, and the last ones raise the fence.
const OWNER: usize = 0;
const LOCK: usize = 1;
const WAITING: usize = 2;

/// The version of an owner's znode while the lock is the owner's. That of a tombstone is 1.
const HELD: Option<i32> = Some(0);

/// A lock, an owner that wants or has it, and the epoch in which the owner asks.
pub(super) struct Claim {
    pub(super) paths: Paths,
    pub(super) epoch: Epoch,
    owner: OwnerId,
    fence: u16,
    owner_path: String,
    lock_path: String,
}

impl Claim {
    pub(super) fn new(paths: Paths, keys: &LockKeys, epoch: Epoch, owner: OwnerId) -> Self {
        let (owner_path, lock_path) = (paths.owner(keys, owner), paths.lock(keys));
        Self { paths, epoch, owner, fence: keys.fence(), owner_path, lock_path }
    }
}

/// What is asked for besides the lock.
pub(super) struct Wanted {
    pub(super) ttl: Duration,
    pub(super) hint: u64,
    pub(super) tokens: u32,
}

/// The token of a lock, or what stands in its way.
type Taken = Result<Result<u64, Obstacle>, NodeError>;

/// What stands in the way of a lock.
pub(super) enum Obstacle {
    /// Somebody has it.
    Holder,
    /// This owner had it, or was evicted.
    Owner,
    /// A part of the waiting room did not hold.
    Waiting,
}

impl Session {
    /// Takes a lock, if it is free, and the parts of the waiting room hold. Returns its token.
    pub(super) async fn take(&self, claim: &Claim, wanted: &Wanted, waiting: &[Part<'_>]) -> Taken {
        let owner = &claim.owner_path;
        // Before it is sent: if the reply never comes, this session has to delete what may be there.
        let is_first = self.known().leases.begins(owner, &claim.lock_path, wanted.ttl);
        let taken = match self.send_take(claim, wanted, waiting).await {
            Ok(Err(Obstacle::Owner)) => self.taken_before(claim, wanted.ttl).await,
            taken => taken,
        };
        let may_hold = match &taken {
            Ok(taken) => taken.is_ok(),
            Err(error) => error.may_have_executed(),
        };
        if may_hold {
            let has_begun = self.known().leases.begun(owner, wanted.ttl);
            if taken.is_ok() && !has_begun {
                // It ended, or is ending, while this was under way.
                return Ok(Err(Obstacle::Owner));
            }
        } else if is_first {
            self.known().leases.gone(owner);
        }
        taken
    }

    async fn send_take(&self, claim: &Claim, wanted: &Wanted, waiting: &[Part<'_>]) -> Taken {
        let Claim { paths, owner_path, lock_path, .. } = claim;
        let (value, fence_path, raise) = (claim.owner.to_string(), paths.fence(claim.fence), WAITING + waiting.len());
        let mut admission = self.admission(claim.epoch)?;
        let mut fence = self.fence(paths, claim.fence).await?;
        for _ in 0..MAX_TRIES {
            let token = next_token(fence.value.max(admission.floor), wanted.hint, wanted.tokens)?;
            let token_value = token.to_string();
            let mut parts = vec![
                Part::Create(owner_path, b"", CreateMode::Ephemeral),
                Part::Create(lock_path, value.as_bytes(), CreateMode::Ephemeral),
            ];
            parts.extend(waiting);
            parts.extend(fence.raise(&fence_path, &token_value));
            // Again for each try: what is read in between takes time, and the session must outlive the lock.
            self.check_outlives(wanted.ttl)?;
            let failed = match self.commit_in(paths, claim.epoch, Some(admission.version), &parts).await {
                Ok(set) => {
                    let version = set.last().map_or(0, |stat| stat.version);
                    self.known().fences.insert(claim.fence, Fence { value: token, version: Some(version) });
                    return Ok(Ok(token));
                }
                Err(failed) => failed,
            };
            match failed {
                Failed::Epoch(Error::BadVersion) => admission = self.read_admission(paths, claim.epoch).await?,
                Failed::Part(OWNER, Error::NodeExists) => return Ok(Err(Obstacle::Owner)),
                Failed::Part(LOCK, Error::NodeExists) => return Ok(Err(Obstacle::Holder)),
                Failed::Part(part, Error::NodeExists | Error::NoNode) if (WAITING..raise).contains(&part) => {
                    return Ok(Err(Obstacle::Waiting));
                }
                Failed::Part(part, Error::BadVersion | Error::NoNode | Error::NodeExists) if part == raise => {
                    fence = self.read_fence(paths, claim.fence).await?;
                }
                failed => {
                    if matches!(failed, Failed::Whole(_)) {
                        self.known().fences.remove(&claim.fence);
                    }
                    return Err(failed.into());
                }
            }
        }
        Err(NodeError::Overloaded)
    }

    /// The owner's znode exists: this attempt was carried out already, or the owner was evicted.
    async fn taken_before(&self, claim: &Claim, ttl: Duration) -> Taken {
        self.check_outlives(ttl)?;
        // Before the holder: an eviction that comes between them has a token of its own.
        let fence = self.read_fence(&claim.paths, claim.fence).await?.value;
        let holder = self.read(&claim.lock_path).await?;
        let (owner, session) = (claim.owner.to_string(), self.client.session_id().0);
        if !holder.is_some_and(|(value, stat)| value == owner.as_bytes() && stat.ephemeral_owner == session) {
            return Ok(Err(Obstacle::Owner));
        }
        Ok(Ok(fence.max(self.admission(claim.epoch)?.floor)))
    }

    /// Whether the session lives long enough for what is sent now, about a lock of this time to live.
    fn check_outlives(&self, ttl: Duration) -> Result<(), NodeError> {
        self.check_connected()?;
        if self.known().heard.outlives(ttl) {
            return Ok(());
        }
        let reason = "the servers may not have heard of this session for too long; it is used again in a moment";
        Err(NodeError::Unreachable { reason: reason.into() })
    }

    /// Extends a lock of this session. A lock of another session may end with that session at any time.
    ///
    /// That the owner's znode is there is not read, but part of a transaction: a server may lag, and a transaction goes through the leader.
    pub(super) async fn extend(&self, claim: &Claim, ttl: Duration) -> Result<Reply, NodeError> {
        self.check_outlives(ttl)?;
        if !self.known().leases.extends(&claim.owner_path, ttl) {
            return Ok(Reply::Gone);
        }
        let parts = [Part::Check(&claim.owner_path, HELD)];
        match self.commit_in(&claim.paths, claim.epoch, None, &parts).await {
            Ok(_) => Ok(Reply::Kept),
            Err(failed) => self.not_held(failed, claim, Reply::Gone),
        }
    }

    /// Raises the fence to a token, if the owner has the lock. A node that is alone in its set is never asked to.
    pub(super) async fn confirm(&self, claim: &Claim, token: u64) -> Result<Reply, NodeError> {
        let fence = self.read_fence(&claim.paths, claim.fence).await?;
        let highest = fence.value.max(self.admission(claim.epoch)?.floor);
        let refused = Reply::Refused { fence: highest };
        if highest > token || fence.version.is_none() {
            return Ok(refused);
        }
        self.known().fences.remove(&claim.fence);
        let (path, value) = (claim.paths.fence(claim.fence), token.to_string());
        let mut parts = vec![Part::Check(&claim.owner_path, HELD)];
        parts.extend(fence.raise(&path, &value));
        match self.commit_in(&claim.paths, claim.epoch, None, &parts).await {
            Ok(_) => Ok(Reply::Confirmed),
            Err(Failed::Part(1, Error::BadVersion)) => Ok(refused),
            Err(failed) => self.not_held(failed, claim, refused),
        }
    }

    /// Sends the release at once.
    pub(super) fn release(&self, claim: &Claim) -> impl Future<Output = Result<Reply, NodeError>> {
        // So that the worker does not end it a second time while this is under way.
        self.known().leases.set_ending(&claim.owner_path, true);
        let parts = [Part::Delete(&claim.owner_path, HELD), Part::Delete(&claim.lock_path, None)];
        let released = self.commit_in(&claim.paths, claim.epoch, None, &parts);
        async move {
            match released.await {
                Ok(_) => {
                    self.known().leases.gone(&claim.owner_path);
                    Ok(Reply::Released)
                }
                Err(failed) => {
                    self.known().leases.set_ending(&claim.owner_path, false);
                    self.not_held(failed, claim, Reply::NotOwner)
                }
            }
        }
    }

    /// The reply to a transaction that failed, whose first part asks for the owner's znode: `otherwise` if the owner does not have
    /// the lock.
    fn not_held(&self, failed: Failed, claim: &Claim, otherwise: Reply) -> Result<Reply, NodeError> {
        match failed {
            Failed::Part(0, Error::NoNode | Error::BadVersion) => {
                self.known().leases.gone(&claim.owner_path);
                Ok(otherwise)
            }
            failed => Err(failed.into()),
        }
    }

    /// The lock is ended with the next sign of life, unless its release succeeds before.
    pub(super) fn mark_released(&self, keys: &LockKeys, owner: OwnerId) {
        let owner = self.paths(keys.keyspace()).owner(keys, owner);
        self.known().leases.releases(&owner);
    }

    /// Ends a lock whose time is over, or whose release was lost. In whatever epoch: it is this session's.
    pub(super) async fn end(&self, Ended { owner, lock }: Ended) {
        match self.commit(&[Part::Delete(&owner, HELD), Part::Delete(&lock, None)]).await {
            Ok(_) | Err(Failed::Part(0, Error::NoNode | Error::BadVersion)) => self.known().leases.gone(&owner),
            Err(_) => self.known().leases.set_ending(&owner, false),
        }
    }
}
