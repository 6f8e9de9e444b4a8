//! The masters of a manager: who the members of the set are, and which of them vote.
//!
//! [`LockManager::health`](crate::LockManager::health) asks each master for its state, a [`NodeHealth`](crate::NodeHealth).
//! [`LockManager::ready`](crate::LockManager::ready) asks only until a majority would grant a lock.
//! [`LockManager::members`](crate::LockManager::members) says who has a seat in the set, and why a master has none.

pub(crate) mod health;
mod members;

pub use self::health::NotReady;
pub(crate) use self::health::ready;
pub use self::members::{Members, Seat, SeatState};
pub(crate) use self::members::{lower_max_ttl, members};
pub use crate::error::{NotMember, Refusal};
#[cfg(feature = "redis")]
pub use crate::node::InvalidReplication;
pub use crate::node::{InvalidSetting, InvalidUrl};
