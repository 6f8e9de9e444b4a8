use std::time::Duration;

use thiserror::Error;

/// Why a node that can be used does not belong to the set, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotMember {
    /// No set was formed yet.
    #[error("no set was formed yet{}", missing_text(missing))]
    Unformed {
        /// The nodes of the list that do not answer, or cannot be used. Empty if the set is being formed.
        missing: Vec<String>,
    },
    /// More than half of the nodes lost their data.
    #[error(
        "the set lost its data on a majority of its masters; it is formed again when all masters of the list answer and a manager \
         that knew the set runs, or with form_with_missing(true)"
    )]
    MajorityForgot,
    /// It is new, and no seat is free for it.
    #[error("not a member: it is new here, and joins when a majority of the members answers and a seat is free for it")]
    Candidate,
    /// The node's accepted roster names a node that this client does not see.
    #[error(
        "a set is being formed with {addresses}, and not all of them are in this list and still have their data; use the same \
         list everywhere, or delete the record of this master to start over"
    )]
    Contested {
        /// The masters of that set.
        addresses: String,
    },
    /// It has not installed the newest roster yet.
    #[error("not a member yet: the newest roster is being installed, which takes some round trips")]
    Behind,
    /// Another node has its seat.
    #[error(
        "not a member since generation {since}, when another master got its seat; take it off the list, or delete its record to \
         let it join again"
    )]
    Replaced {
        /// The generation of the roster in which it has no seat any more.
        since: u64,
    },
    /// It belongs to another set.
    #[error("it belongs to another set of masters; name the masters of one set, or use another prefix")]
    OtherSet,
    /// The set is for locks that live less long than this client's.
    #[error("max_ttl is {ours:?} here, and {theirs:?} in the set until a majority of its masters accepts the change")]
    MaxTtl {
        /// The longest time to live that this client asks for.
        ours: Duration,
        /// The longest that the set allows.
        theirs: Duration,
    },
}

fn missing_text(missing: &[String]) -> String {
    match missing {
        [] => ": all masters of the list have to accept it, and one of them did not so far".to_owned(),
        names => format!(
            ", and that needs all masters of the list: {} cannot be used; start them, or form the set without them with \
             form_with_missing(true)",
            names.join(", ")
        ),
    }
}
