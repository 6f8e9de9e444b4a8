//! The same for the queue that the nodes keep between processes ([`lock_core::Request`]): who waits, whose turn it is, and calls.
//!
//! A process makes one attempt after the other, each under an owner id of its own, and waits in between; it may leave or die at any
//! step. What it decides is decided by the shipped [`Acquisition`](lock_core::quorum::Acquisition). Acquires, confirms and releases
//! may come late or never, releases more than once; turns lapse and places in a queue are lost at any step, keys end at any step
//! ([`QueueSetting::valid`] tells when).
//!
//! Two things are checked beside the promises: that no rule about the queue lets a node grant what it would not grant without
//! ([`NARROWER`]), so that whatever holds for nodes without a queue holds; and that nobody is stuck ([`SERVED`]).
//!
//! # Reductions
//!
//! - A timer stands behind every wait, so a process may try again at any step. A call does no more; where nothing rests on
//!   calls ([`QueueSetting::calls`]), they are left out.
//! - That a process dies is one with that it leaves and none of its messages comes.
//! - Who waits longer has the smaller number. A queue is a set.
//! - Silence, and that a lock is held, are told to an attempt only after it proposed a number: before, they lead to nothing or to
//!   failure, and to give up is open to it at any step.
//!
//! # Bounds
//!
//! Answers are heard at once or never; that they come late is part of the model without a queue. The number of processes, of their
//! attempts, of messages that are executed when their attempt is over, of places that are lost, and the largest number of a node, are in the
//! [`QueueSetting`].

mod calm;
mod master;
mod setting;
mod state;
mod step;
mod symmetry;
mod waiters;

pub use self::setting::{QueueRules, QueueSetting};
pub use self::waiters::{NARROWER, SERVED, Waiters};
