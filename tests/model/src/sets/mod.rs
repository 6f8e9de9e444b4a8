//! A model of callers that want several locks at once.
//!
//! What they keep, release and wait for is decided by the shipped code ([`lock_core::quorum::set_order`] and
//! [`lock_core::quorum::kept_of_batch`]). A lock is one step here: who gets it is the subject of the other models. The requests of
//! a batch are executed one by one, in any order, between those of other callers. A lock may be lost while its set waits.
//!
//! The callers are in different processes. Those of one process have the turns of the locks in between, which they take and pass
//! on together with the locks.

mod model;
mod setting;
mod state;

pub use self::model::{COMPLETE_SETS, NO_STUCK_SET, SetsModel};
pub use self::setting::{SetsMutant, SetsSetting};
