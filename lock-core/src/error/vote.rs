//! How the nodes voted, as errors tell it.

use std::fmt;
use std::time::Duration;

use super::{NodeError, left};

/// The vote of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node.
    pub node: String,
    /// Its vote.
    pub vote: Vote,
}

/// How a node voted in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// Granted, with its token.
    Granted {
        /// The token that the node assigned.
        token: u64,
    },
    /// Another owner holds the lock, or it is kept for another waiter.
    Held {
        /// How much longer. `None` if the node cannot tell, as ZooKeeper, or if the key does not expire.
        remaining: Option<Duration>,
    },
    /// Nobody holds the lock there: said of a lock that was looked at, for a [delegation](crate::Lease::delegate) of it.
    Free,
    /// The key of the lock holds something that is not a lock, and was left alone.
    NotALock,
    /// No vote, and why.
    Failed(NodeError),
    /// The attempt was decided before the reply arrived.
    Pending,
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.vote {
            Vote::Granted { .. } => f.write_str("granted"),
            Vote::Held { remaining: Some(remaining) } => write!(f, "held for {}", left(*remaining)),
            Vote::Held { remaining: None } => f.write_str("held until it is released"),
            Vote::Free => f.write_str("free"),
            Vote::NotALock => f.write_str("the key is not one of a lock"),
            Vote::Failed(error) => error.fmt(f),
            Vote::Pending => f.write_str("reply pending"),
        }
    }
}

/// The votes, in one line.
pub(crate) fn list(votes: &[NodeVote]) -> String {
    votes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
