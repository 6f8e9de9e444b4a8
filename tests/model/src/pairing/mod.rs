//! The model of the pairing: which waiter may take which free slot of a name, while the nodes do not agree on it.
//!
//! Two slots, three nodes, three processes that wait. Each node lets the first of them in, as many as it has free slots, and proposes
//! another slot to each. The model of permits has one truth about who is let in. Here each node has its own, and each process knows what
//! it was told.
//!
//! Requests of different processes are executed in any order, on each node. A wake-up arrives at any time, unless a later one or a reply
//! takes its place. The first holders release at any time. A process waits until it has had a slot once; it attempts one as soon as a
//! majority lets it in and has that slot free, by what it knows. When nothing is on its way, and all wait, all timers fire.
//!
//! Checked are:
//!
//! - [`NO_SLOT_WAITS_FOR_A_TIMER`]: from every quiet state in which a slot is free on a majority, and somebody waits, somebody tries it
//!   before any timer fires, if nobody has died. The former rule violates it ([`PairingSetting::keeps`]): two nodes that have a slot free
//!   keep it for different waiters, and each of these is kept nothing else by a majority.
//! - [`TAKEN_AFTER_TIMERS`]: if somebody has died, and is still let in, a slot is taken before all timers have fired twice.
//! - [`ONE_HOLDER_OF_A_SLOT`].
//!
//! # Bounds
//!
//! - A process makes its next attempt when the requests of its last one have been executed. A slot is not put back on nodes that refused
//!   it, keys do not expire, and replies arrive when the request is executed.
//! - All have their positions in the beginning, and nobody gives up. Those that have had a slot keep it.
//! - A dead holder's key stays. One process dies, while it waits or tries.
//! - States that differ only in the names of nodes are explored once.

#![allow(clippy::cast_possible_truncation, reason = "there are few slots and waiters")]

mod model;
mod node;
mod setting;
mod state;
mod step;

pub use self::model::{NO_SLOT_WAITS_FOR_A_TIMER, ONE_HOLDER_OF_A_SLOT, PairingModel, TAKEN_AFTER_TIMERS};
pub use self::setting::{PairingSetting, PairingStart};
