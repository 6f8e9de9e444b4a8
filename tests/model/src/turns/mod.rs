//! The model of the turns that waiters get: who acquires the lock when, among processes that wait in the nodes' queues.
//!
//! The nodes have the same [`Queue`](crate::Queue) as in the model of the queue. A process waits and tries again as `LocalPermit` and
//! `Wakeups` in lock-core do. Requests to different nodes are executed in any order, those on one connection in theirs. Processes are
//! killed or frozen, connections for wake-ups are cut, wake-ups and requests to leave are lost, and a stranger takes the lock.
//!
//! A process is *in line* at a node when it has entered the queue there, until it is frozen, its connection is cut, its wake-up is
//! lost, the queue refuses it, or it lets its reservation pass. Checked are:
//!
//! - [`BOUNDED_OVERTAKING`]: one that is in line at a majority is passed by those that came later at most
//!   [`max_passed`](TurnsSetting::max_passed) times: never without a fault, once with one.
//! - [`FREE_KEYS_RESERVED`]: reservations end when a waiter takes the lock.
//! - [`ONE_ORDER`]: any two that are in line at two nodes come in the same order at both.
//! - [`TAKEN_IN_TIME`]: while someone is in line at a majority, a free lock is taken within
//!   [`max_idle`](TurnsSetting::max_idle) ticks: at once without a fault, and if a waiter died; after one reservation, if one is
//!   frozen.
//!
//! # Time
//!
//! A tick is half a reservation. It passes when all that is under way has arrived, and all whose timers have run out have tried
//! again; until then, everything happens in any order. Timers have their longest value.
//!
//! # Bounds
//!
//! - The lock is released before time passes.
//! - Up to three processes, and no more than [`waits`](TurnsSetting::waits) waits: a later one is the latest of its process.
//! - Without [`splits`](TurnsSetting::splits), whoever begins an attempt while another holds the lock or is in line is heard by
//!   all nodes before the lock is released. Nodes that reserve the key for different waiters come apart by their timers, which are
//!   random; in every order of events, they need not.
//! - A process is frozen while it waits, not while it asks or holds. It is killed at any time, except while a node reserves the key
//!   for it, and gives up likewise: in both cases the reservation passes.
//! - The bounds of [`TIES`](TurnsSetting::TIES), [`FROZEN`](TurnsSetting::FROZEN), [`CUT`](TurnsSetting::CUT) and
//!   [`FULL`](TurnsSetting::FULL) hold for that many waits. With one more, nodes that reserve for different waiters break them.
//! - Waiters behind the third are not in the model, and so not that some of them are not woken.

mod action;
mod model;
mod node;
mod process;
mod properties;
mod setting;
mod state;
mod symmetry;

pub use self::model::TurnsModel;
pub use self::properties::{BOUNDED_OVERTAKING, FREE_KEYS_RESERVED, ONE_ORDER, TAKEN_IN_TIME};
pub use self::setting::TurnsSetting;
