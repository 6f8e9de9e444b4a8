//! Who may try next, and when.
//!
//! The callers of one manager that want the same lock wait in a [`LocalQueue`](local_queue), first come, first served. Only the
//! caller at the front, which has the [`LocalPermit`], talks to the nodes: it takes the lock, and keeps the permit as long as it
//! holds the lock. Then the next caller gets the permit and, where possible, the lock with it ([`Handover`](handover)).
//!
//! A resource with permits has one local queue for all its slots. There, the permit of the queue is passed on as soon as a slot is
//! taken: it is the right to wait, and callers of one manager may hold several slots. A slot that is released is handed to the first
//! that waits ([`LocalHold`](local_hold)).
//!
//! Between managers, the nodes keep queues ([`Operation`](crate::node::Operation)) in which each manager has one position per
//! lock. The caller with the permit waits there until it is [woken](wakeups); a timer covers for every wake-up.

mod handover;
mod last_slots;
mod local_hold;
mod local_queue;
mod local_queues;
mod permit;
mod wakeups;

pub(crate) use self::handover::HandoverTerms;
pub(crate) use self::local_hold::LocalHold;
pub(crate) use self::local_queue::LastAttempt;
pub(crate) use self::local_queues::{Entered, LocalQueues, NotEntered};
pub(crate) use self::permit::{LocalPermit, Woken};
