//! The model of delegations: a holder, a service that adopts its lock, and a rival that acquires it.
//!
//! The holder has the lock at the beginning. It renews, delegates once, and ends at any step; a local caller may take the lock over from it,
//! with its owner id. The adopter looks at the nodes, again and again, and decides with the shipped
//! [`Tally`](lock_core::quorum::Tally). It works at most until it has answered, and answers at any step. Its request may arrive when
//! the holder is gone; and it is replayed after its answer, once a majority of the nodes does not have the holder's key any more.
//!
//! # Reductions
//!
//! - How an attempt is decided is in the model of the lock ([`LockModel`](crate::LockModel)): here the rival holds the lock when a majority
//!   granted it.
//! - A reply that is late only shortens the work: what is left is counted from before the request was sent. So replies are delivered at once
//!   or never.
//! - The time at which a delegation expires only shortens the work, and is left out.
//!
//! # Bounds
//!
//! One delegation, one attempt of the rival, and as many looks and renewals as the [`DelegationSetting`] says. A replay before the release has
//! arrived on a majority is not explored: it works unguarded until its next look, which the documentation says.

mod model;
mod setting;
mod state;

pub use self::model::{DelegationModel, NO_UNGUARDED_ADOPTER};
pub use self::setting::{DelegationMutant, DelegationSetting};
