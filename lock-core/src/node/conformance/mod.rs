//! Compares a node with the rules: for authors of nodes, behind the feature `conformance`.
//!
//! [`Conformance`] runs random sequences of requests on a node and on the rules, which are those of [`Operation`](super::Operation) as
//! [`MemoryNode`](super::MemoryNode) follows them, and compares reply by reply. It also tries what takes time: that a lock ends with
//! its `ttl` and not before, and what happens after an eviction. A [`Divergence`] is the shortest sequence that was found in which the
//! two differ, with both replies.
//!
//! What a node [lacks](Lack) is declared and not compared. Everything else is.
//!
//! The nodes of this crate pass it. [`writing`](super::writing) runs it on the node that it shows.

mod conformance;
mod lack;
mod outcome;
mod sequences;
mod side;
mod step;
mod timed;

pub use self::conformance::{Conformance, Divergence, Report};
pub use self::lack::Lack;
