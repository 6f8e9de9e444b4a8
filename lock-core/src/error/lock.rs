use std::time::Duration;

use thiserror::Error;

use super::vote::{NodeVote, list};
use crate::limits::{InvalidName, MAX_SET_LEN, OutOfRange};
use crate::token::FencingToken;

/// Why a lock was not acquired, or not kept.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::LockError;
///
/// # let locks = lock_core::LockManager::in_memory();
/// let _held = locks.lock("stock:42").acquire().await?;
/// match locks.lock("stock:42").try_acquire().await {
///     Ok(guard) => drop(guard),
///     Err(error @ LockError::Contended { .. }) => println!("busy, retry after {:?}", error.retry_after()),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another owner holds it. A caller that waits gets this when its `wait` is over: there is no separate error for that. A later
    /// attempt may succeed.
    #[error("{resource:?} is locked by another owner (waited {waited:.1?})")]
    Contended {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
        /// When the holder's key expires, unless it is renewed; `None` if that is not known.
        free_in: Option<Duration>,
        /// How long locks on the resource were held lately by this manager; `None` if that is not known.
        typical_hold: Option<Duration>,
        /// The votes of the last attempt.
        votes: Vec<NodeVote>,
    },
    /// Fewer than a majority of the nodes replied; or, to a release, too few to determine its result.
    ///
    /// A caller with a `wait` gets this when the quorum has been lost for a second, or when its `wait` is over. Until then it
    /// tries again. A manager that [connects lazily](crate::LockManagerBuilder::connect_lazy) gives its first connections a second of
    /// their own before. After that every caller gets this at once, until a majority is back; an attempt is made a few times a second, and
    /// its votes are reported.
    #[error("no majority of the masters voted on {resource:?}: {}", list(votes))]
    NoQuorum {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
        /// The votes of the last attempt; for a release, the votes of the nodes that did not acknowledge it. If the caller waited in
        /// line until its time was over, each is [`Overloaded`](super::NodeError::Overloaded).
        votes: Vec<NodeVote>,
    },
    /// The lock was granted too late: too little of its validity was left, and it was released. Or it was acquired inside its
    /// own scope, where the shared lease has less validity left than the `min_validity` that was asked for.
    #[error(
        "the lock on {resource:?} was granted too late to be used (waited {waited:.1?}); if that is not rare, raise ttl or lower min_validity"
    )]
    Expired {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
        /// The votes of the last attempt.
        votes: Vec<NodeVote>,
    },
    /// The lease ended while it was held.
    #[error("the lease on {resource:?} with token {token} was lost: {reason}")]
    Lost {
        /// The resource.
        resource: String,
        /// The token of the lease.
        token: FencingToken,
        /// What ended it.
        reason: LossReason,
    },
    /// Too many callers of this manager already wait for the resource.
    #[error("{waiters} callers already wait for {resource:?}, as many as max_waiters allows")]
    QueueFull {
        /// The resource.
        resource: String,
        /// How many callers wait: `max_waiters`.
        waiters: usize,
        /// How long locks on the resource were held lately by this manager; `None` if that is not known.
        typical_hold: Option<Duration>,
    },
    /// On too many nodes for a majority, the key of the lock holds something that is not a lock: a hash or a list, say. A retry does
    /// not help.
    #[error(
        "the key of {resource:?} holds data that is not a lock, because it is not a string: {}; delete that key, or use another \
         prefix or resource",
        list(votes)
    )]
    NotALock {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
        /// The votes of the attempt.
        votes: Vec<NodeVote>,
    },
    /// A lock was to be written inside a scope in which it is read. Refused at once, because two readers that both wait to write
    /// would wait for each other. Release the lock first, or hold it to write from the beginning.
    #[error("{resource:?} is read in this scope, and cannot be locked to write inside of it")]
    Upgrade {
        /// The resource.
        resource: String,
    },
    /// A lock was to be [downgraded](crate::LockGuard::downgrade) while another service may write under it: a
    /// [delegation](crate::Lease::delegate) of it is unfinished.
    #[error("{resource:?} is delegated to another service, which may still write, so it cannot be downgraded")]
    Delegated {
        /// The resource.
        resource: String,
    },
    /// A permit was to be [downgraded](crate::LockGuard::downgrade). Only a lock that is held to write can be.
    #[error("{resource:?} is a permit, which cannot be downgraded: only a lock that is held to write can be")]
    Downgrade {
        /// The slot.
        resource: String,
    },
    /// The lock of a [forced release](crate::LockManager::force_release) has more readers than the masters name in one reply. Nobody was
    /// evicted.
    #[error("at least {readers} readers hold {resource:?}, too many to be evicted: end some of these services")]
    TooManyReaders {
        /// The resource.
        resource: String,
        /// How many readers a master named.
        readers: usize,
    },
    /// The manager was closed.
    #[error("the lock manager is shutting down (resource {resource:?})")]
    ShuttingDown {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The name of the resource is not valid.
    #[error("invalid resource {resource:?}: {reason}")]
    InvalidResource {
        /// The name.
        resource: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// A set of locks has no names, or too many.
    #[error("a set of locks must have between 1 and {max} resources, got {resources}", max = MAX_SET_LEN)]
    InvalidSet {
        /// The first resource, as written; empty if there is none.
        resource: String,
        /// How many resources were written.
        resources: usize,
    },
    /// An option of this lock is out of range.
    #[error("invalid options for the lock on {resource:?}: {reason}")]
    InvalidOptions {
        /// The resource.
        resource: String,
        /// Which option, its value and its range.
        reason: OutOfRange,
    },
    /// A resource cannot have this number of permits.
    #[error("invalid number of permits of {resource:?}: {reason}")]
    InvalidPermits {
        /// The resource.
        resource: String,
        /// The number and its range.
        reason: OutOfRange<u32>,
    },
}

/// When to retry after a temporary error, if nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The range of what is advised from earlier holds: no retry in a loop, and none that comes long after the lock was free.
const MIN_RETRY_AFTER: Duration = Duration::from_millis(10);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

impl LockError {
    /// The resource of the lock.
    pub fn resource(&self) -> &str {
        match self {
            Self::Contended { resource, .. }
            | Self::NoQuorum { resource, .. }
            | Self::Expired { resource, .. }
            | Self::Lost { resource, .. }
            | Self::QueueFull { resource, .. }
            | Self::NotALock { resource, .. }
            | Self::Upgrade { resource }
            | Self::Delegated { resource }
            | Self::Downgrade { resource }
            | Self::TooManyReaders { resource, .. }
            | Self::ShuttingDown { resource, .. }
            | Self::InvalidResource { resource, .. }
            | Self::InvalidSet { resource, .. }
            | Self::InvalidOptions { resource, .. }
            | Self::InvalidPermits { resource, .. } => resource,
        }
    }

    /// How long the caller waited for the lock. Zero for errors without a wait.
    pub fn waited(&self) -> Duration {
        match self {
            Self::Contended { waited, .. }
            | Self::NoQuorum { waited, .. }
            | Self::Expired { waited, .. }
            | Self::NotALock { waited, .. }
            | Self::ShuttingDown { waited, .. } => *waited,
            _ => Duration::ZERO,
        }
    }

    /// When a retry may succeed. `None` if it cannot: the lease was lost, the request was invalid, or the key is not one of a lock.
    ///
    /// For a lock that is held, this is how long locks on the resource were held lately by this manager (`typical_hold`), from
    /// 10 ms to 60 s. It is one second if that is not known, and for all other temporary errors. It is not when the holder's
    /// key expires (`free_in`), which is when the lock is free if the holder crashed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Contended { typical_hold, .. } | Self::QueueFull { typical_hold, .. } => {
                Some(typical_hold.map_or(RETRY_AFTER, |hold| hold.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER)))
            }
            Self::NoQuorum { .. } | Self::Expired { .. } | Self::ShuttingDown { .. } => Some(RETRY_AFTER),
            _ => None,
        }
    }

    /// The vote of each node in the last attempt; for a release, of those that did not acknowledge it. Empty if no node was
    /// asked.
    pub fn votes(&self) -> &[NodeVote] {
        match self {
            Self::Contended { votes, .. }
            | Self::NoQuorum { votes, .. }
            | Self::Expired { votes, .. }
            | Self::NotALock { votes, .. } => votes,
            _ => &[],
        }
    }
}

/// What ended a lease.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
///
/// use lock_core::{LockError, LockManager, LossReason};
///
/// let locks = LockManager::in_memory();
/// let guard = locks.lock("report").max_hold(Duration::from_millis(20)).acquire().await?;
/// guard.lost().await;
/// match guard.check() {
///     Err(LockError::Lost { reason: LossReason::MaxHold, .. }) => println!("the work takes longer than max_hold allows"),
///     other => other?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended before it was renewed.
    #[error("its validity ended before it was renewed")]
    Expired,
    /// Too many nodes had lost the key for a majority to hold it.
    #[error("a majority of the nodes no longer has the key")]
    Gone,
    /// It was held for `max_hold`.
    #[error("it was held for max_hold")]
    MaxHold,
    /// The grace of a shutdown ended.
    #[error("the lock manager was shut down")]
    ShutDown,
    /// Another lock of its set was lost.
    #[error("another lock of its set was lost")]
    SetLost,
    /// Its guard released it.
    #[error("it was released")]
    Released,
}
