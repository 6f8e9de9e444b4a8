use std::time::Duration;

use thiserror::Error;

/// Why a node gave no vote.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// There is no connection to the node.
    #[error("not reachable: {reason}")]
    Unreachable {
        /// What the last attempt to connect met.
        reason: String,
    },
    /// No answer within the node timeout.
    #[error("no answer in time")]
    TimedOut,
    /// The connection broke before the answer came.
    #[error("connection lost: {reason}")]
    ConnectionLost {
        /// What broke it.
        reason: String,
    },
    /// The node is in another epoch than the client was admitted in: it lost its data, or was replaced.
    #[error("not admitted: the node is in another epoch, and is being looked over anew")]
    Unadmitted,
    /// The node forgot its locks and must not grant new ones yet.
    #[error("in quarantine for {remaining:?} after it lost its data")]
    Quarantined {
        /// How long it will be.
        remaining: Duration,
    },
    /// The node has no record, and too few nodes answer to tell a first start from a loss of memory.
    #[error("not admitted: it has no record yet, and fewer than a majority of the nodes answer")]
    Undecided,
    /// The node must not be used.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server answered with an error.
    #[error("{code}: {detail}")]
    Rejected {
        /// The error's code, such as `OOM`.
        code: String,
        /// The rest of the message.
        detail: String,
    },
    /// Too many requests wait for this node.
    #[error("too many requests are queued for the node")]
    Overloaded,
    /// The answer is none of those that the request allows.
    #[error("unexpected answer: {answer}")]
    Protocol {
        /// What came.
        answer: String,
    },
}

impl NodeError {
    /// Whether the request may have had an effect though it got no answer. Such a node must be sent the release.
    #[must_use]
    pub fn may_have_executed(&self) -> bool {
        matches!(self, Self::TimedOut | Self::ConnectionLost { .. } | Self::Protocol { .. })
    }
}

/// Why a node must not be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It follows another server: what it grants is overwritten.
    #[error("it is a replica; name the address of a master")]
    Replica,
    /// It may delete locks when memory is short.
    #[error("maxmemory-policy is {policy}, which deletes locks; set it to noeviction")]
    Evicts {
        /// Its policy.
        policy: String,
    },
    /// It can not run the scripts.
    #[error("it is version {}.{}; Redis 6.2 or newer, or Valkey, is needed", version.0, version.1)]
    TooOld {
        /// Its version.
        version: (u32, u32),
    },
    /// Two addresses lead to one server, which would vote twice.
    #[error("it is the same server as {other}; name each master once")]
    Duplicate {
        /// The other address.
        other: String,
    },
    /// It was set up for another set of masters.
    #[error(
        "{field} is {ours} here, but the node belongs to a set where it is {theirs}; make the settings of all clients equal, or use another prefix"
    )]
    OtherSet {
        /// What differs.
        field: &'static str,
        /// The value of this client.
        ours: String,
        /// The value in the node's record.
        theirs: String,
    },
    /// It does not let us in.
    #[error("it refuses the login: {detail}; check user and password")]
    Login {
        /// The server's words.
        detail: String,
    },
    /// It does not let us do what locks need.
    #[error(
        "the user may not run what locks need: {detail}; see the list of commands in the documentation of RedisNode"
    )]
    Permission {
        /// The server's words.
        detail: String,
    },
}
