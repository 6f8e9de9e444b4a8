use std::error::Error;
use std::fmt;

/// A sequence in which a node and the rules differ: the shortest that was found.
#[derive(Clone, PartialEq, Eq)]
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

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the node and the rules differ")?;
        if let Some(seed) = self.seed {
            write!(f, " (seed {seed})")?;
        }
        for (number, step) in (1..).zip(&self.steps) {
            write!(f, "\n{number:4}. {step}")?;
        }
        write!(f, "\nthe rules: {}\n the node: {}", self.rules, self.node)
    }
}

/// As [`Display`](fmt::Display), so that a test that unwraps it shows the steps line by line.
impl fmt::Debug for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Divergence {}
