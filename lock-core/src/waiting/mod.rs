//! Who may try next, and when.
//!
//! The callers of one manager that want the same lock wait in a [`LocalQueue`](local_queue), first come, first served. Only the
//! caller at the front, which has the [`Turn`], talks to the nodes. It takes the lock, and keeps the turn as long as it holds the
//! lock. Then the next caller gets the turn and, where possible, the lock with it ([`Handover`]).
//!
//! A resource with permits has one local queue for all its slots. There, the turn is passed on as soon as a slot is taken, because
//! callers of one manager may hold several slots. A slot that is released is handed to the first that waits
//! ([`LocalHold`]).
//!
//! Between managers, the nodes keep queues ([`Operation`](crate::node::Operation)) in which each manager has one position per
//! lock. The caller at the front waits there ([`NodeWait`](node_wait)) until it is [woken](listening); a timer covers for every
//! wake-up.
//!
//! The local queues know nothing of the nodes, and a wait at the nodes knows nothing of the local queues. A turn joins the two.

mod enter;
mod handover;
mod last_slots;
mod listening;
mod local_queue;
mod node_wait;
mod pending_wakeups;
mod turn;

pub(crate) use self::enter::NotEntered;
pub(crate) use self::handover::HandoverTerms;
pub(crate) use self::local_queue::LastAttempt;
pub(crate) use self::turn::{Handover, LocalHold, Turn, Turns};
