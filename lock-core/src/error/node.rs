use std::time::Duration;

use thiserror::Error;

use super::NotMember;

/// Why a node did not vote.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// There is no connection to the node.
    #[error("not reachable: {reason}")]
    Unreachable {
        /// Why the last attempt to connect failed.
        reason: String,
    },
    /// No reply within the node timeout.
    #[error("no reply within the node timeout")]
    TimedOut,
    /// The connection was lost before the reply arrived.
    #[error("connection lost: {reason}")]
    ConnectionLost {
        /// The cause.
        reason: String,
    },
    /// The node is in another epoch than when this client admitted it: it lost its data, or was replaced.
    #[error("not admitted: the node is in another epoch and is being re-inspected")]
    Unadmitted,
    /// The node joined the set, and must not grant locks before every lock has ended that was granted without it.
    #[error("in quarantine for {remaining:?} since it joined the set")]
    Quarantined {
        /// How much longer, or more.
        remaining: Duration,
    },
    /// The node does not belong to the set.
    #[error(transparent)]
    NotMember(#[from] NotMember),
    /// The node must not be used.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server replied with an error.
    #[error("{code}: {detail}")]
    Rejected {
        /// The error's code, such as `OOM`.
        code: String,
        /// The rest of the message.
        detail: String,
    },
    /// Too many requests are queued for this node, or were made by this manager at once.
    #[error("too many requests are queued for the node")]
    Overloaded,
    /// The reply is not one that the request allows.
    #[error("unexpected reply: {reply}")]
    Protocol {
        /// The reply.
        reply: String,
    },
}

impl NodeError {
    /// Whether the request may have had an effect although there was no valid reply. A release must be sent to such a node.
    #[must_use]
    pub fn may_have_executed(&self) -> bool {
        matches!(self, Self::TimedOut | Self::ConnectionLost { .. } | Self::Protocol { .. })
    }
}

/// Why a node must not be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It replicates another server, which overwrites what it grants.
    #[error("it is a replica; name the address of a master")]
    Replica,
    /// It may delete locks when memory runs short.
    #[error("maxmemory-policy must be noeviction, got {policy}, which may delete locks")]
    Evicts {
        /// Its policy.
        policy: String,
    },
    /// It cannot run the scripts.
    #[error("the version must be Redis 6.2 or newer, or Valkey, got {}.{}", version.0, version.1)]
    TooOld {
        /// Its version.
        version: (u32, u32),
    },
    /// Two addresses lead to the same server, which would vote twice.
    #[error("it is the same server as {other}; name each master once")]
    Duplicate {
        /// The other address.
        other: String,
    },
    /// It belongs to another set of masters.
    #[error(
        "{field} is {ours} here, but {theirs} in the set that the node belongs to; use the same settings in all clients, or another prefix"
    )]
    OtherSet {
        /// What differs.
        field: &'static str,
        /// The value of this client.
        ours: String,
        /// The value in the node's record.
        theirs: String,
    },
    /// It refused the login.
    #[error("the login was refused: {detail}; check user and password")]
    Login {
        /// The server's message.
        detail: String,
    },
    /// The user lacks a permission that locks need.
    #[error("the user lacks a permission: {detail}; see the list of commands in the documentation of RedisNode")]
    Permission {
        /// The server's message.
        detail: String,
    },
}
