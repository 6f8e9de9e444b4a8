//! The model of the reservations that waiters get: who acquires the lock when, among processes that wait in the nodes'
//! queues.
//!
//! The nodes have the same [`Queue`](crate::Queue) as in the model of the queue. A process waits and tries again as
//! `Turn` and `Wakeups` in lock-core do. Requests to different nodes are executed in any order, those on one
//! connection in theirs. Processes are killed or frozen, connections for wake-ups are cut, wake-ups and requests to
//! leave are lost, and a stranger takes the lock.
//!
//! A process is *in line* at a node when it has entered the queue there, until its connection is cut, its wake-up is
//! lost, the queue refuses it, or it lets a reservation pass that it knew of. One that is frozen is in line again when
//! it goes on. Checked are:
//!
//! - [`BOUNDED_OVERTAKING`]: one that is in line at a majority is passed by those that came later at most
//!   [`max_passed`](ReservationsSetting::max_passed) times: never if a process is killed, leaves, cannot be woken or
//!   loses a wake-up; once if one is frozen or loses a connection, votes are split, or the queue is full.
//! - [`FREE_KEYS_RESERVED`]: reservations end when a waiter takes the lock.
//! - [`ONE_ORDER`]: any two that are in line at two nodes come in the same order at both.
//! - [`TAKEN_IN_TIME`]: while someone is in line at a majority, a free lock is taken within
//!   [`max_idle`](ReservationsSetting::max_idle) ticks: at once without a fault, and if a waiter died; after one
//!   reservation, if one is frozen.
//!
//! Some processes may read. Those that read hold the lock together, for as long as they like, and pass nobody in line who writes
//! and was in line when their attempt began. While they hold it, a reader that is in line, with no writer before it, counts as
//! somebody for whom the lock is free.
//!
//! # Time
//!
//! A tick is half a reservation. It passes when all that is under way has arrived, and all whose timers have run out
//! have tried again; until then, everything happens in any order. Timers have their longest value in whole ticks, and
//! one at least. That of a process that polls is shorter than a reservation, round trip included: with one of two
//! ticks, it could miss each of its reservations.
//!
//! # Bounds
//!
//! - The lock is released before time passes, except by readers.
//! - Three processes, which wait any number of times. [`LEAVING`](ReservationsSetting::LEAVING) and
//!   [`LOST_WAKEUP`](ReservationsSetting::LOST_WAKEUP) end after three waits,
//!   [`NOT_WOKEN`](ReservationsSetting::NOT_WOKEN) has four processes that wait four times in all, and
//!   [`TIES`](ReservationsSetting::TIES) has two processes. [`READERS`](ReservationsSetting::READERS) ends after three waits, or
//!   four. With five, a reader may pass a writer once that a node has not heard, where that node or another one still keeps a
//!   reservation of its former wait. Writers that wait are heard of for as long as they wait.
//! - A process takes no position before it is known whether a majority can wake it, so the model begins when that is
//!   known.
//! - With five waits, a run of [`LEAVING`](ReservationsSetting::LEAVING) violates [`ONE_ORDER`]: a position whose
//!   request to leave was lost stands before others on that node.
//! - Without [`splits`](ReservationsSetting::splits), a client that begins an attempt while another holds the lock or is in
//!   line is heard by all nodes before the lock is released.
//! - A process is frozen while it waits, not while it asks or holds. It is killed at any time, except while a node
//!   reserves the key for it, and gives up likewise: in both cases the reservation passes.
//! - Where not all waiters are woken, only the first and the last are.

mod action;
mod model;
mod node;
mod process;
mod properties;
mod setting;
mod state;
mod symmetry;

pub use self::model::ReservationsModel;
pub use self::properties::{BOUNDED_OVERTAKING, FREE_KEYS_RESERVED, ONE_ORDER, TAKEN_IN_TIME};
pub use self::setting::ReservationsSetting;
