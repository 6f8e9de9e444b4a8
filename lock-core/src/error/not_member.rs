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
    /// More than half of the nodes lost their data, and this manager knows of it.
    #[error("the set lost its data on a majority of its masters; {}", forming_text(missing))]
    MajorityForgot {
        /// The nodes of the list that do not answer, or cannot be used.
        missing: Vec<String>,
    },
    /// It lost its data, or was restarted without it, and has not got its seat back.
    #[error(
        "it lost its data, or was restarted, and gets its seat back when a majority of the members votes{}",
        silent_text(missing)
    )]
    Forgot {
        /// The nodes of the list that do not answer, or cannot be used.
        missing: Vec<String>,
    },
    /// All nodes of the list answer, and fewer than a majority of the members are among them. This manager does not know whether the
    /// others forgot, or are elsewhere.
    #[error(
        "all masters of the list answer, but of the {seats} members of the set {members} only: if the others lost their data, and are \
         not at other addresses, form the set again with `lockctl form`, or form_with_missing(true)"
    )]
    Emptied {
        /// How many members answer.
        members: usize,
        /// How many seats there are.
        seats: usize,
    },
    /// The set that this manager works with was given up: another one was formed over it.
    #[error(
        "the set was formed again without some of these masters, and its members are {addresses}: name those, and start this service \
         again"
    )]
    FormedOver {
        /// The addresses of the members of the other set.
        addresses: String,
    },
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

fn forming_text(missing: &[String]) -> String {
    match missing {
        [] => "it is being formed again".to_owned(),
        names => format!(
            "it is formed again when {} can be used, or without with `lockctl form` or form_with_missing(true)",
            names.join(" and ")
        ),
    }
}

fn silent_text(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!("; {} cannot be used", missing.join(" and ")) }
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
