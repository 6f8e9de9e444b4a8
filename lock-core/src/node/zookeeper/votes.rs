use std::time::Duration;

use zookeeper_client::Error;

use super::acquire::Wanted;
use super::leases::Ended;
use super::session::Session;
use super::transaction::{Failed, Part};
use crate::node::{LockKeys, NodeError, Operation, QueuePosition, Reply, Request};
use crate::random::{Epoch, OwnerId};

/// The version of an owner's znode while the lock is the owner's. That of a tombstone is 1.
const HELD: Option<i32> = Some(0);

impl Session {
    /// Carries a request out, when those before it about the same owner are done. When its future was polled once, it has its place in
    /// the order of the session, or behind them.
    pub(super) async fn execute(&self, request: &Request) -> Result<Reply, NodeError> {
        let Some(owner) = request.operation.owner() else { return self.carry_out(request).await };
        let (place, before) = self.known().order.enter(owner);
        if let Some(before) = before {
            before.cancelled().await;
        }
        let reply = self.carry_out(request).await;
        self.known().order.leave(owner, &place);
        reply
    }

    /// A reader is one more that writes: one that holds a lock excludes the others, and a downgrade is a renewal.
    async fn carry_out(&self, request: &Request) -> Result<Reply, NodeError> {
        let leaves = match request.operation {
            Operation::LeaveQueue => true,
            Operation::Release { position, .. } => position == QueuePosition::Leave,
            _ => false,
        };
        if leaves {
            // Also if it cannot be sent: the place is deleted when there is a connection again.
            self.known().waits.leave(request.keys.queue());
        }
        if let Operation::Release { owner, .. } = request.operation {
            // Also if it cannot be sent, or the epoch is another one: whoever releases a lock wants it no more.
            self.mark_released(&request.keys, owner);
        }
        self.check_connected()?;
        self.admission(request.epoch)?;
        let Request { keys, epoch, waiter, .. } = request;
        match request.operation {
            Operation::Acquire { owner, ttl, hint, tokens, since, .. } => {
                let wanted = Wanted { keys, epoch: *epoch, owner, ttl, hint, tokens, waiter: *waiter, since };
                self.acquire(request, wanted).await
            }
            Operation::Confirm { owner, token } => self.confirm(keys, *epoch, owner, token).await,
            Operation::Extend { owner, ttl } | Operation::Downgrade { owner, ttl } => {
                self.extend(keys, *epoch, owner, ttl).await
            }
            // A node that is alone in its set is not behind a majority: what it lost, nobody has.
            Operation::Replace { owner, ttl, .. } => self.extend(keys, *epoch, owner, ttl).await,
            Operation::Release { owner, position } => {
                let released = self.release(keys, *epoch, owner);
                let left = self.delete_left();
                let released = released.await;
                left.await;
                if let QueuePosition::Keep { since, .. } = position {
                    // Whoever has no place comes again.
                    _ = self.enter(keys, since, *waiter).await;
                }
                released
            }
            Operation::LeaveQueue => {
                self.delete_left().await;
                Ok(Reply::QueueLeft)
            }
        }
    }

    /// Extends a lock of this session: that of another one may end with that session at any time.
    ///
    /// That the owner's znode is there is not read, but part of a transaction: a server may lag, and a transaction goes through the leader.
    async fn extend(&self, keys: &LockKeys, epoch: Epoch, owner: OwnerId, ttl: Duration) -> Result<Reply, NodeError> {
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
    async fn confirm(&self, keys: &LockKeys, epoch: Epoch, owner: OwnerId, token: u64) -> Result<Reply, NodeError> {
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
    fn release(&self, keys: &LockKeys, epoch: Epoch, owner: OwnerId) -> impl Future<Output = Result<Reply, NodeError>> {
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

    /// A lock was granted so late that nobody waits for it any more: the request was sent when the connection was there again.
    pub(super) fn give_back(&self, request: &Request) {
        if let Some(owner) = request.operation.owner() {
            self.mark_released(&request.keys, owner);
        }
    }

    /// The lock is ended with the next sign of life, unless its release succeeds before.
    fn mark_released(&self, keys: &LockKeys, owner: OwnerId) {
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
