//! Distributed locks worth trusting: Redlock on N independent masters, with a fencing token.
//!
//! This is the engine; it knows neither axum nor HTTP. Web services use `lock-axum`, which re-exports all of it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_core::LockError> {
//! let locks = lock_core::LockManager::in_memory(); // or builder().redis([...]).connect().await?
//! let guard = locks.lock("stock:42").acquire().await?;
//! assert!(guard.is_valid());
//! let token = guard.token(); // hand it to the database: it refuses what comes from a holder of the past
//! guard.release().await?; // or drop it
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! While the clocks of the nodes run at bounded rates and a majority of them keeps its data, no two holders of one resource
//! are valid at once, and every grant carries a [`FencingToken`] that is unique and larger than those of all acquisitions
//! that completed before it began. A crashed holder's lock ends with its time to live. Faults of a minority of nodes, hung
//! ones included, are not noticed. Whatever is dropped, wherever, leaves no key behind.
//!
//! What no lock can promise: that a holder which is paused beyond its time to live stops in time. It is told as soon as it
//! wakes ([`Lease::lost`]); until then, only a resource that checks the token is safe.
//!
//! # Events
//!
//! Failures that have no caller are `tracing` events under the target `lock_core`, with stable names:
//!
//! | name | level | what happened |
//! |---|---|---|
//! | `lock.lost` | warn | a lease ended before it was released |
//! | `lock.renewal_unknown` | warn | too few nodes answered a renewal |
//! | `lock.release_failed` | warn | no majority acknowledged a release within the node timeout |
//! | `lock.release_given_up` | debug | a node could not be told; its key was left to expire |
//! | `lock.shutdown_revoked` | warn | locks were cut off at the end of a shutdown's grace |
//! | `lock.node_admitted` | debug | a node votes |
//! | `lock.node_away` | warn | a node can not be reached |
//! | `lock.node_does_not_call` | warn | a node cannot wake waiters: the user has no permission for `BLPOP` |
//! | `lock.node_undecided` | warn | a node has no record, and too few others answer to tell why |
//! | `lock.node_established` | info | a node became a member of the set |
//! | `lock.node_quarantined` | warn | a node lost its memory, and grants nothing for a while |
//! | `lock.node_in_quarantine` | debug | a node is in quarantine |
//! | `lock.node_refused` | error | a node must not be used; the event says why and what to do |

mod cluster;
mod engine;
mod error;
#[cfg(feature = "axum")]
mod extract;
mod lease;
mod manager;
pub mod node;
mod options;
pub mod quorum;
mod random;
mod resource;
mod token;
mod waiting;

pub use self::error::{LockError, LossReason, NodeError, NodeVote, Refusal, Vote};
#[cfg(feature = "axum")]
pub use self::extract::MissingLease;
pub use self::lease::{Lease, LockGuard};
pub use self::manager::{
    ConfigError, ConnectError, Health, LockManager, LockManagerBuilder, LockRequest, NodeHealth, ShutdownReport,
};
pub use self::node::{InvalidUrl, LockNode, MemoryNode, RedisNode};
pub use self::options::{MAX_HOLD, MAX_TTL, MAX_WAIT, MIN_TTL, OutOfRange};
pub use self::resource::{InvalidName, MAX_RESOURCE_LEN};
pub use self::token::FencingToken;
