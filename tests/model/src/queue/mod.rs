//! The model of the queues that the nodes keep: waiting processes, reservations and wake-ups
//! ([`lock_core::node::Operation`]).
//!
//! A process makes one attempt after another, each with an owner id of its own, and waits in between. It may leave or die at
//! any step. It decides with the shipped [`Acquisition`](lock_core::quorum::Acquisition). Acquires, confirms and releases may
//! be executed late or never, releases more than once. Reservations pass and positions in a queue are lost at any step. Keys
//! expire at any step, or only when their attempt has ended ([`QueueSetting::validity_holds`]).
//!
//! One property is checked in addition to those of the lock, [`REFINEMENT`]: with a queue, a node grants nothing that it would not
//! grant without one. So everything that holds for nodes without a queue still holds, whatever becomes of the queue. Who gets the
//! lock when is in the model of the reservations ([`ReservationsModel`](crate::ReservationsModel)), which has the same [`Queue`].
//!
//! # Reductions
//!
//! - Every wait has a timer, so a process may try again at any step. A wake-up does no more than that. Settings in which
//!   nothing depends on wake-ups ([`QueueSetting::wakeups`]) leave them out.
//! - A process that dies is the same as one that leaves and whose requests are not executed.
//! - Processes are numbered by how long they have waited, so a queue is a set.
//! - Timeouts and held replies are delivered to an attempt only after it has proposed a token. Before that they lead to
//!   failure or to nothing, and giving up is possible at any step.
//!
//! # Bounds
//!
//! Replies are delivered at once or never; the model without a queue covers late ones. The number of processes, of their
//! attempts, of requests executed after their attempt has ended and of lost positions, and the largest fence, are in the
//! [`QueueSetting`].

mod action;
mod line;
mod model;
mod node;
mod rules;
mod setting;
mod state;
mod symmetry;

pub use self::line::Line;
pub use self::model::{QueueModel, REFINEMENT};
pub use self::rules::{Queue, Waiter};
pub use self::setting::{QueueMutant, QueueSetting};
