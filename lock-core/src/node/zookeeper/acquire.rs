use std::num::NonZeroU64;
use std::time::Duration;

use zookeeper_client::{CreateMode, Error};

use super::fences::Fence;
use super::paths::Paths;
use super::queue::{Line, Turn};
use super::session::Session;
use super::transaction::{Failed, Part};
use crate::node::{LockKeys, MAX_TOKEN, NodeError, Reply, Request};
use crate::random::{Epoch, OwnerId, WaiterId};

/// How often a transaction is sent again that found a fence, or the floor, changed. Locks that share a fence, and are taken by several
/// processes at once, need more than one.
const MAX_TRIES: usize = 16;

/// The parts of the transaction that takes a lock, by their number. The last ones raise the fence.
const EPOCH: usize = 0;
const OWNER: usize = 1;
const LOCK: usize = 2;
const QUEUE: usize = 3;

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) epoch: Epoch,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) hint: u64,
    pub(super) tokens: u32,
    pub(super) waiter: WaiterId,
    pub(super) since: Option<NonZeroU64>,
}

/// What stands in the way of a lock.
enum Obstacle {
    /// Somebody has it.
    Holder,
    /// This owner has it, or was evicted.
    Owner,
    /// Somebody waits.
    Queue,
}

impl Session {
    /// Takes a lock, if it is free, and nobody waits who is before the caller.
    pub(super) async fn acquire(&self, request: &Request, wanted: Wanted<'_>) -> Result<Reply, NodeError> {
        let paths = self.paths(request.keys.keyspace());
        let (owner, lock) = (paths.owner(wanted.keys, wanted.owner), paths.lock(wanted.keys));
        let is_first = self.known().leases.begins(&owner, &lock, wanted.ttl);
        let reply = self.acquire_or_wait(&paths, &wanted, &owner, &lock).await;
        let may_hold = match &reply {
            Ok(reply) => matches!(reply, Reply::Granted { .. }),
            Err(error) => error.may_have_executed(),
        };
        if may_hold {
            let has_begun = self.known().leases.begun(&owner, wanted.ttl);
            if reply.is_ok() && !has_begun {
                // It ended, or is ending, while this was under way.
                return Ok(Reply::Held { remaining: Some(Duration::ZERO), stranger: false, position: None });
            }
        } else if is_first {
            self.known().leases.gone(&owner);
        }
        reply
    }

    async fn acquire_or_wait(
        &self,
        paths: &Paths,
        wanted: &Wanted<'_>,
        owner: &str,
        lock: &str,
    ) -> Result<Reply, NodeError> {
        let held = |remaining, position| Reply::Held { remaining, stranger: false, position };
        // Who waits already has no chance without a look at the queue.
        let mut line =
            if self.known().waits.has(wanted.keys.queue()) { self.line(paths, wanted).await? } else { Line::empty() };
        // The queue may have begun meanwhile: twice in a row is rare.
        for _ in 0..3 {
            let obstacle = match line.turn {
                Turn::Now => match self.take(paths, wanted, owner, lock, &line).await? {
                    Ok(token) => {
                        self.took(paths, wanted, &line);
                        return Ok(Reply::Granted { token });
                    }
                    Err(obstacle) => obstacle,
                },
                Turn::In(pause) => return Ok(held(Some(pause), line.position)),
                Turn::Held => return Ok(held(None, line.position)),
            };
            match obstacle {
                Obstacle::Owner => return self.same_attempt(paths, wanted, lock).await,
                Obstacle::Holder => {
                    self.known().waits.seen_held(wanted.keys.lock_key());
                    let position = match wanted.since {
                        Some(_) => self.line(paths, wanted).await?.position,
                        None => None,
                    };
                    return Ok(held(None, position));
                }
                Obstacle::Queue => line = self.line(paths, wanted).await?,
            }
        }
        Ok(held(Some(Duration::ZERO), line.position))
    }

    /// Sends the transaction that takes a free lock.
    async fn take(
        &self,
        paths: &Paths,
        wanted: &Wanted<'_>,
        owner: &str,
        lock: &str,
        line: &Line,
    ) -> Result<Result<u64, Obstacle>, NodeError> {
        let (number, value, epoch) = (wanted.keys.fence(), wanted.owner.to_string(), paths.epoch(wanted.epoch));
        let (fence_path, queue) = (paths.fence(number), paths.queue(wanted.keys));
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
            match (&line.own, line.is_empty) {
                (Some(own), _) => parts.push(Part::Delete(own, None)),
                // Only a queue that does not exist can be created.
                (None, true) => {
                    parts.push(Part::Create(&queue, b"", CreateMode::Persistent));
                    parts.push(Part::Delete(&queue, None));
                }
                (None, false) => {}
            }
            let raise = parts.len();
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
                Failed::Part(part, Error::NodeExists | Error::NoNode) if part == QUEUE && part != raise => {
                    self.known().waits.forget(wanted.keys.queue());
                    return Ok(Err(Obstacle::Queue));
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

    /// Whether the session lives long enough for what is sent now, about a lock of this time to live.
    pub(super) fn check_outlives(&self, ttl: Duration) -> Result<(), NodeError> {
        self.check_connected()?;
        if self.known().heard.outlives(ttl) {
            return Ok(());
        }
        let reason = "the servers may not have heard of this session for too long; it is used again in a moment";
        Err(NodeError::Unreachable { reason: reason.into() })
    }

    /// The owner's znode exists: this attempt was carried out already, or the owner was evicted.
    async fn same_attempt(&self, paths: &Paths, wanted: &Wanted<'_>, lock: &str) -> Result<Reply, NodeError> {
        self.check_outlives(wanted.ttl)?;
        let holder = self.read_stat(lock).await?;
        let (owner, session) = (wanted.owner.to_string(), self.client.session_id().0);
        if holder.is_some_and(|(value, stat)| value == owner.as_bytes() && stat.ephemeral_owner == session) {
            let fence = self.read_fence(paths, wanted.keys.fence()).await?.value;
            let floor = self.admission(wanted.epoch)?.floor;
            return Ok(Reply::Granted { token: fence.max(floor) });
        }
        let position = match wanted.since {
            Some(_) => self.line(paths, wanted).await?.position,
            None => None,
        };
        Ok(Reply::Held { remaining: Some(Duration::ZERO), stranger: false, position })
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
            let (epoch, owner, waiter) = (Epoch::from_bits(1), OwnerId::from_bits(1), WaiterId::from_bits(1));
            let ttl = Duration::from_secs(1);
            next_token(fence, &Wanted { keys: &keys, epoch, owner, ttl, hint, tokens, waiter, since: None })
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
