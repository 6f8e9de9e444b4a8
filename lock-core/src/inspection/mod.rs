//! Who holds a lock and who waits for it, for operators; and taking a lock from its holder.
//!
//! [`LockManager::inspect`](crate::LockManager::inspect) asks the nodes about one lock, and says what each of them has in a
//! [`LockReport`]. [`LockManager::force_release`](crate::LockManager::force_release) takes the lock from its holder.
//! [`LockManager::waiting`](crate::LockManager::waiting) has the resources that callers of this process wait for.

mod force_release;
mod report;

pub(crate) use self::force_release::ForceRelease;
pub use self::force_release::ForcedRelease;
pub use self::report::{LockOnNode, LockReport, LockVerdict, Waiting};
pub(crate) use self::report::{inspect, waiting};
pub use crate::node::HolderTag;
