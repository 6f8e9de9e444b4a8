use thiserror::Error;

use crate::delegation::InvalidAudience;
use crate::error::{NodeError, Refusal, list_problems};
use crate::limits::{InvalidName, OutOfRange};
#[cfg(feature = "redis")]
use crate::node::InvalidReplication;
use crate::node::{InvalidSetting, InvalidUrl};
use crate::quorum::majority;

/// Why a manager cannot be built from these settings, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A URL is not valid.
    #[error(transparent)]
    InvalidUrl(#[from] InvalidUrl),
    /// What `replicated` was given is out of range.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    InvalidReplication(#[from] InvalidReplication),
    /// `credentials`, `tls`, `replicated` or `tolerate_eviction` does not apply to a master.
    #[error(transparent)]
    InvalidSetting(#[from] InvalidSetting),
    /// No masters were named.
    #[error("no masters: name an odd number of them with redis([...]) or nodes([...])")]
    NoNodes,
    /// An even number of masters. It tolerates no more faults than one master less, and its votes can be split evenly.
    #[error("the number of masters must be odd, such as {} or {}, got {nodes}", nodes - 1, nodes + 1)]
    EvenNodes {
        /// The number of masters that were named.
        nodes: usize,
    },
    /// Too many masters.
    #[error("the number of masters must be at most {most}, got {nodes}; 3 or 5 are usual")]
    TooManyNodes {
        /// The number of masters that were named.
        nodes: usize,
        /// The maximum.
        most: usize,
    },
    /// A master was named twice.
    #[error("the master {node} is named twice; name each master once")]
    DuplicateNode {
        /// Its name.
        node: String,
    },
    /// A master that has to be alone in its set was named beside others.
    #[error(
        "the master {node} cannot be combined with {}: it is replicated by consensus and decides alone; remove the others, or give them \
         a manager of their own",
        others.join(", ")
    )]
    NotAlone {
        /// Its name.
        node: String,
        /// The names of the others.
        others: Vec<String>,
    },
    /// The number of shards is not one that there may be.
    #[error("shards must be 1, 2, 4, 8, 16, 32 or 64, got {shards}; it cannot be changed later")]
    InvalidShards {
        /// The number that was asked for.
        shards: u32,
    },
    /// The number of sets is not one that there may be.
    #[error(
        "set must be called 1, 2, 4, 8, 16, 32 or 64 times, once for each shard, and was called {sets} times; it cannot be changed later"
    )]
    InvalidSets {
        /// How many sets were named.
        sets: usize,
    },
    /// A master was named beside sets of masters.
    #[error(
        "{node} is named beside set([...]), which is for the masters of one shard; name all masters with set, or none"
    )]
    BesideSets {
        /// The name of the master.
        node: String,
    },
    /// There are as many shards as sets.
    #[error("shards is {shards}, and each of the {sets} sets is a shard; leave shards out")]
    ShardsOfSets {
        /// The number of shards that was asked for.
        shards: u32,
        /// How many sets were named.
        sets: usize,
    },
    /// A master cannot be divided into shards.
    #[error(
        "shards are for masters that are named with redis, redis_cluster or sentinel, and for MemoryNode, and {node} is not one; leave \
         shards at 1"
    )]
    UndividedNode {
        /// Its name.
        node: String,
    },
    /// A cluster was named beside a master that is none, and so has its keys elsewhere.
    #[error("{cluster} is a cluster and {other} is none; a set has clusters alone, each as one master, or none")]
    MixedClusters {
        /// The name of the cluster.
        cluster: String,
        /// The name of the other master.
        other: String,
    },
    /// A duration is out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// `max_waiters` is zero.
    #[error("max_waiters must be at least 1, got 0; for callers that do not wait, set wait to zero")]
    NoWaiters,
    /// `max_buffered_bytes` is zero.
    #[error(
        "max_buffered_bytes must be at least 1, got 0; to keep no bodies in memory, use LockLayer::stream_request_body"
    )]
    NoBufferedBytes,
    /// The prefix, the name of the set, or that of a node is not valid.
    #[error("invalid {field} {name:?}: {reason}")]
    InvalidName {
        /// `prefix`, `set_name` or `node`.
        field: &'static str,
        /// What it was set to.
        name: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// The audience is not valid.
    #[error(transparent)]
    InvalidAudience(#[from] InvalidAudience),
    /// `assume_durable` is for a single master.
    #[error("assume_durable is for a single master, got {nodes}; of several, one may restart while the others go on")]
    DurableSet {
        /// The number of masters that were named.
        nodes: usize,
    },
    /// A master that answers must not be used.
    #[error("the master {node} cannot be used: {refusal}")]
    RefusedNode {
        /// The node.
        node: String,
        /// Why.
        refusal: Refusal,
    },
}

/// Why a manager could not connect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The settings of the manager or of a master are wrong. A retry does not help.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The set is new, and not all of its masters are reachable. Once it is formed, a majority is enough.
    #[error(
        "the set is new, and is formed only when all of its masters answer; missing: {}. Start them, or form the set without \
         them with form_with_missing(true)",
        missing.join(", ")
    )]
    NotFormed {
        /// The masters that do not answer.
        missing: Vec<String>,
    },
    /// Fewer than a majority of the masters are reachable and can grant locks.
    #[error("{reachable} of {nodes} masters can grant locks, {} are needed: {}", majority(*nodes), list_problems(unreachable))]
    NoQuorum {
        /// The number of masters.
        nodes: usize,
        /// How many of them answered, and can grant locks.
        reachable: usize,
        /// The others, with the reason.
        unreachable: Vec<(String, NodeError)>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_remedy() {
        assert_eq!(
            ConfigError::EvenNodes { nodes: 4 }.to_string(),
            "the number of masters must be odd, such as 3 or 5, got 4"
        );
        let error = ConnectError::NoQuorum {
            nodes: 3,
            reachable: 1,
            unreachable: vec![
                ("a:1".into(), NodeError::TimedOut),
                ("b:2".into(), NodeError::Unreachable { reason: "connection refused".into() }),
            ],
        };
        let text = "1 of 3 masters can grant locks, 2 are needed: a:1: no reply in time; if locks time out \
                    because the master is far away, raise node_timeout; b:2: not reachable: connection refused";
        assert_eq!(error.to_string(), text);
    }
}
