use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::NodeError;
use crate::options::OutOfRange;
use crate::resource::InvalidName;
use crate::token::FencingToken;

/// Why a lock was not taken, or not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Someone else holds it. Trying again later may help.
    #[error("{resource:?} is locked by someone else (waited {waited:?})")]
    Contended {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
        /// When the holder's key ends, if nobody renews it; `None` when it can not be told.
        free_in: Option<Duration>,
        /// The votes of the last attempt.
        votes: Vec<NodeVote>,
    },
    /// Fewer than a majority of the nodes answered; or too few of them to tell what a release came to.
    #[error("no majority of the nodes answered for {resource:?}: {}", list(votes))]
    NoQuorum {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
        /// The votes of the last attempt; of a release, those of the nodes that did not acknowledge it.
        votes: Vec<NodeVote>,
    },
    /// The lock was granted, but so late that it was of no use any more; it was released.
    #[error("the lock on {resource:?} was granted too late to be of use (waited {waited:?})")]
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
    /// Too many callers wait for this resource already.
    #[error("{waiters} callers wait for {resource:?} already")]
    QueueFull {
        /// The resource.
        resource: String,
        /// How many wait: `max_waiters`.
        waiters: usize,
    },
    /// The manager was closed.
    #[error("the lock manager is shutting down (resource {resource:?})")]
    ShuttingDown {
        /// The resource.
        resource: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The name of the resource is not allowed.
    #[error("the resource {resource:?} can not be locked: {reason}")]
    InvalidResource {
        /// The name.
        resource: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// An option of this lock is not in its range.
    #[error("the lock on {resource:?} can not be taken so: {reason}")]
    InvalidOptions {
        /// The resource.
        resource: String,
        /// Which option, its value and its range.
        reason: OutOfRange,
    },
}

/// When to try again after an error that passes, if nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl LockError {
    /// The resource that the lock was asked for.
    #[must_use]
    pub fn resource(&self) -> &str {
        match self {
            Self::Contended { resource, .. }
            | Self::NoQuorum { resource, .. }
            | Self::Expired { resource, .. }
            | Self::Lost { resource, .. }
            | Self::QueueFull { resource, .. }
            | Self::ShuttingDown { resource, .. }
            | Self::InvalidResource { resource, .. }
            | Self::InvalidOptions { resource, .. } => resource,
        }
    }

    /// How long the caller waited for the lock. Zero where there was nothing to wait for.
    #[must_use]
    pub fn waited(&self) -> Duration {
        match self {
            Self::Contended { waited, .. }
            | Self::NoQuorum { waited, .. }
            | Self::Expired { waited, .. }
            | Self::ShuttingDown { waited, .. } => *waited,
            Self::Lost { .. } | Self::QueueFull { .. } | Self::InvalidResource { .. } | Self::InvalidOptions { .. } => {
                Duration::ZERO
            }
        }
    }

    /// When trying again may help. `None` where it does not: the lease was lost, or the request was wrong.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Contended { free_in, .. } => Some(free_in.unwrap_or(RETRY_AFTER)),
            Self::NoQuorum { .. } | Self::Expired { .. } | Self::QueueFull { .. } | Self::ShuttingDown { .. } => {
                Some(RETRY_AFTER)
            }
            Self::Lost { .. } | Self::InvalidResource { .. } | Self::InvalidOptions { .. } => None,
        }
    }

    /// What each node answered to the last attempt; of a release, only those that did not acknowledge it. Empty where no node was
    /// asked.
    #[must_use]
    pub fn votes(&self) -> &[NodeVote] {
        match self {
            Self::Contended { votes, .. } | Self::NoQuorum { votes, .. } | Self::Expired { votes, .. } => votes,
            _ => &[],
        }
    }
}

/// What one node answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVote {
    /// The node.
    pub node: String,
    /// Its vote.
    pub vote: Vote,
}

/// What a node answered to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// Granted, with its fencing number.
    Granted {
        /// The token that the node assigned.
        token: u64,
    },
    /// Held by someone else.
    Held {
        /// How long the key lives yet; `None` for a key that does not expire.
        remaining: Option<Duration>,
    },
    /// No vote, and why.
    Failed(NodeError),
    /// The verdict fell before the answer came.
    Pending,
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.vote {
            Vote::Granted { .. } => f.write_str("granted"),
            Vote::Held { remaining: Some(remaining) } => write!(f, "held for {remaining:?}"),
            Vote::Held { remaining: None } => f.write_str("held without an end"),
            Vote::Failed(error) => error.fmt(f),
            Vote::Pending => f.write_str("answer pending"),
        }
    }
}

fn list(votes: &[NodeVote]) -> String {
    votes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What ended a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended without a renewal.
    Expired,
    /// So many nodes said that the key is gone that no majority can have it.
    Gone,
    /// It was renewed up to `max_hold`.
    MaxHold,
    /// The grace of a shutdown was over.
    ShutDown,
    /// Its guard released it.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired before it was renewed",
            Self::Gone => "the nodes do not have it any more",
            Self::MaxHold => "it was held for max_hold",
            Self::ShutDown => "the lock manager was shut down",
            Self::Released => "it was released",
        })
    }
}
