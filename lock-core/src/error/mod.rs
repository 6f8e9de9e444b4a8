//! What can go wrong, told apart, with the facts.

mod config;
mod lock;

pub use config::{ConfigError, ConnectError};
pub use lock::{LockError, LossReason, NodeVote, VoteAnswer};
