//! The model of permits: at most [`PERMITS`] holders, each of which has a slot, and one queue for all slots.
//!
//! Each slot is a lock of the other models, on nodes with a key and a fence for each slot. The clients decide with the shipped
//! [`Acquisition`](lock_core::quorum::Acquisition). They begin with any slot. One that fails enters the queue, and waits until a majority
//! of the nodes lets it take the same slot: each node lets as many of the first in the queue take any free slot as there are on it. No
//! client has a timer, so that nothing hides a slot that nobody takes.
//!
//! Checked are:
//!
//! - [`AT_MOST_PERMITS`]: no more clients hold than there are permits. Counting them on each node does not do
//!   ([`PermitsMutant::Counted`]): three clients find a majority of three nodes each of which counts to two.
//! - [`ORDERED_TOKENS`](crate::ORDERED_TOKENS), for each slot.
//! - [`VALID_CLAIMS_ACCEPTED`]: a resource that remembers the largest token of each slot refuses no holder that is valid.
//! - [`NO_IDLE_SLOT`]: when no request is on its way, and a slot is free on a majority, a majority lets a client take one that waits.
//!
//! # Reductions and bounds
//!
//! - Three nodes and two permits. Keys do not expire, because validity ends before; requests are executed when they are sent or not at
//!   all, and a failed attempt is undone at once on all nodes. A release reaches the nodes one after the other. Late and repeated requests are in the model of one lock, which a slot is.
//! - The queue is one for all nodes. That they keep the same order is in the model of the reservations.
//! - A confirmation is executed on all nodes at once. What may come between is in the model of one lock.
//! - States that differ only in the names of slots, clients and nodes are explored once.
//! - The short run has three clients, one of which tries twice. Four clients of which two try twice were not completed in five minutes,
//!   and are left out.
//! - A client makes a number of attempts ([`PermitsSetting::attempts`]), and may leave at any step.

mod model;
mod properties;
mod setting;
mod state;
mod symmetry;

pub use self::model::PermitsModel;
pub use self::properties::{AT_MOST_PERMITS, NO_IDLE_SLOT, VALID_CLAIMS_ACCEPTED};
pub use self::setting::{PERMITS, PermitsMutant, PermitsSetting};
