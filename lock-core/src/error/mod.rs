//! The errors of locks and of nodes, with the facts that tell them apart.

mod invalid;
mod lock;
mod node;
mod not_member;
mod vote;

pub use self::invalid::{InvalidName, OutOfRange};
pub use self::lock::{LockError, LossReason};
pub use self::node::{NodeError, Refusal};
pub(crate) use self::node::{left, list_problems};
pub use self::not_member::NotMember;
pub(crate) use self::vote::list;
pub use self::vote::{NodeVote, Vote};
