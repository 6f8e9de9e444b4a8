//! The errors of locks and of nodes, with the facts that tell them apart.

mod duration;
mod lock;
mod node;
mod not_member;

pub(crate) use self::lock::list;
pub use self::lock::{LockError, LossReason, NodeVote, Vote};
pub use self::node::{NodeError, Refusal};
pub(crate) use self::node::{is_elsewhere, list_problems};
pub use self::not_member::NotMember;
