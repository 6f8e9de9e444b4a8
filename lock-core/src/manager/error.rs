use thiserror::Error;

use crate::error::{NodeError, Refusal};
use crate::node::InvalidUrl;
use crate::options::OutOfRange;
use crate::quorum::majority;
use crate::resource::InvalidName;

/// Why a manager can not be built from these settings, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A URL is not valid.
    #[error(transparent)]
    InvalidUrl(#[from] InvalidUrl),
    /// No master was named.
    #[error("no nodes: name an odd number of masters with redis([...]) or nodes([...])")]
    NoNodes,
    /// An even number of masters tolerates no more faults than one less, and splits votes.
    #[error("{nodes} nodes: name an odd number of masters, such as {} or {}", nodes - 1, nodes + 1)]
    EvenNodes {
        /// How many were named.
        nodes: usize,
    },
    /// More masters than a set can have.
    #[error("{nodes} nodes: name at most {most}; 3 or 5 are usual")]
    TooManyNodes {
        /// How many were named.
        nodes: usize,
        /// How many are allowed.
        most: usize,
    },
    /// One master was named twice.
    #[error("the node {node} is named twice; each master votes once")]
    DuplicateNode {
        /// The name.
        node: String,
    },
    /// A duration is not in its range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Nobody could ever wait.
    #[error("max_waiters is 0, allowed is 1 and more; for callers that do not wait, set wait to zero")]
    NoWaiters,
    /// The prefix has characters that keys must not have.
    #[error("the prefix {prefix:?} can not be used: {reason}")]
    InvalidPrefix {
        /// The prefix.
        prefix: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// A reachable master must not be used.
    #[error("the node {node} can not be used: {refusal}")]
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
    /// The settings, or a master's, are wrong. Trying again does not help.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Fewer than a majority of the masters could be reached.
    #[error("{reachable} of {nodes} nodes are reachable, {} are needed: {}", majority(*nodes), list(unreachable))]
    NoQuorum {
        /// How many there are.
        nodes: usize,
        /// How many answered.
        reachable: usize,
        /// Those that did not, with the reason.
        unreachable: Vec<(String, NodeError)>,
    },
}

fn list(unreachable: &[(String, NodeError)]) -> String {
    unreachable.iter().map(|(node, error)| format!("{node}: {error}")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_named() {
        assert_eq!(
            ConfigError::EvenNodes { nodes: 4 }.to_string(),
            "4 nodes: name an odd number of masters, such as 3 or 5"
        );
        let error = ConnectError::NoQuorum {
            nodes: 3,
            reachable: 1,
            unreachable: vec![
                ("a:1".into(), NodeError::TimedOut),
                ("b:2".into(), NodeError::Unreachable { reason: "connection refused".into() }),
            ],
        };
        let text =
            "1 of 3 nodes are reachable, 2 are needed: a:1: no answer in time; b:2: not reachable: connection refused";
        assert_eq!(error.to_string(), text);
    }
}
