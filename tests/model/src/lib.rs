//! A model of nodes, network and clients that explores every order of events.
//!
//! The clients decide with the shipped code of [`lock_core::quorum`] ([`Decider`]). The nodes follow the rules of
//! [`lock_core::node::Operation`], on small integers. The checker explores every state that a [`Setting`] allows, with
//! [`NODES`] nodes. Nodes are symmetric: states that differ only in their names are explored once.
//!
//! - **Requests** may be executed at any time after they are sent: out of order, more than once, or never. Replies may be
//!   delayed or lost. A late acquire of an abandoned attempt is executed like any other. (In settings with time, each
//!   request is executed at most once.)
//! - **Clients** may pause anywhere, which means that their next action is delayed. They may give up anywhere, and send
//!   releases when they end.
//! - **Keys** expire at any step in settings without time. Tokens must be unique and ordered all the same.
//! - **Time**, in settings that have it, passes in ticks, at any step and for everyone alike. A key lives for `ttl` ticks. A
//!   lease is valid for as many ticks, counted from before the first request was sent. Mutual exclusion is checked in these
//!   settings.
//! - **Nodes** lose all their data, one at a time. Such a node joins again in the same step: the others take no request that was
//!   sent before, its fence becomes their highest, and its quarantine begins. (The step is the change of the membership that
//!   [`MembershipModel`] takes apart. A node that joins later is one that loses its data later, because a request to it may stay
//!   unexecuted until then.)
//! - **An operator**, in settings that have one, evicts whom it saw hold the lock. From then on the evicted holder may be valid beside
//!   the next one, until its next renewal; its token tells it from those.
//! - **Readers**, in settings that have them, hold the lock together. Of the attempts, the last ones read. A writer may downgrade: it
//!   counts as a reader from when it sends that, and the nodes follow, each in one step.
//! - **Other locks** that share the fence advance it on a node, at any step, to any value.
//!
//! # Reductions
//!
//! None of these hides a run that violates a property.
//!
//! - One reply is recorded for each request, and may be delivered at any time or never. If a request is executed again,
//!   either reply is kept: a decider ignores a second reply to the same request.
//! - Replies are passed to the decider only when they lead to a decision, because a client that received a reply and did
//!   nothing is indistinguishable from one that did not receive it. While an attempt gathers grants, a timeout leads to
//!   failure or to nothing.
//! - A failed attempt is the same as one that was given up, which is possible at any step.
//! - Without time, a holder releases at once. Its release may be executed at any later step or never, and has the same
//!   effect as the expiry of the key.
//! - Attempts that differ only in their names are explored once: writers among themselves, and readers.
//! - After an attempt has ended, its confirm has no effect on a node whose fence has reached the proposed token.
//!
//! With [`Setting::prompt`], which the settings with several readers have:
//!
//! - A reply that leads to a decision is delivered at once, or together with a later one. A client that decides later holds the lock for a
//!   shorter time, and what it sends may be executed later anyway.
//! - Requests that would change nothing are not executed, which is the same as being lost.
//!
//! [`Setting::shared`] has fences that stand still, because who holds the lock beside whom does not depend on tokens: an attempt that
//! has to confirm one holds the lock later, or never. Tokens of readers have settings of their own.
//!
//! # Bounds
//!
//! Two or three attempts, and four of which two read; fences up to [`Setting::max_fence`]; in settings with time, up to the last tick;
//! [`Setting::fence_advances`] advances by other locks. With [`Setting::prompt`], a lease is renewed in a later tick than it was last.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod action;
mod client;
mod coverage;
mod deadlock;
mod decider;
mod delegation;
mod eviction;
mod execute;
mod long;
mod membership;
mod model;
mod mutant;
mod node;
mod nodes;
mod pairing;
mod permits;
mod properties;
mod queue;
mod readers;
mod report;
mod reservations;
mod run;
mod sets;
mod setting;
mod state;
mod symmetry;
#[cfg(test)]
mod tests;

pub use self::action::{Action, Delivery, Request};
pub use self::coverage::{Coverage, CoveragePoint};
pub use self::decider::{Decider, Decision};
pub use self::delegation::{DelegationModel, DelegationMutant, DelegationSetting, NO_UNGUARDED_ADOPTER};
pub use self::eviction::{Eviction, Owners};
pub use self::membership::{
    Locks, MembershipModel, MembershipMutant, MembershipSetting, NO_DEADLOCK_OF_CHANGES, ONE_ROSTER, ONE_RULING_ROSTER,
    Pace, QUARANTINE_IS_LONG_ENOUGH,
};
pub use self::model::LockModel;
pub use self::mutant::Mutant;
pub use self::nodes::Nodes;
pub use self::pairing::{
    NO_SLOT_WAITS_FOR_A_TIMER, ONE_HOLDER_OF_A_SLOT, PairingModel, PairingSetting, PairingStart, TAKEN_AFTER_TIMERS,
};
pub use self::permits::{
    AT_MOST_PERMITS, NO_IDLE_SLOT, PERMITS, PermitsModel, PermitsMutant, PermitsSetting, VALID_CLAIMS_ACCEPTED,
};
pub use self::properties::{
    EVICTED_CANNOT_RENEW, EVICTED_JOINED_BY_NOBODY, EVICTED_SHUT_OUT, MAJORITY_GRANTS, MUTUAL_EXCLUSION, NO_DEADLOCK,
    NO_LOST_RENEWAL, ORDERED_TOKENS, OWN_KEYS_ONLY, SUCCESSOR_NOT_SHUT_OUT, UNIQUE_TOKENS,
};
pub use self::queue::{Line, Queue, QueueModel, QueueMutant, QueueSetting, REFINEMENT, Waiter};
pub use self::report::{ModelSetting, report};
pub use self::reservations::{
    BOUNDED_OVERTAKING, FREE_KEYS_RESERVED, ONE_ORDER, ReservationsModel, ReservationsSetting, TAKEN_IN_TIME,
};
pub use self::run::{
    Outcome, Violation, explore, explore_delegation, explore_membership, explore_pairing, explore_permits,
    explore_queue, explore_reservations, explore_sets,
};
pub use self::sets::{COMPLETE_SETS, NO_STUCK_SET, SetsModel, SetsMutant, SetsSetting};
pub use self::setting::{Setting, Time};
pub use self::state::{
    Attempt, Breaches, CLIENTS, Client, Key, NOBODY, NODES, Node, Phase, Proposal, Renewal, Replace, ReplyKind,
    ReplySlot, SHARED, State, Vote,
};
