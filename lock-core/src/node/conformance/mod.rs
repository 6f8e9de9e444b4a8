//! Compares a node with the rules: for authors of nodes, behind the feature `conformance`.
//!
//! [`Conformance`] runs random sequences of requests on a node and on the rules, which are those of [`Operation`](super::Operation) as
//! [`MemoryNode`](super::MemoryNode) follows them, and compares reply by reply. It also tries what takes time: that a lock ends with
//! its `ttl` and not before, that the clock runs, and what happens after an eviction. And it asks several things at once, of two nodes of one
//! store where there are two. A [`Divergence`] is the shortest sequence that was found in which the
//! two differ, with both replies.
//!
//! What a node [lacks](Lack) is declared and not compared. Everything else is.
//!
//! The nodes of this crate pass it. [`writing`](super::writing) runs it on the node that it shows.

mod concurrent;
mod conformance;
mod divergence;
mod ends;
mod lack;
mod outcome;
mod runner;
mod sequences;
mod side;
mod step;
mod timed;
mod trial;

pub use self::conformance::{Conformance, Report};
pub use self::divergence::Divergence;
pub use self::lack::Lack;
