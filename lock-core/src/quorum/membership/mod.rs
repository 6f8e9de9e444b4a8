//! Who the masters of a set are, and which of them vote.
//!
//! A client reads the records of the nodes in its list and passes them to [`Membership`], which returns what each node is to
//! the client ([`Standing`]) and what is to be done ([`Step`]). A node only compares and sets its record
//! ([`RecordWrite`](crate::node::RecordWrite)), so every rule is in here. Any client may do any step, and every step may fail,
//! be repeated, or be done by several clients at once.
//!
//! # The roster
//!
//! A set has a [`Roster`](crate::node::Roster): its generation, and a seat for each master. A seat belongs to a memory, by its
//! [`MemberId`](crate::node::MemberId), and not to an address: a node that forgot has another id. Votes count only from nodes
//! that have installed the roster that the client counts by, and are seated in it.
//!
//! # A change
//!
//! 1. *Choose* the next roster, which differs in one seat or in `max_ttl`, by single-decree Paxos (L. Lamport, *Paxos Made
//!    Simple*, 2001) among the members of the present one.
//! 2. *Install* it on every node that answers. A node executes no request of an earlier roster after that.
//! 3. *Join* the new member: its fences are raised to the highest fence of a majority of the members of the roster before, each
//!    read after its own install; and its quarantine begins. Other members observe the quarantine, too.
//! 4. *Admit* it when two nodes say that the quarantine is over.
//!
//! Why this is enough for **exclusion**: when the floor is known, a majority has installed the new roster, so no grant or
//! renewal forms under an old one any more. Those that did end within `quarantine_ttl`, before the new member votes. After
//! that, all majorities are majorities of seats that the same memories hold, and two of those share one. For the **order of
//! tokens**: every token of the old roster was counted by one of the nodes whose fences the floor was read from.
//!
//! # Forming a set
//!
//! All nodes of the list have to accept the first roster. A majority would not do: two lists that differ in one node would form
//! two sets.

mod change;
mod forming;
mod knowledge;
mod positions;
mod proposal;
mod servers;
mod standing;
mod upkeep;

#[cfg(test)]
mod tests;

pub use self::change::Change;
pub use self::knowledge::{Membership, MembershipConfig, Step};
pub use self::positions::LogPositions;
pub use self::standing::Standing;
pub use self::upkeep::quarantine_length;
