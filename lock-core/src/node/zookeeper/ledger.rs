//! The ledger: who holds each lock, with which token, and who was evicted. This half must be right: that no two hold one lock, and that
//! tokens only grow, rests on it alone. Of the waiting room, it knows only the parts that are carried out with a transaction: they can make
//! it fail, and change no znode of the ledger.
//!
//! Its znodes are all but those below `queues` (see [`Paths`]). Its other files are `evict`, `leases`, `fences`, `heard` and `order`.

use std::time::Duration;

use zookeeper_client::{CreateMode, Error};

use super::fences::Fence;
use super::leases::Ended;
use super::paths::Paths;
use super::session::Session;
use super::transaction::{Failed, Part};
use crate::node::{LockKeys, MAX_TOKEN, NodeError, Reply};
use crate::random::{Epoch, OwnerId};

/// How often a transaction is sent again that found a fence, or the floor, changed. Locks that share a fence, and are taken by several
/// processes at once, need more than one.
const MAX_TRIES: usize = 16;

/// The parts of the transaction that takes a lock, by their number. Those of the waiting room follow, and the last ones raise the fence.
const EPOCH: usize = 0;
const OWNER: usize = 1;
const LOCK: usize = 2;
const WAITING: usize = 3;

/// The version of an owner's znode while the lock is the owner's. That of a tombstone is 1.
const HELD: Option<i32> = Some(0);

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) epoch: Epoch,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) hint: u64,
    pub(super) tokens: u32,
}

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
    pub(super) async fn take(
        &self,
        paths: &Paths,
        wanted: &Wanted<'_>,
        waiting: &[Part<'_>],
    ) -> Result<Result<u64, Obstacle>, NodeError> {
        let (owner, lock) = (paths.owner(wanted.keys, wanted.owner), paths.lock(wanted.keys));
        let is_first = self.known().leases.begins(&owner, &lock, wanted.ttl);
        let taken = match self.send_take(paths, wanted, &owner, &lock, waiting).await {
            Ok(Err(Obstacle::Owner)) => self.taken_before(paths, wanted, &lock).await,
            taken => taken,
        };
        let may_hold = match &taken {
            Ok(taken) => taken.is_ok(),
            Err(error) => error.may_have_executed(),
        };
        if may_hold {
            let has_begun = self.known().leases.begun(&owner, wanted.ttl);
            if taken.is_ok() && !has_begun {
                // It ended, or is ending, while this was under way.
                return Ok(Err(Obstacle::Owner));
            }
        } else if is_first {
            self.known().leases.gone(&owner);
        }
        taken
    }

    async fn send_take(
        &self,
        paths: &Paths,
        wanted: &Wanted<'_>,
        owner: &str,
        lock: &str,
        waiting: &[Part<'_>],
    ) -> Result<Result<u64, Obstacle>, NodeError> {
        let (number, value, epoch) = (wanted.keys.fence(), wanted.owner.to_string(), paths.epoch(wanted.epoch));
        let (fence_path, raise) = (paths.fence(number), WAITING + waiting.len());
        let mut admission = self.admission(wanted.epoch)?;
        let mut fence = self.fence(paths, number).await?;
        for _ in 0..MAX_TRIES {
            let token = next_token(fence.value.max(admission.floor), wanted)?;
            let token_value = token.to_string();
            let mut parts = vec![
                Part::Check(&epoch, Some(admission.version)),
                Part::Create(owner, b"", CreateMode::Ephemeral),
                Part::Create(lock, value.as_bytes(), CreateMode::Ephemeral),
            ];
            parts.extend(waiting);
            parts.extend(fence.raise(&fence_path, &token_value));
            self.check_outlives(wanted.ttl)?;
            let failed = match self.commit(&parts).await {
                Ok(set) => {
                    let version = set.last().map_or(0, |stat| stat.version);
                    self.known().fences.set(number, Fence { value: token, version: Some(version) });
                    return Ok(Ok(token));
                }
                Err(failed) => failed,
            };
            match failed {
                Failed::Part(EPOCH, Error::NoNode) => {
                    self.forget_admission(wanted.epoch);
                    return Err(NodeError::Unadmitted);
                }
                Failed::Part(EPOCH, Error::BadVersion) => admission = self.read_admission(paths, wanted.epoch).await?,
                Failed::Part(OWNER, Error::NodeExists) => return Ok(Err(Obstacle::Owner)),
                Failed::Part(LOCK, Error::NodeExists) => return Ok(Err(Obstacle::Holder)),
                Failed::Part(part, Error::NodeExists | Error::NoNode) if (WAITING..raise).contains(&part) => {
                    return Ok(Err(Obstacle::Waiting));
                }
                Failed::Part(part, Error::BadVersion | Error::NoNode | Error::NodeExists) if part == raise => {
                    fence = self.read_fence(paths, number).await?;
                }
                failed => {
                    if !matches!(failed, Failed::Part(..)) {
                        self.known().fences.forget(number);
                    }
                    return Err(failed.into());
                }
            }
        }
        Err(NodeError::Overloaded)
    }

    /// The owner's znode exists: this attempt was carried out already, or the owner was evicted.
    async fn taken_before(
        &self,
        paths: &Paths,
        wanted: &Wanted<'_>,
        lock: &str,
    ) -> Result<Result<u64, Obstacle>, NodeError> {
        self.check_outlives(wanted.ttl)?;
        let holder = self.read_stat(lock).await?;
        let (owner, session) = (wanted.owner.to_string(), self.client.session_id().0);
        if holder.is_some_and(|(value, stat)| value == owner.as_bytes() && stat.ephemeral_owner == session) {
            let fence = self.read_fence(paths, wanted.keys.fence()).await?.value;
            let floor = self.admission(wanted.epoch)?.floor;
            return Ok(Ok(fence.max(floor)));
        }
        Ok(Err(Obstacle::Owner))
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

    /// Extends a lock of this session: that of another one may end with that session at any time.
    ///
    /// That the owner's znode is there is not read, but part of a transaction: a server may lag, and a transaction goes through the leader.
    pub(super) async fn extend(
        &self,
        keys: &LockKeys,
        epoch: Epoch,
        owner: OwnerId,
        ttl: Duration,
    ) -> Result<Reply, NodeError> {
        let paths = self.paths(keys.keyspace());
        let (owner, epoch_path) = (paths.owner(keys, owner), paths.epoch(epoch));
        self.check_outlives(ttl)?;
        if !self.known().leases.extends(&owner, ttl) {
            return Ok(Reply::Gone);
        }
        match self.commit(&[Part::Check(&epoch_path, None), Part::Check(&owner, HELD)]).await {
            Ok(_) => Ok(Reply::Kept),
            Err(failed) => self.not_held(failed, epoch, &owner, Reply::Gone),
        }
    }

    /// Raises the fence to a token, if the owner has the lock. A node that is alone in its set is never asked to.
    pub(super) async fn confirm(
        &self,
        keys: &LockKeys,
        epoch: Epoch,
        owner: OwnerId,
        token: u64,
    ) -> Result<Reply, NodeError> {
        let paths = self.paths(keys.keyspace());
        let (owner, epoch_path, path) = (paths.owner(keys, owner), paths.epoch(epoch), paths.fence(keys.fence()));
        let fence = self.read_fence(&paths, keys.fence()).await?;
        let highest = fence.value.max(self.admission(epoch)?.floor);
        let (value, refused) = (token.to_string(), Reply::Refused { fence: highest });
        if highest > token || fence.version.is_none() {
            return Ok(refused);
        }
        self.known().fences.forget(keys.fence());
        let mut parts = vec![Part::Check(&epoch_path, None), Part::Check(&owner, HELD)];
        parts.extend(fence.raise(&path, &value));
        match self.commit(&parts).await {
            Ok(_) => Ok(Reply::Confirmed),
            Err(Failed::Part(2, Error::BadVersion)) => Ok(refused),
            Err(failed) => self.not_held(failed, epoch, &owner, refused),
        }
    }

    /// Sends the release at once.
    pub(super) fn release(
        &self,
        keys: &LockKeys,
        epoch: Epoch,
        owner: OwnerId,
    ) -> impl Future<Output = Result<Reply, NodeError>> {
        let paths = self.paths(keys.keyspace());
        let (owner, lock, epoch_path) = (paths.owner(keys, owner), paths.lock(keys), paths.epoch(epoch));
        self.known().leases.is_ending(&owner);
        let released =
            self.commit(&[Part::Check(&epoch_path, None), Part::Delete(&owner, HELD), Part::Delete(&lock, None)]);
        async move {
            match released.await {
                Ok(_) => {
                    self.known().leases.gone(&owner);
                    Ok(Reply::Released)
                }
                Err(failed) => {
                    self.known().leases.still_there(&owner);
                    self.not_held(failed, epoch, &owner, Reply::NotOwner)
                }
            }
        }
    }

    /// The reply to a transaction that failed: `otherwise` if the owner does not have the lock.
    fn not_held(&self, failed: Failed, epoch: Epoch, owner: &str, otherwise: Reply) -> Result<Reply, NodeError> {
        match failed {
            Failed::Part(0, Error::NoNode) => {
                self.forget_admission(epoch);
                Err(NodeError::Unadmitted)
            }
            Failed::Part(1, Error::NoNode | Error::BadVersion) => {
                self.known().leases.gone(owner);
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
            Err(_) => self.known().leases.still_there(&owner),
        }
    }
}

fn next_token(fence: u64, wanted: &Wanted<'_>) -> Result<u64, NodeError> {
    let next = wanted.hint.max(fence.saturating_add(1)).saturating_add(u64::from(wanted.tokens).saturating_sub(1));
    if next > MAX_TOKEN {
        return Err(NodeError::Rejected { code: "ERR".into(), detail: "the fence is used up".into() });
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::Keyspace;

    #[test]
    fn a_fence_that_is_used_up_grants_no_token_beyond_the_highest() {
        let keys = LockKeys::new(&Arc::new(Keyspace::new("shop:")), "r");
        let token = |fence, hint, tokens| {
            let (epoch, owner) = (Epoch::from_bits(1), OwnerId::from_bits(1));
            let ttl = Duration::from_secs(1);
            next_token(fence, &Wanted { keys: &keys, epoch, owner, ttl, hint, tokens })
        };
        assert_eq!(token(7, 0, 1), Ok(8));
        assert_eq!(token(7, 100, 10), Ok(109));
        assert_eq!(token(MAX_TOKEN - 1, 0, 1), Ok(MAX_TOKEN));
        for (fence, hint, tokens) in
            [(MAX_TOKEN, 0, 1), (MAX_TOKEN - 1, 0, 2), (0, MAX_TOKEN, 2), (u64::MAX, 0, u32::MAX)]
        {
            assert!(matches!(token(fence, hint, tokens), Err(NodeError::Rejected { .. })), "{fence} {hint} {tokens}");
        }
    }
}
