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
    /// There are no credentials to log in to the node with, or it refused them: those that a provider gave (or failed to give).
    #[error("no valid credentials: {reason}")]
    Credentials {
        /// Why, without the password.
        reason: String,
    },
    /// No reply within the node timeout.
    #[error("no reply in time; if locks time out because the master is far away, raise node_timeout")]
    TimedOut,
    /// No reply within the node timeout, and the server said last why: in an error that came too late, or when it ended the connection.
    #[error("no reply in time; the server said last: {reason}")]
    HeldUp {
        /// The server's message.
        reason: String,
    },
    /// The connection was lost before the reply arrived.
    #[error("connection lost: {reason}")]
    ConnectionLost {
        /// The cause.
        reason: String,
    },
    /// The node is in another epoch than when this client admitted it: it lost its data, or was replaced.
    #[error("not admitted: the node lost its data or was replaced, and is being inspected again")]
    Unadmitted,
    /// The node joined the set, and must not grant locks before every lock has ended that was granted without it.
    #[error("in quarantine for another {}, because it joined the set; nothing needs to be done", left(*remaining))]
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
        /// The rest of the message, and the remedy if there is one.
        detail: String,
    },
    /// The server that was asked does not have the lock's keys: another one has them, or none for the moment. It executed nothing.
    #[error("{code}: {detail}")]
    Elsewhere {
        /// The error's code, such as `MOVED`.
        code: String,
        /// The rest of the message, and what follows from it.
        detail: String,
    },
    /// Too few replicas of the master acknowledged the vote.
    #[error("not replicated: {detail}; start the replicas, or let votes wait for fewer of them (replicated)")]
    NotReplicated {
        /// How many, or why that is not known.
        detail: String,
    },
    /// Too many requests are queued for this node, or were made by this manager at once.
    #[error("too many requests are queued for the master; it does not keep up, or the process makes too many at once")]
    Overloaded,
    /// The reply is not one that the request allows.
    #[error("unexpected reply, which may come from a proxy or a server of another kind: {reply}")]
    Protocol {
        /// The reply.
        reply: String,
    },
}

impl NodeError {
    /// Whether the request may have had an effect although there was no valid reply. A release must be sent to such a node.
    pub fn may_have_executed(&self) -> bool {
        matches!(
            self,
            Self::TimedOut
                | Self::HeldUp { .. }
                | Self::ConnectionLost { .. }
                | Self::Protocol { .. }
                | Self::NotReplicated { .. }
        )
    }

    /// Whether this is what a server shows that is starting, has no leader yet, or is out of reach for a moment.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Credentials { .. }
                | Self::TimedOut
                | Self::HeldUp { .. }
                | Self::ConnectionLost { .. }
                // A replica is being synchronized, as a rule.
                | Self::NotReplicated { .. }
                | Self::Elsewhere { .. }
        )
    }
}

/// How much longer something takes, for people: a millisecond at least, for what is about to happen.
pub(crate) fn left(time: Duration) -> String {
    format!("{:.1?}", time.max(Duration::from_millis(1)))
}

/// Nodes and what is wrong with each.
pub(crate) fn list_problems(problems: &[(String, NodeError)]) -> String {
    problems.iter().map(|(node, error)| format!("{node}: {error}")).collect::<Vec<_>>().join("; ")
}

/// Why a node must not be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It replicates another server, which overwrites what it grants.
    #[error("it is a replica; name the address of a master")]
    Replica,
    /// It may delete locks when memory runs short.
    #[error("maxmemory-policy must be noeviction, got {policy}, which may delete locks{}", tolerable(policy))]
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
    /// It is a server of its own, where one of a Redis Cluster was expected.
    #[error("{server} is not in cluster mode; name it with redis([...])")]
    NotCluster {
        /// Its address.
        server: String,
    },
    /// Two seeds of one cluster belong to different clusters.
    #[error(
        "{seed} and {other} belong to different clusters; name the servers of one cluster in each string: \
         redis_cluster([\"redis://a1,a2\", \"redis://b1,b2\", \"redis://c1,c2\"])"
    )]
    OtherCluster {
        /// One of them.
        seed: String,
        /// The other one.
        other: String,
    },
    /// It is part of a Redis Cluster, where one script cannot use the keys of a lock and of the node.
    #[error("it is in cluster mode: {detail}; name its cluster with redis_cluster([...])")]
    ClusterMode {
        /// The server's message.
        detail: String,
    },
    /// The sentinels that answer do not watch over a master of this name.
    #[error(
        "the sentinels at {sentinels} know no master {master:?}; use the name in their configuration (sentinel monitor)"
    )]
    UnknownMaster {
        /// The name.
        master: String,
        /// Their addresses.
        sentinels: String,
    },
    /// What answers at the address is something else.
    #[error("this is not a Redis server, it answers in another protocol; check host and port")]
    NotRedis,
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
    /// There is no secure connection to it: its certificate is not trusted, say, or its port is not one for TLS.
    #[error("no TLS connection: {detail}")]
    Tls {
        /// What is wrong, with the remedy if there is one.
        detail: String,
    },
    /// It refused the login.
    #[error("the login was refused: {detail}; check user and password")]
    Login {
        /// The server's message.
        detail: String,
    },
    /// It must not be used for a reason of its own, or not in this way.
    #[error("{reason}")]
    Unusable {
        /// Why, and the remedy.
        reason: String,
    },
    /// The user lacks a permission that locks need.
    #[error("the user lacks a permission: {detail}; see the list of commands in the documentation of RedisNode")]
    Permission {
        /// The server's message.
        detail: String,
    },
}

/// What to do about a policy that may delete locks but not the record of the node.
fn tolerable(policy: &str) -> &'static str {
    match policy.starts_with("volatile-") {
        true => "; if it cannot be changed, read what tolerate_eviction(true) costs",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_quarantine_is_said_in_milliseconds_at_least() {
        let said = |remaining| NodeError::Quarantined { remaining }.to_string();
        assert!(
            said(Duration::ZERO).starts_with("in quarantine for another 1.0ms, because"),
            "{}",
            said(Duration::ZERO)
        );
        assert!(said(Duration::from_nanos(61_234_567_891)).starts_with("in quarantine for another 61.2s, because"));
    }
}
