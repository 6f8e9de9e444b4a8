use std::fmt;

use thiserror::Error;

/// A sequence in which a node and the rules differ: the shortest that was found.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the node and the rules differ (seed {seed:?})\n{}\nthe rules: {rules}\n the node: {node}", steps.join("\n"))]
pub struct Divergence {
    /// The seed from which the sequence was drawn; `None` for one that is always tried.
    pub seed: Option<u64>,
    /// The steps. The last is the one that has different replies.
    pub steps: Vec<String>,
    /// What the rules reply.
    pub rules: String,
    /// What the node replied.
    pub node: String,
}

/// As [`Display`](fmt::Display), so that a test that unwraps it shows the steps line by line.
impl fmt::Debug for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
