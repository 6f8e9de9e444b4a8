//! The model of the membership ([`lock_core::quorum::Membership`]) together with a lock.

mod action;
mod lock;
mod long;
mod mind;
mod model;
mod node;
mod properties;
mod setting;
mod settle;
mod shared;
mod state;

pub use self::model::MembershipModel;
pub use self::properties::{NO_DEADLOCK_OF_CHANGES, ONE_ROSTER, ONE_RULING_ROSTER, QUARANTINE_IS_LONG_ENOUGH};
pub use self::setting::{Locks, MembershipMutant, MembershipSetting, Pace};
